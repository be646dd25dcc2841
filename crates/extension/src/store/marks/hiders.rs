//! The transactions that hid dead rows: the snapshot conflict horizon of the rows' index entries.
//!
//! The hiders of a row are the transaction that wrote its mark, the one that wrote a deletion
//! vector with the row in it, and those that replaced such a deletion vector. A snapshot that sees
//! one of them as finished does not see the row, so the earliest of them counts. What cannot be
//! found any more needs no horizon of its own:
//! - a frozen mark or deletion vector: the operation that froze it has logged a horizon (heap's
//!   VACUUM; ours for rows that it folds, see [`crate::am::vacuum`]);
//! - a mark or deletion vector that was pruned: its deleter, which came after the hider, was logged
//!   as a horizon.
//!
//! Locks: called while an index page is locked; locks pages of the store and of its index, one at a
//! time.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use howdah_bridge::store::{ColdStore, Visited};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::Xid;

use super::block_deletions::{key_ranges_of, rows_of};
use super::deletion_vector::{DELETION_VECTOR_ID, deletion_vector_place, open_vector};
use super::row_mark::MARK_KEYS;
use super::row_state::any_group;
use super::tuple_visibility::writer_of;
use crate::errors::ColdError;
use crate::store::directory;

/// Rows at most this far from each other are looked up together.
const NEAR: u64 = 32;

/// The earliest transaction known to hide each row.
type Hiders = BTreeMap<RowNumber, Xid>;

/// The latest transaction that a snapshot must see as finished in order to see none of `rows`.
/// These ascend, and are dead here; the result is not a normal transaction id if there is none.
///
/// # Errors
/// A damaged record of many rows.
pub fn last_hider(store: &ColdStore, rows: &[RowNumber]) -> Result<Xid, ColdError> {
    let mut hiders = Hiders::new();
    for near in rows.chunk_by(|a, b| b.0 - a.0 <= NEAR) {
        add_marks(store, near, &mut hiders);
    }
    for add in [add_block_deletions, add_deletion_vectors] {
        let is_known = |row: &&RowNumber| hiders.contains_key(*row);
        let unmarked: Vec<RowNumber> = rows.iter().filter(|row| !is_known(row)).copied().collect();
        for near in unmarked.chunk_by(|a, b| a.cold_block() == b.cold_block()) {
            add(store, near, &mut hiders)?;
        }
    }
    let none = Xid::INVALID;
    Ok(hiders.into_values().fold(none, Xid::younger))
}

fn add_marks(store: &ColdStore, rows: &[RowNumber], hiders: &mut Hiders) {
    let (first, last) = (rows[0], rows[rows.len() - 1]);
    for (id, seqs) in MARK_KEYS.ranges(first, (last.0 - first.0 + 1) as u32) {
        let mut is_asked = |seq| rows.binary_search(&MARK_KEYS.row_of(id, seq)).is_ok();
        store.visit_wanted(id, seqs, &mut is_asked, &mut |shown| {
            note(hiders, MARK_KEYS.row_of(id, shown.seq), &shown);
            ControlFlow::Continue(())
        });
    }
}

/// `rows` are of one cold block, hence of one group.
fn add_block_deletions(
    store: &ColdStore,
    rows: &[RowNumber],
    hiders: &mut Hiders,
) -> Result<(), ColdError> {
    let (first, last) = (rows[0], rows[rows.len() - 1]);
    let Some(group) = directory::nearest_group(store, first) else {
        return Ok(());
    };
    let mut damage = None;
    for (id, seqs) in key_ranges_of(first, (last.0 - first.0 + 1) as u32) {
        store.visit(id, seqs, &mut |shown| {
            match rows_of(group, id, &shown) {
                Ok(deleted) => deleted
                    .filter(|row| rows.binary_search(row).is_ok())
                    .for_each(|row| note(hiders, row, &shown)),
                Err(error) => damage = Some(error),
            }
            ControlFlow::Continue(())
        });
    }
    damage.map_or(Ok(()), Err)
}

/// `rows` are of one cold block, hence of one deletion vector.
fn add_deletion_vectors(
    store: &ColdStore,
    rows: &[RowNumber],
    hiders: &mut Hiders,
) -> Result<(), ColdError> {
    let Some(group) = directory::nearest_group(store, rows[0]) else {
        return Ok(());
    };
    let entry = any_group(group);
    if rows.iter().any(|&row| !entry.covers(row)) {
        return Ok(());
    }
    let (seq, _) = deletion_vector_place(&entry, rows[0]);
    let mut damage = None;
    store.visit(DELETION_VECTOR_ID, seq..=seq, &mut |shown| {
        match open_vector(group, shown.payload) {
            Ok(vector) => {
                for &row in rows {
                    let (_, at) = deletion_vector_place(&entry, row);
                    if vector.hides(at) {
                        note(hiders, row, &shown);
                    }
                }
            }
            Err(error) => damage = Some(error),
        }
        ControlFlow::Continue(())
    });
    damage.map_or(Ok(()), Err)
}

/// Notes the transaction that wrote the record that hides a row, if it committed.
fn note(hiders: &mut Hiders, row: RowNumber, shown: &Visited<'_>) {
    let (xid, _) = writer_of(shown);
    let hides = xid == Xid::FROZEN || xid.is_normal() && xid.did_commit();
    if hides {
        let earliest = hiders.entry(row).or_insert(xid);
        if earliest.younger(xid) == *earliest {
            *earliest = xid;
        }
    }
}
