//! Rows of plain INSERT statements, which a bulk load takes from the statement's plan.

use howdah_bridge::plain_insert::{self, FixedTuples, LoadRows};
use howdah_bridge::slot::Slot;
use howdah_bridge::table::Table;
use howdah_bridge::xid::CommandId;

use super::is_ours;
use crate::{load, settings};

struct Loads;

impl LoadRows for Loads {
    fn is_concerned(&self, table: Table<'_>) -> bool {
        settings::bulk_load() && is_ours(table)
    }

    fn take_row(&self, table: Table<'_>, row: Slot<'_>, command: CommandId) -> bool {
        load::insert_next(table, row, command)
    }

    fn take_tuples(&self, table: Table<'_>, tuples: &FixedTuples<'_>, command: CommandId) -> usize {
        load::insert_tuples(table, tuples, command)
    }
}

/// Must be called once, from `_PG_init`.
pub(super) fn register() {
    plain_insert::register(&Loads);
}
