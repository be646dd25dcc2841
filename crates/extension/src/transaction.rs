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
use howdah_bridge::process::applies_changes;
use howdah_bridge::transactions::{
    SubtransactionEvent, TransactionEvent, at_subtransaction_ends, at_transaction_ends,
};
use howdah_bridge::xid::{CommandId, SubTransactionId, is_in_parallel_mode};
use howdah_bridge::{lock_span, spare_memory};

use crate::am::{cold_rows, fetch, held_store, last_row};
use crate::store::visibility::{constraint_checks, moved_changes};
use crate::store::{directory_version, pending_groups, pending_marks};
use crate::{load, slot_writer};

/// Registers the callbacks and hooks. Must be called once, from `_PG_init`.
pub fn register() {
    at_transaction_ends(at_transaction_event);
    at_subtransaction_ends(at_subtransaction_event);
    executor::install(StatementHooks {
        forbids_workers,
        before_finish: write_pending,
        expect_rows: load::expect,
        expect_changes,
    });
}

fn expect_changes(command: CommandId, row_count: f64) {
    held_store::expect_changes(command);
    cold_rows::expect_changes(command, row_count);
}

fn at_transaction_event(event: TransactionEvent) {
    match event {
        TransactionEvent::PreCommit | TransactionEvent::PrePrepare => {
            load::flush_all();
            cold_rows::write_all();
            let prepares = event == TransactionEvent::PrePrepare;
            if prepares && applies_changes() && !pending_marks::has_written() {
                // The transaction is ended by this worker, after others that it applies meanwhile.
                // These have not waited for it on the publisher, and must not here.
                cold_rows::give_back_groups();
            }
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
            held_store::forget();
            directory_version::transaction_ends();
            locker::transaction_ends();
            fetch::reset();
            spare_memory::give_back();
            slot_writer::reset(event == TransactionEvent::Abort);
        }
        TransactionEvent::Other => {}
    }
}

fn at_subtransaction_event(
    event: SubtransactionEvent,
    subtransaction: SubTransactionId,
    parent: SubTransactionId,
) {
    match event {
        SubtransactionEvent::PreCommit => {
            load::flush_subtransaction(subtransaction);
            cold_rows::write_subtransaction(subtransaction);
        }
        SubtransactionEvent::Commit => {
            locker::subtransaction_commits(subtransaction);
            cold_rows::subtransaction_commits(subtransaction, parent);
        }
        SubtransactionEvent::Abort => {
            lock_span::locks_given_up();
            directory_version::subtransaction_aborts();
            locker::subtransaction_aborts(subtransaction);
            load::discard_subtransaction(subtransaction);
            pending_marks::discard_subtransaction(subtransaction);
            cold_rows::subtransaction_aborts(subtransaction);
            held_store::forget();
            // Of a file that the subtransaction has made: the command goes on counting as before.
            last_row::forget();
            fetch::reset();
        }
        SubtransactionEvent::Other => {}
    }
}

/// Pending rows and marks of a statement are written before its AFTER triggers fire. Those of an
/// outer one are not: it would write each of its rows by itself where a function or a trigger runs
/// a query for it.
fn write_pending(command: CommandId) {
    load::flush_command(command);
    cold_rows::write_command(command);
}

/// A query that starts while rows are loaded, or hidden in bulk, for example in a trigger, might
/// run in parallel; but workers do not see this backend's memory.
fn forbids_workers() -> bool {
    !is_in_parallel_mode() && (pending_marks::any() || pending_groups::any())
}
