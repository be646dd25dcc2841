//! What a row needs, round by round, for a reader that would have to wait for each read.
//!
//! ```text
//!   round 0   places that are known without reading: values, codes, offsets, what is searched
//!   round 1   where these lead: words, values of runs and of exceptions, strings, frames
//!   round 2   and so on, where codes or offsets are themselves codes
//! ```
//!
//! A round reads only what the rounds before it have named. After the last one, a read of the row
//! needs nothing else.
//!
//! What is searched is a block of values, found among the first values of all blocks (fences). As
//! long as these are not known, they are named first, and the block in one round more. Which are
//! known is noted before round 0, so that a round means the same however much is read meanwhile;
//! later rows take a round less.
//!
//! Naming is no reading: the state counts as if the row had not been touched, so that blocks are
//! not decoded earlier than otherwise. What cannot be read is not named either; the read of the row
//! meets it.
//!
//! Numbers are here, strings in [`super::string_needs`].

use std::ops::Range;

use super::blocks::{Bits, Packed, Plain};
use super::packed::{BLOCK, Place, block_bytes};
use super::reading::{Reading, Searches};
use super::root::NumericRoot;
use super::scalars::{Scalars, Validity, is_valid, position};
use super::sorted::{Exceptions, Patches, Runs, Sorted};
use super::state::Slot;
use super::{Root, RowAccess, RowState};
use crate::source::ByteSource;

impl RowAccess {
    /// Appends the ranges of the stored value that reading `row` needs next, when what the rounds
    /// before this one have named can be read without waiting; returns whether there is a round
    /// after this one. Rounds are asked for in order, from 0 on, by the same state; of several
    /// rows, a round of all of them before the next one. What the state or the access holds already
    /// is not named.
    ///
    /// As opposed to [`ranges`](Self::ranges) and [`locate`](Self::locate), which are hints and
    /// cost little, all of it is named that [`value`](Self::value) and [`stored`](Self::stored)
    /// read, also if they are called with more of it held than now.
    pub fn needs<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        round: usize,
        source: &S,
        state: &mut RowState,
        out: &mut Vec<Range<u64>>,
    ) -> bool {
        if row >= self.row_count {
            return false;
        }
        state.serve(self);
        if self.field.is_some() && state.held == Some(row) {
            return false;
        }
        if round == 0 {
            state.unfenced = self.held.unfenced();
            state.rounds = self.root.rounds(state.unfenced);
        }
        if round >= state.rounds {
            return false;
        }
        state.slots.iter_mut().for_each(Slot::note_counts);
        let reading = &mut Reading {
            source,
            slots: &mut state.slots,
            scratch: &mut state.scratch,
            held: &self.held,
            unfenced: state.unfenced,
        };
        let named = match &self.root {
            Root::AllNull => Ok(()),
            Root::Scalars(scalars) => scalars.needs(&one(row), round, reading, out),
            Root::Strings(strings) => strings.needs(row, round, reading, out),
            Root::Numeric(numeric) => numeric.needs(row, round, reading, out),
        };
        // An error is the row's, and met by its read.
        let _ = named;
        round + 1 < state.rounds
    }
}

impl Root {
    fn rounds(&self, unfenced: Searches) -> usize {
        match self {
            Self::AllNull => 0,
            Self::Scalars(scalars) => scalars.rounds(unfenced),
            Self::Strings(strings) => strings.rounds(unfenced),
            Self::Numeric(numeric) => {
                let NumericRoot {
                    low,
                    high,
                    scales,
                    images,
                    ..
                } = &**numeric;
                let parts = [Some(low), high.as_ref(), scales.as_ref()];
                let parts = parts.into_iter().flatten();
                let of_parts = parts.map(|part| part.rounds(unfenced)).max();
                let of_images = images
                    .as_ref()
                    .map(|(rows, images)| rows.rows.rounds(unfenced) + images.rounds(unfenced));
                of_parts.max(of_images).unwrap_or(0)
            }
        }
    }
}

impl NumericRoot {
    fn needs<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        let parts = [Some(&self.low), self.high.as_ref(), self.scales.as_ref()];
        for part in parts.into_iter().flatten() {
            part.needs(&one(row), round, reading, out)?;
        }
        let Some((rows, images)) = &self.images else {
            return Ok(());
        };
        let found_in = rows.rows.rounds(reading.unfenced);
        if round < found_in {
            return rows.needs(&one(row), round, reading, out);
        }
        match reading.uncounted(|reading| rows.find(row, reading))? {
            Some(at) => images.needs(at, round - found_in, reading, out),
            None => Ok(()),
        }
    }
}

/// A row, as rows.
pub(super) fn one(row: u32) -> Range<u32> {
    row..row.saturating_add(1)
}

/// The round of a child, whose rows may be null, in a round of its parent: what nulls have instead
/// of a value is not made sense of. `None`: there is nothing to be named.
pub(super) fn round_of_valid<S: ByteSource + ?Sized>(
    validity: &Validity,
    rows: &Range<u32>,
    round: usize,
    reading: &mut Reading<'_, S>,
    out: &mut Vec<Range<u64>>,
) -> Result<Option<usize>, S::Error> {
    let Some(bits) = validity else {
        return Ok(Some(round));
    };
    let known_in = bits.rounds(reading.unfenced);
    if round < known_in {
        bits.needs(rows, round, reading, out)?;
        // Places alone are named without knowing.
        return Ok((round == 0).then_some(0));
    }
    let is_valid = |reading: &mut Reading<'_, S>| is_valid(validity, rows.start, reading);
    if rows.len() == 1 && !reading.uncounted(is_valid)? {
        return Ok(None);
    }
    Ok(Some(round - known_in.saturating_sub(1)))
}

/// The rounds of a node whose values take so many.
pub(super) fn rounds_of_valid(validity: &Validity, rounds: usize, unfenced: Searches) -> usize {
    match validity {
        None => rounds,
        Some(bits) => {
            let known_in = bits.rounds(unfenced);
            known_in.max(rounds + known_in.saturating_sub(1))
        }
    }
}

impl Scalars {
    /// The rounds that naming what a row needs takes, see [`RowAccess::needs`].
    pub(super) fn rounds(&self, unfenced: Searches) -> usize {
        let patched = |patches: &Option<Patches>| {
            let patches = patches.as_ref();
            patches.map_or(0, |patches| patches.rounds(unfenced))
        };
        match self {
            Self::Constant { .. } | Self::Sequence { .. } => 0,
            Self::Plain(plain) => rounds_of_valid(&plain.validity, 1, unfenced),
            Self::Bits(bits) => rounds_of_valid(&bits.validity, 1, unfenced),
            Self::Packed(packed) => {
                let rounds = patched(&packed.patches).max(1);
                rounds_of_valid(&packed.validity, rounds, unfenced)
            }
            Self::Reference { child, .. } | Self::ZigZag { child, .. } => child.rounds(unfenced),
            Self::Dict { codes, words } => codes.rounds(unfenced) + words.rounds(unfenced),
            Self::Runs { runs, values } => runs.ends.rounds(unfenced) + values.rounds(unfenced),
            Self::Sparse { patches, .. } => patches.rounds(unfenced),
            Self::Masked { child, validity } => {
                rounds_of_valid(validity, child.rounds(unfenced), unfenced)
            }
            Self::Alp { child, patches, .. } => child.rounds(unfenced).max(patched(patches)),
            Self::AlpRd {
                left,
                right,
                patches,
                ..
            } => left
                .rounds(unfenced)
                .max(right.rounds(unfenced))
                .max(patched(patches)),
            Self::Pages(pages) => pages.rounds(),
            Self::Whole(_) => 1,
        }
    }

    /// Appends what reading any of these rows needs in a round.
    pub(super) fn needs<S: ByteSource + ?Sized>(
        &self,
        rows: &Range<u32>,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        if rows.is_empty() {
            return Ok(());
        }
        match self {
            Self::Constant { .. } | Self::Sequence { .. } => {}
            Self::Plain(plain) => {
                if round_of_valid(&plain.validity, rows, round, reading, out)? == Some(0) {
                    plain.places(rows, &reading.slots[plain.slot], out);
                }
            }
            Self::Bits(bits) => {
                if round_of_valid(&bits.validity, rows, round, reading, out)? == Some(0) {
                    bits.places(rows, &reading.slots[bits.slot], out);
                }
            }
            Self::Packed(packed) => {
                let validity = &packed.validity;
                if let Some(round) = round_of_valid(validity, rows, round, reading, out)? {
                    packed.needs(rows, round, reading, out)?;
                }
            }
            Self::Reference { child, .. } | Self::ZigZag { child, .. } => {
                child.needs(rows, round, reading, out)?;
            }
            Self::Dict { codes, words } => {
                let known_in = codes.rounds(reading.unfenced);
                if round < known_in {
                    return codes.needs(rows, round, reading, out);
                }
                let mut read = Vec::new();
                for row in rows.clone() {
                    if let Some(code) = reading.uncounted(|reading| codes.get(row, reading))? {
                        read.push(position(code)?);
                    }
                }
                let least = read.iter().min().copied().unwrap_or(0);
                let most = read.iter().max().map_or(0, |code| code.saturating_add(1));
                words.needs(&(least..most), round - known_in, reading, out)?;
            }
            Self::Runs { runs, values } => {
                let found_in = runs.ends.rounds(reading.unfenced);
                if round < found_in {
                    return runs.needs(rows, round, reading, out);
                }
                let mut find = |row| reading.uncounted(|reading| runs.find(row, reading));
                let runs = find(rows.start)?..find(rows.end - 1)? + 1;
                values.needs(&runs, round - found_in, reading, out)?;
            }
            Self::Sparse { patches, .. } => patches.needs(rows, round, reading, out)?,
            Self::Masked { child, validity } => {
                if let Some(round) = round_of_valid(validity, rows, round, reading, out)? {
                    child.needs(rows, round, reading, out)?;
                }
            }
            Self::Alp { child, patches, .. } => {
                child.needs(rows, round, reading, out)?;
                if let Some(patches) = patches {
                    patches.needs(rows, round, reading, out)?;
                }
            }
            Self::AlpRd {
                left,
                right,
                patches,
                ..
            } => {
                left.needs(rows, round, reading, out)?;
                right.needs(rows, round, reading, out)?;
                if let Some(patches) = patches {
                    patches.needs(rows, round, reading, out)?;
                }
            }
            Self::Pages(pages) => pages.needs(rows, round, reading, out)?,
            Self::Whole(whole) => {
                if round == 0 && !whole.is_held(&reading.slots[whole.slot]) {
                    out.push(whole.range());
                }
            }
        }
        Ok(())
    }
}

/// Whether a block need not be named: it is kept, and no other one takes its place meanwhile.
fn stays(slot: &Slot, block: u32, rows_of_it: &Range<u32>, rows: &Range<u32>) -> bool {
    slot.holds(block) && rows_of_it == rows
}

/// Rows of one block after the other.
fn by_block(rows: Range<u32>, block_rows: u32) -> impl Iterator<Item = (u32, Range<u32>)> {
    let blocks = match rows.is_empty() {
        true => 0..0,
        false => rows.start / block_rows..(rows.end - 1) / block_rows + 1,
    };
    blocks.map(move |block| {
        let start = block * block_rows;
        let end = start.saturating_add(block_rows);
        (block, rows.start.max(start)..rows.end.min(end))
    })
}

impl Plain {
    /// Where some rows are read.
    fn places(&self, rows: &Range<u32>, slot: &Slot, out: &mut Vec<Range<u64>>) {
        let at = |row: u32| self.start + u64::from(row) * u64::from(self.width);
        let all = rows.start..rows.end.min(self.len);
        for (block, rows) in by_block(all.clone(), BLOCK as u32) {
            let first = block * BLOCK as u32;
            let end = first.saturating_add(BLOCK as u32).min(self.len);
            let is_small = self.is_small_block((end - first) as usize);
            match stays(slot, block, &rows, &all) {
                true => {}
                false if is_small || slot.may_load(block, rows.len()) => {
                    out.push(at(first)..at(end));
                }
                false => out.push(at(rows.start)..at(rows.end)),
            }
        }
    }
}

impl Bits {
    /// Where some rows are read.
    fn places(&self, rows: &Range<u32>, slot: &Slot, out: &mut Vec<Range<u64>>) {
        let rows = rows.start..rows.end.min(self.len);
        if rows.is_empty() {
            return;
        }
        let at = |byte: u32| self.start + u64::from(byte);
        let most = (self.offset + self.len).div_ceil(8);
        let bytes = (self.offset + rows.start) / 8..(self.offset + rows.end).div_ceil(8);
        for (block, some) in by_block(bytes.clone(), BLOCK as u32) {
            let first = block * BLOCK as u32;
            let end = first.saturating_add(BLOCK as u32).min(most);
            let is_small = self.is_small_block((end - first) as usize);
            match stays(slot, block, &some, &bytes) {
                true => {}
                false if is_small || slot.may_load(block, rows.len()) => {
                    out.push(at(first)..at(end));
                }
                false => out.push(at(some.start)..at(some.end)),
            }
        }
    }
}

impl Packed {
    /// Whether a read of so many rows of a block may decode all of it.
    fn may_load(&self, block: u32, row_count: usize, slot: &Slot) -> bool {
        self.bits == 0 || slot.may_load(block, row_count)
    }

    fn needs<S: ByteSource + ?Sized>(
        &self,
        rows: &Range<u32>,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        if rows.start >= self.len {
            return Ok(());
        }
        // Rows of the blocks, in which the node's first row has the place `offset`.
        let all = self.offset + rows.start..self.offset + rows.end.min(self.len);
        for (block, places) in by_block(all.clone(), BLOCK as u32) {
            let slot = &reading.slots[self.slot];
            if stays(slot, block, &places, &all) {
                continue;
            }
            let may_load = self.may_load(block, places.len(), slot);
            if round == 0 && self.bits > 0 {
                let start = self.start + u64::from(block) * block_bytes(self.bits.into()) as u64;
                out.push(match may_load {
                    true => start..start + block_bytes(self.bits.into()) as u64,
                    false => {
                        let within = self.within(&places);
                        start + within.start as u64..start + within.end as u64
                    }
                });
            }
            if let Some(patches) = &self.patches {
                let places = match may_load {
                    true => block * BLOCK as u32..(block + 1) * BLOCK as u32,
                    false => places,
                };
                let row = |place: u32| place.saturating_sub(self.offset);
                let rows = row(places.start)..row(places.end);
                patches.needs(&rows, round, reading, out)?;
            }
        }
        Ok(())
    }

    /// Where some values of a block lie in it.
    fn within(&self, places: &Range<u32>) -> Range<usize> {
        let all = places.clone().map(|place| {
            let index = place as usize % BLOCK;
            let place = Place::of(index, self.width.into(), self.bits.into());
            place.start..place.start + place.len
        });
        all.reduce(|all, place| all.start.min(place.start)..all.end.max(place.end))
            .unwrap_or_default()
    }
}

impl Patches {
    fn rounds(&self, unfenced: Searches) -> usize {
        self.at.rows.rounds(unfenced) + self.values.rounds(unfenced)
    }

    /// Appends what the exceptions among some rows need.
    fn needs<S: ByteSource + ?Sized>(
        &self,
        rows: &Range<u32>,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        let found_in = self.at.rows.rounds(reading.unfenced);
        if round < found_in {
            return self.at.needs(rows, round, reading, out);
        }
        let mut find = |row: u32| {
            let number = u64::from(row) + self.at.offset;
            reading.uncounted(|reading| self.at.rows.lower_bound(number, reading))
        };
        let (first, end) = (find(rows.start)?, find(rows.end)?);
        self.values
            .needs(&(first..end), round - found_in, reading, out)
    }
}

impl Exceptions {
    /// Appends what searching for some rows needs, and for the exceptions between them.
    pub(super) fn needs<S: ByteSource + ?Sized>(
        &self,
        rows: &Range<u32>,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        let number = |row: u32| u64::from(row) + self.offset;
        let numbers = number(rows.start)..number(rows.end);
        self.rows.needs(&numbers, round, reading, out)
    }
}

impl Runs {
    /// Appends what searching for the runs of some rows needs.
    pub(super) fn needs<S: ByteSource + ?Sized>(
        &self,
        rows: &Range<u32>,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        let past = |row: u32| (u64::from(row) + 1).saturating_add(self.offset);
        let numbers = past(rows.start)..past(rows.end);
        self.ends.needs(&numbers, round, reading, out)
    }
}

impl Sorted {
    /// Those after which a search is no longer waited for: of the fences, if they have to be read
    /// before it is known what else is, and of the values that are searched.
    pub(super) fn rounds(&self, unfenced: Searches) -> usize {
        let of_values = self.values.rounds(unfenced);
        match unfenced.meets(self.search) {
            true => 2 * of_values,
            false => of_values,
        }
    }

    /// Appends what is read to find the first value that is not less than a bound, for all bounds
    /// between two, both included, and to read the values from there to there.
    pub(super) fn needs<S: ByteSource + ?Sized>(
        &self,
        bounds: &Range<u64>,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        if self.is_checked() {
            let places = self.searched(bounds).unwrap_or(0..self.len);
            return self.values.needs(&places, round, reading, out);
        }
        let mut round = round;
        if reading.unfenced.meets(self.search) {
            let known_in = self.values.rounds(reading.unfenced);
            if round < known_in {
                return self.fences_need(round, reading, out);
            }
            round -= known_in;
            reading.uncounted(|reading| self.read_fences(reading).map(|_| ()))?;
        }
        match self.searched(bounds) {
            Some(places) => self.values.needs(&places, round, reading, out),
            None => self.fences_need(round, reading, out),
        }
    }

    /// Appends what reading fences needs, if they are not known.
    fn fences_need<S: ByteSource + ?Sized>(
        &self,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        if self.fences.get().is_none() {
            for block in 1..self.len.div_ceil(BLOCK as u32) {
                let fence = one(block * BLOCK as u32);
                self.values.needs(&fence, round, reading, out)?;
            }
        }
        Ok(())
    }

    /// The places that are read by a search for bounds when fences are known; `None`: they are not.
    pub(super) fn searched(&self, bounds: &Range<u64>) -> Option<Range<u32>> {
        if self.len <= BLOCK as u32 {
            return Some(0..self.len);
        }
        let fences = self.fences.get()?;
        let block = |bound: u64| fences.partition_point(|&fence| fence < bound) as u32;
        let start = block(bounds.start) * BLOCK as u32;
        let end = (block(bounds.end) + 1).saturating_mul(BLOCK as u32);
        Some(start..end.min(self.len))
    }
}
