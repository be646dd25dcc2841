//! Dead rows among those an index names when it needs room on a page.

use std::ops::ControlFlow;

use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::Xid;

use super::mark_filter::ask::may_be_marked;
use super::row_mark::{decode, key_ranges, row_of};
use super::tuple_visibility::in_force;
use crate::store::directory::GroupEntry;

/// Rows at most this far from each other are looked up together.
const NEAR: u64 = 32;
/// Marks that are examined in vain before the search is given up.
const FEW: u32 = 8;
/// Marks that are examined at most.
const MOST: u32 = 512;

/// Calls `name` for those of `rows` whose own marks make them dead, in ascending order, with the
/// writers of the marks; `is_over` tells whether a writer is older than every snapshot. Rows of
/// deletion vectors are not among them. `rows` ascend and are rows of the group.
///
/// Called while a page of another index is locked. Therefore it does not read all marks of the
/// group, waits for nothing but pages of the store, and gives up soon where it finds nothing.
pub fn for_each_dead(
    store: &ColdStore,
    entry: &GroupEntry,
    rows: &[RowNumber],
    is_over: &dyn Fn(Xid) -> bool,
    name: &mut dyn FnMut(RowNumber, Xid),
) {
    let is_asked = |row: &RowNumber| may_be_marked(store, entry, *row, false);
    let asked: Vec<RowNumber> = rows.iter().copied().filter(is_asked).collect();
    let (mut looks, mut dead) = (0, 0);
    for near in asked.chunk_by(|a, b| b.0 - a.0 <= NEAR) {
        let (first, last) = (near[0], near[near.len() - 1]);
        for (id, seqs) in key_ranges(first, (last.0 - first.0 + 1) as u32) {
            let mut is_asked = |seq| near.binary_search(&row_of(id, seq)).is_ok();
            store.visit_wanted(id, seqs, &mut is_asked, &mut |shown| {
                let writer = shown.tuple.xmin();
                looks += 1;
                // A damaged mark tells nothing here: a reader that follows the index entry raises
                // the error.
                let is_sound = decode(entry.group(), shown.payload).is_ok();
                if is_sound && is_over(writer) && in_force(&shown) {
                    dead += 1;
                    name(row_of(id, shown.seq), writer);
                }
                match has_enough(looks, dead) {
                    true => ControlFlow::Break(()),
                    false => ControlFlow::Continue(()),
                }
            });
        }
        if has_enough(looks, dead) {
            return;
        }
    }
}

fn has_enough(looks: u32, dead: u32) -> bool {
    looks >= MOST || (looks >= FEW && dead == 0)
}
