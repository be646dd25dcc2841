//! Cold rows one after the other, in both directions, as tuples in a slot.
//!
//! ```text
//!   before first <── row ──> row ──> … ──> after last
//! ```
//!
//! A scan may end after its first rows, as with LIMIT or EXISTS. So the first rows of a scan may be
//! read one by one, then those of a zone are decoded, and only then the rows of the whole group.
//!
//! Invariant: between calls a cursor holds no pin, no lock and no open relation; what it read was
//! copied. So it can be dropped at any time, also after an error.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use howdah_bridge::slot::{Origin, Slot};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{GroupId, RowNumber};
use howdah_columnar::ZONE_ROWS;

use crate::errors::{ColdError, or_raise, raise};
use crate::scan_stats::{self, ScanCounts};
use crate::slot_writer::SlotWriter;
use crate::store::group_access::GroupAccess;
use crate::store::group_bytes::LazyStore;
use crate::store::group_cache;
use crate::store::marks;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, ColdView, GroupRows, Wanted};
use crate::store::visibility::sees_row;

/// Assigns groups to the participants of a parallel scan.
#[derive(Clone, Copy)]
pub struct SharedNext<'a>(&'a AtomicU32);

impl<'a> SharedNext<'a> {
    /// `counter` is shared by the participants, and 0 at the begin.
    pub fn new(counter: &'a AtomicU32) -> SharedNext<'a> {
        SharedNext(counter)
    }

    /// Claims the first stored group that no participant has claimed yet. Groups are claimed by
    /// their position among the cold blocks, not in the view: participants of an index build may
    /// have judged a group that is being deleted differently.
    fn claim(self, groups: &[ColdGroup]) -> Option<usize> {
        let counter = self.0;
        let mut from = counter.load(Ordering::Relaxed);
        loop {
            let start = groups.partition_point(|g| g.first_row().cold_block() < from);
            let next = (start..groups.len()).find(|&i| !groups[i].is_pending())?;
            let after = groups[next].first_row().cold_block() + 1;
            match counter.compare_exchange_weak(from, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(next),
                Err(now) => from = now,
            }
        }
    }
}

/// Rows of a group that a transaction in progress is inserting or hiding.
#[derive(Default)]
enum Unsettled {
    #[default]
    None,
    Some(RowSet),
    /// The group itself is being inserted.
    All,
}

impl Unsettled {
    fn of(store: &ColdStore, group: &ColdGroup) -> Result<Unsettled, ColdError> {
        let entry = group.entry();
        let maker = entry.origin.xid;
        let is_new = maker.is_normal() && !maker.is_own() && maker.is_in_progress();
        if is_new {
            return Ok(Unsettled::All);
        }
        let rows = marks::arriving_in(store, entry)?;
        Ok(rows.map_or(Unsettled::None, Unsettled::Some))
    }
}

/// Of a group with so many rows, one is read by itself before others are decoded. A row by itself
/// takes about fifteen times as long as one of a whole group, whose chunks are copied besides.
const ROWS_PER_SINGLE: u32 = 32;
/// The least number of rows that are read by themselves.
const FEWEST_SINGLE: u32 = 16;

/// The rows of a group.
struct Rows {
    first_row: RowNumber,
    row_count: u32,
    origin: Origin,
    values: Values,
}

enum Values {
    Decoded(GroupRows),
    /// They are read one by one.
    Single(Rc<GroupAccess>),
}

impl Rows {
    fn decoded(rows: GroupRows) -> Rows {
        Rows {
            first_row: rows.first_row,
            row_count: rows.row_count,
            origin: rows.origin,
            values: Values::Decoded(rows),
        }
    }
}

/// A position among the cold rows of a view.
pub struct ColdCursor<'a> {
    view: ColdView<'a>,
    wanted: Wanted,
    writer: SlotWriter,
    shared: Option<SharedNext<'a>>,
    /// Index of the current group; -1 before the first, `len` after the last.
    group: isize,
    rows: Option<Rows>,
    /// Whether the first rows are read one by one.
    begins_single: bool,
    /// How many rows were since the cursor was before the first.
    single_count: u32,
    /// Rows of the current group that are skipped.
    hidden: Option<RowSet>,
    /// Rows of the current group that a transaction in progress may be changing; for dirty
    /// snapshots only.
    unsettled: Unsettled,
    /// Position inside the current group.
    row: i64,
    /// For each group of the view, whether it was deleted, so that its rows may be dead.
    deleted: Vec<bool>,
}

impl<'a> ColdCursor<'a> {
    /// The current memory context must outlive the cursor.
    pub fn new(
        view: ColdView<'a>,
        wanted: Wanted,
        shared: Option<SharedNext<'a>>,
    ) -> ColdCursor<'a> {
        ColdCursor {
            view,
            wanted,
            writer: SlotWriter::new(),
            shared,
            group: -1,
            rows: None,
            begins_single: false,
            single_count: 0,
            hidden: None,
            unsettled: Unsettled::None,
            row: -1,
            deleted: Vec::new(),
        }
    }

    /// Makes the cursor skip deleted groups that are dead; `deleted` has a flag per group of the
    /// view.
    pub fn without_dead_groups(mut self, deleted: Vec<bool>) -> ColdCursor<'a> {
        self.deleted = deleted;
        self
    }

    /// Makes the cursor read its first rows one by one. The view's snapshot is an MVCC one.
    pub fn with_single_rows(mut self) -> ColdCursor<'a> {
        self.begins_single = true;
        self
    }

    /// Position of the current row's group in the view.
    pub fn group_index(&self) -> usize {
        self.group.max(0) as usize
    }

    /// Frees what the cursor holds before its memory context does.
    pub fn end(self) {
        self.writer.delete();
    }

    /// Moves after the last row.
    pub fn move_to_end(&mut self) {
        self.group = self.view.groups.len() as isize;
        self.rows = None;
        self.single_count = 0;
    }

    /// Moves before the first row.
    pub fn rewind(&mut self) {
        self.group = -1;
        self.rows = None;
        self.single_count = 0;
    }

    /// Moves one row forward. `table` is the one that the cursor was made for.
    pub fn next(&mut self, table: Table<'_>) -> Option<RowNumber> {
        loop {
            if let Some(rows) = &self.rows {
                while self.row + 1 < i64::from(rows.row_count) {
                    self.row += 1;
                    if !self.is_hidden(self.row) {
                        return Some(RowNumber(rows.first_row.0 + self.row as u64));
                    }
                }
                self.rows = None;
            }
            let next = match self.shared {
                None => self.group + 1,
                Some(shared) => self.next_shared(shared),
            };
            if next >= self.view.groups.len() as isize {
                self.group = self.view.groups.len() as isize;
                return None;
            }
            self.group = next;
            self.load(table);
            self.row = -1;
        }
    }

    /// The next group for this participant. Stored groups are distributed among participants.
    /// Pending groups are known to their own backend only, which returns their rows once, at the
    /// end.
    fn next_shared(&self, shared: SharedNext<'a>) -> isize {
        let groups = &self.view.groups;
        let len = groups.len();
        let pending_after = |start: usize| (start..len).find(|&i| groups[i].is_pending());
        let next = match usize::try_from(self.group) {
            Ok(at) if at >= len => None,
            Ok(at) if groups[at].is_pending() => pending_after(at + 1),
            _ => shared.claim(groups).or_else(|| pending_after(0)),
        };
        next.unwrap_or(len) as isize
    }

    /// Moves one row backward; otherwise as [`ColdCursor::next`].
    pub fn previous(&mut self, table: Table<'_>) -> Option<RowNumber> {
        loop {
            if let Some(rows) = &self.rows {
                while self.row > 0 {
                    self.row -= 1;
                    if !self.is_hidden(self.row) {
                        return Some(RowNumber(rows.first_row.0 + self.row as u64));
                    }
                }
                self.rows = None;
            }
            if self.group <= 0 {
                self.group = -1;
                return None;
            }
            self.group -= 1;
            self.load(table);
            self.row = self.rows.as_ref().map_or(0, |r| i64::from(r.row_count));
        }
    }

    /// Whether all rows of the current group are hidden.
    fn hides_all(&self) -> bool {
        let row_count = self.view.groups[self.group as usize].row_count();
        self.hidden
            .as_ref()
            .is_some_and(|hidden| hidden.len() >= row_count)
    }

    fn is_hidden(&self, row: i64) -> bool {
        self.hidden
            .as_ref()
            .is_some_and(|hidden| hidden.contains(row as u32))
    }

    /// Judges the current row by a dirty snapshot, as heap does for each of its rows: the snapshot
    /// is given the transaction that is inserting or hiding the row. `false` if the row is dead by
    /// now.
    pub fn ask_dirty_snapshot(&self, table: Table<'_>) -> bool {
        let Some(snapshot) = self.view.snapshot.filter(|snapshot| snapshot.is_dirty()) else {
            return true;
        };
        let unsettled = match &self.unsettled {
            Unsettled::None => false,
            Unsettled::Some(rows) => rows.contains(self.row as u32),
            Unsettled::All => true,
        };
        snapshot.reset_dirty();
        let (true, Some(rows)) = (unsettled, &self.rows) else {
            return true;
        };
        let row = RowNumber(rows.first_row.0 + self.row as u64);
        ColdStore::open(table, LockMode::AccessShare)
            .is_some_and(|store| sees_row(&store, table, row, snapshot))
    }

    fn load(&mut self, table: Table<'_>) {
        let oid = table.oid();
        let group = &self.view.groups[self.group as usize];
        let Some(store) = ColdStore::open(table, LockMode::AccessShare) else {
            raise(
                oid,
                &ColdError::DamagedDirectory {
                    group: GroupId::UNKNOWN,
                },
            )
        };
        if !self.view.is_dirty() {
            self.hidden = or_raise(oid, self.view.hidden(&store, group));
            self.unsettled = Unsettled::None;
            if self.hides_all() {
                self.rows = None;
                return;
            }
        }
        let is_deleted = self.deleted.get(self.group as usize) == Some(&true);
        self.rows = match group {
            ColdGroup::Stored(entry) if self.may_be_single(entry.row_count) => Some(Rows {
                first_row: entry.first_row,
                row_count: entry.row_count,
                origin: entry.origin,
                values: Values::Single(or_raise(oid, group_cache::cached(&store, *entry))),
            }),
            _ => match GroupRows::load(&store, group, &self.wanted) {
                Err(error) if is_deleted && error.is_missing_piece() => None,
                rows => Some(Rows::decoded(or_raise(oid, rows))),
            },
        };
        // Before hidden rows are read: a transaction that ends in between is then waited for in
        // vain, which does no harm.
        if self.view.is_dirty() {
            self.unsettled = or_raise(oid, Unsettled::of(&store, group));
            self.hidden = or_raise(oid, self.view.hidden(&store, group));
        }
        let counts = ScanCounts {
            groups_read_by_row: 1,
            ..ScanCounts::default()
        };
        scan_stats::count(oid, counts);
    }

    /// Whether a row of a group of so many is to be read by itself.
    fn may_be_single(&self, row_count: u32) -> bool {
        let most = (row_count / ROWS_PER_SINGLE).max(FEWEST_SINGLE);
        self.begins_single && self.single_count < most
    }

    /// Decodes rows of the current group if enough were read by themselves: first those of a zone,
    /// later all of them.
    fn decode_if_many(&mut self, table: Table<'_>) {
        let (row, zone) = (self.row as u32, ZONE_ROWS as u32);
        let Some(rows) = &self.rows else { return };
        let some = match &rows.values {
            Values::Decoded(decoded) if decoded.has(row) => return,
            Values::Decoded(_) => 0..rows.row_count,
            Values::Single(_) if self.may_be_single(rows.row_count) => {
                self.single_count += 1;
                return;
            }
            Values::Single(_) => {
                let start = row / zone * zone;
                start..(start + zone).min(rows.row_count)
            }
        };
        let group = &self.view.groups[self.group as usize];
        if let Some(store) = ColdStore::open(table, LockMode::AccessShare) {
            let rows = GroupRows::load_some(&store, group, &self.wanted, some);
            self.rows = Some(Rows::decoded(or_raise(table.oid(), rows)));
        }
    }

    /// Stores the current row in the slot, which is one of the table's. There must be a current
    /// row.
    pub fn store(&mut self, table: Table<'_>, slot: Slot<'_>) {
        self.decode_if_many(table);
        let Some(rows) = &self.rows else { return };
        let (row, wanted, oid) = (self.row as u32, &self.wanted, table.oid());
        let tid = RowNumber(rows.first_row.0 + u64::from(row)).tid();
        self.writer.write(
            slot,
            tid,
            oid,
            rows.origin,
            |layout, desc, datums| match &rows.values {
                Values::Decoded(rows) => rows.fill(row, layout, desc, wanted, datums),
                Values::Single(group) => {
                    let store = LazyStore::of(table);
                    or_raise(oid, group.fill(&store, row, layout, desc, wanted, datums));
                }
            },
        );
    }
}
