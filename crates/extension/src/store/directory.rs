//! The directory of row groups and the high-water mark of row numbers.
//!
//! An entry's key is the first cold block of its range, so the group of a row is the entry
//! with the greatest key not above the row's cold block: one index descent.
//!
//! The high-water mark is one frozen tuple that is changed in place; it does not depend on whether
//! the transactions that advance it commit. It goes back only by the unused tail of the range for
//! which it was last advanced, to which no index entry can point.

use std::cell::RefCell;
use std::ops::{ControlFlow, Range};

use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::slot::Origin;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::{Birth, ColdStore, CopiedAs, Entry, Judge, StoreId};
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{
    BlockNumber, GroupId, INVALID_BLOCK, ROW_NUMBER_LIMIT, ROWS_PER_COLD_BLOCK, RowNumber, Tid,
};
use howdah_bridge::xid::{CommandId, FIRST_COMMAND, LocalXid};
pub use howdah_records::{GroupFlags, GroupState};
use howdah_records::{HighWater, Kind, ShortRecord};

use super::cache::directory_listings;
use super::cache::settled_entries::{self, ByBlock, Watch};
use super::directory_version;
use crate::errors::ColdError;

const DIRECTORY_ID: u32 = Kind::GroupEntry.id();
const HIGH_WATER_ID: u32 = Kind::HighWater.id();

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

impl GroupEntry {
    /// The group's id: its first cold block.
    pub fn group(&self) -> GroupId {
        GroupId::of_block(self.first_row.cold_block())
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

    fn encode(&self) -> ShortRecord {
        howdah_records::GroupEntry {
            state: self.state,
            flags: self.flags,
            first_row: self.first_row.0,
            capacity_rows: self.capacity_rows,
            row_count: self.row_count,
            value_id: self.value_id,
            first_block: self.first_block,
            footer_bytes: self.footer_bytes,
            body_bytes: self.body_bytes,
        }
        .encode()
    }

    fn decode(seq: i32, bytes: &[u8]) -> Result<GroupEntry, ColdError> {
        let group = GroupId::of_key(seq);
        let record = howdah_records::GroupEntry::decode(group.first_block(), bytes)
            .map_err(|error| ColdError::of_entry(group, error))?;
        Ok(GroupEntry {
            state: record.state,
            first_row: RowNumber(record.first_row),
            capacity_rows: record.capacity_rows,
            row_count: record.row_count,
            value_id: record.value_id,
            first_block: record.first_block,
            footer_bytes: record.footer_bytes,
            body_bytes: record.body_bytes,
            origin: Origin::FROZEN,
            flags: record.flags,
        })
    }
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
    static PLACES: RefCell<ByBlock<Place>> = RefCell::new(ByBlock::of_entries(MOST_PLACES));
}

/// The entry that covers the row, by a remembered place; `None` if there is no such entry at it.
fn recall(
    store: &ColdStore,
    row: RowNumber,
    judge: &mut Judge<'_>,
) -> Option<Result<PlacedEntry, ColdError>> {
    let (file, block) = (store.id(), row.cold_block());
    let (group, place) = PLACES.with_borrow_mut(|places| {
        let ((_, group), place) = places.nearest((file, 0)..=(file, block))?;
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
        end: found.entry.group().first_block()
            + found.entry.capacity_rows / ROWS_PER_COLD_BLOCK as u32,
        tid: found.tid,
        seen_by: LocalXid::current(),
    };
    PLACES.with_borrow_mut(|places| {
        places.insert((store.id(), found.entry.group().first_block()), place)
    });
}

/// The id of the group that covers `row` if any does, whatever its status: the greatest one not
/// above the row's cold block.
pub fn nearest_group(store: &ColdStore, row: RowNumber) -> Option<GroupId> {
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
            nearest = Some(GroupId::of_key(entry.seq));
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
    group: GroupId,
    row: RowNumber,
    judge: &mut Judge<'_>,
) -> Result<Option<PlacedEntry>, ColdError> {
    if let Some(found) = recall(store, row, judge) {
        return found.map(Some);
    }
    let Some(entry) = store.find_entry(DIRECTORY_ID, group.key(), judge) else {
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
        let seq = entry.group().key();
        let tid = store.insert(
            DIRECTORY_ID,
            seq,
            &entry.encode(),
            cid,
            Birth::Transactional,
            None,
        );
        store.overwrite(mark_tid, &HighWater(end).encode());
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
                &HighWater(entry.first_row.0 + u64::from(used)).encode(),
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
        let flags = match GroupEntry::decode(entry.group().key(), payload) {
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
        let known = GroupEntry::decode(placed.entry.group().key(), payload)?;
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
            GroupEntry::decode(group.key(), payload)
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
    let seq = entry.group().key();
    store.insert_copy(DIRECTORY_ID, seq, &entry.encode(), cid, copied_as, None);
    directory_version::note(store.id().toast);
}

/// Sets the high-water mark of a store that no other backend can see yet.
pub fn start_high_water_at(store: &ColdStore, mark: u64) -> Result<(), ColdError> {
    let (tid, _) = high_water(store)?.unwrap_or_else(|| (create_high_water(store), 0));
    store.overwrite(tid, &HighWater(mark).encode());
    Ok(())
}

/// The mark's place and value: every row number in use or ever used is below it. `None` if the
/// table never had a cold row.
pub fn high_water(store: &ColdStore) -> Result<Option<(Tid, u64)>, ColdError> {
    let Some(entry) = store.find_entry(HIGH_WATER_ID, 0, &mut |_| true) else {
        return Ok(None);
    };
    match HighWater::decode(&entry.payload) {
        Ok(HighWater(mark)) => Ok(Some((entry.tid, mark))),
        Err(error) => Err(ColdError::of_entry(GroupId::UNKNOWN, error)),
    }
}

/// The mark at a remembered place, if it is there.
pub(super) fn mark_at(store: &ColdStore, tid: Tid) -> Option<u64> {
    let entry = store.entry_at(tid, HIGH_WATER_ID, 0, &mut |_| true)?;
    let HighWater(mark) = HighWater::decode(&entry.payload).ok()?;
    Some(mark)
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
        &HighWater(0).encode(),
        cid,
        Birth::Frozen,
        None,
    )
}
