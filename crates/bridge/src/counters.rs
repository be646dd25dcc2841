//! Cumulative counters per table, kept by PostgreSQL's own statistics system (a custom kind).
//!
//! ```text
//!   add() ──> pending in this backend ──flush when a transaction ends──> shared memory
//!                                                                shared memory ──shutdown──> disk
//! ```
//!
//! They behave like `pg_stat_all_tables`: reset by `pg_stat_reset()`, lost in a crash, kept per
//! database, read with `stats_fetch_consistency`. Mirrors `injection_stats.c`; the structures
//! are those of `utils/pgstat_internal.h` of PostgreSQL 18.

use std::ffi::{CStr, c_char, c_void};
use std::mem::{offset_of, size_of};

use pgrx::{pg_guard, pg_sys};

/// Counters of one table.
pub const COUNTER_COUNT: usize = 6;
/// The counters of one table, in the caller's order.
pub type Counters = [i64; COUNTER_COUNT];

/// The kind's number: custom kinds are 24 to 32, of which 24 is for experiments.
const KIND: u32 = 30;
const NAME: &CStr = c"howdah_scans";

/// `PgStat_KindInfo`. The three flags are bit-fields of its first byte, lowest bit first.
#[repr(C)]
struct KindInfo {
    flags: u8,
    shared_size: u32,
    snapshot_ctl_off: u32,
    shared_ctl_off: u32,
    shared_data_off: u32,
    shared_data_len: u32,
    pending_size: u32,
    init_backend: *const c_void,
    flush_pending: unsafe extern "C-unwind" fn(*mut EntryRef<Counters>, bool) -> bool,
    other_callbacks: [*const c_void; 8],
    name: *const c_char,
}

// SAFETY: constants and function pointers; never written.
unsafe impl Sync for KindInfo {}

const WRITE_TO_FILE: u8 = 1 << 2;

/// `PgStatShared_Common`, followed by what the kind counts.
#[repr(C)]
pub(crate) struct SharedEntry<T> {
    magic: u32,
    lock: pg_sys::LWLock,
    counters: T,
}

/// The head of `PgStat_EntryRef`.
#[repr(C)]
pub(crate) struct EntryRef<T> {
    shared_entry: *mut c_void,
    shared_stats: *mut SharedEntry<T>,
    generation: u32,
    pending: *mut T,
}

static KIND_INFO: KindInfo = KindInfo {
    flags: WRITE_TO_FILE,
    shared_size: size_of::<SharedEntry<Counters>>() as u32,
    snapshot_ctl_off: 0,
    shared_ctl_off: 0,
    shared_data_off: offset_of!(SharedEntry<Counters>, counters) as u32,
    shared_data_len: size_of::<Counters>() as u32,
    pending_size: size_of::<Counters>() as u32,
    init_backend: std::ptr::null(),
    flush_pending,
    other_callbacks: [std::ptr::null(); 8],
    name: NAME.as_ptr(),
};

#[pg_guard]
unsafe extern "C-unwind" {
    fn pgstat_register_kind(kind: u32, info: *const KindInfo);
    fn pgstat_prep_pending_entry(
        kind: u32,
        database: pg_sys::Oid,
        object: u64,
        created: *mut bool,
    ) -> *mut EntryRef<Counters>;
    fn pgstat_fetch_entry(kind: u32, database: pg_sys::Oid, object: u64) -> *mut Counters;
    fn pgstat_drop_entry(kind: u32, database: pg_sys::Oid, object: u64) -> bool;
    fn pgstat_lock_entry(entry: *mut c_void, nowait: bool) -> bool;
    fn pgstat_unlock_entry(entry: *mut c_void);
}

/// Registers the kind. Must be called once, while the postmaster loads the library.
pub fn register() {
    // SAFETY: KIND_INFO lives for ever.
    unsafe { pgstat_register_kind(KIND, &KIND_INFO) }
}

#[pg_guard]
unsafe extern "C-unwind" fn flush_pending(entry: *mut EntryRef<Counters>, nowait: bool) -> bool {
    // SAFETY: the statistics system passes an entry of our kind with pending counters; the shared
    // counters are accessed under their lock.
    unsafe {
        change(entry, nowait, |shared| {
            for (sum, more) in shared.iter_mut().zip(&*(*entry).pending) {
                *sum = sum.wrapping_add(*more);
            }
        })
    }
}

/// Changes the counters of an entry in shared memory, under its lock. `false` if the lock was not
/// free and `nowait` is set.
///
/// # Safety
/// The entry has such counters. `change` cannot fail.
pub(crate) unsafe fn change<T>(
    entry: *mut EntryRef<T>,
    nowait: bool,
    change: impl FnOnce(&mut T),
) -> bool {
    // SAFETY: as for this function.
    unsafe {
        if !pgstat_lock_entry(entry.cast(), nowait) {
            return false;
        }
        change(&mut (*(*entry).shared_stats).counters);
        pgstat_unlock_entry(entry.cast());
        true
    }
}

/// Adds to a table's counters, unless `track_counts` is off.
pub fn add(table: pg_sys::Oid, more: &Counters) {
    // SAFETY: plain reads of globals; the entry's pending memory stays until it is flushed,
    // which does not happen in between.
    unsafe {
        if !pg_sys::pgstat_track_counts {
            return;
        }
        let object = u64::from(table.to_u32());
        let mut created = false;
        let entry = pgstat_prep_pending_entry(KIND, pg_sys::MyDatabaseId, object, &mut created);
        for (sum, more) in (*(*entry).pending).iter_mut().zip(more) {
            *sum = sum.wrapping_add(*more);
        }
    }
}

/// A table's counters as the current transaction sees them; `None` if there is no entry.
pub fn of(table: pg_sys::Oid) -> Option<Counters> {
    // SAFETY: NULL or a copy that lives as long as the transaction's snapshot of statistics.
    unsafe {
        let object = u64::from(table.to_u32());
        let found = pgstat_fetch_entry(KIND, pg_sys::MyDatabaseId, object);
        (!found.is_null()).then(|| *found)
    }
}

/// Drops the counters of a table that was dropped.
pub fn forget(table: pg_sys::Oid) {
    // SAFETY: does nothing where there is no entry.
    unsafe {
        pgstat_drop_entry(KIND, pg_sys::MyDatabaseId, u64::from(table.to_u32()));
    }
}
