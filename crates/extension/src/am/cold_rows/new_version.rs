//! The new version of an updated cold row: a hot row, and its entries in the indexes.

use howdah_bridge::Datum;
use howdah_bridge::heap_am;
use howdah_bridge::new_entries::Indexes;
use howdah_bridge::predicate::{is_serializable, unnoticed};
use howdah_bridge::row_request::UpdateIndexes;
use howdah_bridge::slot::{Slot, is_same_image};
use howdah_bridge::table::{IndexedColumns, Table};
use howdah_bridge::xid::CommandId;

use super::located::LocatedRow;
use crate::am::last_row;
use crate::store::directory::{self, GroupState};
use crate::store::view::point_value;

/// Inserts a new version of a cold row, the one in the slot. The table is locked for writing.
pub fn insert(table: Table<'_>, slot: Slot<'_>, cid: CommandId) {
    heap_am::insert(table, slot, cid);
    table.count_insert_as_update();
}

/// Whether the new row, the one in the slot, has the old one's values in every column that a
/// foreign key may refer to. The row was cold when it was found.
pub(super) fn keeps_key(target: &LocatedRow<'_>, slot: Slot<'_>) -> bool {
    keeps(target, slot, IndexedColumns::Key)
}

/// Inserts index entries for the new version that [`insert`] has inserted, or leaves that to the
/// caller: the result tells which indexes are left to it.
///
/// When a serializable transaction inserts into an index page, it conflicts with all transactions
/// that have read the page. Where a hot row would get a HOT update, it must not conflict: see
/// [`howdah_bridge::predicate::unnoticed`]. For constraints that are checked at the end of the
/// transaction, the caller looks into their index again.
pub(super) fn enter_indexes(target: &LocatedRow<'_>, slot: Slot<'_>) -> UpdateIndexes {
    if !is_serializable() || !keeps(target, slot, IndexedColumns::HotBlocking) {
        return UpdateIndexes::All;
    }
    let keeps_summaries = keeps(target, slot, IndexedColumns::Summarized);
    let is_wanted = |index: Table<'_>| keeps_summaries || !index.is_summarizing_index();
    let mut indexes = Indexes::open(target.table, is_wanted);
    if indexes.is_any_deferrable() {
        return UpdateIndexes::All;
    }
    // SAFETY: the transaction has an id: it has inserted the new version.
    let run = |insert: &mut dyn FnMut()| unsafe { unnoticed(insert) };
    indexes.insert_slot(slot, slot.tid(), true, run);
    if keeps_summaries {
        UpdateIndexes::None
    } else {
        UpdateIndexes::Summarizing
    }
}

/// Whether the new row has the old one's values in a set of columns that the relation knows. The
/// old row never changes, so it may be read before it is locked.
fn keeps(target: &LocatedRow<'_>, slot: Slot<'_>, columns: IndexedColumns) -> bool {
    let (table, row) = (target.table, target.row);
    let attributes = table.indexed_columns(columns);
    let Some(&first) = attributes.first() else {
        return true;
    };
    if first <= 0 {
        // An expression on the whole row, or on a system column.
        return false;
    }
    let known = last_row::with(table, row, |old| {
        let mut numbers = attributes.iter();
        // SAFETY: the image has the table's descriptor, which the table knows these columns of.
        numbers.all(|&number| is_same(table, number, unsafe { old.attribute(number) }, slot))
    });
    if let Some(same) = known {
        return same;
    }
    let known = target.known().map(|known| known.placed.entry);
    let entry = known.or_else(|| {
        let now = directory::entry_in_force(target.store(), target.group()?, row);
        Some(target.or_raise(now)?.0.entry)
    });
    let Some((entry, position)) = entry.and_then(|e| Some((e, e.position_of(row)?))) else {
        return false;
    };
    entry.state == GroupState::Stored
        && attributes.iter().all(|&number| {
            let desc = table.descriptor();
            let old = point_value(target.store(), entry, position, desc, number as usize - 1);
            is_same(table, number, target.or_raise(old), slot)
        })
}

/// Whether a column of the row in the slot is byte for byte the same as before; `old` is a value of
/// this column.
fn is_same(table: Table<'_>, number: i32, old: Option<Datum>, slot: Slot<'_>) -> bool {
    match (old, slot.attribute(number)) {
        (None, None) => true,
        (Some(old), Some(new)) => {
            let attribute = table.descriptor().attribute(number as usize - 1);
            // SAFETY: both are values of this attribute.
            unsafe { is_same_image(old, new, attribute) }
        }
        (None, Some(_)) | (Some(_), None) => false,
    }
}
