//! Truncation in place: TRUNCATE in the subtransaction that created the table's storage (CREATE
//! TABLE, CLUSTER and other rewrites, an earlier TRUNCATE), and ON COMMIT DELETE ROWS.
//!
//! The core empties the heap, then rebuilds the indexes, then empties the TOAST relation. The
//! rebuild would find the cold rows still there and insert entries for them, which would point at
//! the rows of the next load. So the cold side is emptied first, together with the heap.
//!
//! What a backend remembers of a table's contents is dropped before both. Each such cache names the
//! files it describes, and stays valid because within one file nothing is reused: neither row
//! numbers, nor groups, nor places of directory entries. Every other way to empty or to replace a
//! table gives it new files, and a rollback restores the old ones as they were left. In-place
//! truncation is the one exception: the files keep their names, and all numbers start anew. So the
//! rule is: **every cache that remembers something of a file has a function that forgets the file,
//! which is called here.**
//!
//! ```text
//!   memory                                         modules
//!   directory entries, their places                store/directory, store/cache
//!   tables and groups without remaining rows       store/cache
//!   rows without marks (shared), open row groups   store/marks/mark_filter, store/group_cache
//!   rows that are not yet on the cold side         store/pending_groups
//!   marks that are not yet written                 store/pending_marks
//!   the rows read, changed and locked last         am/last_row, store/visibility (last_change),
//!                                                  am/cold_rows/locked_groups
//! ```
//!
//! Some state needs no such function: counts of directory changes (`store/directory_version`) only
//! tell that a cache is void; estimates (`am/estimate`) may be wrong; readers of index scans
//! (`am/fetch`) belong to scans, and a table that is being scanned is not truncated; shapes of rows
//! and options do not depend on contents.
//!
//! No other backend has anything to forget: the files were created by the running transaction,
//! whose changes it cannot see, or the table is temporary. An ERROR in the middle leaves files that
//! the abort deletes, or those of a temporary table, for which more was forgotten than necessary.

use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::table_am::{self, Routine};

use super::{cold_rows, last_row};
use crate::store::{self, pending_groups};

pub(super) fn install(am: &mut Routine) {
    table_am::set_truncate::<BothSides>(am);
}

struct BothSides;

impl table_am::TruncateInPlace for BothSides {
    fn truncate(table: Table<'_>) {
        let cold_store = ColdStore::open(table, LockMode::AccessExclusive);
        forget_contents(table, cold_store.as_ref());
        table_am::truncate_heap(table);
        if let Some(cold_store) = cold_store {
            table_am::truncate_with_indexes(cold_store.toast());
        }
    }
}

/// Forgets all that this backend remembers of the rows in the table's files.
fn forget_contents(table: Table<'_>, cold_store: Option<&ColdStore>) {
    last_row::forget();
    cold_rows::forget_locks();
    super::estimate::forget(table.oid());
    pending_groups::discard_file(table);
    if let Some(cold_store) = cold_store {
        store::forget_file(table.oid(), cold_store.id());
    }
}
