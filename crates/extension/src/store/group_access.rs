//! A stored row group opened for reading single rows.
//!
//! ```text
//!   directory entry ──> header, column table ──> column: where its bytes are (RowAccess) once
//!                                                  └──> ranges ──> value                 each row,
//!                                                       or block of neighbours (RowState)
//! ```
//!
//! What is kept is small: the layout; for each column that was asked for, its plan with symbol
//! table or dictionary index; and the block that was decoded last, so that neighbours in key order
//! decode it once. Chunks are never kept. Groups are immutable, so all of it stays valid as long as
//! the group's value exists ([`super::group_cache`]).
//!
//! Bytes come from shared buffers, and the store verifies them at each reading. Of rows that are
//! near each other, as a range scan of an index visits them, values are decoded some rows ahead.
//! The store is opened when bytes are first needed: a row whose values are decoded needs none. When
//! pages had to be read from disk lately, the pages of all columns of a row are requested at once,
//! before the first of them is waited for.

use std::cell::{Cell, OnceCell, RefCell};
use std::ops::Range;

use howdah_bridge::store::{ColdStore, PieceMap, blocks_read, file_reads};
use howdah_bridge::table::Descriptor;
use howdah_columnar::{Expected, GroupLayout, ReadUnit, RowState, Value};

use super::column_access::{ColumnAccess, RowReading};
use super::coming::Coming;
use super::directory::GroupEntry;
use super::group_bytes::{Ahead, GroupBytes, LazyStore};
use super::group_cache::{self, Memory};
use super::lanes::{Lanes, NEAR_ROWS, Nearness};
use super::open_group::check_counts;
use super::view::{RowDatums, Wanted};
use crate::errors::ColdError;
use crate::types::TableLayout;

/// Each row may wait for some pages from disk, which are requested at once.
const ROWS_BETWEEN_INTERRUPTS: usize = 128;

/// A stored row group of which single rows are read.
pub struct GroupAccess {
    value_id: u32,
    layout: GroupLayout,
    pieces: RefCell<PieceMap>,
    columns: Box<[OnceCell<Box<ColumnAccess>>]>,
    lanes: RefCell<Lanes>,
    /// Rows here and there that were read together last.
    scattered: RefCell<Vec<u32>>,
    /// The first of the columns that lie side by side.
    first_grouped: Option<usize>,
    memory: Memory,
}

/// A row of a group that is read.
pub struct RowAt<'a> {
    pub position: u32,
    /// Asked only if the row was not read along with one before: which rows follow.
    pub coming: &'a dyn Fn() -> Coming,
}

thread_local! {
    /// The pages that this backend had read when the previous row was begun.
    static READ_BEFORE: Cell<i64> = const { Cell::new(0) };
    static RANGES: RefCell<Vec<Range<u64>>> = const { RefCell::new(Vec::new()) };
    /// The columns that are read of a row.
    static READ: Cell<Vec<usize>> = const { Cell::new(Vec::new()) };
}

/// Whether reads have waited for a disk, and pages had to be read since the previous row was begun:
/// those of this row may have to be waited for, too.
fn pages_are_cold() -> bool {
    blocks_read() != READ_BEFORE.get() && file_reads::are_slow()
}

/// The longest footer that is requested as a whole when pages are cold.
const FOOTER_AHEAD_BYTES: u64 = 64 << 10;

impl GroupAccess {
    /// Reads and checks header and column table.
    pub fn open(store: &ColdStore, entry: &GroupEntry) -> Result<GroupAccess, ColdError> {
        let pieces = RefCell::new(PieceMap::starting_at(entry.first_block));
        let layout = {
            let store = LazyStore::from(store);
            let bytes = GroupBytes::of(&store, entry.value_id, &pieces);
            if pages_are_cold() {
                let ahead = u64::from(entry.footer_bytes).min(FOOTER_AHEAD_BYTES);
                bytes.reader()?.prefetch(std::slice::from_ref(&(0..ahead)));
            }
            GroupLayout::read(&bytes)?
        };
        check_counts(entry, layout.row_count(), layout.body_len())?;
        let mut columns = Vec::new();
        columns.resize_with(layout.column_count(), OnceCell::new);
        let first_grouped =
            (0..columns.len()).find(|&column| layout.first_of_group(column).is_some());
        let memory = Memory::default();
        memory.add(size_of::<GroupAccess>() + layout.memory_bytes());
        memory.add(columns.len() * size_of::<OnceCell<Box<ColumnAccess>>>());
        let value_bytes = entry.body_bytes + u64::from(entry.footer_bytes);
        memory.add(PieceMap::most_memory_bytes(value_bytes));
        Ok(GroupAccess {
            value_id: entry.value_id,
            layout,
            pieces,
            columns: columns.into_boxed_slice(),
            lanes: RefCell::default(),
            scattered: RefCell::default(),
            first_grouped,
            memory,
        })
    }

    /// Columns stored; columns of the table beyond these were added later (ADD COLUMN).
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// The memory that the group holds.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    fn bytes<'a, 's>(&'a self, store: &'a LazyStore<'s>) -> GroupBytes<'a, 's> {
        GroupBytes::of(store, self.value_id, &self.pieces)
    }

    #[inline(always)]
    fn column(
        &self,
        column: usize,
        bytes: &GroupBytes<'_, '_>,
    ) -> Result<&ColumnAccess, ColdError> {
        match self.columns[column].get() {
            Some(known) => Ok(known),
            None => self.open_column(column, bytes),
        }
    }

    #[cold]
    fn open_column(
        &self,
        column: usize,
        bytes: &GroupBytes<'_, '_>,
    ) -> Result<&ColumnAccess, ColdError> {
        let access = self.layout.row_access(column, bytes)?;
        let first = match self.layout.first_of_group(column) {
            Some(first) if first != column => match self.column(first, bytes) {
                Ok(_) => first,
                // What it has of its own that is newer is no matter of this column.
                Err(error) if error.is_of_newer_version() => column,
                Err(error) => return Err(error),
            },
            _ => column,
        };
        let column = self.columns[column].get_or_init(|| {
            Box::new(ColumnAccess {
                access,
                first,
                state: RefCell::default(),
                lanes: RefCell::default(),
                lane_bytes: Cell::new(0),
                counted_bytes: Cell::new(0),
            })
        });
        Ok(column)
    }

    /// The column by which what is stored of a row is read for this one: mostly itself.
    #[inline]
    fn stored(
        &self,
        column: usize,
        bytes: &GroupBytes<'_, '_>,
    ) -> Result<&ColumnAccess, ColdError> {
        let own = self.column(column, bytes)?;
        match own.first == column {
            true => Ok(own),
            false => self.column(own.first, bytes),
        }
    }

    /// Requests what these columns of a row need before any of it is waited for; or of two rows,
    /// the first and the last of some that are read together.
    fn look_ahead(
        &self,
        bytes: &GroupBytes<'_, '_>,
        rows: &[u32],
        columns: &[usize],
        ahead: Ahead,
    ) -> Result<(), ColdError> {
        match ahead {
            Ahead::Disk => self.prefetch_rows(bytes, columns, rows),
            Ahead::Memory => self.touch_rows(bytes, rows, columns),
        }
    }

    /// Requests the bytes of rows from memory: first offsets, codes, and the values of columns that
    /// have neither; then, of a single row, the strings to which these lead.
    fn touch_rows(
        &self,
        bytes: &GroupBytes<'_, '_>,
        rows: &[u32],
        columns: &[usize],
    ) -> Result<(), ColdError> {
        RANGES.with_borrow_mut(|ranges| {
            ranges.clear();
            let &[position, ref others @ ..] = rows else {
                return Ok(());
            };
            for &column in columns {
                self.column(column, bytes)?.access.ranges(position, ranges);
            }
            bytes.ask(ranges, Ahead::Memory)?;
            if !others.is_empty() {
                return Ok(());
            }
            ranges.clear();
            for &column in columns {
                let column = self.column(column, bytes)?;
                if column.access.has_places() {
                    let mut state = column.state.borrow_mut();
                    column.access.locate(position, bytes, &mut state, ranges)?;
                }
            }
            bytes.ask(ranges, Ahead::Memory)
        })
    }

    /// Requests the pages that these columns of some rows need, round by round: first what is known
    /// without reading, and the places where strings probably lie; then where these lead. Where the
    /// guess is right, a row with offsets waits once.
    fn prefetch_rows(
        &self,
        bytes: &GroupBytes<'_, '_>,
        columns: &[usize],
        rows: &[u32],
    ) -> Result<(), ColdError> {
        RANGES.with_borrow_mut(|ranges| {
            for round in 0.. {
                ranges.clear();
                let mut is_last = true;
                for &column in columns {
                    let column = self.column(column, bytes)?;
                    let (access, mut state) = (&column.access, column.state.borrow_mut());
                    for &row in rows {
                        is_last &= !access.needs(row, round, bytes, &mut state, ranges);
                        // Of many rows most places are needed by some.
                        if round == 0 && rows.len() <= 2 {
                            access.likely_ranges(row, ranges);
                        }
                    }
                }
                bytes.ask(ranges, Ahead::Disk)?;
                if is_last {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Writes the wanted values of a row into `out`; attributes that the group does not store get
    /// their missing value, unwanted ones something of the right form. They live until the next row
    /// is written. `store` is the group's.
    ///
    /// # Panics
    /// If `out` has not one entry per attribute of `layout`, or `desc` is not its descriptor.
    pub fn fill(
        &self,
        store: &LazyStore<'_>,
        position: u32,
        layout: &TableLayout,
        desc: Descriptor<'_>,
        wanted: &Wanted,
        out: &mut RowDatums,
    ) -> Result<(), ColdError> {
        let at = &RowAt {
            position,
            coming: &Coming::default,
        };
        match wanted {
            Wanted::All => {
                out.start();
                let all = out.all();
                self.fill_columns(store, at, layout, desc, &all, out)
            }
            Wanted::Some(wanted) => {
                out.start_some(layout, wanted);
                let some = out.wanted();
                self.fill_columns(store, at, layout, desc, &some, out)
            }
        }
    }

    /// Writes these values of a row into `out`, beside those that are there.
    ///
    /// # Panics
    /// As [`GroupAccess::fill`].
    pub fn fill_columns(
        &self,
        store: &LazyStore<'_>,
        at: &RowAt<'_>,
        layout: &TableLayout,
        desc: Descriptor<'_>,
        wanted: &[usize],
        out: &mut RowDatums,
    ) -> Result<(), ColdError> {
        let position = at.position;
        let (nearness, is_beside) = {
            let mut lanes = self.lanes.borrow_mut();
            (lanes.note(position), lanes.is_beside())
        };
        let mut is_scattered = self.scattered.borrow().contains(&position);
        let near = match is_scattered {
            true => Nearness::Near,
            false => nearness,
        };
        let kept = match is_beside || is_scattered {
            true => self.fill_kept(position, near, layout, wanted, out),
            false => 0,
        };
        let wanted = &wanted[kept..];
        if wanted.is_empty() {
            return Ok(());
        }
        is_scattered = is_scattered && (kept > 0 || self.holds_scattered(position, wanted));
        let bytes = self.bytes(store);
        let Coming {
            mut expected,
            scattered,
        } = match is_scattered {
            true => Coming::default(),
            false => (at.coming)(),
        };
        expected.rows.end = expected.rows.end.min(self.layout.row_count() as u32);
        let farthest = expected.farthest(position);
        let is_beside = is_beside && scattered.len() < 2;
        let ahead = match (pages_are_cold(), nearness) {
            (true, _) => Some(Ahead::Disk),
            (false, Nearness::Near | Nearness::InLane(_)) if is_beside => None,
            (false, _) => Some(Ahead::Memory),
        };
        let nearness = match nearness {
            Nearness::Far if farthest.is_some() => Nearness::Near,
            nearness => nearness,
        };
        let reading = &RowReading {
            bytes: &bytes,
            position,
            nearness,
            expected: &expected,
        };
        READ_BEFORE.set(blocks_read());
        if let Some(ahead) = ahead {
            let is_read = |&&column: &&usize| {
                column < self.columns.len() && !layout.attributes[column].dropped
            };
            let mut columns = READ.take();
            columns.clear();
            columns.extend(wanted.iter().filter(is_read));
            // The footer's pages once, before other pages are read.
            for column in &mut columns {
                *column = self.column(*column, &bytes)?.first;
            }
            if self.first_grouped.is_some() {
                // What columns share is requested once.
                columns.sort_unstable();
                columns.dedup();
            }
            if scattered.len() > 1 {
                self.read_scattered(store, &columns, scattered, ahead)?;
                is_scattered = true;
            }
            if is_scattered {
                columns.retain(|&column| {
                    let known = self.columns[column].get();
                    known.is_none_or(|known| !known.access.reads_scattered())
                });
            }
            if columns.len() >= ahead.fewest_columns() {
                let ends = [position, farthest.unwrap_or(position)];
                let rows = &ends[..1 + usize::from(farthest.is_some())];
                self.look_ahead(&bytes, rows, &columns, ahead)?;
            }
            READ.set(columns);
        }
        let fill_one = |i: usize, out: &mut RowDatums| {
            if is_scattered && self.put_kept(i, position, Nearness::Near, layout, out) {
                return Ok(());
            }
            let attribute = &layout.attributes[i];
            if attribute.dropped {
                out.set_null(i);
                return Ok(());
            }
            if i >= self.columns.len() {
                out.set_missing(desc, i);
                return Ok(());
            }
            self.with_value(i, reading, |value| match value {
                None => out.set_null(i),
                Some(value) => out.put(i, value, attribute),
            })
        };
        if let Some(first) = self.first_grouped {
            let nearness = match is_scattered {
                // It is there.
                true => Nearness::Far,
                false => nearness,
            };
            let reading = &RowReading {
                nearness,
                ..*reading
            };
            self.fill_grouped(first, reading, layout, wanted, out)?;
        }
        for &column in wanted {
            if !self.is_of_group(column) {
                fill_one(column, out)?;
            }
        }
        group_cache::trim();
        Ok(())
    }

    /// Whether a column that is known lies beside others.
    fn is_of_group(&self, column: usize) -> bool {
        let known = self.columns.get(column).and_then(OnceCell::get);
        known.is_some_and(|known| Some(known.first) == self.first_grouped)
    }

    /// Writes those of these values that lie side by side, the first of them in column `first`.
    fn fill_grouped(
        &self,
        first: usize,
        reading: &RowReading<'_, '_>,
        layout: &TableLayout,
        wanted: &[usize],
        out: &mut RowDatums,
    ) -> Result<(), ColdError> {
        for &column in wanted {
            if column < self.columns.len() && !layout.attributes[column].dropped {
                self.column(column, reading.bytes)?;
            }
        }
        let grouped = || wanted.iter().copied().filter(|&it| self.is_of_group(it));
        if grouped().next().is_none() {
            return Ok(());
        }
        let stored = self.column(first, reading.bytes)?;
        stored.show(reading, &self.memory, |stored| {
            for column in grouped() {
                let attribute = &layout.attributes[column];
                let known = self.column(column, reading.bytes)?;
                match known.access.of_stored(stored)? {
                    Some(value) if !attribute.dropped => out.put(column, value, attribute),
                    _ => out.set_null(column),
                }
            }
            Ok(())
        })
    }

    /// Writes the values that were read along with those of a neighbour, up to the first one that
    /// was not; returns how many these are.
    #[inline]
    fn fill_kept(
        &self,
        position: u32,
        nearness: Nearness,
        layout: &TableLayout,
        wanted: &[usize],
        out: &mut RowDatums,
    ) -> usize {
        let is_kept = |&column: &usize| self.put_kept(column, position, nearness, layout, out);
        let kept = wanted.iter().map(is_kept).position(|is_kept| !is_kept);
        kept.unwrap_or(wanted.len())
    }

    /// Writes a value that was read along with that of another row; false if it was not.
    #[inline]
    fn put_kept(
        &self,
        column: usize,
        position: u32,
        nearness: Nearness,
        layout: &TableLayout,
        out: &mut RowDatums,
    ) -> bool {
        let known = self.columns.get(column).and_then(OnceCell::get);
        let Some(known) = known.filter(|_| !layout.attributes[column].dropped) else {
            return false;
        };
        let mut put = |state: &mut RowState| {
            match known.access.kept(position, state) {
                None => return false,
                Some(None) => out.set_null(column),
                Some(Some(value)) => out.put(column, value, &layout.attributes[column]),
            }
            true
        };
        match nearness {
            Nearness::Far => false,
            Nearness::Near => (known.state.try_borrow_mut()).is_ok_and(|mut state| put(&mut state)),
            Nearness::InLane(lane) => (known.lanes.try_borrow_mut())
                .is_ok_and(|mut lanes| lanes.get_mut(lane).is_some_and(put)),
        }
    }

    /// Reads these columns of some rows, column by column, and keeps the values.
    fn read_scattered(
        &self,
        store: &LazyStore<'_>,
        columns: &[usize],
        rows: Vec<u32>,
        ahead: Ahead,
    ) -> Result<(), ColdError> {
        self.scattered.borrow_mut().clear();
        if ahead == Ahead::Disk {
            self.prefetch_rows(&self.bytes(store), columns, &rows)?;
        }
        for &column in columns {
            // What was requested for one column is forgotten at the next one.
            let bytes = self.bytes(store);
            let column = self.column(column, &bytes)?;
            let mut state = column.state.borrow_mut();
            column.access.read_scattered(&rows, &bytes, &mut state);
            column.count(&state, &self.memory);
        }
        self.scattered.replace(rows);
        Ok(())
    }

    /// Whether the row was read along with others here and there, and any of these columns.
    fn holds_scattered(&self, position: u32, columns: &[usize]) -> bool {
        let known = (columns.iter()).filter_map(|&column| self.columns.get(column)?.get());
        let mut known = known.filter_map(|known| self.columns.get(known.first)?.get());
        known.any(|known| {
            (known.state.try_borrow())
                .is_ok_and(|state| known.access.holds_scattered(position, &state))
        })
    }

    /// How many rows it has.
    pub fn row_count(&self) -> u32 {
        self.layout.row_count() as u32
    }

    /// Drops the blocks that were decoded; not those of a column that is being read, as by an
    /// expression that reads rows of another group.
    pub(super) fn drop_blocks(&self) {
        for column in self.columns.iter().filter_map(OnceCell::get) {
            let Ok(mut state) = column.state.try_borrow_mut() else {
                continue;
            };
            state.reset();
            column.lanes.take();
            column.lane_bytes.set(0);
            column.count(&state, &self.memory);
        }
    }

    /// What a single value of a stored column costs.
    pub fn unit(&self, store: &LazyStore<'_>, column: usize) -> Result<ReadUnit, ColdError> {
        let column = self.stored(column, &self.bytes(store))?;
        Ok(column.access.unit())
    }

    /// Shows the values of some rows of a stored column, one after the other; `None` is NULL. Holds
    /// a pin on a page meanwhile.
    pub fn show_each(
        &self,
        store: &LazyStore<'_>,
        column: usize,
        rows: impl Iterator<Item = u32>,
        mut look: impl FnMut(Option<Value<'_>>),
    ) -> Result<(), ColdError> {
        let (bytes, expected) = (self.bytes(store), Expected::default());
        let mut last = u32::MAX;
        let (mut rows, mut some) = (rows, Vec::with_capacity(ROWS_BETWEEN_INTERRUPTS));
        loop {
            howdah_bridge::check_for_interrupts!();
            some.clear();
            some.extend(rows.by_ref().take(ROWS_BETWEEN_INTERRUPTS));
            if some.is_empty() {
                break;
            }
            if pages_are_cold() {
                let stored = self.column(column, &bytes)?.first;
                self.prefetch_rows(&bytes, &[stored], &some)?;
            }
            READ_BEFORE.set(blocks_read());
            for &row in &some {
                let nearness = match row.abs_diff(last) <= NEAR_ROWS {
                    true => Nearness::Near,
                    false => Nearness::Far,
                };
                last = row;
                let reading = &RowReading {
                    bytes: &bytes,
                    position: row,
                    nearness,
                    expected: &expected,
                };
                self.with_value(column, reading, &mut look)?;
            }
        }
        group_cache::trim();
        Ok(())
    }

    /// Shows one value of a row of a stored column; `None` is NULL.
    pub fn show<R>(
        &self,
        store: &LazyStore<'_>,
        column: usize,
        position: u32,
        look: impl FnOnce(Option<Value<'_>>) -> R,
    ) -> Result<R, ColdError> {
        let reading = &RowReading {
            bytes: &self.bytes(store),
            position,
            nearness: Nearness::Far,
            expected: &Expected::default(),
        };
        self.with_value(column, reading, look)
    }

    fn with_value<R>(
        &self,
        column: usize,
        reading: &RowReading<'_, '_>,
        look: impl FnOnce(Option<Value<'_>>) -> R,
    ) -> Result<R, ColdError> {
        let own = &self.column(column, reading.bytes)?.access;
        let stored = self.stored(column, reading.bytes)?;
        stored.show(reading, &self.memory, |stored| {
            Ok(look(own.of_stored(stored)?))
        })
    }
}
