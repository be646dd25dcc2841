//! How long a lock on a relation, once this transaction has taken it, is certainly held.
//!
//! What was true of a file while it was locked, such as its least length, holds as long as the
//! lock. A lock is given up when the transaction ends; when a subtransaction is rolled back that
//! has taken it, after which the transaction goes on; and at once where it was taken for a look
//! ([`ColdStore::release`](crate::store::ColdStore::release)).

use std::cell::Cell;

use crate::xid::LocalXid;

thread_local! {
    static LOCKS_GIVEN_UP: Cell<u64> = const { Cell::new(0) };
}

/// A time during which this transaction has given up no lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LockSpan {
    transaction: LocalXid,
    locks_given_up: u64,
}

impl LockSpan {
    /// That of now.
    pub fn current() -> LockSpan {
        LockSpan {
            transaction: LocalXid::current(),
            locks_given_up: LOCKS_GIVEN_UP.get(),
        }
    }
}

/// A subtransaction was rolled back, or a lock released, in a transaction that goes on.
pub fn locks_given_up() {
    LOCKS_GIVEN_UP.set(LOCKS_GIVEN_UP.get() + 1);
}
