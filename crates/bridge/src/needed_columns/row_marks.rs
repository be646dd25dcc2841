//! Which columns of a locked row are read.
//!
//! `LockRows` has every row of its child locked and stored in a slot of its own, from which the
//! child's scan takes the row when it is run again for it alone (EvalPlanQual): if this row, or
//! another one of the same join, was changed meanwhile. So of a locked row nothing is read but what
//! the scan of its table reads. Mostly nothing is: a foreign key check reads not one column of the
//! row it locks.
//!
//! Invariants
//! - A row mark whose scan is not found, or reads whole rows, needs every column.
//! - A slot is told by its place in the node's own list of slots, because it lives only from the
//!   node's first row to its last one: its address may belong to another slot afterwards.

use pgrx::pg_sys;

use super::plan::{Attributes, Outputs, members};
use super::{Columns, columns_where};
use crate::table::Table;

/// A row mark of a started `LockRows` node.
pub(super) struct RowMark {
    node: *mut pg_sys::LockRowsState,
    rti: pg_sys::Index,
    pub(super) columns: Columns,
}

impl RowMark {
    /// Whether the node keeps the rows of this row mark in the slot.
    ///
    /// # Safety
    /// The memory of the node's query was not freed.
    pub(super) unsafe fn keeps(&self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        // SAFETY: as for this function; the list has a place for each entry of the range table.
        unsafe {
            let slots = (*self.node).lr_epqstate.relsubs_slot;
            std::ptr::eq(*slots.add(self.rti as usize - 1), slot)
        }
    }
}

struct Found {
    node: *mut pg_sys::LockRowsState,
    rti: pg_sys::Index,
    column_count: usize,
    read: Attributes,
    scans: usize,
    reads_whole_rows: bool,
}

/// The row marks of one plan, while it is walked.
#[derive(Default)]
pub(super) struct Marks {
    found: Vec<Found>,
}

impl Marks {
    /// Notes the row marks of a node, before the walk comes to what is below it.
    ///
    /// # Safety
    /// A started node.
    pub(super) unsafe fn begin(
        &mut self,
        node: *mut pg_sys::LockRowsState,
        is_ours: fn(Table<'_>) -> bool,
    ) {
        // SAFETY: a started node; relations with row marks are open, or NULL.
        unsafe {
            for mark in members::<pg_sys::ExecAuxRowMark>((*node).lr_arowMarks) {
                let mark = &*(*mark).rowmark;
                if mark.relation.is_null() || !is_ours(Table::from_raw(mark.relation)) {
                    continue;
                }
                self.found.push(Found {
                    node,
                    rti: mark.rti,
                    column_count: (*(*mark.relation).rd_att).natts as usize,
                    read: Attributes::none(),
                    scans: 0,
                    reads_whole_rows: false,
                });
            }
        }
    }

    /// Notes what a node reads of the rows of its table, if they have a row mark.
    ///
    /// # Safety
    /// A started node, whose parent reads these outputs.
    pub(super) unsafe fn note_scan(&mut self, node: *mut pg_sys::PlanState, outputs: &Outputs) {
        if self.found.is_empty() {
            return;
        }
        // SAFETY: a started node; its tag tells its type.
        unsafe {
            let Some((rti, read)) = read_by_scan((*node).plan, outputs) else {
                return;
            };
            for found in self.found.iter_mut().filter(|found| found.rti == rti) {
                found.scans += 1;
                match &read {
                    Some(read) if !read.has_whole_row() => found.read.add_all(read),
                    _ => found.reads_whole_rows = true,
                }
            }
        }
    }

    /// The row marks of which not all columns are read.
    pub(super) fn finish(self) -> impl Iterator<Item = RowMark> {
        let some =
            (self.found.into_iter()).filter(|found| found.scans > 0 && !found.reads_whole_rows);
        some.filter_map(|found| {
            let is_read = |column: usize| found.read.contains(column as i32 + 1);
            let columns = columns_where(found.column_count, is_read);
            columns.contains(&false).then_some(RowMark {
                node: found.node,
                rti: found.rti,
                columns,
            })
        })
    }
}

/// The table that a plan node scans, and what it reads of a row that EvalPlanQual gives it: its
/// outputs, and all conditions, those of the index as well. `None` in place of the columns for
/// nodes that may read any of them.
///
/// # Safety
/// A finished plan.
unsafe fn read_by_scan(
    plan: *mut pg_sys::Plan,
    outputs: &Outputs,
) -> Option<(pg_sys::Index, Option<Attributes>)> {
    use pg_sys::NodeTag as Tag;
    let mut read = Attributes::none();
    // SAFETY: a finished plan, whose expressions carry the scan's index; its tag tells its type.
    unsafe {
        let rti = (*plan.cast::<pg_sys::Scan>()).scanrelid;
        let conditions = match (*plan).type_ {
            Tag::T_SeqScan | Tag::T_SampleScan | Tag::T_TidScan | Tag::T_TidRangeScan => [NONE; 2],
            Tag::T_IndexScan => {
                let scan = plan.cast::<pg_sys::IndexScan>();
                [(*scan).indexqualorig, (*scan).indexorderbyorig]
            }
            Tag::T_BitmapHeapScan => [
                (*plan.cast::<pg_sys::BitmapHeapScan>()).bitmapqualorig,
                NONE,
            ],
            Tag::T_CustomScan => {
                let scan = plan.cast::<pg_sys::CustomScan>();
                if rti == 0 {
                    return None;
                }
                if !crate::scan::is_of((*scan).methods) {
                    return Some((rti, None));
                }
                [(*scan).custom_exprs, NONE]
            }
            Tag::T_IndexOnlyScan | Tag::T_ForeignScan => return Some((rti, None)),
            _ => return None,
        };
        for target in members::<pg_sys::TargetEntry>((*plan).targetlist) {
            if outputs.contains(i32::from((*target).resno)) {
                read.pull((*target).expr, rti as i32);
            }
        }
        read.pull((*plan).qual, rti as i32);
        for list in conditions {
            read.pull(list, rti as i32);
        }
        Some((rti, Some(read)))
    }
}

const NONE: *mut pg_sys::List = std::ptr::null_mut();
