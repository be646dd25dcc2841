//! One run of VACUUM over a table, as its callback gets it: heap's part, the bulk deletion of index
//! entries, and the statistics in `pg_class`.
//!
//! ```text
//!   callback ──> TableVacuum ──┬── heap, heap_apart    heap's VACUUM
//!                              ├── delete_entries      of one index
//!                              └── add_to_rows         what heap has counted without cold rows
//! ```
//!
//! Locks: VACUUM holds ShareUpdateExclusiveLock on the table; indexes are locked with
//! RowExclusiveLock here, to the end of the transaction.

use std::ffi::c_void;
use std::marker::PhantomData;

use pgrx::pg_sys;

use crate::heap_am;
use crate::table::Table;
use crate::tid::RowNumber;
use crate::xid::Xid;

/// Whether VACUUM was asked to remove index entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexCleanup {
    /// Where it is worth the time.
    Auto,
    On,
    /// Not at all, by its option or because transaction ids are running out.
    Off,
}

/// A run of VACUUM over a table, which holds the table open and locked.
#[derive(Clone, Copy)]
pub struct TableVacuum<'a> {
    table: Table<'a>,
    parameters: *mut pg_sys::VacuumParams,
    strategy: pg_sys::BufferAccessStrategy,
    lives: PhantomData<&'a ()>,
}

impl<'a> TableVacuum<'a> {
    /// # Safety
    /// The arguments are those of the callback, which outlives the result.
    pub unsafe fn of(
        table: pg_sys::Relation,
        parameters: *mut pg_sys::VacuumParams,
        strategy: pg_sys::BufferAccessStrategy,
    ) -> TableVacuum<'a> {
        TableVacuum {
            // SAFETY: as for this function.
            table: unsafe { Table::from_raw(table) },
            parameters,
            strategy,
            lives: PhantomData,
        }
    }

    /// The table.
    pub fn table(self) -> Table<'a> {
        self.table
    }

    /// Whether it tells what it does.
    pub fn is_verbose(self) -> bool {
        // SAFETY: the parameters live as long as the callback.
        unsafe { (*self.parameters).options & pg_sys::VACOPT_VERBOSE != 0 }
    }

    /// Whether index entries are removed.
    pub fn index_cleanup(self) -> IndexCleanup {
        use pg_sys::VacOptValue::{VACOPTVALUE_DISABLED, VACOPTVALUE_ENABLED};
        // SAFETY: the parameters live as long as the callback; the other is a plain global.
        let (wish, fails) = unsafe {
            (
                (*self.parameters).index_cleanup,
                pg_sys::VacuumFailsafeActive,
            )
        };
        match wish {
            _ if fails => IndexCleanup::Off,
            VACOPTVALUE_DISABLED => IndexCleanup::Off,
            VACOPTVALUE_ENABLED => IndexCleanup::On,
            _ => IndexCleanup::Auto,
        }
    }

    /// Heap's VACUUM as it is. Not guarded, so that an ERROR keeps the error context that VACUUM
    /// gives it.
    pub fn heap(self) {
        // SAFETY: the arguments are those of the callback. This frame owns nothing.
        unsafe {
            let vacuum = heap_am::callbacks().relation_vacuum;
            vacuum(self.table.raw(), self.parameters, self.strategy);
        }
    }

    /// Heap's VACUUM of the hot rows of a table that has so many cold ones: these are not counted
    /// as hot ones in its statistics, and the last page is not truncated.
    pub fn heap_apart(self, cold_rows: u64) {
        let table = self.table.raw();
        // SAFETY: the table is open and locked; `rd_rel` is the relcache entry's own copy,
        // refreshed by the update of pg_class that ends heap's VACUUM.
        unsafe {
            let mut parameters = *self.parameters;
            if self.table.main_fork_blocks() <= 1 && cold_rows > 0 {
                parameters.truncate = pg_sys::VacOptValue::VACOPTVALUE_DISABLED;
            }
            let known = (*(*table).rd_rel).reltuples;
            let of_hot = match known > 0.0 {
                // Heap scales the old count to the pages that it skips, so the count must be that
                // of hot rows.
                true => (known - cold_rows as f32).max(0.0),
                false => known,
            };
            (*(*table).rd_rel).reltuples = of_hot;
            // An ERROR unwinds as a panic.
            let _known_again = KnownAgain {
                table,
                known,
                of_hot,
            };
            pg_sys::heap_vacuum_rel(table, &mut parameters, self.strategy);
        }
    }

    /// Removes the entries of an index for which `is_dead` holds; the table has so many cold rows.
    /// Returns how many were removed.
    pub fn delete_entries<F: Fn(RowNumber) -> bool>(
        self,
        index: Table<'_>,
        cold_rows: u64,
        is_dead: &F,
    ) -> f64 {
        let table = self.table.raw();
        // SAFETY: table and index are open and locked; `is_dead` outlives both calls, and is passed
        // to the callback of its own type.
        unsafe {
            let mut info = pg_sys::IndexVacuumInfo {
                index: index.raw(),
                heaprel: table,
                analyze_only: false,
                report_progress: false,
                // An exact count would make index AMs clamp theirs to that of the hot side.
                estimated_count: true,
                message_level: match self.is_verbose() {
                    true => pg_sys::INFO,
                    false => pg_sys::DEBUG2,
                } as i32,
                num_heap_tuples: f64::from((*(*table).rd_rel).reltuples) + cold_rows as f64,
                strategy: self.strategy,
            };
            let state = std::ptr::from_ref(is_dead).cast_mut().cast();
            let none = std::ptr::null_mut();
            let stats = pg_sys::index_bulk_delete(&mut info, none, Some(is_entry_dead::<F>), state);
            let stats = pg_sys::index_vacuum_cleanup(&mut info, stats);
            if stats.is_null() {
                return 0.0;
            }
            if !(*stats).estimated_count {
                let (pages, entries) = ((*stats).num_pages, (*stats).num_index_tuples);
                set_index_statistics(index, pages, entries);
            }
            (*stats).tuples_removed
        }
    }

    /// Adds cold rows to the count of the table's rows that heap's VACUUM has written, and to what
    /// autovacuum goes by. Returns the sum.
    pub fn add_to_rows(self, cold_rows: u64) -> f64 {
        let table = self.table.raw();
        // SAFETY: the table is open and locked; in-place updates of pg_class need nothing else.
        unsafe {
            pg_sys::AcceptInvalidationMessages();
            let form = (*table).rd_rel;
            let total = f64::from((*form).reltuples.max(0.0)) + cold_rows as f64;
            pg_sys::vac_update_relstats(
                table,
                self.table.main_fork_blocks(),
                total,
                (*form).relallvisible as pg_sys::BlockNumber,
                (*form).relallfrozen as pg_sys::BlockNumber,
                (*form).relhasindex,
                pg_sys::InvalidTransactionId,
                pg_sys::MultiXactId::from(0),
                std::ptr::null_mut(),
                std::ptr::null_mut(),
                false,
            );
            crate::relation::add_to_reported_live_rows(table, cold_rows);
            total
        }
    }

    /// Shows each index, open and locked. Locks are kept to the end of the transaction.
    pub fn for_each_index(self, mut look: impl FnMut(Table<'_>)) {
        // SAFETY: the table is open; the array is allocated by vac_open_indexes. Indexes are closed
        // again, or by the abort after an ERROR.
        unsafe {
            let (mut count, mut indexes) = (0, std::ptr::null_mut());
            let lock = pg_sys::RowExclusiveLock as i32;
            pg_sys::vac_open_indexes(self.table.raw(), lock, &mut count, &mut indexes);
            for i in 0..count as usize {
                look(Table::from_raw(*indexes.add(i)));
            }
            pg_sys::vac_close_indexes(count, indexes, pg_sys::NoLock as i32);
        }
    }

    /// Logs that snapshots which do not see this transaction as finished still need what is about
    /// to be removed.
    pub fn log_conflict(self, horizon: Xid) {
        // SAFETY: the table is open and locked.
        unsafe { crate::recovery_conflict::log(self.table.raw(), horizon.raw()) }
    }
}

/// Gives a relcache entry its count of rows back where VACUUM does not end, which replaces it.
struct KnownAgain {
    table: pg_sys::Relation,
    known: f32,
    of_hot: f32,
}

impl Drop for KnownAgain {
    fn drop(&mut self) {
        // SAFETY: the table is open, also while an ERROR unwinds.
        unsafe {
            let form = (*self.table).rd_rel;
            if std::thread::panicking() && (*form).reltuples == self.of_hot {
                (*form).reltuples = self.known;
            }
        }
    }
}

/// The number of entries that `pg_class` has for an index or a table.
pub fn counted_rows(relation: Table<'_>) -> f32 {
    // SAFETY: the relation is open.
    unsafe { (*(*relation.raw()).rd_rel).reltuples }
}

/// Whether an index has entries of some rows only.
pub fn is_partial(index: Table<'_>) -> bool {
    // SAFETY: the index is open; the list is a copy of our own.
    unsafe { !pg_sys::RelationGetIndexPredicate(index.raw()).is_null() }
}

/// Sets the counts that `pg_class` has for an index, which is locked.
pub fn set_index_statistics(index: Table<'_>, pages: pg_sys::BlockNumber, rows: f64) {
    // SAFETY: the index is open and locked; in-place updates of pg_class need nothing else.
    unsafe {
        pg_sys::vac_update_relstats(
            index.raw(),
            pages,
            rows,
            0,
            0,
            false,
            pg_sys::InvalidTransactionId,
            pg_sys::MultiXactId::from(0),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            false,
        );
    }
}

/// # Safety
/// Called by the index access method, with what `delete_entries` has passed.
unsafe extern "C-unwind" fn is_entry_dead<F: Fn(RowNumber) -> bool>(
    tid: pg_sys::ItemPointer,
    state: *mut c_void,
) -> bool {
    // SAFETY: as for this function; the TID is valid during the call.
    unsafe { RowNumber::from_tid(&*tid).is_some_and(|row| (*state.cast::<F>())(row)) }
}
