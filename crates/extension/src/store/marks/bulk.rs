//! Hiding many rows of one group by one command.

use std::collections::BTreeMap;

use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::CommandId;

use super::block_deletions::delete_by_block;
use super::deletion_vector::{self, BLOCKS_PER_VECTOR, ROWS_PER_VECTOR, by_deletion_vector};
use super::mark::RowFate;
use super::update_links;
use super::write::write;
use crate::errors::ColdError;
use crate::stop_point;
use crate::store::directory::PlacedEntry;
use crate::store::row_set::RowSet;

/// Of rows that share a deletion vector, fewer than this get marks of their own, or one for those
/// of a block: a mark has a fiftieth of the size of a deletion vector. So do the rows of a command
/// within which a later one has written the vector: each row is hidden since its own command.
const FEW_ROWS: usize = 32;

/// Hides rows in bulk, in the current transaction; `fates` are those of rows that were not simply
/// deleted. The whole group is locked, and the flag of its deletion vectors is set.
pub fn hide_in_bulk(
    store: &ColdStore,
    placed: &mut PlacedEntry,
    rows: &RowSet,
    fates: &BTreeMap<u32, RowFate>,
    cid: CommandId,
) -> Result<(), ColdError> {
    let group = placed.entry.group();
    let first_row = placed.entry.first_row.0;
    for (seq, mut places) in by_deletion_vector(&placed.entry, rows) {
        let start = (seq as u32 - group.first_block()) / BLOCKS_PER_VECTOR * ROWS_PER_VECTOR;
        let mut alone: Vec<(u32, RowFate)> = Vec::new();
        let are_few = places.len() < FEW_ROWS;
        if are_few || deletion_vector::is_of_later_command(store, &placed.entry, seq, cid)? {
            let fate = |position| fates.get(&position).copied();
            let each = places.drain(..).map(|at| start + at);
            alone.extend(
                each.map(|position| (position, fate(position).unwrap_or(RowFate::Deleted))),
            );
        } else {
            let linked: Vec<_> = fates
                .range(start..start + ROWS_PER_VECTOR)
                .map(|(&position, &fate)| (position, fate))
                .collect();
            let noted = update_links::insert(store, &placed.entry, seq, &linked, cid)?;
            alone.extend(&linked[noted..]);
            places.retain(|at| !alone.iter().any(|(position, _)| *position == start + at));
            stop_point!("versions_written");
            deletion_vector::hide(store, &placed.entry, seq, &places, cid)?;
            stop_point!("bitmap_written");
        }
        let (deleted, changed): (Vec<_>, Vec<_>) = alone
            .into_iter()
            .partition(|(_, fate)| matches!(fate, RowFate::Deleted));
        let deleted: Vec<u32> = deleted.into_iter().map(|(position, _)| position).collect();
        delete_by_block(store, placed, &deleted, cid)?;
        for (position, fate) in changed {
            let row = RowNumber(first_row + u64::from(position));
            write(store, placed, row, fate, cid)?;
        }
        howdah_bridge::check_for_interrupts!();
    }
    Ok(())
}
