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

mod changes;
mod entry_deletion;
mod fetches;
mod rewrite;
pub mod scans;
mod sizes;

use std::ptr;

use pgrx::{pg_guard, pg_sys};

pub use changes::{RowChanges, set_changes};
pub use entry_deletion::{DeleteEntries, set_delete_entries};
pub use fetches::{RowFetches, set_fetches};
pub use rewrite::{RewriteCounts, RewriteRequest, RewriteTable, set_rewrite};
pub use sizes::{EstimateSizes, Sizes, Widths, heap_sizes, rows_per_page, set_sizes};

use crate::heap_am;
use crate::table::Table;
use crate::table_vacuum::TableVacuum;

/// The callbacks of an access method. Their fields are set by the functions of this module.
pub type Routine = pg_sys::TableAmRoutine;

/// A copy of heap's callbacks, to be changed by the functions of this module.
pub fn routine_of_heap() -> Routine {
    *heap_am::routine()
}

/// The routine of an access method, as the process keeps it.
pub struct SharedRoutine(Routine);

// SAFETY: function pointers only; never written after it was made.
unsafe impl Send for SharedRoutine {}
// SAFETY: shared references only read it: it is never written after it was made.
unsafe impl Sync for SharedRoutine {}

impl SharedRoutine {
    pub fn new(routine: Routine) -> SharedRoutine {
        SharedRoutine(routine)
    }

    /// For the function that PostgreSQL calls to learn the routine.
    pub fn datum(&'static self) -> pg_sys::Datum {
        pg_sys::Datum::from(ptr::from_ref(&self.0).cast_mut())
    }

    /// Whether a relation is of this access method.
    #[inline]
    pub fn is_of(&self, table: Table<'_>) -> bool {
        ptr::eq(table.routine(), &self.0)
    }
}

/// Defines the function of `LANGUAGE C` that returns the routine of an access method: `$routine`
/// returns a `&'static` [`SharedRoutine`].
#[macro_export]
macro_rules! table_am_handler {
    ($name:ident, $finfo:ident, $routine:path) => {
        #[unsafe(no_mangle)]
        extern "C" fn $finfo() -> *const $crate::procedure::Info {
            &$crate::procedure::VERSION_1
        }

        #[pgrx::pg_guard]
        #[unsafe(no_mangle)]
        extern "C-unwind" fn $name(_info: $crate::procedure::RawCall) -> $crate::Datum {
            $routine().datum()
        }
    };
}

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
    // SAFETY: the table is open.
    unsafe { (heap_am::callbacks().relation_nontransactional_truncate)(table.raw()) }
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
