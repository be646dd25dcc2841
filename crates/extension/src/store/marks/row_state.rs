//! What the marks tell of one row now: the question of a transaction that has locked the row.

use std::ops::ControlFlow;

use howdah_bridge::slot::Origin;
use howdah_bridge::store::{ColdStore, Visited};
use howdah_bridge::tid::{GroupId, INVALID_BLOCK, RowNumber};
use howdah_bridge::xid::Xid;

use super::block_deletions::visit_those_of;
use super::deletion_vector::hidden_in_bulk;
use super::mark::{Mark, RowFate};
use super::mark_filter::ask::may_have_mark;
use super::row_mark::{MARK_KEYS, decode};
use super::tuple_visibility::{in_force, writer_of};
use super::update_links;
use crate::errors::ColdError;
use crate::store::directory::{GroupEntry, GroupFlags, GroupState};
use crate::store::pending_marks::memory;

/// What the marks tell of a row now.
pub enum RowState {
    Unmarked,
    Marked(Mark),
    /// Another transaction, which is in progress, has written this mark.
    Arriving(Mark),
}

/// The mark of a row that is in force now.
///
/// # Errors
/// A damaged record.
pub fn of_row(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
) -> Result<Option<Mark>, ColdError> {
    Ok(in_force_of(state_of_row(store, entry, row)?))
}

fn in_force_of(state: RowState) -> Option<Mark> {
    match state {
        RowState::Marked(mark) => Some(mark),
        RowState::Unmarked | RowState::Arriving(_) => None,
    }
}

/// The mark of a row, in force or of a transaction in progress. The row's lock is held, so that no
/// other mark can be written meanwhile.
///
/// # Errors
/// A damaged record.
pub fn state_of_row(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
) -> Result<RowState, ColdError> {
    let look = may_have_mark(store, entry, row, true);
    state_where(store, entry, row, look)
}

/// The same; `look` tells whether there may be a mark.
fn state_where(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
    look: bool,
) -> Result<RowState, ColdError> {
    if let Some((command, fate)) = memory::fate_of(store, entry, row) {
        return Ok(RowState::Marked(Mark {
            fate,
            xid: Xid::current(),
            own: Some(command),
        }));
    }
    let mut found = Ok(RowState::Unmarked);
    if look && entry.flags.contain(GroupFlags::ROW_MARKS) {
        let (id, seq) = MARK_KEYS.key_of(row);
        store.visit(id, seq..=seq, &mut |shown| {
            let fate = || decode(entry.group(), shown.payload);
            let Some(state) = state_by(&shown, fate) else {
                return ControlFlow::Continue(());
            };
            found = state;
            ControlFlow::Break(())
        });
    }
    if look
        && matches!(found, Ok(RowState::Unmarked))
        && entry.flags.contain(GroupFlags::BLOCK_DELETIONS)
    {
        visit_those_of(store, entry.group(), row, &mut |shown| {
            let Some(state) = state_by(shown, || Ok(RowFate::Deleted)) else {
                return ControlFlow::Continue(());
            };
            found = state;
            ControlFlow::Break(())
        })?;
    }
    if look
        && matches!(found, Ok(RowState::Unmarked))
        && entry.flags.contain(GroupFlags::DELETION_VECTORS)
        && let Some(hidden) = hidden_in_bulk(store, entry, row)?
    {
        let mark = update_links::of_row(store, entry, row)?.unwrap_or(hidden);
        return Ok(RowState::Marked(mark));
    }
    found
}

/// What a mark tells of its row; `None` if it is void.
fn state_by(
    shown: &Visited<'_>,
    fate: impl FnOnce() -> Result<RowFate, ColdError>,
) -> Option<Result<RowState, ColdError>> {
    let (xid, own) = writer_of(shown);
    // Checked once more after its transaction was found to have ended: it may have committed
    // meanwhile.
    let arrives = !in_force(shown) && own.is_none() && xid.is_in_progress();
    if !arrives && !in_force(shown) {
        return None;
    }
    Some(fate().map(|fate| {
        let mark = Mark { fate, xid, own };
        match arrives {
            true => RowState::Arriving(mark),
            false => RowState::Marked(mark),
        }
    }))
}

/// The mark in force of a row whose group was merged away, if the merge left the row behind.
///
/// # Errors
/// A damaged record.
pub fn of_dropped_row(
    store: &ColdStore,
    group: GroupId,
    row: RowNumber,
) -> Result<Option<Mark>, ColdError> {
    Ok(in_force_of(state_where(
        store,
        &any_group(group),
        row,
        true,
    )?))
}

/// An entry for a group that may be gone: large enough for every row that the group may have had.
pub(super) fn any_group(group: GroupId) -> GroupEntry {
    GroupEntry {
        state: GroupState::Stored,
        first_row: group.first_row(),
        capacity_rows: howdah_columnar::MAX_ROWS as u32,
        row_count: howdah_columnar::MAX_ROWS as u32,
        value_id: 0,
        first_block: INVALID_BLOCK,
        footer_bytes: 0,
        body_bytes: 0,
        origin: Origin::FROZEN,
        flags: GroupFlags::ROW_MARKS
            .union(GroupFlags::BLOCK_DELETIONS)
            .union(GroupFlags::DELETION_VECTORS),
    }
}
