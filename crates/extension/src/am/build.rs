//! Cold rows in index builds.
//!
//! They are added group by group, with the columns that the index reads, after the hot rows
//! ([`howdah_bridge::index_build`]). The status of a cold group is decided as a whole, by its
//! directory entry and the same rules as for a hot row; rows that have marks are decided one by
//! one.
//!
//! In a parallel build the participants claim cold groups from the counter that follows heap's, so
//! each group is built by one of them.
//!
//! Kinds of index that cannot hold cold TIDs (BRIN) get hot rows only.

use howdah_bridge::index_build::{self, Build, BuildIndex, IndexInfo, OuterScan};
use howdah_bridge::indexes::is_brin;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::table_am::Routine;
use howdah_bridge::tid::RowNumber;
use pgrx::PgMemoryContexts;

use crate::cursor::{ColdCursor, SharedNext};
use crate::errors::or_raise;
use crate::store::directory::GroupEntry;
use crate::store::pending_groups;
use crate::store::view::{ColdGroup, ColdView, Wanted};
use crate::store::visibility::group_status::{self, GroupStatus, JudgedEntry};
use crate::store::visibility::{RowStatus, row_status};

pub(super) fn install(am: &mut Routine) {
    index_build::set_build::<ColdRows>(am);
}

/// The columns of a table's rows that an index reads.
pub(super) fn columns_of(table: Table<'_>, info: IndexInfo<'_>) -> Wanted {
    let count = table.descriptor().attribute_count();
    match info.attributes_read(count) {
        Some(flags) => Wanted::Some(flags.into()),
        None => Wanted::All,
    }
}

/// What the build does with one row.
#[derive(Clone, Copy)]
struct Verdict {
    alive: bool,
    counts: bool,
}

/// What the build does with the rows of one group.
struct GroupVerdict {
    first_row: RowNumber,
    unmarked: Verdict,
    /// The status of rows that have marks.
    marked: Option<RowStatus>,
}

impl GroupVerdict {
    /// `None` if the row is dead.
    fn of(&self, row: RowNumber) -> Option<Verdict> {
        let position = (row.0 - self.first_row.0) as u32;
        match &self.marked {
            Some(marked) if marked.dead.contains(position) => None,
            Some(marked) if marked.recently_dead.contains(position) => Some(Verdict {
                alive: false,
                counts: false,
            }),
            Some(marked) if marked.delete_in_progress.contains(position) => Some(Verdict {
                alive: false,
                ..self.unmarked
            }),
            _ => Some(self.unmarked),
        }
    }
}

struct ColdRows;

impl BuildIndex for ColdRows {
    fn add_rows(build: &mut Build<'_>, scan: OuterScan<'_>) -> f64 {
        if is_brin(build.index()) {
            return 0.0;
        }
        let table = build.table();
        let Some((view, verdicts)) = cold_view(build, scan.snapshot()) else {
            return 0.0;
        };
        // Groups whose status depends on an in-progress transaction are kept: their rows must be
        // there.
        let is_deleted = |rows: &Verdict| !rows.alive && !rows.counts;
        let deleted = verdicts.iter().map(|group| is_deleted(&group.unmarked));
        let deleted = deleted.collect();
        let wanted = columns_of(table, build.info());
        let cursor = ColdCursor::new(view, wanted, scan.shared().map(SharedNext::new));
        // The cursor lives in the current memory context, so that an ERROR may jump over this
        // frame.
        let work = Some((cursor.without_dead_groups(deleted), verdicts));
        let work = PgMemoryContexts::CurrentMemoryContext.leak_and_drop_on_delete(work);
        // SAFETY: the context outlives the build, and only this function knows the place.
        let work = unsafe { &mut *work };
        let (mut row_count, mut rows_read) = (0.0, 0);
        if let Some((cursor, verdicts)) = work {
            while let Some(row) = cursor.next(table) {
                howdah_bridge::check_for_interrupts!();
                let verdict = verdicts[cursor.group_index()].of(row);
                let Some(verdict) = verdict else { continue };
                rows_read += 1;
                row_count += f64::from(u8::from(verdict.counts));
                cursor.store(table, build.slot());
                build.add(row.tid(), verdict.alive);
            }
        }
        build.slot().clear();
        if let Some((cursor, _)) = work.take() {
            cursor.end();
        }
        table.count_rows_read(rows_read);
        row_count
    }
}

/// The groups to build, and what to do with the rows of each. `None` if there are none.
fn cold_view<'a>(
    build: &Build<'_>,
    snapshot: Snapshot<'a>,
) -> Option<(ColdView<'a>, Vec<GroupVerdict>)> {
    const WHOLE: Verdict = Verdict {
        alive: true,
        counts: true,
    };
    let table = build.table();
    if !build.judges_itself() {
        let view = ColdView::of(table, snapshot);
        let verdicts = view.groups.iter().map(|group| GroupVerdict {
            first_row: group.first_row(),
            unmarked: WHOLE,
            marked: None,
        });
        let verdicts = verdicts.collect();
        return (!view.is_empty()).then_some((view, verdicts));
    }
    let mut groups: Vec<(ColdGroup, Verdict)> = judged_groups(build)
        .into_iter()
        .map(|e| {
            let verdict = Verdict {
                alive: matches!(
                    e.status,
                    GroupStatus::Live | GroupStatus::InsertInProgress(_)
                ),
                counts: e.status.counts_as_live(),
            };
            (ColdGroup::Stored(e.placed.entry), verdict)
        })
        .collect();
    // Rows of a load of this transaction that are still in memory.
    let pending = pending_groups::visible(table, snapshot);
    groups.extend(pending.into_iter().map(|group| (group, WHOLE)));
    groups.sort_by_key(|(group, _)| group.first_row());
    let verdicts = groups
        .iter()
        .map(|(group, unmarked)| GroupVerdict {
            first_row: group.first_row(),
            unmarked: *unmarked,
            marked: judged_marks(build, group.entry()),
        })
        .collect();
    let view = ColdView {
        groups: groups.into_iter().map(|(group, _)| group).collect(),
        ..ColdView::default()
    };
    (!view.is_empty()).then_some((view, verdicts))
}

/// The status of the marked rows of a group. Waits for in-progress transactions that have written
/// marks where uniqueness depends on them, as for hot rows.
fn judged_marks(build: &Build<'_>, entry: &GroupEntry) -> Option<RowStatus> {
    if entry.flags.are_clear() {
        return None;
    }
    let table = build.table();
    let store = ColdStore::open(table, LockMode::AccessShare)?;
    let horizon = group_status::horizon(&store);
    loop {
        let status = or_raise(table.oid(), row_status(&store, entry, horizon));
        let Some(xid) = status.deleter else {
            return Some(status);
        };
        build.warn_of("delete");
        if !build.info().checks_uniqueness() {
            return Some(status);
        }
        build.wait_for(xid, entry.first_row.tid());
    }
}

/// The stored groups that are not dead. Waits for in-progress transactions that have written or
/// deleted groups where uniqueness depends on them, as for hot rows.
fn judged_groups(build: &Build<'_>) -> Vec<JudgedEntry> {
    let table = build.table();
    let Some(store) = ColdStore::open(table, LockMode::AccessShare) else {
        return Vec::new();
    };
    if store.toast().main_fork_blocks() == 0 {
        return Vec::new();
    }
    let horizon = group_status::horizon(&store);
    loop {
        let mut entries = or_raise(table.oid(), group_status::entries_not_dead(&store, horizon));
        entries.retain(JudgedEntry::has_stored_rows);
        let foreign = entries
            .iter()
            .find_map(|e| e.status.foreign_transaction().map(|xid| (xid, e)));
        let Some((xid, entry)) = foreign else {
            return entries;
        };
        build.warn_of(match entry.status {
            GroupStatus::DeleteInProgress(_) => "delete",
            _ => "insert",
        });
        if !build.info().checks_uniqueness() {
            return entries;
        }
        build.wait_for(xid, entry.placed.entry.first_row.tid());
    }
}
