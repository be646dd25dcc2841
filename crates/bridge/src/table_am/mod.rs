//! Callbacks of a table access method, as traits over borrowed values.
//!
//! ```text
//!   PostgreSQL ── raw pointers ──▶ callback, here ── Table, Tid, … ──▶ the trait's function
//! ```
//!
//! A callback converts its arguments once and calls the trait's function, which is safe code. Each
//! trait has a function that sets its callback in a [`Routine`]; the traits of callbacks that need
//! more than a few lines have files of their own.
//!
//! Callbacks are guarded: a panic becomes an ERROR. Heap's own callbacks are called without a
//! guard of their own ([`crate::heap_am`]).

mod entry_deletion;
mod rewrite;
mod sizes;

use pgrx::{pg_guard, pg_sys};

pub use entry_deletion::{DeleteEntries, set_delete_entries};
pub use rewrite::{RewriteCounts, RewriteRequest, RewriteTable, set_rewrite};
pub use sizes::{EstimateSizes, Sizes, Widths, heap_sizes, rows_per_page, set_sizes};

use crate::heap_am;
use crate::table::Table;
use crate::table_vacuum::TableVacuum;

/// The callbacks of an access method. Their fields are set by the functions of this module.
pub type Routine = pg_sys::TableAmRoutine;

/// TRUNCATE of files that no other transaction can see.
pub trait TruncateInPlace {
    /// The table is locked exclusively. Its TOAST relation is emptied by the server afterwards,
    /// under the same lock.
    fn truncate(table: Table<'_>);
}

/// Has tables truncated in place by `T`.
pub fn set_truncate<T: TruncateInPlace>(routine: &mut Routine) {
    routine.relation_nontransactional_truncate = Some(truncate::<T>);
}

#[pg_guard]
unsafe extern "C-unwind" fn truncate<T: TruncateInPlace>(rel: pg_sys::Relation) {
    // SAFETY: the server holds the relation open, with AccessExclusiveLock, during the call.
    T::truncate(unsafe { Table::from_raw(rel) });
}

/// Empties a table's heap in place, as heap's own callback does. The table is locked exclusively.
pub fn truncate_heap(table: Table<'_>) {
    // SAFETY: heap has this callback; the table is open.
    unsafe {
        let truncate = heap_am::routine()
            .relation_nontransactional_truncate
            .unwrap_unchecked();
        truncate(table.raw());
    }
}

/// Empties a relation and its indexes in place: `heap_truncate_one_rel`. It is locked exclusively.
pub fn truncate_with_indexes(table: Table<'_>) {
    // SAFETY: the relation is open and locked.
    unsafe { pg_sys::heap_truncate_one_rel(table.raw()) }
}

/// VACUUM of one table.
pub trait Vacuum {
    fn vacuum(run: TableVacuum<'_>);
}

/// Has tables vacuumed by `V`.
pub fn set_vacuum<V: Vacuum>(routine: &mut Routine) {
    routine.relation_vacuum = Some(vacuum::<V>);
}

#[pg_guard]
unsafe extern "C-unwind" fn vacuum<V: Vacuum>(
    table: pg_sys::Relation,
    parameters: *mut pg_sys::VacuumParams,
    strategy: pg_sys::BufferAccessStrategy,
) {
    // SAFETY: VACUUM holds the table open and locked, and its parameters valid, during the call.
    V::vacuum(unsafe { TableVacuum::of(table, parameters, strategy) });
}

/// Gives every table a TOAST relation, which is a heap.
pub fn set_toast_of_heap(routine: &mut Routine) {
    routine.relation_needs_toast_table = Some(needs_toast_table);
    routine.relation_toast_am = Some(toast_am);
}

#[pg_guard]
unsafe extern "C-unwind" fn needs_toast_table(_rel: pg_sys::Relation) -> bool {
    true
}

#[pg_guard]
unsafe extern "C-unwind" fn toast_am(_rel: pg_sys::Relation) -> pg_sys::Oid {
    pg_sys::HEAP_TABLE_AM_OID
}
