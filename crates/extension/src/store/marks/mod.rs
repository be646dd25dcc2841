//! Marks: the changes of cold rows since their group was written.
//!
//! ```text
//!   id  16 + n / 2^31, seq n mod 2^31   mark of row n: deleted, updated to a TID, gone elsewhere
//!   id  4, seq group + 64 k             deletion vector of the k-th 16,384 rows of a group
//!   id  6, seq group + 64 k + i         update links of rows that such a vector hides
//!   id  5, seq group                    where the rows of a merged group went
//!   id  7, seq group + i                recent inserts: rows younger than their group
//! ```
//!
//! A mark is an ordinary MVCC tuple of its writer's transaction. A snapshot that does not see the
//! mark still sees the row; if the writer aborts, the mark is void.
//!
//! Invariants
//! - At most one valid mark per row. A writer holds the lock on the row, or on its whole group, and
//!   has looked for a mark under that lock. If it finds a mark of a transaction in progress, it
//!   waits for that transaction.
//! - A committed mark is never taken back. VACUUM may fold a mark that every snapshot sees into a
//!   deletion vector.
//! - A group's flag ([`GroupFlags`]) is set before the first mark of the group is written, hence
//!   before any snapshot can see that mark. So reading groups without marks costs nothing. For rows
//!   without a mark in other groups it costs little: see [`mark_filter`].
//!
//! A deletion vector holds rows hidden in bulk, and rows whose marks were folded. Only a holder of
//! the lock on the whole group writes it. A transaction that hides more rows replaces the deletion
//! vector (MVCC); where the rows are dead anyway, the deletion vector is changed in place. Its
//! second half tells for which rows no index has an entry any more.
//!
//! Readers pay nothing for groups without marks: see [`GroupFlags`], set before the first mark
//! of a group is written, hence before any snapshot can see it. For rows without a mark in other groups they pay
//! little: see [`mark_filter`].

mod bulk;
mod count;
mod deletion_vector;
mod forward;
mod hiders;
mod index_deletion;
pub mod mark_filter;
pub mod moved_changes;
mod recent_inserts;
mod rewrite_copy;
mod row_mark;
mod row_status;
mod sweep_scan;
mod tuple_visibility;
mod update_links;

use std::ops::{ControlFlow, Range};

use howdah_bridge::predicate::is_serializable;
use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::slot::Origin;
use howdah_bridge::snapshot::{Snapshot, SnapshotKind};
use howdah_bridge::store::{ColdStore, StoreId, Visited};
use howdah_bridge::tid::{INVALID_BLOCK, ROWS_PER_COLD_BLOCK, RowNumber, Tid};
use howdah_bridge::xid::{CommandId, Xid};

pub use bulk::hide_in_bulk;
pub use count::count_hidden;
use deletion_vector::{
    DELETION_VECTOR_ID, deletion_vector_place, deletion_vectors_of, hidden_in_bulk, insert_rows,
    open_vector,
};
pub use deletion_vector::{announce_deletion_vectors, cleaned, fold, folded};
pub use forward::{Route, forward, forwarded};
pub use hiders::last_hider;
pub use index_deletion::for_each_dead;
pub use recent_inserts::{RecentInserts, insert_recent, recent_inserts};
pub use rewrite_copy::RewriteCopy;
use row_mark::{decode, key_of, key_ranges, row_of};
pub use row_status::{RowStatus, row_status};
pub use sweep_scan::{Trace, for_each_trace};
use tuple_visibility::{in_force, writer_of};

use super::cache::hidden_groups;
use super::directory::{self, GroupEntry, GroupFlags, GroupState, PlacedEntry};
use super::pending_marks;
use super::row_set::RowSet;
use crate::errors::ColdError;
use crate::stop_point;

/// The change that a mark records.
pub type RowFate = howdah_records::RowFate<Tid>;

/// A mark in force: of our own transaction, or of a committed one.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub fate: RowFate,
    pub xid: Xid,
    /// The command that wrote it, if that was a command of our own transaction.
    pub own: Option<CommandId>,
}

/// Writes the mark of a row whose lock is held and that has no mark in force.
pub fn write(
    store: &ColdStore,
    placed: &mut PlacedEntry,
    row: RowNumber,
    fate: RowFate,
    cid: CommandId,
) -> Result<(), ColdError> {
    flag(store, placed, GroupFlags::ROW_MARKS)?;
    let position = (row.0 - placed.entry.first_row.0) as u32;
    mark_filter::note_marks(store, &placed.entry, [position]);
    row_mark::insert(store, row, fate, cid);
    mark_filter::note_marks(store, &placed.entry, [position]);
    Ok(())
}

/// Sets a flag of the group, unless it is known to be set.
fn flag(store: &ColdStore, placed: &mut PlacedEntry, flag: GroupFlags) -> Result<(), ColdError> {
    if !placed.entry.flags.contain(flag) {
        directory::add_flags(store, placed, flag)?;
        stop_point!("group_flagged");
        placed.entry.flags = placed.entry.flags.union(flag);
    }
    Ok(())
}

/// Whether a reader must look for a mark of the row, of its own or in a deletion vector.
pub fn may_be_hidden(store: &ColdStore, entry: &GroupEntry, row: RowNumber) -> bool {
    may_have_mark(store, entry, row, false)
}

/// Whether a mark of the row, of its own or in a deletion vector, must be looked for. `in_check`
/// tells that a constraint check asks while it holds a lock on an index page: too short a moment to
/// read all marks of a group.
fn may_have_mark(store: &ColdStore, entry: &GroupEntry, row: RowNumber, in_check: bool) -> bool {
    let (marks, bitmaps) = (GroupFlags::ROW_MARKS, GroupFlags::DELETION_VECTORS);
    (entry.flags.contain(marks) || entry.flags.contain(bitmaps))
        && mark_filter::may_be_marked(store, entry, row, !in_check)
}

/// What the marks tell of a row now.
pub enum RowState {
    Unmarked,
    Marked(Mark),
    /// Another transaction, which is in progress, has written this mark.
    Arriving(Mark),
}

/// The mark of a row that is in force now.
pub fn of_row(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
) -> Result<Option<Mark>, ColdError> {
    Ok(in_force_of(state_of_row(store, entry, row)?))
}

fn in_force_of(state: RowState) -> Option<Mark> {
    match state {
        RowState::Marked(mark) => Some(mark),
        RowState::Unmarked | RowState::Arriving(_) => None,
    }
}

/// The mark of a row, in force or of a transaction in progress. The row's lock is held, so that no
/// other mark can be written meanwhile.
pub fn state_of_row(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
) -> Result<RowState, ColdError> {
    let look = may_have_mark(store, entry, row, false);
    state_where(store, entry, row, look)
}

/// The same; `look` tells whether there may be a mark.
fn state_where(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
    look: bool,
) -> Result<RowState, ColdError> {
    if let Some((command, fate)) = pending_marks::fate_of(store, entry, row) {
        return Ok(RowState::Marked(Mark {
            fate,
            xid: Xid::current(),
            own: Some(command),
        }));
    }
    let mut found = Ok(RowState::Unmarked);
    if look && entry.flags.contain(GroupFlags::ROW_MARKS) {
        let (id, seq) = key_of(row);
        store.visit(id, seq..=seq, &mut |shown| {
            let (xid, own) = writer_of(&shown);
            // Checked once more after its transaction was found to have ended: it may have
            // committed meanwhile.
            let arrives = !in_force(&shown) && own.is_none() && xid.is_in_progress();
            if !arrives && !in_force(&shown) {
                return ControlFlow::Continue(());
            }
            found = decode(entry.group(), shown.payload).map(|fate| {
                let mark = Mark { fate, xid, own };
                match arrives {
                    true => RowState::Arriving(mark),
                    false => RowState::Marked(mark),
                }
            });
            ControlFlow::Break(())
        });
    }
    if look
        && matches!(found, Ok(RowState::Unmarked))
        && entry.flags.contain(GroupFlags::DELETION_VECTORS)
        && let Some(hidden) = hidden_in_bulk(store, entry, row)?
    {
        let mark = update_links::of_row(store, entry, row)?.unwrap_or(hidden);
        return Ok(RowState::Marked(mark));
    }
    found
}

/// The mark in force of a row whose group was merged away, if the merge left the row behind.
pub fn of_dropped_row(
    store: &ColdStore,
    group: u32,
    row: RowNumber,
) -> Result<Option<Mark>, ColdError> {
    Ok(in_force_of(state_where(
        store,
        &any_group(group),
        row,
        true,
    )?))
}

/// An entry for a group that may be gone: large enough for every row that the group may have had.
fn any_group(group: u32) -> GroupEntry {
    GroupEntry {
        state: GroupState::Stored,
        first_row: RowNumber(u64::from(group) * ROWS_PER_COLD_BLOCK),
        capacity_rows: howdah_columnar::MAX_ROWS as u32,
        row_count: howdah_columnar::MAX_ROWS as u32,
        value_id: 0,
        first_block: INVALID_BLOCK,
        footer_bytes: 0,
        body_bytes: 0,
        origin: Origin::FROZEN,
        flags: GroupFlags::ROW_MARKS.union(GroupFlags::DELETION_VECTORS),
    }
}

/// The mark of a row that another transaction in progress has written, and that transaction. A row
/// lock that does not conflict with the change may be held at the same time.
pub fn arriving(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
) -> Result<Option<Mark>, ColdError> {
    let mut found = Ok(None);
    if entry.flags.contain(GroupFlags::ROW_MARKS) && may_have_mark(store, entry, row, false) {
        let (id, seq) = key_of(row);
        store.visit(id, seq..=seq, &mut |shown| {
            let (xid, own) = writer_of(&shown);
            if own.is_some() || !xid.is_in_progress() {
                return ControlFlow::Continue(());
            }
            found = decode(entry.group(), shown.payload).map(|fate| Some(Mark { fate, xid, own }));
            ControlFlow::Break(())
        });
    }
    found
}

/// Whether the snapshot sees every row of each group that it sees.
fn sees_through_marks(snapshot: Snapshot<'_>) -> bool {
    matches!(
        snapshot.kind(),
        SnapshotKind::Any | SnapshotKind::NonVacuumable | SnapshotKind::Toast
    )
}

/// Whether a row is hidden from a snapshot, and by which transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    No,
    /// By a transaction, our own or a committed one: hidden from every later snapshot, too.
    By(Xid),
    /// In memory only, or because the row is younger than the snapshot.
    ForNow,
}

/// Whether the row is hidden from the snapshot. A dirty snapshot is given the transaction that is
/// about to hide it.
pub fn hides(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Result<bool, ColdError> {
    Ok(hidden_by(store, entry, row, snapshot)? != Hidden::No)
}

/// As [`hides`]; returns the transaction, too.
pub fn hidden_by(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Result<Hidden, ColdError> {
    if entry.flags.are_clear() || sees_through_marks(snapshot) {
        return Ok(Hidden::No);
    }
    let (mvcc, dirty) = (snapshot.is_mvcc(), snapshot.is_dirty());
    if let Some(command) = pending_marks::command_hiding(store, entry, row)
        && (!mvcc || command < snapshot.command())
    {
        return Ok(Hidden::ForNow);
    }
    let (mut hidden, mut damage) = (Hidden::No, None);
    let hider = |shown: &Visited<'_>| Hidden::By(writer_of(shown).0);
    let sees = |shown: &Visited<'_>| {
        if !dirty {
            return store.visible(shown.tuple, snapshot);
        }
        match shown.tuple.satisfies_dirty(snapshot) {
            (true, Some(inserter)) => {
                // A transaction in progress is hiding the row: the caller waits for it.
                snapshot.name_deleter(inserter);
                false
            }
            (visible, _) => visible,
        }
    };
    let look = may_have_mark(store, entry, row, dirty);
    if look && entry.flags.contain(GroupFlags::ROW_MARKS) {
        let (id, seq) = key_of(row);
        store.visit(id, seq..=seq, &mut |shown| {
            if sees(&shown) {
                hidden = hider(&shown);
            }
            ControlFlow::Continue(())
        });
    }
    if look && hidden == Hidden::No && entry.flags.contain(GroupFlags::DELETION_VECTORS) {
        let (seq, at) = deletion_vector_place(entry, row);
        store.visit(DELETION_VECTOR_ID, seq..=seq, &mut |shown| {
            match open_vector(entry.group(), shown.payload) {
                Ok(vector) if vector.hides(at) => {
                    if sees(&shown) {
                        hidden = hider(&shown);
                    }
                }
                Ok(_) => {}
                Err(error) => damage = Some(error),
            }
            ControlFlow::Continue(())
        });
    }
    if let Some(error) = damage {
        return Err(error);
    }
    if hidden == Hidden::No
        && mvcc
        && entry.flags.contain(GroupFlags::RECENT_INSERTS)
        && recent_inserts::is_unseen(store, entry, row, snapshot)?
    {
        return Ok(Hidden::ForNow);
    }
    Ok(hidden)
}

/// Whether it is known, without a look at the store, that nothing hides the row from an MVCC
/// snapshot that sees its group. `file` is the [id](ColdStore::id) of the store.
pub fn is_surely_shown(file: StoreId, entry: &GroupEntry, row: RowNumber) -> bool {
    !entry.flags.contain(GroupFlags::RECENT_INSERTS)
        && !pending_marks::any()
        && mark_filter::is_surely_unmarked(file, entry, row)
}

/// Reports to the serializable machinery the transactions that have changed rows of groups which
/// are in force but which the snapshot, an MVCC one, does not see. The snapshot reads rows that
/// were moved into such a group at their old place, where such a change leaves no trace.
pub fn note_unseen_changes(store: &ColdStore, snapshot: Snapshot<'_>) -> Result<(), ColdError> {
    let mut is_unseen = |tuple: ShownTuple<'_>| tuple.is_in_force() && !tuple.satisfies(snapshot);
    for placed in directory::groups_where(store, &mut is_unseen)? {
        let mut sees = |shown: &Visited<'_>| store.visible(shown.tuple, snapshot);
        hidden_where(store, &placed.entry, &mut sees)?;
    }
    Ok(())
}

/// Discards what is known of the marks in a file that is truncated in place.
pub(super) fn forget_file(file: StoreId) {
    mark_filter::forget_file(file);
}

/// Whether every row of the group is known to be hidden from the MVCC snapshot.
pub fn has_vanished(store: &ColdStore, group: u32, snapshot: Snapshot<'_>) -> bool {
    vanished_by(store, group, snapshot).is_some()
}

/// The youngest transaction that hid a row of the group, if every row is known to be hidden from
/// the MVCC snapshot.
pub fn vanished_by(store: &ColdStore, group: u32, snapshot: Snapshot<'_>) -> Option<Xid> {
    hidden_groups::youngest(store, group, snapshot)
}

/// The rows of a group that are hidden from the snapshot, by position; `None` if there are none.
pub fn hidden_from(
    store: &ColdStore,
    entry: &GroupEntry,
    snapshot: Snapshot<'_>,
) -> Result<Option<RowSet>, ColdError> {
    Ok(hidden_rows(store, entry, snapshot)?.0)
}

/// As [`hidden_from`], with the transaction that hid the last of them, if all were hidden by
/// transactions.
pub fn hidden_rows(
    store: &ColdStore,
    entry: &GroupEntry,
    snapshot: Snapshot<'_>,
) -> Result<(Option<RowSet>, Hidden), ColdError> {
    if entry.flags.are_clear() || sees_through_marks(snapshot) {
        return Ok((None, Hidden::No));
    }
    if snapshot.is_dirty() {
        // A dirty snapshot shows rows that a transaction in progress is hiding, along with that
        // transaction.
        return Ok((hidden_now(store, entry)?, Hidden::ForNow));
    }
    let mvcc = snapshot.is_mvcc();
    if mvcc && let Some(youngest) = vanished_by(store, entry.group(), snapshot) {
        let all = RowSet::full(entry.capacity_rows);
        return Ok((Some(all), Hidden::By(youngest)));
    }
    let curcid = snapshot.command();
    let mut youngest = Xid::FROZEN;
    let stored = hidden_where(store, entry, &mut |shown| {
        let hides = store.visible(shown.tuple, snapshot);
        if hides {
            youngest = youngest.younger(writer_of(shown).0);
        }
        hides
    })?;
    if mvcc && stored.as_ref().is_some_and(|s| s.len() == entry.row_count) {
        hidden_groups::note(store, entry, youngest, snapshot);
    }
    let by = match pending_marks::any() || entry.flags.contain(GroupFlags::RECENT_INSERTS) {
        true => Hidden::ForNow,
        false => Hidden::By(youngest),
    };
    let hidden = with_pending(store, entry, stored, |command| !mvcc || command < curcid);
    if !mvcc || !entry.flags.contain(GroupFlags::RECENT_INSERTS) {
        return Ok((hidden, by));
    }
    let mut hidden = hidden.unwrap_or_else(|| RowSet::with_bound(entry.capacity_rows));
    recent_inserts::add_unseen(store, entry, snapshot, &mut hidden)?;
    Ok(((!hidden.is_empty()).then_some(hidden), by))
}

/// Of adjacent rows, those that are hidden from the MVCC snapshot, by position counted from the
/// first of them, and the transaction that hid the last. `None` where more than marks may hide
/// them. `None` also in serializable transactions: marks of rows that are not read would count as
/// conflicts there.
pub fn hidden_among(
    store: &ColdStore,
    entry: &GroupEntry,
    positions: Range<u32>,
    snapshot: Snapshot<'_>,
) -> Option<(RowSet, Hidden)> {
    let others = [GroupFlags::DELETION_VECTORS, GroupFlags::RECENT_INSERTS];
    let more_hide = others.iter().any(|&flag| entry.flags.contain(flag));
    if more_hide || pending_marks::any() || is_serializable() {
        return None;
    }
    let mut hidden = RowSet::with_bound(positions.len() as u32);
    let mut youngest = Xid::FROZEN;
    let first = RowNumber(entry.first_row.0 + u64::from(positions.start));
    for (id, seqs) in key_ranges(first, positions.len() as u32) {
        store.visit_by_page(id, seqs, &mut |shown| {
            if store.visible(shown.tuple, snapshot) {
                hidden.insert((row_of(id, shown.seq).0 - first.0) as u32);
                youngest = youngest.younger(writer_of(&shown).0);
            }
        });
    }
    Some((hidden, Hidden::By(youngest)))
}

/// Adds rows that are hidden in memory only.
fn with_pending(
    store: &ColdStore,
    entry: &GroupEntry,
    stored: Option<RowSet>,
    sees: impl Fn(CommandId) -> bool,
) -> Option<RowSet> {
    if !pending_marks::any() {
        return stored;
    }
    let mut rows = stored.unwrap_or_else(|| RowSet::with_bound(entry.capacity_rows));
    pending_marks::add_to(store, entry, &mut rows, sees);
    (!rows.is_empty()).then_some(rows)
}

/// The rows of a group that are hidden now, by our own transaction or a committed one.
pub fn hidden_now(store: &ColdStore, entry: &GroupEntry) -> Result<Option<RowSet>, ColdError> {
    let stored = hidden_where(store, entry, &mut |shown| in_force(shown))?;
    Ok(with_pending(store, entry, stored, |_| true))
}

/// The rows of a group that another transaction, which is in progress, is hiding.
pub fn arriving_in(store: &ColdStore, entry: &GroupEntry) -> Result<Option<RowSet>, ColdError> {
    hidden_where(store, entry, &mut |shown| {
        let (xid, own) = writer_of(shown);
        own.is_none() && xid.is_in_progress()
    })
}

/// The rows of a group that are hidden by marks and deletion vectors that `judge` accepts.
pub fn hidden_where(
    store: &ColdStore,
    entry: &GroupEntry,
    judge: &mut dyn FnMut(&Visited<'_>) -> bool,
) -> Result<Option<RowSet>, ColdError> {
    let mut hidden = RowSet::with_bound(entry.capacity_rows);
    let first = entry.first_row.0;
    if entry.flags.contain(GroupFlags::ROW_MARKS) {
        for (id, seqs) in key_ranges(entry.first_row, entry.capacity_rows) {
            store.visit_by_page(id, seqs, &mut |shown| {
                if judge(&shown) {
                    hidden.insert((row_of(id, shown.seq).0 - first) as u32);
                }
            });
        }
    }
    let mut damage = None;
    if entry.flags.contain(GroupFlags::DELETION_VECTORS) {
        store.visit(
            DELETION_VECTOR_ID,
            deletion_vectors_of(entry),
            &mut |shown| {
                if !judge(&shown) {
                    return ControlFlow::Continue(());
                }
                match open_vector(entry.group(), shown.payload) {
                    Ok(vector) => insert_rows(entry, shown.seq, &vector.hidden(), &mut hidden),
                    Err(error) => damage = Some(error),
                }
                ControlFlow::Continue(())
            },
        );
    }
    match damage {
        Some(error) => Err(error),
        None => Ok((!hidden.is_empty()).then_some(hidden)),
    }
}
