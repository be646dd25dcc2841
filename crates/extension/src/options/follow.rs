//! Options follow their tables (and so do the counters of [`crate::scan_stats`]): a dropped table takes its row along, a dropped column leaves the
//! sort key, a renamed one is renamed in it.
//!
//! The hook runs inside the command that drops or renames, in its transaction; what it does
//! comes and goes with that command. A renamed column is seen under both names there: the old
//! one through the catalog cache, the new one through a snapshot that sees the command itself.

use std::ffi::{CStr, c_int, c_void};

use pgrx::{IntoDatum, pg_guard, pg_sys};

use super::catalog::{Field, OptionsTable};

static mut PREVIOUS: pg_sys::object_access_hook_type = None;

/// Chains the hook. Call once, from `_PG_init`.
pub(super) fn register() {
    // SAFETY: called while the library loads, before any command runs.
    unsafe {
        PREVIOUS = pg_sys::object_access_hook;
        pg_sys::object_access_hook = Some(at_object_access);
    }
}

/// Called for every function that an expression calls, too, hence guarded only where there is something to do.
unsafe extern "C-unwind" fn at_object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    sub: c_int,
    arg: *mut c_void,
) {
    // SAFETY: the previous hook gets what we got; PREVIOUS was set before any command ran.
    unsafe {
        if let Some(previous) = PREVIOUS {
            previous(access, class, object, sub, arg);
        }
    }
    if class == pg_sys::RelationRelationId {
        // SAFETY: a plain function behind a guard.
        unsafe { at_relation_access(access, object, sub) }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_relation_access(
    access: pg_sys::ObjectAccessType::Type,
    object: pg_sys::Oid,
    sub: c_int,
) {
    match (access, sub) {
        (pg_sys::ObjectAccessType::OAT_DROP, 0) => table_dropped(object),
        (pg_sys::ObjectAccessType::OAT_DROP, 1..) => column_dropped(object, sub as i16),
        (pg_sys::ObjectAccessType::OAT_POST_ALTER, 1..) => column_altered(object, sub as i16),
        _ => {}
    }
}

fn table_dropped(table: pg_sys::Oid) {
    crate::scan_stats::table_dropped(table);
    if let Some(options) = OptionsTable::open(pg_sys::RowExclusiveLock) {
        options.remove(table);
    }
}

fn column_dropped(table: pg_sys::Oid, attribute: i16) {
    let dropped = || old_name(table, attribute);
    change_sort_key(table, |name| {
        (Some(name) != dropped().as_deref()).then(|| name.to_owned())
    });
}

fn column_altered(table: pg_sys::Oid, attribute: i16) {
    change_sort_key(table, |name| {
        let renamed = Some(name) == old_name(table, attribute).as_deref();
        let new = renamed.then(|| new_name(table, attribute)).flatten();
        Some(new.unwrap_or_else(|| name.to_owned()))
    });
}

/// Rewrites the names of a table's sort key; `None` removes one.
fn change_sort_key(table: pg_sys::Oid, change: impl Fn(&str) -> Option<String>) {
    let Some(options) = OptionsTable::open(pg_sys::RowExclusiveLock) else {
        return;
    };
    let Some(mut row) = options.find(table) else {
        return;
    };
    if row.get(Field::SortKey).is_none() {
        return;
    }
    let old = row.sort_key();
    let new: Vec<String> = old.iter().filter_map(|name| change(name)).collect();
    if new != old {
        row.set_sort_key(&new);
        options.put(table, &mut row);
    }
}

/// The column's name before the running command.
fn old_name(table: pg_sys::Oid, attribute: i16) -> Option<String> {
    // SAFETY: returns NULL or a palloc'd NUL-terminated string.
    unsafe {
        let name = pg_sys::get_attname(table, attribute, true);
        (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// The column's name after the running command.
fn new_name(table: pg_sys::Oid, attribute: i16) -> Option<String> {
    let mut keys: [pg_sys::ScanKeyData; 2] = Default::default();
    // SAFETY: pg_attribute is opened and closed here; the tuple is read before the scan ends.
    unsafe {
        pg_sys::ScanKeyInit(
            &mut keys[0],
            pg_sys::Anum_pg_attribute_attrelid as i16,
            pg_sys::BTEqualStrategyNumber as u16,
            pg_sys::Oid::from(pg_sys::F_OIDEQ),
            table.into_datum()?,
        );
        pg_sys::ScanKeyInit(
            &mut keys[1],
            pg_sys::Anum_pg_attribute_attnum as i16,
            pg_sys::BTEqualStrategyNumber as u16,
            pg_sys::Oid::from(pg_sys::F_INT2EQ),
            pg_sys::Datum::from(attribute),
        );
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        let catalog = pg_sys::table_open(pg_sys::AttributeRelationId, lock);
        let scan = pg_sys::systable_beginscan(
            catalog,
            pg_sys::Oid::from(pg_sys::AttributeRelidNumIndexId),
            true,
            &raw mut pg_sys::SnapshotSelfData,
            2,
            keys.as_mut_ptr(),
        );
        let tuple = pg_sys::systable_getnext(scan);
        let name = (!tuple.is_null()).then(|| {
            let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_attribute>();
            CStr::from_ptr((*form).attname.data.as_ptr())
                .to_string_lossy()
                .into_owned()
        });
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(catalog, lock);
        name
    }
}
