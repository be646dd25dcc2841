//! The directory of row groups and the high-water mark of row numbers.
//!
//! ```text
//!   entry   what is said of a group, as bytes     places      where entries were found before
//!   change  reserve, complete, flag, delete       high_water  the numbers that were ever used
//! ```
//!
//! An entry's key is the first cold block of its range, so the group of a row is the entry
//! with the greatest key not above the row's cold block: one index descent. The look-ups are here.

mod change;
mod entry;
mod high_water;
mod places;

use std::ops::{ControlFlow, Range, RangeInclusive};

use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::snapshot::{Snapshot, SnapshotKind};
use howdah_bridge::store::{ColdStore, Judge};
use howdah_bridge::tid::{GroupId, ROWS_PER_COLD_BLOCK, RowNumber};
use howdah_bridge::xid::{CommandId, Xid};
pub use howdah_records::{GroupFlags, GroupState};

pub use self::change::{
    add_flags, complete, complete_in_place, delete, insert_copy, refresh, reserve, withdraw,
};
pub use self::entry::{GroupEntry, PlacedEntry};
pub(super) use self::high_water::high_water_at;
pub use self::high_water::{
    ensure_high_water, ever_cold, ever_cold_unlocked, ever_gave_numbers, ever_had_cold_rows,
    high_water, start_high_water_at,
};
pub(super) use self::places::{entry_at, forget_file};

use self::entry::DIRECTORY_ID;
pub(super) use self::entry::placed;
use self::places::{recall, remember};
use super::cache::settled_entries::{self, FoundGap, Watch};
use super::cache::{directory_listings, settled_listings};
use crate::errors::ColdError;

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
    if let Some(known) = settled_listings::recall(store, snapshot) {
        return Ok(known.to_vec());
    }
    let mut watch = settled_listings::Watch::begin(store, snapshot);
    let groups = groups_where(store, &mut |tuple| {
        let is_seen = store.visible(tuple, snapshot);
        watch.look(tuple, is_seen);
        is_seen
    })?;
    watch.note(store, &groups);
    directory_listings::remember(store, &groups)?;
    Ok(groups)
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
    // An entry that no transaction deletes is dead to no snapshot.
    let not_dead = snapshot.kind() == SnapshotKind::NonVacuumable;
    let xmin = mvcc.then(|| snapshot.xmin());
    if (mvcc || not_dead)
        && let Some(placed) = settled_entries::recall(store, row, xmin)
    {
        return Ok(Some(placed));
    }
    if settled_entries::is_gap(store, row, snapshot) {
        return Ok(None);
    }
    let mut watch = Watch::begin(store);
    let mut judge = |tuple: ShownTuple<'_>| {
        let seen = store.visible(tuple, snapshot);
        if seen && (mvcc || not_dead) {
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
        None if mvcc || not_dead || snapshot.is_dirty() => {
            if let Some(gap) = gap_around(store, row) {
                watch.note_gap(store, gap);
            }
        }
        None => {}
    }
    Ok(found)
}

/// The rows around one that is in no group which the MVCC snapshot sees, of which the same is true.
/// Reads all entries in between that it does not see.
pub fn unseen_around(
    store: &ColdStore,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Result<Range<u64>, ColdError> {
    let block = row.cold_block() as i32;
    let nearest = |blocks: RangeInclusive<i32>, is_backward: bool| {
        let mut found = None;
        let mut judge = |tuple: ShownTuple<'_>| store.visible(tuple, snapshot);
        store.scan_entries(DIRECTORY_ID, blocks, is_backward, &mut judge, |entry| {
            found = Some(placed(&entry));
            ControlFlow::Break(())
        });
        found.transpose()
    };
    let start = nearest(0..=block, true)?.map_or(0, |below| {
        below.entry.first_row.0 + u64::from(below.entry.capacity_rows)
    });
    let above = match block.checked_add(1) {
        Some(next) => nearest(next..=i32::MAX, false)?,
        None => None,
    };
    let end = above.map_or(u64::MAX, |above| above.entry.first_row.0);
    Ok(start..end)
}

/// Whether the row is known to be dead to all: it lies where there is no group that a snapshot can
/// see. To be asked after it was not found.
pub fn is_nowhere(store: &ColdStore, row: RowNumber) -> bool {
    settled_entries::is_empty_gap(store, row)
}

/// The range of cold blocks around a row that no entry covers but those that have ended, as their
/// hint bits tell; `None` if another entry covers the row.
fn gap_around(store: &ColdStore, row: RowNumber) -> Option<FoundGap> {
    let block = row.cold_block();
    let mut ended_by = Xid::INVALID;
    let mut any = |tuple: ShownTuple<'_>| match tuple.settled_end() {
        None => true,
        Some(xid) => {
            if xid.is_normal() {
                ended_by = ended_by.younger(xid);
            }
            false
        }
    };
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
    start.filter(|&start| start <= block).map(|start| FoundGap {
        blocks: start..end,
        ended_by,
    })
}

/// The entry that covers the row and is in force for every snapshot, if it is remembered.
pub fn settled(store: &ColdStore, row: RowNumber) -> Option<PlacedEntry> {
    settled_entries::recall(store, row, None)
}

/// The id of the group that covers `row`, whatever its status.
pub fn nearest_group(store: &ColdStore, row: RowNumber) -> Option<GroupId> {
    if let Some(placed) = settled(store, row) {
        return Some(placed.entry.group());
    }
    let (mut nearest, mut key) = (None, None);
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
            // Several tuples may have the greatest key that is not above the row's cold block.
            if key.is_some_and(|key| key != entry.seq) {
                return ControlFlow::Break(());
            }
            key = Some(entry.seq);
            // A damaged one is an error where it is read.
            let covers = placed(&entry).map_or(true, |found| found.entry.covers(row));
            if covers {
                nearest = Some(GroupId::of_key(entry.seq));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        },
    );
    nearest
}

/// The entry of `group` that is in force now, if it covers the row, with the command that loaded
/// the group if that was one of our transaction.
pub fn entry_in_force(
    store: &ColdStore,
    group: GroupId,
    row: RowNumber,
) -> Result<Option<(PlacedEntry, Option<CommandId>)>, ColdError> {
    if let Some(placed) = settled(store, row).filter(|placed| placed.entry.group() == group) {
        return Ok(Some((placed, None)));
    }
    let mut own = None;
    let mut in_force = |tuple: ShownTuple<'_>| {
        let in_force = tuple.is_in_force();
        if in_force && let (_, Some(loader)) = tuple.writer() {
            own = Some(loader);
        }
        in_force
    };
    let found = entry_covering(store, group, row, &mut in_force)?;
    Ok(found.map(|placed| (placed, own)))
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
