//! How full the server's lock table is.
//!
//! It is one hash table in shared memory, which any backend can attach to by its name, as backends
//! do that are started without fork. Its entries are counted by partition without a lock: the
//! answer may be off by what other backends do meanwhile.

use std::cell::Cell;
use std::ptr;

use pgrx::pg_sys;

use crate::ffi;

/// Name of the table in `LockManagerShmemInit` of `lock.c`.
const NAME: &std::ffi::CStr = c"LOCK hash";

thread_local! {
    /// This process's handle.
    static TABLE: Cell<*mut pg_sys::HTAB> = const { Cell::new(ptr::null_mut()) };
}

/// Whether half of the server's lock table is full.
pub fn is_half_full() -> bool {
    // SAFETY: the handle is valid.
    let used = unsafe { pg_sys::hash_get_num_entries(table()) };
    used > planned_entries() / 2
}

/// `NLOCKENTS` of `lock.c`.
fn planned_entries() -> i64 {
    // SAFETY: plain reads of settings that do not change while the server runs.
    unsafe {
        let lockers = pg_sys::MaxBackends + ffi::max_prepared_xacts;
        i64::from(pg_sys::max_locks_per_xact) * i64::from(lockers)
    }
}

fn table() -> *mut pg_sys::HTAB {
    if TABLE.get().is_null() {
        let (count, flags) = (
            planned_entries(),
            pg_sys::HASH_ELEM | pg_sys::HASH_BLOBS | pg_sys::HASH_PARTITION,
        );
        // SAFETY: as `LockManagerShmemInit` calls it. The table exists since the server has
        // started, so that this attaches to it. The handle is allocated for the process's life.
        let table = unsafe {
            let mut shape: pg_sys::HASHCTL = std::mem::zeroed();
            shape.keysize = size_of::<pg_sys::LOCKTAG>();
            shape.entrysize = size_of::<pg_sys::LOCK>();
            shape.num_partitions = i64::from(pg_sys::NUM_LOCK_PARTITIONS);
            let (shape, flags) = (&raw mut shape, flags as i32);
            pg_sys::ShmemInitHash(NAME.as_ptr(), count / 2, count, shape, flags)
        };
        TABLE.set(table);
    }
    TABLE.get()
}
