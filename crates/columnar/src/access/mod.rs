//! Row access: the value of one row from a few ranges of the stored bytes.
//!
//! ```text
//!   nodes ──plan──▶ RowAccess: a tree of readers ──value(row)──▶ ranges of the chunk ─▶ value
//!                     │ lazily: symbol tables, words, fences        ▲
//!                   RowState: the block that each node decoded last ┘
//! ```
//!
//! A bit-packed value costs its words, and its block of 1,024 from the fifth row in a block on
//! (later, where it has many exceptions: [`patches`]); a dictionary's a code and a word; FSST's and
//! OnPair's two offsets and the codes, and the table of symbols or words once (neighbours are read
//! some at a time: [`expected`], [`stretch`], [`ahead`], [`several`]); letters' the bytes of its
//! row; ALP's and patched ones a search among the exceptions, runs and sparse rows a search
//! ([`sorted`]); a frame is decompressed as a whole, and of `pco`, which only
//! [`Effort::Best`](crate::Effort::Best) writes, a page of 8,192 values. Nodes that cannot be read
//! in this way (of another encoding, or pages that are searched) are decoded once into the state.
//!
//! Invariant: bytes are untrusted. A plan checks lengths of parts against rows; positions and
//! lengths that are read are checked where they are used; the code is safe Rust.

mod ahead;
mod blocks;
mod coded_strings;
mod content;
mod expected;
mod frames;
mod letters;
mod likely;
pub(crate) mod messages;
pub(crate) mod metadata;
mod needs;
pub(crate) mod packed;
mod pages;
mod patches;
mod plan;
mod reading;
mod root;
mod scalars;
mod scattered;
mod several;
mod sorted;
mod state;
mod stretch;
mod string_needs;
mod strings;
mod symbols;
mod whole;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use ahead::Ahead;
use content::Content;
pub use expected::Expected;
use expected::FIRST_ROWS;
use plan::Planner;
use reading::{Held, Reading, Searches};
use root::Root;
use scalars::Scalars;
pub use scattered::MOST_SCATTERED;
use scattered::Scattered;
use state::Slot;
use stretch::Stretch;
use strings::Place;

use crate::error::ColumnarError;
use crate::grouped::Field;
use crate::layout::ChunkLayout;
use crate::nodes::{Encoding, NodeTable};
use crate::source::ByteSource;
use crate::types::ColumnType;
use crate::value::Value;

/// Rows at most this far from the one before were mostly decoded along with it.
pub const BESIDE_ROWS: u32 = FIRST_ROWS;

/// What has to be read and decoded for a single value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadUnit {
    /// A few short ranges.
    Value,
    /// A frame of some kilobytes, or a page of some thousand numbers.
    Frame,
    /// Some node as a whole, once.
    Chunk,
}

/// Access to single rows of one column of one row group.
#[derive(Debug)]
pub struct RowAccess {
    /// Distinguishes the states of different columns.
    id: u64,
    ty: ColumnType,
    /// The place of the column in what is stored of a row.
    field: Option<Field>,
    row_count: u32,
    unit: ReadUnit,
    root: Root,
    slot_count: usize,
    plan_bytes: usize,
    /// What reads have kept since.
    held: Held,
}

/// The state that is kept between reads of rows of one column of one group. A state may be passed
/// to another column's access; it is reset then.
#[derive(Debug, Default)]
pub struct RowState {
    /// The [`RowAccess`] that the other fields belong to.
    id: u64,
    slots: Vec<Slot>,
    scratch: Vec<u8>,
    bytes: Vec<u8>,
    /// The row that was located last.
    located: Option<(u32, Place)>,
    /// Strings of neighbours.
    stretch: Stretch,
    /// Numbers of neighbours.
    ahead: Ahead,
    /// Values of rows here and there.
    scattered: Scattered,
    /// The row that was asked for last.
    last: Option<u32>,
    /// What the row of grouped columns that was read last has of all of them.
    held: Option<u32>,
    row: Content,
    /// Of [`RowAccess::needs`], as it was before its first round: searches without fences, and
    /// rounds.
    unfenced: Searches,
    rounds: usize,
}

impl ReadUnit {
    /// `has_whole`: some node is decoded as a whole.
    fn of(nodes: &NodeTable, has_whole: bool) -> Self {
        let unit_of = |encoding: Encoding| match encoding {
            _ if has_whole => Self::Chunk,
            Encoding::Frames | Encoding::Pco => Self::Frame,
            _ => Self::Value,
        };
        let units = nodes.encodings().map(unit_of);
        units.max_by_key(|&unit| unit as u8).unwrap_or(Self::Value)
    }
}

impl RowState {
    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        let slots: usize = self.slots.iter().map(Slot::heap_bytes).sum();
        size_of::<Self>()
            + self.slots.capacity() * size_of::<Slot>()
            + slots
            + self.scratch.capacity()
            + self.bytes.capacity()
            + self.row.capacity()
            + self.stretch.heap_bytes()
            + self.ahead.heap_bytes()
            + self.scattered.heap_bytes()
    }

    /// Makes it the state of this access.
    fn serve(&mut self, access: &RowAccess) {
        if self.id != access.id {
            self.slots.clear();
            self.slots.resize_with(access.slot_count, Slot::default);
            self.located = None;
            self.stretch = Stretch::default();
            self.ahead = Ahead::default();
            self.scattered.clear();
            self.last = None;
            self.held = None;
            self.id = access.id;
        }
    }

    /// The row that was asked for before this one, if it is another, and so close to it that rows
    /// read along with that one would have reached it. Of others, which may lie in the same block,
    /// each is read by itself.
    fn follow(&mut self, row: u32) -> Option<u32> {
        let last = self.last.replace(row);
        last.filter(|last| (1..=BESIDE_ROWS).contains(&row.abs_diff(*last)))
    }

    /// Drops everything and frees its memory.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

impl RowAccess {
    /// The readers of a chunk that lies at `chunk` of the stored value.
    pub(crate) fn new(
        ty: ColumnType,
        layout: ChunkLayout,
        row_count: usize,
        chunk: &Range<u64>,
        nodes: &NodeTable,
    ) -> Result<Self, ColumnarError> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let mut planner = Planner {
            chunk,
            row_count,
            slot_count: 0,
            has_whole: false,
            searches: Searches::default(),
        };
        let field = nodes.field().cloned();
        let stored = field.as_ref().map_or(ty, Field::row_type);
        let root = planner.root(stored, layout, row_count, nodes)?;
        let plan_bytes = nodes.node_count() * (size_of::<Scalars>() + 64) + nodes.heap_bytes();
        Ok(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            ty,
            field,
            row_count: row_count as u32,
            unit: ReadUnit::of(nodes, planner.has_whole),
            root,
            slot_count: planner.slot_count,
            plan_bytes,
            held: Held::of(planner.searches),
        })
    }

    /// The type of the column.
    pub fn column_type(&self) -> ColumnType {
        self.ty
    }

    /// What a single value costs.
    pub fn unit(&self) -> ReadUnit {
        self.unit
    }

    /// Memory held, including what reads have kept.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.plan_bytes + self.held.bytes()
    }

    /// Appends the ranges of the stored value that reading `row` needs first and that are known
    /// without reading, for a reader that requests all of them at once. A hint that costs little:
    /// all that a row needs is named by [`needs`](Self::needs).
    pub fn ranges(&self, row: u32, out: &mut Vec<Range<u64>>) {
        if row >= self.row_count {
            return;
        }
        match &self.root {
            Root::AllNull => {}
            Root::Scalars(scalars) => scalars.ranges(row, out),
            Root::Strings(strings) => strings.ranges(row, out),
            Root::Numeric(numeric) => {
                numeric.low.ranges(row, out);
                for part in [&numeric.high, &numeric.scales].into_iter().flatten() {
                    part.ranges(row, out);
                }
                if let Some((images, _)) = &numeric.images {
                    images.ranges(out);
                }
            }
        }
    }

    /// Reads the place of the value of `row`, if it is stored, appends the ranges that reading the
    /// value needs next, and keeps the place for the next [`value`](Self::value) of that row. So a
    /// reader may request the bytes of several columns before it waits for any.
    ///
    /// # Errors
    ///
    /// As [`value`](Self::value).
    pub fn locate<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        source: &S,
        state: &mut RowState,
        next: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        let Root::Strings(strings) = &self.root else {
            return Ok(());
        };
        if !strings.has_places() {
            return Ok(());
        }
        self.check(row)?;
        state.serve(self);
        let mut reading = Reading {
            source,
            slots: &mut state.slots,
            scratch: &mut state.scratch,
            held: &self.held,
            unfenced: Searches::default(),
        };
        let place = strings.locate(row, &mut reading, next)?;
        state.located = Some((row, place));
        Ok(())
    }

    /// Whether there is such a row.
    fn check(&self, row: u32) -> Result<(), ColumnarError> {
        match row < self.row_count {
            true => Ok(()),
            false => Err(ColumnarError::OutOfRange {
                start: row as usize,
                end: row as usize + 1,
                row_count: self.row_count as usize,
            }),
        }
    }

    /// Whether [`locate`](Self::locate) does anything for this column.
    pub fn has_places(&self) -> bool {
        matches!(&self.root, Root::Strings(strings) if strings.has_places())
    }

    /// Whether [`value_among`](Self::value_among) reads several rows at once.
    pub fn has_stretches(&self) -> bool {
        matches!(&self.root, Root::Strings(strings) if strings.has_stretches())
    }

    /// The value of a row the neighbours of which are likely to be asked for next: a few of them
    /// may be decoded along with it.
    ///
    /// # Errors
    ///
    /// As [`value`](Self::value): only what is wrong with this row.
    pub fn value_among<'a, S: ByteSource + ?Sized>(
        &'a self,
        row: u32,
        source: &S,
        state: &'a mut RowState,
    ) -> Result<Option<Value<'a>>, S::Error> {
        let stored = self.stored_among(row, &Expected::default(), source, state)?;
        Ok(self.of_stored(stored)?)
    }

    /// As [`stored`](Self::stored), of a row as [`value_among`](Self::value_among) means it, or one
    /// whose neighbours are expected to be asked for.
    ///
    /// # Errors
    ///
    /// As [`value`](Self::value): only what is wrong with this row.
    pub fn stored_among<'a, S: ByteSource + ?Sized>(
        &'a self,
        row: u32,
        expected: &Expected,
        source: &S,
        state: &'a mut RowState,
    ) -> Result<Option<Value<'a>>, S::Error> {
        let strings = match &self.root {
            Root::Strings(strings) if strings.has_stretches() => Some(strings),
            root if Ahead::reads(root) => None,
            _ => return self.stored(row, source, state),
        };
        self.check(row)?;
        state.serve(self);
        let before = state.follow(row);
        let progress = match strings {
            Some(_) => &mut state.stretch.progress,
            None => &mut state.ahead.progress,
        };
        if !progress.holds(row) {
            let Some(rows) = progress.next(row, self.row_count, before, expected) else {
                return self.stored(row, source, state);
            };
            let mut reading = Reading {
                source,
                slots: &mut state.slots,
                scratch: &mut state.scratch,
                held: &self.held,
                unfenced: Searches::default(),
            };
            // What is wrong with a neighbour is not this row's business.
            let is_read = match strings {
                Some(strings) => {
                    let (stretch, ty) = (&mut state.stretch, self.stored_type());
                    let read = stretch.read(strings, ty, rows, row, &mut reading);
                    read.unwrap_or(false)
                }
                None => {
                    let ahead = &mut state.ahead;
                    ahead.read(&self.root, rows, row, &mut reading);
                    ahead.progress.holds(row)
                }
            };
            if !is_read {
                return self.stored(row, source, state);
            }
        }
        match strings {
            Some(_) => Ok(state.stretch.value(row)?),
            None => Ok(state.ahead.value(row, self.ty, &self.root)),
        }
    }

    /// The value of a row that [`value_among`](Self::value_among) has read along with a neighbour;
    /// the outer `None`: it has not, and the row is to be read. Not of a column that shares its
    /// chunk with others.
    #[inline]
    pub fn kept<'a>(&'a self, row: u32, state: &'a mut RowState) -> Option<Option<Value<'a>>> {
        if state.id != self.id || self.field.is_some() {
            return None;
        }
        let value = match &self.root {
            Root::Strings(_) if state.stretch.progress.holds(row) => {
                state.stretch.value(row).ok()?
            }
            _ if state.ahead.progress.holds(row) => state.ahead.value(row, self.ty, &self.root),
            _ => state.scattered.value(row, self.ty)?.ok()?,
        };
        state.last = Some(row);
        Some(value)
    }

    /// Whether [`read_scattered`](Self::read_scattered) reads anything.
    pub fn reads_scattered(&self) -> bool {
        Scattered::keeps(&self.root)
    }

    /// Whether [`read_scattered`](Self::read_scattered) has read the row, last.
    pub fn holds_scattered(&self, row: u32, state: &RowState) -> bool {
        state.id == self.id && state.scattered.holds(row)
    }

    /// Reads the values of some rows here and there, of which more than the first one will be asked
    /// for; they are [kept](Self::kept) until the next ones are, or of a column that shares its
    /// chunk with others, are what is [stored](Self::stored). Not where a value is more than a few
    /// ranges: those are read one by one.
    pub fn read_scattered<S: ByteSource + ?Sized>(
        &self,
        rows: &[u32],
        source: &S,
        state: &mut RowState,
    ) {
        state.serve(self);
        state.scattered.clear();
        let is_wrong = |&row: &u32| row >= self.row_count;
        if !self.reads_scattered() || rows.iter().any(is_wrong) {
            return;
        }
        for &row in rows {
            self.ranges(row, &mut state.scattered.ranges);
        }
        source.request(&state.scattered.ranges);
        let mut reading = Reading {
            source,
            slots: &mut state.slots,
            scratch: &mut state.scratch,
            held: &self.held,
            unfenced: Searches::default(),
        };
        let scattered = &mut state.scattered;
        if scattered
            .read(&self.root, self.stored_type(), rows, &mut reading)
            .is_err()
        {
            scattered.clear();
        }
    }

    /// Whether [`value_among`](Self::value_among) reads rows ahead, which are
    /// [kept](Self::kept) then.
    pub fn reads_ahead(&self) -> bool {
        self.field.is_none() && (self.has_stretches() || Ahead::reads(&self.root))
    }

    /// The value of a row; `None` is NULL. Reads only what it needs.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::OutOfRange`], [`ColumnarError::Corrupt`], and what the source fails with.
    pub fn value<'a, S: ByteSource + ?Sized>(
        &'a self,
        row: u32,
        source: &S,
        state: &'a mut RowState,
    ) -> Result<Option<Value<'a>>, S::Error> {
        let stored = self.stored(row, source, state)?;
        Ok(self.of_stored(stored)?)
    }

    /// What a row has in the column's chunk: its value, or of grouped columns what it has of all of
    /// them. Each of these columns finds its own value in it by [`of_stored`](Self::of_stored).
    ///
    /// # Errors
    ///
    /// As [`value`](Self::value).
    pub fn stored<'a, S: ByteSource + ?Sized>(
        &'a self,
        row: u32,
        source: &S,
        state: &'a mut RowState,
    ) -> Result<Option<Value<'a>>, S::Error> {
        self.check(row)?;
        state.serve(self);
        state.last = Some(row);
        if self.field.is_some() {
            if state.held == Some(row) {
                return Ok(Some(state.row.whole()));
            }
            if state.scattered.holds(row)
                && let Some(Ok(stored)) = state.scattered.value(row, self.stored_type())
            {
                return Ok(stored);
            }
        }
        state.held = None;
        state.bytes.clear();
        let located = state.located.take().filter(|(at, _)| *at == row);
        let mut reading = Reading {
            source,
            slots: &mut state.slots,
            scratch: &mut state.scratch,
            held: &self.held,
            unfenced: Searches::default(),
        };
        match &self.root {
            Root::AllNull => Ok(None),
            Root::Scalars(scalars) => {
                let bits = scalars.get(row, &mut reading)?;
                Ok(bits.map(|bits| Value::of_bits(self.ty, bits)))
            }
            Root::Strings(strings) => {
                let place = located.map_or(Place::Unknown, |(_, place)| place);
                if self.field.is_none() {
                    let bytes = &mut state.bytes;
                    let is_valid = strings.get_at(row, &place, &mut reading, bytes)?;
                    let value = is_valid.then(|| Value::of_string(self.ty, bytes));
                    return Ok(value.transpose()?);
                }
                let mut bytes = state.row.take_buffer();
                if !strings.get_at(row, &place, &mut reading, &mut bytes)? {
                    return Ok(None);
                }
                state.row = Content::of(self.stored_type(), bytes)?;
                state.held = Some(row);
                Ok(Some(state.row.whole()))
            }
            Root::Numeric(numeric) => numeric.get(row, &mut reading, &mut state.bytes),
        }
    }

    /// The value of a row by what is stored of the row.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::Corrupt`].
    pub fn of_stored<'a>(
        &self,
        stored: Option<Value<'a>>,
    ) -> Result<Option<Value<'a>>, ColumnarError> {
        let Some(field) = &self.field else {
            return Ok(stored);
        };
        let row = stored.ok_or_else(|| ColumnarError::corrupt("a row of a group is missing"))?;
        field.value(self.ty, row)
    }

    /// The type of what is stored of a row.
    fn stored_type(&self) -> ColumnType {
        self.field.as_ref().map_or(self.ty, Field::row_type)
    }
}
