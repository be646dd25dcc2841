//! Cursors that may be scrolled.
//!
//! A cursor declared without NO SCROLL can be moved backwards, and its current row can be used in
//! `WHERE CURRENT OF`, if its plan supports that. Users rely on it for plain scans, and this node
//! reads forwards only; so the node is not offered to such a cursor. The planner's hook for
//! relations does not receive the cursor's options; they are kept here while a statement is
//! planned.

use std::cell::Cell;

use crate::ffi::unguarded;
use pgrx::pg_sys;

static mut PREVIOUS_HOOK: pg_sys::planner_hook_type = None;

thread_local! {
    /// Set by every run of the planner, so that a run that ended in an ERROR leaves nothing behind.
    static MAY_SCROLL: Cell<bool> = const { Cell::new(false) };
}

/// Whether the statement being planned is a cursor that may be scrolled.
pub fn may_scroll() -> bool {
    MAY_SCROLL.get()
}

/// Chains the planner's hook.
///
/// # Safety
/// Called once, while the library is loaded.
pub unsafe fn install() {
    // SAFETY: nothing else runs in the process yet.
    unsafe {
        PREVIOUS_HOOK = pg_sys::planner_hook;
        pg_sys::planner_hook = Some(plan);
    }
}

/// Not guarded, see [`unguarded`].
///
/// # Safety
/// The arguments are those of `planner_hook`.
unsafe extern "C-unwind" fn plan(
    query: *mut pg_sys::Query,
    query_string: *const std::ffi::c_char,
    options: i32,
    params: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: arguments come from the server; the previous hook or the standard planner is called
    // exactly once, with nothing owned by this frame.
    unsafe {
        // Every DECLARE CURSOR, in SQL and in procedural languages, sets this option for a fast
        // plan.
        let is_cursor = options as u32 & pg_sys::CURSOR_OPT_FAST_PLAN != 0;
        let forward_only = options as u32 & pg_sys::CURSOR_OPT_NO_SCROLL != 0;
        let outer = MAY_SCROLL.replace(is_cursor && !forward_only);
        let planned = match PREVIOUS_HOOK {
            Some(previous) => previous(query, query_string, options, params),
            None => unguarded::standard_planner(query, query_string, options, params),
        };
        MAY_SCROLL.set(outer);
        planned
    }
}
