//! Reads and writes options in the catalog `pg_seclabel`. No function here checks privileges.

use std::ffi::CStr;

use howdah_bridge::Oid;
use howdah_bridge::invalidation::invalidate;
use howdah_bridge::security_label::{labels_of, set_label};
use howdah_bridge::transactions::end_command;

use super::{TableOptions, label};

/// The provider's name in our labels.
pub const PROVIDER: &CStr = c"howdah";

/// The options in a table's labels. Like reloptions, a label that cannot be parsed is ignored: it
/// would have been refused when it was set, unless another version of the library has set it.
///
/// Columns that were manually given the same position are ordered as in the table.
pub fn read(table: Oid) -> TableOptions {
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
pub fn write(table: Oid, options: &TableOptions) {
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
    // The labels become visible to what the same statement does next.
    end_command();
}

/// Removes the labels of a table that no longer uses howdah, so that a dump of it can be restored
/// where the extension is not installed.
pub fn forget(table: Oid) {
    if !labels_of(table, PROVIDER).is_empty() {
        write(table, &TableOptions::default());
    }
}
