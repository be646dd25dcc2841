//! Status flags of this process that other processes read (`storage/proc.h`).

use pgrx::pg_sys;

/// `ProcArrayLock` of `lwlocklist.h`.
const PROC_ARRAY_LOCK: usize = 4;

/// Marks this process as an autovacuum worker from now on, as `InitProcess` does for one.
pub fn count_as_autovacuum() {
    // SAFETY: a change that is allowed at any time.
    unsafe { set(pg_sys::PROC_IS_AUTOVACUUM) }
}

/// Marks this process as a VACUUM until the transaction ends, as `vacuum_rel` does: no backend's
/// horizon takes this transaction into account, not even its own. Without the flag, the
/// transaction's snapshot would carry the horizon of a transaction in another database over to this
/// one, although that transaction cannot see its tables.
///
/// # Safety
/// The transaction has no snapshot yet. It writes nothing transactional, and reads only what VACUUM
/// reads.
pub unsafe fn count_as_vacuum() {
    debug_assert!(
        // SAFETY: plain reads of this process' own entry.
        unsafe { (*pg_sys::MyProc).xmin == pg_sys::InvalidTransactionId },
        "a snapshot was taken before"
    );
    // SAFETY: as for this function; the transaction's end clears the flag.
    unsafe { set(pg_sys::PROC_IN_VACUUM) }
}

/// # Safety
/// The flag may be set in the process' present state.
unsafe fn set(flag: u32) {
    // SAFETY: this process is in the array; flags are changed and mirrored under the lock.
    unsafe {
        let lock = &raw mut (*pg_sys::MainLWLockArray.add(PROC_ARRAY_LOCK)).lock;
        pg_sys::LWLockAcquire(lock, pg_sys::LWLockMode::LW_EXCLUSIVE);
        (*pg_sys::MyProc).statusFlags |= flag as u8;
        let mirror = (*pg_sys::ProcGlobal)
            .statusFlags
            .add((*pg_sys::MyProc).pgxactoff as usize);
        *mirror = (*pg_sys::MyProc).statusFlags;
        pg_sys::LWLockRelease(lock);
    }
}
