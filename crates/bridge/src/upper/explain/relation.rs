//! Names of relations in EXPLAIN's output.

use std::ffi::CStr;

use pgrx::{PgList, pg_sys};

use super::super::reason::table_name;
use crate::explanation::c_string;
use crate::names;

/// How PostgreSQL names the relation of a scan.
pub(super) struct Relation {
    pub name: String,
    /// Only if EXPLAIN is verbose.
    pub schema: Option<String>,
    pub alias: String,
}

impl Relation {
    /// # Safety
    /// EXPLAIN's state; the relation is number `rti` in the statement's range table.
    pub unsafe fn of(state: *mut pg_sys::ExplainState, oid: pg_sys::Oid, rti: i32) -> Relation {
        let name = table_name(oid);
        // SAFETY: as for this function.
        unsafe {
            let relations = PgList::<pg_sys::RangeTblEntry>::from_pg((*state).rtable);
            let entry = relations.get_ptr(rti as usize - 1);
            let alias = entry.and_then(|entry| names::owned((*(*entry).eref).aliasname));
            Relation {
                alias: alias.unwrap_or_else(|| name.clone()),
                schema: schema_if_verbose(state, oid),
                name,
            }
        }
    }

    pub fn shown(&self) -> String {
        let mut shown = qualified(self.schema.as_deref(), &self.name);
        if self.alias != self.name {
            shown += &format!(" {}", quoted(&self.alias));
        }
        shown
    }
}

/// # Safety
/// EXPLAIN's state.
pub(super) unsafe fn schema_if_verbose(
    state: *mut pg_sys::ExplainState,
    oid: pg_sys::Oid,
) -> Option<String> {
    // SAFETY: as for this function; catalog look-ups return copies, or NULL.
    unsafe {
        let namespace = (*state).verbose.then(|| pg_sys::get_rel_namespace(oid))?;
        names::owned(pg_sys::get_namespace_name_or_temp(namespace))
    }
}

pub(super) fn qualified(schema: Option<&str>, name: &str) -> String {
    let schema = schema.map_or(String::new(), |schema| quoted(schema) + ".");
    schema + &quoted(name)
}

fn quoted(name: &str) -> String {
    let name = c_string(name);
    // SAFETY: the result is the argument or a copy.
    unsafe { CStr::from_ptr(pg_sys::quote_identifier(name.as_ptr())) }
        .to_string_lossy()
        .into_owned()
}
