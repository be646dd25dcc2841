//! `SECURITY LABEL FOR howdah`, the statement by which restored dumps set options.
//!
//! PostgreSQL finds the object, locks it and checks ownership; the code here checks the text. It
//! refuses no more than necessary: a label that was dumped must be accepted for the restored table,
//! whatever access method that table has got.
//!
//! The provider is registered by the first statement of a session that names it, not when the
//! library loads: a SECURITY LABEL without FOR works only while there is a single provider, and
//! another extension's provider must keep working.

use std::cell::Cell;
use std::ffi::CStr;

use howdah_bridge::invalidation::invalidate;
use howdah_bridge::security_label::{Labelled, register_provider};
use howdah_bridge::table::RelationKind;
use pgrx::PgSqlErrorCode;

use super::catalog::PROVIDER;
use super::label;
use crate::errors::refuse;

thread_local! {
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
}

/// To be called before a SECURITY LABEL statement runs, with the provider that it names.
pub fn before_security_label(provider: Option<&CStr>) {
    if provider == Some(PROVIDER) && !REGISTERED.replace(true) {
        register_provider(PROVIDER, check);
    }
}

/// PostgreSQL holds ShareUpdateExclusiveLock on the object, and its owner is the user.
fn check(object: &Labelled, text: Option<&str>) {
    let Labelled::Relation {
        oid,
        column,
        kind,
        is_catalog,
    } = *object
    else {
        if text.is_some() {
            wrong_object(
                "security labels of howdah are for tables and materialized views",
                None,
            );
        }
        return;
    };
    if let Some(text) = text {
        check_relation(kind, is_catalog, column);
        check_text(column, text);
    }
    // Takes effect together with the label, which is written by the same command.
    invalidate(oid);
}

fn check_relation(kind: RelationKind, is_catalog: bool, column: i32) {
    match kind {
        _ if is_catalog => refuse(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            "permission denied: system catalogs have no options of howdah".into(),
            None,
        ),
        RelationKind::PartitionedTable => wrong_object(
            "partitioned tables have no options of howdah",
            Some("Set the options of its partitions."),
        ),
        RelationKind::Table | RelationKind::MaterializedView if column >= 0 => {}
        RelationKind::Table | RelationKind::MaterializedView => {
            wrong_object("system columns have no options of howdah", None)
        }
        RelationKind::Other => wrong_object(
            "options of howdah are for tables and materialized views",
            None,
        ),
    }
}

fn wrong_object(message: &str, hint: Option<&str>) -> ! {
    refuse(
        PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
        message.to_owned(),
        hint.map(str::to_owned),
    )
}

fn check_text(column: i32, text: &str) {
    let checked = if column == 0 {
        label::parse_of_table(text).map(drop)
    } else {
        label::parse_of_column(text).map(drop)
    };
    if let Err(error) = checked {
        refuse(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("invalid security label: {error}"),
            Some("Use howdah.set_options(), which writes these labels.".into()),
        );
    }
}
