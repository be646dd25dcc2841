//! The hot row versions of a table that is rewritten, and their status.

use std::marker::PhantomData;

use pgrx::pg_sys;

use super::progress;
use crate::hot::scan::HotScan;
use crate::slot::{Origin, Slot};
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::tid::{BlockNumber, is_cold};
use crate::xid::Xid;

/// Returns the hot versions of a table one after the other, dead ones included: along an index, or
/// page by page.
pub struct OldRows<'a> {
    table: Table<'a>,
    source: Source<'a>,
    slot: *mut pg_sys::TupleTableSlot,
}

enum Source<'a> {
    Index(pg_sys::IndexScanDesc),
    Heap(HotScan<'a>),
}

/// A version, valid until the next one is requested: its slot holds the pin of its page.
#[derive(Clone, Copy)]
pub struct OldRow<'r> {
    tuple: pg_sys::HeapTuple,
    buffer: pg_sys::Buffer,
    table: Table<'r>,
    lives: PhantomData<&'r ()>,
}

/// The status of a version for a rewrite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldVersion {
    /// Live, and no transaction has locked or changed it. It has this origin.
    Untouched(Origin),
    /// Live, or being inserted.
    Kept,
    /// Some snapshot may need it.
    RecentlyDead,
    Dead,
}

impl<'a> OldRows<'a> {
    /// The table, and the index if there is one, are locked exclusively.
    pub fn begin(table: Table<'a>, index: Option<Table<'a>>) -> OldRows<'a> {
        let any = Snapshot::any();
        let source = match index {
            Some(index) => {
                progress::scanning_along(index.oid());
                let none = std::ptr::null_mut();
                // SAFETY: table and index outlive the scan. It has no keys.
                Source::Index(unsafe {
                    let scan =
                        pg_sys::index_beginscan(table.raw(), index.raw(), any.raw(), none, 0, 0);
                    pg_sys::index_rescan(scan, std::ptr::null_mut(), 0, std::ptr::null_mut(), 0);
                    scan
                })
            }
            None => {
                progress::scanning();
                let scan = HotScan::begin(table, any, true);
                progress::blocks_to_scan(scan.block_count());
                Source::Heap(scan)
            }
        };
        // SAFETY: the table is open; the slot is dropped by `end`, or with its memory context.
        let slot = unsafe { pg_sys::table_slot_create(table.raw(), std::ptr::null_mut()) };
        OldRows {
            table,
            source,
            slot,
        }
    }

    /// The next version.
    pub fn next_row(&mut self) -> Option<OldRow<'_>> {
        let found = match &mut self.source {
            Source::Heap(scan) => {
                // SAFETY: the slot is ours, a buffer slot of the table.
                let found = scan.next(unsafe { Slot::from_raw(self.slot) });
                progress::blocks_scanned(blocks_scanned(scan, found));
                found
            }
            // SAFETY: the scan is open; the slot is a buffer slot of its table.
            Source::Index(scan) => unsafe { next_along(*scan, self.slot) },
        };
        // SAFETY: the slot holds a tuple of a page, and the page's pin.
        found.then(|| unsafe {
            OldRow {
                tuple: pg_sys::ExecFetchSlotHeapTuple(self.slot, false, std::ptr::null_mut()),
                buffer: (*self.slot.cast::<pg_sys::BufferHeapTupleTableSlot>()).buffer,
                table: self.table,
                lives: PhantomData,
            }
        })
    }

    /// Ends the scan and frees the slot.
    pub fn end(self) {
        // SAFETY: begun by `begin`, and ended once.
        unsafe {
            match self.source {
                Source::Index(scan) => pg_sys::index_endscan(scan),
                Source::Heap(scan) => scan.end(),
            }
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
        }
    }
}

/// Stores the next hot version along an index in the slot.
///
/// # Safety
/// The scan is open, and the slot a buffer slot of its table.
unsafe fn next_along(scan: pg_sys::IndexScanDesc, slot: *mut pg_sys::TupleTableSlot) -> bool {
    let forward = pg_sys::ScanDirection::ForwardScanDirection;
    // SAFETY: as for this function; a TID is valid until the next one.
    unsafe {
        loop {
            if !(*scan).xs_heap_continue {
                let tid = pg_sys::index_getnext_tid(scan, forward);
                if tid.is_null() {
                    return false;
                }
                if is_cold(&*tid) {
                    continue;
                }
            }
            if pg_sys::index_fetch_heap(scan, slot) {
                if (*scan).xs_recheck {
                    pgrx::error!("CLUSTER does not support lossy index conditions");
                }
                return true;
            }
        }
    }
}

/// How many blocks a scan has read: a synchronized one may start in the middle and wrap around.
fn blocks_scanned(scan: &HotScan<'_>, found: bool) -> BlockNumber {
    match found {
        true => blocks_up_to(scan.block(), scan.first_block(), scan.block_count()),
        false => scan.block_count(),
    }
}

/// Of so many blocks, those from the first one to another one, which is counted too.
fn blocks_up_to(at: BlockNumber, first: BlockNumber, all: BlockNumber) -> BlockNumber {
    let from_start = u64::from(at) + u64::from(all) - u64::from(first);
    (from_start % u64::from(all.max(1))) as u32 + 1
}

impl OldRow<'_> {
    /// The server's pointer, valid as long as the row.
    pub(crate) fn tuple(self) -> pg_sys::HeapTuple {
        self.tuple
    }

    /// Its status. Warns of a transaction in progress that is inserting or deleting it, other than
    /// this one.
    pub fn judge(self, oldest_xmin: Xid) -> OldVersion {
        use pg_sys::HTSV_Result::*;
        // SAFETY: the tuple lies in the buffer, whose pin the slot holds; it is locked meanwhile.
        let (state, origin, foreign, is_touched) = unsafe {
            pg_sys::LockBuffer(self.buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let state =
                pg_sys::HeapTupleSatisfiesVacuum(self.tuple, oldest_xmin.raw(), self.buffer);
            let header = (*self.tuple).t_data;
            let origin = Origin::of(header);
            let foreign = match state {
                HEAPTUPLE_INSERT_IN_PROGRESS => (!origin.xid.is_own()).then_some("insert"),
                HEAPTUPLE_DELETE_IN_PROGRESS => {
                    let deleter = pg_sys::HeapTupleHeaderGetUpdateXid(header);
                    (!Xid::from_raw(deleter).is_own()).then_some("delete")
                }
                _ => None,
            };
            let is_touched = u32::from((*header).t_infomask) & pg_sys::HEAP_XMAX_INVALID == 0;
            pg_sys::LockBuffer(self.buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
            (state, origin, foreign, is_touched)
        };
        if let Some(what) = foreign {
            let table = self.table.name();
            pgrx::warning!("concurrent {what} in progress within table \"{table}\"");
        }
        match state {
            HEAPTUPLE_DEAD => OldVersion::Dead,
            HEAPTUPLE_RECENTLY_DEAD | HEAPTUPLE_DELETE_IN_PROGRESS => OldVersion::RecentlyDead,
            _ if is_touched || foreign.is_some() => OldVersion::Kept,
            _ => OldVersion::Untouched(origin),
        }
    }

    /// Writes the row's values, which point into its page, to the arrays.
    ///
    /// # Panics
    /// If the arrays have no entry for an attribute.
    pub fn deform(self, values: &mut [pg_sys::Datum], nulls: &mut [bool]) {
        let desc = self.table.descriptor();
        let count = desc.attribute_count();
        assert!(
            values.len() >= count && nulls.len() >= count,
            "an entry per attribute"
        );
        // SAFETY: the tuple is valid; the arrays have an entry per attribute.
        unsafe {
            pg_sys::heap_deform_tuple(
                self.tuple,
                desc.raw(),
                values.as_mut_ptr(),
                nulls.as_mut_ptr(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::blocks_up_to;

    #[test]
    fn a_scan_that_wraps_around_has_read_the_blocks_since_its_start() {
        assert_eq!(blocks_up_to(0, 0, 10), 1);
        assert_eq!(blocks_up_to(9, 0, 10), 10);
        assert_eq!(blocks_up_to(7, 7, 10), 1);
        assert_eq!(blocks_up_to(9, 7, 10), 3);
        assert_eq!(blocks_up_to(0, 7, 10), 4);
        assert_eq!(blocks_up_to(6, 7, 10), 10);
    }
}
