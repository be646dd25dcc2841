//! Row locks that this transaction has taken lately, to be given back where a mark replaces them.
//!
//! A statement often locks a row before it changes it: for a BEFORE trigger, for ON CONFLICT or
//! MERGE, and in the worker of a subscription, which locks every row that it finds. Once the row is
//! marked, others find the mark and wait for its transaction. If the lock stayed, a large UPDATE
//! would fill the lock table, or wait for whole row groups.
//!
//! Invariants
//! - A lock is given back only by the subtransaction that has taken it: if only the change is
//!   rolled back, the lock stays, and what is rolled back with the mark are locks of its own.
//! - The mark forbids at least what the lock did.
//! - Locks of rolled-back subtransactions are forgotten: they are released already.

use std::cell::RefCell;
use std::collections::VecDeque;

use howdah_bridge::Oid;
use howdah_bridge::cold_lock::RowLock;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::{SubTransactionId, current_subtransaction};

use super::counted_rows::Group;

/// Locks that are remembered: a row has up to three before it is changed, and its triggers may lock
/// some others.
const MOST: usize = 32;

/// A row lock that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Recent {
    pub place: Group,
    pub row: RowNumber,
    pub lock: RowLock,
    /// How many times it was requested; it is to be released as often.
    pub requests: u32,
    pub subtransaction: SubTransactionId,
}

impl Recent {
    /// A lock that the current subtransaction has newly taken.
    pub fn taken(place: Group, row: RowNumber, lock: RowLock) -> Recent {
        Recent {
            place,
            row,
            lock,
            requests: 1,
            subtransaction: current_subtransaction(),
        }
    }

    fn is_of(&self, table: Oid, row: RowNumber) -> bool {
        (self.place.0, self.row, self.subtransaction) == (table, row, current_subtransaction())
    }
}

thread_local! {
    static RECENT: RefCell<VecDeque<Recent>> = const { RefCell::new(VecDeque::new()) };
}

/// A lock was newly taken, and is kept.
pub(super) fn note(recent: Recent) {
    RECENT.with_borrow_mut(|all| {
        if all.len() == MOST {
            all.pop_front();
        }
        all.push_back(recent);
    });
}

/// A lock that was held already was requested again.
pub(super) fn note_again(table: Oid, row: RowNumber, lock: RowLock) {
    RECENT.with_borrow_mut(|all| {
        let mut all = all.iter_mut().rev();
        if let Some(recent) = all.find(|recent| recent.is_of(table, row) && recent.lock == lock) {
            recent.requests += 1;
        }
    });
}

/// The locks of a row that a mark of this strength replaces. They are forgotten here, and to be
/// given back.
pub(super) fn take(table: Oid, row: RowNumber, mark: RowLock) -> Vec<Recent> {
    let is_replaced = |recent: &Recent| recent.is_of(table, row) && recent.lock <= mark;
    RECENT.with_borrow_mut(|all| {
        if !all.iter().any(is_replaced) {
            return Vec::new();
        }
        let taken = all.iter().copied().filter(is_replaced).collect();
        all.retain(|recent| !is_replaced(recent));
        taken
    })
}

/// Locks may have been released: the transaction is over, or a subtransaction was rolled back.
pub(super) fn forget() {
    RECENT.with_borrow_mut(VecDeque::clear);
}
