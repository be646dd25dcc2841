//! Advisory locks of sessions, by a single number.

use pgrx::pg_sys;

use crate::table::LockMode;
use crate::xid::current_database;

/// `LOCKTAG_ADVISORY` and `USER_LOCKMETHOD`.
const ADVISORY: (u8, u8) = (10, 2);

/// Waits for the lock that `pg_advisory_lock(key)` takes, and releases it at once. The wait can be
/// cancelled.
pub fn wait_for(key: u32) {
    let tag = pg_sys::LOCKTAG {
        locktag_field1: current_database().to_u32(),
        locktag_field2: 0,
        locktag_field3: key,
        locktag_field4: 1,
        locktag_type: ADVISORY.0,
        locktag_lockmethodid: ADVISORY.1,
    };
    // SAFETY: a lock of the session, released once.
    unsafe {
        pg_sys::LockAcquire(&tag, LockMode::Exclusive.raw(), true, false);
        pg_sys::LockRelease(&tag, LockMode::Exclusive.raw(), true);
    }
}
