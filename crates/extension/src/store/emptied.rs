//! Tables of which nothing cold is left.
//!
//! A small table whose rows have all been changed once is hot from then on, but whoever reads it from end to end
//! would have to ask its cold side each time, which takes as long as the rest of a short statement. So
//! it is remembered that every row group a table has or is getting was wholly hidden by transactions that
//! are over. That stays true until another group comes:
//!
//! ```text
//!   who brings a group   inserts its entry ──> counts an arrival ──> …commits
//!   who remembers        reads the count ──> looks at every entry, dead or alive ──> remembers both
//!   who asks             count as remembered, and the hiders over for the snapshot ──> nothing to see
//! ```
//!
//! An entry that was not looked at was inserted later, so its arrival is counted later than the count that was
//! read; and no snapshot sees it before its transaction's commit, hence not before it was counted. Counts are
//! shared by tables at random, which costs a look in vain. On a standby entries arrive by WAL and are not
//! counted: nothing is remembered there. A file that is emptied in place is forgotten.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use howdah_bridge::ffi::quiet;
use howdah_bridge::shared_memory::{Area, Shareable};
use pgrx::pg_sys;

const COUNTS: usize = 4_096;
/// Tables that are remembered.
const MOST: usize = 64;

#[repr(C)]
pub struct Arrivals {
    counts: [AtomicU32; COUNTS],
}

// SAFETY: made of atomics.
unsafe impl Shareable for Arrivals {}

pub static ARRIVALS: Area<Arrivals> = Area::new(c"howdah arrivals");

#[derive(Clone, Copy)]
struct Emptied {
    table: u32,
    /// Names the table's contents: whatever exchanges its TOAST relation's file exchanges this one too.
    file: u32,
    arrivals: u32,
    /// The youngest transaction that hid a row.
    youngest: pg_sys::TransactionId,
}

thread_local! {
    static EMPTIED: RefCell<Vec<Emptied>> = const { RefCell::new(Vec::new()) };
}

fn count_of(toast: u32) -> Option<&'static AtomicU32> {
    // SAFETY: plain read of a global.
    let database = unsafe { pg_sys::MyDatabaseId }.to_u32();
    let mixed = (toast ^ database.rotate_left(16)).wrapping_mul(0x9E37_79B9);
    let arrivals = ARRIVALS.get()?;
    Some(&arrivals.counts[mixed as usize >> 16 & (COUNTS - 1)])
}

/// Counts an arrival: the entry of a row group has been inserted into the directory.
pub(super) fn note_arrival(toast: u32) {
    fence(Ordering::SeqCst);
    if let Some(count) = count_of(toast) {
        count.fetch_add(1, Ordering::SeqCst);
    }
}

/// How many arrivals there were, to be read before the directory is.
///
/// # Safety
/// `table` is open.
pub(super) unsafe fn arrivals(table: pg_sys::Relation) -> Option<u32> {
    // SAFETY: as for this function.
    let toast = unsafe { (*(*table).rd_rel).reltoastrelid }.to_u32();
    let count = count_of(toast)?.load(Ordering::SeqCst);
    fence(Ordering::SeqCst);
    Some(count)
}

/// Remembers that, after so many arrivals, nothing cold was left, and who hid it last.
///
/// # Safety
/// `table` is open.
pub(super) unsafe fn note(table: pg_sys::Relation, arrivals: u32, youngest: pg_sys::TransactionId) {
    // SAFETY: as for this function; the second reads the state of this process.
    let (noted, on_standby) = unsafe {
        let noted = Emptied {
            table: (*table).rd_id.to_u32(),
            file: (*table).rd_locator.relNumber.to_u32(),
            arrivals,
            youngest,
        };
        (noted, quiet::RecoveryInProgress())
    };
    if on_standby {
        return;
    }
    EMPTIED.with_borrow_mut(|emptied| {
        emptied.retain(|e| e.table != noted.table);
        if emptied.len() >= MOST {
            emptied.remove(0);
        }
        emptied.push(noted);
    });
}

/// Whether the snapshot is known to see no stored row of the table's cold side.
///
/// # Safety
/// `table` is open, the snapshot valid.
pub(super) unsafe fn is_known(table: pg_sys::Relation, snapshot: pg_sys::Snapshot) -> bool {
    // SAFETY: as for this function.
    unsafe {
        if (*snapshot).snapshot_type != pg_sys::SnapshotType::SNAPSHOT_MVCC {
            return false;
        }
        let oid = (*table).rd_id.to_u32();
        let known = EMPTIED.with_borrow(|emptied| emptied.iter().find(|e| e.table == oid).copied());
        known.is_some_and(|known| {
            known.file == (*table).rd_locator.relNumber.to_u32()
                && quiet::TransactionIdPrecedes(known.youngest, (*snapshot).xmin)
                && arrivals(table) == Some(known.arrivals)
        })
    }
}

/// Forgets everything: a file was emptied in place.
pub(super) fn forget() {
    EMPTIED.with_borrow_mut(Vec::clear);
}
