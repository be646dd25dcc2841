//! The values that an index stores for a row.

use std::marker::PhantomData;

use pgrx::pg_sys;

use crate::ffi::unguarded;
use crate::row_expr::evaluator;
use crate::slot::Slot;
use crate::table::Table;

/// What PostgreSQL knows of an index that is being built.
#[derive(Clone, Copy)]
pub struct IndexInfo<'a> {
    raw: *mut pg_sys::IndexInfo,
    lives: PhantomData<&'a ()>,
}

impl<'a> IndexInfo<'a> {
    /// # Safety
    /// `raw` describes an index, is valid for `'a`, and is written to by nothing else meanwhile.
    pub(super) unsafe fn from_raw(raw: *mut pg_sys::IndexInfo) -> IndexInfo<'a> {
        IndexInfo {
            raw,
            lives: PhantomData,
        }
    }

    /// The server's pointer, valid for `'a`.
    pub(super) fn raw(self) -> *mut pg_sys::IndexInfo {
        self.raw
    }

    /// Whether it is built while the table is written to.
    pub fn is_concurrent(self) -> bool {
        // SAFETY: valid by the contract of `from_raw`.
        unsafe { (*self.raw).ii_Concurrent }
    }

    /// Whether its keys are unique.
    pub fn is_unique(self) -> bool {
        // SAFETY: valid by the contract of `from_raw`.
        unsafe { (*self.raw).ii_Unique }
    }

    /// Whether the build must find out which of several equal rows are there.
    pub fn checks_uniqueness(self) -> bool {
        // SAFETY: valid by the contract of `from_raw`.
        unsafe { (*self.raw).ii_Unique || !(*self.raw).ii_ExclusionOps.is_null() }
    }

    /// Notes that old snapshots must not use the index: it lacks members of their HOT chains.
    pub(super) fn note_broken_chain(self) {
        // SAFETY: valid by the contract of `from_raw`.
        unsafe { (*self.raw).ii_BrokenHotChain = true }
    }

    /// For each attribute of a table with so many, whether the index's columns, expressions or
    /// predicate read it; `None` if they read whole rows.
    pub fn attributes_read(self, attribute_count: usize) -> Option<Vec<bool>> {
        let mut flags = vec![false; attribute_count];
        // SAFETY: the lists belong to the info; pull_varattnos only reads them.
        unsafe {
            for i in 0..(*self.raw).ii_NumIndexAttrs as usize {
                let attno = (*self.raw).ii_IndexAttrNumbers[i];
                if attno > 0 {
                    flags[attno as usize - 1] = true;
                }
            }
            let mut read: *mut pg_sys::Bitmapset = std::ptr::null_mut();
            pg_sys::pull_varattnos((*self.raw).ii_Expressions.cast(), 1, &mut read);
            pg_sys::pull_varattnos((*self.raw).ii_Predicate.cast(), 1, &mut read);
            let reads = |attno: i32| {
                pg_sys::bms_is_member(attno - pg_sys::FirstLowInvalidHeapAttributeNumber, read)
            };
            if reads(0) {
                return None;
            }
            for (i, flag) in flags.iter_mut().enumerate() {
                *flag |= reads(i as i32 + 1);
            }
        }
        Some(flags)
    }
}

/// An index and the table whose rows it gets, both open and locked.
pub struct Indexing<'a> {
    pub(super) table: Table<'a>,
    pub(super) index: Table<'a>,
    pub(super) info: IndexInfo<'a>,
    pub(super) entries: IndexEntries<'a>,
}

impl<'a> Indexing<'a> {
    /// What is made here belongs to the current memory context.
    pub(super) fn new(table: Table<'a>, index: Table<'a>, info: IndexInfo<'a>) -> Indexing<'a> {
        Indexing {
            table,
            index,
            info,
            entries: IndexEntries::new(table, info),
        }
    }

    /// The table whose rows are indexed.
    pub fn table(&self) -> Table<'a> {
        self.table
    }

    /// The index.
    pub fn index(&self) -> Table<'a> {
        self.index
    }

    /// What is known of the index.
    pub fn info(&self) -> IndexInfo<'a> {
        self.info
    }

    /// The slot for a row that the index is to get: one of the table's.
    pub fn slot(&self) -> Slot<'a> {
        self.entries.slot()
    }
}

/// Evaluates an index's predicate and columns on the rows of one slot.
pub(super) struct IndexEntries<'a> {
    info: IndexInfo<'a>,
    estate: *mut pg_sys::EState,
    econtext: *mut pg_sys::ExprContext,
    predicate: *mut pg_sys::ExprState,
    slot: *mut pg_sys::TupleTableSlot,
    /// Of the row that was formed last.
    pub values: [pg_sys::Datum; pg_sys::INDEX_MAX_KEYS as usize],
    pub nulls: [bool; pg_sys::INDEX_MAX_KEYS as usize],
}

impl<'a> IndexEntries<'a> {
    /// What is made here belongs to the current memory context.
    pub fn new(table: Table<'a>, info: IndexInfo<'a>) -> IndexEntries<'a> {
        // SAFETY: the table is open, and the info valid, for as long as the result.
        unsafe {
            let estate = pg_sys::CreateExecutorState();
            let econtext = pg_sys::MakePerTupleExprContext(estate);
            let slot = pg_sys::table_slot_create(table.raw(), std::ptr::null_mut());
            (*econtext).ecxt_scantuple = slot;
            IndexEntries {
                info,
                estate,
                econtext,
                predicate: pg_sys::ExecPrepareQual((*info.raw()).ii_Predicate, estate),
                slot,
                values: [pg_sys::Datum::from(0); pg_sys::INDEX_MAX_KEYS as usize],
                nulls: [true; pg_sys::INDEX_MAX_KEYS as usize],
            }
        }
    }

    /// The slot whose row is evaluated: one of the table's.
    pub fn slot(&self) -> Slot<'a> {
        // SAFETY: made by `new`; it lives until `end`, or as long as its memory context.
        unsafe { Slot::from_raw(self.slot) }
    }

    /// Fills `values` and `nulls` from the row in the slot; `false` if the index's predicate
    /// excludes the row. They are valid until the next call.
    pub fn form(&mut self) -> bool {
        // SAFETY: everything was made by `new`; an empty slot has no attribute to read.
        unsafe {
            pg_sys::MemoryContextReset((*self.econtext).ecxt_per_tuple_memory);
            if !self.predicate.is_null() && !self.satisfies_predicate() {
                return false;
            }
            unguarded::FormIndexDatum(
                self.info.raw(),
                self.slot,
                self.estate,
                self.values.as_mut_ptr(),
                self.nulls.as_mut_ptr(),
            );
            true
        }
    }

    /// Mirrors `ExecQual`.
    fn satisfies_predicate(&self) -> bool {
        // SAFETY: the state was prepared by `new`; ExecPrepareQual sets its function.
        unsafe {
            let mut is_null = false;
            let old = pg_sys::MemoryContextSwitchTo((*self.econtext).ecxt_per_tuple_memory);
            let evaluate = evaluator(self.predicate);
            let result = evaluate(self.predicate, self.econtext, &mut is_null);
            pg_sys::MemoryContextSwitchTo(old);
            result.value() != 0
        }
    }

    /// Frees slot and executor state.
    pub fn end(self) {
        // SAFETY: made by `new`, and ended once. The index info must not point into the freed
        // state.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            pg_sys::FreeExecutorState(self.estate);
            (*self.info.raw()).ii_ExpressionsState = std::ptr::null_mut();
            (*self.info.raw()).ii_PredicateState = std::ptr::null_mut();
        }
    }
}
