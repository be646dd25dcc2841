//! Ending one transaction and starting the next, in a procedure or in a background worker.

use std::ffi::c_void;

use pgrx::{pg_guard, pg_sys};

use crate::xid::{CommandId, SubTransactionId};

/// The environment that runs the transactions.
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
        // SAFETY: as for `commit`.
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

/// Runs `work` in a transaction of a background worker. `work` may end the transaction and start
/// others. No transaction may be in progress before; `work` leaves one in progress, and no snapshot
/// active.
pub fn in_transaction<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: no transaction is running.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
    }
    let result = work();
    // SAFETY: a transaction is running.
    unsafe { pg_sys::CommitTransactionCommand() };
    result
}

/// Cleans up after an ERROR that a background worker has caught.
pub fn abort() {
    // SAFETY: to be called at any time, in a transaction or not.
    unsafe { pg_sys::AbortCurrentTransaction() }
}

/// Makes changes of the current command visible to later commands: CommandCounterIncrement.
pub fn end_command() {
    // SAFETY: a transaction is running.
    unsafe { pg_sys::CommandCounterIncrement() }
}

/// The current command, which is marked as one that writes.
pub fn writing_command() -> CommandId {
    // SAFETY: a transaction is running.
    unsafe { pg_sys::GetCurrentCommandId(true) }
}

/// An event at, or shortly before, the end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionEvent {
    /// The catalogs can still be read.
    PreCommit,
    /// As before a commit.
    PrePrepare,
    Commit,
    Prepare,
    Abort,
    /// Any other event: those of parallel workers.
    Other,
}

impl TransactionEvent {
    /// From the server's own event.
    pub fn of(event: pg_sys::XactEvent::Type) -> TransactionEvent {
        use pg_sys::XactEvent::{
            XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PRE_COMMIT, XACT_EVENT_PRE_PREPARE,
            XACT_EVENT_PREPARE,
        };
        match event {
            XACT_EVENT_PRE_COMMIT => TransactionEvent::PreCommit,
            XACT_EVENT_PRE_PREPARE => TransactionEvent::PrePrepare,
            XACT_EVENT_COMMIT => TransactionEvent::Commit,
            XACT_EVENT_PREPARE => TransactionEvent::Prepare,
            XACT_EVENT_ABORT => TransactionEvent::Abort,
            _ => TransactionEvent::Other,
        }
    }
}

/// Whether this process is exiting. It aborts its transaction from wherever it is: interrupted
/// functions are still on the stack, with the values that they have borrowed.
fn is_exiting() -> bool {
    // SAFETY: plain read of a flag.
    unsafe { pg_sys::proc_exit_inprogress }
}

/// Registers `callback` for the events of all transactions, for the life of the process. It is
/// guarded. It is not called while the process is exiting.
pub fn at_transaction_ends(callback: fn(TransactionEvent)) {
    // SAFETY: a pointer to a function is as wide as one to data; it is made a function again by
    // `call_guarded`.
    unsafe { pg_sys::RegisterXactCallback(Some(call_guarded), callback as *mut c_void) }
}

#[pg_guard]
unsafe extern "C-unwind" fn call_guarded(event: pg_sys::XactEvent::Type, callback: *mut c_void) {
    if is_exiting() {
        return;
    }
    // SAFETY: what `at_transaction_ends` has registered.
    let callback: fn(TransactionEvent) = unsafe { std::mem::transmute(callback) };
    callback(TransactionEvent::of(event));
}

/// An event at, or shortly before, the end of a subtransaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubtransactionEvent {
    PreCommit,
    Commit,
    Abort,
    /// Its start.
    Other,
}

/// What is called at an event of a subtransaction: with its id and that of its parent.
pub type AtSubtransactionEvent = fn(SubtransactionEvent, SubTransactionId, SubTransactionId);

/// Registers `callback` for the events of all subtransactions, as [`at_transaction_ends`] does for
/// those of transactions.
pub fn at_subtransaction_ends(callback: AtSubtransactionEvent) {
    // SAFETY: a pointer to a function is as wide as one to data; it is made a function again by
    // `call_of_subtransaction`.
    unsafe {
        pg_sys::RegisterSubXactCallback(Some(call_of_subtransaction), callback as *mut c_void)
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn call_of_subtransaction(
    event: pg_sys::SubXactEvent::Type,
    subtransaction: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    callback: *mut c_void,
) {
    use pg_sys::SubXactEvent::{
        SUBXACT_EVENT_ABORT_SUB, SUBXACT_EVENT_COMMIT_SUB, SUBXACT_EVENT_PRE_COMMIT_SUB,
    };
    if is_exiting() {
        return;
    }
    let event = match event {
        SUBXACT_EVENT_PRE_COMMIT_SUB => SubtransactionEvent::PreCommit,
        SUBXACT_EVENT_COMMIT_SUB => SubtransactionEvent::Commit,
        SUBXACT_EVENT_ABORT_SUB => SubtransactionEvent::Abort,
        _ => SubtransactionEvent::Other,
    };
    // SAFETY: what `at_subtransaction_ends` has registered.
    let callback: AtSubtransactionEvent = unsafe { std::mem::transmute(callback) };
    callback(event, subtransaction, parent);
}

/// Registers `callback` for the events of all transactions, for the life of the process. It is not
/// guarded, because most transactions do not concern it: it must not panic, and must call functions
/// that raise an ERROR only inside [`guarded`].
pub fn at_events(callback: fn(TransactionEvent)) {
    // SAFETY: a pointer to a function is as wide as one to data; it is made a function again by
    // `call`.
    unsafe { pg_sys::RegisterXactCallback(Some(call), callback as *mut c_void) }
}

/// # Safety
/// Called by the server, with what `at_events` has registered.
unsafe extern "C-unwind" fn call(event: pg_sys::XactEvent::Type, callback: *mut c_void) {
    // SAFETY: what `at_events` has registered.
    let callback: fn(TransactionEvent) = unsafe { std::mem::transmute(callback) };
    callback(TransactionEvent::of(event));
}

/// Runs `work` in a callback that is not guarded as a whole, and turns its panics into ERRORs.
pub fn guarded(work: impl FnOnce()) {
    // SAFETY: nothing with a destructor lives between here and the server's frames.
    unsafe { pg_sys::panic::pgrx_extern_c_guard(work) }
}
