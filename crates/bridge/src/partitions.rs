//! The tree of a partitioned table, as the catalogs have it.

use pgrx::pg_sys;

use crate::table::Table;
use crate::{ffi, names};

/// The root of the tree that the table is a partition in.
pub fn root_of(table: Table<'_>) -> Option<pg_sys::Oid> {
    if !table.is_partition() {
        return None;
    }
    // SAFETY: the list is a copy: the nearest ancestor first, the root last.
    unsafe {
        let ancestors = ffi::get_partition_ancestors(table.oid());
        let count = pg_sys::list_length(ancestors);
        (count > 0).then(|| pg_sys::list_nth_oid(ancestors, count - 1))
    }
}

/// Whether a table of the tree has a trigger of any kind.
pub fn have_triggers(root: pg_sys::Oid) -> bool {
    let no_lock = pg_sys::NoLock as pg_sys::LOCKMODE;
    // SAFETY: the list is a copy. A table that is dropped meanwhile is not found in the catalog.
    unsafe {
        let tree = ffi::find_all_inheritors(root, no_lock, std::ptr::null_mut());
        (0..pg_sys::list_length(tree)).any(|at| {
            let table = pg_sys::list_nth_oid(tree, at);
            names::class_row(table, |row| row.relhastriggers).unwrap_or(true)
        })
    }
}
