//! The new version of an updated cold row: a hot row, and its entries in the indexes.

use howdah_bridge::ffi::quiet;
use howdah_bridge::hot::growth::Growth;
use howdah_bridge::new_entries::Indexes;
use howdah_bridge::predicate::{is_serializable, unnoticed};
use howdah_bridge::relation::attribute;
use howdah_bridge::slot::{attribute_of, is_same_image};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::Table;
use howdah_bridge::tid::RowNumber;
use pgrx::pg_sys;
use pgrx::pg_sys::IndexAttrBitmapKind as Columns;

use super::grip::Located;
use crate::am::{heap, last_row};
use crate::errors::or_raise;
use crate::store::directory::{self, GroupState};
use crate::store::view::point_value;

/// Inserts a new version of a cold row.
///
/// # Safety
/// The relation is open and locked for writing; the slot holds a row of it.
pub unsafe fn insert(
    rel: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    cid: pg_sys::CommandId,
) {
    // SAFETY: as for this function.
    unsafe {
        let mut growth = Growth::of(rel);
        (heap().tuple_insert.unwrap_unchecked())(rel, slot, cid, 0, growth.state());
        growth.end();
        // Heap has counted an insert.
        quiet::pgstat_count_heap_insert(rel, -1);
        quiet::pgstat_count_heap_update(rel, false, false);
    }
}

/// Whether the new row has the old one's values in every column that a foreign key may refer to.
///
/// # Safety
/// As for [`insert`]. The row was cold when it was found.
pub unsafe fn keeps_key(
    rel: pg_sys::Relation,
    row: RowNumber,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: as for this function.
    unsafe { keeps(rel, row, slot, Columns::INDEX_ATTR_BITMAP_KEY) }
}

/// Enters the new version into the indexes, or has the caller do it: the result says which of them are left to him.
///
/// Who makes a serializable transaction enter an index page makes it notice all who have read the page. Where
/// the update would be a HOT update of a hot row, nobody has to: see [`howdah_bridge::predicate::unnoticed`].
/// Constraints that are checked at the end of the transaction have the caller look into their index again.
///
/// # Safety
/// As for [`keeps_key`]; the slot holds the version that [`insert`] inserted for the row.
pub unsafe fn enter_indexes(
    rel: pg_sys::Relation,
    row: RowNumber,
    slot: *mut pg_sys::TupleTableSlot,
) -> pg_sys::TU_UpdateIndexes::Type {
    // SAFETY: as for this function.
    unsafe {
        if !is_serializable() || !keeps(rel, row, slot, Columns::INDEX_ATTR_BITMAP_HOT_BLOCKING) {
            return pg_sys::TU_UpdateIndexes::TU_All;
        }
        let keeps_summaries = keeps(rel, row, slot, Columns::INDEX_ATTR_BITMAP_SUMMARIZED);
        let is_wanted =
            |index: Table<'_>| keeps_summaries || !(*(*index.raw()).rd_indam).amsummarizing;
        let mut indexes = Indexes::open(Table::from_raw(rel), is_wanted);
        if indexes.is_any_deferrable() {
            return pg_sys::TU_UpdateIndexes::TU_All;
        }
        indexes.insert_slot(slot, (*slot).tts_tid, true, |insert| unnoticed(insert));
        if keeps_summaries {
            pg_sys::TU_UpdateIndexes::TU_None
        } else {
            pg_sys::TU_UpdateIndexes::TU_Summarizing
        }
    }
}

/// Whether the new row has the old one's values in a set of columns that the relation knows.
unsafe fn keeps(
    rel: pg_sys::Relation,
    row: RowNumber,
    slot: *mut pg_sys::TupleTableSlot,
    columns: Columns::Type,
) -> bool {
    // SAFETY: the relation is open; the slot holds a row of it. The old row never changes, so it
    // may be read before it is locked.
    unsafe {
        let attributes = attributes_in(rel, columns);
        if attributes.is_empty() {
            return true;
        }
        if attributes[0] <= 0 {
            // An expression on the whole row, or on what is no column of it.
            return false;
        }
        let known = last_row::with(rel, row, |old| {
            let mut numbers = attributes.iter();
            numbers.all(|&number| is_same(rel, number, old.attribute(number), slot))
        });
        if let Some(same) = known {
            return same;
        }
        let oid = (*rel).rd_id;
        let Some(store) = ColdStore::open(rel, pg_sys::AccessShareLock) else {
            return false;
        };
        let in_force = &raw mut pg_sys::SnapshotSelfData;
        let entry = match Located::recall(&store, row, |l| l.entry()) {
            Some(entry) => Some(entry),
            None => or_raise(oid, directory::group_of(&store, row, in_force)).map(|p| p.entry),
        };
        let Some((entry, position)) = entry.and_then(|e| Some((e, e.position_of(row)?))) else {
            return false;
        };
        entry.state == GroupState::Stored
            && attributes.iter().all(|&number| {
                let desc = (*rel).rd_att;
                let old = point_value(&store, entry, position, desc, number as usize - 1);
                is_same(rel, number, or_raise(oid, old), slot)
            })
    }
}

/// The numbers of the columns in a set that the relation knows; those of system columns, and 0 for the whole row, come
/// first.
unsafe fn attributes_in(rel: pg_sys::Relation, columns: Columns::Type) -> Vec<i32> {
    // SAFETY: the relation is open; a set of its own is valid as long as nobody processes invalidations, which
    // nothing here does.
    unsafe {
        let is_known = (*rel).rd_attrsvalid && columns == Columns::INDEX_ATTR_BITMAP_KEY;
        let known = is_known.then_some((*rel).rd_keyattr);
        let set = known.unwrap_or_else(|| pg_sys::RelationGetIndexAttrBitmap(rel, columns));
        let mut attributes = Vec::new();
        let mut member = quiet::bms_next_member(set, -1);
        while member >= 0 {
            attributes.push(member + pg_sys::FirstLowInvalidHeapAttributeNumber);
            member = quiet::bms_next_member(set, member);
        }
        if known.is_none() {
            quiet::bms_free(set);
        }
        attributes
    }
}

/// Whether a column of the row in the slot is, byte for byte, what it was.
unsafe fn is_same(
    rel: pg_sys::Relation,
    number: i32,
    old: Option<pg_sys::Datum>,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: as for `keeps`.
    unsafe {
        let form = attribute((*rel).rd_att, number - 1);
        match (old, attribute_of(slot, number)) {
            (None, None) => true,
            (Some(old), Some(new)) => is_same_image(old, new, form),
            (None, Some(_)) | (Some(_), None) => false,
        }
    }
}
