//! What this process is to others: the status flags of `storage/proc.h`.

use pgrx::pg_sys;

/// `ProcArrayLock` of `lwlocklist.h`.
const PROC_ARRAY_LOCK: usize = 4;

/// Counts as an autovacuum worker from now on, as `InitProcess` has it for those.
pub fn count_as_autovacuum() {
    // SAFETY: a change that is allowed at any time.
    unsafe { set(pg_sys::PROC_IS_AUTOVACUUM) }
}

/// Counts as a VACUUM until the transaction ends, as `vacuum_rel` has it: nobody's horizon heeds this
/// transaction, its own neither. Without it, the transaction's snapshot would hold back for this
/// database what a transaction in another database, which cannot see its tables, still needs there.
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
    // SAFETY: as for this function; the transaction's end takes the flag away.
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
