//! What the participants of a parallel scan share: heap's descriptor, and one number behind it.

use std::sync::atomic::{AtomicU32, Ordering};

use pgrx::{pg_guard, pg_sys};

use super::TableScans;
use crate::heap_am;
use crate::table::Table;
use crate::table_am::Routine;

const SHARED_OFFSET: usize =
    size_of::<pg_sys::ParallelBlockTableScanDescData>().next_multiple_of(8);
const SHARED_BYTES: usize = SHARED_OFFSET + 8;

pub(super) fn set<A: TableScans>(routine: &mut Routine) {
    routine.parallelscan_estimate = Some(estimate);
    routine.parallelscan_initialize = Some(initialize::<A>);
    routine.parallelscan_reinitialize = Some(reinitialize);
}

/// The shared number; `None` for NULL.
///
/// # Safety
/// `scan` is NULL, or has the size that [`estimate`] has requested, and lives for `'a`.
pub(crate) unsafe fn shared_counter<'a>(
    scan: pg_sys::ParallelTableScanDesc,
) -> Option<&'a AtomicU32> {
    // SAFETY: as for this function; the place is aligned, as the descriptor is.
    (!scan.is_null()).then(|| unsafe { &*scan.cast::<u8>().add(SHARED_OFFSET).cast() })
}

#[pg_guard]
unsafe extern "C-unwind" fn estimate(_rel: pg_sys::Relation) -> pg_sys::Size {
    SHARED_BYTES
}

#[pg_guard]
unsafe extern "C-unwind" fn initialize<A: TableScans>(
    rel: pg_sys::Relation,
    scan: pg_sys::ParallelTableScanDesc,
) -> pg_sys::Size {
    // SAFETY: the server holds the relation open; the descriptor has SHARED_BYTES.
    unsafe {
        A::before_parallel(Table::from_raw(rel));
        (heap_am::callbacks().parallelscan_initialize)(rel, scan);
        reset(scan);
    }
    SHARED_BYTES
}

#[pg_guard]
unsafe extern "C-unwind" fn reinitialize(
    rel: pg_sys::Relation,
    scan: pg_sys::ParallelTableScanDesc,
) {
    // SAFETY: the descriptor has SHARED_BYTES; no worker runs meanwhile.
    unsafe {
        (heap_am::callbacks().parallelscan_reinitialize)(rel, scan);
        reset(scan);
    }
}

/// # Safety
/// As for [`shared_counter`].
unsafe fn reset(scan: pg_sys::ParallelTableScanDesc) {
    // SAFETY: as for this function.
    if let Some(counter) = unsafe { shared_counter(scan) } {
        counter.store(0, Ordering::Relaxed);
    }
}
