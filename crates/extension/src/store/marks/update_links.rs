//! The places of the new versions of rows that an update has hidden in bulk.
//!
//! ```text
//!   id 6, seq b        a list, for rows among those that share a deletion vector; b is one of
//!                      their blocks
//! ```
//!
//! A list belongs to its writer's transaction and is never changed. Rows that share a deletion
//! vector have at most as many lists as they have cold blocks; when these keys are used up, rows
//! get marks of their own.
//!
//! A list may be removed once its writer is older than every snapshot: no transaction follows a row
//! to its next version then.

use std::ops::{ControlFlow, RangeInclusive};

use howdah_bridge::store::{Birth, ColdStore};
use howdah_bridge::tid::{GroupId, ROWS_PER_COLD_BLOCK, RowNumber};
use howdah_bridge::xid::CommandId;
use howdah_records::{Kind, UpdateLinks, UpdateLinksBuilder};

use super::deletion_vector::{BLOCKS_PER_VECTOR, deletion_vector_place};
use super::mark::{Mark, RowFate};
use super::row_mark::{from_record, recorded};
use super::tuple_visibility::{in_force, writer_of};
use crate::errors::ColdError;
use crate::store::directory::GroupEntry;

pub(in crate::store) const UPDATE_LINKS_ID: u32 = Kind::UpdateLinks.id();

fn open(group: GroupId, payload: &[u8]) -> Result<UpdateLinks<'_>, ColdError> {
    UpdateLinks::open(payload).map_err(|error| ColdError::of_mark(group, error))
}

/// The bytes of the same list without the places of the new versions.
pub(super) fn without_places(group: GroupId, payload: &[u8]) -> Result<Vec<u8>, ColdError> {
    Ok(open(group, payload)?.without_places())
}

/// What became of the row, if this is a list of its group that contains it.
fn look_up(group: GroupId, payload: &[u8], position: u32) -> Result<Option<RowFate>, ColdError> {
    let links = open(group, payload)?;
    let is_of_group = links.group() == group.first_block();
    let fate = links.fate_of(position).filter(|_| is_of_group);
    Ok(fate.map(from_record))
}

/// The keys that lists of the rows of a deletion vector may have.
fn keys_from(entry: &GroupEntry, seq: i32) -> RangeInclusive<i32> {
    let blocks = entry.capacity_rows.div_ceil(ROWS_PER_COLD_BLOCK as u32);
    let end = (entry.group().first_block() + blocks).min(seq as u32 + BLOCKS_PER_VECTOR) as i32;
    seq..=end - 1
}

/// The keys of all lists of a group.
pub(super) fn keys_of(entry: &GroupEntry) -> RangeInclusive<i32> {
    let blocks = entry
        .capacity_rows
        .div_ceil(ROWS_PER_COLD_BLOCK as u32)
        .max(1);
    let first = entry.group().key();
    first..=first + blocks as i32 - 1
}

/// Records what became of rows, ascending by position, that share the deletion vector with the key
/// `seq`. Returns how many of them found room.
pub(super) fn insert(
    store: &ColdStore,
    entry: &GroupEntry,
    seq: i32,
    fates: &[(u32, RowFate)],
    cid: CommandId,
) -> Result<usize, ColdError> {
    if fates.is_empty() {
        return Ok(0);
    }
    let keys = keys_from(entry, seq);
    let mut next = seq;
    store.visit(UPDATE_LINKS_ID, keys.clone(), &mut |shown| {
        if in_force(&shown) {
            next = shown.seq + 1;
        }
        ControlFlow::Continue(())
    });
    let mut noted = 0;
    while noted < fates.len() && keys.contains(&next) {
        let mut list = UpdateLinksBuilder::of_group(entry.group().first_block());
        let rest = fates[noted..].iter();
        let taken = rest.take_while(|(position, fate)| list.push(*position, recorded(*fate)));
        let taken = taken.count();
        let payload = list.encode();
        store.insert(
            UPDATE_LINKS_ID,
            next,
            &payload,
            cid,
            Birth::Transactional,
            None,
        );
        noted += taken;
        next += 1;
    }
    Ok(noted)
}

/// What a list in force tells of a row that a deletion vector hides.
pub(super) fn of_row(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
) -> Result<Option<Mark>, ColdError> {
    let position = (row.0 - entry.first_row.0) as u32;
    let (seq, _) = deletion_vector_place(entry, row);
    let mut found = Ok(None);
    store.visit(UPDATE_LINKS_ID, keys_from(entry, seq), &mut |shown| {
        if !in_force(&shown) {
            return ControlFlow::Continue(());
        }
        match look_up(entry.group(), shown.payload, position) {
            Ok(None) => ControlFlow::Continue(()),
            Ok(Some(fate)) => {
                let (xid, own) = writer_of(&shown);
                found = Ok(Some(Mark { fate, xid, own }));
                ControlFlow::Break(())
            }
            Err(error) => {
                found = Err(error);
                ControlFlow::Break(())
            }
        }
    });
    found
}
