//! Locks of rows that a command has collected: they are held until the rows are written, which
//! then are locked by their marks.
//!
//! They are few at any time: [`MOST`] of one command, then its rows are written. So a large DELETE
//! neither fills the server's lock table nor comes near the numbers of locks past which whole
//! groups are locked.
//!
//! Other backends are told of these rows: for a check of uniqueness they are being deleted from the
//! moment when they are collected, as with a mark.
//!
//! A lock is given back by the subtransaction that has taken it, at the end of its command or
//! before the subtransaction commits; one that is rolled back has released it already.

use std::cell::RefCell;

use howdah_bridge::cold_lock::{self, Locks};
use howdah_bridge::xid::{CommandId, SubTransactionId, current_subtransaction};

use super::recent_locks::Recent;

/// Rows that a command collects before they are written.
pub(super) const MOST: usize = 64;

struct Collected {
    command: CommandId,
    lock: Recent,
}

thread_local! {
    static COLLECTED: RefCell<Vec<Collected>> = const { RefCell::new(Vec::new()) };
}

/// Holds the locks of a row. Returns how many locks the command holds now.
pub(super) fn hold(locks: Vec<Recent>, command: CommandId) -> usize {
    if let Some(lock) = locks.first() {
        Locks::of_table(lock.place.0).delete_row(lock.row);
    }
    COLLECTED.with_borrow_mut(|all| {
        all.extend(locks.into_iter().map(|lock| Collected { command, lock }));
        all.iter().filter(|held| held.command == command).count()
    })
}

/// Takes the locks of a command's rows that were written. They are to be given back.
pub(super) fn take_command(command: CommandId) -> Vec<Recent> {
    let subtransaction = current_subtransaction();
    take(|held| held.command == command && held.lock.subtransaction == subtransaction)
}

/// Takes all locks of a subtransaction, whose rows were written. They are to be given back.
pub(super) fn take_subtransaction(subtransaction: SubTransactionId) -> Vec<Recent> {
    take(|held| held.lock.subtransaction == subtransaction)
}

fn take(is_taken: impl Fn(&Collected) -> bool) -> Vec<Recent> {
    COLLECTED.with_borrow_mut(|all| {
        let taken = all.extract_if(.., |held| is_taken(held));
        let taken: Vec<Recent> = taken.map(|held| held.lock).collect();
        if !taken.is_empty() {
            tell(all);
        }
        taken
    })
}

/// Tells other backends of the rows that are left.
fn tell(all: &[Collected]) {
    let rows = all.iter().map(|held| &held.lock);
    let mut rows = rows.map(|lock| (Locks::of_table(lock.place.0), lock.row));
    cold_lock::deleting(&mut rows);
}

/// Forgets the locks of a subtransaction that was rolled back, and of those within it.
pub(super) fn forget_subtransaction(subtransaction: SubTransactionId) {
    COLLECTED.with_borrow_mut(|all| {
        if !all.is_empty() {
            all.retain(|held| held.lock.subtransaction < subtransaction);
            tell(all);
        }
    });
}

/// The transaction is over; that is told by its end.
pub(super) fn reset() {
    COLLECTED.with_borrow_mut(Vec::clear);
}
