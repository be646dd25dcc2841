//! TABLESAMPLE over both sides.
//!
//! The sampling method sees one table of `hot blocks + cold blocks`, where a cold block holds up to
//! 256 rows. Hot blocks are read by heap's own callback; a sampling routine that returns only the
//! block chosen here makes it read that block.
//!
//! Rows of a group are read one by one, the columns that the plan reads, until so many of them are
//! in the sample that all are decoded.

use std::rc::Rc;

use howdah_bridge::slot::{Origin, Slot};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::table_am::scans::{ChosenBlock, SampleMethod, SampleScans};
use howdah_bridge::tid::{BlockNumber, ROWS_PER_COLD_BLOCK, RowNumber};

use super::scan::{self, Scan, TwoSides};
use crate::errors::or_raise;
use crate::slot_writer::SlotWriter;
use crate::store::group_access::GroupAccess;
use crate::store::group_bytes::LazyStore;
use crate::store::group_cache;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, ColdView, GroupRows, Wanted};

/// The state of a sample scan between rows.
#[derive(Default)]
pub(super) struct SampleState<'a> {
    plan: Option<Plan<'a>>,
}

struct Plan<'a> {
    hot_blocks: u32,
    view: ColdView<'a>,
    /// Cold blocks before each group, and their total at the end.
    blocks_before: Vec<u32>,
    next_sequential: u32,
    current: Option<ColdBlock>,
    loaded: Option<LoadedGroup>,
    writer: SlotWriter,
}

/// Of so many rows of a group one is read by itself, before the group is decoded.
const ROWS_PER_SINGLE: u32 = 32;

/// The rows of one group of the view.
struct LoadedGroup {
    group: usize,
    first_row: RowNumber,
    row_count: u32,
    origin: Origin,
    values: Values,
    read_rows: u32,
    hidden: Option<RowSet>,
}

enum Values {
    Decoded(GroupRows),
    Single(Rc<GroupAccess>),
}

impl LoadedGroup {
    /// Whether its next row is read from what is loaded.
    fn has_next(&self) -> bool {
        match self.values {
            Values::Decoded(_) => true,
            Values::Single(_) => self.read_rows <= self.row_count / ROWS_PER_SINGLE,
        }
    }
}

#[derive(Clone, Copy)]
struct ColdBlock {
    /// Block number in the sampling method's numbering.
    block: BlockNumber,
    group: usize,
    first_position: u32,
    rows: u16,
}

impl<'a> Plan<'a> {
    /// The current memory context outlives the plan.
    fn new(view: ColdView<'a>, hot_blocks: u32) -> Plan<'a> {
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
        Plan {
            hot_blocks,
            view,
            blocks_before,
            next_sequential: 0,
            current: None,
            loaded: None,
            writer: SlotWriter::new(),
        }
    }

    fn total_blocks(&self) -> u32 {
        self.hot_blocks + self.blocks_before.last().copied().unwrap_or(0)
    }

    fn cold_block(&self, block: BlockNumber) -> Option<ColdBlock> {
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

    /// The block that the method chooses; `None` at the end of the sample.
    fn choose(&mut self, method: &mut SampleMethod<'_>) -> Option<BlockNumber> {
        self.current = None;
        let total = self.total_blocks();
        if total == 0 {
            return None;
        }
        let block = match method.choose_block(total) {
            ChosenBlock::At(block) => block,
            ChosenBlock::Next => {
                self.next_sequential += 1;
                self.next_sequential - 1
            }
        };
        if block >= total {
            self.next_sequential = 0;
            return None;
        }
        Some(block)
    }

    /// Loads the group of the current cold block for one more row; `false` if there is none.
    fn load(&mut self, table: Table<'_>, group: usize, wanted: &Wanted) -> bool {
        let loaded = self.loaded.as_mut().filter(|loaded| loaded.group == group);
        let is_known = loaded.is_some();
        if let Some(loaded) = loaded {
            loaded.read_rows += 1;
            if loaded.has_next() {
                return true;
            }
        }
        let Some(store) = ColdStore::open(table, LockMode::AccessShare) else {
            return false;
        };
        let (oid, cold) = (table.oid(), &self.view.groups[group]);
        let values = match cold {
            ColdGroup::Stored(entry) if !is_known => {
                Values::Single(or_raise(oid, group_cache::cached(&store, *entry)))
            }
            _ => Values::Decoded(or_raise(oid, GroupRows::load(&store, cold, wanted))),
        };
        if is_known && let Some(loaded) = &mut self.loaded {
            loaded.values = values;
            return true;
        }
        self.loaded = Some(LoadedGroup {
            group,
            first_row: cold.first_row(),
            row_count: cold.row_count(),
            origin: cold.entry().origin,
            values,
            read_rows: 1,
            hidden: or_raise(oid, self.view.hidden(&store, cold)),
        });
        true
    }
}

impl SampleScans for TwoSides {
    fn next_block(scan: &mut Scan<'_>, method: &mut SampleMethod<'_>) -> bool {
        let mut hot = scan.hot();
        if scan.state().sample.plan.is_none() {
            let view = scan::view_of(scan);
            let plan = scan.in_memory(|| Plan::new(view, hot.block_count()));
            scan.state().sample.plan = Some(plan);
        }
        let Some(plan) = &mut scan.state().sample.plan else {
            return false;
        };
        let Some(block) = plan.choose(method) else {
            return false;
        };
        if block >= plan.hot_blocks {
            plan.current = plan.cold_block(block);
            return plan.current.is_some();
        }
        method.read_hot(&mut hot, block)
    }

    fn next_row(scan: &mut Scan<'_>, method: &mut SampleMethod<'_>, slot: Slot<'_>) -> bool {
        let (table, mut hot) = (scan.table(), scan.hot());
        let Some(plan) = &mut scan.state().sample.plan else {
            return false;
        };
        let Some(block) = plan.current else {
            while method.next_hot(&mut hot, slot) {
                if !scan::hides_hot(scan, slot) {
                    return true;
                }
            }
            return false;
        };
        howdah_bridge::check_for_interrupts!();
        let wanted = Wanted::in_slot(slot, false);
        if !plan.load(table, block.group, &wanted) {
            return false;
        }
        let Some(loaded) = &plan.loaded else {
            return false;
        };
        let position = loop {
            let Some(offset) = method.choose_row(block.block, block.rows) else {
                slot.clear();
                return false;
            };
            let position = block.first_position + u32::from(offset) - 1;
            if !(loaded.hidden.as_ref()).is_some_and(|hidden| hidden.contains(position)) {
                break position;
            }
        };
        let tid = RowNumber(loaded.first_row.0 + u64::from(position)).tid();
        let (oid, origin) = (table.oid(), loaded.origin);
        plan.writer.write(
            slot,
            tid,
            oid,
            origin,
            |layout, desc, datums| match &loaded.values {
                Values::Decoded(rows) => rows.fill(position, layout, desc, &wanted, datums),
                Values::Single(group) => {
                    let store = LazyStore::of(table);
                    or_raise(
                        oid,
                        group.fill(&store, position, layout, desc, &wanted, datums),
                    );
                }
            },
        );
        table.count_rows_read(1);
        true
    }
}
