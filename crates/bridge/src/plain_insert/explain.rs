//! What EXPLAIN shows of a plain INSERT: `EXPLAIN (ANALYZE, VERBOSE)` tells how many rows the load
//! has taken from the plan.

use std::ffi::c_char;

use pgrx::{pg_guard, pg_sys};

use super::started_with;

static mut PREVIOUS: pg_sys::explain_per_node_hook_type = None;

/// Chains the hook.
///
/// # Safety
/// Called once, while the library is loaded.
pub(super) unsafe fn install() {
    // SAFETY: nothing else runs in the process yet.
    unsafe {
        PREVIOUS = pg_sys::explain_per_node_hook;
        pg_sys::explain_per_node_hook = Some(explain_node);
    }
}

/// # Safety
/// Called by EXPLAIN, for a node of a started plan.
#[pg_guard]
unsafe extern "C-unwind" fn explain_node(
    node: *mut pg_sys::PlanState,
    ancestors: *mut pg_sys::List,
    relationship: *const c_char,
    plan_name: *const c_char,
    es: *mut pg_sys::ExplainState,
) {
    // SAFETY: arguments are passed on unchanged; node and state live as long as this call. A plain
    // statement that is found lives as long as the node below it.
    unsafe {
        if let Some(previous) = PREVIOUS {
            previous(node, ancestors, relationship, plan_name, es);
        }
        if (*node).type_ != pg_sys::NodeTag::T_ModifyTableState || !(*es).analyze || !(*es).verbose
        {
            return;
        }
        let plain = started_with((*node).lefttree);
        if !plain.is_null() {
            let (label, taken) = (c"Rows Loaded Directly", (*plain).taken as i64);
            pg_sys::ExplainPropertyInteger(label.as_ptr(), std::ptr::null(), taken, es);
        }
    }
}
