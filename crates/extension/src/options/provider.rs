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
use std::ffi::{CStr, c_char};

use howdah_bridge::security_label::register_provider;
use pgrx::{PgSqlErrorCode, pg_guard, pg_sys};

use super::catalog::{PROVIDER, invalidate};
use super::label;
use crate::errors::refuse;

thread_local! {
    static REGISTERED: Cell<bool> = const { Cell::new(false) };
}

/// Must be called before a SECURITY LABEL statement runs.
///
/// # Safety
/// `statement` is one.
pub unsafe fn before_security_label(statement: *const pg_sys::SecLabelStmt) {
    // SAFETY: the provider's name is NULL or NUL-terminated.
    let names_ours = unsafe {
        let provider = (*statement).provider;
        !provider.is_null() && CStr::from_ptr(provider) == PROVIDER
    };
    if names_ours && !REGISTERED.replace(true) {
        register_provider(PROVIDER, Some(check));
    }
}

/// PostgreSQL holds ShareUpdateExclusiveLock on the object, and its owner is the user.
#[pg_guard]
unsafe extern "C-unwind" fn check(object: *const pg_sys::ObjectAddress, text: *const c_char) {
    // SAFETY: the object exists, the text is NULL or NUL-terminated.
    let (object, text) = unsafe {
        let text = (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy());
        (*object, text)
    };
    let is_relation = object.classId == pg_sys::RelationRelationId;
    if let Some(text) = text {
        if !is_relation {
            wrong_object(
                "security labels of howdah are for tables and materialized views",
                None,
            );
        }
        check_object(&object);
        check_text(object.objectSubId, &text);
    }
    if is_relation {
        // Takes effect together with the label, which is written by the same command.
        invalidate(object.objectId);
    }
}

fn check_object(object: &pg_sys::ObjectAddress) {
    // SAFETY: catalog lookups for an object that is locked.
    let (kind, is_system) = unsafe {
        let kind = pg_sys::get_rel_relkind(object.objectId) as u8;
        (kind, pg_sys::IsCatalogRelationOid(object.objectId))
    };
    match kind {
        _ if is_system => refuse(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            "permission denied: system catalogs have no options of howdah".into(),
            None,
        ),
        pg_sys::RELKIND_PARTITIONED_TABLE => wrong_object(
            "partitioned tables have no options of howdah",
            Some("Set the options of its partitions."),
        ),
        pg_sys::RELKIND_RELATION | pg_sys::RELKIND_MATVIEW if object.objectSubId >= 0 => {}
        pg_sys::RELKIND_RELATION | pg_sys::RELKIND_MATVIEW => {
            wrong_object("a sort key cannot have system columns", None)
        }
        _ => wrong_object(
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
