//! `howdah.adopt` and `howdah.release`: a table changes hands between heap and howdah.
//!
//! A howdah table without cold rows *is* a heap, so the change is one catalog entry, as ALTER
//! TABLE … SET ACCESS METHOD makes it for relations without storage. With cold rows, release is
//! that command itself, which rewrites the table.
//!
//! Locks: AccessExclusiveLock on the table, to the end of the transaction.

use std::ffi::CStr;

use howdah_bridge::ffi::AlterTableCreateToastTable;
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::LockMode;
use pgrx::{IntoDatum, PgSqlErrorCode, Spi, pg_extern, pg_sys};

use super::{name_of, open_owned};
use crate::errors::refuse;
use crate::options;
use crate::store::directory::ever_had_cold_rows;

const HEAP: pg_sys::Oid = pg_sys::HEAP_TABLE_AM_OID;

/// Makes a heap table a howdah table without touching its rows.
#[pg_extern(sql = false)]
fn adopt(relation: pg_sys::Oid) {
    let rel = open_for_change(relation, c"adopt", c"howdah.adopt()");
    let howdah = howdah_oid();
    // SAFETY: `rel` is open.
    let (kind, current) = unsafe { kind_and_method(&rel) };
    let partitioned = kind == pg_sys::RELKIND_PARTITIONED_TABLE;
    if current == howdah {
        return;
    }
    if current != HEAP && !partitioned {
        other_access_method(&rel, "adopt");
    }
    drop(rel);
    set_access_method(relation, howdah);
    if !partitioned {
        // SAFETY: the table is locked; the function does nothing where a TOAST relation exists.
        unsafe {
            AlterTableCreateToastTable(
                relation,
                pg_sys::Datum::from(0),
                pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE,
            );
            pg_sys::CommandCounterIncrement();
        }
    }
}

/// Makes a howdah table a heap table; rewrites it if it has, or had, cold rows.
#[pg_extern(sql = false)]
fn release(relation: pg_sys::Oid) {
    let rel = open_for_change(relation, c"release", c"howdah.release()");
    // SAFETY: `rel` is open.
    let (kind, current) = unsafe { kind_and_method(&rel) };
    let partitioned = kind == pg_sys::RELKIND_PARTITIONED_TABLE;
    if current == HEAP {
        return;
    }
    if current != howdah_oid() && !(partitioned && current == pg_sys::InvalidOid) {
        other_access_method(&rel, "release");
    }
    let cold = !partitioned
        && ColdStore::open(rel.table(), LockMode::AccessShare)
            .is_some_and(|store| ever_had_cold_rows(&store));
    drop(rel);
    if cold {
        rewrite_as_heap(relation, kind);
    } else {
        set_access_method(relation, HEAP);
        options::catalog::forget(relation);
    }
}

/// Opens a table whose access method may change; refuses what cannot have one, and transactions that
/// cannot ALTER TABLE.
fn open_for_change(oid: pg_sys::Oid, what: &CStr, command: &CStr) -> OpenRelation {
    // SAFETY: raise an ERROR or do nothing; the name is NUL-terminated.
    unsafe {
        pg_sys::PreventCommandIfReadOnly(command.as_ptr());
        pg_sys::PreventCommandIfParallelMode(command.as_ptr());
    }
    let rel = open_owned(oid, pg_sys::AccessExclusiveLock);
    // SAFETY: `rel` is open; CheckTableNotInUse raises an ERROR where a cursor or an outer
    // statement still reads the table.
    unsafe {
        let form = &*(*rel.raw()).rd_rel;
        let kinds = [
            pg_sys::RELKIND_RELATION,
            pg_sys::RELKIND_MATVIEW,
            pg_sys::RELKIND_PARTITIONED_TABLE,
        ];
        if !kinds.contains(&(form.relkind as u8)) {
            refuse(
                PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a table or materialized view", name_of(&rel)),
                None,
            );
        }
        let temporary = form.relpersistence == pg_sys::RELPERSISTENCE_TEMP as i8;
        if temporary && !(*rel.raw()).rd_islocaltemp {
            refuse(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cannot alter temporary tables of other sessions".into(),
                None,
            );
        }
        pg_sys::CheckTableNotInUse(rel.raw(), what.as_ptr());
    }
    rel
}

/// # Safety
/// `rel` is open.
unsafe fn kind_and_method(rel: &OpenRelation) -> (u8, pg_sys::Oid) {
    // SAFETY: as for this function.
    let form = unsafe { &*(*rel.raw()).rd_rel };
    (form.relkind as u8, form.relam)
}

fn howdah_oid() -> pg_sys::Oid {
    // SAFETY: raises an ERROR where the access method does not exist.
    unsafe { pg_sys::get_table_am_oid(c"howdah".as_ptr(), false) }
}

fn other_access_method(rel: &OpenRelation, what: &str) -> ! {
    refuse(
        PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
        format!(
            "cannot {what} table \"{}\" of another access method",
            name_of(rel)
        ),
        Some("Use ALTER TABLE … SET ACCESS METHOD, which rewrites the table.".into()),
    )
}

/// Changes `pg_class.relam` and the dependency on it. Mirrors ATExecSetAccessMethodNoStorage.
fn set_access_method(table: pg_sys::Oid, method: pg_sys::Oid) {
    let lock = pg_sys::RowExclusiveLock as pg_sys::LOCKMODE;
    // SAFETY: the caller holds AccessExclusiveLock on the table and no open reference to it; the
    // tuple is a private copy; the catalog is closed before returning.
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
        if old == pg_sys::InvalidOid {
            let address = |class, object| pg_sys::ObjectAddress {
                classId: class,
                objectId: object,
                objectSubId: 0,
            };
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
        pg_sys::CacheInvalidateRelcacheByTuple(tuple);
        pg_sys::CommandCounterIncrement();
        // There is a hook: crate::scan_stats registers one.
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

fn rewrite_as_heap(table: pg_sys::Oid, kind: u8) {
    // SAFETY: the table is locked, so its names are there; both are NUL-terminated.
    let name = unsafe {
        super::owned(pg_sys::quote_qualified_identifier(
            pg_sys::get_namespace_name(pg_sys::get_rel_namespace(table)),
            pg_sys::get_rel_name(table),
        ))
    };
    let what = if kind == pg_sys::RELKIND_MATVIEW {
        "MATERIALIZED VIEW"
    } else {
        "TABLE"
    };
    let command = format!("ALTER {what} {name} SET ACCESS METHOD heap");
    if let Err(error) = Spi::run(&command) {
        pgrx::error!("{command} failed: {error}");
    }
}
