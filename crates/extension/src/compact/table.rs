//! One table, open for one step of compaction, and the loop over its row groups.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use howdah_bridge::Oid;
use howdah_bridge::maintained::{MaintainedTable, Purpose};
use howdah_bridge::process;
use howdah_bridge::table_counts;
use howdah_bridge::transactions::Transactions;

use super::first_move;
use super::merge::{self, Merge};
use super::mover::{self, Step};
use super::policy::{self, Policy};
use super::progress::{Phase, Progress};
use super::survey::BlockSet;
use super::sweep;
use super::throttle;
use crate::am;

/// How long a requested compaction lets waiting backends go first.
const YIELD: Duration = Duration::from_millis(5);

/// Opens a table for a step. `None` if it was dropped, is not ours to compact, or (unless `wait`)
/// is locked. To be called at the start of a transaction.
pub fn open(table: Oid, wait: bool) -> Option<MaintainedTable> {
    open_for(table, wait, Purpose::Any)
}

/// As [`open`], for a purpose.
pub fn open_for(table: Oid, wait: bool, purpose: Purpose) -> Option<MaintainedTable> {
    MaintainedTable::open(table, wait, purpose, am::is_ours)
}

/// What a compaction is to do.
#[derive(Clone, Debug)]
pub struct Task {
    pub table: Oid,
    pub policy: Policy,
    /// Pages that may be moved; `None`: every page.
    pub quiet: Option<Rc<BlockSet>>,
    /// Whether to wait for the table's lock, and to continue after other backends were let first.
    pub patient: bool,
}

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub moved_rows: u64,
    pub moved_groups: u64,
    pub merged_groups: u64,
}

/// Moves and merges until there is nothing left to do, one transaction per row group. Called at the
/// beginning of a transaction, and returns at the beginning of one.
pub fn compact(task: &Task, transactions: Transactions, progress: &Progress) -> Tally {
    let mut tally = Tally::default();
    let mut refused = HashSet::new();
    if !first_move::prepare(task, transactions) {
        return tally;
    }
    let mut from = Some(0);
    while let Some(block) = from {
        pgrx::check_for_interrupts!();
        if !task.patient && switched_off() {
            return tally;
        }
        match mover::move_group(task, block, &refused, progress) {
            Step::Moved { rows, next_block } => {
                transactions.commit();
                // From now on the stamped versions are VACUUM's business. They are reported after
                // the commit, and not by way of pending counts, which could outlast VACUUM's report
                // of the same versions.
                table_counts::add(task.table, 0, i64::from(rows));
                crate::stop_point!("committed");
                tally.moved_rows += u64::from(rows);
                tally.moved_groups += 1;
                progress.moved(rows);
                from = next_block;
            }
            Step::Refused(blocks) => {
                transactions.rollback();
                refused.extend(blocks);
            }
            Step::Yielded if task.patient => {
                transactions.rollback();
                process::sleep(YIELD);
            }
            Step::Yielded => {
                transactions.rollback();
                return tally;
            }
            Step::Finished => {
                transactions.commit();
                from = None;
            }
        }
    }
    progress.phase(Phase::Merging);
    let mut at_work = HashSet::new();
    loop {
        match merge::merge_groups(task, &at_work) {
            Merge::Refused(groups) => {
                transactions.rollback();
                at_work.extend(groups);
            }
            Merge::Merged(groups) => {
                transactions.commit();
                progress.merged(groups);
                tally.merged_groups += u64::from(groups);
            }
            // The merge may have written its group and deleted none.
            Merge::Yielded => {
                transactions.rollback();
                if !task.patient {
                    return tally;
                }
                process::sleep(YIELD);
            }
            Merge::Nothing => {
                transactions.commit();
                break;
            }
        }
    }
    while sweep::sweep(task) {
        transactions.commit();
    }
    transactions.commit();
    tally
}

/// Whether a changed configuration tells a background worker to stop.
fn switched_off() -> bool {
    process::reload_settings_if_asked();
    throttle::refresh();
    !policy::compaction()
}
