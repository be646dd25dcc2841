//! Waiting for the transactions that hold a lock on a table.

use std::time::{Duration, Instant};

use pgrx::pg_sys;

use crate::process;
use crate::table::{LockMode, Table};

/// `LOCKTAG_RELATION` and `DEFAULT_LOCKMETHOD`
const RELATION: (u8, u8) = (0, 1);
/// Pause between two tests whether the transactions have ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The transactions that hold a lock of any mode on a table.
pub struct Lockers(pg_sys::LOCKTAG);

impl Lockers {
    pub fn of(table: Table<'_>) -> Lockers {
        // SAFETY: the relation is open.
        let id = unsafe { (*table.raw()).rd_lockInfo.lockRelId };
        Lockers(pg_sys::LOCKTAG {
            locktag_field1: id.dbId.to_u32(),
            locktag_field2: id.relId.to_u32(),
            locktag_field3: 0,
            locktag_field4: 0,
            locktag_type: RELATION.0,
            locktag_lockmethodid: RELATION.1,
        })
    }

    /// Waits until all transactions that hold a lock now have ended. The caller must hold no lock
    /// on the table.
    pub fn wait(self) {
        // SAFETY: as this function asks.
        unsafe { pg_sys::WaitForLockers(self.0, LockMode::AccessExclusive.raw(), false) }
    }

    /// As [`Lockers::wait`], but without queueing; `false` if they have not ended after `patience`.
    pub fn wait_for(self, patience: Duration) -> bool {
        let mut count = 0;
        // SAFETY: the array holds `count` ids and stays in the current memory context.
        let holders = unsafe {
            let lock = LockMode::AccessExclusive.raw();
            let holders = pg_sys::GetLockConflicts(&self.0, lock, &mut count);
            std::slice::from_raw_parts(holders, count as usize)
        };
        // SAFETY: the function that tells whether a transaction is over does not wait.
        let is_over =
            |&id: &pg_sys::VirtualTransactionId| unsafe { pg_sys::VirtualXactLock(id, false) };
        let began = Instant::now();
        loop {
            if holders.iter().all(is_over) {
                return true;
            }
            if began.elapsed() > patience {
                return false;
            }
            crate::check_for_interrupts!();
            process::sleep(LOOK_AGAIN);
        }
    }
}
