//! The values that an index stores for a row, and the TID under which it stores them.
//!
//! Predicates and expressions are users' code, and so, in effect, is the index AM's check for
//! duplicates: their errors jump over the frames of a build unchanged (see
//! [`howdah_bridge::ffi::unguarded`]). Callers keep what must be dropped in a memory context.

use std::ffi::c_void;

use howdah_bridge::ffi::unguarded;
use howdah_bridge::tid::{block_of, tid_of};
use pgrx::pg_sys;

use crate::store::view::Wanted;

/// `MaxHeapTuplesPerPage`.
const LINE_POINTERS: usize = 291;

/// Evaluates an index's predicate and columns on the rows of one slot.
pub struct IndexEntries {
    info: *mut pg_sys::IndexInfo,
    estate: *mut pg_sys::EState,
    econtext: *mut pg_sys::ExprContext,
    predicate: *mut pg_sys::ExprState,
    pub slot: *mut pg_sys::TupleTableSlot,
    pub values: [pg_sys::Datum; pg_sys::INDEX_MAX_KEYS as usize],
    pub nulls: [bool; pg_sys::INDEX_MAX_KEYS as usize],
}

impl IndexEntries {
    /// # Safety
    /// `table` is open; `info` describes one of its indexes and outlives the result.
    pub unsafe fn new(table: pg_sys::Relation, info: *mut pg_sys::IndexInfo) -> IndexEntries {
        // SAFETY: as for this function; everything made here belongs to the current memory context.
        unsafe {
            let estate = pg_sys::CreateExecutorState();
            let econtext = pg_sys::MakePerTupleExprContext(estate);
            let slot = pg_sys::table_slot_create(table, std::ptr::null_mut());
            (*econtext).ecxt_scantuple = slot;
            IndexEntries {
                info,
                estate,
                econtext,
                predicate: pg_sys::ExecPrepareQual((*info).ii_Predicate, estate),
                slot,
                values: [pg_sys::Datum::from(0); pg_sys::INDEX_MAX_KEYS as usize],
                nulls: [true; pg_sys::INDEX_MAX_KEYS as usize],
            }
        }
    }

    /// Fills `values` and `nulls` from the row in the slot; `false` if the index's predicate
    /// excludes the row. They are valid until the next call.
    ///
    /// # Safety
    /// The slot holds a row.
    pub unsafe fn form(&mut self) -> bool {
        // SAFETY: everything was made by `new`.
        unsafe {
            pg_sys::MemoryContextReset((*self.econtext).ecxt_per_tuple_memory);
            if !self.predicate.is_null() && !self.satisfies_predicate() {
                return false;
            }
            unguarded::FormIndexDatum(
                self.info,
                self.slot,
                self.estate,
                self.values.as_mut_ptr(),
                self.nulls.as_mut_ptr(),
            );
            true
        }
    }

    /// Mirrors `ExecQual`.
    ///
    /// # Safety
    /// The slot holds a row of the table.
    unsafe fn satisfies_predicate(&self) -> bool {
        // SAFETY: the state was prepared by `new`; ExecPrepareQual sets its function.
        unsafe {
            let mut is_null = false;
            let old = pg_sys::MemoryContextSwitchTo((*self.econtext).ecxt_per_tuple_memory);
            let evaluate = (*self.predicate).evalfunc.unwrap_unchecked();
            let result = evaluate(self.predicate, self.econtext, &mut is_null);
            pg_sys::MemoryContextSwitchTo(old);
            result.value() != 0
        }
    }

    /// Frees slot and executor state.
    ///
    /// # Safety
    /// Call once, after the last use of values.
    pub unsafe fn end(self) {
        // SAFETY: made by `new`. The index info must not point into the freed state.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            pg_sys::FreeExecutorState(self.estate);
            (*self.info).ii_ExpressionsState = std::ptr::null_mut();
            (*self.info).ii_PredicateState = std::ptr::null_mut();
        }
    }
}

/// The attributes that an index's columns, expressions and predicate read.
///
/// # Safety
/// `info` describes an index of a table with `attribute_count` attributes.
pub unsafe fn attributes_read(info: *mut pg_sys::IndexInfo, attribute_count: usize) -> Wanted {
    // SAFETY: the lists belong to `info`; pull_varattnos only reads them.
    unsafe {
        let mut flags = vec![false; attribute_count];
        for i in 0..(*info).ii_NumIndexAttrs as usize {
            let attno = (*info).ii_IndexAttrNumbers[i];
            if attno > 0 {
                flags[attno as usize - 1] = true;
            }
        }
        let mut read: *mut pg_sys::Bitmapset = std::ptr::null_mut();
        pg_sys::pull_varattnos((*info).ii_Expressions.cast(), 1, &mut read);
        pg_sys::pull_varattnos((*info).ii_Predicate.cast(), 1, &mut read);
        let reads = |attno: i32| {
            pg_sys::bms_is_member(attno - pg_sys::FirstLowInvalidHeapAttributeNumber, read)
        };
        if reads(0) {
            return Wanted::All;
        }
        for (i, flag) in flags.iter_mut().enumerate() {
            *flag |= reads(i as i32 + 1);
        }
        Wanted::Some(flags.into())
    }
}

/// Whether the index is of a kind that cannot hold cold TIDs.
///
/// # Safety
/// `index` is an open index.
pub unsafe fn is_hot_only(index: pg_sys::Relation) -> bool {
    // SAFETY: the caller holds the index open.
    unsafe { (*(*index).rd_rel).relam == pg_sys::BRIN_AM_OID }
}

/// The roots of the HOT chains of the page that a heap scan stands on.
pub struct ChainRoots {
    block: pg_sys::BlockNumber,
    offsets: [pg_sys::OffsetNumber; LINE_POINTERS],
}

impl ChainRoots {
    pub fn new() -> ChainRoots {
        ChainRoots {
            block: pg_sys::InvalidBlockNumber,
            offsets: [0; LINE_POINTERS],
        }
    }

    /// Reads the roots if the scan has entered a new page; returns whether it has.
    ///
    /// # Safety
    /// `scan` stands on a tuple and holds the pin of its page.
    pub unsafe fn enter_page(&mut self, scan: pg_sys::HeapScanDesc) -> bool {
        // SAFETY: the scan's pin keeps the page; no pruning happens under it.
        unsafe {
            if (*scan).rs_cblock == self.block {
                return false;
            }
            self.read(scan);
            self.block = (*scan).rs_cblock;
            true
        }
    }

    /// # Safety
    /// The scan is open and on a page, which is pinned.
    unsafe fn read(&mut self, scan: pg_sys::HeapScanDesc) {
        // SAFETY: as for `enter_page`.
        unsafe {
            let buffer = (*scan).rs_cbuf;
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            pg_sys::heap_get_root_tuples(pg_sys::BufferGetPage(buffer), self.offsets.as_mut_ptr());
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
        }
    }

    /// The TID under which an index has the scan's current tuple: that of its chain's root.
    ///
    /// # Safety
    /// As for [`ChainRoots::enter_page`], which was called for this page.
    pub unsafe fn root_of(
        &mut self,
        scan: pg_sys::HeapScanDesc,
        tuple: &pg_sys::HeapTupleData,
    ) -> pg_sys::ItemPointerData {
        // SAFETY: the tuple lies on the pinned page.
        unsafe {
            let heap_only = pg_sys::HEAP_ONLY_TUPLE as u16;
            if (*tuple.t_data).t_infomask2 & heap_only == 0 {
                return tuple.t_self;
            }
            let at = usize::from(tuple.t_self.ip_posid) - 1;
            if self.offsets[at] == 0 {
                // A chain that grew after the page was entered.
                self.read(scan);
            }
            let block = block_of(&tuple.t_self);
            if self.offsets[at] == 0 {
                let table = howdah_bridge::relation::name_of((*scan).rs_base.rs_rd);
                pgrx::ereport!(
                    pgrx::PgLogLevel::ERROR,
                    pgrx::PgSqlErrorCode::ERRCODE_DATA_CORRUPTED,
                    format!(
                        "failed to find parent tuple for heap-only tuple at ({block},{}) in table \"{table}\"",
                        tuple.t_self.ip_posid
                    )
                );
            }
            tid_of(block, self.offsets[at])
        }
    }
}

/// An index AM's callback of a build.
#[derive(Clone, Copy)]
pub struct BuildCallback {
    pub function: pg_sys::IndexBuildCallback,
    pub state: *mut c_void,
}

impl BuildCallback {
    /// # Safety
    /// The callback is the index AM's; `entries` were just formed.
    pub unsafe fn call(
        &self,
        index: pg_sys::Relation,
        mut tid: pg_sys::ItemPointerData,
        entries: &mut IndexEntries,
        alive: bool,
    ) {
        // SAFETY: as for this function; an index AM always passes a callback.
        unsafe {
            (self.function.unwrap_unchecked())(
                index,
                &mut tid,
                entries.values.as_mut_ptr(),
                entries.nulls.as_mut_ptr(),
                alive,
                self.state,
            );
        }
    }
}
