//! Reads and writes options in the catalog `pg_seclabel`. No function here checks privileges.

use std::ffi::CStr;

use howdah_bridge::Oid;
use howdah_bridge::invalidation::invalidate;
use howdah_bridge::security_label::{labels_of, set_label};
use howdah_bridge::transactions::end_command;

use super::label::ColumnOptions;
use super::{TableOptions, label};

/// The provider's name in our labels.
pub const PROVIDER: &CStr = c"howdah";

/// The options in a table's labels. Like reloptions, a label that cannot be parsed is ignored: it
/// would have been refused when it was set, unless another version of the library has set it.
///
/// Columns that were manually given the same position are ordered as in the table.
pub fn read(table: Oid) -> TableOptions {
    let mut options = TableOptions::default();
    let (mut sort_key, mut grouped) = (Vec::new(), Vec::new());
    for found in labels_of(table, PROVIDER) {
        if found.column == 0 {
            options = label::parse_of_table(&found.text).unwrap_or_default();
        } else if let Ok(column) = label::parse_of_column(&found.text) {
            if let Some(position) = column.sort_key {
                sort_key.push((position, found.column));
            }
            if column.grouped {
                grouped.push(found.column);
            }
        }
    }
    grouped.sort_unstable();
    options.grouped_columns = grouped;
    sort_key.sort_unstable();
    options.sort_key = sort_key.into_iter().map(|(_, column)| column).collect();
    options
}

/// Replaces the labels of a table; every backend reads its options again once the transaction
/// commits. The caller holds ShareUpdateExclusiveLock on the table.
pub fn write(table: Oid, options: &TableOptions) {
    set_label(table, 0, PROVIDER, label::of_table(options).as_deref());
    let labelled = labels_of(table, PROVIDER).into_iter();
    let mut columns: Vec<i16> = labelled.map(|found| found.column).collect();
    columns.extend(options.sort_key.iter().chain(&options.grouped_columns));
    columns.sort_unstable();
    columns.dedup();
    for column in columns.into_iter().filter(|&column| column != 0) {
        let position = options.sort_key.iter().position(|&key| key == column);
        let label = label::of_column(ColumnOptions {
            sort_key: position.map(|at| at as u16 + 1),
            grouped: options.grouped_columns.contains(&column),
        });
        set_label(table, column, PROVIDER, label.as_deref());
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
