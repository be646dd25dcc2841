//! The order in which compaction writes the rows of a group.
//!
//! What the owner says comes first: the option `sort_key`, or CLUSTER ([`crate::row_order`]). Else
//! rows keep the order of the pages, unless the table has a primary key and its rows are in that
//! order by and large. Then they are sorted by it: updates leave new versions wherever there is
//! room, and a range of keys would lead to as many places as it has rows, for ever
//! ([decision 54](../../../../docs/decisions/0054-rows-go-back-among-their-neighbours.md)).
//!
//! Whether they are in that order is asked of the rows at hand, and of the groups that the table
//! has already: rows at hand may all be new versions. Keys that come in no order (a hash, a random
//! UUID) are in none of them, and rows keep the order in which they came, which other columns
//! follow.

use howdah_bridge::indexes::primary_key;
use howdah_bridge::maintained::MaintainedTable;
use howdah_bridge::store::ColdStore;
use howdah_columnar::RowGroupBuilder;

use super::task::Task;
use crate::errors::ColdError;
use crate::row_order;
use crate::store::column_reader::ColumnReader;
use crate::store::directory::{self, GroupEntry, GroupState};

/// Groups that are asked, from all over the table: their footers are read.
const ASKED_GROUPS: usize = 16;

/// The new order of the rows, as [`row_order::order_by`] returns it; `None` if they stay as they
/// are.
///
/// # Errors
/// A damaged directory entry.
pub fn order_of(
    task: &Task,
    table: &MaintainedTable,
    store: &ColdStore<'_>,
    rows: &RowGroupBuilder,
) -> Result<Option<Vec<u32>>, ColdError> {
    let asked_for = row_order::key_of(table.table(), &task.policy.sort_key);
    if !asked_for.is_empty() {
        return Ok(row_order::order_by(rows, &asked_for));
    }
    let Some(key) = primary_key(table.table()) else {
        return Ok(None);
    };
    if row_order::is_mostly_in_order(rows, &key) || are_in_order(table, store, &key)? {
        return Ok(row_order::order_by(rows, &key));
    }
    Ok(None)
}

/// Whether at least half of the rows of the groups that are asked are in groups in the order of the
/// first column of a key.
fn are_in_order(
    table: &MaintainedTable,
    store: &ColdStore<'_>,
    key: &[i16],
) -> Result<bool, ColdError> {
    let first = key.first();
    let Some(column) = first.and_then(|&attno| usize::try_from(attno - 1).ok()) else {
        return Ok(false);
    };
    let groups = directory::groups(store, table.snapshot())?;
    let apart = groups.len().div_ceil(ASKED_GROUPS).max(1);
    let (mut rows, mut in_order) = (0, 0);
    for placed in groups.iter().step_by(apart) {
        if let Some(is_in_order) = asked(store, &placed.entry, groups.len(), column) {
            rows += u64::from(placed.entry.row_count);
            in_order += u64::from(placed.entry.row_count) * u64::from(is_in_order);
        }
    }
    Ok(rows > 0 && 2 * in_order >= rows)
}

/// Whether the rows of a group are in the order of a column; `None` if it does not tell, or cannot
/// be read: a damaged group does not keep other rows hot.
fn asked(
    store: &ColdStore<'_>,
    entry: &GroupEntry,
    group_count: usize,
    column: usize,
) -> Option<bool> {
    if entry.state != GroupState::Stored {
        return None;
    }
    let reader = ColumnReader::open(store, *entry, group_count).ok()?;
    if !reader.has_column(column) {
        return None;
    }
    let statistics = reader.statistics(store, column).ok()?;
    (statistics.zone_count() > 1).then(|| statistics.zones_ascend())
}
