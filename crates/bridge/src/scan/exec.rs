//! Returns one row after the other.
//!
//! [`exec_custom_scan`] runs once per row, and is written for that: it takes rows from the batch by
//! raw pointers, calls nothing that can panic and holds nothing that has a destructor, so
//! PostgreSQL's errors may jump over it. All other work is behind guarded functions that run once
//! per batch or page.

use pgrx::{pg_guard, pg_sys};

use super::node::{ColumnCopy, ColumnarScanState, Emit, Scan, Side, ask, scan_of};
use super::parallel;
use crate::row_expr::{interrupts, passes, project};
use crate::slot::{Slot, clear, take_attributes};
use crate::tid::RowNumber;

const FORWARD: pg_sys::ScanDirection::Type = pg_sys::ScanDirection::ForwardScanDirection;
const BACKWARD: pg_sys::ScanDirection::Type = pg_sys::ScanDirection::BackwardScanDirection;
const EMPTY: u16 = pg_sys::TTS_FLAG_EMPTY as u16;
const SHOULDFREE: u16 = pg_sys::TTS_FLAG_SHOULDFREE as u16;

/// Returns the next row, or an empty slot.
///
/// # Safety
/// Called by the executor on a node that was begun.
pub(super) unsafe extern "C-unwind" fn exec_custom_scan(
    node: *mut pg_sys::CustomScanState,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: see the module's header. `scan` lives as long as the node; the batch's columns hold
    // `end` rows, and the copies' targets lie inside their slots.
    unsafe {
        let scan: *mut Scan = (*node.cast::<ColumnarScanState>()).scan;
        if !(*(*node).ss.ps.state).es_epq_active.is_null()
            && let Some(result) = recheck_row(node, scan)
        {
            return result;
        }
        if (*(*node).ss.ps.state).es_direction == BACKWARD {
            return preceding(node, scan);
        }
        loop {
            let row = (*scan).at;
            if row < (*scan).end {
                (*scan).at = row + 1;
                if let Some(result) = cold_row(node, scan, row) {
                    return result;
                }
                continue;
            }
            match (*scan).side {
                Side::Hot => match hot_row(node, scan, FORWARD) {
                    Some(result) => return result,
                    None => (*scan).side = Side::Cold,
                },
                Side::Cold => {
                    if !refill(node) {
                        // Moved backwards, the row before is the batch's last.
                        (*scan).at = (*scan).end + 1;
                        (*scan).side = Side::End;
                    }
                }
                Side::Start => start(node),
                Side::End => return nothing(node),
            }
        }
    }
}

/// Returns the row before the one that was returned last, for a cursor that is moved backwards: the
/// rows of the forward scan in reverse. Before the first row, the node stands where it starts.
///
/// # Safety
/// `node` was begun, and `scan` is its state.
unsafe fn preceding(
    node: *mut pg_sys::CustomScanState,
    scan: *mut Scan,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as for this function; see the module's header.
    unsafe {
        loop {
            match (*scan).side {
                Side::Start => return nothing(node),
                // After its end in one direction, heap's scan begins anew in the other.
                Side::Hot => return hot_row(node, scan, BACKWARD).unwrap_or_else(|| nothing(node)),
                Side::Cold | Side::End => {
                    (*scan).side = Side::Cold;
                    if (*scan).at >= 2 {
                        (*scan).at -= 1;
                        if let Some(result) = cold_row(node, scan, (*scan).at - 1) {
                            return result;
                        }
                    } else if refill_from_before(node) {
                        (*scan).at = (*scan).end + 1;
                    } else {
                        ((*scan).at, (*scan).end) = (0, 0);
                        (*scan).side = Side::Hot;
                    }
                }
            }
        }
    }
}

/// Returns a row of the batch, if it passes.
///
/// # Safety
/// `node` was begun, `scan` is its state, and its batch has the row.
#[inline(always)]
unsafe fn cold_row(
    node: *mut pg_sys::CustomScanState,
    scan: *mut Scan,
    row: usize,
) -> Option<*mut pg_sys::TupleTableSlot> {
    // SAFETY: as for this function; the batch's columns hold the row, and the copies' targets lie
    // inside their slots.
    unsafe {
        let slot = (*node).ss.ss_ScanTupleSlot;
        let context = (*node).ss.ps.ps_ExprContext;
        let position = match (*scan).positions.is_null() {
            true => row as u64,
            false => u64::from(*(*scan).positions.add(row)),
        };
        if (*scan).through_scan_slot {
            copy_row(&(*scan).into_scan, row, slot);
        } else {
            // WHERE CURRENT OF looks at its TID, also where the end was passed before.
            (*slot).tts_flags &= !EMPTY;
        }
        (*slot).tts_tid = RowNumber((*scan).first_row + position).tid().raw();
        if (*scan).recheck && !passes((*scan).pushed_qual, context, slot) {
            (*scan).rows_removed += 1;
            interrupts();
            return None;
        }
        if !passes((*node).ss.ps.qual, context, slot) {
            count_removed(node);
            return None;
        }
        Some(match (*scan).emit {
            Emit::Direct => {
                let result = (*node).ss.ps.ps_ResultTupleSlot;
                copy_row(&(*scan).into_result, row, result);
                result
            }
            Emit::Scan => slot,
            Emit::Project => project((*node).ss.ps.ps_ProjInfo, context, slot),
        })
    }
}

/// Returns the next hot row in this direction that passes.
///
/// # Safety
/// `node` was begun, `scan` is its state, and heap's scan has begun.
#[inline(always)]
unsafe fn hot_row(
    node: *mut pg_sys::CustomScanState,
    scan: *mut Scan,
    direction: pg_sys::ScanDirection::Type,
) -> Option<*mut pg_sys::TupleTableSlot> {
    // SAFETY: as for this function.
    unsafe {
        let next = (*scan).heap.scan_getnextslot;
        let hot = (*scan).hot_slot;
        while next((*scan).hot, direction, hot) {
            if !((*scan).follows && hides(node))
                && let Some(result) = accept(node, scan, hot)
            {
                return Some(result);
            }
            interrupts();
        }
        None
    }
}

/// Copies a row of a batch to a slot.
///
/// # Safety
/// `slot` is a virtual slot with a place for each target of `copies`; `row` is a row of the batch
/// that they were made for.
#[inline(always)]
unsafe fn copy_row(copies: &[ColumnCopy], row: usize, slot: *mut pg_sys::TupleTableSlot) {
    // SAFETY: as for the caller. Virtual slots own nothing unless they were materialized.
    unsafe {
        if (*slot).tts_flags & SHOULDFREE != 0 {
            clear(slot);
        }
        let (values, nulls) = ((*slot).tts_values, (*slot).tts_isnull);
        for copy in copies {
            *values.add(copy.to) = *copy.values.add(row);
            *nulls.add(copy.to) = *copy.nulls.add(row);
        }
        (*slot).tts_flags &= !EMPTY;
        (*slot).tts_nvalid = (*(*slot).tts_tupleDescriptor).natts as i16;
    }
}

/// Counts a row that the qual has removed, for EXPLAIN.
///
/// # Safety
/// `node` was begun by the executor, and is not ended yet.
unsafe fn count_removed(node: *mut pg_sys::CustomScanState) {
    // SAFETY: as for the caller.
    unsafe {
        let instrument = (*node).ss.ps.instrument;
        if !instrument.is_null() {
            (*instrument).nfiltered1 += 1.0;
        }
        interrupts();
    }
}

/// Returns a row that is a tuple, if it passes the qual.
///
/// # Safety
/// `node` was begun, `scan` is its state, and `from` holds a row of the relation.
unsafe fn accept(
    node: *mut pg_sys::CustomScanState,
    scan: *mut Scan,
    from: *mut pg_sys::TupleTableSlot,
) -> Option<*mut pg_sys::TupleTableSlot> {
    // SAFETY: `from` holds a row of the relation that stays pinned until it is overwritten.
    unsafe {
        let needed = (*scan).last_attribute;
        if i32::from((*from).tts_nvalid) < needed {
            take_attributes(from, needed);
            if i32::from((*from).tts_nvalid) < needed {
                add_missing(from, needed);
            }
        }
        let slot = (*node).ss.ss_ScanTupleSlot;
        copy_row(&[], 0, slot);
        for &i in &(*scan).attributes.recheck {
            *(*slot).tts_values.add(i) = *(*from).tts_values.add(i);
            *(*slot).tts_isnull.add(i) = *(*from).tts_isnull.add(i);
        }
        (*slot).tts_tid = (*from).tts_tid;
        let context = (*node).ss.ps.ps_ExprContext;
        if !passes((*scan).pushed_qual, context, slot) {
            (*scan).rows_removed += 1;
            return None;
        }
        if !passes((*node).ss.ps.qual, context, slot) {
            count_removed(node);
            return None;
        }
        Some(match (*scan).emit {
            Emit::Scan => slot,
            Emit::Project => project((*node).ss.ps.ps_ProjInfo, context, slot),
            Emit::Direct => {
                let result = (*node).ss.ps.ps_ResultTupleSlot;
                copy_row(&[], 0, result);
                for &(i, place) in &(*scan).direct {
                    *(*result).tts_values.add(place) = *(*slot).tts_values.add(i);
                    *(*result).tts_isnull.add(place) = *(*slot).tts_isnull.add(i);
                }
                result
            }
        })
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn add_missing(slot: *mut pg_sys::TupleTableSlot, needed: i32) {
    // SAFETY: mirrors `slot_getsomeattrs_int`.
    unsafe {
        pg_sys::slot_getmissingattrs(slot, (*slot).tts_nvalid.into(), needed);
        (*slot).tts_nvalid = needed as i16;
    }
}

/// Under EvalPlanQual: the row to be rechecked in place of the scan, as in `ExecScanFetch`. `None`
/// if this relation is scanned as usual.
///
/// # Safety
/// `node` was begun, and `scan` is its state.
unsafe fn recheck_row(
    node: *mut pg_sys::CustomScanState,
    scan: *mut Scan,
) -> Option<*mut pg_sys::TupleTableSlot> {
    // SAFETY: the arrays have an entry per range table index.
    unsafe {
        let epq = (*(*node).ss.ps.state).es_epq_active;
        let plan = (*node).ss.ps.plan.cast::<pg_sys::Scan>();
        let i = (*plan).scanrelid as usize - 1;
        let given = *(*epq).relsubs_slot.add(i);
        let marked = !(*(*epq).relsubs_rowmark.add(i)).is_null();
        if *(*epq).relsubs_done.add(i) {
            return Some(nothing(node));
        }
        if given.is_null() && !marked {
            return None;
        }
        *(*epq).relsubs_done.add(i) = true;
        let from = match given.is_null() {
            false => given,
            true if fetch_marked(epq, i as u32 + 1, (*scan).hot_slot) => (*scan).hot_slot,
            true => return Some(nothing(node)),
        };
        if (*from).tts_flags & EMPTY != 0 {
            return Some(nothing(node));
        }
        Some(accept(node, scan, from).unwrap_or_else(|| nothing(node)))
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn fetch_marked(
    epq: *mut pg_sys::EPQState,
    rti: pg_sys::Index,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the relation has a row mark.
    unsafe { pg_sys::EvalPlanQualFetchRowMark(epq, rti, slot) }
}

/// The empty slot that ends a scan.
///
/// # Safety
/// `node` was begun by the executor, and is not ended yet.
unsafe fn nothing(node: *mut pg_sys::CustomScanState) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: both slots are virtual.
    unsafe {
        let slot = (*node).ss.ss_ScanTupleSlot;
        clear(slot);
        if (*node).ss.ps.ps_ProjInfo.is_null() {
            return slot;
        }
        let result = (*node).ss.ps.ps_ResultTupleSlot;
        clear(result);
        result
    }
}

/// Opens the hot side.
#[pg_guard]
unsafe extern "C-unwind" fn start(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the node was begun; relation and snapshot live as long as the query. Heap's callback
    // is called on its own terms; an ERROR is caught at the boundary.
    unsafe {
        let scan = scan_of(node);
        scan.asked = false;
        if scan.hot.is_null() {
            let flags = pg_sys::ScanOptions::SO_TYPE_SEQSCAN
                | pg_sys::ScanOptions::SO_ALLOW_STRAT
                | pg_sys::ScanOptions::SO_ALLOW_SYNC
                | pg_sys::ScanOptions::SO_ALLOW_PAGEMODE;
            let table = (*node).ss.ss_currentRelation;
            let snapshot = (*(*node).ss.ps.state).es_snapshot;
            let blocks = parallel::heap_scan(scan.shared);
            scan.follows = scan.cold.follows_hot_rows();
            let begin = scan.heap.scan_begin;
            scan.hot = pg_sys::ffi::pg_guard_ffi_boundary(|| {
                begin(table, snapshot, 0, std::ptr::null_mut(), blocks, flags)
            });
        }
        scan.side = Side::Hot;
    }
}

/// Whether the hot row that was read must not be returned.
#[pg_guard]
unsafe extern "C-unwind" fn hides(node: *mut pg_sys::CustomScanState) -> bool {
    // SAFETY: the node was begun, and its hot slot, of heap's kind, holds a row.
    unsafe {
        let scan = scan_of(node);
        scan.cold.hides(Slot::from_raw(scan.hot_slot))
    }
}

/// Reads the next batch of cold rows; `false` at the end.
#[pg_guard]
unsafe extern "C-unwind" fn refill(node: *mut pg_sys::CustomScanState) -> bool {
    // SAFETY: the node was begun and its relation is open; the copies point into the batch, which
    // stays until the next call.
    unsafe {
        let scan = scan_of(node);
        // Memory that the cold side keeps must live as long as the node.
        let query = (*(*node).ss.ps.state).es_query_cxt;
        let old = pg_sys::MemoryContextSwitchTo(query);
        let is_open = scan.cold.open();
        pg_sys::MemoryContextSwitchTo(old);
        if !is_open {
            return false;
        }
        if !scan.asked {
            ask(node);
        }
        let shared = scan.shared.as_ref();
        let more = scan.cold.next(shared, &mut scan.batch);
        if let Some(shared) = shared {
            scan.report_removed();
            scan.cold.publish(shared);
        }
        if more {
            attach(node, scan);
        }
        more
    }
}

/// Reads the batch of cold rows before the last one; `false` if there is none.
#[pg_guard]
unsafe extern "C-unwind" fn refill_from_before(node: *mut pg_sys::CustomScanState) -> bool {
    // SAFETY: as for `refill`. Where no batch was read, there is none before it.
    unsafe {
        let scan = scan_of(node);
        let more = scan.cold.previous(&mut scan.batch);
        if more {
            attach(node, scan);
        }
        more
    }
}

/// Points the copies at the new batch.
///
/// # Safety
/// `scan` is that of the node, which was begun.
unsafe fn attach(node: *mut pg_sys::CustomScanState, scan: &mut Scan) {
    let batch = &scan.batch;
    scan.at = 0;
    scan.end = batch.row_count;
    scan.first_row = batch.first_row;
    scan.positions = match batch.positions.is_empty() {
        true => std::ptr::null(),
        false => batch.positions.as_ptr(),
    };
    scan.recheck = batch.recheck && !scan.pushed_qual.is_null();
    let copy = |i: usize, to: usize| {
        let (values, nulls) = batch.addresses(i);
        ColumnCopy { values, nulls, to }
    };
    scan.into_scan.clear();
    scan.into_scan
        .extend((scan.attributes.of(batch.recheck).iter()).map(|&i| copy(i, i)));
    scan.into_result.clear();
    scan.into_result
        .extend(scan.direct.iter().map(|&(i, place)| copy(i, place)));
    // SAFETY: the slot belongs to the node. It counts as filled even where its columns are not: its
    // TID is what WHERE CURRENT OF looks at.
    unsafe {
        scan.through_scan_slot =
            scan.emit != Emit::Direct || scan.recheck || !(*node).ss.ps.qual.is_null();
        let slot = (*node).ss.ss_ScanTupleSlot;
        (*slot).tts_flags &= !EMPTY;
    }
}
