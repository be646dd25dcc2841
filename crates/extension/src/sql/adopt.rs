//! `howdah.adopt` and `howdah.release`: change a table's access method between heap and howdah.
//!
//! A howdah table without cold rows *is* a heap, so the change is one catalog entry, as ALTER TABLE
//! … SET ACCESS METHOD makes for relations without storage. With cold rows, release is that command
//! itself, which rewrites the table.
//!
//! Locks: AccessExclusiveLock on the table, to the end of the transaction.

use std::ffi::CStr;

use howdah_bridge::access_method::{self, HEAP, create_toast_relation};
use howdah_bridge::process::{prevent_if_parallel, prevent_if_read_only};
use howdah_bridge::relation::{OpenRelation, check_not_in_use};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, RelationKind, Table};
use howdah_bridge::{Oid, names};
use pgrx::{PgSqlErrorCode, Spi, pg_extern};

use super::open_owned;
use crate::errors::refuse;
use crate::load;
use crate::options;
use crate::store::directory::ever_had_cold_rows;

/// Turns a heap table into a howdah table without touching its rows.
#[pg_extern(sql = false)]
fn adopt(relation: Oid) {
    let open = open_for_change(relation, c"adopt", c"howdah.adopt()");
    let table = open.table();
    let howdah = howdah_oid();
    let partitioned = table.kind() == RelationKind::PartitionedTable;
    if table.access_method() == Some(howdah) {
        return;
    }
    if table.access_method() != Some(HEAP) && !partitioned {
        other_access_method(table, "adopt");
    }
    drop(open);
    access_method::set(relation, howdah);
    if !partitioned {
        create_toast_relation(relation);
        load::note_adopted(relation);
    }
}

/// Turns a howdah table into a heap table; rewrites it if it has, or had, cold rows.
#[pg_extern(sql = false)]
fn release(relation: Oid) {
    let open = open_for_change(relation, c"release", c"howdah.release()");
    let table = open.table();
    let (kind, method) = (table.kind(), table.access_method());
    let partitioned = kind == RelationKind::PartitionedTable;
    if method == Some(HEAP) {
        return;
    }
    if method != Some(howdah_oid()) && !(partitioned && method.is_none()) {
        other_access_method(table, "release");
    }
    let cold = !partitioned
        && ColdStore::open(table, LockMode::AccessShare)
            .is_some_and(|store| ever_had_cold_rows(&store));
    drop(open);
    if cold {
        rewrite_as_heap(relation, kind);
    } else {
        access_method::set(relation, HEAP);
        options::catalog::forget(relation);
    }
}

/// Opens a table whose access method is to change. Raises an ERROR for a relation that cannot have
/// another one, and in a transaction that cannot ALTER TABLE.
fn open_for_change(oid: Oid, what: &CStr, command: &CStr) -> OpenRelation {
    prevent_if_read_only(command);
    prevent_if_parallel(command);
    let open = open_owned(oid, LockMode::AccessExclusive);
    let table = open.table();
    if table.kind() == RelationKind::Other {
        refuse(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{}\" is not a table or materialized view", table.name()),
            None,
        );
    }
    check_not_in_use(table, what);
    open
}

fn howdah_oid() -> Oid {
    access_method::by_name(c"howdah")
}

fn other_access_method(table: Table<'_>, what: &str) -> ! {
    refuse(
        PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
        format!(
            "cannot {what} table \"{}\" of another access method",
            table.name()
        ),
        Some("Use ALTER TABLE ... SET ACCESS METHOD, which rewrites the table.".into()),
    )
}

fn rewrite_as_heap(table: Oid, kind: RelationKind) {
    // The table is locked, so its name exists.
    let Some(name) = names::qualified(table) else {
        refuse(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "cannot release a table whose name, or that of its schema, is not UTF-8".into(),
            Some("Use ALTER TABLE ... SET ACCESS METHOD heap.".into()),
        )
    };
    let what = match kind {
        RelationKind::MaterializedView => "MATERIALIZED VIEW",
        _ => "TABLE",
    };
    let command = format!("ALTER {what} {name} SET ACCESS METHOD heap");
    if let Err(error) = Spi::run(&command) {
        pgrx::error!("{command} failed: {error}");
    }
}
