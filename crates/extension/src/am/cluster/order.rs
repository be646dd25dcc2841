//! CLUSTER: rows in the order of the index, into row groups.
//!
//! ```text
//!   hot rows ──┐
//!              ├─> sort (on disk past maintenance_work_mem) ─> new row groups, new row numbers
//!   cold rows ─┘        each with its origin                    and lists of their late rows
//! ```
//!
//! A group is there for everybody. Its rows that somebody's snapshot may not see yet are late rows
//! ([`crate::store::marks::LateRows`]), so that rows of any age stand in one order.
//!
//! Memory: the sort's, one decoded group or one being built, and four bytes for each of its late rows.

use howdah_bridge::rewrite::progress;
use howdah_bridge::slot::Origin;
use howdah_bridge::store::{ColdStore, CopiedAs};
use howdah_bridge::tid::{ROW_NUMBER_LIMIT, ROWS_PER_COLD_BLOCK, RowNumber};
use howdah_bridge::tuple_sort::TupleSort;
use howdah_columnar::{MAX_ROWS, RowGroupBuilder};
use pgrx::pg_sys;

use super::{Counts, Rewriting};
use crate::errors::ColdError;
use crate::settings;
use crate::slot_writer::RowMemory;
use crate::store::directory::{self, GroupEntry, GroupFlags, GroupState};
use crate::store::marks::{self, LateRows};
use crate::store::view::RowDatums;
use crate::types::{TableLayout, push_datum};

/// Rows on their way to the cold side of the new table.
pub(super) struct ColdOrder {
    sort: TupleSort,
    layout: TableLayout,
    horizon: pg_sys::TransactionId,
}

impl ColdOrder {
    /// # Safety
    /// The table and its index are open and stay so; the index is a btree.
    pub unsafe fn by(work: &Rewriting, index: pg_sys::Relation, memory_kb: i32) -> ColdOrder {
        // SAFETY: as for this function.
        unsafe {
            let desc = (*work.old_table).rd_att;
            ColdOrder {
                sort: TupleSort::by_index(desc, index, memory_kb),
                layout: TableLayout::of(desc),
                horizon: work.horizon,
            }
        }
    }

    pub fn layout(&self) -> &TableLayout {
        &self.layout
    }

    /// Takes a row that nobody has locked or changed.
    ///
    /// # Safety
    /// `row` is a row of the old table, valid in the current memory context, which the caller empties.
    pub unsafe fn put(&mut self, row: &mut RowDatums, origin: Origin) {
        // SAFETY: compares two transaction ids.
        let is_old = unsafe { pg_sys::TransactionIdPrecedes(origin.xid, self.horizon) };
        let origin = if is_old { Origin::FROZEN } else { origin };
        for (i, attribute) in self.layout.attributes.iter().enumerate() {
            if attribute.dropped {
                row.set_null(i);
            }
        }
        // SAFETY: as for this function.
        unsafe {
            let (values, nulls) = (row.values.as_mut_ptr(), row.nulls.as_mut_ptr());
            self.sort.put_row(values, nulls, origin);
        }
    }

    /// Writes the rows in order, with numbers from `first_row` on. The answer is their groups.
    ///
    /// # Safety
    /// The tables are open, and nobody else can see the store, to which everything that keeps its
    /// value id has been copied.
    pub unsafe fn write(
        self,
        store: &ColdStore,
        table: pg_sys::Oid,
        first_row: u64,
        cid: pg_sys::CommandId,
        counts: &mut Counts,
    ) -> Result<Vec<GroupEntry>, ColdError> {
        let row_count = self.sort.row_count();
        progress::sorting();
        let mut sorted = self.sort.finish();
        progress::writing();
        let mut out = GroupWriter {
            store,
            table,
            cid,
            horizon: self.horizon,
            next_row: first_row,
            rows: RowGroupBuilder::new(&self.layout.column_types()),
            late: LateRows::default(),
            written: Vec::new(),
        };
        let mut row = RowDatums::new(self.layout.attributes.len());
        let memory = RowMemory::new();
        for _ in 0..row_count {
            pgrx::check_for_interrupts!();
            let (values, nulls) = (row.values.as_mut_ptr(), row.nulls.as_mut_ptr());
            // SAFETY: one entry per attribute.
            let Some(origin) = (unsafe { sorted.next_row(values, nulls) }) else {
                break;
            };
            if out.is_full() {
                out.finish_group(&self.layout)?;
            }
            memory.with(|| out.push(&self.layout, &row, origin));
            counts.written += 1;
            progress::rows_written(counts.written);
        }
        memory.delete();
        sorted.end();
        if out.rows.row_count() > 0 {
            out.finish_group(&self.layout)?;
        }
        Ok(out.written)
    }
}

/// Rows in order, into groups that everybody sees.
struct GroupWriter<'a> {
    store: &'a ColdStore,
    table: pg_sys::Oid,
    cid: pg_sys::CommandId,
    horizon: pg_sys::TransactionId,
    next_row: u64,
    rows: RowGroupBuilder,
    late: LateRows,
    written: Vec<GroupEntry>,
}

impl GroupWriter<'_> {
    fn is_full(&self) -> bool {
        self.rows.row_count() == MAX_ROWS || self.rows.raw_bytes() >= settings::row_group_bytes()
    }

    fn push(&mut self, layout: &TableLayout, row: &RowDatums, origin: Origin) {
        if origin != Origin::FROZEN {
            self.late.push(origin, self.rows.row_count() as u32);
        }
        for (i, attribute) in layout.attributes.iter().enumerate() {
            // SAFETY: the values are those of the tuple that the sort has shown last.
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
        let rows = std::mem::replace(&mut self.rows, empty);
        let late = std::mem::take(&mut self.late);
        let row_count = rows.row_count() as u32;
        let capacity_rows = row_count.next_multiple_of(ROWS_PER_COLD_BLOCK as u32);
        let end = self.next_row + u64::from(capacity_rows);
        if end > ROW_NUMBER_LIMIT {
            return Err(ColdError::OutOfRowNumbers {
                limit: ROW_NUMBER_LIMIT,
            });
        }
        let encoded = rows.encode(settings::effort_of(self.table))?;
        drop(rows);
        pgrx::check_for_interrupts!();
        let entry = GroupEntry {
            state: GroupState::Stored,
            first_row: RowNumber(self.next_row),
            capacity_rows,
            row_count,
            value_id: self.store.new_value_id(),
            footer_bytes: encoded.footer.len() as u32,
            body_bytes: encoded.body.len() as u64,
            origin: Origin::FROZEN,
            flags: match late.is_empty() {
                true => GroupFlags::default(),
                false => GroupFlags::LATE_ROWS,
            },
        };
        let parts = [encoded.footer.as_slice(), encoded.body.as_slice()];
        self.store
            .write_copy(entry.value_id, &parts, self.cid, CopiedAs::Frozen);
        marks::insert_late(self.store, &entry, &late, self.horizon, self.cid);
        directory::insert_copy(self.store, &entry, self.cid, CopiedAs::Frozen);
        self.next_row = end;
        self.written.push(entry);
        Ok(())
    }
}
