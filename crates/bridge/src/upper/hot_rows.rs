//! The heap side of a table, row by row.

use std::marker::PhantomData;

use pgrx::pg_sys;

use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::table::Table;

/// A scan of the hot rows that a snapshot sees.
pub struct HotRows<'a> {
    routine: &'static pg_sys::TableAmRoutine,
    scan: pg_sys::TableScanDesc,
    slot: *mut pg_sys::TupleTableSlot,
    /// The number of attributes that are read of each row: the first ones.
    attribute_count: i32,
    table: PhantomData<&'a ()>,
}

impl<'a> HotRows<'a> {
    /// Begins a scan of the table, which is locked, that reads the first `attribute_count`
    /// attributes of each row.
    pub fn begin(table: Table<'a>, snapshot: Snapshot<'a>, attribute_count: usize) -> Self {
        let (table, snapshot) = (table.raw(), snapshot.raw());
        let flags = pg_sys::ScanOptions::SO_TYPE_SEQSCAN
            | pg_sys::ScanOptions::SO_ALLOW_STRAT
            | pg_sys::ScanOptions::SO_ALLOW_SYNC
            | pg_sys::ScanOptions::SO_ALLOW_PAGEMODE;
        // SAFETY: both are valid as long as this is. Heap's own callback is called on its own
        // terms; an ERROR is caught at the boundary.
        unsafe {
            let routine = &*pg_sys::GetHeapamTableAmRoutine();
            let begin = routine.scan_begin.unwrap_unchecked();
            let nothing = std::ptr::null_mut();
            let scan = pg_sys::ffi::pg_guard_ffi_boundary(|| {
                begin(table, snapshot, 0, std::ptr::null_mut(), nothing, flags)
            });
            let operations = &raw const pg_sys::TTSOpsBufferHeapTuple;
            let slot = pg_sys::MakeSingleTupleTableSlot((*table).rd_att, operations);
            HotRows {
                routine,
                scan,
                slot,
                attribute_count: attribute_count as i32,
                table: PhantomData,
            }
        }
    }

    /// Goes to the next row; `false` at the end.
    pub fn advance(&mut self) -> bool {
        // SAFETY: scan and slot were made by `begin`. The page of the row stays pinned by the slot.
        unsafe {
            let next = self.routine.scan_getnextslot.unwrap_unchecked();
            let (scan, slot) = (self.scan, self.slot);
            let forward = pg_sys::ScanDirection::ForwardScanDirection;
            let found = pg_sys::ffi::pg_guard_ffi_boundary(|| next(scan, forward, slot));
            if found && i32::from((*slot).tts_nvalid) < self.attribute_count {
                pg_sys::slot_getsomeattrs_int(slot, self.attribute_count);
            }
            found
        }
    }

    /// The slot that holds the row.
    pub fn slot(&self) -> Slot<'_> {
        // SAFETY: it was made by `begin`, and lives as long as the scan.
        unsafe { Slot::from_raw(self.slot) }
    }

    /// A value of the row; `None` is NULL.
    ///
    /// # Panics
    ///
    /// Panics when the attribute is not read.
    #[inline]
    pub fn value(&self, attribute: usize) -> Option<pg_sys::Datum> {
        assert!(
            attribute < self.attribute_count as usize,
            "an attribute that is read"
        );
        // SAFETY: the slot holds that many values.
        unsafe {
            let null = *(*self.slot).tts_isnull.add(attribute);
            (!null).then(|| *(*self.slot).tts_values.add(attribute))
        }
    }
}

impl Drop for HotRows<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The resource owner releases the pins, the memory goes with the query's.
            return;
        }
        // SAFETY: both were made by `begin` and are ended once; an ERROR is caught at the boundary.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            let end = self.routine.scan_end.unwrap_unchecked();
            let scan = self.scan;
            pg_sys::ffi::pg_guard_ffi_boundary(|| end(scan));
        }
    }
}
