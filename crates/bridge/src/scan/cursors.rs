//! Cursors that may be scrolled.
//!
//! A cursor declared without NO SCROLL can be moved backwards if its plan supports that, and users
//! rely on it for what PostgreSQL sorts: so the first rows of an order, which the engine finds, are
//! then kept by a node that can be moved ([`upper`](crate::upper)). The hooks for paths do not
//! receive the cursor's options; they are kept here while a statement is planned.

use std::cell::RefCell;

use crate::ffi::unguarded;
use crate::xid::{SubTransactionId, current_subtransaction};
use pgrx::pg_sys;

static mut PREVIOUS_HOOK: pg_sys::planner_hook_type = None;

thread_local! {
    /// The runs of the planner, outermost first.
    static PLANNINGS: RefCell<Vec<Planning>> = const { RefCell::new(Vec::new()) };
}

/// A run of the planner. One that ended in an ERROR is noticed later: by its place on the stack
/// when another begins, and by its subtransaction, which the ERROR ended, where an outer run goes
/// on.
struct Planning {
    /// The stack grows downwards.
    address: usize,
    subtransaction: SubTransactionId,
    may_scroll: bool,
}

fn begin(planning: Planning) {
    end(planning.address);
    PLANNINGS.with_borrow_mut(|plannings| plannings.push(planning));
}

/// Ends the run with this place on the stack, and those further down.
fn end(address: usize) {
    PLANNINGS.with_borrow_mut(
        |plannings| {
            while plannings.pop_if(|last| last.address <= address).is_some() {}
        },
    );
}

/// Whether the statement being planned is a cursor that may be scrolled.
pub(crate) fn may_scroll() -> bool {
    let subtransaction = current_subtransaction();
    PLANNINGS.with_borrow_mut(|plannings| {
        while plannings
            .pop_if(|last| last.subtransaction > subtransaction)
            .is_some()
        {}
        plannings.last().is_some_and(|last| last.may_scroll)
    })
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
        let here = 0u8;
        let address = (&raw const here).addr();
        begin(Planning {
            address,
            subtransaction: current_subtransaction(),
            may_scroll: is_cursor && !forward_only,
        });
        let planned = match PREVIOUS_HOOK {
            Some(previous) => previous(query, query_string, options, params),
            None => unguarded::standard_planner(query, query_string, options, params),
        };
        end(address);
        planned
    }
}
