//! Copies hot rows into the new table.
//!
//! Mirrors `heapam_relation_copy_for_cluster` over heap's own scan and the server's rewrite
//! machinery, which keeps recently dead versions and their update chains. A version whose successor
//! is cold, or becomes cold, stays deleted but loses the link: a writer that reaches it with an old
//! snapshot finds it deleted, as after any VACUUM FULL, and no transaction can share its key.

use howdah_bridge::rewrite::{HeapRewrite, OldRow, OldRows, OldVersion, progress};
use howdah_bridge::row_memory::RowMemory;
use howdah_bridge::slot::Origin;
use howdah_bridge::table::Table;
use howdah_bridge::table_am::RewriteRequest;
use howdah_bridge::tuple_sort::TupleSort;

use super::order::ColdOrder;
use super::rewriting::{Counts, Rewriting};
use crate::errors::or_raise;
use crate::store::view::RowDatums;
use crate::types::must_stay_hot;

pub(super) struct HotCopy<'a> {
    work: &'a Rewriting<'a>,
    rewrite: HeapRewrite<'a>,
    values: RowDatums,
    memory: RowMemory,
}

impl<'a> HotCopy<'a> {
    /// `work` is the rewrite that was requested.
    pub fn begin(work: &'a Rewriting<'a>, request: &RewriteRequest<'a>) -> HotCopy<'a> {
        HotCopy {
            work,
            rewrite: HeapRewrite::begin(
                work.old_heap,
                work.new_heap,
                work.oldest_xmin,
                request.freeze_xid,
                request.cutoff_multi,
            ),
            values: RowDatums::new(work.new_heap.descriptor().attribute_count()),
            memory: RowMemory::new(),
        }
    }

    /// Copies every version that is not dead, in the order of `index` or sorted by `sort`. Rows
    /// that can be cold are passed to `cold`, if it is given.
    pub fn copy(
        mut self,
        index: Option<Table<'_>>,
        mut sort: Option<TupleSort<'_>>,
        mut cold: Option<&mut ColdOrder<'_>>,
        counts: &mut Counts,
    ) {
        let mut rows = OldRows::begin(self.work.old_heap, index);
        while let Some(row) = rows.next_row() {
            howdah_bridge::check_for_interrupts!();
            let version = self.judge(row, counts);
            if version == OldVersion::Dead {
                continue;
            }
            counts.kept += 1.0;
            progress::rows_scanned(counts.kept as u64);
            if let (OldVersion::Untouched(origin), Some(cold)) = (version, &mut cold)
                && self.put_cold(row, origin, cold)
            {
                if !cold.takes_cold_rows() {
                    counts.written += 1;
                    progress::rows_written(counts.written);
                }
                continue;
            }
            match &mut sort {
                Some(sort) => sort.put_old(row),
                None => {
                    self.rewrite.copy(row);
                    counts.written += 1;
                    progress::rows_written(counts.written);
                }
            }
        }
        rows.end();
        if let Some(sort) = sort {
            self.write_sorted(sort, counts);
        }
        self.memory.delete();
        self.rewrite.end();
    }

    /// The status of a version, which is counted if it is not live.
    fn judge(&mut self, row: OldRow<'_>, counts: &mut Counts) -> OldVersion {
        let version = row.judge(self.work.oldest_xmin);
        match version {
            OldVersion::Dead => {
                counts.removed += 1.0;
                if self.rewrite.note_dead(row) {
                    // An earlier recently dead version turned out to be dead.
                    counts.removed += 1.0;
                    counts.recently_dead -= 1.0;
                }
            }
            OldVersion::RecentlyDead => counts.recently_dead += 1.0,
            OldVersion::Kept | OldVersion::Untouched(_) => {}
        }
        version
    }

    /// Passes a row to the cold side, unless it must stay hot.
    fn put_cold(&mut self, old: OldRow<'_>, origin: Origin, cold: &mut ColdOrder<'_>) -> bool {
        if !cold.may_take(origin) {
            return false;
        }
        let table = self.work.table();
        let row = &mut self.values;
        self.memory.with(|| {
            old.deform(&mut row.values, &mut row.nulls);
            // SAFETY: the values are those of a row of the table, whose page is pinned.
            unsafe {
                if must_stay_hot(cold.layout(), &row.values, &row.nulls) {
                    return false;
                }
                or_raise(table, cold.put(row, origin));
            }
            true
        })
    }

    fn write_sorted(&mut self, sort: TupleSort<'_>, counts: &mut Counts) {
        progress::sorting();
        let mut sorted = sort.finish();
        progress::writing();
        while self.rewrite.copy_next(&mut sorted) {
            howdah_bridge::check_for_interrupts!();
            counts.written += 1;
            progress::rows_written(counts.written);
        }
        sorted.end();
    }
}
