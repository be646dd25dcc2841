//! Ending one transaction and starting the next inside a procedure.

use pgrx::pg_sys;

/// Whoever compacts runs in a `CALL` outside a transaction block, connected to SPI without
/// atomicity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transactions {
    Procedure,
}

impl Transactions {
    /// Commits and starts the next transaction. No snapshot may be active.
    pub fn commit(self) {
        // SAFETY: the caller runs in the environment that the variant names.
        unsafe { pg_sys::SPI_commit() }
    }

    /// Rolls back and starts the next transaction.
    pub fn rollback(self) {
        // SAFETY: as above.
        unsafe { pg_sys::SPI_rollback() }
    }
}
