//! Progress of running compactions, as `howdah.stat_progress_compact` shows it.

use std::sync::atomic::Ordering::Relaxed;

use howdah_bridge::Oid;
use howdah_bridge::maintained::has_waiters;
use howdah_bridge::process::{may_see_activity_of, own_pid, role_of};
use howdah_bridge::table::Table;
use howdah_bridge::tid::BlockNumber;
use howdah_bridge::xid::current_database;
use pgrx::iter::TableIterator;
use pgrx::{name, pg_extern};

use super::shared::{self, ProgressSlot};

/// What a compaction is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    Vacuuming = 0,
    Reading = 1,
    Encoding = 2,
    Writing = 3,
    Indexing = 4,
    Stamping = 5,
    Merging = 6,
}

const PHASE_NAMES: [&str; 7] = [
    "vacuuming",
    "reading hot rows",
    "encoding",
    "writing row group",
    "inserting index entries",
    "updating hot rows",
    "merging row groups",
];

/// A slot that one compaction has taken; freed on drop, also after an error.
pub struct Progress(Option<&'static ProgressSlot>);

impl Progress {
    /// Takes a slot; if none is free, nothing is shown. A process that was terminated has left its
    /// own, which is free as well.
    pub fn start(table: Oid) -> Progress {
        let (pid, database) = (own_pid(), current_database());
        let slot = shared::progress_slots().iter().find(|slot| {
            let holder = slot.pid.load(Relaxed);
            let is_free = holder == 0 || holder == pid || role_of(holder).is_none();
            is_free && (slot.pid.compare_exchange(holder, pid, Relaxed, Relaxed)).is_ok()
        });
        if let Some(slot) = slot {
            slot.database.store(database.to_u32(), Relaxed);
            slot.relation.store(table.to_u32(), Relaxed);
            slot.phase.store(Phase::Vacuuming as u32, Relaxed);
            slot.hot_blocks.store(0, Relaxed);
            slot.hot_blocks_done.store(0, Relaxed);
            slot.rows_moved.store(0, Relaxed);
            slot.groups_moved.store(0, Relaxed);
            slot.groups_merged.store(0, Relaxed);
        }
        Progress(slot)
    }

    /// Whether another process compacts the table as well.
    fn has_others(table: Oid) -> bool {
        let (pid, database) = (own_pid(), current_database().to_u32());
        shared::progress_slots().iter().any(|slot| {
            let holder = slot.pid.load(Relaxed);
            ![0, pid].contains(&holder)
                && slot.relation.load(Relaxed) == table.to_u32()
                && slot.database.load(Relaxed) == database
                && role_of(holder).is_some()
        })
    }

    pub fn phase(&self, phase: Phase) {
        if let Some(slot) = self.0 {
            slot.phase.store(phase as u32, Relaxed);
        }
    }

    /// Sets how many blocks of the hot side were examined, and of how many.
    pub fn blocks(&self, done: BlockNumber, all: BlockNumber) {
        if let Some(slot) = self.0 {
            slot.hot_blocks_done.store(done, Relaxed);
            slot.hot_blocks.store(all, Relaxed);
        }
    }

    pub fn moved(&self, rows: u32) {
        if let Some(slot) = self.0 {
            slot.rows_moved.fetch_add(u64::from(rows), Relaxed);
            slot.groups_moved.fetch_add(1, Relaxed);
        }
    }

    pub fn merged(&self, groups: u32) {
        if let Some(slot) = self.0 {
            slot.groups_merged.fetch_add(u64::from(groups), Relaxed);
        }
    }
}

/// Whether a step of compaction is to be given up, because another backend waits for the table that
/// it has locked. If another compaction of the table is about, which may be the one that waits, the
/// step goes on: two that give way to each other would come to nothing, and leave what they had
/// written each time. Others that wait get their turn after the step.
pub fn must_yield(table: Table<'_>) -> bool {
    has_waiters(table) && !Progress::has_others(table.oid())
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.pid.store(0, Relaxed);
        }
    }
}

/// One row per running compaction of the server. As in pg_stat_progress_vacuum every role sees
/// process and database. The rest is visible to roles with the rights of the role that compacts, or
/// of `pg_read_all_stats`; a background worker's role is the bootstrap superuser.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn compactions() -> TableIterator<
    'static,
    (
        name!(pid, i32),
        name!(database, Oid),
        name!(relation, Option<Oid>),
        name!(phase, Option<&'static str>),
        name!(hot_blocks, Option<i64>),
        name!(hot_blocks_done, Option<i64>),
        name!(rows_moved, Option<i64>),
        name!(groups_moved, Option<i64>),
        name!(groups_merged, Option<i64>),
    ),
> {
    let rows: Vec<_> = shared::progress_slots()
        .iter()
        .filter_map(|slot| {
            let pid = slot.pid.load(Relaxed);
            let role = if pid == 0 { None } else { role_of(pid) };
            let shown = may_see_activity_of(role?);
            let phase = PHASE_NAMES
                .get(slot.phase.load(Relaxed) as usize)
                .copied()
                .unwrap_or("unknown");
            let number = |value: u64| shown.then_some(value as i64);
            Some((
                pid,
                Oid::from(slot.database.load(Relaxed)),
                shown.then(|| Oid::from(slot.relation.load(Relaxed))),
                shown.then_some(phase),
                number(u64::from(slot.hot_blocks.load(Relaxed))),
                number(u64::from(slot.hot_blocks_done.load(Relaxed))),
                number(slot.rows_moved.load(Relaxed)),
                number(slot.groups_moved.load(Relaxed)),
                number(slot.groups_merged.load(Relaxed)),
            ))
        })
        .collect();
    TableIterator::new(rows)
}
