//! Ending one transaction and starting the next, in a procedure or in a worker.

use pgrx::pg_sys;

/// Who runs the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transactions {
    /// `CALL`, outside a transaction block, connected to SPI without atomicity.
    Procedure,
    /// A background worker's main loop.
    Worker,
}

impl Transactions {
    /// Commits and starts the next transaction. No snapshot may be active.
    pub fn commit(self) {
        // SAFETY: the caller runs in the environment that the variant names.
        unsafe {
            match self {
                Transactions::Procedure => pg_sys::SPI_commit(),
                Transactions::Worker => {
                    pg_sys::CommitTransactionCommand();
                    pg_sys::StartTransactionCommand();
                }
            }
        }
    }

    /// Rolls back and starts the next transaction.
    pub fn rollback(self) {
        // SAFETY: as above.
        unsafe {
            match self {
                Transactions::Procedure => pg_sys::SPI_rollback(),
                Transactions::Worker => {
                    pg_sys::AbortCurrentTransaction();
                    pg_sys::StartTransactionCommand();
                }
            }
        }
    }
}
