//! Rows that are hidden from everybody, for an index that wants to make room.

use std::ops::ControlFlow;

use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::Xid;

use super::mark_filter;
use super::row_mark::{decode, key_ranges, row_of};
use super::tuple_visibility::in_force;
use crate::store::directory::GroupEntry;

/// Rows so near to each other are looked for together.
const NEAR: u64 = 32;
/// Marks that are looked at in vain before the rest is left alone.
const FEW: u32 = 8;
/// Marks that are looked at, at most.
const MOST: u32 = 512;

/// Names those of `rows` whose own marks hide them from everybody, and the writers of the marks, in ascending order;
/// `is_over` is asked about a writer. Rows of bitmaps are not among them. `rows` ascend and are rows of the group.
///
/// For a moment when a page of another index is locked: does not read all marks of the group, waits for
/// nothing but pages of the store, and gives up soon where there is nothing to be found.
pub fn for_each_dead(
    store: &ColdStore,
    entry: &GroupEntry,
    rows: &[RowNumber],
    is_over: &dyn Fn(Xid) -> bool,
    name: &mut dyn FnMut(RowNumber, Xid),
) {
    let may_be_marked = |row: &RowNumber| mark_filter::may_be_marked(store, entry, *row, false);
    let asked: Vec<RowNumber> = rows.iter().copied().filter(may_be_marked).collect();
    let (mut looks, mut dead) = (0, 0);
    for near in asked.chunk_by(|a, b| b.0 - a.0 <= NEAR) {
        let (first, last) = (near[0], near[near.len() - 1]);
        for (id, seqs) in key_ranges(first, (last.0 - first.0 + 1) as u32) {
            let mut is_asked = |seq| near.binary_search(&row_of(id, seq)).is_ok();
            store.visit_wanted(id, seqs, &mut is_asked, &mut |shown| {
                let writer = shown.tuple.xmin();
                looks += 1;
                // A damaged mark says nothing: who follows the entry is to be told so.
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
