//! The high-water mark of row numbers.
//!
//! One frozen tuple that is changed in place: it does not depend on whether the transactions that
//! advance it commit. It goes back only by the unused tail of the range for which it was last
//! advanced, to which no index entry can point.

use howdah_bridge::store::{Birth, ColdStore, EntryAt};
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{GroupId, Tid};
use howdah_bridge::xid::FIRST_COMMAND;
use howdah_records::{HighWater, Kind};

use crate::errors::ColdError;

const HIGH_WATER_ID: u32 = Kind::HighWater.id();

/// Sets the high-water mark of a store that no other backend can see yet.
pub fn start_high_water_at(store: &ColdStore, number: u64) -> Result<(), ColdError> {
    let (tid, _) = high_water(store)?.unwrap_or_else(|| (create_high_water(store), 0));
    store.overwrite(tid, &HighWater(number).encode());
    Ok(())
}

/// The high-water mark's place and value: every row number in use or ever used is below it. `None`
/// if the table never had a cold row.
pub fn high_water(store: &ColdStore) -> Result<Option<(Tid, u64)>, ColdError> {
    let Some(entry) = store.find_entry(HIGH_WATER_ID, 0, &mut |_| true) else {
        return Ok(None);
    };
    match HighWater::decode(&entry.payload) {
        Ok(HighWater(number)) => Ok(Some((entry.tid, number))),
        Err(error) => Err(ColdError::of_entry(GroupId::UNKNOWN, error)),
    }
}

/// The high-water mark at a remembered place, if it is there.
pub(in crate::store) fn high_water_at(store: &ColdStore, tid: Tid) -> Option<u64> {
    let EntryAt::There(entry) = store.entry_at(tid, HIGH_WATER_ID, 0, &mut |_| true) else {
        return None;
    };
    let HighWater(number) = HighWater::decode(&entry.payload).ok()?;
    Some(number)
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

/// Whether row numbers were ever given out. Until then a table that is recorded as having cold rows
/// has none: its first move waits for plans that would miss them.
pub fn ever_gave_numbers(store: &ColdStore) -> Result<bool, ColdError> {
    Ok(high_water(store)?.is_some_and(|(_, number)| number > 0))
}

/// Whether the table, which is locked, has or ever had cold rows, according to the high-water mark.
pub fn ever_cold(table: Table<'_>) -> bool {
    ColdStore::open(table, LockMode::AccessShare).is_some_and(|store| is_ever_cold(&store))
}

fn is_ever_cold(store: &ColdStore) -> bool {
    store.toast().main_fork_blocks() > 0 && ever_had_cold_rows(store)
}

/// The same, without a lock that is kept on the TOAST relation.
pub fn ever_cold_unlocked(table: Table<'_>) -> bool {
    ColdStore::open(table, LockMode::AccessShare).is_some_and(|store| {
        let is_cold = is_ever_cold(&store);
        store.release();
        is_cold
    })
}

pub(super) fn create_high_water(store: &ColdStore) -> Tid {
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
