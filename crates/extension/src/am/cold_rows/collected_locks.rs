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

use howdah_bridge::Oid;
use howdah_bridge::cold_lock::{self, Locks};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::{CommandId, SubTransactionId, current_subtransaction};

use super::recent_locks::Recent;

/// Rows that a command collects before they are written.
pub(super) const MOST: usize = 64;

struct Collected {
    command: CommandId,
    subtransaction: SubTransactionId,
    table: Oid,
    row: RowNumber,
    locks: RowLocks,
}

/// The locks of a row that are to be given back.
pub(super) struct RowLocks {
    /// The one that was taken for its change; none if the row was locked before, and stays so.
    pub taken: Option<Recent>,
    /// Those that its subtransaction had taken before; mostly none.
    pub before: Vec<Recent>,
}

thread_local! {
    static COLLECTED: RefCell<Vec<Collected>> = const { RefCell::new(Vec::new()) };
}

/// Holds the locks of a row, which are to be given back later. Returns how many rows the command
/// has collected.
pub(super) fn hold(table: Oid, row: RowNumber, locks: RowLocks, command: CommandId) -> usize {
    Locks::of_table(table).delete_row(row);
    COLLECTED.with_borrow_mut(|all| {
        all.push(Collected {
            command,
            subtransaction: current_subtransaction(),
            table,
            row,
            locks,
        });
        all.iter().filter(|held| held.command == command).count()
    })
}

/// Takes the locks of a command's rows that were written. They are to be given back.
pub(super) fn take_command(command: CommandId) -> Vec<Recent> {
    let subtransaction = current_subtransaction();
    take(|held| held.command == command && held.subtransaction == subtransaction)
}

/// Takes all locks of a subtransaction, whose rows were written. They are to be given back.
pub(super) fn take_subtransaction(subtransaction: SubTransactionId) -> Vec<Recent> {
    take(|held| held.subtransaction == subtransaction)
}

fn take(is_taken: impl Fn(&Collected) -> bool) -> Vec<Recent> {
    COLLECTED.with_borrow_mut(|all| {
        let taken = all.extract_if(.., |held| is_taken(held));
        let taken: Vec<Collected> = taken.collect();
        if !taken.is_empty() {
            tell(all);
        }
        let locks = taken.into_iter().map(|held| held.locks);
        locks
            .flat_map(|locks| locks.before.into_iter().chain(locks.taken))
            .collect()
    })
}

/// Tells other backends of the rows that are left.
fn tell(all: &[Collected]) {
    let rows = all.iter();
    cold_lock::deleting(&mut rows.map(|held| (Locks::of_table(held.table), held.row)));
}

/// Forgets the locks of a subtransaction that was rolled back, and of those within it.
pub(super) fn forget_subtransaction(subtransaction: SubTransactionId) {
    COLLECTED.with_borrow_mut(|all| {
        if !all.is_empty() {
            all.retain(|held| held.subtransaction < subtransaction);
            tell(all);
        }
    });
}

/// The transaction is over; that is told by its end.
pub(super) fn reset() {
    COLLECTED.with_borrow_mut(Vec::clear);
}
