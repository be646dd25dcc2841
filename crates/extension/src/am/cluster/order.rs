//! Writes rows into new row groups, in the order of an index (CLUSTER) or in the order of their
//! arrival (VACUUM FULL).
//!
//! ```text
//!   CLUSTER      hot rows ──┐
//!                           ├─> sort (on disk past maintenance_work_mem) ─> new row groups,
//!                cold rows ─┘        each with its origin                   new row numbers,
//!                                                                           recent inserts
//!
//!   VACUUM FULL  hot rows ──> a group at a time, by the sort key inside it ─> likewise
//! ```
//!
//! A new group is visible to all. Those of its rows that are not yet visible to some snapshot are
//! recent inserts ([`crate::store::marks::RecentInserts`]), so that rows of any age stand in one
//! order.
//!
//! Memory: that of the sort, of one group that is decoded or built, and some bytes for each
//! recent insert of that group.

use std::ops::ControlFlow;

use howdah_bridge::Oid;
use howdah_bridge::rewrite::progress;
use howdah_bridge::row_memory::RowMemory;
use howdah_bridge::slot::Origin;
use howdah_bridge::store::{ColdStore, CopiedAs};
use howdah_bridge::table::Table;
use howdah_bridge::tid::{INVALID_BLOCK, ROW_NUMBER_LIMIT, ROWS_PER_COLD_BLOCK, RowNumber};
use howdah_bridge::tuple_sort::TupleSort;
use howdah_bridge::xid::{CommandId, Xid};
use howdah_columnar::{MAX_ROWS, RowGroupBuilder};

use super::rewriting::{Counts, Rewriting};
use crate::errors::ColdError;
use crate::row_order;
use crate::settings;
use crate::store::directory::{self, GroupEntry, GroupFlags, GroupState};
use crate::store::encode::encode;
use crate::store::marks::{self, RecentInserts};
use crate::store::view::RowDatums;
use crate::types::{TableLayout, push_datum};

/// The rows that go to the cold side of the new table.
pub(super) struct ColdOrder<'a> {
    way: Way<'a>,
    layout: TableLayout,
    horizon: Xid,
    /// Origins of rows that some snapshot does not see yet.
    recent: Vec<Origin>,
}

/// Such origins of hot rows at most.
const MOST_RECENT_ORIGINS: usize = 64;

enum Way<'a> {
    Sort(TupleSort<'a>),
    AsTheyCome(GroupWriter<'a>),
}

/// The stores and the command id with which new groups are written.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    /// The store of the new table, which no other transaction can see.
    pub new: &'a ColdStore<'a>,
    /// The store of the old table.
    pub old: &'a ColdStore<'a>,
    pub cid: CommandId,
}

impl<'a> ColdOrder<'a> {
    /// Writes rows in the order of an index, which is a btree.
    pub fn by(work: &Rewriting<'a>, index: Table<'a>, memory_kb: i32) -> ColdOrder<'a> {
        ColdOrder {
            way: Way::Sort(TupleSort::by_index(work.old_heap, index, memory_kb)),
            layout: TableLayout::of(work.old_heap.descriptor()),
            horizon: work.horizon,
            recent: Vec::new(),
        }
    }

    /// Writes rows in the order of their arrival, with numbers from `first_row` on; inside each
    /// group they are sorted by the table's sort key.
    pub fn as_they_come(work: &Rewriting<'_>, target: Target<'a>, first_row: u64) -> ColdOrder<'a> {
        let layout = TableLayout::of(work.old_heap.descriptor());
        let sort_key = row_order::key_of_table(work.old_heap);
        let groups = GroupWriter::begin(work, target, &layout, first_row, sort_key);
        ColdOrder {
            way: Way::AsTheyCome(groups),
            layout,
            horizon: work.horizon,
            recent: Vec::new(),
        }
    }

    /// Whether rows of old groups must be put here, too.
    pub fn takes_cold_rows(&self) -> bool {
        matches!(self.way, Way::Sort(_))
    }

    pub fn layout(&self) -> &TableLayout {
        &self.layout
    }

    /// Whether a hot row of this origin may be put here. Rows that some snapshot does not see yet
    /// are listed by origin, and a look-up of any row of the group visits all of its lists: those
    /// of many transactions stay hot.
    pub fn may_take(&mut self, origin: Origin) -> bool {
        if origin.xid.precedes(self.horizon) || self.recent.contains(&origin) {
            return true;
        }
        let is_one_of_few = self.recent.len() < MOST_RECENT_ORIGINS;
        if is_one_of_few {
            self.recent.push(origin);
        }
        is_one_of_few
    }

    /// Adds a row that no transaction has locked or changed.
    ///
    /// # Safety
    /// `row` is a row of the old table, valid in the current memory context, which the caller
    /// empties.
    pub unsafe fn put(&mut self, row: &mut RowDatums, origin: Origin) -> Result<(), ColdError> {
        let is_old = origin.xid.precedes(self.horizon);
        let origin = if is_old { Origin::FROZEN } else { origin };
        for (i, attribute) in self.layout.attributes.iter().enumerate() {
            if attribute.dropped {
                row.set_null(i);
            }
        }
        match &mut self.way {
            // SAFETY: as for this function.
            Way::Sort(sort) => unsafe {
                sort.put_row(row.values.as_mut_ptr(), row.nulls.as_mut_ptr(), origin);
            },
            Way::AsTheyCome(groups) => {
                groups.make_room(&self.layout)?;
                groups.push(&self.layout, row, origin);
            }
        }
        Ok(())
    }

    /// Writes the rows that are not written yet; sorted rows get numbers from `first_row` on.
    /// Returns all new groups.
    pub fn write(
        self,
        work: &Rewriting<'_>,
        target: Target<'a>,
        first_row: u64,
        counts: &mut Counts,
    ) -> Result<Vec<GroupEntry>, ColdError> {
        let sort = match self.way {
            Way::Sort(sort) => sort,
            Way::AsTheyCome(groups) => return groups.finish(&self.layout),
        };
        let row_count = sort.row_count();
        progress::sorting();
        let mut sorted = sort.finish();
        progress::writing();
        let mut out = GroupWriter::begin(work, target, &self.layout, first_row, Vec::new());
        let mut row = RowDatums::new(self.layout.attributes.len());
        let memory = RowMemory::new();
        for _ in 0..row_count {
            howdah_bridge::check_for_interrupts!();
            let (values, nulls) = (row.values.as_mut_ptr(), row.nulls.as_mut_ptr());
            // SAFETY: one entry per attribute.
            let Some(origin) = (unsafe { sorted.next_row(values, nulls) }) else {
                break;
            };
            out.make_room(&self.layout)?;
            memory.with(|| out.push(&self.layout, &row, origin));
            counts.written += 1;
            progress::rows_written(counts.written);
        }
        memory.delete();
        sorted.end();
        out.finish(&self.layout)
    }
}

/// Writes rows into groups that are visible to all.
struct GroupWriter<'a> {
    target: Target<'a>,
    table: Oid,
    horizon: Xid,
    next_row: u64,
    /// Attribute numbers by which the rows of each group are sorted.
    sort_key: Vec<i16>,
    rows: RowGroupBuilder,
    /// The recent inserts of the current group, by position.
    recent: Vec<(u32, Origin)>,
    written: Vec<GroupEntry>,
}

impl<'a> GroupWriter<'a> {
    fn begin(
        work: &Rewriting<'_>,
        target: Target<'a>,
        layout: &TableLayout,
        first_row: u64,
        sort_key: Vec<i16>,
    ) -> GroupWriter<'a> {
        GroupWriter {
            target,
            table: work.table(),
            horizon: work.horizon,
            next_row: first_row,
            sort_key,
            rows: RowGroupBuilder::new(&layout.column_types()),
            recent: Vec::new(),
            written: Vec::new(),
        }
    }

    /// Finishes a group that is full.
    fn make_room(&mut self, layout: &TableLayout) -> Result<(), ColdError> {
        let full = self.rows.row_count() == MAX_ROWS
            || self.rows.raw_bytes() >= settings::row_group_bytes();
        match full {
            true => self.finish_group(layout),
            false => Ok(()),
        }
    }

    /// Finishes the last group.
    fn finish(mut self, layout: &TableLayout) -> Result<Vec<GroupEntry>, ColdError> {
        if self.rows.row_count() > 0 {
            self.finish_group(layout)?;
        }
        Ok(self.written)
    }

    /// A value id that is not used in the old store either, because values may still be copied from
    /// there under their ids.
    fn new_value_id(&self) -> u32 {
        loop {
            let id = self.target.new.new_value_id();
            let mut is_used = false;
            self.target.old.visit(id, 0..=0, &mut |_| {
                is_used = true;
                ControlFlow::Break(())
            });
            if !is_used {
                return id;
            }
        }
    }

    fn push(&mut self, layout: &TableLayout, row: &RowDatums, origin: Origin) {
        if origin.xid != Origin::FROZEN.xid {
            self.recent.push((self.rows.row_count() as u32, origin));
        }
        for (i, attribute) in layout.attributes.iter().enumerate() {
            // SAFETY: the values are those of the tuple that the sort returned last.
            unsafe {
                push_datum(
                    self.rows.column_mut(i),
                    attribute,
                    row.values[i],
                    row.nulls[i],
                );
            }
        }
        self.rows.finish_row();
    }

    fn finish_group(&mut self, layout: &TableLayout) -> Result<(), ColdError> {
        let empty = RowGroupBuilder::new(&layout.column_types());
        let mut rows = std::mem::replace(&mut self.rows, empty);
        let mut recent = std::mem::take(&mut self.recent);
        if let Some(order) = row_order::order_by(&rows, &self.sort_key) {
            rows = rows.reordered(&order);
            let positions = row_order::positions(&order);
            recent
                .iter_mut()
                .for_each(|(row, _)| *row = positions[*row as usize]);
            recent.sort_by_key(|&(row, _)| row);
        }
        let mut lists = RecentInserts::default();
        recent
            .iter()
            .for_each(|&(row, origin)| lists.push(origin, row));
        let row_count = rows.row_count() as u32;
        let capacity_rows = row_count.next_multiple_of(ROWS_PER_COLD_BLOCK as u32);
        let end = self.next_row + u64::from(capacity_rows);
        if end > ROW_NUMBER_LIMIT {
            return Err(ColdError::OutOfRowNumbers {
                limit: ROW_NUMBER_LIMIT,
            });
        }
        let encoded = encode(&rows, &settings::encoding_of(self.table))?;
        drop(rows);
        let mut entry = GroupEntry {
            state: GroupState::Stored,
            first_row: RowNumber(self.next_row),
            capacity_rows,
            row_count,
            value_id: self.new_value_id(),
            first_block: INVALID_BLOCK,
            footer_bytes: encoded.footer.len() as u32,
            body_bytes: encoded.body.len() as u64,
            origin: Origin::FROZEN,
            flags: match lists.is_empty() {
                true => GroupFlags::default(),
                false => GroupFlags::RECENT_INSERTS,
            },
        };
        let parts = [encoded.footer.as_slice(), encoded.body.as_slice()];
        let Target {
            new: store, cid, ..
        } = self.target;
        let value = store.write_copy(entry.value_id, &parts, cid, CopiedAs::Frozen);
        entry.first_block = value.first_block;
        marks::insert_recent(store, &entry, &lists, self.horizon, cid);
        directory::insert_copy(store, &entry, cid, CopiedAs::Frozen);
        self.next_row = end;
        self.written.push(entry);
        Ok(())
    }
}
