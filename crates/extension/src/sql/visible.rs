//! Which parts of a table the views may show to the current user: those that core shows likewise.
//!
//! ```text
//!   of all tables           names, sizes of files in blocks       pg_class, pg_relation_size()
//!   count them              exact counts                          SELECT count(*)
//!   select all columns      sizes of values, exact to the byte    SELECT length(…)
//!   select the column       everything about its chunks           pg_stats
//! ```
//!
//! Row security hides rows, and so it hides their counts and sizes, too. Members of
//! `pg_stat_scan_tables` see counts and sizes of any table, as they do by `pgstattuple`, but
//! nothing by column.

use howdah_bridge::Oid;
use howdah_bridge::rights::{
    hides_rows, may_scan_statistics, may_select_all, may_select_any_column, may_select_column,
};

use crate::types::TableLayout;

/// The parts of a table that the current user may see.
pub struct Visible {
    /// How many rows there are.
    pub counts: bool,
    /// How many bytes their values take.
    pub value_sizes: bool,
}

impl Visible {
    pub fn of(table: Oid) -> Visible {
        let monitors = may_scan_statistics();
        let whole = may_select_all(table);
        let all_rows = !hides_rows(table);
        Visible {
            counts: monitors || all_rows && (whole || may_select_any_column(table)),
            value_sizes: monitors || all_rows && whole,
        }
    }
}

/// Per attribute, whether the user may select it and sees all rows.
pub fn readable_columns(table: Oid, layout: &TableLayout) -> Vec<bool> {
    let (all_rows, whole) = (!hides_rows(table), may_select_all(table));
    layout
        .attributes
        .iter()
        .enumerate()
        .map(|(i, a)| all_rows && !a.dropped && (whole || may_select_column(table, i)))
        .collect()
}
