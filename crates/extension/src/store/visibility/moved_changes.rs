//! Changes of rows that a snapshot of our own sees at an older place.
//!
//! A snapshot continues to see a row where the row was when the snapshot was taken, even if
//! compaction has moved it since. The row is changed at its new place: the mark is written there,
//! and other transactions look for it there. Later commands of the same transaction that still read
//! by the old snapshot (all of them in repeatable read, those that a rule adds to a statement in
//! read committed) must follow the row from its old place to find the mark:
//!
//! ```text
//!   hot tuple ── t_ctid ──> row of a group ── forward ──> row of its successor ── our own mark
//! ```
//!
//! Only the changing transaction has to do so. Any other snapshot that sees the row at its old
//! place was taken before the move, and does not see a transaction that changed the row later. A
//! rollback makes the mark void, and nothing else was recorded. The mark is judged by the snapshot,
//! so that a cursor opened before the change continues to see the row. A parallel worker cannot
//! know whether there was such a change, and always follows.
//!
//! Rows are moved when every snapshot sees them, and so are most rows that are merged. So a
//! snapshot that does not see a group which was filled by moving sees the group's rows at their old
//! place ([`is_seen`]). ON CONFLICT and the actions of foreign keys ask for that, because they find
//! rows by their new place. For a merge of younger groups the forwards are searched, from the
//! groups that the snapshot sees. Therefore rows that were moved from hot places are not merged
//! with those of younger groups as long as a snapshot may see them at the hot places.
//!
//! CLUSTER and VACUUM FULL lose the links from old places to new ones. For a snapshot from before
//! such a rewrite, rows count as not seen here, and fail with 40001 if they were moved. A
//! transaction that has made such a change cannot CLUSTER the table itself.

use std::cell::{Cell, RefCell};

use howdah_bridge::Oid;
use howdah_bridge::snapshot::{Snapshot, kept_sees_as_running};
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::{GroupId, RowNumber};
use howdah_bridge::xid::{Xid, announced_xmin, in_parallel_worker, keeps_snapshot};

use super::hidden::{hidden_rows, hides_row};
use crate::errors::ColdError;
use crate::store::directory::{self, GroupEntry, GroupFlags};
use crate::store::marks::forward::Places;
use crate::store::rewritten;
use crate::store::row_set::RowSet;

thread_local! {
    /// Whether this transaction may have changed rows that a snapshot of its own sees at an older
    /// place.
    static ANY_CHANGED: Cell<bool> = const { Cell::new(false) };
    /// The tables in which it has changed rows that its transaction snapshot sees at an older
    /// place.
    static CHANGED: RefCell<Vec<Oid>> = const { RefCell::new(Vec::new()) };
}

/// To be called before a row of the group is changed.
pub fn note(table: Oid, entry: &GroupEntry) {
    let xid = entry.origin.xid;
    if xid.precedes(announced_xmin()) {
        return;
    }
    ANY_CHANGED.set(true);
    // Our own group is not in the snapshot either, but its rows had no other place in these files.
    let unseen = keeps_snapshot() && !xid.is_own() && kept_sees_as_running(xid);
    if unseen && !depends_on_links(table) {
        CHANGED.with_borrow_mut(|tables| tables.push(table));
    }
}

/// Called when the transaction is over.
pub fn reset() {
    if ANY_CHANGED.replace(false) {
        CHANGED.with_borrow_mut(Vec::clear);
    }
}

/// Whether this transaction may have changed rows that a snapshot of its own sees at an older
/// place.
#[inline]
pub fn any_changed() -> bool {
    ANY_CHANGED.get()
}

/// Whether this transaction would see rows of the table again that it has changed, if the links to
/// them were lost.
pub fn depends_on_links(table: Oid) -> bool {
    CHANGED.with_borrow(|tables| tables.contains(&table))
}

/// Whether rows that this snapshot sees must be followed to the places to which they were moved.
#[inline]
pub fn may_hide(snapshot: Snapshot<'_>) -> bool {
    let in_worker = || in_parallel_worker() && Xid::top_if_any().is_some();
    (ANY_CHANGED.get() || in_worker()) && snapshot.is_mvcc()
}

/// The rows of a group that were changed at their new places, as the snapshot sees it; `None` if
/// there are none, or if the group is still in force.
pub fn changed_rows(
    store: &ColdStore,
    entry: &GroupEntry,
    snapshot: Snapshot<'_>,
) -> Result<Option<RowSet>, ColdError> {
    let in_force = Snapshot::in_force();
    if directory::group_of(store, entry.first_row, in_force)?.is_some() {
        return Ok(None);
    }
    changed_behind(store, entry.group(), entry.row_count, snapshot)
}

/// The same for the first rows of a group that is gone.
fn changed_behind(
    store: &ColdStore,
    group: GroupId,
    row_count: u32,
    snapshot: Snapshot<'_>,
) -> Result<Option<RowSet>, ColdError> {
    let Some((places, next)) = successor_of(store, group, row_count)? else {
        return Ok(None);
    };
    let changed = match next {
        Successor::InForce(entry) => hidden_rows(store, &entry, snapshot)?,
        Successor::Gone(group) => changed_behind(store, group, MOST_ROWS, snapshot)?,
    };
    let Some(changed) = changed else {
        return Ok(None);
    };
    let start = next.first_row().0;
    let mut rows = RowSet::with_bound(row_count);
    for (position, place) in places.iter(row_count) {
        let there = place.0.checked_sub(start).map(|there| there as u32);
        if there.is_some_and(|there| changed.contains(there)) {
            rows.insert(position);
        }
    }
    Ok((!rows.is_empty()).then_some(rows))
}

/// The maximal number of rows in a group of unknown size.
const MOST_ROWS: u32 = howdah_columnar::MAX_ROWS as u32;

/// The group to which the rows of a removed group went: all went to one.
enum Successor {
    InForce(GroupEntry),
    Gone(GroupId),
}

impl Successor {
    fn first_row(&self) -> RowNumber {
        match self {
            Successor::InForce(entry) => entry.first_row,
            Successor::Gone(group) => group.first_row(),
        }
    }
}

fn successor_of(
    store: &ColdStore,
    group: GroupId,
    row_count: u32,
) -> Result<Option<(Places, Successor)>, ColdError> {
    let Some(places) = Places::of(store, group)? else {
        return Ok(None);
    };
    let Some((_, first)) = places.iter(row_count).next() else {
        return Ok(None);
    };
    let in_force = Snapshot::in_force();
    let next = match directory::group_of(store, first, in_force)? {
        Some(next) => Some(Successor::InForce(next.entry)),
        // Numbers only grow: a link that leads back is damaged, and following it might never end.
        None => directory::nearest_group(store, first)
            .filter(|&next| next > group)
            .map(Successor::Gone),
    };
    Ok(next.map(|next| (places, next)))
}

/// Whether the snapshot, which does not see the row's group, sees the row at an older place, and
/// its transaction has not changed the row.
pub fn is_seen(
    store: &ColdStore,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Result<bool, ColdError> {
    if !keeps_snapshot() || !snapshot.is_mvcc() || rewritten::is_unseen(store, snapshot) {
        return Ok(false);
    }
    let Some(placed) = directory::group_of(store, row, Snapshot::in_force())? else {
        return Ok(false);
    };
    let entry = placed.entry;
    if entry.position_of(row).is_none() || hides_row(store, &entry, row, snapshot)? {
        return Ok(false);
    }
    Ok(entry.flags.contain(GroupFlags::MOVED_ROWS) || was_seen(store, row, snapshot)?)
}

/// Whether the row came from a group that the snapshot sees, and that was merged with others before
/// every snapshot saw all of them.
fn was_seen(store: &ColdStore, row: RowNumber, snapshot: Snapshot<'_>) -> Result<bool, ColdError> {
    let in_force = Snapshot::in_force();
    for placed in directory::groups(store, snapshot)? {
        let entry = placed.entry;
        if directory::group_of(store, entry.first_row, in_force)?.is_none()
            && let Some(position) = position_before(store, entry.group(), entry.row_count, row)?
        {
            let old = RowNumber(entry.first_row.0 + u64::from(position));
            return Ok(!hides_row(store, &entry, old, snapshot)?);
        }
    }
    Ok(false)
}

/// The position that `row` had in a group that is gone.
fn position_before(
    store: &ColdStore,
    group: GroupId,
    row_count: u32,
    row: RowNumber,
) -> Result<Option<u32>, ColdError> {
    let Some((places, next)) = successor_of(store, group, row_count)? else {
        return Ok(None);
    };
    let start = next.first_row();
    let place = match next {
        Successor::InForce(entry) => entry.position_of(row),
        Successor::Gone(group) => position_before(store, group, MOST_ROWS, row)?,
    };
    let Some(place) = place.map(|place| RowNumber(start.0 + u64::from(place))) else {
        return Ok(None);
    };
    let mut all = places.iter(row_count);
    Ok(all
        .find(|&(_, to)| to == place)
        .map(|(position, _)| position))
}
