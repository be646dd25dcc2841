//! Writing the mark of a row: first the group's flag, then the filter, the mark, and the filter
//! again.

use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::CommandId;

use super::mark::RowFate;
use super::mark_filter::note::noting;
use super::row_mark;
use crate::errors::ColdError;
use crate::stop_point;
use crate::store::directory::{self, GroupFlags, PlacedEntry};

/// Writes the mark of a row whose lock is held and that has no mark in force.
///
/// # Errors
/// The directory entry is damaged; nothing is written then.
pub fn write(
    store: &ColdStore,
    placed: &mut PlacedEntry,
    row: RowNumber,
    fate: RowFate,
    cid: CommandId,
) -> Result<(), ColdError> {
    set_flag(store, placed, GroupFlags::ROW_MARKS)?;
    let position = (row.0 - placed.entry.first_row.0) as u32;
    noting(store, &placed.entry, [position], || {
        row_mark::insert(store, row, fate, cid);
    });
    Ok(())
}

/// Sets a flag of the group, unless it is known to be set.
pub(super) fn set_flag(
    store: &ColdStore,
    placed: &mut PlacedEntry,
    flag: GroupFlags,
) -> Result<(), ColdError> {
    if !placed.entry.flags.contain(flag) {
        directory::add_flags(store, placed, flag)?;
        stop_point!("group_flagged");
        placed.entry.flags = placed.entry.flags.union(flag);
    }
    Ok(())
}
