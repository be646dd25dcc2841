//! The access method of tables that other extensions create without a word.
//!
//! - Tables that belong to an extension are heap where the session's default is howdah: the
//!   extension's C code may change their rows by heap's own functions (`simple_heap_delete`), which
//!   know of no cold rows.
//! - pg_repack makes a copy of a table by CREATE TABLE AS, and then swaps the files of the two, but
//!   not their access methods. So the copy gets the table's own, whatever the default is: in files
//!   of another one the rows would not be found any more.

use std::ffi::{CStr, CString, c_int};

use pgrx::pg_sys;

use crate::statement_settings;

const SETTING: &CStr = c"default_table_access_method";
/// Schema of pg_repack's copies, and the beginning of their names; the table's OID follows.
const REPACK_SCHEMA: &CStr = c"repack";
const REPACK_TABLE: &[u8] = b"table_";

/// Changes the default for a statement that needs another one; `level` becomes the level at which
/// [`statement_settings::restore`] ends that, if it does.
///
/// # Safety
/// A utility statement that the server is about to run, in a transaction; `level` is the hook's
/// own.
#[pgrx::pg_guard]
pub(crate) unsafe extern "C-unwind" fn prepare(
    statement: *mut pg_sys::PlannedStmt,
    level: *mut c_int,
) {
    // SAFETY: as for this function.
    unsafe {
        if let Some(method) = method_for((*statement).utilityStmt) {
            *level = statement_settings::change(SETTING, &method);
        }
    }
}

/// # Safety
/// The tree of a utility statement.
unsafe fn method_for(node: *mut pg_sys::Node) -> Option<CString> {
    // SAFETY: the node's tag says what it is; names are NULL or NUL-terminated; settings are read.
    unsafe {
        match (*node).type_ {
            pg_sys::NodeTag::T_CreateExtensionStmt | pg_sys::NodeTag::T_AlterExtensionStmt => {
                let default = CStr::from_ptr(pg_sys::default_table_access_method);
                (default == c"howdah").then(|| c"heap".to_owned())
            }
            pg_sys::NodeTag::T_CreateTableAsStmt => {
                let into = (*node.cast::<pg_sys::CreateTableAsStmt>()).into;
                if into.is_null() || !(*into).accessMethod.is_null() {
                    return None;
                }
                method_of(repacked(&*(*into).rel)?)
            }
            _ => None,
        }
    }
}

/// The table of which pg_repack makes a copy under this name.
///
/// # Safety
/// The name is the parser's.
unsafe fn repacked(copy: &pg_sys::RangeVar) -> Option<pg_sys::Oid> {
    // SAFETY: as for this function.
    unsafe {
        if copy.schemaname.is_null() || CStr::from_ptr(copy.schemaname) != REPACK_SCHEMA {
            return None;
        }
        let number = (CStr::from_ptr(copy.relname).to_bytes()).strip_prefix(REPACK_TABLE)?;
        let number = std::str::from_utf8(number).ok()?.parse::<u32>().ok()?;
        Some(pg_sys::Oid::from(number))
    }
}

fn method_of(table: pg_sys::Oid) -> Option<CString> {
    let is_table = |row: &pg_sys::FormData_pg_class| row.relkind as u8 == pg_sys::RELKIND_RELATION;
    let method = crate::names::class_row(table, |row| is_table(row).then_some(row.relam))??;
    // SAFETY: the name is NULL or a copy.
    unsafe {
        let name = pg_sys::get_am_name(method);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_owned())
    }
}
