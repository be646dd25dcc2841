//! Reads and writes options in the catalog `pg_seclabel`. No function here checks privileges.

use std::ffi::CStr;

use howdah_bridge::security_label::{labels_of, set_label};
use pgrx::{IntoDatum, pg_sys};

use super::{TableOptions, label};

/// The provider's name in our labels.
pub const PROVIDER: &CStr = c"howdah";

/// The options in a table's labels. Like reloptions, a label that cannot be parsed is ignored: it
/// would have been refused when it was set, unless another version of the library has set it.
///
/// Columns that were manually given the same position are ordered as in the table.
pub fn read(table: pg_sys::Oid) -> TableOptions {
    let mut options = TableOptions::default();
    let mut sort_key = Vec::new();
    for found in labels_of(table, PROVIDER) {
        if found.column == 0 {
            options = label::parse_of_table(&found.text).unwrap_or_default();
        } else if let Ok(position) = label::parse_of_column(&found.text) {
            sort_key.push((position, found.column));
        }
    }
    sort_key.sort_unstable();
    options.sort_key = sort_key.into_iter().map(|(_, column)| column).collect();
    options
}

/// Replaces the labels of a table; every backend reads its options again once the transaction
/// commits. The caller holds ShareUpdateExclusiveLock on the table.
pub fn write(table: pg_sys::Oid, options: &TableOptions) {
    set_label(table, 0, PROVIDER, label::of_table(options).as_deref());
    for found in labels_of(table, PROVIDER) {
        if found.column != 0 && !options.sort_key.contains(&found.column) {
            set_label(table, found.column, PROVIDER, None);
        }
    }
    for (i, &column) in options.sort_key.iter().enumerate() {
        set_label(table, column, PROVIDER, Some(&label::of_column(i + 1)));
    }
    invalidate(table);
    // SAFETY: makes the labels visible to later commands of the same statement.
    unsafe { pg_sys::CommandCounterIncrement() }
}

/// Removes the labels of a table that no longer uses howdah, so that a dump of it can be restored
/// where the extension is not installed.
pub fn forget(table: pg_sys::Oid) {
    if !labels_of(table, PROVIDER).is_empty() {
        write(table, &TableOptions::default());
    }
}

/// Makes every backend read a table's options again.
pub fn invalidate(table: pg_sys::Oid) {
    // SAFETY: a syscache lookup guards against a table that was dropped, for which the invalidation
    // would raise an ERROR; a dropped table needs none.
    unsafe {
        let none = pg_sys::Datum::from(0);
        let key = table.into_datum().unwrap_or(none);
        let reloid = pg_sys::SysCacheIdentifier::RELOID as i32;
        if pg_sys::SearchSysCacheExists(reloid, key, none, none, none) {
            pg_sys::CacheInvalidateRelcacheByRelid(table);
        }
    }
}
