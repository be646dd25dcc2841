//! Functions that SQL calls. The statements that create them are in `sql/howdah--0.1.0.sql`.
//!
//! ```text
//!   options    set_options, reset_options, what howdah.options is made of
//!   adopt      adopt, release
//!   describe   what the views howdah.tables, row_groups and column_chunks are made of
//!   functions  what the view howdah.functions is made of
//!   visible    what of them a user may see
//!   schema     check_schema, which CREATE EXTENSION calls
//! ```
//!
//! What is here checks rights and arguments and then asks other rooms. Maintenance needs the
//! owner's rights; nothing is shown that the user could not select.

mod adopt;
mod describe;
mod functions;
mod options;
mod schema;
mod visible;

use std::ffi::CStr;

use howdah_bridge::relation::OpenRelation;
use pgrx::{PgSqlErrorCode, pg_sys};

use crate::errors::refuse;

/// Opens a table that the user owns, locked; raises an ERROR as ALTER TABLE would for others.
/// Rights are checked before the lock is waited for.
fn open_owned(oid: pg_sys::Oid, lockmode: u32) -> OpenRelation {
    // SAFETY: catalog lookups; aclcheck_error gets a NUL-terminated name.
    unsafe {
        let name = pg_sys::get_rel_name(oid);
        if name.is_null() {
            no_such_relation(oid);
        }
        if !pg_sys::object_ownercheck(pg_sys::RelationRelationId, oid, pg_sys::GetUserId()) {
            pg_sys::aclcheck_error(
                pg_sys::AclResult::ACLCHECK_NOT_OWNER,
                pg_sys::get_relkind_objtype(pg_sys::get_rel_relkind(oid)),
                name,
            );
        }
    }
    let Some(rel) = OpenRelation::try_open(oid, lockmode) else {
        no_such_relation(oid)
    };
    // SAFETY: `rel` is open.
    let is_system = unsafe { pg_sys::IsSystemClass(oid, (*rel.raw()).rd_rel) };
    if is_system {
        refuse(
            PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!(
                "permission denied: \"{}\" is a system catalog",
                name_of(&rel)
            ),
            None,
        );
    }
    rel
}

fn no_such_relation(oid: pg_sys::Oid) -> ! {
    refuse(
        PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
        format!("relation with OID {} does not exist", oid.to_u32()),
        None,
    )
}

fn name_of(rel: &OpenRelation) -> String {
    // SAFETY: the guard holds the relation open.
    unsafe { howdah_bridge::relation::name_of(rel.raw()) }
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

/// A palloc'd C string as text.
///
/// # Safety
/// `text` is NUL-terminated.
unsafe fn owned(text: *const std::ffi::c_char) -> String {
    // SAFETY: the caller vouches.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
