//! Deletes marks that are not needed any more.
//!
//! - The mark of a row is not needed once a deletion vector in force hides the row; one of several
//!   rows, once deletion vectors hide them all.
//! - A list of new versions is not needed once every snapshot is younger than its writer.
//! - Nothing about a dead group is needed.
//!
//! The deletion is an ordinary MVCC deletion: an older snapshot continues to see the mark, and
//! VACUUM of the TOAST relation removes it in the end.
//!
//! Locks: the lock on the table excludes other sweeps, merges and VACUUM. A concurrent transaction
//! that hides rows adds marks and replaces deletion vectors by larger ones; neither makes a mark
//! needed again. A concurrent load adds groups, whose rows may be hidden at once, and the numbers
//! that it gives back become another group's. So the directory decides only when it is read after
//! the marks: it then has the group of each.

use std::collections::HashMap;
use std::ops::ControlFlow;

use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{GroupId, ROWS_PER_COLD_BLOCK, RowNumber, Tid};
use howdah_bridge::xid::Xid;
use howdah_records::BlockDeletions;

use super::progress::must_yield;
use super::task::{Task, open};
use super::throttle;
use crate::errors::{ColdError, or_raise};
use crate::stop_point;
use crate::store::directory::{self, GroupEntry};
use crate::store::marks::{self, Sweepable};
use crate::store::row_set::RowSet;
use crate::store::visibility::group_status::{self, JudgedEntry};

/// The maximal number of deletions in one transaction.
const BATCH: usize = 50_000;
/// The maximal number of marks of rows that one transaction examines.
const MOST_MARKS: usize = 4_000_000;

/// Deletes some marks. `false` if there was none to delete; the transaction is to be committed in
/// that case, too.
pub fn sweep(task: &Task) -> bool {
    let Some(step) = open(task.table, task.patient) else {
        return false;
    };
    let table = step.table();
    let Some(store) = ColdStore::open(table, LockMode::RowExclusive) else {
        return false;
    };
    !must_yield(step.table()) && or_raise(task.table, sweep_some(table, &store))
}

fn sweep_some(table: Table<'_>, store: &ColdStore) -> Result<bool, ColdError> {
    let Some((_, end)) = directory::high_water(store)? else {
        return Ok(false);
    };
    let horizon = group_status::horizon(store);
    // What looks needless by this is judged again below.
    let entries = group_status::entries_not_dead(store, horizon)?;
    stop_point!("sweep_scan");
    let is_old = |xid: Xid| xid.precedes(horizon);
    let mut candidates: Vec<(Tid, Sweepable)> = Vec::new();
    let mut marked: Vec<(Tid, Marked)> = Vec::new();
    marks::for_each_sweepable(store, end, |tid, record| {
        match (entry_of(&entries, record.first_row()), record) {
            (None, _) => candidates.push((tid, record)),
            (Some(_), Sweepable::UpdateLinks(_, writer)) if is_old(writer) => {
                candidates.push((tid, record))
            }
            (Some(_), Sweepable::Row(row)) => marked.push((tid, Marked::Row(row))),
            (Some(_), Sweepable::Block(first, Some(rows))) => {
                marked.push((tid, Marked::Block(first, Box::new(rows))));
            }
            _ => {}
        }
        if candidates.len() >= BATCH || marked.len() >= MOST_MARKS {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    if candidates.is_empty() && marked.is_empty() {
        return Ok(false);
    }
    let entries = group_status::entries_not_dead(store, horizon)?;
    let mut needless = candidates;
    needless.retain(|(_, record)| match record {
        Sweepable::UpdateLinks(_, writer) if is_old(*writer) => true,
        _ => entry_of(&entries, record.first_row()).is_none(),
    });
    let mut folded: HashMap<GroupId, RowSet> = HashMap::new();
    for (tid, mark) in marked {
        if needless.len() >= BATCH {
            break;
        }
        let first = mark.first_row();
        let Some(entry) = entry_of(&entries, first) else {
            continue;
        };
        let rows = match folded.get(&entry.group()) {
            Some(rows) => rows,
            None => {
                let rows = marks::folded(store, entry)?;
                folded.entry(entry.group()).or_insert(rows)
            }
        };
        let is_folded = |row: RowNumber| rows.contains((row.0 - entry.first_row.0) as u32);
        if mark.all(is_folded) {
            needless.push((tid, Sweepable::Row(first)));
        }
    }
    if !needless.is_empty() {
        stop_point!("sweep_delete");
    }
    for (tid, record) in &needless {
        store.delete(*tid);
        if let Sweepable::Forward(_, Some(value)) = record {
            store.delete_value(*value);
        }
        howdah_bridge::check_for_interrupts!();
        throttle::pay(table);
    }
    if !needless.is_empty() {
        stop_point!("sweep_commit");
    }
    Ok(!needless.is_empty())
}

/// A mark whose rows may all be in deletion vectors.
enum Marked {
    Row(RowNumber),
    /// The first row of several of one block.
    Block(RowNumber, Box<BlockDeletions>),
}

impl Marked {
    fn first_row(&self) -> RowNumber {
        match self {
            Marked::Row(row) | Marked::Block(row, _) => *row,
        }
    }

    fn all(&self, is_so: impl Fn(RowNumber) -> bool) -> bool {
        match self {
            Marked::Row(row) => is_so(*row),
            Marked::Block(first, rows) => {
                let start = first.0 / ROWS_PER_COLD_BLOCK * ROWS_PER_COLD_BLOCK;
                let mut rows = rows.places().map(|at| RowNumber(start + u64::from(at)));
                rows.all(is_so)
            }
        }
    }
}

/// The entry, not a dead one, that covers the row.
fn entry_of(entries: &[JudgedEntry], row: RowNumber) -> Option<&GroupEntry> {
    let after = entries.partition_point(|e| e.placed.entry.first_row <= row);
    let entry = &entries[after.checked_sub(1)?].placed.entry;
    entry.covers(row).then_some(entry)
}
