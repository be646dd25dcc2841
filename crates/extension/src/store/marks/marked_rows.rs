//! The rows of a group that marks and deletion vectors hide, as a judge of these records says.
//!
//! What is in force now is asked by holders of the group's lock, and by ANALYZE; what a snapshot
//! sees is asked at [`crate::store::visibility`].

use std::ops::Range;

use howdah_bridge::store::{ColdStore, Visited};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::Xid;
use howdah_records::DeletionVector;

use super::block_deletions::for_each_in_blocks;
use super::deletion_vector::{add_rows, for_each_in_vectors};
use super::hidden_parts::HiddenParts;
use super::row_mark::MARK_KEYS;
use super::tuple_visibility::{in_force, writer_of};
use crate::errors::ColdError;
use crate::store::directory::{GroupEntry, GroupFlags};
use crate::store::pending_marks::memory;
use crate::store::row_set::RowSet;

/// The rows of a group that are hidden now, by our own transaction or a committed one.
///
/// # Errors
/// A damaged record.
pub fn hidden_now(store: &ColdStore, entry: &GroupEntry) -> Result<Option<RowSet>, ColdError> {
    let stored = hidden_where(store, entry, &mut |shown| in_force(shown))?;
    Ok(with_pending(store, entry, stored))
}

/// Reads whether marks or deletion vectors of our own transaction, or of committed ones, hide the
/// row and its neighbours, unless that is known. The whole group is locked, and its entry was read
/// since. Rows that are hidden in memory only are not counted as hidden.
///
/// # Errors
/// A damaged record.
pub fn learn_hidden(
    parts: &mut HiddenParts,
    store: &ColdStore,
    entry: &GroupEntry,
    position: u32,
) -> Result<(), ColdError> {
    let Some(positions) = parts.unknown(entry, position) else {
        return Ok(());
    };
    let (start, mut hidden) = (positions.start, Vec::new());
    let mut hide = |position, _| hidden.push(position);
    let mut judge = |shown: &Visited<'_>| in_force(shown);
    for_each_marked(store, entry, positions.clone(), &mut judge, &mut hide)?;
    for_each_in_vectors(store, entry, positions, &mut judge, &mut hide)?;
    parts.take_in(start, hidden.into_iter());
    Ok(())
}

/// Calls `hide` for each of the rows at these positions that a mark hides which `judge` accepts,
/// one of its own or one that it shares with rows beside it, and with the mark's writer; for some
/// more than once.
///
/// # Errors
/// A damaged record of many rows.
pub(in crate::store) fn for_each_marked(
    store: &ColdStore,
    entry: &GroupEntry,
    positions: Range<u32>,
    judge: &mut dyn FnMut(&Visited<'_>) -> bool,
    hide: &mut dyn FnMut(u32, Xid),
) -> Result<(), ColdError> {
    let first = entry.first_row.0;
    if entry.flags.contain(GroupFlags::ROW_MARKS) {
        let from = RowNumber(first + u64::from(positions.start));
        for (id, seqs) in MARK_KEYS.ranges(from, positions.len() as u32) {
            store.visit_by_page(id, seqs, &mut |shown| {
                if judge(&shown) {
                    let row = MARK_KEYS.row_of(id, shown.seq);
                    hide((row.0 - first) as u32, writer_of(&shown).0);
                }
            });
        }
    }
    for_each_in_blocks(store, entry, positions, judge, hide)
}

/// The rows of a group that another transaction, which is in progress, is hiding.
///
/// # Errors
/// A damaged record.
pub fn arriving_in(store: &ColdStore, entry: &GroupEntry) -> Result<Option<RowSet>, ColdError> {
    hidden_where(store, entry, &mut |shown| {
        let (xid, own) = writer_of(shown);
        own.is_none() && xid.is_in_progress()
    })
}

/// The rows of a group that deletion vectors in force hide.
///
/// # Errors
/// A damaged record.
pub fn folded(store: &ColdStore, entry: &GroupEntry) -> Result<RowSet, ColdError> {
    let marks = GroupFlags::ROW_MARKS.union(GroupFlags::BLOCK_DELETIONS);
    let bitmaps_only = GroupEntry {
        flags: entry.flags.without(marks),
        ..*entry
    };
    Ok(hidden_now(store, &bitmaps_only)?.unwrap_or_default())
}

/// Adds rows that are hidden in memory only.
pub(in crate::store) fn with_pending(
    store: &ColdStore,
    entry: &GroupEntry,
    stored: Option<RowSet>,
) -> Option<RowSet> {
    if !memory::any() {
        return stored;
    }
    let mut rows = stored.unwrap_or_else(|| RowSet::with_bound(entry.capacity_rows));
    let all = 0..entry.capacity_rows;
    memory::for_each_hidden(store, entry, all, &mut |position, _| {
        rows.insert(position);
    });
    (!rows.is_empty()).then_some(rows)
}

/// The rows of a group that are hidden by marks and deletion vectors that `judge` accepts.
pub(in crate::store) fn hidden_where(
    store: &ColdStore,
    entry: &GroupEntry,
    judge: &mut dyn FnMut(&Visited<'_>) -> bool,
) -> Result<Option<RowSet>, ColdError> {
    let mut hidden = RowSet::with_bound(entry.capacity_rows);
    let mut hide = |position, _| {
        hidden.insert(position);
    };
    for_each_marked(store, entry, 0..entry.capacity_rows, judge, &mut hide)?;
    let of_vector = |vector: &DeletionVector<'_>| vector.hidden();
    add_rows(store, entry, judge, of_vector, &mut hidden)?;
    Ok((!hidden.is_empty()).then_some(hidden))
}
