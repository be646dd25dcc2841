//! Waiting for the transactions that block a row, one request at a time.

use pgrx::pg_sys;

use super::{Locks, RowLock, Wait, held_at_all, release, try_acquire};
use crate::row_request::Purpose;
use crate::table::Table;
use crate::tid::{RowNumber, TURN_BITS};
use crate::wait_context::while_waiting;
use crate::xid::Xid;

/// The place of a request in the queue for a row: none as long as it has met no transaction to
/// wait for.
#[derive(Default)]
pub struct Queue {
    turn: Option<Turn>,
}

impl Queue {
    /// Waits for the end of each of these transactions, at the head of the queue for the row. A
    /// transaction that holds the row in another mode already waits outside of the queue.
    pub fn wait_for(
        &mut self,
        (locks, lock): (Locks, RowLock),
        (table, row): (Table<'_>, RowNumber),
        purpose: Purpose,
        blockers: &[Xid],
    ) {
        if self.turn.is_none() && !blockers.is_empty() {
            self.turn = locks.take_turn(row, lock);
        }
        for id in blockers {
            wait_for(*id, table, row, purpose);
        }
    }
}

impl Locks {
    /// Waits for a place at the head of the row's queue. Returns `None` if the transaction holds
    /// the row in another mode already.
    fn take_turn(self, row: RowNumber, lock: RowLock) -> Option<Turn> {
        let (turn, mode) = (self.row(row, TURN_BITS), lock.on_row());
        if held_at_all(&self.row(row, 0)) {
            return None;
        }
        try_acquire(&turn, mode, Wait::Forever);
        Some(Turn { turn, mode })
    }
}

/// The place at the head of a row's queue; released when it is dropped.
struct Turn {
    turn: pg_sys::LOCKTAG,
    mode: u32,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            release(&self.turn, self.mode);
        }
    }
}

/// Waits for the end of a transaction that is in the way of work on a row.
pub fn wait_for(id: Xid, table: Table<'_>, row: RowNumber, purpose: Purpose) {
    let mut tid = row.tid().raw();
    while_waiting(table, row, purpose, || {
        // SAFETY: the table is open; may raise an ERROR, with nothing of ours to undo.
        unsafe { pg_sys::XactLockTableWait(id.raw(), table.raw(), &mut tid, purpose.raw()) };
    });
}

/// Has the server's log name the transactions that are in the way of a lock that is not waited for,
/// if `log_lock_failures` asks for it, up to the first that is still running. `ids` is asked only
/// then.
pub fn log_failure(ids: impl FnOnce() -> Vec<Xid>) {
    // SAFETY: plain read of a setting.
    if !unsafe { pg_sys::log_lock_failures } {
        return;
    }
    // The lock is asked for once more, because it is the server that names its holders when it is
    // refused.
    for id in ids() {
        // SAFETY: a transaction's own lock is asked for, and given back at once.
        if !unsafe { pg_sys::ConditionalXactLockTableWait(id.raw(), true) } {
            return;
        }
    }
}

/// Sleeps for as long as another transaction looks at a row.
pub fn nap(microseconds: i64) {
    // SAFETY: sleeps.
    unsafe { pg_sys::pg_usleep(microseconds) };
}
