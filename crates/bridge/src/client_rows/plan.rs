//! Which plans' rows we write: those that come from our nodes, or by index from our tables.
//!
//! Rows pass from a scan to the client through nodes that return them as they are, or join them.
//! A sequential scan by PostgreSQL is left to it: it runs where our nodes are turned off. So are a
//! few rows by index, for which a receiver costs more than it saves.

use pgrx::pg_sys;

use crate::table::Table;
use crate::{scan, upper};

/// Fewer rows by index than are expected here are written by PostgreSQL.
const FEW_ROWS: f64 = 8.0;

/// Whether the rows that a plan returns are those of our nodes or, by index, of our tables.
///
/// # Safety
/// A started query.
pub(super) unsafe fn is_ours(
    query: *mut pg_sys::QueryDesc,
    is_our_table: fn(Table<'_>) -> bool,
) -> bool {
    // SAFETY: a started query has a plan and a state.
    unsafe {
        let plan = (*(*query).plannedstmt).planTree;
        let rows = Rows {
            query,
            is_our_table,
            are_few: (*plan).plan_rows < FEW_ROWS,
        };
        rows.are_ours(plan)
    }
}

struct Rows {
    query: *mut pg_sys::QueryDesc,
    is_our_table: fn(Table<'_>) -> bool,
    /// Whether the whole plan returns few rows, by its estimate.
    are_few: bool,
}

impl Rows {
    /// # Safety
    /// A node of the query's plan, or NULL.
    unsafe fn are_ours(&self, plan: *mut pg_sys::Plan) -> bool {
        use pg_sys::NodeTag::*;
        if plan.is_null() {
            return false;
        }
        // SAFETY: the node's tag tells its type.
        unsafe {
            match (*plan).type_ {
                T_CustomScan => {
                    let methods = (*plan.cast::<pg_sys::CustomScan>()).methods;
                    scan::is_of(methods) || upper::is_of(methods)
                }
                T_IndexScan | T_IndexOnlyScan | T_BitmapHeapScan | T_TidScan | T_TidRangeScan => {
                    let rti = (*plan.cast::<pg_sys::Scan>()).scanrelid;
                    !self.are_few && self.is_of_our_table(rti)
                }
                T_Limit | T_Sort | T_IncrementalSort | T_Unique | T_LockRows | T_Material
                | T_Result => self.are_ours((*plan).lefttree),
                T_NestLoop | T_MergeJoin | T_HashJoin => {
                    self.are_ours((*plan).lefttree) || self.are_ours((*plan).righttree)
                }
                T_Hash | T_Memoize => self.are_ours((*plan).lefttree),
                T_Append => self.first_is_ours((*plan.cast::<pg_sys::Append>()).appendplans),
                T_MergeAppend => {
                    self.first_is_ours((*plan.cast::<pg_sys::MergeAppend>()).mergeplans)
                }
                _ => false,
            }
        }
    }

    /// # Safety
    /// A list of nodes of the query's plan.
    unsafe fn first_is_ours(&self, plans: *mut pg_sys::List) -> bool {
        // SAFETY: as for this function.
        unsafe {
            !plans.is_null()
                && (*plans).length > 0
                && self.are_ours((*(*plans).elements).ptr_value.cast())
        }
    }

    /// Whether a scan's table is ours. A partition that the executor has pruned is not open, and
    /// counts as none of ours.
    ///
    /// # Safety
    /// The index of a relation of the query.
    unsafe fn is_of_our_table(&self, rti: pg_sys::Index) -> bool {
        // SAFETY: a started query has opened the relations that it scans, each at its index.
        unsafe {
            let estate = (*self.query).estate;
            let is_known = rti > 0 && rti <= (*estate).es_range_table_size;
            if !is_known || (*estate).es_relations.is_null() {
                return false;
            }
            let relation = *(*estate).es_relations.add(rti as usize - 1);
            !relation.is_null() && (self.is_our_table)(Table::from_raw(relation))
        }
    }
}
