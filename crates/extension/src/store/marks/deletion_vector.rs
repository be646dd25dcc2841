//! Deletion vectors: bitmaps of hidden rows, one for each 16,384 rows of a group.

use std::ops::{ControlFlow, Range, RangeInclusive};

use howdah_bridge::store::{Birth, ColdStore, Visited};
use howdah_bridge::tid::{GroupId, ROWS_PER_COLD_BLOCK, RowNumber, Tid};
use howdah_bridge::xid::{CommandId, FIRST_COMMAND, Xid};
pub(in crate::store) use howdah_records::ROWS_PER_VECTOR;
use howdah_records::{DeletionVector, EditedVector, Kind};

use super::mark::{Mark, RowFate};
use super::mark_filter::note::note_marks;
use super::tuple_visibility::{in_force, writer_of};
use super::write::set_flag;
use crate::errors::ColdError;
use crate::store::directory::{GroupEntry, GroupFlags, PlacedEntry};
use crate::store::row_set::RowSet;

pub(in crate::store) const DELETION_VECTOR_ID: u32 = Kind::DeletionVector.id();
/// Cold blocks that share a deletion vector.
pub(in crate::store) const BLOCKS_PER_VECTOR: u32 = ROWS_PER_VECTOR / ROWS_PER_COLD_BLOCK as u32;

/// The keys of a group's deletion vectors.
pub(in crate::store) fn deletion_vectors_of(entry: &GroupEntry) -> RangeInclusive<i32> {
    let last = entry.capacity_rows.max(1) - 1;
    let first = entry.group().key();
    first..=first + (last / ROWS_PER_VECTOR * BLOCKS_PER_VECTOR) as i32
}

/// The deletion vector that holds a row of the group, and the row's place in it.
pub(in crate::store) fn deletion_vector_place(entry: &GroupEntry, row: RowNumber) -> (i32, u32) {
    let position = (row.0 - entry.first_row.0) as u32;
    let nth = position / ROWS_PER_VECTOR;
    (
        (entry.group().first_block() + nth * BLOCKS_PER_VECTOR) as i32,
        position % ROWS_PER_VECTOR,
    )
}

/// The mark that a deletion vector implies for a row. A row that was in the deletion vector before
/// our transaction replaced it was not hidden by our transaction.
pub(in crate::store) fn hidden_in_bulk(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
) -> Result<Option<Mark>, ColdError> {
    let (seq, at) = deletion_vector_place(entry, row);
    let (mut found, mut earlier, mut damage) = (None, false, None);
    store.visit(DELETION_VECTOR_ID, seq..=seq, &mut |shown| {
        let bit = match open_vector(entry.group(), shown.payload) {
            Ok(vector) => vector.hides(at),
            Err(error) => {
                damage = Some(error);
                return ControlFlow::Break(());
            }
        };
        let (xid, own) = writer_of(&shown);
        if in_force(&shown) {
            found = bit.then_some((xid, own));
        } else if bit && own.is_none() {
            earlier |= xid == Xid::FROZEN || xid.did_commit();
        }
        ControlFlow::Continue(())
    });
    if let Some(error) = damage {
        return Err(error);
    }
    Ok(found.map(|(xid, own)| Mark {
        fate: RowFate::Deleted,
        xid,
        own: own.filter(|_| !earlier),
    }))
}

pub(in crate::store) fn open_vector(
    group: GroupId,
    payload: &[u8],
) -> Result<DeletionVector<'_>, ColdError> {
    DeletionVector::open(payload).map_err(|error| ColdError::of_mark(group, error))
}

/// The rows of a group for which no index has an entry any more.
pub fn cleaned(store: &ColdStore, entry: &GroupEntry) -> Result<RowSet, ColdError> {
    let mut cleaned = RowSet::with_bound(entry.capacity_rows);
    let of_vector = |vector: &DeletionVector<'_>| vector.cleaned();
    add_rows(
        store,
        entry,
        &mut |shown| in_force(shown),
        of_vector,
        &mut cleaned,
    )?;
    Ok(cleaned)
}

/// Adds what `of_vector` takes from each of the group's deletion vectors that `judge` accepts.
pub(in crate::store) fn add_rows(
    store: &ColdStore,
    entry: &GroupEntry,
    judge: &mut dyn FnMut(&Visited<'_>) -> bool,
    of_vector: impl Fn(&DeletionVector<'_>) -> RowSet,
    rows: &mut RowSet,
) -> Result<(), ColdError> {
    if !entry.flags.contain(GroupFlags::DELETION_VECTORS) {
        return Ok(());
    }
    let (id, keys) = (DELETION_VECTOR_ID, deletion_vectors_of(entry));
    let mut damage = None;
    store.visit(id, keys, &mut |shown| {
        if judge(&shown) {
            match open_vector(entry.group(), shown.payload) {
                Ok(vector) => insert_rows(entry, shown.seq, &of_vector(&vector), rows),
                Err(error) => damage = Some(error),
            }
        }
        ControlFlow::Continue(())
    });
    damage.map_or(Ok(()), Err)
}

/// Calls `hide` for each of the rows at these positions that a deletion vector hides which `judge`
/// accepts, with the vector's writer.
pub(in crate::store) fn for_each_in_vectors(
    store: &ColdStore,
    entry: &GroupEntry,
    positions: Range<u32>,
    judge: &mut dyn FnMut(&Visited<'_>) -> bool,
    hide: &mut dyn FnMut(u32, Xid),
) -> Result<(), ColdError> {
    if positions.is_empty() || !entry.flags.contain(GroupFlags::DELETION_VECTORS) {
        return Ok(());
    }
    let place = |position: u32| {
        let row = RowNumber(entry.first_row.0 + u64::from(position));
        deletion_vector_place(entry, row)
    };
    let keys = place(positions.start).0..=place(positions.end - 1).0;
    let mut damage = None;
    store.visit(DELETION_VECTOR_ID, keys, &mut |shown| {
        if judge(&shown) {
            let by = writer_of(&shown).0;
            match open_vector(entry.group(), shown.payload) {
                Ok(vector) => {
                    for position in positions.clone() {
                        let (seq, at) = place(position);
                        if seq == shown.seq && vector.hides(at) {
                            hide(position, by);
                        }
                    }
                }
                Err(error) => damage = Some(error),
            }
        }
        ControlFlow::Continue(())
    });
    damage.map_or(Ok(()), Err)
}

/// Adds rows of the deletion vector with this key to those of its group.
pub(in crate::store) fn insert_rows(
    entry: &GroupEntry,
    seq: i32,
    of_vector: &RowSet,
    rows: &mut RowSet,
) {
    let start = (seq as u32 - entry.group().first_block()) / BLOCKS_PER_VECTOR * ROWS_PER_VECTOR;
    for position in of_vector.iter().map(|row| start + row) {
        if position < entry.capacity_rows {
            rows.insert(position);
        }
    }
}

/// A deletion vector in force.
struct KnownVector {
    tid: Tid,
    vector: EditedVector,
    /// The command that wrote it, if that was a command of our own transaction.
    own: Option<CommandId>,
}

/// The deletion vector with this key that is in force.
fn vector_in_force(
    store: &ColdStore,
    entry: &GroupEntry,
    seq: i32,
) -> Result<Option<KnownVector>, ColdError> {
    let mut found = Ok(None);
    store.visit(DELETION_VECTOR_ID, seq..=seq, &mut |shown| {
        if !in_force(&shown) {
            return ControlFlow::Continue(());
        }
        found = open_vector(entry.group(), shown.payload).map(|vector| {
            Some(KnownVector {
                tid: shown.tuple.tid(),
                vector: vector.edit(),
                own: writer_of(&shown).1,
            })
        });
        ControlFlow::Break(())
    });
    found
}

/// Splits rows by the deletion vectors they belong to: key, and places in it.
pub(in crate::store) fn by_deletion_vector(
    entry: &GroupEntry,
    rows: &RowSet,
) -> Vec<(i32, Vec<u32>)> {
    let mut parts: Vec<(i32, Vec<u32>)> = Vec::new();
    for position in rows.iter() {
        let seq =
            (entry.group().first_block() + position / ROWS_PER_VECTOR * BLOCKS_PER_VECTOR) as i32;
        let at = position % ROWS_PER_VECTOR;
        match parts.last_mut() {
            Some((last, places)) if *last == seq => places.push(at),
            _ => parts.push((seq, vec![at])),
        }
    }
    parts
}

/// Adds dead rows for which no index has an entry to the group's deletion vectors, outside of any
/// transaction. The whole group is locked.
pub fn fold(store: &ColdStore, placed: &PlacedEntry, rows: &RowSet) -> Result<(), ColdError> {
    let mut placed = *placed;
    set_flag(store, &mut placed, GroupFlags::DELETION_VECTORS)?;
    note_marks(store, &placed.entry, rows.iter());
    for (seq, places) in by_deletion_vector(&placed.entry, rows) {
        let known = vector_in_force(store, &placed.entry, seq)?;
        let (tid, mut vector) = match known {
            Some(known) => (Some(known.tid), known.vector),
            None => (None, EditedVector::empty()),
        };
        for at in places {
            vector.hide(at);
            vector.note_as_cleaned(at);
        }
        let payload = vector.seal();
        match tid {
            Some(tid) => store.overwrite(tid, &payload),
            None => {
                let cid = FIRST_COMMAND;
                store.insert(DELETION_VECTOR_ID, seq, &payload, cid, Birth::Frozen, None);
            }
        }
    }
    note_marks(store, &placed.entry, rows.iter());
    Ok(())
}

/// The bytes of a deletion vector, or of a new one, with places added of dead rows for which no
/// index has an entry.
pub(in crate::store) fn hiding_all(
    group: GroupId,
    known: Option<&[u8]>,
    places: &[u32],
) -> Result<Vec<u8>, ColdError> {
    let mut vector = match known {
        Some(payload) => open_vector(group, payload)?.edit(),
        None => EditedVector::empty(),
    };
    for &at in places {
        vector.hide(at);
        vector.note_as_cleaned(at);
    }
    Ok(vector.seal())
}

/// Sets the flag that announces deletion vectors of this group to readers.
pub fn announce_deletion_vectors(
    store: &ColdStore,
    placed: &mut PlacedEntry,
) -> Result<(), ColdError> {
    set_flag(store, placed, GroupFlags::DELETION_VECTORS)
}

/// Whether a command of the current transaction that began after this one has written the deletion
/// vector with this key. It ran within this one, in a function or a trigger. A vector has one
/// command for all that it adds.
pub(in crate::store) fn is_of_later_command(
    store: &ColdStore,
    entry: &GroupEntry,
    seq: i32,
    cid: CommandId,
) -> Result<bool, ColdError> {
    let known = vector_in_force(store, entry, seq)?;
    Ok(known.is_some_and(|known| known.own.is_some_and(|own| own > cid)))
}

/// Adds places to the deletion vector with this key, in the current transaction. The whole group is
/// locked, and its flag is set. The vector [is not](is_of_later_command) of a later command.
pub(in crate::store) fn hide(
    store: &ColdStore,
    entry: &GroupEntry,
    seq: i32,
    places: &[u32],
    cid: CommandId,
) -> Result<(), ColdError> {
    let start = (seq as u32 - entry.group().first_block()) / BLOCKS_PER_VECTOR * ROWS_PER_VECTOR;
    let note = || note_marks(store, entry, places.iter().map(|at| start + at));
    note();
    let known = vector_in_force(store, entry, seq)?;
    let hide = |mut vector: EditedVector| {
        places.iter().for_each(|&at| vector.hide(at));
        vector.seal()
    };
    let payload = match known {
        // Written by the same command: no snapshot sees one without the other.
        Some(known) if known.own == Some(cid) => {
            store.overwrite(known.tid, &hide(known.vector));
            note();
            return Ok(());
        }
        Some(known) => {
            store.delete(known.tid);
            hide(known.vector)
        }
        None => hide(EditedVector::empty()),
    };
    store.insert(
        DELETION_VECTOR_ID,
        seq,
        &payload,
        cid,
        Birth::Transactional,
        None,
    );
    note();
    Ok(())
}
