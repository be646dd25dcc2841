//! Deletions of rows beside each other by one command: one record for many rows of a cold block.
//!
//! ```text
//!   id  512 + n / 2^31, seq n mod 2^31   a bitmap of the 256 rows of a block; n is the first of
//!                                        those that are deleted
//! ```
//!
//! A record is written once, and counts for each of its rows as a mark of its own would: it belongs
//! to its writer's transaction, is void if that aborts, and forbids other changes of the rows as
//! long as it is in progress. A block may have many of them. Since a row has one mark at most that
//! is not void, no two such records have the same first row: their keys differ, as the index
//! demands.
//!
//! Rows are collected in memory ([`pending_marks`](crate::store::pending_marks)), and locked one by
//! one until the record is written.

use std::ops::{ControlFlow, Range};

use howdah_bridge::store::{Birth, ColdStore, Visited};
use howdah_bridge::tid::{GroupId, ROWS_PER_COLD_BLOCK, RowNumber};
use howdah_bridge::xid::{CommandId, Xid};
use howdah_records::{BlockDeletions, Kind};

use super::mark::RowFate;
use super::mark_filter::note::noting;
use super::row_keys::RowKeys;
use super::tuple_visibility::writer_of;
use super::write::{set_flag, write};
use crate::errors::ColdError;
use crate::stop_point;
use crate::store::directory::{GroupEntry, GroupFlags, PlacedEntry};

pub(in crate::store) const BLOCK_KEYS: RowKeys = RowKeys::of(Kind::BlockDeletions);

pub(super) fn place_in_block(row: RowNumber) -> u8 {
    (row.0 % ROWS_PER_COLD_BLOCK) as u8
}

fn start_of_block(row: RowNumber) -> RowNumber {
    RowNumber(row.0 - u64::from(place_in_block(row)))
}

fn open(group: GroupId, first: RowNumber, payload: &[u8]) -> Result<BlockDeletions, ColdError> {
    BlockDeletions::decode(place_in_block(first), payload)
        .map_err(|error| ColdError::of_mark(group, error))
}

/// The rows of the record shown, which has this key.
pub(in crate::store) fn rows_of(
    group: GroupId,
    id: u32,
    shown: &Visited<'_>,
) -> Result<impl Iterator<Item = RowNumber> + use<>, ColdError> {
    let first = BLOCK_KEYS.row_of(id, shown.seq);
    let deletions = open(group, first, shown.payload)?;
    let start = start_of_block(first).0;
    let places: Vec<u8> = deletions.places().collect();
    Ok(places
        .into_iter()
        .map(move |at| RowNumber(start + u64::from(at))))
}

/// The key ranges of all records that may have one of `rows` row numbers from `first` on.
pub(in crate::store) fn key_ranges_of(
    first: RowNumber,
    rows: u32,
) -> Vec<(u32, std::ops::RangeInclusive<i32>)> {
    let start = start_of_block(first);
    BLOCK_KEYS.ranges(start, (first.0 - start.0) as u32 + rows)
}

/// Shows every record that has the row, of any transaction, until `look` breaks.
///
/// # Errors
/// A damaged record of the row's block.
pub(in crate::store) fn visit_those_of(
    store: &ColdStore,
    group: GroupId,
    row: RowNumber,
    look: &mut dyn FnMut(&Visited<'_>) -> ControlFlow<()>,
) -> Result<(), ColdError> {
    let mut damage = None;
    for (id, seqs) in key_ranges_of(row, 1) {
        store.visit(id, seqs, &mut |shown| {
            let first = BLOCK_KEYS.row_of(id, shown.seq);
            match open(group, first, shown.payload) {
                Ok(deletions) if deletions.contain(place_in_block(row)) => look(&shown),
                Ok(_) => ControlFlow::Continue(()),
                Err(error) => {
                    damage = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
    }
    damage.map_or(Ok(()), Err)
}

/// Calls `hide` for each of the rows at these positions that a record has which `judge` accepts,
/// with the record's writer; for some more than once.
///
/// # Errors
/// A damaged record.
pub(in crate::store) fn for_each_in_blocks(
    store: &ColdStore,
    entry: &GroupEntry,
    positions: Range<u32>,
    judge: &mut dyn FnMut(&Visited<'_>) -> bool,
    hide: &mut dyn FnMut(u32, Xid),
) -> Result<(), ColdError> {
    if positions.is_empty() || !entry.flags.contain(GroupFlags::BLOCK_DELETIONS) {
        return Ok(());
    }
    let first = entry.first_row.0;
    let (mut damage, from) = (None, RowNumber(first + u64::from(positions.start)));
    for (id, seqs) in key_ranges_of(from, positions.len() as u32) {
        store.visit_by_page(id, seqs, &mut |shown| {
            if !judge(&shown) {
                return;
            }
            let by = writer_of(&shown).0;
            match rows_of(entry.group(), id, &shown) {
                Ok(rows) => rows
                    .map(|row| (row.0 - first) as u32)
                    .filter(|position| positions.contains(position))
                    .for_each(|position| hide(position, by)),
                Err(error) => damage = Some(error),
            }
        });
    }
    damage.map_or(Ok(()), Err)
}

/// Sets the flag that announces such records of this group to readers.
///
/// # Errors
/// The directory entry is damaged.
pub fn announce_block_deletions(
    store: &ColdStore,
    placed: &mut PlacedEntry,
) -> Result<(), ColdError> {
    set_flag(store, placed, GroupFlags::BLOCK_DELETIONS)
}

/// Deletes rows, by ascending position, whose locks are held and that have no mark in force. A row
/// that is alone in its block gets a mark of its own.
///
/// # Errors
/// The directory entry is damaged.
pub fn delete_by_block(
    store: &ColdStore,
    placed: &mut PlacedEntry,
    positions: &[u32],
    cid: CommandId,
) -> Result<(), ColdError> {
    // Groups begin with a block.
    let block = |position: u32| u64::from(position) / ROWS_PER_COLD_BLOCK;
    for of_block in positions.chunk_by(|a, b| block(*a) == block(*b)) {
        let first = RowNumber(placed.entry.first_row.0 + u64::from(of_block[0]));
        if of_block.len() == 1 {
            write(store, placed, first, RowFate::Deleted, cid)?;
            continue;
        }
        announce_block_deletions(store, placed)?;
        let places: Vec<u8> = of_block.iter().map(|&position| position as u8).collect();
        let record = BlockDeletions::of(&places).encode();
        let (id, seq) = BLOCK_KEYS.key_of(first);
        noting(store, &placed.entry, of_block.iter().copied(), || {
            store.insert(id, seq, &record, cid, Birth::Transactional, None);
        });
        stop_point!("block_deleted");
    }
    Ok(())
}
