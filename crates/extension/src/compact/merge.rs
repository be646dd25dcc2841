//! Merging neighbouring small row groups.
//!
//! A run of groups, each less than half full, that fit one group together is read, written anew
//! under new row numbers with new index entries, and deleted, all in one transaction. Snapshots
//! from before go on reading the old groups. Cold rows have no versions and no locks of their
//! own, so nobody can be in the middle of changing one.

use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use howdah_columnar::{MAX_ROWS, RowGroupBuilder};
use pgrx::pg_sys;

use super::indexes::Indexes;
use super::sort;
use super::table::{StepTable, Task};
use crate::errors::{ColdError, or_raise};
use crate::settings;
use crate::slot_writer::RowMemory;
use crate::stop_point;
use crate::store::directory::{self, GroupState, PlacedEntry};
use crate::store::group;
use crate::store::view::{ColdGroup, GroupRows, RowDatums, Wanted};
use crate::types::{TableLayout, push_datum};

/// A group below this is small.
const SMALL_ROWS: u32 = (MAX_ROWS / 2) as u32;

/// How a merge ended, and what becomes of its transaction.
pub enum Merge {
    /// So many groups became one: commit.
    Merged(u32),
    /// Somebody wants the table: roll back.
    Yielded,
    /// There was nothing to merge: commit.
    Nothing,
}

/// Merges one run of groups.
pub fn merge_small_groups(task: &Task) -> Merge {
    let Some(table) = StepTable::open(task.table, task.patient) else {
        return Merge::Nothing;
    };
    // SAFETY: the table is open and locked, a snapshot is active.
    unsafe {
        let Some(store) = ColdStore::open(table.raw(), pg_sys::RowExclusiveLock) else {
            return Merge::Nothing;
        };
        let snapshot = pg_sys::GetActiveSnapshot();
        let groups = or_raise(task.table, directory::groups(&store, snapshot));
        let Some(run) = first_run(&groups) else {
            return Merge::Nothing;
        };
        if table.has_waiters() {
            return Merge::Yielded;
        }
        if or_raise(task.table, merge(task, &table, &store, run)) {
            Merge::Merged(run.len() as u32)
        } else {
            Merge::Yielded
        }
    }
}

/// The first run of at least two small neighbours that fit one group.
fn first_run(groups: &[PlacedEntry]) -> Option<&[PlacedEntry]> {
    let small = |placed: &PlacedEntry| {
        placed.entry.state == GroupState::Stored && placed.entry.row_count < SMALL_ROWS
    };
    let mut start = 0;
    while start < groups.len() {
        let (mut end, mut rows, mut bytes) = (start, 0, 0);
        while end < groups.len() && small(&groups[end]) {
            rows += groups[end].entry.row_count as usize;
            bytes += groups[end].entry.body_bytes;
            // The raw size is not known here; the encoded one bounds it well enough.
            if rows > MAX_ROWS || bytes > settings::row_group_bytes() as u64 / 4 {
                break;
            }
            end += 1;
        }
        if end - start >= 2 {
            return Some(&groups[start..end]);
        }
        start = end.max(start + 1);
    }
    None
}

/// `false` if somebody waits for the table.
unsafe fn merge(
    task: &Task,
    table: &StepTable,
    store: &ColdStore,
    run: &[PlacedEntry],
) -> Result<bool, ColdError> {
    // SAFETY: the table is open and locked; datums live in the row memory until they are used.
    unsafe {
        let desc = (*table.raw()).rd_att;
        let layout = TableLayout::of(desc);
        let mut rows = RowGroupBuilder::new(&layout.column_types());
        let sources = run
            .iter()
            .map(|placed| GroupRows::load(store, &ColdGroup::Stored(placed.entry), &Wanted::All))
            .collect::<Result<Vec<_>, _>>()?;
        let memory = RowMemory::new();
        let mut datums = RowDatums::new(layout.attributes.len());
        for source in &sources {
            pgrx::check_for_interrupts!();
            for row in 0..source.row_count {
                memory.with(|| {
                    source.fill(row, &layout, desc, &Wanted::All, &mut datums);
                    for (i, attribute) in layout.attributes.iter().enumerate() {
                        push_datum(
                            rows.column_mut(i),
                            attribute,
                            datums.values[i],
                            datums.nulls[i],
                        );
                    }
                });
                rows.finish_row();
            }
        }
        let order = sort::order_by(&rows, &sort::key_of(table.raw(), &task.policy));
        let positions = order.as_deref().map(sort::positions);
        if let Some(order) = &order {
            rows = rows.reordered(order);
        }
        stop_point!("merge_reserve");
        let cid = pg_sys::GetCurrentCommandId(true);
        let placed = directory::reserve(store, rows.row_count() as u32, cid)?;
        group::write(store, &placed, &rows, task.policy.effort, cid)?;
        stop_point!("merge_index_insert");
        let mut indexes = Indexes::open(table.raw());
        let first = placed.entry.first_row.0;
        let mut read = 0;
        for source in sources
            .iter()
            .filter(|_| !indexes.is_empty())
            .collect::<Vec<_>>()
        {
            if table.has_waiters() {
                return Ok(false);
            }
            for row in 0..source.row_count {
                memory.with(|| {
                    source.fill(row, &layout, desc, &Wanted::All, &mut datums);
                    let tuple = pg_sys::heap_form_tuple(
                        desc,
                        datums.values.as_mut_ptr(),
                        datums.nulls.as_mut_ptr(),
                    );
                    let position = match &positions {
                        Some(positions) => positions[read],
                        None => read as u32,
                    };
                    indexes.insert(&mut *tuple, RowNumber(first + u64::from(position)));
                });
                read += 1;
            }
            pgrx::check_for_interrupts!();
        }
        memory.delete();
        stop_point!("merge_delete");
        for old in run {
            group::delete(store, old);
        }
        stop_point!("merge_commit");
        Ok(true)
    }
}
