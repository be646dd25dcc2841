//! Which rows of a group are hidden from a snapshot that sees the group: by row, range and group.
//!
//! The rule is that of [`super::rule`]. Here are the records that it is applied to, as the store
//! has them: for one row each is looked up by its key, for many they are read page by page.

use std::ops::{ControlFlow, Range};

use howdah_bridge::predicate::is_serializable;
use howdah_bridge::shown_tuple::ShownTuple;
use howdah_bridge::snapshot::{Snapshot, SnapshotKind};
use howdah_bridge::store::{ColdStore, StoreId, Visited};
use howdah_bridge::tid::{GroupId, RowNumber};
use howdah_bridge::xid::{CommandId, Xid};

use super::rule::{self, Kinds, Records, Sight};
use crate::errors::ColdError;
use crate::store::cache::hidden_groups;
use crate::store::directory::{self, GroupEntry, GroupFlags};
use crate::store::marks::block_deletions::visit_those_of;
use crate::store::marks::deletion_vector::{
    DELETION_VECTOR_ID, deletion_vector_place, deletion_vectors_of, for_each_in_vectors,
    insert_rows, open_vector,
};
use crate::store::marks::mark_filter::ask;
use crate::store::marks::marked_rows::{for_each_marked, hidden_where};
use crate::store::marks::recent_inserts;
use crate::store::marks::row_mark::MARK_KEYS;
use crate::store::marks::tuple_visibility::writer_of;
use crate::store::pending_marks::memory;
use crate::store::row_set::RowSet;

pub use super::rule::{Hidden, HiddenRows};

/// The records of a stored group, as a snapshot sees them.
struct StoredRecords<'a> {
    store: &'a ColdStore<'a>,
    entry: &'a GroupEntry,
    snapshot: Snapshot<'a>,
    sight: Sight,
}

impl<'a> StoredRecords<'a> {
    fn new(
        store: &'a ColdStore<'a>,
        entry: &'a GroupEntry,
        snapshot: Snapshot<'a>,
    ) -> StoredRecords<'a> {
        let sight = match snapshot.kind() {
            SnapshotKind::Any | SnapshotKind::NonVacuumable | SnapshotKind::Toast => {
                Sight::Everything
            }
            SnapshotKind::Mvcc => Sight::Until(snapshot.command()),
            SnapshotKind::SelfVisible | SnapshotKind::Dirty | SnapshotKind::HistoricMvcc => {
                Sight::Now
            }
        };
        StoredRecords {
            store,
            entry,
            snapshot,
            sight,
        }
    }

    fn row(&self, position: u32) -> RowNumber {
        RowNumber(self.entry.first_row.0 + u64::from(position))
    }

    /// Whether the snapshot sees a record of one row. A dirty snapshot does not see the record of a
    /// transaction in progress, and is given that transaction: the caller waits for it.
    fn sees(&self, shown: &Visited<'_>) -> bool {
        if !self.snapshot.is_dirty() {
            return self.store.visible(shown.tuple, self.snapshot);
        }
        match shown.tuple.satisfies_dirty(self.snapshot) {
            (true, Some(inserter)) => {
                self.snapshot.name_deleter(inserter);
                false
            }
            (visible, _) => visible,
        }
    }

    /// Whether the snapshot sees a record of many rows. A dirty snapshot is given no transaction
    /// that is hiding one of them: its reader asks row by row for these.
    fn sees_among_many(&self, shown: &Visited<'_>) -> bool {
        match self.snapshot.is_dirty() {
            true => shown.tuple.is_in_force(),
            false => self.store.visible(shown.tuple, self.snapshot),
        }
    }
}

impl Records for StoredRecords<'_> {
    type Error = ColdError;

    #[inline]
    fn sight(&self) -> Sight {
        self.sight
    }

    #[inline]
    fn kinds(&self) -> Kinds {
        let flags = self.entry.flags;
        Kinds {
            marks: flags.contain(GroupFlags::ROW_MARKS)
                || flags.contain(GroupFlags::BLOCK_DELETIONS),
            vectors: flags.contain(GroupFlags::DELETION_VECTORS),
            recent: flags.contain(GroupFlags::RECENT_INSERTS),
        }
    }

    fn capacity(&self) -> u32 {
        self.entry.capacity_rows
    }

    fn row_count(&self) -> u32 {
        self.entry.row_count
    }

    fn any_in_memory(&self) -> bool {
        memory::any()
    }

    #[inline]
    fn in_memory(&self, position: u32) -> Option<CommandId> {
        memory::command_hiding(self.store, self.entry, self.row(position))
    }

    fn among_in_memory(&self, positions: Range<u32>, hide: &mut dyn FnMut(u32, CommandId)) {
        memory::for_each_hidden(self.store, self.entry, positions, hide);
    }

    #[inline]
    fn may_be_marked(&self, position: u32) -> bool {
        // A check of a constraint asks while it holds a lock on an index page: too short a moment
        // to read all marks of a group.
        let may_build = !self.snapshot.is_dirty();
        ask::may_be_marked(self.store, self.entry, self.row(position), may_build)
    }

    #[inline]
    fn mark(&self, position: u32) -> Result<Option<Xid>, ColdError> {
        let (row, flags, mut by) = (self.row(position), self.entry.flags, None);
        let mut look = |shown: &Visited<'_>| {
            if self.sees(shown) {
                by = Some(writer_of(shown).0);
            }
            ControlFlow::Continue(())
        };
        if flags.contain(GroupFlags::ROW_MARKS) {
            let (id, seq) = MARK_KEYS.key_of(row);
            self.store.visit(id, seq..=seq, &mut |shown| look(&shown));
        }
        if flags.contain(GroupFlags::BLOCK_DELETIONS) {
            visit_those_of(self.store, self.entry.group(), row, &mut look)?;
        }
        Ok(by)
    }

    fn marks(
        &self,
        positions: Range<u32>,
        hide: &mut dyn FnMut(u32, Xid),
    ) -> Result<(), ColdError> {
        let mut sees = |shown: &Visited<'_>| self.sees_among_many(shown);
        for_each_marked(self.store, self.entry, positions, &mut sees, hide)
    }

    #[inline]
    fn vector(&self, position: u32) -> Result<Option<Xid>, ColdError> {
        let (seq, at) = deletion_vector_place(self.entry, self.row(position));
        let (mut by, mut damage) = (None, None);
        // Many commands of a transaction leave as many versions, of which a snapshot sees one. But
        // where a look at a version has an effect, it must hide this row: a dirty snapshot names
        // the deleter, a serializable transaction notes a conflict with it.
        let is_noted = self.snapshot.is_dirty() || is_serializable();
        self.store
            .visit(DELETION_VECTOR_ID, seq..=seq, &mut |shown| {
                if !is_noted && !self.sees(&shown) {
                    return ControlFlow::Continue(());
                }
                match open_vector(self.entry.group(), shown.payload) {
                    Ok(vector) if vector.hides(at) => {
                        if !is_noted || self.sees(&shown) {
                            by = Some(writer_of(&shown).0);
                        }
                    }
                    Ok(_) => {}
                    Err(error) => damage = Some(error),
                }
                ControlFlow::Continue(())
            });
        damage.map_or(Ok(by), Err)
    }

    fn in_vectors(
        &self,
        positions: Range<u32>,
        hide: &mut dyn FnMut(u32, Xid),
    ) -> Result<(), ColdError> {
        let mut sees = |shown: &Visited<'_>| self.sees_among_many(shown);
        for_each_in_vectors(self.store, self.entry, positions, &mut sees, hide)
    }

    fn vectors(&self, rows: &mut RowSet, by: &mut dyn FnMut(Xid)) -> Result<(), ColdError> {
        let (entry, mut damage) = (self.entry, None);
        let keys = deletion_vectors_of(entry);
        self.store.visit(DELETION_VECTOR_ID, keys, &mut |shown| {
            if self.sees_among_many(&shown) {
                by(writer_of(&shown).0);
                match open_vector(entry.group(), shown.payload) {
                    Ok(vector) => insert_rows(entry, shown.seq, &vector.hidden(), rows),
                    Err(error) => damage = Some(error),
                }
            }
            ControlFlow::Continue(())
        });
        damage.map_or(Ok(()), Err)
    }

    fn is_unseen(&self, position: u32) -> Result<bool, ColdError> {
        recent_inserts::is_unseen(self.store, self.entry, self.row(position), self.snapshot)
    }

    fn all_unseen(&self, rows: &mut RowSet) -> Result<(), ColdError> {
        recent_inserts::add_unseen(self.store, self.entry, self.snapshot, rows)
    }
}

/// Whether and how a row of a group that the snapshot sees is hidden. A dirty snapshot is given the
/// transaction that is about to hide it.
///
/// # Errors
/// A damaged record.
pub fn hidden_row(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Result<Hidden, ColdError> {
    if entry.flags.are_clear() {
        return Ok(Hidden::No);
    }
    let position = (row.0 - entry.first_row.0) as u32;
    rule::of_row(&StoredRecords::new(store, entry, snapshot), position)
}

/// As [`hidden_row`], without how.
///
/// # Errors
/// A damaged record.
pub fn hides_row(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Result<bool, ColdError> {
    Ok(hidden_row(store, entry, row, snapshot)? != Hidden::No)
}

/// Whether it is known, without a look at the store, that nothing hides the row from an MVCC
/// snapshot that sees its group. `file` is the [id](ColdStore::id) of the store.
#[inline]
pub fn is_surely_shown(
    file: StoreId,
    entry: &GroupEntry,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> bool {
    !may_hide_for_now(entry, snapshot) && ask::is_surely_unmarked(file, entry, row)
}

/// Whether rows of the group may be hidden from the MVCC snapshot without a mark.
fn may_hide_for_now(entry: &GroupEntry, snapshot: Snapshot<'_>) -> bool {
    entry.flags.contain(GroupFlags::RECENT_INSERTS) || memory::any_before(snapshot.command())
}

/// How many of these rows, from the first one on, nothing hides from an MVCC snapshot that sees
/// their group, as is known without a look at the store.
pub fn surely_shown_from(
    file: StoreId,
    entry: &GroupEntry,
    positions: Range<u32>,
    snapshot: Snapshot<'_>,
) -> u32 {
    match may_hide_for_now(entry, snapshot) {
        true => 0,
        false => ask::surely_unmarked_among(file, entry, positions),
    }
}

/// Whether a reader must look for a mark of the row, of its own or in a deletion vector.
pub fn may_be_hidden(store: &ColdStore, entry: &GroupEntry, row: RowNumber) -> bool {
    ask::may_have_mark(store, entry, row, true)
}

/// The hidden rows among those beside each other, from an MVCC snapshot, by position counted from
/// the first of them. `None` where some may be younger than the snapshot, or a record is damaged;
/// ask row by row, or for the whole group, then. `None` also in serializable
/// transactions: marks of rows that are not read would count as conflicts there.
pub fn hidden_range(
    store: &ColdStore,
    entry: &GroupEntry,
    positions: Range<u32>,
    snapshot: Snapshot<'_>,
) -> Option<HiddenRows> {
    if is_serializable() {
        return None;
    }
    let records = StoredRecords::new(store, entry, snapshot);
    rule::of_range(&records, positions).ok().flatten()
}

/// The hidden rows of a group that the snapshot sees, if any are.
///
/// # Errors
/// A damaged record.
pub fn hidden_group(
    store: &ColdStore,
    entry: &GroupEntry,
    snapshot: Snapshot<'_>,
) -> Result<Option<HiddenRows>, ColdError> {
    if entry.flags.are_clear() {
        return Ok(None);
    }
    let mvcc = snapshot.is_mvcc();
    if mvcc && let Some(youngest) = all_hidden_by(store, entry.group(), snapshot) {
        return Ok(Some(HiddenRows {
            rows: RowSet::full(entry.row_count),
            how: Hidden::By(youngest),
            all_by: Some(youngest),
        }));
    }
    let hidden = rule::of_group(&StoredRecords::new(store, entry, snapshot))?;
    if mvcc && let Some(youngest) = hidden.as_ref().and_then(|hidden| hidden.all_by) {
        hidden_groups::note(store, entry, youngest, snapshot);
    }
    Ok(hidden)
}

/// As [`hidden_group`], without how.
///
/// # Errors
/// A damaged record.
pub fn hidden_rows(
    store: &ColdStore,
    entry: &GroupEntry,
    snapshot: Snapshot<'_>,
) -> Result<Option<RowSet>, ColdError> {
    Ok(hidden_group(store, entry, snapshot)?.map(|hidden| hidden.rows))
}

/// Whether every row of the group is known to be hidden from the MVCC snapshot.
pub fn is_all_hidden(store: &ColdStore, group: GroupId, snapshot: Snapshot<'_>) -> bool {
    all_hidden_by(store, group, snapshot).is_some()
}

/// The youngest transaction that hid a row of the group, if every row is known to be hidden from
/// the MVCC snapshot.
pub fn all_hidden_by(store: &ColdStore, group: GroupId, snapshot: Snapshot<'_>) -> Option<Xid> {
    hidden_groups::youngest(store, group, snapshot)
}

/// Reports to the serializable machinery the transactions that have changed rows of groups which
/// are in force but which the snapshot, an MVCC one, does not see. The snapshot reads rows that
/// were moved into such a group at their old place, where such a change leaves no trace.
///
/// # Errors
/// A damaged record.
pub fn note_unseen_changes(store: &ColdStore, snapshot: Snapshot<'_>) -> Result<(), ColdError> {
    let mut is_unseen = |tuple: ShownTuple<'_>| tuple.is_in_force() && !tuple.satisfies(snapshot);
    for placed in directory::groups_where(store, &mut is_unseen)? {
        let mut sees = |shown: &Visited<'_>| store.visible(shown.tuple, snapshot);
        hidden_where(store, &placed.entry, &mut sees)?;
    }
    Ok(())
}
