//! Everything that marks leave behind, for sweeping.

use std::ops::ControlFlow;

use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::{ROWS_PER_COLD_BLOCK, RowNumber, Tid};
use howdah_bridge::xid::Xid;
use howdah_records::{BlockDeletions, Forward};

use super::block_deletions::{BLOCK_KEYS, place_in_block};
use super::deletion_vector::DELETION_VECTOR_ID;
use super::forward::FORWARD_ID;
use super::row_mark::MARK_KEYS;
use super::tuple_visibility::{in_force, writer_of};
use super::update_links::UPDATE_LINKS_ID;

/// Where every mark, deletion vector, list and forward is, for sweeping.
#[derive(Clone, Copy, Debug)]
pub enum Sweepable {
    /// A mark of one row.
    Row(RowNumber),
    /// A record of deleted rows of a block, of which this is the first. A damaged one names no
    /// others.
    Block(RowNumber, Option<BlockDeletions>),
    /// A deletion vector of rows from this one on.
    DeletionVector(RowNumber),
    /// A list of update links of rows around this one, and its writer.
    UpdateLinks(RowNumber, Xid),
    /// A forward of the group that begins with this row; the value that lists dropped rows.
    Forward(RowNumber, Option<u32>),
}

impl Sweepable {
    /// The row that it is about, or the first of them.
    pub fn first_row(self) -> RowNumber {
        match self {
            Self::Row(row)
            | Self::Block(row, _)
            | Self::DeletionVector(row)
            | Self::UpdateLinks(row, _)
            | Self::Forward(row, _) => row,
        }
    }
}

/// Shows every mark, deletion vector, list and forward that is in force; marks, as far as their
/// keys are those of row numbers below `end`.
pub fn for_each_sweepable(
    store: &ColdStore,
    end: u64,
    mut show: impl FnMut(Tid, Sweepable) -> ControlFlow<()>,
) {
    let open = |first, payload: &[u8]| BlockDeletions::decode(place_in_block(first), payload).ok();
    let block_start = |seq: i32| RowNumber(seq as u64 * ROWS_PER_COLD_BLOCK);
    for id in MARK_KEYS.ids_below(end) {
        visit_in_force(store, id, &mut |tid, seq, _| {
            show(tid, Sweepable::Row(MARK_KEYS.row_of(id, seq)))
        });
    }
    for id in BLOCK_KEYS.ids_below(end) {
        visit_in_force(store, id, &mut |tid, seq, payload| {
            let first = BLOCK_KEYS.row_of(id, seq);
            show(tid, Sweepable::Block(first, open(first, payload)))
        });
    }
    visit_in_force(store, DELETION_VECTOR_ID, &mut |tid, seq, _| {
        show(tid, Sweepable::DeletionVector(block_start(seq)))
    });
    store.visit(UPDATE_LINKS_ID, 0..=i32::MAX, &mut |shown| {
        if !in_force(&shown) {
            return ControlFlow::Continue(());
        }
        let tid = shown.tuple.tid();
        show(
            tid,
            Sweepable::UpdateLinks(block_start(shown.seq), writer_of(&shown).0),
        )
    });
    visit_in_force(store, FORWARD_ID, &mut |tid, seq, payload| {
        // A damaged one is swept as well; its value stays.
        let table = Forward::decode(payload)
            .ok()
            .and_then(|forward| forward.table);
        let id = table.map(|stored| stored.value_id);
        show(tid, Sweepable::Forward(block_start(seq), id))
    });
}

/// Takes a tuple's place, the second part of its key, and its payload.
type ShowInForce<'a> = dyn FnMut(Tid, i32, &[u8]) -> ControlFlow<()> + 'a;

fn visit_in_force(store: &ColdStore, id: u32, show: &mut ShowInForce<'_>) {
    store.visit(id, 0..=i32::MAX, &mut |shown| {
        if !in_force(&shown) {
            return ControlFlow::Continue(());
        }
        let tid = shown.tuple.tid();
        show(tid, shown.seq, shown.payload)
    });
}
