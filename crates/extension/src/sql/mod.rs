//! Functions that SQL calls. The statements that create them are in `sql/howdah--0.1.0.sql`.
//!
//! ```text
//!   options    set_options, reset_options, the function behind howdah.options
//!   adopt      adopt, release
//!   describe   the functions behind howdah.tables, row_groups and column_chunks
//!   describe_lock  what a TID, or a lock of pg_locks, is for
//!   functions  the function behind howdah.functions
//!   visible    which of this a user may see
//!   schema     check_schema, which CREATE EXTENSION calls
//! ```
//!
//! These functions check rights and arguments, and call other rooms. Maintenance needs the rights
//! of the owner. Invariant: nothing is shown that the user could not select.

mod adopt;
mod describe;
mod describe_lock;
mod functions;
mod options;
mod schema;
mod visible;

use howdah_bridge::relation::OpenRelation;
use howdah_bridge::table::LockMode;
use howdah_bridge::{Oid, names, rights};
use pgrx::PgSqlErrorCode;

use crate::am;
use crate::errors::refuse;

/// A howdah table that is open for reading; `None` if it is gone, of another access method, or has
/// no files here.
fn open_howdah(oid: Oid) -> Option<OpenRelation> {
    let lock = LockMode::AccessShare as u32;
    let rel = OpenRelation::try_open(oid, lock)?.releasing(lock);
    let table = rel.table();
    let has_files = !table.is_temporary_of_others() && !table.is_empty_on_standby();
    let readable = am::is_ours(table) && has_files;
    readable.then_some(rel)
}

/// Opens a table that the user owns, and locks it; raises an ERROR for other users, as ALTER TABLE
/// does. Rights are checked before the lock is waited for, and again once it is held.
fn open_owned(oid: Oid, lock: LockMode) -> OpenRelation {
    if names::relation(oid).is_none() {
        no_such_relation(oid);
    }
    if !rights::owns(oid) {
        rights::refuse_unless_owner(oid);
    }
    let Some(open) = OpenRelation::try_open(oid, lock as u32) else {
        no_such_relation(oid)
    };
    if !rights::owns(oid) {
        rights::refuse_unless_owner(oid);
    }
    if open.table().is_system_class() {
        refuse(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!(
                "permission denied: \"{}\" is a system catalog",
                open.table().name()
            ),
            Some("System catalogs always remain heap. Name a table of your own.".into()),
        );
    }
    if open.table().is_temporary_of_others() {
        refuse(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "cannot alter temporary tables of other sessions".into(),
            None,
        );
    }
    open
}

fn no_such_relation(oid: Oid) -> ! {
    refuse(
        PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
        format!("relation with OID {} does not exist", oid.to_u32()),
        None,
    )
}

/// The argument of a function that is not declared STRICT.
fn required<T>(argument: Option<T>, name: &str) -> T {
    argument.unwrap_or_else(|| {
        refuse(
            PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            format!("{name} must not be null"),
            None,
        )
    })
}
