//! Cold rows in batches.
//!
//! ```text
//!   view ─ group ─ unit (some zones) ─ piece (a run of zones alike) ─ batch (≤ 8,192 rows)
//!            │          │                   │
//!            │          │                   └ filter, decode
//!            │          └ zone verdicts
//!            └ footer, verdicts of the whole chunk
//! ```
//!
//! A unit is what a participant takes at a time. A scan without workers takes one zone at first and
//! twice as many each time, so that a scan that is stopped early has read little. A parallel scan
//! takes a fixed number of zones from a shared counter. Rows of this backend's own running loads
//! are not shared: the backend that holds them returns them at the end.
//!
//! Between calls no pin, no lock and no open relation is held; what was read was copied.
//!
//! A scan that may be moved backwards notes the place of each batch ([`History`]).

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use howdah_bridge::malloc;
use howdah_bridge::scan::Attributes;
use howdah_bridge::spare_memory::{self, LEAST_BYTES};
use howdah_bridge::table::Table;
use howdah_columnar::{Verdict, ZONE_ROWS};

use super::batch::{BATCH_ROWS, Batch, Rows};
use super::counts::Counts;
use super::current_group::{CurrentGroup, Question};
use super::decoded::Decoded;
use super::history::{History, Place};
use super::piece::{Piece, SMALL_PIECE};
use super::units::{GROUP_ZONES, SharedUnits};
use crate::errors::ColdError;
use crate::store::view::{ColdGroup, ColdView, store_of};
use crate::types::TableLayout;

/// The maximal number of rows that are decoded at a time: the result should fit the processor's
/// caches, and memory that is reused.
const PIECE_ROWS: usize = 4 * ZONE_ROWS;

/// Reads the cold side of one scan.
pub struct Reader<'q> {
    view: ColdView<'q>,
    layout: Rc<TableLayout>,
    wanted: Attributes,
    /// Indexes of the view's groups: stored ones, pending ones.
    stored: Vec<usize>,
    pending: VecDeque<usize>,
    /// Without workers: the next stored group and zone, and how many zones to take.
    next: (usize, usize),
    unit_zones: usize,
    current: Option<CurrentGroup>,
    pieces: VecDeque<Piece>,
    decoded: Option<(Piece, Decoded)>,
    pending_at: u32,
    scratch: Vec<u32>,
    /// Of a scan that may be moved backwards.
    history: Option<History>,
    /// Whether the first piece is still to come.
    begins: bool,
    /// Rows read since this was last fetched, filtered out or not.
    pub rows_read: u64,
    pub counts: Counts,
}

/// Where the first pieces of a scan end, counted from its first row.
const FIRST_ENDS: [usize; 2] = [64, SMALL_PIECE];
/// Groups of fewer rows are read at once: there is little to spare.
const SPLIT_GROUP_ROWS: usize = 16 * SMALL_PIECE;

impl<'q> Reader<'q> {
    /// `is_scrolled` tells whether it may be moved backwards.
    pub fn new(
        view: ColdView<'q>,
        layout: Rc<TableLayout>,
        wanted: Attributes,
        is_scrolled: bool,
    ) -> Self {
        malloc::keep_freed_memory();
        spare_memory::set_aside(LEAST_BYTES);
        let mut reader = Reader {
            view,
            layout,
            wanted,
            stored: Vec::new(),
            pending: VecDeque::new(),
            next: (0, 0),
            unit_zones: 1,
            current: None,
            pieces: VecDeque::new(),
            decoded: None,
            pending_at: 0,
            scratch: Vec::new(),
            history: is_scrolled.then(History::default),
            begins: true,
            rows_read: 0,
            counts: Counts::default(),
        };
        reader.rewind();
        reader
    }

    /// Whether the view has no row groups.
    pub fn is_empty(&self) -> bool {
        self.view.is_empty()
    }

    /// Starts again; counts are kept.
    pub fn rewind(&mut self) {
        let is_stored = |&i: &usize| matches!(self.view.groups[i], ColdGroup::Stored(_));
        let all = 0..self.view.groups.len();
        (self.stored, self.pending) = {
            let (stored, pending): (Vec<_>, Vec<_>) = all.partition(is_stored);
            (stored, pending.into())
        };
        self.next = (0, 0);
        self.unit_zones = 1;
        self.begins = true;
        self.current = None;
        self.pieces.clear();
        self.decoded = None;
        self.pending_at = 0;
        self.history = self.history.take().map(|_| History::default());
    }

    /// Replaces `batch` by the next rows; `false` at the end. `table` is that of the view. In a
    /// parallel scan, units are taken from the shared state.
    pub fn next_batch(
        &mut self,
        table: Table<'_>,
        shared: Option<SharedUnits<'_>>,
        question: &Question,
        batch: &mut Batch<'_>,
    ) -> Result<bool, ColdError> {
        while self.history.as_mut().is_some_and(History::step) {
            if self.read_again(table, question, batch)? {
                return Ok(true);
            }
            self.history.as_mut().map(History::drop_passed);
        }
        loop {
            howdah_bridge::check_for_interrupts!();
            if self.hand_out(table, batch)? {
                return Ok(true);
            }
            if let Some(piece) = self.pieces.pop_front() {
                self.read_piece(table, question, piece)?;
            } else if !self.take_unit(table, shared, question)? {
                return self.hand_out_pending(table, question, batch);
            }
        }
    }

    /// Replaces `batch` by the rows before the current ones; `false` if there are none.
    pub fn previous_batch(
        &mut self,
        table: Table<'_>,
        question: &Question,
        batch: &mut Batch<'_>,
    ) -> Result<bool, ColdError> {
        while self.history.as_mut().is_some_and(History::step_back) {
            if self.read_again(table, question, batch)? {
                return Ok(true);
            }
            self.history.as_mut().map(History::drop_to_come);
        }
        Ok(false)
    }

    /// Replaces `batch` by the rows of the history's current place; `false` if it has none.
    fn read_again(
        &mut self,
        table: Table<'_>,
        question: &Question,
        batch: &mut Batch<'_>,
    ) -> Result<bool, ColdError> {
        howdah_bridge::check_for_interrupts!();
        let Some(history) = &mut self.history else {
            return Ok(false);
        };
        match history.current() {
            Place::Pending(index, rows) => {
                self.fill_pending(question, index, rows, batch)?;
                Ok(true)
            }
            Place::Stored(index, piece) => {
                let read =
                    history.read(&self.view, table, question, &self.wanted, index, &piece)?;
                let Some(mut decoded) = read else {
                    return Ok(false);
                };
                let (layout, scratch) = (&self.layout, &mut self.scratch);
                let rows = decoded.next_batch(table, layout, usize::MAX, scratch, batch)?;
                Ok(rows.is_some())
            }
        }
    }

    /// Returns the next of the decoded rows.
    fn hand_out(&mut self, table: Table<'_>, batch: &mut Batch<'_>) -> Result<bool, ColdError> {
        let Some((piece, decoded)) = &mut self.decoded else {
            return Ok(false);
        };
        let (layout, scratch) = (&self.layout, &mut self.scratch);
        let Some(rows) = decoded.next_batch(table, layout, BATCH_ROWS, scratch, batch)? else {
            self.decoded = None;
            return Ok(false);
        };
        if let (Some(history), Some(current)) = (&mut self.history, &self.current) {
            let filter = piece.filter;
            history.push(Place::Stored(current.index, Piece { rows, filter }));
        }
        Ok(true)
    }

    /// Returns the next rows of this backend's own loads. They are few, and never filtered here.
    fn hand_out_pending(
        &mut self,
        table: Table<'_>,
        question: &Question,
        batch: &mut Batch<'_>,
    ) -> Result<bool, ColdError> {
        while let Some(&index) = self.pending.front() {
            let group = &self.view.groups[index];
            let hidden = match group.entry().flags.are_clear() {
                true => None,
                false => self.view.hidden(&store_of(table)?, group)?,
            };
            let is_hidden = |row: u32| hidden.as_ref().is_some_and(|h| h.contains(row));
            let row_count = group.row_count();
            while self.pending_at < row_count && is_hidden(self.pending_at) {
                self.pending_at += 1;
            }
            let end = row_count.min(self.pending_at + BATCH_ROWS as u32);
            let end = (self.pending_at..end)
                .find(|&row| is_hidden(row))
                .unwrap_or(end);
            let rows = self.pending_at..end;
            if rows.is_empty() {
                self.pending.pop_front();
                self.pending_at = 0;
                continue;
            }
            self.fill_pending(question, index, rows.clone(), batch)?;
            self.pending_at = rows.end;
            self.rows_read += rows.len() as u64;
            if let Some(history) = &mut self.history {
                history.push(Place::Pending(index, rows));
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Replaces `batch` by these rows of a running load.
    fn fill_pending(
        &self,
        question: &Question,
        index: usize,
        rows: Range<u32>,
        batch: &mut Batch<'_>,
    ) -> Result<(), ColdError> {
        let ColdGroup::Pending { load, entry, .. } = &self.view.groups[index] else {
            unreachable!("only pending groups are listed");
        };
        let recheck = !question.conditions.is_empty() || !question.exact;
        let positions = Rows::Range(rows.start as usize, rows.end as usize);
        batch.start(entry.first_row, positions, recheck);
        let load = load.borrow();
        for &i in self.wanted.of(recheck) {
            let attribute = &self.layout.attributes[i];
            batch.fill_by(i, attribute, |push| {
                rows.clone().for_each(|row| push(load.value(i, row)));
                Ok::<_, ColdError>(())
            })?;
        }
        Ok(())
    }

    /// Takes the next unit and divides it into pieces; `false` if there is none.
    fn take_unit(
        &mut self,
        table: Table<'_>,
        shared: Option<SharedUnits<'_>>,
        question: &Question,
    ) -> Result<bool, ColdError> {
        let (ordinal, zones) = match shared {
            None => {
                let (ordinal, zone) = self.next;
                let end = (zone + self.unit_zones).min(GROUP_ZONES);
                self.next = match end {
                    GROUP_ZONES => (ordinal + 1, 0),
                    end => (ordinal, end),
                };
                self.unit_zones = (self.unit_zones * 2).min(GROUP_ZONES);
                (ordinal, zone..end)
            }
            Some(shared) => shared.take(),
        };
        let Some(&index) = self.stored.get(ordinal) else {
            return Ok(false);
        };
        self.open(table, question, index)?;
        let Some(current) = &self.current else {
            if zones.start == 0 {
                self.counts.groups += 1;
                self.counts.groups_skipped += 1;
            }
            if shared.is_none() {
                self.next = (ordinal + 1, 0);
            }
            return Ok(true);
        };
        let zone_count = (current.open.row_count() as usize).div_ceil(ZONE_ROWS);
        if zones.start == 0 {
            self.counts.groups += 1;
            self.counts.groups_skipped += u64::from(current.left.is_none());
        }
        let zones = zones.start..zones.end.min(zone_count);
        if zones.end == zone_count && shared.is_none() {
            self.next = (ordinal + 1, 0);
        }
        let Some(left) = &current.left else {
            if shared.is_none() {
                self.next = (ordinal + 1, 0);
            }
            return Ok(true);
        };
        self.counts.zones += zones.len() as u64;
        let row_count = current.open.row_count() as usize;
        for zone in zones {
            let rows = zone * ZONE_ROWS..((zone + 1) * ZONE_ROWS).min(row_count);
            let verdict = current.zone_verdict(left, zone, question);
            if verdict == Verdict::None {
                self.counts.zones_skipped += 1;
                continue;
            }
            let filter = verdict == Verdict::Some;
            match self.pieces.back_mut() {
                Some(last)
                    if last.rows.end == rows.start
                        && last.filter == filter
                        && last.rows.len() < PIECE_ROWS =>
                {
                    last.rows.end = rows.end;
                }
                _ => self.pieces.push_back(Piece { rows, filter }),
            }
        }
        if shared.is_none() && row_count >= SPLIT_GROUP_ROWS {
            self.split_first();
        }
        Ok(true)
    }

    /// Divides the first piece of the scan, which may end after a few rows (LIMIT, EXISTS, FETCH).
    fn split_first(&mut self) {
        if !self.begins {
            return;
        }
        let Some(Piece { rows, filter }) = self.pieces.pop_front() else {
            return;
        };
        self.begins = false;
        let ends = FIRST_ENDS.map(|end| rows.start + end);
        let ends = ends.into_iter().filter(|&end| end < rows.end);
        let mut end = rows.end;
        for start in ends.rev().chain([rows.start]) {
            let rows = start..end;
            self.pieces.push_front(Piece { rows, filter });
            end = start;
        }
    }

    /// Makes the group the current one; none is current if no row of it is left.
    fn open(
        &mut self,
        table: Table<'_>,
        question: &Question,
        index: usize,
    ) -> Result<(), ColdError> {
        if self.current.as_ref().is_some_and(|c| c.index == index) {
            return Ok(());
        }
        self.current = None;
        self.current = CurrentGroup::open(&self.view, &store_of(table)?, question, index)?;
        Ok(())
    }

    /// Selects and decodes the rows of a piece of the current group.
    fn read_piece(
        &mut self,
        table: Table<'_>,
        question: &Question,
        piece: Piece,
    ) -> Result<(), ColdError> {
        let Some(current) = &mut self.current else {
            return Ok(());
        };
        let store = store_of(table)?;
        let read = piece.read(&self.view, current, &store, question, &self.wanted)?;
        self.rows_read += current.hidden.shown_count(&piece.rows) as u64;
        self.counts.rows_removed += read.removed_count as u64;
        self.decoded = read.decoded.map(|decoded| (piece, decoded));
        Ok(())
    }
}
