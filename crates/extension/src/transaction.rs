//! What happens at the ends of transactions and statements: pending rows and marks are written or
//! dropped, and the rooms that remember anything of a transaction forget it.
//!
//! Above all rooms that it tells: none of them knows of this one.
//!
//! A process that is terminated (`pg_terminate_backend`, a fast shutdown) aborts its transaction
//! from wherever it is: the interrupted functions are still on the stack, with the values that they
//! have borrowed, and will not continue. State that belongs to this process alone ends with it and
//! must be left as it is: a panic here would keep PostgreSQL from releasing the process's buffer
//! pins, and a backend that waits for those buffers would wait for ever.

use howdah_bridge::cold_lock::locker;
use howdah_bridge::executor::{self, StatementHooks};
use howdah_bridge::transactions::{
    SubtransactionEvent, TransactionEvent, at_subtransaction_ends, at_transaction_ends,
};
use howdah_bridge::xid::{CommandId, SubTransactionId, is_in_parallel_mode};

use crate::am::{cold_rows, fetch, last_row};
use crate::store::visibility::{constraint_checks, moved_changes};
use crate::store::{directory_version, pending_groups, pending_marks};
use crate::{load, slot_writer};

/// Registers the callbacks and hooks. Must be called once, from `_PG_init`.
pub fn register() {
    at_transaction_ends(at_transaction_event);
    at_subtransaction_ends(at_subtransaction_event);
    executor::install(StatementHooks {
        is_concerned: pending_marks::any,
        before_start: write_pending_marks,
        before_finish: write_pending,
        expect_rows: load::expect,
    });
}

fn at_transaction_event(event: TransactionEvent) {
    match event {
        TransactionEvent::PreCommit | TransactionEvent::PrePrepare => {
            load::flush_all();
            pending_marks::write_all();
            if event == TransactionEvent::PrePrepare {
                crate::stop_point!("prepare");
            }
        }
        TransactionEvent::Abort | TransactionEvent::Commit | TransactionEvent::Prepare => {
            load::reset();
            pending_marks::reset();
            moved_changes::reset();
            constraint_checks::reset();
            cold_rows::reset();
            directory_version::transaction_ends();
            locker::transaction_ends();
            fetch::reset();
            slot_writer::reset(event == TransactionEvent::Abort);
        }
        TransactionEvent::Other => {}
    }
}

fn at_subtransaction_event(event: SubtransactionEvent, subtransaction: SubTransactionId) {
    match event {
        SubtransactionEvent::PreCommit => {
            load::flush_subtransaction(subtransaction);
            pending_marks::write_subtransaction(subtransaction);
        }
        SubtransactionEvent::Commit => locker::subtransaction_commits(subtransaction),
        SubtransactionEvent::Abort => {
            directory_version::subtransaction_aborts();
            locker::subtransaction_aborts(subtransaction);
            load::discard_subtransaction(subtransaction);
            pending_marks::discard_subtransaction(subtransaction);
            cold_rows::forget_locks();
            // Of a file that the subtransaction has made: the command goes on counting as before.
            last_row::forget();
            fetch::reset();
        }
        SubtransactionEvent::Other => {}
    }
}

/// Pending rows of a statement are written before its AFTER triggers fire.
fn write_pending(command: Option<CommandId>) {
    if pending_groups::any()
        && let Some(command) = command
    {
        load::flush_command(command);
    }
    pending_marks::write_here();
}

/// A query that starts while rows are being hidden in bulk, for example in a trigger, may run in
/// parallel, and its workers do not see this backend's memory: marks that cannot be written now
/// forbid that. Returns whether it may run in parallel.
fn write_pending_marks() -> bool {
    if is_in_parallel_mode() {
        return true;
    }
    pending_marks::write_here();
    !pending_marks::any()
}
