//! Rows of a plain INSERT that go from its plan into a bulk load, not through ModifyTable.
//!
//! ```text
//!   ModifyTable ── ExecProcNode ──▶ next_row ──▶ the child's own function
//!        ▲                             │ row
//!        │                             ├─▶ the load takes it ─▶ the next one is asked for
//!        └──────── returned ◀──────────┘   the load declines it
//! ```
//!
//! For each row, ModifyTable copies it into a tuple of its slot's own, looks for all that a table
//! might have, and calls the access method. Where the table has none of that ([`statement`]), and
//! a bulk load of the running command is under way, the row need not get there. So the function by
//! which ModifyTable asks its child for a row is replaced by [`next_row`]: it passes rows on to the
//! load, and returns to ModifyTable the row that the load declines. The rows of a heap page that
//! are made of values of fixed width alone are passed on together ([`page_tuples`]).
//!
//! The plan is PostgreSQL's own, and ModifyTable stays what it is: it locks the table, checks
//! rights, fires statement triggers, counts, and is shown by EXPLAIN ([`explain`]). Every row that
//! is not plain is inserted by it, or raises its ERROR there.
//!
//! Invariants
//! - A row is taken before the next is asked for, as ModifyTable would insert it: functions of the
//!   statement see the same rows at the same time.
//! - The first row of a command is never taken: the load begins in the callback of the access
//!   method. By then ModifyTable has compared the types of plan and table.
//! - `es_processed`, the node's row counts and the table's statistics have counted every row that
//!   was taken before ModifyTable runs again, or before an ERROR leaves the statistics.
//! - What is kept for a statement lives in the executor's memory, and goes with it.

mod explain;
mod next_row;
mod page_tuples;
mod statement;

use std::cell::RefCell;
use std::sync::OnceLock;

use pgrx::{PgMemoryContexts, pg_guard, pg_sys};

pub use page_tuples::FixedTuples;

use crate::slot::Slot;
use crate::table::Table;
use crate::xid::CommandId;

/// A load that takes rows of INSERT statements.
pub trait LoadRows: Sync {
    /// Whether rows of the table may be taken at all.
    fn is_concerned(&self, table: Table<'_>) -> bool;

    /// Takes the row in the slot, which has all attributes of the table; `false` if the executor
    /// must insert it. The table is locked for writing.
    fn take_row(&self, table: Table<'_>, row: Slot<'_>, command: CommandId) -> bool;

    /// Takes tuples from the first one on, which have the attributes of the table; returns how
    /// many. The table is locked for writing.
    fn take_tuples(&self, table: Table<'_>, tuples: &FixedTuples<'_>, command: CommandId) -> usize;
}

static LOAD: OnceLock<&'static dyn LoadRows> = OnceLock::new();

/// Has the rows of plain INSERT statements taken by `load`. Called once, from `_PG_init`.
pub fn register(load: &'static dyn LoadRows) {
    if LOAD.set(load).is_ok() {
        // SAFETY: the library is being loaded; the second time nothing is done.
        unsafe { explain::install() }
    }
}

/// A plain INSERT that was started.
struct PlainInsert {
    modify: *mut pg_sys::ModifyTableState,
    /// The node below it.
    child: *mut pg_sys::PlanState,
    /// The child's own function.
    next: unsafe extern "C-unwind" fn(*mut pg_sys::PlanState) -> *mut pg_sys::TupleTableSlot,
    /// Attributes of the table.
    width: i32,
    /// Attributes that must not be NULL, counted from zero.
    not_null: Vec<usize>,
    /// Rows that the load has taken.
    taken: u64,
    /// Where the attributes of tuples lie, if the child returns tuples of a heap as they are and
    /// all their attributes have a fixed width.
    page: Option<page_tuples::Page>,
}

thread_local! {
    /// Those whose memory was not freed, by the address of the child.
    static STARTED: RefCell<Vec<(usize, *mut PlainInsert)>> = const { RefCell::new(Vec::new()) };
}

impl Drop for PlainInsert {
    fn drop(&mut self) {
        let child = self.child as usize;
        // At the end of the process the list may be gone before the memory is.
        let _ = STARTED.try_with(|started| {
            if let Ok(mut started) = started.try_borrow_mut() {
                started.retain(|(known, _)| *known != child);
            }
        });
    }
}

/// Whether a started query may be a plain INSERT.
///
/// # Safety
/// A query that `standard_ExecutorStart` has started with these flags.
#[inline]
pub(crate) unsafe fn is_candidate(query: *mut pg_sys::QueryDesc, flags: i32) -> bool {
    // SAFETY: as for this function.
    unsafe {
        let state = (*query).planstate;
        (*query).operation == pg_sys::CmdType::CMD_INSERT
            && flags as u32 & pg_sys::EXEC_FLAG_EXPLAIN_ONLY == 0
            && !state.is_null()
            && (*state).type_ == pg_sys::NodeTag::T_ModifyTableState
            && !is_single_row((*state).lefttree)
    }
}

/// Whether the node returns one row: that of VALUES.
///
/// # Safety
/// A node of a started plan, or NULL.
unsafe fn is_single_row(child: *mut pg_sys::PlanState) -> bool {
    // SAFETY: as for this function.
    unsafe {
        child.is_null()
            || ((*child).type_ == pg_sys::NodeTag::T_ResultState && (*child).lefttree.is_null())
    }
}

/// Has the rows of the query taken, if it is plain.
///
/// # Safety
/// [`is_candidate`] is true of the query, which has not run yet.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn prepare(query: *mut pg_sys::QueryDesc) {
    // SAFETY: as for this function. What is made lives in the query's memory, as its nodes do.
    unsafe {
        let modify = (*query).planstate.cast::<pg_sys::ModifyTableState>();
        let Some(load) = LOAD.get() else {
            return;
        };
        let Some(plain) = statement::plain(modify, *load) else {
            return;
        };
        let child = plain.child;
        let memory = (*(*query).estate).es_query_cxt;
        let old = pg_sys::MemoryContextSwitchTo(memory);
        let kept = PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(plain);
        pg_sys::MemoryContextSwitchTo(old);
        STARTED.with_borrow_mut(|started| started.push((child as usize, kept)));
        (*child).ExecProcNodeReal = Some(next_row::next_row);
    }
}

/// The statement whose child this is; NULL if there is none.
fn started_with(child: *mut pg_sys::PlanState) -> *mut PlainInsert {
    STARTED.with_borrow(|started| {
        let mut latest = started.iter().rev();
        let found = latest.find(|(known, _)| *known == child as usize);
        found.map_or(std::ptr::null_mut(), |&(_, plain)| plain)
    })
}
