//! Scans of a whole system catalog.

use pgrx::pg_sys;

/// Calls `see` with the fixed part of each row of the catalog that is visible to the transaction
/// now.
///
/// # Safety
/// A transaction is running; `Form` is the catalog's row type (`FormData_…`).
pub unsafe fn for_each_row<Form>(catalog: pg_sys::Oid, mut see: impl FnMut(&Form)) {
    let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
    // SAFETY: the catalog is open and locked during the scan; a tuple is valid until the next one
    // is requested, and its fixed part follows its header.
    unsafe {
        let rel = pg_sys::table_open(catalog, lock);
        let (no_index, no_snapshot) = (pg_sys::InvalidOid, std::ptr::null_mut());
        let scan =
            pg_sys::systable_beginscan(rel, no_index, false, no_snapshot, 0, std::ptr::null_mut());
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let header = (*tuple).t_data;
            see(&*header
                .cast::<u8>()
                .add(usize::from((*header).t_hoff))
                .cast::<Form>());
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(rel, lock);
    }
}
