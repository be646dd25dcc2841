//! Names of objects, looked up in the catalogs.

use std::ffi::{CStr, CString, c_char};

use pgrx::{IntoDatum, pg_sys};

/// Text of the server's, to be shown. What is not UTF-8, as it may be in a database of another
/// encoding, is escaped: it is valid text in any then.
///
/// # Safety
/// `text` is NUL-terminated.
pub(crate) unsafe fn shown(text: *const c_char) -> String {
    // SAFETY: as for this function.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str() {
        Ok(text) => text.to_owned(),
        Err(_) => text.to_bytes().escape_ascii().to_string(),
    }
}

/// A copy to be shown; `None` if there is none.
///
/// # Safety
/// `text` is NULL or NUL-terminated.
pub(crate) unsafe fn owned(text: *const c_char) -> Option<String> {
    // SAFETY: as for this function.
    (!text.is_null()).then(|| unsafe { shown(text) })
}

/// The name of a relation; `None` if there is none.
pub fn relation(oid: pg_sys::Oid) -> Option<String> {
    // SAFETY: the lookup returns NULL or a copy.
    unsafe { owned(pg_sys::get_rel_name(oid)) }
}

/// Whether there is such a relation.
pub fn relation_exists(oid: pg_sys::Oid) -> bool {
    let none = pg_sys::Datum::from(0);
    let cache = pg_sys::SysCacheIdentifier::RELOID as i32;
    // SAFETY: a syscache lookup.
    unsafe {
        pg_sys::SearchSysCacheExists(cache, oid.into_datum().unwrap_or(none), none, none, none)
    }
}

/// Reads the row of `pg_class` of a relation; `None` if there is none.
pub(crate) fn class_row<R>(
    oid: pg_sys::Oid,
    read: impl FnOnce(&pg_sys::FormData_pg_class) -> R,
) -> Option<R> {
    let cache = pg_sys::SysCacheIdentifier::RELOID as i32;
    // SAFETY: the tuple begins with these fields, and is released after they were read.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(oid));
        if tuple.is_null() {
            return None;
        }
        let result = read(&*pg_sys::GETSTRUCT(tuple).cast());
        pg_sys::ReleaseSysCache(tuple);
        Some(result)
    }
}

/// The table whose rows a relation is to take over, as `ALTER TABLE` makes one that rewrites.
pub fn rewritten_table(oid: pg_sys::Oid) -> Option<pg_sys::Oid> {
    let table = class_row(oid, |row| row.relrewrite)?;
    (table != pg_sys::InvalidOid).then_some(table)
}

/// The name of a relation with that of its schema, quoted where they must be, for a command; `None`
/// if there is none, or if it is not UTF-8, as it may be in a database of another encoding.
pub fn qualified(oid: pg_sys::Oid) -> Option<String> {
    // SAFETY: lookups that return NULL or copies.
    unsafe {
        let schema = pg_sys::get_namespace_name(pg_sys::get_rel_namespace(oid));
        let name = pg_sys::get_rel_name(oid);
        match schema.is_null() || name.is_null() {
            true => None,
            false => {
                let both = pg_sys::quote_qualified_identifier(schema, name);
                CStr::from_ptr(both).to_str().ok().map(str::to_owned)
            }
        }
    }
}

/// The name of a column by its number; `None` if it was dropped.
pub fn column(table: pg_sys::Oid, number: i16) -> Option<String> {
    // SAFETY: the lookup returns NULL or a copy.
    unsafe { owned(pg_sys::get_attname(table, number, true)) }
}

/// The number of a live user column.
pub fn column_number(table: pg_sys::Oid, column: &str) -> Option<i16> {
    let name = CString::new(column).ok()?;
    // SAFETY: a syscache lookup; 0 stands for "no such column", system columns are negative.
    let number = unsafe { pg_sys::get_attnum(table, name.as_ptr()) };
    (number > 0).then_some(number)
}

/// The name of a type.
pub fn type_of(oid: pg_sys::Oid) -> String {
    // SAFETY: returns a copy, also for what is no type.
    unsafe { owned(pg_sys::format_type_be(oid)) }.unwrap_or_default()
}

/// Whether values of a type have an order.
pub fn is_ordered(type_oid: pg_sys::Oid) -> bool {
    // SAFETY: entries of the type cache are never freed.
    let entry = unsafe { &*pg_sys::lookup_type_cache(type_oid, pg_sys::TYPECACHE_LT_OPR as i32) };
    entry.lt_opr != pg_sys::InvalidOid
}

/// A schema and its owner. Raises an ERROR if there is none of the name.
pub fn schema_and_owner(name: &CStr) -> (pg_sys::Oid, pg_sys::Oid) {
    let none = pg_sys::Datum::from(0);
    let cache = pg_sys::SysCacheIdentifier::NAMESPACEOID as i32;
    // SAFETY: lookups by a NUL-terminated name; the tuple is released after its owner was read.
    unsafe {
        let schema = pg_sys::get_namespace_oid(name.as_ptr(), false);
        let key = pg_sys::Datum::from(schema);
        let tuple = pg_sys::SearchSysCache(cache, key, none, none, none);
        if tuple.is_null() {
            pgrx::error!("cache lookup failed for schema {}", schema.to_u32());
        }
        let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_namespace>();
        let owner = (*form).nspowner;
        pg_sys::ReleaseSysCache(tuple);
        (schema, owner)
    }
}

/// Whether there is a role of the name.
pub fn role_exists(name: &CStr) -> bool {
    // SAFETY: a lookup by a NUL-terminated name.
    unsafe { pg_sys::get_role_oid(name.as_ptr(), true) != pg_sys::InvalidOid }
}
