//! The directory of row groups and the high-water mark of row numbers.
//!
//! An entry's key is the first cold block of its range, so the group of a row is the entry
//! with the greatest key not above the row's cold block: one index descent.
//!
//! The high-water mark is one frozen tuple that is changed in place; it does not depend on whether
//! the transactions that advance it commit. It goes back only by the unused tail of the range for
//! which it was last advanced, to which no index entry can point.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::slot::Origin;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::{Birth, ColdStore, CopiedAs, Entry, Judge, StoreId};
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{
    BlockNumber, INVALID_BLOCK, ROW_NUMBER_LIMIT, ROWS_PER_COLD_BLOCK, RowNumber, Tid,
};
use howdah_bridge::xid::{CommandId, FIRST_COMMAND, LocalXid};

use super::cache::directory_listings;
use super::cache::settled_entries::{self, ByBlock, Watch};
use super::directory_version;
use crate::errors::ColdError;

const DIRECTORY_ID: u32 = 1;
const HIGH_WATER_ID: u32 = 2;
const ENTRY_VERSION: u32 = 2;
const ENTRY_BYTES: usize = 56;
const HIGH_WATER_BYTES: usize = 16;

/// Where a row group is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// Reserved by a load; its rows are in the loading backend's memory.
    Loading,
    /// Written.
    Stored,
}

/// What the directory says about one row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    pub state: GroupState,
    pub first_row: RowNumber,
    /// Row numbers reserved; a multiple of [`ROWS_PER_COLD_BLOCK`].
    pub capacity_rows: u32,
    pub row_count: u32,
    pub value_id: u32,
    /// Where the value begins: a hint, which is void once the TOAST relation was rewritten.
    pub first_block: BlockNumber,
    pub footer_bytes: u32,
    pub body_bytes: u64,
    /// The transaction that inserted the group; not stored, but taken from the entry's tuple.
    pub origin: Origin,
    /// What else the store records of the group's rows; flags are only ever added.
    pub flags: GroupFlags,
}

/// What a reader must look for before it returns rows of a group. A flag is set in place, outside
/// of any transaction, before the first record that it announces is written, and is never cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFlags(u32);

impl GroupFlags {
    /// There may be marks of single rows.
    pub const ROW_MARKS: GroupFlags = GroupFlags(1);
    /// There may be deletion vectors of hidden rows.
    pub const DELETION_VECTORS: GroupFlags = GroupFlags(2);
    /// There may be lists of rows that are younger than the group.
    pub const RECENT_INSERTS: GroupFlags = GroupFlags(4);
    /// The group was filled by moving rows that every snapshot saw.
    pub const MOVED_ROWS: GroupFlags = GroupFlags(8);

    pub fn contain(self, other: GroupFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether every row of the group is visible to each snapshot that sees the group.
    pub fn are_clear(self) -> bool {
        self.without(GroupFlags::MOVED_ROWS).0 == 0
    }

    pub fn without(self, other: GroupFlags) -> GroupFlags {
        GroupFlags(self.0 & !other.0)
    }

    pub fn union(self, other: GroupFlags) -> GroupFlags {
        GroupFlags(self.0 | other.0)
    }
}

impl GroupEntry {
    /// The group's id: its first cold block.
    pub fn group(&self) -> u32 {
        self.first_row.cold_block()
    }

    /// The row's position inside the group, if the group holds it.
    #[inline]
    pub fn position_of(&self, row: RowNumber) -> Option<u32> {
        let position = row.0.checked_sub(self.first_row.0)?;
        (position < u64::from(self.row_count)).then_some(position as u32)
    }

    /// Whether the number lies in the reserved range, filled or not.
    pub fn covers(&self, row: RowNumber) -> bool {
        row.0 >= self.first_row.0 && row.0 < self.first_row.0 + u64::from(self.capacity_rows)
    }

    fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        let state: u32 = match self.state {
            GroupState::Loading => 0,
            GroupState::Stored => 1,
        };
        out[0..4].copy_from_slice(&ENTRY_VERSION.to_le_bytes());
        out[4..8].copy_from_slice(&state.to_le_bytes());
        out[8..16].copy_from_slice(&self.first_row.0.to_le_bytes());
        out[16..20].copy_from_slice(&self.capacity_rows.to_le_bytes());
        out[20..24].copy_from_slice(&self.row_count.to_le_bytes());
        out[24..28].copy_from_slice(&self.value_id.to_le_bytes());
        out[28..32].copy_from_slice(&self.footer_bytes.to_le_bytes());
        out[32..40].copy_from_slice(&self.body_bytes.to_le_bytes());
        out[40..44].copy_from_slice(&self.flags.0.to_le_bytes());
        out[44..48].copy_from_slice(&self.first_block.to_le_bytes());
        let check = fnv1a(&out[..48]);
        out[48..56].copy_from_slice(&check.to_le_bytes());
        out
    }

    fn decode(seq: i32, bytes: &[u8]) -> Result<GroupEntry, ColdError> {
        let damaged = ColdError::DamagedDirectory { group: seq as u32 };
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        if bytes.len() != ENTRY_BYTES || long(48) != fnv1a(&bytes[..48]) || word(0) != ENTRY_VERSION
        {
            return Err(damaged);
        }
        let state = match word(4) {
            0 => GroupState::Loading,
            1 => GroupState::Stored,
            _ => return Err(damaged),
        };
        let entry = GroupEntry {
            state,
            first_row: RowNumber(long(8)),
            capacity_rows: word(16),
            row_count: word(20),
            value_id: word(24),
            first_block: word(44),
            footer_bytes: word(28),
            body_bytes: long(32),
            origin: Origin::FROZEN,
            flags: GroupFlags(word(40)),
        };
        let sound = entry.first_row.0 < ROW_NUMBER_LIMIT
            && entry.first_row.cold_block() == seq as u32
            && entry.row_count <= entry.capacity_rows
            && entry.capacity_rows as usize <= howdah_columnar::MAX_ROWS;
        if sound { Ok(entry) } else { Err(damaged) }
    }
}

/// FNV-1a, 64 bits: enough to notice damage in 48 bytes.
pub(super) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &b| {
        (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

/// A directory entry together with its place, at which it can be completed or deleted.
#[derive(Clone, Copy, Debug)]
pub struct PlacedEntry {
    pub entry: GroupEntry,
    pub tid: Tid,
}

fn placed(found: &Entry) -> Result<PlacedEntry, ColdError> {
    let entry = GroupEntry::decode(found.seq, &found.payload)?;
    Ok(PlacedEntry {
        entry: GroupEntry {
            origin: found.origin,
            ..entry
        },
        tid: found.tid,
    })
}

pub(super) fn visible_to(
    store: &ColdStore<'_>,
    snapshot: Snapshot<'_>,
) -> impl FnMut(ShownTuple<'_>) -> bool {
    move |tuple| store.visible(tuple, snapshot)
}

/// The row groups whose entries the snapshot sees, ascending. Groups that are still loading are
/// among them if the snapshot sees their transaction, which is our own then.
pub fn groups(store: &ColdStore, snapshot: Snapshot<'_>) -> Result<Vec<PlacedEntry>, ColdError> {
    if !snapshot.is_mvcc() {
        return groups_where(store, &mut visible_to(store, snapshot));
    }
    if let Some(known) = directory_listings::recall(store, snapshot) {
        return known;
    }
    let groups = groups_where(store, &mut visible_to(store, snapshot))?;
    directory_listings::remember(store, &groups)?;
    Ok(groups)
}

/// The entry at a remembered place, if it is still there and `judge` accepts it.
pub(super) fn placed_at(
    store: &ColdStore,
    tid: Tid,
    seq: i32,
    judge: &mut Judge<'_>,
) -> Option<Result<PlacedEntry, ColdError>> {
    let entry = store.entry_at(tid, DIRECTORY_ID, seq, judge)?;
    Some(placed(&entry))
}

/// Discards the places of entries of a file that is truncated in place.
pub(super) fn forget_file(file: StoreId) {
    PLACES.with_borrow_mut(|places| places.retain(|(of, _), _| *of != file));
}

/// The row groups whose directory tuples `judge` accepts, ascending.
pub fn groups_where(
    store: &ColdStore,
    judge: &mut Judge<'_>,
) -> Result<Vec<PlacedEntry>, ColdError> {
    let mut out = Vec::new();
    let mut failure = None;
    store.scan_entries(
        DIRECTORY_ID,
        0..=i32::MAX,
        false,
        judge,
        |found| match placed(&found) {
            Ok(entry) => {
                out.push(entry);
                ControlFlow::Continue(())
            }
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        },
    );
    failure.map_or(Ok(out), Err)
}

/// The group that covers `row`, if the snapshot sees it. A dirty snapshot is filled in as
/// `HeapTupleSatisfiesDirty` does for the entry.
pub fn group_of(
    store: &ColdStore,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Result<Option<PlacedEntry>, ColdError> {
    let mvcc = snapshot.is_mvcc();
    let xmin = mvcc.then(|| snapshot.xmin());
    if xmin.is_some()
        && let Some(placed) = settled_entries::recall(store, row, xmin)
    {
        return Ok(Some(placed));
    }
    if settled_entries::is_gap(store, row) {
        return Ok(None);
    }
    let mut watch = Watch::begin(store);
    let mut judge = |tuple: ShownTuple<'_>| {
        let seen = store.visible(tuple, snapshot);
        if seen && mvcc {
            watch.look(tuple);
        }
        seen
    };
    let found = match recall(store, row, &mut judge) {
        Some(found) => Some(found?),
        // An entry that the snapshot does not see does not cover the row, and neither does an entry
        // below the one that it sees.
        None if mvcc => nearest_entry(store, row, &mut judge)?,
        None => match nearest_group(store, row) {
            Some(nearest) => entry_covering(store, nearest, row, &mut judge)?,
            None => None,
        },
    };
    match &found {
        Some(placed) => watch.note(store, placed),
        None if mvcc => {
            if let Some(blocks) = gap_around(store, row) {
                watch.note_gap(store, blocks);
            }
        }
        None => {}
    }
    Ok(found)
}

/// The range of cold blocks around a row that no entry covers, not even an invisible one; `None` if
/// an entry covers the row.
fn gap_around(store: &ColdStore, row: RowNumber) -> Option<Range<u32>> {
    let block = row.cold_block();
    let mut any = |_: ShownTuple<'_>| true;
    let (mut below, mut start) = (None, Some(0));
    // Several tuples may have the same key.
    store.scan_entries(DIRECTORY_ID, 0..=block as i32, true, &mut any, |entry| {
        if below.is_some_and(|seq| seq != entry.seq) {
            return ControlFlow::Break(());
        }
        below = Some(entry.seq);
        start = match (start, placed(&entry)) {
            (Some(start), Ok(found)) => {
                let rows = found.entry.first_row.0 + u64::from(found.entry.capacity_rows);
                Some(start.max(rows.div_ceil(ROWS_PER_COLD_BLOCK) as u32))
            }
            _ => None,
        };
        ControlFlow::Continue(())
    });
    let mut end = u32::MAX;
    store.scan_entries(
        DIRECTORY_ID,
        block as i32 + 1..=i32::MAX,
        false,
        &mut any,
        |entry| {
            end = entry.seq as u32;
            ControlFlow::Break(())
        },
    );
    start
        .filter(|&start| start <= block)
        .map(|start| start..end)
}

/// The entry that covers the row and is in force for every snapshot, if it is remembered.
pub fn settled(store: &ColdStore, row: RowNumber) -> Option<PlacedEntry> {
    settled_entries::recall(store, row, None)
}

/// Where an entry was found before.
#[derive(Clone, Copy)]
struct Place {
    /// The first cold block after its range.
    end: u32,
    tid: Tid,
    /// The transaction that last saw the place inside the file. Until it ends, its lock on the
    /// relation keeps the file from being truncated.
    seen_by: LocalXid,
}

/// The number of entries that are remembered.
const MOST_PLACES: usize = 4_096;

thread_local! {
    /// Hints by file and group. Each use checks the tuple that is there: VACUUM may have removed
    /// the entry.
    static PLACES: RefCell<ByBlock<Place>> = const { RefCell::new(BTreeMap::new()) };
}

/// The entry that covers the row, by a remembered place; `None` if there is no such entry at it.
fn recall(
    store: &ColdStore,
    row: RowNumber,
    judge: &mut Judge<'_>,
) -> Option<Result<PlacedEntry, ColdError>> {
    let (file, block) = (store.id(), row.cold_block());
    let (group, place) = PLACES.with_borrow_mut(|places| {
        let mut below = places.range_mut((file, 0)..=(file, block));
        let ((_, group), place) = below.next_back()?;
        if block >= place.end {
            return None;
        }
        if place.seen_by != LocalXid::current() {
            // VACUUM may have truncated the file.
            if !store.toast().has_block(place.tid.block()) {
                return None;
            }
            place.seen_by = LocalXid::current();
        }
        Some((*group, *place))
    })?;
    let seq = group as i32;
    match placed_at(store, place.tid, seq, judge)? {
        Ok(found) => found.entry.covers(row).then_some(Ok(found)),
        Err(error) => Some(Err(error)),
    }
}

fn remember(store: &ColdStore, found: &PlacedEntry) {
    let place = Place {
        end: found.entry.group() + found.entry.capacity_rows / ROWS_PER_COLD_BLOCK as u32,
        tid: found.tid,
        seen_by: LocalXid::current(),
    };
    PLACES.with_borrow_mut(|places| {
        if places.len() >= MOST_PLACES {
            places.clear();
        }
        places.insert((store.id(), found.entry.group()), place);
    });
}

/// The id of the group that covers `row` if any does, whatever its status: the greatest one not
/// above the row's cold block.
pub fn nearest_group(store: &ColdStore, row: RowNumber) -> Option<u32> {
    if let Some(placed) = settled(store, row) {
        return Some(placed.entry.group());
    }
    let mut nearest = None;
    let mut any = |_: ShownTuple<'_>| true;
    // Ranges do not overlap, so the entry that covers the row is the nearest.
    if let Some(Ok(found)) = recall(store, row, &mut any) {
        return Some(found.entry.group());
    }
    store.scan_entries(
        DIRECTORY_ID,
        0..=row.cold_block() as i32,
        true,
        &mut any,
        |entry| {
            nearest = Some(entry.seq as u32);
            ControlFlow::Break(())
        },
    );
    nearest
}

/// The nearest entry not above the row's cold block that `judge` accepts, if it covers the row.
fn nearest_entry(
    store: &ColdStore,
    row: RowNumber,
    judge: &mut Judge<'_>,
) -> Result<Option<PlacedEntry>, ColdError> {
    let mut nearest = None;
    let blocks = 0..=row.cold_block() as i32;
    store.scan_entries(DIRECTORY_ID, blocks, true, judge, |entry| {
        nearest = Some(placed(&entry));
        ControlFlow::Break(())
    });
    let found = nearest
        .transpose()?
        .filter(|placed| placed.entry.covers(row));
    if let Some(placed) = &found {
        remember(store, placed);
    }
    Ok(found)
}

/// The entry of `group` that `judge` accepts, if it covers the row. Several tuples may have the
/// same key: an aborted reservation and its successor.
pub fn entry_covering(
    store: &ColdStore,
    group: u32,
    row: RowNumber,
    judge: &mut Judge<'_>,
) -> Result<Option<PlacedEntry>, ColdError> {
    if let Some(found) = recall(store, row, judge) {
        return found.map(Some);
    }
    let Some(entry) = store.find_entry(DIRECTORY_ID, group as i32, judge) else {
        return Ok(None);
    };
    let found = placed(&entry)?;
    if !found.entry.covers(row) {
        return Ok(None);
    }
    remember(store, &found);
    Ok(Some(found))
}

/// Reserves row numbers for a group of at most `capacity_rows` rows: see the state diagram
/// of [`crate::store`].
pub fn reserve(
    store: &ColdStore,
    capacity_rows: u32,
    cid: CommandId,
) -> Result<PlacedEntry, ColdError> {
    let capacity_rows = capacity_rows.next_multiple_of(ROWS_PER_COLD_BLOCK as u32);
    store.with_allocation_lock(|| {
        let (mark_tid, first) = high_water(store)?.unwrap_or_else(|| (create_high_water(store), 0));
        let end = first + u64::from(capacity_rows);
        if end > ROW_NUMBER_LIMIT {
            return Err(ColdError::OutOfRowNumbers {
                limit: ROW_NUMBER_LIMIT,
            });
        }
        let entry = GroupEntry {
            state: GroupState::Loading,
            first_row: RowNumber(first),
            capacity_rows,
            row_count: 0,
            value_id: 0,
            first_block: INVALID_BLOCK,
            footer_bytes: 0,
            body_bytes: 0,
            origin: Origin::here(cid),
            flags: GroupFlags::default(),
        };
        let seq = entry.group() as i32;
        let tid = store.insert(
            DIRECTORY_ID,
            seq,
            &entry.encode(),
            cid,
            Birth::Transactional,
            None,
        );
        store.overwrite(mark_tid, &encode_high_water(end));
        directory_version::note(store.id().toast);
        Ok(PlacedEntry { entry, tid })
    })
}

/// Completes a reserved entry. Gives back the unused tail of its range if the range is still the
/// last.
pub fn complete(
    store: &ColdStore,
    placed: &PlacedEntry,
    entry: GroupEntry,
) -> Result<(), ColdError> {
    debug_assert_eq!(placed.entry.first_row, entry.first_row);
    let used = entry.row_count.next_multiple_of(ROWS_PER_COLD_BLOCK as u32);
    if used == placed.entry.capacity_rows {
        overwrite(store, placed.tid, entry);
        return Ok(());
    }
    store.with_allocation_lock(|| {
        let mut entry = entry;
        if let Some((mark_tid, mark)) = high_water(store)?
            && mark == placed.entry.first_row.0 + u64::from(placed.entry.capacity_rows)
        {
            entry.capacity_rows = used;
            overwrite(store, placed.tid, entry);
            store.overwrite(
                mark_tid,
                &encode_high_water(entry.first_row.0 + u64::from(used)),
            );
        } else {
            overwrite(store, placed.tid, entry);
        }
        Ok(())
    })
}

/// Replaces an entry in place; flags that were added to it meanwhile are kept.
fn overwrite(store: &ColdStore, tid: Tid, entry: GroupEntry) {
    store.update_in_place(tid, |payload| {
        let flags = match GroupEntry::decode(entry.group() as i32, payload) {
            Ok(known) => known.flags.union(entry.flags),
            Err(_) => entry.flags,
        };
        payload.copy_from_slice(&GroupEntry { flags, ..entry }.encode());
    });
    directory_version::note(store.id().toast);
}

/// Sets flags of a group in place.
///
/// # Errors
/// The entry is damaged; it is left as it is.
pub fn add_flags(
    store: &ColdStore,
    placed: &PlacedEntry,
    flags: GroupFlags,
) -> Result<(), ColdError> {
    let result = store.update_in_place(placed.tid, |payload| {
        let known = GroupEntry::decode(placed.entry.group() as i32, payload)?;
        let flags = known.flags.union(flags);
        payload.copy_from_slice(&GroupEntry { flags, ..known }.encode());
        Ok(())
    });
    directory_version::note(store.id().toast);
    result
}

/// Deletes an entry in the current transaction.
pub fn delete(store: &ColdStore, placed: &PlacedEntry) {
    store.delete(placed.tid);
    directory_version::note(store.id().toast);
}

/// The entry as it is now, flags included; it is known to be in force.
pub fn refresh(store: &ColdStore, placed: &PlacedEntry) -> Result<PlacedEntry, ColdError> {
    let group = placed.entry.group();
    let entry = store
        .peek(placed.tid, |payload| {
            GroupEntry::decode(group as i32, payload)
        })
        .unwrap_or(Err(ColdError::DamagedDirectory { group }))?;
    let origin = placed.entry.origin;
    Ok(PlacedEntry {
        entry: GroupEntry { origin, ..entry },
        ..*placed
    })
}

/// Completes a reserved entry and gives nothing back: index entries may point into all of its
/// range.
pub fn complete_in_place(store: &ColdStore, placed: &PlacedEntry, entry: GroupEntry) {
    debug_assert_eq!(placed.entry.first_row, entry.first_row);
    overwrite(store, placed.tid, entry);
}

/// Inserts an entry that is complete already, for a range that is already reserved. Table rewrites,
/// which copy groups under their old numbers, use it.
pub fn insert_copy(store: &ColdStore, entry: &GroupEntry, cid: CommandId, copied_as: CopiedAs) {
    let seq = entry.group() as i32;
    store.insert_copy(DIRECTORY_ID, seq, &entry.encode(), cid, copied_as, None);
    directory_version::note(store.id().toast);
}

/// Sets the high-water mark of a store that no other backend can see yet.
pub fn start_high_water_at(store: &ColdStore, mark: u64) -> Result<(), ColdError> {
    let (tid, _) = high_water(store)?.unwrap_or_else(|| (create_high_water(store), 0));
    store.overwrite(tid, &encode_high_water(mark));
    Ok(())
}

/// The mark's place and value: every row number in use or ever used is below it. `None` if the
/// table never had a cold row.
pub fn high_water(store: &ColdStore) -> Result<Option<(Tid, u64)>, ColdError> {
    let Some(entry) = store.find_entry(HIGH_WATER_ID, 0, &mut |_| true) else {
        return Ok(None);
    };
    match decode_high_water(&entry.payload) {
        Some(mark) => Ok(Some((entry.tid, mark))),
        None => Err(ColdError::DamagedDirectory { group: u32::MAX }),
    }
}

/// The mark at a remembered place, if it is there.
pub(super) fn mark_at(store: &ColdStore, tid: Tid) -> Option<u64> {
    let entry = store.entry_at(tid, HIGH_WATER_ID, 0, &mut |_| true)?;
    decode_high_water(&entry.payload)
}

/// `None` if it is damaged.
fn decode_high_water(payload: &[u8]) -> Option<u64> {
    let bytes: &[u8; HIGH_WATER_BYTES] = payload.try_into().ok()?;
    let mark = u64::from_le_bytes(bytes[..8].try_into().ok()?);
    let check = u64::from_le_bytes(bytes[8..].try_into().ok()?);
    (check == fnv1a(&bytes[..8]) && mark <= ROW_NUMBER_LIMIT).then_some(mark)
}

/// Records that the table has had cold rows.
pub fn ensure_high_water(store: &ColdStore) -> Result<(), ColdError> {
    store.with_allocation_lock(|| {
        if high_water(store)?.is_none() {
            create_high_water(store);
        }
        Ok(())
    })
}

/// Whether the table has or ever had cold rows.
pub fn ever_had_cold_rows(store: &ColdStore) -> bool {
    store.find_entry(HIGH_WATER_ID, 0, &mut |_| true).is_some()
}

/// Whether the table, which is locked, has or ever had cold rows, according to the high-water mark.
pub fn ever_cold(table: Table<'_>) -> bool {
    ColdStore::open(table, LockMode::AccessShare)
        .is_some_and(|store| store.toast().main_fork_blocks() > 0 && ever_had_cold_rows(&store))
}

fn create_high_water(store: &ColdStore) -> Tid {
    // Frozen: a change in place must not become invisible when the first load aborts.
    let cid = FIRST_COMMAND;
    store.insert(
        HIGH_WATER_ID,
        0,
        &encode_high_water(0),
        cid,
        Birth::Frozen,
        None,
    )
}

fn encode_high_water(mark: u64) -> [u8; HIGH_WATER_BYTES] {
    let mut out = [0; HIGH_WATER_BYTES];
    out[..8].copy_from_slice(&mark.to_le_bytes());
    let check = fnv1a(&out[..8]);
    out[8..].copy_from_slice(&check.to_le_bytes());
    out
}
