//! A table's entry in the cumulative statistics, changed immediately.
//!
//! Most counts are pending in the backend that made them and reach shared memory at the end of some
//! transaction (`pgstat_relation.c`). VACUUM and ANALYZE write their counts to shared memory
//! themselves and replace what is there. Counts that belong to such a report must not be pending: a
//! count that is still pending when the next report comes is added afterwards, and counts the same
//! rows twice.

use pgrx::{pg_guard, pg_sys};

use crate::counters::{EntryRef, change};
use crate::table::Table;

/// `PGSTAT_KIND_RELATION`
const RELATION: u32 = 2;

type TableEntry = EntryRef<pg_sys::PgStat_StatTabEntry>;

#[pg_guard]
unsafe extern "C-unwind" {
    /// `utils/pgstat_internal.h`
    fn pgstat_get_entry_ref(
        kind: u32,
        database: pg_sys::Oid,
        object: u64,
        create: bool,
        created: *mut bool,
    ) -> *mut TableEntry;
}

/// The live rows of a table; `None` if there is no entry.
pub fn live_rows(table: Table<'_>) -> Option<i64> {
    // SAFETY: the entry is NULL or a copy for this transaction.
    unsafe {
        let counted = pg_sys::pgstat_fetch_stat_tabentry(table.oid());
        (!counted.is_null()).then(|| (*counted).live_tuples)
    }
}

/// Adds to the live and dead rows of a table of this database, if it has an entry. The table may
/// have been dropped meanwhile. Does nothing if `track_counts` is off.
pub fn add(table: pg_sys::Oid, live_rows: i64, dead_rows: i64) {
    // SAFETY: an entry of this kind has these counts; they are touched under their lock.
    unsafe {
        if !pg_sys::pgstat_track_counts {
            return;
        }
        let object = u64::from(table.to_u32());
        let none = std::ptr::null_mut();
        let entry = pgstat_get_entry_ref(RELATION, pg_sys::MyDatabaseId, object, false, none);
        if entry.is_null() {
            return;
        }
        change(entry, false, |counts| {
            counts.live_tuples = counts.live_tuples.saturating_add(live_rows).max(0);
            counts.dead_tuples = counts.dead_tuples.saturating_add(dead_rows).max(0);
        });
    }
}
