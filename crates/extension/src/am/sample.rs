//! TABLESAMPLE over both sides.
//!
//! The sampling method sees one table of `hot blocks + cold blocks`, where a cold block holds up to
//! 256 rows. Hot blocks are read by heap's own callback; a sampling routine that returns only the
//! block chosen here makes it read that block.

use std::cell::Cell;

use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{ROWS_PER_COLD_BLOCK, RowNumber};
use pgrx::{pg_guard, pg_sys};

use super::heap;
use super::scan::{HowdahScan, ours};
use crate::errors::or_raise;
use crate::slot_writer::SlotWriter;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdView, GroupRows, Wanted};

/// The state of a sample scan between tuples.
#[derive(Default)]
pub struct SampleState {
    plan: Option<Plan>,
}

struct Plan {
    hot_blocks: u32,
    /// Its snapshot is the scan's, which outlives it.
    view: ColdView<'static>,
    /// Cold blocks before each group, and their total at the end.
    blocks_before: Vec<u32>,
    next_sequential: u32,
    current: Option<ColdBlock>,
    loaded: Option<(usize, GroupRows, Option<RowSet>)>,
    writer: SlotWriter,
}

#[derive(Clone, Copy)]
struct ColdBlock {
    /// Block number in the sampling method's numbering.
    block: pg_sys::BlockNumber,
    group: usize,
    first_position: u32,
    rows: u16,
}

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.scan_sample_next_block = Some(scan_sample_next_block);
    am.scan_sample_next_tuple = Some(scan_sample_next_tuple);
}

thread_local! {
    static CHOSEN_BLOCK: Cell<pg_sys::BlockNumber> = const { Cell::new(0) };
}

#[pg_guard]
unsafe extern "C-unwind" fn chosen_block(
    _node: *mut pg_sys::SampleScanState,
    _blocks: pg_sys::BlockNumber,
) -> pg_sys::BlockNumber {
    CHOSEN_BLOCK.get()
}

impl Plan {
    /// # Safety
    /// The scan was begun and not ended.
    unsafe fn make(scan: &mut HowdahScan) -> Plan {
        // SAFETY: the scan is open.
        unsafe {
            let context = pg_sys::GetMemoryChunkContext(std::ptr::from_mut(scan).cast());
            let old = pg_sys::MemoryContextSwitchTo(context);
            let snapshot = Snapshot::from_raw(scan.base.rs_snapshot);
            let view = ColdView::of(Table::from_raw(scan.base.rs_rd), snapshot);
            let mut total = 0;
            let mut blocks_before: Vec<u32> = view
                .groups
                .iter()
                .map(|g| {
                    let before = total;
                    total += g.row_count().div_ceil(ROWS_PER_COLD_BLOCK as u32);
                    before
                })
                .collect();
            blocks_before.push(total);
            let plan = Plan {
                hot_blocks: (*scan.heap.cast::<pg_sys::HeapScanDescData>()).rs_nblocks,
                view,
                blocks_before,
                next_sequential: 0,
                current: None,
                loaded: None,
                writer: SlotWriter::new(),
            };
            pg_sys::MemoryContextSwitchTo(old);
            plan
        }
    }

    fn total_blocks(&self) -> u32 {
        self.hot_blocks + self.blocks_before.last().copied().unwrap_or(0)
    }

    fn cold_block(&self, block: pg_sys::BlockNumber) -> Option<ColdBlock> {
        let ordinal = block.checked_sub(self.hot_blocks)?;
        let group = self
            .blocks_before
            .partition_point(|&before| before <= ordinal)
            .checked_sub(1)?;
        let first_position = (ordinal - self.blocks_before[group]) * ROWS_PER_COLD_BLOCK as u32;
        let rows = self
            .view
            .groups
            .get(group)?
            .row_count()
            .checked_sub(first_position)?;
        Some(ColdBlock {
            block,
            group,
            first_position,
            rows: rows.min(ROWS_PER_COLD_BLOCK as u32) as u16,
        })
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn scan_sample_next_block(
    scan: pg_sys::TableScanDesc,
    node: *mut pg_sys::SampleScanState,
) -> bool {
    // SAFETY: the scan is ours; the node's routine is restored right after heap's callback. An
    // ERROR inside ends the query, and the node with it.
    unsafe {
        let scan = ours(scan);
        if scan.state().sample.plan.is_none() {
            let plan = Plan::make(scan);
            scan.state().sample.plan = Some(plan);
        }
        let Some(plan) = &mut scan.state().sample.plan else {
            return false;
        };
        plan.current = None;
        let total = plan.total_blocks();
        if total == 0 {
            return false;
        }
        let block = match (*(*node).tsmroutine).NextSampleBlock {
            Some(next) => next(node, total),
            None => {
                let block = plan.next_sequential;
                plan.next_sequential += 1;
                block
            }
        };
        if block >= total {
            plan.next_sequential = 0;
            return false;
        }
        if block >= plan.hot_blocks {
            plan.current = plan.cold_block(block);
            return plan.current.is_some();
        }
        CHOSEN_BLOCK.set(block);
        let original = (*node).tsmroutine;
        let mut naming = *original;
        naming.NextSampleBlock = Some(chosen_block);
        (*node).tsmroutine = &mut naming;
        let found = (heap().scan_sample_next_block.unwrap_unchecked())(scan.heap(), node);
        (*node).tsmroutine = original;
        found
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn scan_sample_next_tuple(
    scan: pg_sys::TableScanDesc,
    node: *mut pg_sys::SampleScanState,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the scan is ours and a block was chosen.
    unsafe {
        let scan = ours(scan);
        let table = Table::from_raw(scan.base.rs_rd);
        let heap_scan = scan.heap();
        let Some(plan) = &mut scan.state().sample.plan else {
            return false;
        };
        let Some(block) = plan.current else {
            let next = heap().scan_sample_next_tuple.unwrap_unchecked();
            while next(heap_scan, node, slot) {
                if !scan.hides_hot(slot) {
                    return true;
                }
            }
            return false;
        };
        pgrx::check_for_interrupts!();
        let Some(next) = (*(*node).tsmroutine).NextSampleTuple else {
            return false;
        };
        if plan
            .loaded
            .as_ref()
            .is_none_or(|(group, ..)| *group != block.group)
        {
            let Some(store) = ColdStore::open(table, LockMode::AccessShare) else {
                return false;
            };
            let group = &plan.view.groups[block.group];
            plan.loaded = Some((
                block.group,
                or_raise(table.oid(), GroupRows::load(&store, group, &Wanted::All)),
                or_raise(table.oid(), plan.view.hidden(&store, group)),
            ));
        }
        let Some((_, rows, hidden)) = &plan.loaded else {
            return false;
        };
        let position = loop {
            let offset = next(node, block.block, block.rows);
            if offset == 0 || offset > block.rows {
                pg_sys::ExecClearTuple(slot);
                return false;
            }
            let position = block.first_position + u32::from(offset) - 1;
            if !hidden.as_ref().is_some_and(|h| h.contains(position)) {
                break position;
            }
        };
        let tid = RowNumber(rows.first_row.0 + u64::from(position)).tid();
        let writer = &mut plan.writer;
        writer.write(
            Slot::from_raw(slot),
            tid,
            table.oid(),
            rows.origin,
            |layout, desc, datums| {
                rows.fill(position, layout, desc, &Wanted::All, datums);
            },
        );
        table.count_rows_read(1);
        true
    }
}
