//! Changes of a table's access method in the catalog.

use std::ffi::CStr;

use pgrx::{IntoDatum, pg_sys};

use crate::ffi::AlterTableCreateToastTable;
use crate::table::LockMode;
use crate::transactions::end_command;

/// Heap.
pub const HEAP: pg_sys::Oid = pg_sys::HEAP_TABLE_AM_OID;

/// The table access method of this name. Raises an ERROR if there is none.
pub fn by_name(name: &CStr) -> pg_sys::Oid {
    // SAFETY: a lookup by a NUL-terminated name.
    unsafe { pg_sys::get_table_am_oid(name.as_ptr(), false) }
}

/// Creates a TOAST relation for a table that is exclusively locked, if it has none and its access
/// method needs one.
pub fn create_toast_relation(table: pg_sys::Oid) {
    let lock = LockMode::AccessExclusive.raw();
    // SAFETY: the table is locked.
    unsafe { AlterTableCreateToastTable(table, pg_sys::Datum::from(0), lock) };
    end_command();
}

/// Changes `pg_class.relam` and the dependency on it. Mirrors ATExecSetAccessMethodNoStorage. The
/// table is exclusively locked and not open.
pub fn set(table: pg_sys::Oid, method: pg_sys::Oid) {
    let lock = LockMode::RowExclusive.raw();
    // SAFETY: the tuple is a private copy; the catalog is closed before returning.
    unsafe {
        let catalog = pg_sys::table_open(pg_sys::RelationRelationId, lock);
        let none = pg_sys::Datum::from(0);
        let key = table.into_datum().unwrap_or(none);
        let reloid = pg_sys::SysCacheIdentifier::RELOID as i32;
        let tuple = pg_sys::SearchSysCacheCopy(reloid, key, none, none, none);
        if tuple.is_null() {
            pgrx::error!("cache lookup failed for relation {}", table.to_u32());
        }
        let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_class>();
        let old = (*form).relam;
        (*form).relam = method;
        pg_sys::CatalogTupleUpdate(catalog, &mut (*tuple).t_self, tuple);
        depend(table, old, method);
        pg_sys::CacheInvalidateRelcacheByTuple(tuple);
        pg_sys::CommandCounterIncrement();
        // There is a hook: crate::object_access installs one.
        pg_sys::RunObjectPostAlterHook(
            pg_sys::RelationRelationId,
            table,
            0,
            pg_sys::InvalidOid,
            false,
        );
        pg_sys::heap_freetuple(tuple);
        pg_sys::table_close(catalog, lock);
    }
}

/// Records that the table depends on `method` instead of on `old`.
fn depend(table: pg_sys::Oid, old: pg_sys::Oid, method: pg_sys::Oid) {
    let address = |class, object| pg_sys::ObjectAddress {
        classId: class,
        objectId: object,
        objectSubId: 0,
    };
    // SAFETY: changes of a catalog by OIDs.
    unsafe {
        if old == pg_sys::InvalidOid {
            pg_sys::recordDependencyOn(
                &address(pg_sys::RelationRelationId, table),
                &address(pg_sys::AccessMethodRelationId, method),
                pg_sys::DependencyType::DEPENDENCY_NORMAL,
            );
        } else {
            pg_sys::changeDependencyFor(
                pg_sys::RelationRelationId,
                table,
                pg_sys::AccessMethodRelationId,
                old,
                method,
            );
        }
    }
}
