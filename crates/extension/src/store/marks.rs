//! Row marks: what has become of cold rows since their group was written.
//!
//! ```text
//!   id  16 + n / 2^31, seq n mod 2^31   mark of row n: deleted, updated to a TID, gone elsewhere
//!   id  4, seq group + 64 k             bitmap of hidden rows among the k-th 16,384 of a group
//!   id  5, seq group                    where the rows of a merged group went
//! ```
//!
//! A mark is an ordinary MVCC tuple of its writer's transaction: who does not see it still sees
//! the row; an abort takes it back. There is at most one live mark per row, because whoever
//! writes one holds the row's lock (or its whole group's) to the end of the transaction and has
//! looked for a mark under that lock. Marks are never taken back otherwise; VACUUM may fold a
//! mark that everybody sees into a bitmap.
//!
//! A bitmap holds rows hidden in bulk, and rows whose marks were folded. It is written by
//! whoever holds the lock on the whole group: replaced (MVCC) by a transaction that hides more,
//! changed in place where the rows are hidden to everybody anyway. Its second half says for which
//! rows no index has an entry any more.
//!
//! Readers pay nothing for groups without marks: see [`GroupFlags`], set before the first mark
//! of a group is written, hence before any snapshot can see it.

use std::ops::{ControlFlow, RangeInclusive};

use howdah_bridge::hot::xmin_of;
use howdah_bridge::store::{Birth, ColdStore, CopiedAs, TupleStamp, Visited};
use howdah_bridge::tid::{ROWS_PER_COLD_BLOCK, RowNumber};
use pgrx::pg_sys;

use super::directory::{self, GroupEntry, GroupFlags, PlacedEntry, fnv1a};
use super::pending_marks;
use super::row_set::RowSet;
use crate::errors::ColdError;
use crate::stop_point;

const BITMAP_ID: u32 = 4;
const FORWARD_ID: u32 = 5;
const FORWARD_BYTES: usize = 32;
const FIRST_MARK_ID: u32 = 16;
const MARK_BYTES: usize = 16;
const SEQ_BITS: u32 = 31;

/// Rows of a group that share a bitmap.
const ROWS_PER_BITMAP: u32 = 16_384;
/// Cold blocks that share a bitmap.
const BLOCKS_PER_BITMAP: u32 = ROWS_PER_BITMAP / ROWS_PER_COLD_BLOCK as u32;
const BITMAP_HALF: usize = ROWS_PER_BITMAP as usize / 8;
const BITMAP_BYTES: usize = 2 * BITMAP_HALF + 8;

/// What a mark says.
#[derive(Clone, Copy, Debug)]
pub enum RowFate {
    Deleted,
    Updated {
        to: pg_sys::ItemPointerData,
        /// Every column that a foreign key may refer to has its old value.
        keeps_key: bool,
    },
    /// The new version is in another partition.
    MovedAway,
}

/// A mark in force: of our own transaction or a committed one.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub fate: RowFate,
    pub xid: pg_sys::TransactionId,
    /// The command that wrote it, if that was our transaction.
    pub own: Option<pg_sys::CommandId>,
}

fn key_of(row: RowNumber) -> (u32, i32) {
    let id = FIRST_MARK_ID + (row.0 >> SEQ_BITS) as u32;
    (id, (row.0 & ((1 << SEQ_BITS) - 1)) as i32)
}

fn row_of(id: u32, seq: i32) -> RowNumber {
    RowNumber((u64::from(id - FIRST_MARK_ID) << SEQ_BITS) | seq as u64)
}

/// The key ranges of the marks of `rows` row numbers from `first` on.
fn key_ranges(first: RowNumber, rows: u32) -> Vec<(u32, RangeInclusive<i32>)> {
    let last = RowNumber(first.0 + u64::from(rows.max(1)) - 1);
    let ((low_id, low), (high_id, high)) = (key_of(first), key_of(last));
    if low_id == high_id {
        vec![(low_id, low..=high)]
    } else {
        vec![(low_id, low..=i32::MAX), (high_id, 0..=high)]
    }
}

fn encode(fate: RowFate) -> [u8; MARK_BYTES] {
    let mut out = [0; MARK_BYTES];
    out[0] = match fate {
        RowFate::Deleted => 1,
        RowFate::Updated { to: tid, keeps_key } => {
            out[1] = u8::from(keeps_key);
            out[2..4].copy_from_slice(&tid.ip_blkid.bi_hi.to_le_bytes());
            out[4..6].copy_from_slice(&tid.ip_blkid.bi_lo.to_le_bytes());
            out[6..8].copy_from_slice(&tid.ip_posid.to_le_bytes());
            2
        }
        RowFate::MovedAway => 3,
    };
    let check = fnv1a(&out[..8]);
    out[8..].copy_from_slice(&check.to_le_bytes());
    out
}

fn decode(group: u32, payload: &[u8]) -> Result<RowFate, ColdError> {
    let half = |at: usize| u16::from_le_bytes([payload[at], payload[at + 1]]);
    if payload.len() != MARK_BYTES || payload[8..] != fnv1a(&payload[..8]).to_le_bytes() {
        return Err(ColdError::DamagedMark { group });
    }
    match payload[0] {
        1 => Ok(RowFate::Deleted),
        2 => Ok(RowFate::Updated {
            to: pg_sys::ItemPointerData {
                ip_blkid: pg_sys::BlockIdData {
                    bi_hi: half(2),
                    bi_lo: half(4),
                },
                ip_posid: half(6),
            },
            keeps_key: payload[1] == 1,
        }),
        3 => Ok(RowFate::MovedAway),
        _ => Err(ColdError::DamagedMark { group }),
    }
}

/// Writes the mark of a row whose lock is held and that has none in force.
pub fn write(
    store: &ColdStore,
    placed: &mut PlacedEntry,
    row: RowNumber,
    fate: RowFate,
    cid: pg_sys::CommandId,
) -> Result<(), ColdError> {
    flag(store, placed, GroupFlags::ROW_MARKS)?;
    let (id, seq) = key_of(row);
    store.insert(id, seq, &encode(fate), cid, Birth::Transactional, None);
    Ok(())
}

/// Sets a flag of the group unless it is known to be set.
fn flag(store: &ColdStore, placed: &mut PlacedEntry, flag: GroupFlags) -> Result<(), ColdError> {
    if !placed.entry.flags.contain(flag) {
        directory::add_flags(store, placed, flag)?;
        stop_point!("group_flagged");
        placed.entry.flags = placed.entry.flags.union(flag);
    }
    Ok(())
}

/// Whether the tuple shown is in force now: of our own transaction, whatever the command, or
/// committed; and not replaced.
fn in_force(shown: &Visited<'_>) -> bool {
    // SAFETY: the page is pinned and share-locked while a tuple is shown.
    unsafe {
        pg_sys::HeapTupleSatisfiesVisibility(
            shown.tuple,
            &raw mut pg_sys::SnapshotSelfData,
            shown.buffer,
        )
    }
}

/// Transaction and, for our own, command that wrote the tuple shown.
fn writer_of(shown: &Visited<'_>) -> (pg_sys::TransactionId, Option<pg_sys::CommandId>) {
    // SAFETY: as for `in_force`.
    unsafe {
        let header = (*shown.tuple).t_data;
        let xid = xmin_of(header);
        let own = pg_sys::TransactionIdIsCurrentTransactionId(xid);
        (xid, own.then(|| pg_sys::HeapTupleHeaderGetCmin(header)))
    }
}

/// The mark of a row that is in force now. The row's lock is held, so that it stays so.
pub fn of_row(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
) -> Result<Option<Mark>, ColdError> {
    if let Some(command) = pending_marks::command_hiding(store, entry, row) {
        return Ok(Some(Mark {
            fate: RowFate::Deleted,
            // SAFETY: a row of this transaction's doing is pending, so it has an id.
            xid: unsafe { pg_sys::GetCurrentTransactionId() },
            own: Some(command),
        }));
    }
    let mut found = Ok(None);
    if entry.flags.contain(GroupFlags::ROW_MARKS) {
        let (id, seq) = key_of(row);
        store.visit(id, seq..=seq, &mut |shown| {
            if !in_force(&shown) {
                return ControlFlow::Continue(());
            }
            let (xid, own) = writer_of(&shown);
            found = decode(entry.group(), shown.payload).map(|fate| Some(Mark { fate, xid, own }));
            ControlFlow::Break(())
        });
    }
    if matches!(found, Ok(None)) && entry.flags.contain(GroupFlags::BITMAPS) {
        return hidden_in_bulk(store, entry, row);
    }
    found
}

/// The mark of a row that another, running transaction has written, and which. Somebody may hold
/// the row's lock at the same time if the two allow each other.
pub fn arriving(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
) -> Result<Option<Mark>, ColdError> {
    let mut found = Ok(None);
    if entry.flags.contain(GroupFlags::ROW_MARKS) {
        let (id, seq) = key_of(row);
        store.visit(id, seq..=seq, &mut |shown| {
            let (xid, own) = writer_of(&shown);
            // SAFETY: a lookup among running transactions.
            if own.is_some() || !unsafe { pg_sys::TransactionIdIsInProgress(xid) } {
                return ControlFlow::Continue(());
            }
            found = decode(entry.group(), shown.payload).map(|fate| Some(Mark { fate, xid, own }));
            ControlFlow::Break(())
        });
    }
    found
}

/// The mark that a bitmap makes of a row. A row that was in the bitmap before our transaction
/// replaced it is none of our doing.
fn hidden_in_bulk(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
) -> Result<Option<Mark>, ColdError> {
    let (seq, at) = bitmap_place(entry, row);
    let (mut found, mut earlier, mut damage) = (None, false, None);
    store.visit(BITMAP_ID, seq..=seq, &mut |shown| {
        let bit = match bitmap_parts(entry.group(), shown.payload) {
            Ok((hidden, _)) => hidden[at / 8] >> (at % 8) & 1 == 1,
            Err(error) => {
                damage = Some(error);
                return ControlFlow::Break(());
            }
        };
        let (xid, own) = writer_of(&shown);
        if in_force(&shown) {
            found = bit.then_some((xid, own));
        } else if bit && own.is_none() {
            // SAFETY: looks at the log of committed transactions.
            earlier |= unsafe {
                xid == pg_sys::FrozenTransactionId || pg_sys::TransactionIdDidCommit(xid)
            };
        }
        ControlFlow::Continue(())
    });
    if let Some(error) = damage {
        return Err(error);
    }
    Ok(found.map(|(xid, own)| Mark {
        fate: RowFate::Deleted,
        xid,
        own: own.filter(|_| !earlier),
    }))
}

fn bitmap_parts(group: u32, payload: &[u8]) -> Result<(&[u8], &[u8]), ColdError> {
    if payload.len() != BITMAP_BYTES
        || payload[2 * BITMAP_HALF..] != fnv1a(&payload[..2 * BITMAP_HALF]).to_le_bytes()
    {
        return Err(ColdError::DamagedMark { group });
    }
    Ok(payload[..2 * BITMAP_HALF].split_at(BITMAP_HALF))
}

/// Whether the snapshot sees every row of a group that it sees.
unsafe fn sees_through_marks(snapshot: pg_sys::Snapshot) -> bool {
    use pg_sys::SnapshotType::{SNAPSHOT_ANY, SNAPSHOT_NON_VACUUMABLE, SNAPSHOT_TOAST};
    // SAFETY: the caller's snapshot is valid.
    let kind = unsafe { (*snapshot).snapshot_type };
    kind == SNAPSHOT_ANY || kind == SNAPSHOT_NON_VACUUMABLE || kind == SNAPSHOT_TOAST
}

/// Whether the row is hidden from the snapshot. A dirty snapshot is told who is about to hide it.
///
/// # Safety
/// `snapshot` is valid.
pub unsafe fn hides(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
    snapshot: pg_sys::Snapshot,
) -> Result<bool, ColdError> {
    // SAFETY: as for this function.
    unsafe {
        if entry.flags.are_clear() || sees_through_marks(snapshot) {
            return Ok(false);
        }
        let kind = (*snapshot).snapshot_type;
        let mvcc = kind == pg_sys::SnapshotType::SNAPSHOT_MVCC;
        if let Some(command) = pending_marks::command_hiding(store, entry, row)
            && (!mvcc || command < (*snapshot).curcid)
        {
            return Ok(true);
        }
        let dirty = (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_DIRTY;
        let (mut hidden, mut damage) = (false, None);
        let sees = |shown: &Visited<'_>| {
            if !dirty {
                return store.visible(shown.tuple, shown.buffer, snapshot);
            }
            let mut own = *snapshot;
            let visible = pg_sys::HeapTupleSatisfiesVisibility(shown.tuple, &mut own, shown.buffer);
            if visible && own.xmin != pg_sys::InvalidTransactionId {
                // Being hidden by a running transaction: to be waited for.
                (*snapshot).xmax = own.xmin;
                return false;
            }
            visible
        };
        if entry.flags.contain(GroupFlags::ROW_MARKS) {
            let (id, seq) = key_of(row);
            store.visit(id, seq..=seq, &mut |shown| {
                hidden |= sees(&shown);
                ControlFlow::Continue(())
            });
        }
        if !hidden && entry.flags.contain(GroupFlags::BITMAPS) {
            let (seq, at) = bitmap_place(entry, row);
            store.visit(BITMAP_ID, seq..=seq, &mut |shown| {
                match bitmap_parts(entry.group(), shown.payload) {
                    Ok((bits, _)) if bits[at / 8] >> (at % 8) & 1 == 1 => hidden |= sees(&shown),
                    Ok(_) => {}
                    Err(error) => damage = Some(error),
                }
                ControlFlow::Continue(())
            });
        }
        match damage {
            Some(error) => Err(error),
            None => Ok(hidden),
        }
    }
}

/// The rows of a group that are hidden from the snapshot, by position; `None` if there are none.
///
/// # Safety
/// `snapshot` is valid.
pub unsafe fn hidden_from(
    store: &ColdStore,
    entry: &GroupEntry,
    snapshot: pg_sys::Snapshot,
) -> Result<Option<RowSet>, ColdError> {
    // SAFETY: as for this function.
    unsafe {
        if entry.flags.are_clear() || sees_through_marks(snapshot) {
            return Ok(None);
        }
        if (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_DIRTY {
            // What is about to be hidden is to be shown, along with who does it.
            return hidden_now(store, entry);
        }
        let mvcc = (*snapshot).snapshot_type == pg_sys::SnapshotType::SNAPSHOT_MVCC;
        let curcid = (*snapshot).curcid;
        let stored = hidden_where(store, entry, &mut |shown| {
            store.visible(shown.tuple, shown.buffer, snapshot)
        })?;
        Ok(with_pending(store, entry, stored, |command| {
            !mvcc || command < curcid
        }))
    }
}

/// Adds rows that are hidden in memory only.
fn with_pending(
    store: &ColdStore,
    entry: &GroupEntry,
    stored: Option<RowSet>,
    sees: impl Fn(pg_sys::CommandId) -> bool,
) -> Option<RowSet> {
    if !pending_marks::any() {
        return stored;
    }
    let mut rows = stored.unwrap_or_else(|| RowSet::with_bound(entry.capacity_rows));
    pending_marks::add_to(store, entry, &mut rows, sees);
    (!rows.is_empty()).then_some(rows)
}

/// The rows of a group that are hidden now: by our own transaction or a committed one.
pub fn hidden_now(store: &ColdStore, entry: &GroupEntry) -> Result<Option<RowSet>, ColdError> {
    let stored = hidden_where(store, entry, &mut |shown| in_force(shown))?;
    Ok(with_pending(store, entry, stored, |_| true))
}

/// The rows of a group that another, running transaction is about to hide.
pub fn arriving_in(store: &ColdStore, entry: &GroupEntry) -> Result<Option<RowSet>, ColdError> {
    hidden_where(store, entry, &mut |shown| {
        let (xid, own) = writer_of(shown);
        // SAFETY: a lookup among running transactions.
        own.is_none() && unsafe { pg_sys::TransactionIdIsInProgress(xid) }
    })
}

/// The rows of a group that are hidden by marks and bitmaps that `judge` wants.
pub fn hidden_where(
    store: &ColdStore,
    entry: &GroupEntry,
    judge: &mut dyn FnMut(&Visited<'_>) -> bool,
) -> Result<Option<RowSet>, ColdError> {
    let mut hidden = RowSet::with_bound(entry.capacity_rows);
    let first = entry.first_row.0;
    if entry.flags.contain(GroupFlags::ROW_MARKS) {
        for (id, seqs) in key_ranges(entry.first_row, entry.capacity_rows) {
            store.visit(id, seqs, &mut |shown| {
                if judge(&shown) {
                    hidden.insert((row_of(id, shown.seq).0 - first) as u32);
                }
                ControlFlow::Continue(())
            });
            pgrx::check_for_interrupts!();
        }
    }
    let mut damage = None;
    if entry.flags.contain(GroupFlags::BITMAPS) {
        store.visit(BITMAP_ID, bitmaps_of(entry), &mut |shown| {
            if !judge(&shown) {
                return ControlFlow::Continue(());
            }
            match bitmap_parts(entry.group(), shown.payload) {
                Ok((bits, _)) => insert_bits(entry, shown.seq, bits, &mut hidden),
                Err(error) => damage = Some(error),
            }
            ControlFlow::Continue(())
        });
    }
    match damage {
        Some(error) => Err(error),
        None => Ok((!hidden.is_empty()).then_some(hidden)),
    }
}

/// The rows of a group that no index knows any more.
pub fn cleaned(store: &ColdStore, entry: &GroupEntry) -> Result<RowSet, ColdError> {
    let mut cleaned = RowSet::with_bound(entry.capacity_rows);
    let mut damage = None;
    if entry.flags.contain(GroupFlags::BITMAPS) {
        store.visit(BITMAP_ID, bitmaps_of(entry), &mut |shown| {
            if in_force(&shown) {
                match bitmap_parts(entry.group(), shown.payload) {
                    Ok((_, bits)) => insert_bits(entry, shown.seq, bits, &mut cleaned),
                    Err(error) => damage = Some(error),
                }
            }
            ControlFlow::Continue(())
        });
    }
    damage.map_or(Ok(cleaned), Err)
}

/// Puts the bits of the bitmap with this key among the rows of its group.
fn insert_bits(entry: &GroupEntry, seq: i32, bits: &[u8], rows: &mut RowSet) {
    let start = (seq as u32 - entry.group()) / BLOCKS_PER_BITMAP * ROWS_PER_BITMAP;
    for position in RowSet::from_bytes(bits).iter().map(|row| start + row) {
        if position < entry.capacity_rows {
            rows.insert(position);
        }
    }
}

/// A bitmap's bytes.
struct Bitmap {
    bytes: Vec<u8>,
}

impl Bitmap {
    fn empty() -> Bitmap {
        Bitmap {
            bytes: vec![0; BITMAP_BYTES],
        }
    }

    fn hide(&mut self, at: u32) {
        self.bytes[at as usize / 8] |= 1 << (at % 8);
    }

    fn note_as_cleaned(&mut self, at: u32) {
        self.bytes[BITMAP_HALF + at as usize / 8] |= 1 << (at % 8);
    }

    fn seal(mut self) -> Vec<u8> {
        let check = fnv1a(&self.bytes[..2 * BITMAP_HALF]);
        self.bytes[2 * BITMAP_HALF..].copy_from_slice(&check.to_le_bytes());
        self.bytes
    }
}

/// A bitmap in force.
struct KnownBitmap {
    tid: pg_sys::ItemPointerData,
    bitmap: Bitmap,
    /// The command that wrote it, if that was our transaction.
    own: Option<pg_sys::CommandId>,
}

/// The bitmap with this key that is in force.
fn bitmap_in_force(
    store: &ColdStore,
    entry: &GroupEntry,
    seq: i32,
) -> Result<Option<KnownBitmap>, ColdError> {
    let mut found = Ok(None);
    store.visit(BITMAP_ID, seq..=seq, &mut |shown| {
        if !in_force(&shown) {
            return ControlFlow::Continue(());
        }
        found = bitmap_parts(entry.group(), shown.payload).map(|_| {
            let bytes = shown.payload.to_vec();
            Some(KnownBitmap {
                // SAFETY: the tuple is shown right now.
                tid: unsafe { (*shown.tuple).t_self },
                bitmap: Bitmap { bytes },
                own: writer_of(&shown).1,
            })
        });
        ControlFlow::Break(())
    });
    found
}

/// Splits rows by the bitmaps they belong to: key, and places in it.
fn by_bitmap(entry: &GroupEntry, rows: &RowSet) -> Vec<(i32, Vec<u32>)> {
    let mut parts: Vec<(i32, Vec<u32>)> = Vec::new();
    for position in rows.iter() {
        let seq = (entry.group() + position / ROWS_PER_BITMAP * BLOCKS_PER_BITMAP) as i32;
        let at = position % ROWS_PER_BITMAP;
        match parts.last_mut() {
            Some((last, places)) if *last == seq => places.push(at),
            _ => parts.push((seq, vec![at])),
        }
    }
    parts
}

/// Adds rows that are hidden from everybody, and that no index knows, to the group's bitmaps:
/// outside of any transaction. The whole group is locked.
pub fn fold(store: &ColdStore, placed: &PlacedEntry, rows: &RowSet) -> Result<(), ColdError> {
    let mut placed = *placed;
    flag(store, &mut placed, GroupFlags::BITMAPS)?;
    for (seq, places) in by_bitmap(&placed.entry, rows) {
        let known = bitmap_in_force(store, &placed.entry, seq)?;
        let (tid, mut bitmap) = match known {
            Some(known) => (Some(known.tid), known.bitmap),
            None => (None, Bitmap::empty()),
        };
        for at in places {
            bitmap.hide(at);
            bitmap.note_as_cleaned(at);
        }
        let payload = bitmap.seal();
        match tid {
            Some(tid) => store.overwrite(tid, &payload),
            None => {
                let cid = pg_sys::CommandId::from(pg_sys::FirstCommandId);
                store.insert(BITMAP_ID, seq, &payload, cid, Birth::Frozen, None);
            }
        }
    }
    Ok(())
}

/// Lets readers know that bitmaps of this group may follow.
pub fn announce_bitmaps(store: &ColdStore, placed: &mut PlacedEntry) -> Result<(), ColdError> {
    flag(store, placed, GroupFlags::BITMAPS)
}

/// Hides rows in bulk, in the running transaction. The whole group is locked.
pub fn hide_in_bulk(
    store: &ColdStore,
    placed: &mut PlacedEntry,
    rows: &RowSet,
    cid: pg_sys::CommandId,
) -> Result<(), ColdError> {
    flag(store, placed, GroupFlags::BITMAPS)?;
    for (seq, places) in by_bitmap(&placed.entry, rows) {
        let known = bitmap_in_force(store, &placed.entry, seq)?;
        let hide = |mut bitmap: Bitmap| {
            places.iter().for_each(|&at| bitmap.hide(at));
            bitmap.seal()
        };
        match known {
            // Of the same command: nobody sees the one without the other.
            Some(known) if known.own == Some(cid) => {
                store.overwrite(known.tid, &hide(known.bitmap));
            }
            Some(known) => {
                store.delete(known.tid);
                let payload = hide(known.bitmap);
                store.insert(BITMAP_ID, seq, &payload, cid, Birth::Transactional, None);
            }
            None => {
                let payload = hide(Bitmap::empty());
                store.insert(BITMAP_ID, seq, &payload, cid, Birth::Transactional, None);
            }
        }
        stop_point!("bitmap_written");
    }
    Ok(())
}

/// Where the rows of a merged group went.
pub enum Route<'a> {
    /// From this number on, in their order, but for some that went nowhere.
    InOrder {
        first: RowNumber,
        dropped: Option<&'a RowSet>,
    },
    /// Each to its own place, counted from this number; [`Route::DROPPED`] is none.
    Scattered { first: RowNumber, places: Vec<u32> },
}

impl Route<'_> {
    pub const DROPPED: u32 = u32::MAX;
}

/// Notes where the rows of a merged group went.
pub fn forward(store: &ColdStore, group: u32, route: &Route<'_>, cid: pg_sys::CommandId) {
    let (kind, first, table) = match route {
        Route::InOrder { first, dropped } => (0_u32, first, dropped.map(RowSet::to_bytes)),
        Route::Scattered { first, places } => {
            let bytes = places.iter().flat_map(|place| place.to_le_bytes());
            (1, first, Some(bytes.collect::<Vec<u8>>()))
        }
    };
    let value_id = table
        .as_ref()
        .map_or(0, |bytes| store.write_value(&[bytes], cid));
    let value_bytes = table.map_or(0, |bytes| bytes.len() as u32);
    let mut payload = [0; FORWARD_BYTES];
    payload[..8].copy_from_slice(&first.0.to_le_bytes());
    payload[8..12].copy_from_slice(&value_id.to_le_bytes());
    payload[12..16].copy_from_slice(&value_bytes.to_le_bytes());
    payload[16..20].copy_from_slice(&kind.to_le_bytes());
    let check = fnv1a(&payload[..24]);
    payload[24..].copy_from_slice(&check.to_le_bytes());
    let transactional = Birth::Transactional;
    store.insert(FORWARD_ID, group as i32, &payload, cid, transactional, None);
}

/// Where a row of a merged group is now, and who has moved it.
pub fn forwarded(
    store: &ColdStore,
    group: u32,
    row: RowNumber,
) -> Result<Option<(RowNumber, pg_sys::TransactionId)>, ColdError> {
    let mut found = None;
    store.visit(FORWARD_ID, group as i32..=group as i32, &mut |shown| {
        if !in_force(&shown) {
            return ControlFlow::Continue(());
        }
        found = Some((shown.payload.to_vec(), writer_of(&shown).0));
        ControlFlow::Break(())
    });
    let Some((bytes, by)) = found else {
        return Ok(None);
    };
    if bytes.len() != FORWARD_BYTES || bytes[24..] != fnv1a(&bytes[..24]).to_le_bytes() {
        return Err(ColdError::DamagedMark { group });
    }
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
    let first = u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default());
    let (value_id, value_bytes, kind) = (word(8), word(12), word(16));
    let mut table = vec![0; value_bytes as usize];
    if value_id != 0 {
        store.read_value(value_id, 0, &mut table)?;
    }
    let position = (row.cold_block() - group) * ROWS_PER_COLD_BLOCK as u32
        + (row.0 % ROWS_PER_COLD_BLOCK) as u32;
    let place = if kind == 1 {
        let at = position as usize * 4;
        let place = table.get(at..at + 4).and_then(|b| b.try_into().ok());
        place.map_or(Route::DROPPED, u32::from_le_bytes)
    } else {
        let dropped = RowSet::from_bytes(&table);
        if dropped.contains(position) {
            Route::DROPPED
        } else {
            position - dropped.count_below(position)
        }
    };
    Ok((place != Route::DROPPED).then(|| (RowNumber(first + u64::from(place)), by)))
}

/// Where every mark, bitmap and forward is, for sweeping.
#[derive(Clone, Copy, Debug)]
pub enum Trace {
    /// A mark of one row.
    Row(RowNumber),
    /// A bitmap of rows from this one on.
    Bitmap(RowNumber),
    /// A forward of the group that begins with this row; the value that lists dropped rows.
    Forward(RowNumber, Option<u32>),
}

/// Shows every mark, bitmap and forward that is in force, of row numbers below `end`.
pub fn for_each_trace(
    store: &ColdStore,
    end: u64,
    mut show: impl FnMut(pg_sys::ItemPointerData, Trace) -> ControlFlow<()>,
) {
    let block_start = |seq: i32| RowNumber(seq as u64 * ROWS_PER_COLD_BLOCK);
    let last = RowNumber(end.max(1) - 1);
    for id in FIRST_MARK_ID..=key_of(last).0 {
        visit_in_force(store, id, &mut |tid, seq, _| {
            show(tid, Trace::Row(row_of(id, seq)))
        });
    }
    visit_in_force(store, BITMAP_ID, &mut |tid, seq, _| {
        show(tid, Trace::Bitmap(block_start(seq)))
    });
    visit_in_force(store, FORWARD_ID, &mut |tid, seq, payload| {
        let id = payload.get(8..12).and_then(|b| b.try_into().ok());
        let id = id.map(u32::from_le_bytes).filter(|&id| id != 0);
        show(tid, Trace::Forward(block_start(seq), id))
    });
}

/// Takes a tuple's place, the second part of its key, and its payload.
type ShowInForce<'a> = dyn FnMut(pg_sys::ItemPointerData, i32, &[u8]) -> ControlFlow<()> + 'a;

fn visit_in_force(store: &ColdStore, id: u32, show: &mut ShowInForce<'_>) {
    store.visit(id, 0..=i32::MAX, &mut |shown| {
        if !in_force(&shown) {
            return ControlFlow::Continue(());
        }
        // SAFETY: the tuple is shown right now.
        let tid = unsafe { (*shown.tuple).t_self };
        show(tid, shown.seq, shown.payload)
    });
}

/// The rows of a group that bitmaps in force hide.
pub fn folded(store: &ColdStore, entry: &GroupEntry) -> Result<RowSet, ColdError> {
    let bitmaps_only = GroupEntry {
        flags: entry.flags.without(GroupFlags::ROW_MARKS),
        ..*entry
    };
    Ok(hidden_now(store, &bitmaps_only)?.unwrap_or_default())
}

/// Copies a group's marks and bitmaps into another store as they are, but for dead ones.
pub fn copy(
    from: &ColdStore,
    to: &ColdStore,
    entry: &GroupEntry,
    cid: pg_sys::CommandId,
    horizon: pg_sys::TransactionId,
) {
    let mut ranges = vec![(BITMAP_ID, bitmaps_of(entry))];
    ranges.extend(key_ranges(entry.first_row, entry.capacity_rows));
    for (id, seqs) in ranges {
        let mut found = Vec::new();
        from.visit(id, seqs, &mut |shown| {
            // SAFETY: the page is pinned and share-locked while the tuple is shown.
            unsafe {
                let fate = pg_sys::HeapTupleSatisfiesVacuum(shown.tuple, horizon, shown.buffer);
                if fate != pg_sys::HTSV_Result::HEAPTUPLE_DEAD {
                    let stamp = TupleStamp::of(shown.tuple);
                    found.push((shown.seq, shown.payload.to_vec(), stamp));
                }
            }
            ControlFlow::Continue(())
        });
        for (seq, payload, stamp) in found {
            let copied_as = CopiedAs::Stamped(stamp, horizon);
            to.insert_copy(id, seq, &payload, cid, copied_as, None);
            pgrx::check_for_interrupts!();
        }
    }
}

/// What has become of the marked rows of a group, judged for maintenance.
pub struct RowFates {
    /// Hidden from everybody.
    pub gone: RowSet,
    /// Hidden by our own transaction or a committed one; old snapshots may see them.
    pub dead: RowSet,
    /// Being hidden by a running transaction.
    pub leaving: RowSet,
    /// One of these running transactions.
    pub leaving_with: Option<pg_sys::TransactionId>,
}

/// Judges every mark of a group; `horizon` is the oldest transaction that a snapshot may need.
pub fn fates(
    store: &ColdStore,
    entry: &GroupEntry,
    horizon: pg_sys::TransactionId,
) -> Result<RowFates, ColdError> {
    let writer_status = |shown: &Visited<'_>| {
        let (xid, own) = writer_of(shown);
        // SAFETY: lookups of transaction status, in the order of heap's visibility rules.
        unsafe {
            if own.is_some() {
                Status::Committed
            } else if xid == pg_sys::FrozenTransactionId {
                Status::Old
            } else if pg_sys::TransactionIdIsInProgress(xid) {
                Status::Running(xid)
            } else if !pg_sys::TransactionIdDidCommit(xid) {
                Status::Void
            } else if pg_sys::TransactionIdPrecedes(xid, horizon) {
                Status::Old
            } else {
                Status::Committed
            }
        }
    };
    let mut leaving_with = None;
    let mut where_status = |wanted: fn(&Status) -> bool| {
        hidden_where(store, entry, &mut |shown| {
            let status = writer_status(shown);
            if let Status::Running(xid) = status {
                leaving_with = Some(xid);
            }
            wanted(&status)
        })
    };
    // In this order: a transaction that commits meanwhile is then found dead as well.
    let leaving = where_status(|status| matches!(status, Status::Running(_)))?.unwrap_or_default();
    let dead = where_status(|status| matches!(status, Status::Committed))?;
    let dead = with_pending(store, entry, dead, |_| true).unwrap_or_default();
    let gone = where_status(|status| matches!(status, Status::Old))?.unwrap_or_default();
    Ok(RowFates {
        gone,
        dead,
        leaving,
        leaving_with,
    })
}

/// What became of the writer of a mark.
enum Status {
    /// Committed, and everybody's snapshot knows it.
    Old,
    /// Committed, or our own.
    Committed,
    Running(pg_sys::TransactionId),
    /// Aborted.
    Void,
}

/// The keys of a group's bitmaps.
fn bitmaps_of(entry: &GroupEntry) -> RangeInclusive<i32> {
    let last = entry.capacity_rows.max(1) - 1;
    let first = entry.group() as i32;
    first..=first + (last / ROWS_PER_BITMAP * BLOCKS_PER_BITMAP) as i32
}

/// The bitmap that holds a row of the group, and the row's place in it.
fn bitmap_place(entry: &GroupEntry, row: RowNumber) -> (i32, usize) {
    let position = (row.0 - entry.first_row.0) as u32;
    let nth = position / ROWS_PER_BITMAP;
    (
        (entry.group() + nth * BLOCKS_PER_BITMAP) as i32,
        (position % ROWS_PER_BITMAP) as usize,
    )
}
