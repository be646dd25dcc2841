//! Merging small row groups and rewriting those with many hidden rows.
//!
//! ```text
//!   choose a run ─ anyone at work? ─ read the visible rows ─ encode ─ reserve, write
//!        ─ index entries ─ lock the old groups ─ same rows hidden as before? ─ forward, delete
//!        ─ commit
//! ```
//!
//! A run is one group with many hidden rows, or neighbouring groups whose rows fit one group, also
//! when they are decoded. Rows that were moved lately and rows that some snapshot may not see are
//! not merged into one group, which could not tell them apart
//! ([`crate::store::visibility::moved_changes`]).
//!
//! Invariants
//! - All of it is one transaction. Older snapshots continue to read the old groups with their
//!   marks.
//! - No change is lost. The old groups are locked as a whole at the end, without waiting. If a
//!   transaction works on one of their rows at that moment, the merge is rolled back. So that this
//!   is rare, nothing is written if it would be so at the beginning.
//! - A row that was hidden since it was read is hidden in the successor, too ([`born_hidden`]), and
//!   has no new place. A snapshot that sees the merge sees the change, which was committed before;
//!   any other sees the old group. A transaction that has the row's old place finds the change
//!   there, as that of a row which was hidden before the merge began.
//! - A transaction that waits for a row of an old group meanwhile finds the group gone, and the
//!   row's new place ([`crate::store::marks::forward`]): the merge has updated the row.
//!
//! A crash leaves an aborted transaction: dead pieces, and a range that no entry covers.

use std::collections::HashSet;

use howdah_bridge::cold_lock::Locks;
use howdah_bridge::indexes::is_brin;
use howdah_bridge::maintained::MaintainedTable;
use howdah_bridge::new_entries::Indexes;
use howdah_bridge::predicate;
use howdah_bridge::row_memory::RowMemory;
use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{Descriptor, LockMode};
use howdah_bridge::tid::{GroupId, RowNumber};
use howdah_bridge::transactions::writing_command;
use howdah_bridge::xid::{CommandId, Xid};
use howdah_columnar::{MAX_ROWS, RowGroupBuilder};

use super::born_hidden;
use super::key_order;
use super::progress::must_yield;
use super::task::{Task, open};
use super::throttle;
use crate::errors::{ColdError, or_raise};
use crate::row_order;
use crate::settings;
use crate::stop_point;
use crate::store::decoded_size::DecodedSize;
use crate::store::directory::{self, GroupFlags, GroupState, PlacedEntry};
use crate::store::group;
use crate::store::marks::{self, Route};
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, GroupRows, RowDatums, Wanted};
use crate::store::visibility::constraint_checks;
use crate::types::{TableLayout, push_datums};

/// A group below this is small.
const SMALL_ROWS: u32 = (MAX_ROWS / 2) as u32;
/// A group is rewritten if at least one row in this many is hidden.
const HIDDEN_SHARE: u32 = 5;

/// The result of a merge, and what its transaction must do.
pub enum Merge {
    /// This many groups were replaced: commit.
    Merged(u32),
    /// Another backend waits for the table: roll back.
    Yielded,
    /// Other transactions work on rows of these groups: roll back.
    Refused(Vec<GroupId>),
    /// There was nothing to merge: commit.
    Nothing,
}

/// A group to be replaced.
struct Old {
    placed: PlacedEntry,
    hidden: Option<RowSet>,
}

impl Old {
    fn group(&self) -> GroupId {
        self.placed.entry.group()
    }

    fn hidden_rows(&self) -> u32 {
        self.hidden.as_ref().map_or(0, RowSet::len)
    }

    fn seen_rows(&self) -> u32 {
        self.placed
            .entry
            .row_count
            .saturating_sub(self.hidden_rows())
    }

    fn is_small(&self) -> bool {
        self.seen_rows() < SMALL_ROWS
    }

    fn is_much_hidden(&self) -> bool {
        let hidden = self.hidden_rows();
        hidden > 0 && hidden >= self.placed.entry.row_count / HIDDEN_SHARE
    }

    /// The transaction that wrote it; a transaction id that is not normal precedes all others.
    fn writer(&self) -> Xid {
        self.placed.entry.origin.xid
    }

    /// Whether every snapshot sees its rows, here or at an older place.
    fn is_seen_by_all(&self, horizon: Xid) -> bool {
        let entry = &self.placed.entry;
        entry.flags.contain(GroupFlags::MOVED_ROWS)
            || self.writer().precedes(horizon) && !entry.flags.contain(GroupFlags::RECENT_INSERTS)
    }

    /// Whether a snapshot may see its rows at an older place only.
    fn was_moved_lately(&self, horizon: Xid) -> bool {
        let flags = self.placed.entry.flags;
        flags.contain(GroupFlags::MOVED_ROWS) && !self.writer().precedes(horizon)
    }

    fn is_hidden(&self, row: u32) -> bool {
        self.hidden.as_ref().is_some_and(|h| h.contains(row))
    }
}

/// Replaces one run of groups, none of which is among `refused`.
pub fn merge_groups(task: &Task, refused: &HashSet<GroupId>) -> Merge {
    let Some(step) = open(task.table, task.patient) else {
        return Merge::Nothing;
    };
    let table = step.table();
    let Some(store) = ColdStore::open(table, LockMode::RowExclusive) else {
        return Merge::Nothing;
    };
    let horizon = table.horizon();
    let layout = TableLayout::of(table.descriptor());
    let forms = (&layout, table.descriptor());
    let run = or_raise(
        task.table,
        choose(&store, step.snapshot(), forms, refused, horizon),
    );
    if run.is_empty() {
        return Merge::Nothing;
    }
    if must_yield(step.table()) {
        return Merge::Yielded;
    }
    let busy = at_work(Locks::of(table), &run);
    if !busy.is_empty() {
        return Merge::Refused(busy);
    }
    or_raise(task.table, replace(task, &step, &store, &run, horizon))
}

/// The first run of groups worth replacing.
fn choose(
    store: &ColdStore,
    snapshot: Snapshot<'_>,
    forms: (&TableLayout, Descriptor<'_>),
    refused: &HashSet<GroupId>,
    horizon: Xid,
) -> Result<Vec<Old>, ColdError> {
    let groups = directory::groups(store, snapshot)?;
    let most_decoded = settings::row_group_bytes() as u64;
    let most_bytes = most_decoded / 4;
    let mut run: Vec<Old> = Vec::new();
    let (mut rows, mut bytes, mut decoded) = (0, 0, 0);
    for placed in groups {
        let usable =
            placed.entry.state == GroupState::Stored && !refused.contains(&placed.entry.group());
        let old = match usable {
            true => Some(Old {
                placed,
                hidden: marks::hidden_now(store, &placed.entry)?,
            }),
            false => None,
        };
        let mut old = old.filter(|old| old.is_small() || old.is_much_hidden());
        let mut size = 0;
        if let Some(candidate) = &old {
            let rows = candidate.seen_rows();
            let found = DecodedSize::of(store, &candidate.placed.entry, rows, forms)?;
            size = found.all();
            // Such rows were never in memory together, and might be too many.
            if found.added > most_decoded {
                old = None;
            }
        }
        match old {
            Some(old)
                if run.is_empty()
                    || rows + old.seen_rows() <= MAX_ROWS as u32
                        && bytes + placed.entry.body_bytes <= most_bytes
                        && decoded + size <= most_decoded
                        && run.iter().all(|other| may_join(other, &old, horizon)) =>
            {
                rows += old.seen_rows();
                bytes += placed.entry.body_bytes;
                decoded += size;
                run.push(old);
            }
            next => {
                if is_worth_it(&run) {
                    return Ok(run);
                }
                run.clear();
                (rows, bytes, decoded) = (0, 0, 0);
                if let Some(old) = next {
                    (rows, bytes, decoded) = (old.seen_rows(), placed.entry.body_bytes, size);
                    run.push(old);
                }
            }
        }
    }
    Ok(if is_worth_it(&run) { run } else { Vec::new() })
}

/// Whether the rows of both groups may go to one successor. `horizon` must be the one from which
/// the successor's flags are derived: a horizon that is computed again may have gone back.
fn may_join(one: &Old, other: &Old, horizon: Xid) -> bool {
    let clash = |moved: &Old, young: &Old| {
        moved.was_moved_lately(horizon) && !young.is_seen_by_all(horizon)
    };
    !clash(one, other) && !clash(other, one)
}

fn is_worth_it(run: &[Old]) -> bool {
    run.len() >= 2 || run.iter().any(Old::is_much_hidden)
}

/// The groups on whose rows other transactions work now. They are likely to do so when the
/// successor is written, and all the work on it would be in vain.
fn at_work(locks: Locks, run: &[Old]) -> Vec<GroupId> {
    let groups = run.iter().map(Old::group);
    groups
        .filter(|&group| {
            let is_free = locks.lock_for_maintenance(group);
            if is_free {
                locks.unlock_for_maintenance(group);
            }
            !is_free
        })
        .collect()
}

fn replace(
    task: &Task,
    step: &MaintainedTable,
    store: &ColdStore,
    run: &[Old],
    horizon: Xid,
) -> Result<Merge, ColdError> {
    let cid = writing_command();
    let mut successor = None;
    if run.iter().any(|old| old.seen_rows() > 0) {
        match write_successor(task, step, store, run, horizon, cid)? {
            None => return Ok(Merge::Yielded),
            written => successor = written,
        }
    }
    stop_point!("merge_delete");
    constraint_checks::announce_mover();
    let late = match lock(Locks::of(step.table()), store, run)? {
        Ok(late) => late,
        Err(refused) => return Ok(Merge::Refused(refused)),
    };
    for (nth, old) in run.iter().enumerate() {
        if old.seen_rows() > 0
            && let Some(successor) = &successor
        {
            let route = successor.route(nth, old, &late[nth]);
            marks::forward(store, old.group(), &route, cid);
        }
        group::delete(store, &old.placed);
    }
    if let Some(successor) = &mut successor {
        predicate::transfer_locks(step.table(), successor.placed.entry.group());
        let hidden = successor.positions_of(run, &late);
        born_hidden::hide(store, &mut successor.placed, &hidden)?;
    }
    stop_point!("merge_commit");
    Ok(Merge::Merged(run.len() as u32))
}

/// Locks the old groups as a whole, and returns the rows of each that were hidden since it was
/// read; or the groups that let no merge happen.
fn lock(
    locks: Locks,
    store: &ColdStore,
    run: &[Old],
) -> Result<Result<Vec<RowSet>, Vec<GroupId>>, ColdError> {
    let (mut late, mut refused) = (Vec::with_capacity(run.len()), Vec::new());
    for old in run {
        let since = match locks.lock_for_maintenance(old.group()) {
            true => hidden_since(store, old)?,
            false => None,
        };
        match since {
            Some(rows) => late.push(rows),
            None => refused.push(old.group()),
        }
    }
    if refused.is_empty() {
        let late_rows: u32 = late.iter().map(RowSet::len).sum();
        let read_rows: u32 = run.iter().map(Old::seen_rows).sum();
        // The successor would have to be rewritten at once.
        if late_rows > read_rows / HIDDEN_SHARE {
            let changed = run.iter().zip(&late).filter(|(_, rows)| !rows.is_empty());
            refused.extend(changed.map(|(old, _)| old.group()));
        }
    }
    Ok(match refused.is_empty() {
        true => Ok(late),
        false => Err(refused),
    })
}

/// The rows that were hidden since the group was read; `None` if more has changed.
fn hidden_since(store: &ColdStore, old: &Old) -> Result<Option<RowSet>, ColdError> {
    let first = old.placed.entry.first_row;
    let in_force = &mut |shown: ShownTuple<'_>| shown.is_in_force();
    let Some(now) = directory::entry_covering(store, old.group(), first, in_force)? else {
        return Ok(None);
    };
    let mut since = RowSet::with_bound(old.placed.entry.row_count);
    let mut still_hidden = 0;
    if let Some(hidden) = marks::hidden_now(store, &now.entry)? {
        for row in hidden.iter() {
            match old.is_hidden(row) {
                true => still_hidden += 1,
                false => {
                    since.insert(row);
                }
            }
        }
    }
    Ok((still_hidden == old.hidden_rows()).then_some(since))
}

/// The new group, and which old rows are at which of its positions.
struct Successor {
    placed: PlacedEntry,
    /// For each old group, the number of rows of the groups before it.
    starts: Vec<u32>,
    /// The positions of the rows in the order in which they were read; `None` if that order is
    /// kept.
    positions: Option<Vec<u32>>,
}

impl Successor {
    /// The new places of the rows of the `nth` old group, but those of `late` ones, which are
    /// dropped like those that were hidden before.
    fn route<'a>(&self, nth: usize, old: &'a Old, late: &RowSet) -> Route<'a> {
        let first = self.placed.entry.first_row;
        if self.positions.is_none() && late.is_empty() {
            return Route::InOrder {
                first: RowNumber(first.0 + u64::from(self.starts[nth])),
                dropped: old.hidden.as_ref(),
            };
        }
        let mut places = vec![Route::DROPPED; old.placed.entry.row_count as usize];
        for (row, position) in self.places(nth, old) {
            if !late.contains(row) {
                places[row as usize] = position;
            }
        }
        Route::Scattered { first, places }
    }

    /// The rows of the `nth` old group that were read, each with its position here.
    fn places<'a>(&'a self, nth: usize, old: &'a Old) -> impl Iterator<Item = (u32, u32)> + 'a {
        let rows = (0..old.placed.entry.row_count).filter(|&row| !old.is_hidden(row));
        rows.zip(self.starts[nth]..)
            .map(|(row, read)| match &self.positions {
                Some(positions) => (row, positions[read as usize]),
                None => (row, read),
            })
    }

    /// The positions here of late rows of all old groups.
    fn positions_of(&self, run: &[Old], late: &[RowSet]) -> RowSet {
        let mut found = RowSet::with_bound(self.placed.entry.row_count);
        for (nth, (old, late)) in run.iter().zip(late).enumerate() {
            if !late.is_empty() {
                let places = self.places(nth, old);
                let of_late = places.filter(|(row, _)| late.contains(*row));
                of_late.for_each(|(_, position)| {
                    found.insert(position);
                });
            }
        }
        found
    }
}

/// Rows of old groups, one after the other.
struct Rows<'a> {
    sources: Vec<(&'a Old, GroupRows)>,
    layout: &'a TableLayout,
    desc: Descriptor<'a>,
    memory: RowMemory,
    datums: RowDatums,
}

impl<'a> Rows<'a> {
    fn load(
        store: &ColdStore,
        run: &'a [Old],
        layout: &'a TableLayout,
        desc: Descriptor<'a>,
    ) -> Result<Rows<'a>, ColdError> {
        let load = |old: &'a Old| {
            let group = ColdGroup::Stored(old.placed.entry);
            Ok((old, GroupRows::load(store, &group, &Wanted::All)?))
        };
        Ok(Rows {
            sources: run.iter().map(load).collect::<Result<_, ColdError>>()?,
            layout,
            desc,
            memory: RowMemory::new(),
            datums: RowDatums::new(layout.attributes.len()),
        })
    }

    /// Passes the rows of the `nth` group that are not hidden to `take`, each in memory of its own.
    fn each(&mut self, nth: usize, mut take: impl FnMut(&mut RowDatums)) {
        let (old, source) = &self.sources[nth];
        for row in (0..source.row_count).filter(|&row| !old.is_hidden(row)) {
            self.memory.with(|| {
                source.fill(row, self.layout, self.desc, &Wanted::All, &mut self.datums);
                take(&mut self.datums);
            });
        }
    }
}

/// Writes the new group with its index entries. `None` if another backend waits for the table.
fn write_successor(
    task: &Task,
    step: &MaintainedTable,
    store: &ColdStore,
    run: &[Old],
    horizon: Xid,
    cid: CommandId,
) -> Result<Option<Successor>, ColdError> {
    let table = step.table();
    let layout = TableLayout::of(table.descriptor());
    let mut rows = RowGroupBuilder::new(&layout.column_types());
    let mut source = Rows::load(store, run, &layout, table.descriptor())?;
    let mut starts = Vec::new();
    for nth in 0..run.len() {
        howdah_bridge::check_for_interrupts!();
        throttle::pay(table);
        starts.push(rows.row_count() as u32);
        source.each(nth, |row| {
            // SAFETY: the row has this layout; its values live until the next one is read.
            unsafe { push_datums(&mut rows, &layout, &row.values, &row.nulls) };
            rows.finish_row();
        });
    }
    let order = key_order::order_of(task, step, store, &rows)?;
    let positions = order.as_deref().map(row_order::positions);
    if let Some(order) = &order {
        rows = rows.reordered(order);
    }
    stop_point!("merge_reserve");
    let mut placed = directory::reserve(store, rows.row_count() as u32, cid)?;
    if run.iter().all(|old| old.is_seen_by_all(horizon)) {
        placed.entry.flags = GroupFlags::MOVED_ROWS;
    }
    placed.entry = group::write(store, &placed, &rows, &task.policy.encoding, cid)?;
    stop_point!("merge_index_insert");
    let mut indexes = Indexes::open(table, |index| !is_brin(index));
    let first_row = placed.entry.first_row;
    let mut read = 0;
    let indexed = if indexes.is_empty() { 0 } else { run.len() };
    for nth in 0..indexed {
        throttle::pay(table);
        if must_yield(step.table()) {
            return Ok(None);
        }
        source.each(nth, |row| {
            let position = match &positions {
                Some(positions) => positions[read],
                None => read as u32,
            };
            let tid = RowNumber(first_row.0 + u64::from(position)).tid();
            // SAFETY: the row is one of the table's; its values live until the next one is read.
            unsafe { indexes.insert_values(&mut row.values, &mut row.nulls, tid) };
            read += 1;
        });
        howdah_bridge::check_for_interrupts!();
    }
    source.memory.delete();
    Ok(Some(Successor {
        placed,
        starts,
        positions,
    }))
}
