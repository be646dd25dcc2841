//! Loads of other backends that are under way, as a worker of a subscription meets them.
//!
//! It looks for the row that an UPDATE or DELETE of the publisher means by the row's old values,
//! under a dirty snapshot, and waits for transactions that are changing a row *which has these
//! values*. The values of a load under way lie in the memory of its backend. So the worker waits
//! for the whole load, whether or not the row is among its rows: else it would take the row for
//! missing, and the change would be lost.

use howdah_bridge::cold_lock::wait_for as wait_for_end;
use howdah_bridge::row_request::Purpose;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};

use super::directory::{self, GroupState, PlacedEntry};
use crate::errors::or_raise;

/// Waits for the transaction of a load.
pub fn wait_for(table: Table<'_>, load: &PlacedEntry) {
    let (xid, row) = (load.entry.origin.xid, load.entry.first_row);
    wait_for_end(xid, table, row, Purpose::Lock);
}

/// Waits for all loads of the table, until there is none.
pub fn wait_for_all(table: Table<'_>) {
    loop {
        let Some(store) = ColdStore::open_used(table, LockMode::AccessShare) else {
            return;
        };
        let entries = or_raise(table.oid(), directory::groups_where(&store, &mut |_| true));
        let is_under_way = |load: &PlacedEntry| {
            let xid = load.entry.origin.xid;
            load.entry.state == GroupState::Loading
                && xid.is_normal()
                && !xid.is_own()
                && xid.is_in_progress()
        };
        let Some(load) = entries.into_iter().find(is_under_way) else {
            return;
        };
        drop(store);
        wait_for(table, &load);
    }
}
