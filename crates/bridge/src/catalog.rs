//! Scans of a whole system catalog.

use std::ffi::CStr;

use pgrx::pg_sys;

use crate::transactions::in_transaction;

/// Databases that take connections, without templates: CREATE DATABASE copies templates, and must
/// find no process connected. Runs in a transaction of its own.
pub fn connectable_databases() -> Vec<u32> {
    in_transaction(|| {
        let mut databases = Vec::new();
        // SAFETY: a transaction is running; this is the row type of pg_database.
        unsafe {
            for_each_row(
                pg_sys::DatabaseRelationId,
                |form: &pg_sys::FormData_pg_database| {
                    let is_valid = form.datconnlimit != pg_sys::DATCONNLIMIT_INVALID_DB;
                    if form.datallowconn && !form.datistemplate && is_valid {
                        databases.push(form.oid.to_u32());
                    }
                },
            );
        }
        databases
    })
}

/// Tables and materialized views of an access method, except temporary ones and those of
/// extensions.
pub fn tables_of(method: &CStr) -> Vec<pg_sys::Oid> {
    let mut tables = Vec::new();
    // SAFETY: lookups; a transaction is running, and this is the row type of pg_class.
    unsafe {
        let method = pg_sys::get_am_oid(method.as_ptr(), true);
        if method == pg_sys::InvalidOid {
            return tables;
        }
        for_each_row(
            pg_sys::RelationRelationId,
            |form: &pg_sys::FormData_pg_class| {
                let kind = form.relkind as u8;
                if form.relam == method
                    && (kind == pg_sys::RELKIND_RELATION || kind == pg_sys::RELKIND_MATVIEW)
                    && form.relpersistence as u8 != pg_sys::RELPERSISTENCE_TEMP
                {
                    tables.push(form.oid);
                }
            },
        );
        tables.retain(|&table| {
            let owner = pg_sys::getExtensionOfObject(pg_sys::RelationRelationId, table);
            owner == pg_sys::InvalidOid
        });
    }
    tables
}

/// Calls `see` with the fixed part of each row of the catalog that is visible to the transaction
/// now.
///
/// # Safety
/// A transaction is running; `Form` is the catalog's row type (`FormData_…`).
unsafe fn for_each_row<Form>(catalog: pg_sys::Oid, mut see: impl FnMut(&Form)) {
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
