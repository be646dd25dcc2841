//! The loop over the row groups of one table.

use std::collections::HashSet;
use std::time::Duration;

use howdah_bridge::process;
use howdah_bridge::table_counts;
use howdah_bridge::transactions::Transactions;

use super::first_move;
use super::merge::{self, Merge};
use super::mover::{self, Step};
use super::policy;
use super::progress::{Phase, Progress};
use super::sweep;
use super::task::Task;
use super::throttle;

/// How long a requested compaction lets waiting backends go first.
const YIELD: Duration = Duration::from_millis(5);

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub moved_rows: u64,
    pub moved_groups: u64,
    pub merged_groups: u64,
    /// Whether pages were moved in part, so that there is more to do once they were vacuumed.
    pub is_cut: bool,
}

/// Moves and merges until there is nothing left to do, one transaction per row group. Called at the
/// beginning of a transaction, and returns at the beginning of one.
pub fn compact(task: &Task, transactions: Transactions, progress: &Progress) -> Tally {
    let mut tally = Tally::default();
    let mut refused = HashSet::new();
    let Some(mut prepared) = first_move::prepare(task, transactions) else {
        return tally;
    };
    let mut from = Some(0);
    while let Some(block) = from {
        howdah_bridge::check_for_interrupts!();
        if !task.patient && switched_off() {
            return tally;
        }
        match mover::move_group(task, prepared, block, &refused, progress) {
            Step::Moved {
                rows,
                next_block,
                is_cut,
            } => {
                transactions.commit();
                // VACUUM removes the stamped versions later. They are reported after the commit,
                // and not by way of pending counts, which could outlast VACUUM's report of the same
                // versions.
                table_counts::add(task.table, 0, i64::from(rows));
                crate::stop_point!("committed");
                tally.moved_rows += u64::from(rows);
                tally.moved_groups += 1;
                progress.moved(rows);
                tally.is_cut |= is_cut;
                from = next_block;
            }
            Step::Refused(blocks) => {
                transactions.rollback();
                refused.extend(blocks);
            }
            Step::Unprepared => {
                transactions.rollback();
                match first_move::prepare(task, transactions) {
                    Some(again) => prepared = again,
                    None => return tally,
                }
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
