//! `howdah.describe_lock`: what a TID of a howdah table, or a lock that `pg_locks` shows, is for.
//!
//! ```text
//!   block          offset              target
//!   cold           1 … 256             row
//!   cold           the same + 0x8000   queue for row
//!   cold           0, or none          row group, or one of its other blocks of 256 rows
//!   0xFFFF_FFFE    0, or none          rows by index
//!   hot            1 …; 0, or none     hot row; hot page
//! ```
//!
//! The state of a row is that of this moment, not that which a snapshot sees: a lock is waited for
//! whether or not the session's snapshot sees the row.

use howdah_bridge::Oid;
use howdah_bridge::predicate::READERS_BLOCK;
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{
    BlockNumber, FIRST_COLD_BLOCK, GroupId, INVALID_BLOCK, RawTid, RowNumber, TURN_BITS, Tid,
};
use pgrx::iter::TableIterator;
use pgrx::{PgSqlErrorCode, name, pg_extern};

use super::visible::Visible;
use super::{no_such_relation, open_howdah};
use crate::am;
use crate::errors::{ColdError, or_raise, refuse};
use crate::store::directory::{self, GroupState, PlacedEntry};
use crate::store::marks::{self, Mark, RowFate, RowState};

type Described = (
    Option<&'static str>,
    Option<RawTid>,
    Option<i64>,
    Option<i64>,
    Option<&'static str>,
    Option<RawTid>,
);

/// What a TID of a howdah table stands for.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn describe_tid(
    relation: Oid,
    tid: RawTid,
) -> TableIterator<
    'static,
    (
        name!(target, Option<&'static str>),
        name!(row, Option<RawTid>),
        name!(row_number, Option<i64>),
        name!(row_group, Option<i64>),
        name!(state, Option<&'static str>),
        name!(new_row, Option<RawTid>),
    ),
> {
    let tid = Tid::from_raw(tid);
    let lock = LockMode::AccessShare as u32;
    let Some(rel) = OpenRelation::try_open(relation, lock) else {
        no_such_relation(relation);
    };
    let rel = rel.releasing(lock);
    let table = rel.table();
    if !am::is_ours(table) {
        refuse(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{}\" is not a howdah table", table.name()),
            None,
        );
    }
    if table.is_temporary_of_others() {
        refuse(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            "cannot access temporary tables of other sessions".into(),
            None,
        );
    }
    if table.is_empty_on_standby() {
        return TableIterator::empty();
    }
    let target = Target::of(tid.block(), tid.offset());
    let is_beyond = !tid.is_cold() && tid.block() >= table.main_fork_blocks();
    match target.filter(|_| !is_beyond) {
        Some(target) => TableIterator::once(describe(&rel, target)),
        None => refuse(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!(
                "tid ({}, {}) is not valid for relation \"{}\"",
                tid.block(),
                tid.offset(),
                table.name()
            ),
            None,
        ),
    }
}

/// What a lock is for whose tag has this page and, as a lock of a row has, this tuple. One row; no
/// row for locks of other relations, and for other locks.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn describe_page_lock(
    relation: Option<Oid>,
    page: Option<i32>,
    tuple: Option<i16>,
) -> TableIterator<
    'static,
    (
        name!(target, Option<&'static str>),
        name!(row, Option<RawTid>),
        name!(row_number, Option<i64>),
        name!(row_group, Option<i64>),
        name!(state, Option<&'static str>),
        name!(new_row, Option<RawTid>),
    ),
> {
    // pg_locks shows both as signed numbers.
    let target = page.and_then(|page| Target::of(page as u32, tuple.unwrap_or(0) as u16));
    let found = relation.zip(target).and_then(|(relation, target)| {
        let rel = open_howdah(relation)?;
        Some(describe(&rel, target))
    });
    TableIterator::new(found)
}

/// What a TID or a lock tag names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    HotPage,
    HotRow(BlockNumber, u16),
    Row(RowNumber),
    QueueForRow(RowNumber),
    /// Rows that share a cold block, the first of a group or another one.
    ColdBlock(RowNumber),
    RowsByIndex,
}

impl Target {
    /// `None` where no row can be.
    fn of(block: BlockNumber, offset: u16) -> Option<Target> {
        let row = |offset: u16| Tid::new(block, offset).row();
        match (block, offset) {
            (INVALID_BLOCK, _) => None,
            (READERS_BLOCK, 0) => Some(Target::RowsByIndex),
            (..FIRST_COLD_BLOCK, 0) => Some(Target::HotPage),
            (..FIRST_COLD_BLOCK, _) => Some(Target::HotRow(block, offset)),
            (_, 0) => row(1).map(Target::ColdBlock),
            (_, TURN_BITS..) => row(offset - TURN_BITS).map(Target::QueueForRow),
            _ => row(offset).map(Target::Row),
        }
    }

    fn row(self) -> Option<RowNumber> {
        match self {
            Target::Row(row) | Target::QueueForRow(row) => Some(row),
            _ => None,
        }
    }
}

fn describe(rel: &OpenRelation, target: Target) -> Described {
    let (row, numbers_of) = (target.row(), |n: RowNumber| n.0 as i64);
    let (tid, number) = (row.map(|row| row.tid().raw()), row.map(numbers_of));
    let named = |name| (Some(name), tid, number, None, None, None);
    let what = match target {
        Target::HotPage => return named("hot page"),
        Target::RowsByIndex => return named("rows by index"),
        Target::HotRow(block, offset) => {
            let tid = Tid::new(block, offset).raw();
            return (Some("hot row"), Some(tid), None, None, None, None);
        }
        Target::Row(_) => "row",
        Target::QueueForRow(_) => "queue for row",
        Target::ColdBlock(_) => "block of rows",
    };
    // Exact states count rows.
    let table = rel.table();
    if !Visible::of(table.oid()).counts {
        return named(what);
    }
    let first = match target {
        Target::Row(row) | Target::QueueForRow(row) | Target::ColdBlock(row) => row,
        _ => return named(what),
    };
    let found = or_raise(table.oid(), look_up(table, first));
    let (group, standing) = found.map_or((None, Standing::NoRow), |(g, s)| (Some(g), s));
    let group_number = group.map(|group| i64::from(group.first_block()));
    if row.is_none() {
        let begins = group.is_some_and(|group| group.first_row() == first);
        let what = if begins { "row group" } else { what };
        return (Some(what), None, None, group_number, None, None);
    }
    let state = Some(standing.name());
    let new_row = standing.new_row().map(Tid::raw);
    (Some(what), tid, number, group_number, state, new_row)
}

/// What is known of a cold row now.
#[derive(Clone, Copy)]
enum Standing {
    Live,
    InsertInProgress,
    /// A transaction in progress has written the mark.
    ChangeInProgress(RowFate),
    Changed(RowFate),
    /// Its group was merged into another one.
    Moved(RowNumber),
    /// No row has this number: it was never used, or VACUUM or a merge has removed it.
    NoRow,
}

impl Standing {
    fn of_mark(mark: Mark) -> Standing {
        match mark.own {
            Some(_) => Standing::ChangeInProgress(mark.fate),
            None => Standing::Changed(mark.fate),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Standing::Live => "live",
            Standing::InsertInProgress => "insert in progress",
            Standing::ChangeInProgress(RowFate::Updated { .. }) => "update in progress",
            Standing::ChangeInProgress(_) => "delete in progress",
            Standing::Changed(RowFate::Deleted) => "deleted",
            Standing::Changed(RowFate::Updated { .. }) => "updated",
            Standing::Changed(RowFate::MovedPartitions) => "moved to another partition",
            Standing::Moved(_) => "moved",
            Standing::NoRow => "no row",
        }
    }

    /// Where the next version, or the row itself, is.
    fn new_row(self) -> Option<Tid> {
        match self {
            Standing::ChangeInProgress(RowFate::Updated { to, .. })
            | Standing::Changed(RowFate::Updated { to, .. }) => Some(to),
            Standing::Moved(to) => Some(to.tid()),
            _ => None,
        }
    }
}

/// The group whose range of numbers has the row, and the standing of the row. A deleted group, and
/// one that an aborted transaction has left, has no range any more.
fn look_up(table: Table<'_>, row: RowNumber) -> Result<Option<(GroupId, Standing)>, ColdError> {
    let Some(store) = ColdStore::open(table, LockMode::AccessShare) else {
        return Ok(None);
    };
    let Some(group) = directory::nearest_group(&store, row) else {
        return Ok(None);
    };
    let mut in_force = |tuple: ShownTuple<'_>| tuple.is_in_force();
    if let Some(placed) = directory::entry_covering(&store, group, row, &mut in_force)? {
        return Ok(Some((group, stored(&store, &placed, row)?)));
    }
    if let Some((to, _)) = marks::forwarded(&store, group, row)? {
        return Ok(Some((group, Standing::Moved(to))));
    }
    if let Some(mark) = marks::of_dropped_row(&store, group, row)? {
        return Ok(Some((group, Standing::of_mark(mark))));
    }
    let mut loading = |tuple: ShownTuple<'_>| tuple.xmin().is_in_progress();
    let loaded = directory::entry_covering(&store, group, row, &mut loading)?;
    Ok(loaded.map(|_| (group, Standing::InsertInProgress)))
}

/// The standing of a row of a group that is in force.
fn stored(store: &ColdStore, placed: &PlacedEntry, row: RowNumber) -> Result<Standing, ColdError> {
    let entry = &placed.entry;
    if entry.state == GroupState::Loading || entry.origin.xid.is_own() {
        return Ok(Standing::InsertInProgress);
    }
    if entry.position_of(row).is_none() {
        return Ok(Standing::NoRow);
    }
    Ok(match marks::state_of_row(store, entry, row)? {
        RowState::Unmarked => Standing::Live,
        RowState::Marked(mark) => Standing::of_mark(mark),
        RowState::Arriving(mark) => Standing::ChangeInProgress(mark.fate),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_tag_names_a_row_its_queue_a_block_or_a_page() {
        let block = FIRST_COLD_BLOCK + 3;
        let row = |n: u64| RowNumber(3 * 256 + n);
        for (block, offset, expected) in [
            (0, 0, Some(Target::HotPage)),
            (7, 291, Some(Target::HotRow(7, 291))),
            (block, 1, Some(Target::Row(row(0)))),
            (block, 256, Some(Target::Row(row(255)))),
            (block, 257, None),
            (block, TURN_BITS, None),
            (block, TURN_BITS | 1, Some(Target::QueueForRow(row(0)))),
            (block, TURN_BITS | 256, Some(Target::QueueForRow(row(255)))),
            (block, TURN_BITS | 257, None),
            (block, u16::MAX, None),
            (block, 0, Some(Target::ColdBlock(row(0)))),
            (READERS_BLOCK, 0, Some(Target::RowsByIndex)),
            (INVALID_BLOCK, 0, None),
            (INVALID_BLOCK, 1, None),
        ] {
            assert_eq!(Target::of(block, offset), expected, "({block},{offset})");
        }
    }
}
