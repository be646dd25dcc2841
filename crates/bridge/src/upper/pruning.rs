//! Pruning of partitions by parameters that are known in the run only.
//!
//! ```text
//!   planner    Append of PostgreSQL's own plan, the node's child ── has PartitionPruneInfo
//!   executor   child begun, not run ─▶ AppendState ── ExecFindMatchingSubPlans ─▶ subplans to run
//!              scans below the others ─▶ tables that the run leaves out
//! ```
//!
//! Invariants
//! - The decision is PostgreSQL's own, made for the parameters' values of this run. A table that
//!   cannot be found below a subplan that is left out is read, which is always correct: the filter
//!   holds the same condition.
//! - The child is begun once, because beginning it renumbers the maps of its pruning state
//!   (`InitExecPartitionPruneContexts`). If the engine gives up, the same child is run.

use pgrx::pg_sys;

use crate::ffi::ExecFindMatchingSubPlans;

/// The subplans of an Append or MergeAppend that has not run.
struct Members {
    plans: *mut *mut pg_sys::PlanState,
    count: usize,
    /// NULL if nothing is pruned in the run.
    pruning: *mut pg_sys::PartitionPruneState,
}

/// The range table indexes of tables that the run need not read.
///
/// # Safety
/// The plan was begun by the executor and has not been run; the parameters of the run are set.
pub(super) unsafe fn tables_left_out(child: *mut pg_sys::PlanState) -> Vec<i32> {
    let mut left_out = Vec::new();
    // SAFETY: as for this function. Members are as many as the node says.
    unsafe {
        let Some(members) = members(child).filter(|members| !members.pruning.is_null()) else {
            return left_out;
        };
        let matching = ExecFindMatchingSubPlans(members.pruning, false, std::ptr::null_mut());
        for i in 0..members.count {
            if !pg_sys::bms_is_member(i as i32, matching) {
                add_tables(*members.plans.add(i), &mut left_out);
            }
        }
        pg_sys::bms_free(matching);
    }
    left_out
}

/// The members of the first Append or MergeAppend below, if only nodes with one child stand above
/// it.
///
/// # Safety
/// A plan that was begun.
unsafe fn members(mut state: *mut pg_sys::PlanState) -> Option<Members> {
    use pg_sys::NodeTag as Tag;
    // SAFETY: casts follow the node's tag.
    unsafe {
        while !state.is_null() {
            match (*state).type_ {
                Tag::T_AppendState => {
                    let append = &*state.cast::<pg_sys::AppendState>();
                    // Without pruning in the run the subplans to run are known from the start.
                    let is_decided = append.as_valid_subplans_identified;
                    return Some(Members {
                        plans: append.appendplans,
                        count: append.as_nplans as usize,
                        pruning: match is_decided {
                            true => std::ptr::null_mut(),
                            false => append.as_prune_state,
                        },
                    });
                }
                Tag::T_MergeAppendState => {
                    let append = &*state.cast::<pg_sys::MergeAppendState>();
                    let is_decided = !append.ms_valid_subplans.is_null();
                    return Some(Members {
                        plans: append.mergeplans,
                        count: append.ms_nplans as usize,
                        pruning: match is_decided {
                            true => std::ptr::null_mut(),
                            false => append.ms_prune_state,
                        },
                    });
                }
                _ => state = (*state).lefttree,
            }
        }
    }
    None
}

/// Adds the tables that the plan scans.
///
/// # Safety
/// A plan that was begun.
unsafe fn add_tables(state: *mut pg_sys::PlanState, tables: &mut Vec<i32>) {
    use pg_sys::NodeTag as Tag;
    // SAFETY: casts follow the tags of nodes.
    unsafe {
        if state.is_null() {
            return;
        }
        if let Some(members) = members(state) {
            for i in 0..members.count {
                add_tables(*members.plans.add(i), tables);
            }
            return;
        }
        let plan = (*state).plan;
        let is_scan = matches!(
            (*plan).type_,
            Tag::T_SeqScan
                | Tag::T_IndexScan
                | Tag::T_IndexOnlyScan
                | Tag::T_BitmapHeapScan
                | Tag::T_TidScan
                | Tag::T_TidRangeScan
                | Tag::T_CustomScan
        );
        match is_scan {
            true => tables.push((*plan.cast::<pg_sys::Scan>()).scanrelid as i32),
            false => add_tables((*state).lefttree, tables),
        }
    }
}
