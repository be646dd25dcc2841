//! Which columns of a row a check for conflicts reads.
//!
//! `INSERT … ON CONFLICT` looks each new row's keys up in the indexes that may conflict, and reads
//! of a row that it finds there only what the index is made of. The slot is one of its own, made
//! for each check, so that it cannot be told from another one. What tells such a check from other
//! readers under a dirty snapshot is that the statement is running: it has started, its memory was
//! not freed, and no other statement has started since. After a trigger's own statements the
//! checks read whole rows again.
//!
//! Checks that an index makes under the lock of its page read no column at all.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pgrx::pg_sys;

use super::{Columns, columns_where};
use crate::Oid;
use crate::process::is_uninterruptible;
use crate::table::{IndexedColumns, Table};

thread_local! {
    /// The statement that started last, if it looks for conflicts; else 0.
    static RUNNING: Cell<usize> = const { Cell::new(0) };
    /// The columns that its checks of a table read.
    static LAST: RefCell<Option<(usize, Oid, Columns)>> = const { RefCell::new(None) };
}

/// A statement starts: those before it do not run until it ends.
pub(super) fn start() {
    RUNNING.set(0);
}

/// The statement of this number has started, looks for conflicts, and is about to run.
pub(super) fn run(statement: usize) {
    RUNNING.set(statement);
}

/// The memory of the statement of this number is freed.
pub(super) fn end(statement: usize) {
    // A process that is exiting may have destroyed what is remembered.
    let _ = RUNNING.try_with(|running| {
        if running.get() == statement {
            running.set(0);
        }
    });
}

/// Whether the started query is an INSERT that looks for conflicts.
///
/// # Safety
/// A started query.
pub(super) unsafe fn are_made_by(query: *mut pg_sys::QueryDesc) -> bool {
    // SAFETY: as for this function; a node's tag tells its type.
    unsafe {
        let plan = (*(*query).plannedstmt).planTree;
        !plan.is_null()
            && (*plan).type_ == pg_sys::NodeTag::T_ModifyTable
            && (*plan.cast::<pg_sys::ModifyTable>()).onConflictAction
                != pg_sys::OnConflictAction::ONCONFLICT_NONE
    }
}

/// The columns that are read of a row of the table that was found under a dirty snapshot; `None` if
/// all may be.
pub fn of_check(table: Table<'_>) -> Option<Columns> {
    if is_uninterruptible() {
        return Some(columns_where(table.descriptor().attribute_count(), |_| {
            false
        }));
    }
    let statement = RUNNING.get();
    if statement == 0 {
        return None;
    }
    LAST.with_borrow_mut(|last| match last {
        Some((running, oid, columns)) if (*running, *oid) == (statement, table.oid()) => {
            Some(Rc::clone(columns))
        }
        _ => {
            let columns = of_indexes(table)?;
            *last = Some((statement, table.oid(), Rc::clone(&columns)));
            Some(columns)
        }
    })
}

/// The columns of all indexes that may be unique, or exclude rows; `None` if one of them reads
/// whole rows.
fn of_indexes(table: Table<'_>) -> Option<Columns> {
    let numbers = table.indexed_columns(IndexedColumns::HotBlocking);
    let count = table.descriptor().attribute_count();
    let is_indexed = |column: usize| numbers.contains(&(column as i32 + 1));
    (!numbers.contains(&0)).then(|| columns_where(count, is_indexed))
}
