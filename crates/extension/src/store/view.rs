//! What one snapshot sees of a table's cold side, and cold rows as datums.
//!
//! A view lists the row groups that a snapshot sees, in ascending order of row numbers: stored
//! groups from the directory, and the rows of this backend's own running loads from memory (see
//! [`crate::load`]). It is read once per scan. Stored groups never change. Of a load that grows
//! while a scan runs, the scan sees the rows that existed when the view was made.

use std::cell::{Ref, RefCell};
use std::ops::Range;
use std::rc::Rc;

use howdah_bridge::Datum;
use howdah_bridge::needed_columns;
use howdah_bridge::predicate::is_serializable;
use howdah_bridge::process::applies_changes;
use howdah_bridge::slot::{Origin, Slot};
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::spare_memory::{self, LEAST_BYTES};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{Descriptor, LockMode, Table};
use howdah_bridge::tid::{GroupId, RowNumber};
use howdah_columnar::{Column, RowGroupBuilder, Value};

use super::cache::{directory_listings, emptied_tables};
use super::directory::{self, GroupEntry, GroupState};
use super::directory_version;
use super::group_bytes::LazyStore;
use super::group_cache;
use super::loads;
use super::open_group::OpenGroup;
use super::pending_groups::{self, PendingGroup};
use super::row_set::RowSet;
use super::visibility::{group, hidden};
use crate::errors::{ColdError, or_raise};
use crate::types::arena::Arena;
use crate::types::{AttributeLayout, TableLayout, datum_in, datum_of, packed_datum_in};

/// One row group of a view.
#[derive(Clone)]
pub enum ColdGroup {
    Stored(GroupEntry),
    Pending {
        load: Rc<RefCell<PendingGroup>>,
        entry: GroupEntry,
        row_count: u32,
    },
}

impl ColdGroup {
    /// The group's directory entry, or the entry that will be written for it.
    pub fn entry(&self) -> &GroupEntry {
        match self {
            ColdGroup::Stored(entry) | ColdGroup::Pending { entry, .. } => entry,
        }
    }

    pub fn first_row(&self) -> RowNumber {
        self.entry().first_row
    }

    pub fn row_count(&self) -> u32 {
        match self {
            ColdGroup::Stored(entry) => entry.row_count,
            ColdGroup::Pending { row_count, .. } => *row_count,
        }
    }

    /// Whether the rows are still in this backend's memory.
    pub fn is_pending(&self) -> bool {
        matches!(self, ColdGroup::Pending { .. })
    }
}

/// The cold side of a table as one snapshot sees it.
#[derive(Clone, Default)]
pub struct ColdView<'a> {
    pub groups: Vec<ColdGroup>,
    /// Decides which rows of the groups are hidden; without a snapshot, none are.
    pub snapshot: Option<Snapshot<'a>>,
}

impl<'a> ColdView<'a> {
    /// Reads the directory.
    pub fn of(table: Table<'_>, snapshot: Snapshot<'a>) -> ColdView<'a> {
        if snapshot.is_dirty() && applies_changes() {
            loads::wait_for_all(table);
        }
        let mut groups = match emptied_tables::is_known(table, snapshot) {
            true => Vec::new(),
            false => match stored_groups(table, snapshot) {
                Some(stored) => or_raise(table.oid(), stored),
                None => return ColdView::default(),
            },
        };
        let pending = pending_groups::visible(table, snapshot);
        if !pending.is_empty() {
            groups.extend(pending);
            groups.sort_by_key(|g| g.first_row());
        }
        let snapshot = Some(snapshot);
        ColdView { groups, snapshot }
    }

    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether the snapshot reports the transactions that are changing a row.
    pub fn is_dirty(&self) -> bool {
        self.snapshot.is_some_and(Snapshot::is_dirty)
    }

    /// Whether it is known without a look at its marks that the view shows no row of the group.
    pub fn is_all_hidden(&self, store: &ColdStore, group: &ColdGroup) -> bool {
        !group.entry().flags.are_clear()
            && self.snapshot.is_some_and(|snapshot| {
                snapshot.is_mvcc() && hidden::is_all_hidden(store, group.entry().group(), snapshot)
            })
    }

    /// Whether a row of the group may be hidden, as far as is known without a look at its marks.
    pub fn may_hide(&self, group: &ColdGroup) -> bool {
        (self.snapshot).is_some_and(|snapshot| group::may_hide_rows(group.entry(), snapshot))
    }

    /// The rows of a group that the view does not show, by position.
    pub fn hidden(
        &self,
        store: &ColdStore,
        group: &ColdGroup,
    ) -> Result<Option<RowSet>, ColdError> {
        let Some(snapshot) = self.snapshot else {
            return Ok(None);
        };
        group::rows_not_seen(store, group.entry(), snapshot)
    }

    /// The same among rows beside each other, counted from the first of them. `None` where it takes
    /// the whole group to know.
    pub fn hidden_among(
        &self,
        store: &ColdStore,
        group: &ColdGroup,
        positions: Range<u32>,
    ) -> Option<RowSet> {
        match self.snapshot {
            None => Some(RowSet::default()),
            Some(snapshot) => group::rows_not_seen_among(store, group.entry(), positions, snapshot),
        }
    }
}

/// The cold store of a table that has cold rows.
pub fn store_of(table: Table<'_>) -> Result<ColdStore<'_>, ColdError> {
    ColdStore::open(table, LockMode::AccessShare).ok_or(ColdError::DamagedDirectory {
        group: GroupId::UNKNOWN,
    })
}

/// The stored groups that the snapshot sees; `None` if no group was ever stored.
fn stored_groups(
    table: Table<'_>,
    snapshot: Snapshot<'_>,
) -> Option<Result<Vec<ColdGroup>, ColdError>> {
    let store = ColdStore::open_used(table, LockMode::AccessShare)?;
    let changes = directory_version::current(emptied_tables::toast_of(table));
    if let Some(youngest) = directory_listings::all_hidden(&store, snapshot) {
        if let Some(changes) = changes {
            emptied_tables::note(table, changes, youngest);
        }
        return Some(Ok(Vec::new()));
    }
    if is_serializable()
        && snapshot.is_mvcc()
        && let Err(error) = hidden::note_unseen_changes(&store, snapshot)
    {
        return Some(Err(error));
    }
    let shown =
        |p: &directory::PlacedEntry| p.entry.state == GroupState::Stored && p.entry.row_count > 0;
    Some(directory::groups(&store, snapshot).map(|groups| {
        groups
            .into_iter()
            .filter(shown)
            .map(|p| ColdGroup::Stored(p.entry))
            .collect()
    }))
}

/// Which columns a reader wants.
#[derive(Clone, Debug)]
pub enum Wanted {
    All,
    /// One flag per attribute.
    Some(Rc<[bool]>),
}

impl Wanted {
    /// The columns of the rows in a slot that any expression reads; `is_rechecked` tells whether
    /// conditions of a bitmap are among these.
    pub fn in_slot(slot: Slot<'_>, is_rechecked: bool) -> Wanted {
        let reading = needed_columns::of_slot(slot, is_rechecked);
        reading.map_or(Wanted::All, |reading| Wanted::Some(reading.columns))
    }

    /// The columns of a row that is locked and stored in a slot that any expression reads.
    pub fn of_locked(slot: Slot<'_>) -> Wanted {
        needed_columns::of_locked(slot).map_or(Wanted::All, Wanted::Some)
    }

    /// The columns of a row, found under a dirty snapshot, that are looked at.
    pub fn of_check(table: Table<'_>) -> Wanted {
        needed_columns::of_check(table).map_or(Wanted::All, Wanted::Some)
    }

    /// Whether the slot is not looked at: only whether rows are visible is wanted.
    pub fn is_visibility(&self) -> bool {
        matches!(self, Wanted::Some(flags) if flags.is_empty())
    }

    /// Whether no column is wanted.
    pub fn is_nothing(&self) -> bool {
        matches!(self, Wanted::Some(flags) if !flags.contains(&true))
    }

    #[inline]
    pub fn contains(&self, attribute: usize) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Some(flags) => flags.get(attribute).copied().unwrap_or(false),
        }
    }
}

enum Source {
    /// One decoded column per stored column; `None` where not wanted.
    Columns(Vec<Option<Column>>),
    Pending(Rc<RefCell<PendingGroup>>),
}

/// A row group prepared for reading row by row, with the wanted columns decoded.
pub struct GroupRows {
    pub first_row: RowNumber,
    pub row_count: u32,
    pub origin: Origin,
    source: Source,
    /// The rows that are decoded.
    decoded: Range<u32>,
}

impl GroupRows {
    /// Decodes the wanted columns of a group.
    pub fn load(
        store: &ColdStore,
        group: &ColdGroup,
        wanted: &Wanted,
    ) -> Result<GroupRows, ColdError> {
        GroupRows::load_some(store, group, wanted, 0..group.row_count())
    }

    /// Decodes the wanted columns of some rows of a group.
    pub fn load_some(
        store: &ColdStore,
        group: &ColdGroup,
        wanted: &Wanted,
        rows: Range<u32>,
    ) -> Result<GroupRows, ColdError> {
        spare_memory::set_aside(LEAST_BYTES);
        let source = match group {
            ColdGroup::Stored(entry) => {
                let open = OpenGroup::open(store, *entry)?;
                // Columns that lie side by side are decoded together where all are open.
                for i in (0..open.column_count()).filter(|&i| wanted.contains(i)) {
                    howdah_bridge::check_for_interrupts!();
                    open.chunk(store, i)?;
                }
                let columns = (0..open.column_count())
                    .map(|i| {
                        howdah_bridge::check_for_interrupts!();
                        if wanted.contains(i) {
                            let rows = rows.start as usize..rows.end as usize;
                            Ok(Some(open.chunk(store, i)?.decode_range(rows)?))
                        } else {
                            Ok(None)
                        }
                    })
                    .collect::<Result<Vec<_>, ColdError>>()?;
                Source::Columns(columns)
            }
            ColdGroup::Pending { load, .. } => Source::Pending(Rc::clone(load)),
        };
        Ok(GroupRows {
            first_row: group.first_row(),
            row_count: group.row_count(),
            origin: group.entry().origin,
            source,
            decoded: rows,
        })
    }

    /// Whether a row of the group is decoded.
    pub fn has(&self, row: u32) -> bool {
        self.decoded.contains(&row)
    }

    /// Writes the row's values into `out`; attributes the group does not store get their
    /// missing value, unwanted ones are NULL. They live until the next row is written.
    ///
    /// # Panics
    /// If `out` has not one entry per attribute of `layout`, or `desc` is not its descriptor.
    pub fn fill(
        &self,
        row: u32,
        layout: &TableLayout,
        desc: Descriptor<'_>,
        wanted: &Wanted,
        out: &mut RowDatums,
    ) {
        out.start();
        match &self.source {
            Source::Columns(columns) => {
                for (i, attribute) in layout.attributes.iter().enumerate() {
                    if attribute.dropped || !wanted.contains(i) {
                        out.set_null(i);
                        continue;
                    }
                    match columns.get(i) {
                        None => out.set_missing(desc, i),
                        Some(None) => out.set_null(i),
                        Some(Some(column)) => {
                            match column.value((row - self.decoded.start) as usize) {
                                None => out.set_null(i),
                                Some(value) => out.put(i, value, attribute),
                            }
                        }
                    }
                }
            }
            Source::Pending(load) => {
                let load: Ref<'_, PendingGroup> = load.borrow();
                fill_from_builder(load.rows.get(), row as usize, layout, out);
            }
        }
    }
}

/// Writes the values of a row that is not encoded yet into `out`; attributes that were added since
/// are NULL.
///
/// # Panics
/// If `out` has not one entry per attribute of `layout`.
pub fn fill_from_builder(
    rows: &RowGroupBuilder,
    row: usize,
    layout: &TableLayout,
    out: &mut RowDatums,
) {
    out.start();
    let stored = rows.columns().len();
    for (i, attribute) in layout.attributes.iter().enumerate() {
        match (i < stored && !attribute.dropped)
            .then(|| rows.value(i, row))
            .flatten()
        {
            None => out.set_null(i),
            Some(value) => out.put(i, value, attribute),
        }
    }
}

/// Reads one value of a row of a stored group, into the current memory context; `None` is NULL.
/// `desc` is the descriptor of the table.
///
/// # Panics
/// If there is no such attribute.
pub fn point_value(
    store: &ColdStore,
    entry: GroupEntry,
    position: u32,
    desc: Descriptor<'_>,
    attribute: usize,
) -> Result<Option<Datum>, ColdError> {
    let group = group_cache::cached(store, entry)?;
    if attribute >= group.column_count() {
        return Ok(desc.missing_value(attribute));
    }
    let layout = AttributeLayout::of(desc.attribute(attribute));
    group.show(&LazyStore::from(store), attribute, position, |value| {
        value.map(|value| datum_of(value, &layout))
    })
}

/// Longer values of a fixed length are always read.
pub const LONGEST_UNNEEDED_BYTES: usize = 256;

/// A varlena of no bytes: its short header says that it is one byte long.
static EMPTY_VARLENA: [u8; 8] = [3, 0, 0, 0, 0, 0, 0, 0];
static ZEROS: [u64; LONGEST_UNNEEDED_BYTES / 8] = [0; LONGEST_UNNEEDED_BYTES / 8];

/// Values and null flags of one row.
pub struct RowDatums {
    pub values: Vec<Datum>,
    pub nulls: Vec<bool>,
    arena: Arena,
    /// The columns that are written for each row, where all others were set for the first one.
    some: Option<SomeColumns>,
    /// The numbers of all columns.
    all: Rc<[usize]>,
    /// Whether values get the form that they have in a tuple: they are read without one.
    is_packed: bool,
}

/// The columns that a reader of rows wants, as long as it is the same reader.
struct SomeColumns {
    wanted: Rc<[bool]>,
    /// Their numbers, without those that are dropped.
    read: Rc<[usize]>,
}

impl RowDatums {
    pub fn new(attribute_count: usize) -> RowDatums {
        RowDatums {
            values: vec![Datum::from(0); attribute_count],
            nulls: vec![true; attribute_count],
            arena: Arena::default(),
            some: None,
            all: (0..attribute_count).collect(),
            is_packed: false,
        }
    }

    /// Gives values the form that they have in a tuple from now on.
    pub fn pack(&mut self) {
        self.is_packed = true;
    }

    /// Memory held for values, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.arena.memory_bytes()
    }

    /// Discards values that [`put`](RowDatums::put) has set.
    #[inline]
    pub(super) fn start(&mut self) {
        self.arena.clear();
        self.some = None;
    }

    /// Does the same before a row of which some columns are wanted, and makes sure that all others
    /// are set. Rows after the first one of a reader find them set.
    ///
    /// # Panics
    /// If there is not one entry per attribute of `layout`.
    pub fn start_some(&mut self, layout: &TableLayout, wanted: &Rc<[bool]>) {
        self.arena.clear();
        let known = self.some.as_ref();
        if known.is_some_and(|some| Rc::ptr_eq(&some.wanted, wanted)) {
            return;
        }
        let mut read = Vec::new();
        for (i, attribute) in layout.attributes.iter().enumerate() {
            match wanted.get(i) {
                _ if attribute.dropped => self.set_null(i),
                Some(true) => read.push(i),
                _ => self.set_unneeded(i, attribute),
            }
        }
        let wanted = Rc::clone(wanted);
        let read = read.into();
        self.some = Some(SomeColumns { wanted, read });
    }

    /// Does the same before another row of the same columns.
    #[inline]
    pub fn start_next(&mut self) {
        self.arena.clear();
    }

    /// The columns that [`start_some`](RowDatums::start_some) has found wanted, ascending. An own
    /// reference to them: an error that leaves a row half written must not leave them out.
    #[inline]
    pub fn wanted(&self) -> Rc<[usize]> {
        let some = self.some.as_ref();
        some.map_or_else(Rc::default, |some| Rc::clone(&some.read))
    }

    /// The numbers of all columns.
    #[inline]
    pub(super) fn all(&self) -> Rc<[usize]> {
        Rc::clone(&self.all)
    }

    /// Sets all values to NULL.
    pub fn set_all_null(&mut self) {
        self.some = None;
        (0..self.values.len()).for_each(|i| self.set_null(i));
    }

    /// Sets a value that lives as long as this row's.
    #[inline]
    pub(super) fn put(&mut self, i: usize, value: Value<'_>, attribute: &AttributeLayout) {
        let datum = match self.is_packed {
            true => packed_datum_in(&mut self.arena, value, attribute),
            false => datum_in(&mut self.arena, value, attribute),
        };
        self.set(i, datum);
    }

    #[inline]
    pub fn set(&mut self, i: usize, value: Datum) {
        self.values[i] = value;
        self.nulls[i] = false;
    }

    #[inline]
    pub fn set_null(&mut self, i: usize) {
        self.values[i] = Datum::from(0);
        self.nulls[i] = true;
    }

    /// Sets a value of the right form in place of one that is not read. It is not NULL where the
    /// column has no NULLs: code that deforms tuples may rely on that.
    pub(super) fn set_unneeded(&mut self, i: usize, attribute: &AttributeLayout) {
        match attribute.len {
            _ if !attribute.not_null => self.set_null(i),
            _ if attribute.by_value => self.set(i, Datum::from(0)),
            -1 => self.set(i, Datum::from(EMPTY_VARLENA.as_ptr())),
            _ => self.set(i, Datum::from(ZEROS.as_ptr())),
        }
    }

    /// A row of which no value is read.
    pub fn fill_unneeded(&mut self, layout: &TableLayout) {
        self.some = None;
        for (i, attribute) in layout.attributes.iter().enumerate() {
            match attribute.dropped {
                true => self.set_null(i),
                false => self.set_unneeded(i, attribute),
            }
        }
    }

    /// Sets the value of rows that were stored before the attribute was added.
    pub(super) fn set_missing(&mut self, desc: Descriptor<'_>, i: usize) {
        match desc.missing_value(i) {
            Some(value) => self.set(i, value),
            None => self.set_null(i),
        }
    }
}
