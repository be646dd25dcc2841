//! Which INSERT statements are plain: ModifyTable does nothing for a row but insert it.
//!
//! Each condition stands for something that `ExecModifyTable` and `ExecInsert` of
//! `nodeModifyTable.c` do for a row. What they do for a statement is left to them. All of it is
//! settled when the statement has started: the lock on the table keeps other transactions from
//! changing it, `CheckTableNotInUse` the statement's own functions, and triggers that they create
//! are not in the statement's copy of the triggers.

use pgrx::pg_sys;

use super::page_tuples::Page;
use super::{LoadRows, PlainInsert};
use crate::table::Table;

/// What is needed to take the rows of a statement, if it is plain.
///
/// # Safety
/// The node of an INSERT that was started and has not run, which has a child.
pub(super) unsafe fn plain(
    modify: *mut pg_sys::ModifyTableState,
    load: &dyn LoadRows,
) -> Option<PlainInsert> {
    // SAFETY: the node was initialised, and with it the table, which is open and locked.
    unsafe {
        let state = &*modify;
        let result = &*state.resultRelInfo;
        let table = Table::from_raw(result.ri_RelationDesc);
        if !load.is_concerned(table) {
            return None;
        }
        let child = state.ps.lefttree;
        let is_plain = state.operation == pg_sys::CmdType::CMD_INSERT
            // One table, and the rows do not have to be routed to its partitions.
            && state.mt_nrels == 1
            && std::ptr::eq(state.resultRelInfo, state.rootResultRelInfo)
            && state.mt_partition_tuple_routing.is_null()
            // Rows are not collected for triggers of the statement, nor returned.
            && state.mt_transition_capture.is_null()
            && result.ri_projectReturning.is_null()
            // No conflict is looked for.
            && (*state.ps.plan.cast::<pg_sys::ModifyTable>()).onConflictAction
                == pg_sys::OnConflictAction::ONCONFLICT_NONE
            // The child is not run again for a row that was locked (EvalPlanQual).
            && (*state.ps.state).es_epq_active.is_null()
            && is_plain_table(result);
        if !is_plain {
            return None;
        }
        Some(PlainInsert {
            modify,
            child,
            next: (*child).ExecProcNodeReal?,
            width: (*(*result.ri_RelationDesc).rd_att).natts,
            not_null: not_null_of(table),
            taken: 0,
            page: Page::of(child, table),
        })
    }
}

/// Whether the table asks for nothing but its rows to be stored.
///
/// # Safety
/// The result relation of a started statement.
unsafe fn is_plain_table(result: &pg_sys::ResultRelInfo) -> bool {
    // SAFETY: as for this function; the relation is open.
    unsafe {
        let relation = &*result.ri_RelationDesc;
        let form = &*relation.rd_rel;
        let has_row_triggers = |triggers: &pg_sys::TriggerDesc| {
            triggers.trig_insert_before_row
                || triggers.trig_insert_after_row
                || triggers.trig_insert_instead_row
                || triggers.trig_insert_new_table
        };
        // Of constraints, NOT NULL is checked here. Defaults are part of the plan.
        let has_expressions = |constraints: &pg_sys::TupleConstr| {
            constraints.num_check > 0
                || constraints.has_generated_stored
                || constraints.has_generated_virtual
        };
        form.relkind as u8 == pg_sys::RELKIND_RELATION
            // Index entries are inserted row by row.
            && !form.relhasindex
            && result.ri_NumIndices == 0
            // Rows have to satisfy the bounds of a partition.
            && !form.relispartition
            && !result.ri_TrigDesc.as_ref().is_some_and(has_row_triggers)
            && !(*relation.rd_att).constr.as_ref().is_some_and(has_expressions)
            // Row-level security, and views WITH CHECK OPTION.
            && result.ri_WithCheckOptions.is_null()
            && result.ri_FdwRoutine.is_null()
    }
}

/// Attributes of the table that must not be NULL, counted from zero.
fn not_null_of(table: Table<'_>) -> Vec<usize> {
    let attributes = table.descriptor().attributes().iter().enumerate();
    let not_null = attributes.filter(|(_, attribute)| attribute.attnotnull);
    not_null.map(|(index, _)| index).collect()
}
