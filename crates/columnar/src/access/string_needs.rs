//! What the string of a row needs, round by round, see [`super::needs`].

use std::ops::Range;

use super::coded_strings::{Dict, Fsst, OnPair};
use super::frames::Frames;
use super::needs::{one, round_of_valid, rounds_of_valid};
use super::reading::{Reading, Searches};
use super::scalars::{Scalars, position};
use super::strings::{Place, Plain, Strings};
use crate::source::ByteSource;

impl Strings {
    /// The rounds that naming what a row needs takes, see [`super::RowAccess::needs`].
    pub(super) fn rounds(&self, unfenced: Searches) -> usize {
        match self {
            Self::Constant { .. } | Self::Whole(_) => 1,
            Self::Plain(plain) => plain.rounds(unfenced),
            Self::Views(views) => rounds_of_valid(&views.validity, 2, unfenced),
            Self::Fsst(fsst) => fsst.codes.rounds(unfenced),
            Self::OnPair(onpair) => {
                let rounds = onpair.code_offsets.rounds(unfenced) + onpair.codes.rounds(unfenced);
                let rounds = rounds.max(onpair.word_offsets.rounds(unfenced));
                rounds_of_valid(&onpair.validity, rounds, unfenced)
            }
            Self::Dict(dict) => dict.codes.rounds(unfenced) + dict.words.rounds(unfenced),
            Self::Frames(frames) => {
                let rounds = frames.found_in(unfenced) + frames.lengths.rounds(unfenced).max(1);
                rounds_of_valid(&frames.validity, rounds, unfenced)
            }
            Self::Letters(letters) => rounds_of_valid(&letters.validity, 1, unfenced),
            Self::Runs { runs, values } => runs.ends.rounds(unfenced) + values.rounds(unfenced),
            Self::Sparse { rows, values } => {
                rows.at.rows.rounds(unfenced) + values.rounds(unfenced).max(1)
            }
            Self::Masked { child, validity } => {
                rounds_of_valid(validity, child.rounds(unfenced), unfenced)
            }
        }
    }

    /// Appends what reading a row needs in a round.
    pub(super) fn needs<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        match self {
            Self::Constant { value, .. } => {
                if round == 0 {
                    value.ranges(out);
                }
            }
            Self::Plain(plain) => plain.needs(row, round, reading, out)?,
            Self::Views(views) => {
                let rows = one(row);
                match round_of_valid(&views.validity, &rows, round, reading, out)? {
                    Some(0) => out.extend(views.view_range(row)),
                    Some(1) => out.extend(views.place(row, reading)?.1),
                    _ => {}
                }
            }
            Self::Fsst(fsst) => {
                if round == 0 {
                    fsst.table_ranges(out);
                }
                fsst.codes.needs(row, round, reading, out)?;
            }
            Self::OnPair(onpair) => onpair.needs(row, round, reading, out)?,
            Self::Dict(dict) => dict.needs(row, round, reading, out)?,
            Self::Frames(frames) => {
                let rows = one(row);
                if let Some(round) = round_of_valid(&frames.validity, &rows, round, reading, out)?
                    && !frames.holds(row, reading)
                {
                    frames.needs(row, round, reading, out)?;
                }
            }
            Self::Letters(letters) => {
                let rows = one(row);
                if round_of_valid(&letters.validity, &rows, round, reading, out)? == Some(0) {
                    out.push(letters.place(rows)?);
                }
            }
            Self::Runs { runs, values } => {
                let found_in = runs.ends.rounds(reading.unfenced);
                if round < found_in {
                    return runs.needs(&one(row), round, reading, out);
                }
                let run = reading.uncounted(|reading| runs.find(row, reading))?;
                values.needs(run, round - found_in, reading, out)?;
            }
            Self::Sparse { rows, values } => {
                if round == 0 {
                    rows.fill.ranges(out);
                }
                let found_in = rows.at.rows.rounds(reading.unfenced);
                if round < found_in {
                    return rows.at.needs(&one(row), round, reading, out);
                }
                if let Some(at) = reading.uncounted(|reading| rows.at.find(row, reading))? {
                    values.needs(at, round - found_in, reading, out)?;
                }
            }
            Self::Masked { child, validity } => {
                let rows = one(row);
                if let Some(round) = round_of_valid(validity, &rows, round, reading, out)? {
                    child.needs(row, round, reading, out)?;
                }
            }
            Self::Whole(whole) => {
                if round == 0 && !whole.is_held(&reading.slots[whole.slot]) {
                    out.push(whole.range());
                }
            }
        }
        Ok(())
    }
}

/// The two offsets of a row.
fn two(row: u32) -> Range<u32> {
    row..row.saturating_add(2)
}

impl Plain {
    fn rounds(&self, unfenced: Searches) -> usize {
        rounds_of_valid(&self.validity, self.offsets.rounds(unfenced) + 1, unfenced)
    }

    fn needs<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        let valid = round_of_valid(&self.validity, &one(row), round, reading, out)?;
        let Some(round) = valid else {
            return Ok(());
        };
        let known_in = self.offsets.rounds(reading.unfenced);
        if round < known_in {
            return self.offsets.needs(&two(row), round, reading, out);
        }
        if round == known_in
            && let Place::At(range) = reading.uncounted(|reading| self.place(row, reading))?
        {
            out.push(range);
        }
        Ok(())
    }
}

impl Fsst {
    fn table_ranges(&self, out: &mut Vec<Range<u64>>) {
        if self.table.get().is_none() {
            out.extend([self.symbols.clone(), self.lengths.clone()]);
        }
    }
}

impl OnPair {
    fn needs<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        if self.words.get().is_none() {
            if round == 0 {
                out.push(self.word_bytes.clone());
            }
            let all = 0..self.word_count.saturating_add(1);
            self.word_offsets.needs(&all, round, reading, out)?;
        }
        let valid = round_of_valid(&self.validity, &one(row), round, reading, out)?;
        let Some(round) = valid else {
            return Ok(());
        };
        let known_in = self.code_offsets.rounds(reading.unfenced);
        if round < known_in {
            return self.code_offsets.needs(&two(row), round, reading, out);
        }
        if let Place::At(codes) = reading.uncounted(|reading| self.place(row, reading))? {
            let codes = position(codes.start)?..position(codes.end)?;
            self.codes.needs(&codes, round - known_in, reading, out)?;
        }
        Ok(())
    }
}

impl Dict {
    fn needs<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        let known_in = self.codes.rounds(reading.unfenced);
        if round < known_in {
            return self.codes.needs(&one(row), round, reading, out);
        }
        match reading.uncounted(|reading| self.codes.get(row, reading))? {
            Some(code) if !self.knows(code) => {
                let code = position(code)?;
                self.words.needs(code, round - known_in, reading, out)
            }
            _ => Ok(()),
        }
    }
}

impl Frames {
    /// The round in which the place of a frame is known.
    fn found_in(&self, unfenced: Searches) -> usize {
        self.row_ends
            .rounds(unfenced)
            .max(self.data_ends.rounds(unfenced))
    }

    /// Of a row whose frame is not held.
    fn needs<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        round: usize,
        reading: &mut Reading<'_, S>,
        out: &mut Vec<Range<u64>>,
    ) -> Result<(), S::Error> {
        if round == 0 && self.prepared.get().is_none() {
            out.push(self.dictionary.clone());
        }
        if round < self.found_in(reading.unfenced) {
            let past = u64::from(row) + 1;
            self.row_ends.needs(&(past..past), round, reading, out)?;
            // The ends of its frame and of the one before, wherever the search leads.
            let places = self.row_ends.searched(&(past..past));
            let places = places.unwrap_or(0..self.row_ends.len);
            let places = places.start.saturating_sub(1)..places.end.saturating_add(1);
            let name = |ends: &Scalars, reading: &mut Reading<'_, S>, out: &mut Vec<_>| {
                ends.needs(&places, round, reading, out)
            };
            name(&self.row_ends.values, reading, out)?;
            return name(&self.data_ends, reading, out);
        }
        let round = round - self.found_in(reading.unfenced);
        let (rows, data) = reading.uncounted(|reading| self.frame_of(row, reading))?;
        if round == 0 {
            out.push(data);
        }
        self.lengths.needs(&rows, round, reading, out)
    }
}
