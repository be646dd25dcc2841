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

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use arrow_buffer::{BooleanBuffer, bit_iterator::BitIndexIterator};
use howdah_bridge::scan::Attributes;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::Table;
use howdah_bridge::tid::RowNumber;
use howdah_columnar::{Column, ColumnarError, Predicate, Verdict, ZONE_ROWS};

use super::batch::{BATCH_ROWS, Batch, Rows};
use super::counts::Counts;
use super::singles::{Run, Singles, Spread};
use super::units::{GROUP_ZONES, SharedUnits};
use crate::errors::ColdError;
use crate::store::group_access::{GroupAccess, LazyStore};
use crate::store::open_group::OpenGroup;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, ColdView, store_of};
use crate::types::TableLayout;

/// A run of more rows than this many times the selected ones is not decoded as a whole.
const SPARSE: usize = 4;

/// The maximal number of rows that are decoded at a time: the result should fit the processor's
/// caches, and memory that is reused.
const PIECE_ROWS: usize = 4 * ZONE_ROWS;

/// A predicate and the attribute it is about.
pub struct ColumnPredicate {
    pub attribute: usize,
    pub predicate: Predicate,
}

/// The tests that a scan applies to the cold side; they change with its parameters.
#[derive(Default)]
pub struct Question {
    pub predicates: Vec<ColumnPredicate>,
    /// Whether the predicates are equivalent to the pushed clauses.
    pub exact: bool,
}

/// The group being read.
struct Current {
    index: usize,
    open: OpenGroup,
    /// Indexes of the predicates that the statistics did not decide; `None` skips the group.
    left: Option<Vec<usize>>,
    /// Some predicate tests a column that the group does not store.
    undecided: bool,
    /// Rows that are hidden from the snapshot.
    hidden: Option<RowSet>,
    singles: Singles,
}

/// A run of zones that are treated alike.
struct Piece {
    rows: Range<usize>,
    filter: bool,
}

/// A piece with its rows selected and decoded.
struct Decoded {
    first_row: RowNumber,
    columns: Vec<(usize, Source)>,
    selection: Selection,
    recheck: bool,
    /// Rows already returned.
    done: usize,
}

// One per column of a batch: the difference in size does not matter.
#[allow(clippy::large_enum_variant)]
enum Source {
    Column(Column),
    /// Single values, still to be read.
    Singles(Rc<GroupAccess>),
    /// The attribute was added after the group was written.
    Missing,
}

enum Selection {
    /// All rows of a range, decoded from its start.
    Range(Range<usize>),
    /// Some rows of the group; decoded alone, or among the run that starts at `.1`.
    List(Vec<u32>, Option<usize>),
}

impl Selection {
    fn len(&self) -> usize {
        match self {
            Selection::Range(range) => range.len(),
            Selection::List(rows, _) => rows.len(),
        }
    }
}

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
    current: Option<Current>,
    pieces: VecDeque<Piece>,
    decoded: Option<Decoded>,
    pending_at: u32,
    scratch: Vec<u32>,
    /// Rows read since this was last fetched, filtered out or not.
    pub rows_read: u64,
    pub counts: Counts,
}

impl<'q> Reader<'q> {
    pub fn new(view: ColdView<'q>, layout: Rc<TableLayout>, wanted: Attributes) -> Self {
        howdah_bridge::malloc::keep_freed_memory();
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
        self.current = None;
        self.pieces.clear();
        self.decoded = None;
        self.pending_at = 0;
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
        loop {
            pgrx::check_for_interrupts!();
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

    /// Returns the next of the decoded rows.
    fn hand_out(&mut self, table: Table<'_>, batch: &mut Batch<'_>) -> Result<bool, ColdError> {
        let Some(decoded) = &mut self.decoded else {
            return Ok(false);
        };
        let end = (decoded.done + BATCH_ROWS).min(decoded.selection.len());
        if decoded.done == end {
            self.decoded = None;
            return Ok(false);
        }
        let (positions, rows) = match &decoded.selection {
            Selection::Range(range) => (
                Rows::Range(range.start + decoded.done, range.start + end),
                Rows::Range(decoded.done, end),
            ),
            Selection::List(list, None) => (
                Rows::List(&list[decoded.done..end]),
                Rows::Range(decoded.done, end),
            ),
            Selection::List(list, Some(start)) => {
                let list = &list[decoded.done..end];
                self.scratch.clear();
                self.scratch
                    .extend(list.iter().map(|row| row - *start as u32));
                (Rows::List(list), Rows::List(&self.scratch))
            }
        };
        batch.start(decoded.first_row, positions, decoded.recheck);
        for (i, source) in &decoded.columns {
            match source {
                Source::Column(column) => {
                    batch.fill(*i, column, rows, &self.layout.attributes[*i]);
                }
                Source::Singles(group) => {
                    let store = LazyStore::of(table);
                    let Rows::List(rows) = positions else {
                        unreachable!("single values are those of listed rows");
                    };
                    batch.fill_by(*i, &self.layout.attributes[*i], |push| {
                        group.show_each(&store, *i, rows.iter().copied(), push)
                    })?;
                }
                Source::Missing => batch.repeat(*i, table.descriptor().missing_value(*i)),
            }
        }
        decoded.done = end;
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
            let ColdGroup::Pending {
                load,
                entry,
                row_count,
            } = &self.view.groups[index]
            else {
                unreachable!("only pending groups are listed");
            };
            while self.pending_at < *row_count && is_hidden(self.pending_at) {
                self.pending_at += 1;
            }
            let end = (*row_count).min(self.pending_at + BATCH_ROWS as u32);
            let end = (self.pending_at..end)
                .find(|&row| is_hidden(row))
                .unwrap_or(end);
            let rows = self.pending_at..end;
            if rows.is_empty() {
                self.pending.pop_front();
                self.pending_at = 0;
                continue;
            }
            let recheck = !question.predicates.is_empty() || !question.exact;
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
            self.pending_at = rows.end;
            self.rows_read += rows.len() as u64;
            return Ok(true);
        }
        Ok(false)
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
            let mut verdict = Verdict::All;
            for &i in left {
                let asked = &question.predicates[i];
                let column = current.open.column(asked.attribute)?;
                match column.zone_verdict(zone, &asked.predicate) {
                    Verdict::None => verdict = Verdict::None,
                    Verdict::Some if verdict == Verdict::All => verdict = Verdict::Some,
                    _ => {}
                }
            }
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
        Ok(true)
    }

    /// Makes the group the current one and tests its statistics; none is current if no row of it is
    /// left.
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
        let ColdGroup::Stored(entry) = &self.view.groups[index] else {
            unreachable!("only stored groups are listed");
        };
        let store = store_of(table)?;
        if self.view.is_all_hidden(&store, &self.view.groups[index]) {
            return Ok(());
        }
        let open = OpenGroup::open(&store, *entry)?;
        let mut undecided = !question.exact;
        let mut left = Some(Vec::new());
        for (i, asked) in question.predicates.iter().enumerate() {
            if asked.attribute >= open.column_count() {
                undecided = true;
                continue;
            }
            let column = open.column(asked.attribute)?;
            match column.chunk_verdict(&asked.predicate) {
                Verdict::All => {}
                Verdict::None => {
                    left = None;
                    break;
                }
                Verdict::Some => left.get_or_insert_default().push(i),
            }
        }
        let hidden = match &left {
            Some(_) => self.view.hidden(&store, &self.view.groups[index])?,
            None => None,
        };
        if hidden.as_ref().is_some_and(|h| h.len() >= entry.row_count) {
            left = None;
        }
        self.current = Some(Current {
            index,
            singles: Singles::of(&open),
            open,
            left,
            undecided,
            hidden,
        });
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
        let mut recheck = current.undecided;
        let selected = match piece.filter {
            false => None,
            true => filter(&store, current, question, &piece.rows, &mut recheck)?,
        };
        self.rows_read += match &current.hidden {
            None => piece.rows.len(),
            Some(hidden) => without(hidden, None, &piece.rows).count_set_bits(),
        } as u64;
        if let Some(bits) = &selected {
            self.counts.rows_removed += (piece.rows.len() - bits.count_set_bits()) as u64;
        }
        let selected = match &current.hidden {
            None => selected,
            Some(hidden) => Some(without(hidden, selected, &piece.rows)),
        };
        let selection = match selected {
            None => Selection::Range(piece.rows),
            Some(bits) => {
                let count = bits.count_set_bits();
                let start = piece.rows.start;
                let dense = count * SPARSE >= piece.rows.len();
                match count {
                    0 => return Ok(()),
                    count if count == piece.rows.len() => Selection::Range(piece.rows),
                    _ => Selection::List(
                        BitIndexIterator::new(bits.values(), bits.offset(), bits.len())
                            .map(|bit| (start + bit) as u32)
                            .collect(),
                        dense.then_some(start),
                    ),
                }
            }
        };
        let run_end = match &selection {
            Selection::List(rows, _) => rows.last().map_or(0, |&row| row as usize + 1),
            Selection::Range(range) => range.end,
        };
        let mut columns = Vec::new();
        for &i in self.wanted.of(recheck) {
            pgrx::check_for_interrupts!();
            if i >= current.open.column_count() {
                columns.push((i, Source::Missing));
                continue;
            }
            if let Selection::List(rows, None) = &selection
                && let Some(group) =
                    (current.singles).group(&store, &current.open, i, Spread::of(rows))?
            {
                columns.push((i, Source::Singles(group)));
                continue;
            }
            let chunk = current.open.chunk(&store, i)?;
            let column = match &selection {
                Selection::Range(range) => chunk.decode_range(range.clone())?,
                Selection::List(_, Some(start)) => chunk.decode_range(*start..run_end)?,
                Selection::List(rows, None) => chunk.decode_selection(rows)?,
            };
            columns.push((i, Source::Column(column)));
        }
        self.decoded = Some(Decoded {
            first_row: current.open.entry.first_row,
            columns,
            selection,
            recheck,
            done: 0,
        });
        Ok(())
    }
}

/// The selected rows of a range that are not hidden.
fn without(hidden: &RowSet, selected: Option<BooleanBuffer>, rows: &Range<usize>) -> BooleanBuffer {
    // Pieces begin at zones, and so at whole words.
    let words = hidden.words().get(rows.start / 64..).unwrap_or_default();
    let seen = BooleanBuffer::collect_bool(rows.len(), |i| {
        words
            .get(i / 64)
            .is_none_or(|word| word >> (i % 64) & 1 == 0)
    });
    match selected {
        None => seen,
        Some(selected) => &selected & &seen,
    }
}

/// The rows for which all remaining predicates hold; `None` means all rows. Sets `recheck` if some
/// predicate cannot be decided without PostgreSQL.
fn filter(
    store: &ColdStore<'_>,
    current: &mut Current,
    question: &Question,
    rows: &Range<usize>,
    recheck: &mut bool,
) -> Result<Option<BooleanBuffer>, ColdError> {
    let mut selected: Option<BooleanBuffer> = None;
    for &i in current.left.iter().flatten() {
        let asked = &question.predicates[i];
        let column = asked.attribute;
        let looked_at = Run::of(rows, selected.as_ref());
        let spread = looked_at.spread();
        let singles = (current.singles).group(store, &current.open, column, spread)?;
        let matches = match singles {
            Some(group) => looked_at.filter(&group, store, column, &asked.predicate)?,
            None => {
                let chunk = current.open.chunk(store, column)?;
                match chunk.filter(&asked.predicate, rows.clone()) {
                    Ok(matches) => Some(matches),
                    Err(ColumnarError::NotComparable | ColumnarError::TypeMismatch { .. }) => None,
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let Some(matches) = matches else {
            *recheck = true;
            continue;
        };
        let both = match &selected {
            None => matches,
            Some(selected) => selected & &matches,
        };
        let empty = both.count_set_bits() == 0;
        selected = Some(both);
        if empty {
            break;
        }
    }
    Ok(selected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_are_selected_and_not_hidden_are_left() {
        let mut hidden = RowSet::with_bound(3 * 64);
        for row in [64, 70, 127, 128, 190] {
            hidden.insert(row);
        }
        let rows = 64..150;
        let left = |selected| {
            let bits = without(&hidden, selected, &rows);
            assert_eq!(bits.len(), rows.len());
            (0..bits.len())
                .filter(|&i| bits.value(i))
                .collect::<Vec<_>>()
        };
        let seen: Vec<usize> = (0..rows.len())
            .filter(|i| ![0, 6, 63, 64].contains(i))
            .collect();
        assert_eq!(left(None), seen);
        let even = BooleanBuffer::collect_bool(rows.len(), |i| i % 2 == 0);
        let expected: Vec<usize> = seen.into_iter().filter(|i| i % 2 == 0).collect();
        assert_eq!(left(Some(even)), expected);
    }

    #[test]
    fn rows_behind_the_last_hidden_one_are_seen() {
        let hidden = RowSet::with_bound(1);
        let bits = without(&hidden, None, &(8_192..8_292));
        assert_eq!(bits.count_set_bits(), 100);
    }
}
