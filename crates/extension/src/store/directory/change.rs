//! Changes of the directory: entries are reserved, completed, flagged and deleted.
//!
//! Each counts the change ([`directory_version`]), once it is made.

use howdah_bridge::slot::Origin;
use howdah_bridge::store::{Birth, ColdStore, CopiedAs};
use howdah_bridge::tid::{INVALID_BLOCK, ROW_NUMBER_LIMIT, ROWS_PER_COLD_BLOCK, RowNumber, Tid};
use howdah_bridge::xid::CommandId;
use howdah_records::{GroupFlags, GroupState, HighWater};

use super::entry::{DIRECTORY_ID, GroupEntry, PlacedEntry};
use super::high_water::{create_high_water, high_water};
use crate::errors::ColdError;
use crate::store::directory_version;

/// Reserves row numbers for a group of at most `capacity_rows` rows: see the state diagram
/// of [`crate::store`].
pub fn reserve(
    store: &ColdStore,
    capacity_rows: u32,
    cid: CommandId,
) -> Result<PlacedEntry, ColdError> {
    let capacity_rows = capacity_rows.next_multiple_of(ROWS_PER_COLD_BLOCK as u32);
    store.with_allocation_lock(|| {
        let (high_water_tid, first) =
            high_water(store)?.unwrap_or_else(|| (create_high_water(store), 0));
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
        store.overwrite(high_water_tid, &HighWater(end).encode());
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
        if let Some((high_water_tid, end)) = high_water(store)?
            && end == placed.entry.first_row.0 + u64::from(placed.entry.capacity_rows)
        {
            entry.capacity_rows = used;
            overwrite(store, placed.tid, entry);
            store.overwrite(
                high_water_tid,
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

/// Withdraws a reservation of the current transaction, of which no row number is known to anything:
/// the numbers past the first cold block are given back if the range is still the last, and the
/// entry is deleted. The first block stays in use: the key of an entry that is being deleted cannot
/// be inserted again without a wait.
pub fn withdraw(
    store: &ColdStore,
    placed: &PlacedEntry,
    command: CommandId,
) -> Result<(), ColdError> {
    let end = placed.entry.first_row.0 + u64::from(placed.entry.capacity_rows);
    store.with_allocation_lock(|| {
        if let Some((high_water_tid, high)) = high_water(store)?
            && high == end
        {
            let capacity_rows = ROWS_PER_COLD_BLOCK as u32;
            let entry = GroupEntry {
                capacity_rows,
                ..placed.entry
            };
            overwrite(store, placed.tid, entry);
            let used = entry.first_row.0 + u64::from(capacity_rows);
            store.overwrite(high_water_tid, &HighWater(used).encode());
        }
        Ok::<(), ColdError>(())
    })?;
    store.delete_after(placed.tid, command);
    directory_version::note(store.id().toast);
    Ok(())
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
