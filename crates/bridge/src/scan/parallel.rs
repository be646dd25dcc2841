//! The state that participants of a parallel scan share.
//!
//! ```text
//!   SharedWords { counters of the cold side } │ heap's parallel scan of the hot side
//! ```
//!
//! Invariant: all participants have the same snapshot.

use std::mem::size_of;
use std::sync::atomic::AtomicU64;

use pgrx::{pg_guard, pg_sys};

use super::node::{close, scan_of};

/// Counters in dynamic shared memory, whose meaning the scanner defines.
#[repr(C, align(8))]
#[derive(Default)]
pub struct SharedWords {
    pub words: [AtomicU64; SharedWords::LEN],
}

impl SharedWords {
    pub const LEN: usize = 8;
}

/// Heap's part, or NULL if the scan is not parallel.
pub(super) fn heap_scan(shared: *const SharedWords) -> pg_sys::ParallelTableScanDesc {
    match shared.is_null() {
        true => std::ptr::null_mut(),
        // It follows the words, whose size is a multiple of 8.
        false => shared.wrapping_add(1).cast_mut().cast(),
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn estimate_dsm(
    node: *mut pg_sys::CustomScanState,
    _context: *mut pg_sys::ParallelContext,
) -> pg_sys::Size {
    // SAFETY: the node was begun.
    unsafe {
        let estimate = scan_of(node).heap.parallelscan_estimate;
        size_of::<SharedWords>() + estimate((*node).ss.ss_currentRelation)
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn initialize_dsm(
    node: *mut pg_sys::CustomScanState,
    context: *mut pg_sys::ParallelContext,
    coordinate: *mut std::ffi::c_void,
) {
    // SAFETY: `coordinate` has the estimated size and is aligned as shared memory is; workers are
    // not started yet.
    unsafe {
        let scan = scan_of(node);
        // An earlier run of the same node used other shared memory.
        close(scan);
        let participants = (*context).nworkers as usize + 1;
        let shared = coordinate.cast::<SharedWords>();
        shared.write(scan.cold.share(participants));
        let initialize = scan.heap.parallelscan_initialize;
        initialize((*node).ss.ss_currentRelation, heap_scan(shared));
        scan.shared = shared;
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn reinitialize_dsm(
    node: *mut pg_sys::CustomScanState,
    _context: *mut pg_sys::ParallelContext,
    coordinate: *mut std::ffi::c_void,
) {
    // SAFETY: made by `initialize_dsm`; no worker runs meanwhile.
    unsafe {
        let scan = scan_of(node);
        let shared = coordinate.cast::<SharedWords>();
        scan.cold.share_again(&*shared);
        let reinitialize = scan.heap.parallelscan_reinitialize;
        reinitialize((*node).ss.ss_currentRelation, heap_scan(shared));
    }
}

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn initialize_worker(
    node: *mut pg_sys::CustomScanState,
    _toc: *mut pg_sys::shm_toc,
    coordinate: *mut std::ffi::c_void,
) {
    // SAFETY: the leader initialised it; it stays mapped while the worker runs.
    unsafe { scan_of(node).shared = coordinate.cast() }
}

/// Called when parallel workers are about to end, and the shared memory with them; once more for
/// each further plan node that shares a subplan with this scan below it, when it is gone.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn shutdown(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the memory is still mapped, until this was called first.
    unsafe {
        let scan = scan_of(node);
        if let Some(shared) = scan.shared.as_ref() {
            scan.report_removed();
            scan.cold.publish(shared);
            scan.cold.collect(shared);
        }
        scan.shared = std::ptr::null();
    }
}
