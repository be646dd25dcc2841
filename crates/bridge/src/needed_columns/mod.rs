//! Which columns of a row a scan must return.
//!
//! An access method gets a slot to fill, but is not told which of its columns are read. Heap does
//! not need to know, since it returns whole tuples; a cold row is put together column by column.
//! When the executor has started a query, the plan is walked once. Each index scan and bitmap scan
//! of a howdah table is assigned the set of columns that it or its parents read, under the slot
//! that the scan fills:
//!
//! ```text
//!   ExecutorStart ──> plan: columns that each scan's output, quals and rechecks read
//!                       └──> registry: slot ──> columns        (only if some column is not read)
//!   index_fetch_tuple(slot), scan_bitmap_next_tuple(slot) ──> of_slot(slot)
//!   tuple_lock(slot) ──> of_locked(slot)  (row_marks: slots of LockRows, made while it runs)
//!   index_fetch_tuple under a dirty snapshot ──> of_check(table)  (checks: slots of their own)
//! ```
//!
//! So plans keep PostgreSQL's own index, index-only and bitmap scans, with their orders, keys,
//! marks and parallel workers; an index-only scan reads no column of a row whose visibility it
//! checks, whose slot need not even be filled (docs/decisions/0022).
//!
//! Invariants
//! - A slot that is not registered needs every column. Slots other than a scan's own (those of
//!   EvalPlanQual, of triggers, of row locks, of constraint checks) are never registered; those of
//!   row locks are told by the node that has them, checks by the statement that makes them.
//! - A registration ends with the memory context of its query, in which the slot lives: the
//!   context's reset callback removes it, after an ERROR as well. So a slot at an address that is
//!   used again never inherits columns.
//! - A column that is left out is NULL in the slot's tuple; no expression of the plan reads it.
//! - Conditions of a bitmap are checked again only for the rows of which the bitmap says so: those
//!   of blocks of which it has forgotten the rows, and of indexes that are inexact.

mod checks;
mod plan;
mod row_marks;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::c_void;
use std::rc::Rc;

use pgrx::{pg_guard, pg_sys};
use rustc_hash::FxHashMap;

pub use checks::of_check;
use row_marks::RowMark;

use crate::ffi::unguarded;
use crate::late_slot::{self, LateScan};
use crate::memory::allocate_in;
use crate::slot::Slot;
use crate::table::Table;

/// One flag per attribute of the table: whether anything reads it. No flag at all: the scan only
/// learns whether rows are visible, and clears the slot without a look at it.
pub type Columns = Rc<[bool]>;

struct Registration {
    query: usize,
    columns: Columns,
    rechecked: Columns,
    /// Set if rows may be put together when they are read.
    late: Option<LateScan>,
}

/// Sets of columns that are kept for the next statements.
const MOST_KNOWN: usize = 8;

thread_local! {
    static SLOTS: RefCell<FxHashMap<usize, Registration>> = RefCell::default();
    /// Row marks and the numbers of their queries, the last ones last.
    static MARKS: RefCell<Vec<(usize, RowMark)>> = const { RefCell::new(Vec::new()) };
    static LAST_QUERY: Cell<usize> = const { Cell::new(0) };
    /// The sets that statements asked for lately: they mostly ask for the same ones again.
    static KNOWN: RefCell<VecDeque<Columns>> = const { RefCell::new(VecDeque::new()) };
    /// Memory for the scans of the next statement.
    static SCANS: Cell<Vec<plan::Scan>> = const { Cell::new(Vec::new()) };
}

/// The set of those among so many columns that are read, allocated only if it is not known.
fn columns_where(count: usize, is_read: impl Fn(usize) -> bool) -> Columns {
    KNOWN.with_borrow_mut(|known| {
        let is_same = |columns: &&Columns| {
            let mut all = columns.iter().enumerate();
            columns.len() == count && all.all(|(column, &read)| read == is_read(column))
        };
        if let Some(same) = known.iter().find(is_same) {
            return Rc::clone(same);
        }
        let columns: Columns = (0..count).map(is_read).collect();
        known.truncate(MOST_KNOWN - 1);
        known.push_front(Rc::clone(&columns));
        columns
    })
}

static mut PREVIOUS_HOOK: pg_sys::ExecutorStart_hook_type = None;
static mut IS_OURS: Option<fn(Table<'_>) -> bool> = None;

/// Installs the executor's hook, in front of the one before. `is_ours` tells whether a table's rows
/// are put together column by column.
///
/// # Safety
/// Called once, while the library is loaded.
pub unsafe fn install(is_ours: fn(Table<'_>) -> bool) {
    // SAFETY: nothing else runs in the process yet.
    unsafe {
        IS_OURS = Some(is_ours);
        PREVIOUS_HOOK = pg_sys::ExecutorStart_hook;
        pg_sys::ExecutorStart_hook = Some(executor_start);
    }
}

/// What is known of the rows in a slot.
pub struct Reading {
    pub columns: Columns,
    /// Set if a row may be put together when it is read.
    pub late: Option<LateScan>,
}

/// The columns that are read of the rows in a slot, whose conditions are checked again or not;
/// `None` if all may be.
#[inline]
pub fn of_slot(slot: Slot<'_>, is_rechecked: bool) -> Option<Reading> {
    SLOTS.with_borrow(|slots| {
        let registration = slots.get(&slot.address())?;
        Some(Reading {
            columns: Rc::clone(match is_rechecked {
                true => &registration.rechecked,
                false => &registration.columns,
            }),
            late: registration.late,
        })
    })
}

/// The columns that are read of a row that is locked and stored in the slot; `None` if all may be.
pub fn of_locked(slot: Slot<'_>) -> Option<Columns> {
    MARKS.with_borrow(|marks| {
        // SAFETY: row marks are forgotten when the memory of their query is freed.
        let keeps = |(_, mark): &&(usize, RowMark)| unsafe { mark.keeps(slot.raw()) };
        let (_, mark) = marks.iter().rev().find(keeps)?;
        Some(Rc::clone(&mark.columns))
    })
}

/// Not guarded, see [`unguarded`].
///
/// # Safety
/// Called by the executor, with a query that was not started.
unsafe extern "C-unwind" fn executor_start(query: *mut pg_sys::QueryDesc, flags: i32) {
    checks::start();
    // SAFETY: arguments are passed on unchanged, to exactly one successor; this frame owns nothing.
    unsafe {
        match PREVIOUS_HOOK {
            Some(previous) => previous(query, flags),
            None => unguarded::standard_ExecutorStart(query, flags),
        }
        if flags & pg_sys::EXEC_FLAG_EXPLAIN_ONLY as i32 == 0 {
            register(query);
        }
    }
}

/// Whether expressions of the query may be compiled (JIT). It is asked after those of its plan
/// were, if they are: a server without a compiler has found that out then, for the rest of the
/// session.
///
/// # Safety
/// The state of a started query.
unsafe fn may_be_compiled(estate: *mut pg_sys::EState) -> bool {
    // SAFETY: as for this function; the function of SQL takes no arguments, and reads none.
    unsafe {
        (*estate).es_jit_flags != 0
            && (!pg_sys::jit_enabled || pg_sys::pg_jit_available(std::ptr::null_mut()).value() != 0)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn register(query: *mut pg_sys::QueryDesc) {
    // SAFETY: the executor has started the query: its plan state and its memory context exist.
    unsafe {
        let Some(is_ours) = IS_OURS else {
            return;
        };
        let mut found = plan::Scans::new((*query).plannedstmt, is_ours, SCANS.take());
        found.may_be_late =
            !may_be_compiled((*query).estate) && (*(*query).plannedstmt).rowMarks.is_null();
        found.visit((*query).planstate, &plan::Outputs::All);
        let (mut scans, mut marks) = (found.scans, found.marks.finish().peekable());
        let makes_checks = checks::are_made_by(query);
        if scans.is_empty() && marks.peek().is_none() && !makes_checks {
            SCANS.set(scans);
            return;
        }
        let number = LAST_QUERY.get() + 1;
        LAST_QUERY.set(number);
        let context = (*(*query).estate).es_query_cxt;
        let callback = allocate_in(context, size_of::<pg_sys::MemoryContextCallback>())
            .cast::<pg_sys::MemoryContextCallback>();
        (*callback).func = Some(forget);
        (*callback).arg = number as *mut c_void;
        (*callback).next = std::ptr::null_mut();
        pg_sys::MemoryContextRegisterResetCallback(context, callback);
        SLOTS.with_borrow_mut(|slots| {
            for scan in scans.drain(..) {
                let slot = scan.slot as usize;
                // The slot is that of the scan, until its query's memory is freed.
                let late = || LateScan::of(slot, scan.node, scan.wants);
                let registration = Registration {
                    query: number,
                    columns: scan.columns,
                    rechecked: scan.rechecked,
                    late: scan.may_be_late.then(late),
                };
                slots.insert(slot, registration);
            }
        });
        SCANS.set(scans);
        MARKS.with_borrow_mut(|all| all.extend(marks.map(|mark| (number, mark))));
        if makes_checks {
            checks::run(number);
        }
    }
}

/// Called when the query's memory is freed, and its slots with it. Raises no ERROR.
///
/// # Safety
/// `query` is the key under which this callback was registered; it is not dereferenced.
unsafe extern "C-unwind" fn forget(query: *mut c_void) {
    let query = query as usize;
    checks::end(query);
    // A process that is exiting may have destroyed the registries already.
    let _ = MARKS.try_with(|marks| {
        if let Ok(mut marks) = marks.try_borrow_mut() {
            marks.retain(|(number, _)| *number != query);
        }
    });
    let _ = SLOTS.try_with(|slots| {
        if let Ok(mut slots) = slots.try_borrow_mut() {
            slots.retain(|&slot, registration| {
                if registration.query == query && registration.late.is_some() {
                    late_slot::forget(slot);
                }
                registration.query != query
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_columns_is_allocated_once_and_no_more_than_some_are_kept() {
        let first = columns_where(4, |column| column == 2);
        assert_eq!(*first, [false, false, true, false]);
        assert!(Rc::ptr_eq(&first, &columns_where(4, |column| column == 2)));
        for other in [
            columns_where(5, |column| column == 2),
            columns_where(4, |column| column == 1),
            columns_where(4, |_| false),
            columns_where(0, |_| true),
        ] {
            assert_ne!(*other, *first);
        }
        (0..MOST_KNOWN).for_each(|nth| {
            columns_where(100, |column| column == nth);
        });
        assert_eq!(KNOWN.with_borrow(VecDeque::len), MOST_KNOWN);
        assert!(!Rc::ptr_eq(&first, &columns_where(4, |column| column == 2)));
    }
}
