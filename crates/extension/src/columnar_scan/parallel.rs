//! What the participants of a parallel scan share.
//!
//! ```text
//!   Shared { next unit, zones per unit, counts } │ heap's parallel scan of the hot side
//! ```
//!
//! The leader writes its own loads before workers start, so that what is left in memory is at
//! most that of outer subtransactions; those rows the leader returns itself. All participants
//! have the same snapshot, hence the same list of stored groups.

use std::mem::size_of;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::table::Table;
use pgrx::{pg_guard, pg_sys};

use super::explain::Counts;
use super::reader::GROUP_ZONES;
use super::state::{Scan, close, scan_of};
use crate::am;
use crate::load;
use crate::store::view::{ColdGroup, ColdView};

/// Zones of a unit where whole groups would be too coarse.
const FINE_UNIT_ZONES: usize = 4;
/// With fewer groups than this for each participant, units are fine.
const GROUPS_PER_PARTICIPANT: usize = 16;

/// The shared state, in dynamic shared memory.
#[repr(C, align(8))]
pub struct Shared {
    next_unit: AtomicU64,
    unit_zones: AtomicU32,
    counts: [AtomicU64; Counts::LEN],
}

/// Hands out units.
#[derive(Clone, Copy)]
pub struct SharedUnits(*const Shared);

impl SharedUnits {
    /// Ordinal of a stored group, and some of its zones.
    pub fn take(self) -> (usize, Range<usize>) {
        // SAFETY: made by `units`, whose caller's scan ends before the memory is unmapped.
        let shared = unsafe { &*self.0 };
        let unit = shared.next_unit.fetch_add(1, Ordering::Relaxed) as usize;
        let zones = (shared.unit_zones.load(Ordering::Relaxed) as usize).clamp(1, GROUP_ZONES);
        let per_group = GROUP_ZONES / zones;
        let start = unit % per_group * zones;
        (unit / per_group, start..start + zones)
    }
}

/// The units of a scan, if it is parallel.
pub fn units(shared: *const Shared) -> Option<SharedUnits> {
    (!shared.is_null()).then_some(SharedUnits(shared))
}

/// Heap's part, or NULL if the scan is not parallel.
pub fn heap_scan(shared: *const Shared) -> pg_sys::ParallelTableScanDesc {
    match shared.is_null() {
        true => std::ptr::null_mut(),
        // It follows the shared state, whose size is a multiple of 8.
        false => shared.wrapping_add(1).cast_mut().cast(),
    }
}

/// Adds what this participant counted since the last call.
pub fn publish(scan: &mut Scan) {
    if scan.shared.is_null() {
        return;
    }
    let counts = scan.counts();
    // SAFETY: the memory is mapped while the scan runs.
    let shared = unsafe { &*scan.shared };
    let pairs = counts.as_array().into_iter().zip(scan.published.as_array());
    for (counter, (now, before)) in shared.counts.iter().zip(pairs) {
        if now > before {
            counter.fetch_add(now - before, Ordering::Relaxed);
        }
    }
    scan.published = counts;
}

#[pg_guard]
pub unsafe extern "C-unwind" fn estimate_dsm(
    node: *mut pg_sys::CustomScanState,
    _context: *mut pg_sys::ParallelContext,
) -> pg_sys::Size {
    // SAFETY: the node was begun.
    unsafe {
        let estimate = am::heap().parallelscan_estimate.unwrap_unchecked();
        size_of::<Shared>() + estimate((*node).ss.ss_currentRelation)
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn initialize_dsm(
    node: *mut pg_sys::CustomScanState,
    context: *mut pg_sys::ParallelContext,
    coordinate: *mut std::ffi::c_void,
) {
    // SAFETY: `coordinate` has the estimated size and is aligned as shared memory is; workers
    // are not started yet.
    unsafe {
        let table = (*node).ss.ss_currentRelation;
        let scan = scan_of(node);
        // An earlier run of the same node had other shared memory.
        close(node);
        load::flush_relation((*table).rd_id);
        let snapshot = Snapshot::from_raw((*(*node).ss.ps.state).es_snapshot);
        let view = ColdView::of(Table::from_raw(table), snapshot);
        let stored = view
            .groups
            .iter()
            .filter(|group| matches!(group, ColdGroup::Stored(_)))
            .count();
        let participants = (*context).nworkers as usize + 1;
        let unit_zones = match stored >= participants * GROUPS_PER_PARTICIPANT {
            true => GROUP_ZONES,
            false => FINE_UNIT_ZONES,
        };
        let shared = coordinate.cast::<Shared>();
        shared.write(Shared {
            next_unit: AtomicU64::new(0),
            unit_zones: AtomicU32::new(unit_zones as u32),
            counts: scan
                .totals
                .unwrap_or_default()
                .as_array()
                .map(AtomicU64::new),
        });
        let initialize = am::heap().parallelscan_initialize.unwrap_unchecked();
        initialize(table, heap_scan(shared));
        scan.shared = shared;
        scan.view = Some(view);
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn reinitialize_dsm(
    node: *mut pg_sys::CustomScanState,
    _context: *mut pg_sys::ParallelContext,
    coordinate: *mut std::ffi::c_void,
) {
    // SAFETY: made by `initialize_dsm`; no worker runs meanwhile.
    unsafe {
        let shared = coordinate.cast::<Shared>();
        (*shared).next_unit.store(0, Ordering::Relaxed);
        let reinitialize = am::heap().parallelscan_reinitialize.unwrap_unchecked();
        reinitialize((*node).ss.ss_currentRelation, heap_scan(shared));
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn initialize_worker(
    node: *mut pg_sys::CustomScanState,
    _toc: *mut pg_sys::shm_toc,
    coordinate: *mut std::ffi::c_void,
) {
    // SAFETY: the leader initialised it; it stays mapped while the worker runs.
    unsafe { scan_of(node).shared = coordinate.cast() }
}

/// Parallel workers are about to end, and the shared memory with them.
#[pg_guard]
pub unsafe extern "C-unwind" fn shutdown(node: *mut pg_sys::CustomScanState) {
    // SAFETY: the memory is still mapped.
    unsafe {
        let scan = scan_of(node);
        if scan.shared.is_null() {
            return;
        }
        publish(scan);
        let totals = (*scan.shared)
            .counts
            .each_ref()
            .map(|count| count.load(Ordering::Relaxed));
        scan.totals = Some(Counts::from_array(totals));
    }
}
