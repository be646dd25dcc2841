//! What is searched for a row: exceptions, ends of runs.
//!
//! Ascending integers are searched among the first of each block of 1,024, which are read once
//! (fences), and then within a block. A search in a block that is not known decodes it, and leaves
//! every 32nd of its values (steps), between two of which later ones read. Integers of which a scan
//! checks that they ascend when it opens them may be checked here once, too: rows are not found
//! among others, and what stands for them then has no meaning.

use std::ops::Range;
use std::sync::OnceLock;

use super::packed::BLOCK;
use super::reading::{Reading, Searches, outside};
use super::scalars::{Scalars, position, required};
use crate::source::ByteSource;

/// Values from one step to the next: as many as the words of a packed block have side by side.
const STEP: u32 = 32;

/// Rows that are exceptions, ascending.
#[derive(Debug)]
pub(super) struct Exceptions {
    pub(super) rows: Sorted,
    /// What is taken off of the numbers in `rows`.
    pub(super) offset: u64,
}

/// Exceptions and their values.
#[derive(Debug)]
pub(super) struct Patches {
    pub(super) at: Exceptions,
    pub(super) values: Box<Scalars>,
}

/// Ends of runs, ascending.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) ends: Sorted,
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// Ascending integers that are searched.
#[derive(Debug)]
pub(super) struct Sorted {
    pub(super) values: Box<Scalars>,
    pub(super) len: u32,
    /// The first value of each block but the first, once one was looked for.
    pub(super) fences: OnceLock<Box<[u64]>>,
    /// The steps of each block, once it was decoded.
    steps: OnceLock<Box<[OnceLock<Steps>]>>,
    /// Of values that are checked before one is looked for: they are less than this.
    end: Option<u64>,
    /// Itself among those of its column, if it reads fences before values that are named later.
    pub(super) search: Searches,
}

/// Every [`STEP`]th value of a block but its first.
type Steps = Box<[u64]>;

/// The value of the exception for a row, if there is one.
pub(super) fn patched<S: ByteSource + ?Sized>(
    patches: Option<&Patches>,
    row: u32,
    reading: &mut Reading<'_, S>,
) -> Result<Option<u64>, S::Error> {
    match patches {
        None => Ok(None),
        Some(patches) => match patches.at.find(row, reading)? {
            None => Ok(None),
            Some(at) => required(&patches.values, at, reading).map(Some),
        },
    }
}

impl Exceptions {
    /// The position of the exception for a row, if there is one.
    pub(super) fn find<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Option<u32>, S::Error> {
        let number = u64::from(row) + self.offset;
        let at = self.rows.lower_bound(number, reading)?;
        if at == self.rows.len {
            return Ok(None);
        }
        let found = self.rows.value(at, reading)?;
        Ok((found == number).then_some(at))
    }

    /// Those of some rows, among which `row` is, that are around it and have no exception; `None`:
    /// it has one.
    pub(super) fn gap<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        rows: Range<u32>,
        reading: &mut Reading<'_, S>,
    ) -> Result<Option<Range<u32>>, S::Error> {
        let number = u64::from(row) + self.offset;
        let at = self.rows.lower_bound(number, reading)?;
        let Range { mut start, mut end } = rows;
        if at < self.rows.len {
            let next = self.rows.value(at, reading)?;
            if next <= number {
                return Ok(None);
            }
            end = position((next - self.offset).min(end.into()))?;
        }
        if start < row
            && let Some(before) = at.checked_sub(1)
        {
            let last = self.rows.value(before, reading)?;
            let after = last.saturating_add(1).saturating_sub(self.offset);
            start = position(after.clamp(start.into(), row.into()))?;
        }
        Ok(Some(start..end))
    }

    pub(super) fn ranges(&self, out: &mut Vec<Range<u64>>) {
        self.rows.ranges(out);
    }
}

impl Runs {
    /// The run of a row.
    pub(super) fn find<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<u32, S::Error> {
        if row >= self.len {
            return Err(outside("a row").into());
        }
        // A run ends before its end.
        let past = (u64::from(row) + 1).saturating_add(self.offset);
        let run = self.ends.lower_bound(past, reading)?;
        if run >= self.ends.len {
            return Err(outside("a row").into());
        }
        Ok(run)
    }

    /// The first row after a run.
    pub(super) fn end_of<S: ByteSource + ?Sized>(
        &self,
        run: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<u32, S::Error> {
        if run >= self.ends.len {
            return Err(outside("a run").into());
        }
        let end = required(&self.ends.values, run, reading)?;
        Ok(position(end.saturating_sub(self.offset))?)
    }

    pub(super) fn ranges(&self, out: &mut Vec<Range<u64>>) {
        self.ends.ranges(out);
    }
}

impl Sorted {
    pub(super) fn new(values: Scalars, len: u32) -> Self {
        Self {
            values: Box::new(values),
            len,
            fences: OnceLock::new(),
            steps: OnceLock::new(),
            end: None,
            search: Searches::default(),
        }
    }

    /// The same, as one more of its column's searches if it has fences.
    pub(super) fn one_of(mut self, searches: &mut Searches) -> Self {
        if self.len > BLOCK as u32 {
            self.search = searches.add();
        }
        self
    }

    /// The same, checked once: they ascend, and are less than `end`.
    pub(super) fn checked(values: Scalars, len: u32, end: u64) -> Self {
        Self {
            end: Some(end),
            ..Self::new(values, len)
        }
    }

    /// Whether all values are read before one is looked for.
    pub(super) fn is_checked(&self) -> bool {
        self.end.is_some()
    }

    /// One of the values.
    pub(super) fn value<S: ByteSource + ?Sized>(
        &self,
        at: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<u64, S::Error> {
        // A search that ends behind its block would read another one for its first value.
        if at > 0
            && at.is_multiple_of(BLOCK as u32)
            && let Some(fences) = self.fences.get()
            && let Some(&fence) = fences.get(at as usize / BLOCK - 1)
        {
            return Ok(fence);
        }
        required(&self.values, at, reading)
    }

    /// The number of values less than `bound`.
    pub(super) fn lower_bound<S: ByteSource + ?Sized>(
        &self,
        bound: u64,
        reading: &mut Reading<'_, S>,
    ) -> Result<u32, S::Error> {
        let block = match self.fences.get() {
            Some(fences) => fences.partition_point(|&fence| fence < bound),
            None if self.len <= BLOCK as u32 && self.end.is_none() => 0,
            None => {
                let fences = self.read_fences(reading)?;
                fences.partition_point(|&fence| fence < bound)
            }
        };
        let mut low = (block * BLOCK) as u32;
        let mut high = low.saturating_add(BLOCK as u32).min(self.len);
        let known = self.steps.get().and_then(|steps| steps.get(block)?.get());
        if let Some(steps) = known {
            let step = steps.partition_point(|&first| first < bound) as u32;
            low += step * STEP;
            high = low.saturating_add(STEP).min(high);
            if let Some(found) = self.values.search_kept(low..high, bound, reading.slots) {
                return Ok(found);
            }
            let mut between = Vec::with_capacity(STEP as usize);
            self.values
                .append_required(low..high, reading, &mut between)?;
            return Ok(low + between.partition_point(|&value| value < bound) as u32);
        }
        while low < high {
            if let Some(found) = self.values.search_kept(low..high, bound, reading.slots) {
                self.note_steps(block, reading)?;
                return Ok(found);
            }
            let middle = low + (high - low) / 2;
            match required(&self.values, middle, reading)? < bound {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }

    /// The first value of each block but the first, which is read and kept if it was not yet.
    #[cold]
    pub(super) fn read_fences<S: ByteSource + ?Sized>(
        &self,
        reading: &mut Reading<'_, S>,
    ) -> Result<&[u64], S::Error> {
        if let Some(fences) = self.fences.get() {
            return Ok(fences);
        }
        let fences = match self.end {
            Some(end) => self.checked_fences(end, reading)?,
            None => (1..self.len.div_ceil(BLOCK as u32))
                .map(|block| required(&self.values, block * BLOCK as u32, reading))
                .collect::<Result<Box<[u64]>, _>>()?,
        };
        reading.hold(size_of_val(&*fences));
        reading.held.fence(self.search);
        Ok(self.fences.get_or_init(|| fences))
    }

    /// Notes the steps of a block that is kept.
    fn note_steps<S: ByteSource + ?Sized>(
        &self,
        block: usize,
        reading: &mut Reading<'_, S>,
    ) -> Result<(), S::Error> {
        let steps = self.steps.get_or_init(|| {
            let blocks = self.len.div_ceil(BLOCK as u32) as usize;
            reading.hold(blocks * size_of::<OnceLock<Steps>>());
            std::iter::repeat_with(OnceLock::new).take(blocks).collect()
        });
        let first = (block * BLOCK) as u32;
        let end = first.saturating_add(BLOCK as u32).min(self.len);
        if let Some(of_block) = steps.get(block) {
            let values = (first..end).step_by(STEP as usize).skip(1);
            let values = values.map(|at| required(&self.values, at, reading));
            let values = values.collect::<Result<Steps, _>>()?;
            reading.hold(size_of_val(&*values));
            let _ = of_block.set(values);
        }
        Ok(())
    }

    /// The first value of each block but the first, after a look at all.
    fn checked_fences<S: ByteSource + ?Sized>(
        &self,
        end: u64,
        reading: &mut Reading<'_, S>,
    ) -> Result<Box<[u64]>, S::Error> {
        let (mut fences, mut values, mut least) = (Vec::new(), Vec::new(), 0);
        for start in (0..self.len).step_by(BLOCK) {
            let stop = self.len.min(start.saturating_add(BLOCK as u32));
            values.clear();
            self.values
                .append_required(start..stop, reading, &mut values)?;
            for &value in &values {
                if value < least || value >= end {
                    return Err(outside("a position that is searched for").into());
                }
                least = value + 1;
            }
            if start > 0 {
                fences.extend(values.first());
            }
        }
        Ok(fences.into())
    }

    /// What is read first, if that is known.
    pub(super) fn ranges(&self, out: &mut Vec<Range<u64>>) {
        if self.len <= BLOCK as u32 && self.len > 0 {
            self.values.ranges(self.len / 2, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::blocks::{Packed, Plain};
    use super::super::metadata::Native;
    use super::super::packed::Place;
    use super::super::reading::Held;
    use super::super::state::{SINGLES, Slot};
    use super::*;
    use crate::error::ColumnarError;

    const LEN: u32 = 2_500;

    fn value(row: u32) -> u64 {
        u64::from(row * 7 + row % 5)
    }

    fn check(values: Scalars, bytes: &[u8], reference: u64) {
        let sorted = Sorted::new(values, LEN);
        let (mut slots, mut scratch) = ([Slot::default()], Vec::new());
        let held = Held::default();
        let mut reading = Reading {
            source: bytes,
            slots: &mut slots,
            scratch: &mut scratch,
            held: &held,
            unfenced: Searches::default(),
        };
        // Back and forth, so that blocks are kept and are not.
        for step in 0..4_000 {
            let bound = (step * 1_237) % (value(LEN) + reference + 20);
            let expected = (0..LEN)
                .filter(|&row| value(row) + reference < bound)
                .count();
            let found = sorted.lower_bound(bound, &mut reading);
            assert_eq!(found.expect("within the bytes"), expected as u32, "{bound}");
            let near = sorted
                .lower_bound(bound + 1, &mut reading)
                .expect("as well");
            assert!((expected as u32..=expected as u32 + 1).contains(&near));
        }
    }

    /// Counts the bytes that are read.
    struct Counted<'b> {
        bytes: &'b [u8],
        count: Cell<usize>,
    }

    impl ByteSource for Counted<'_> {
        type Error = ColumnarError;

        fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ColumnarError> {
            self.count.set(self.count.get() + into.len());
            self.bytes.read(offset, into)
        }
    }

    #[test]
    fn a_block_that_was_searched_is_read_between_two_steps() {
        let bytes: Vec<u8> = (0..LEN)
            .flat_map(|row| (value(row) as u32).to_le_bytes())
            .collect();
        let source = Counted {
            bytes: &bytes,
            count: Cell::new(0),
        };
        let values = Scalars::Plain(Plain {
            start: 0,
            width: 4,
            len: LEN,
            slot: 0,
            validity: None,
        });
        let sorted = Sorted::new(values, LEN);
        let (mut slots, mut scratch) = ([Slot::default()], Vec::new());
        let held = Held::default();
        let mut reading = Reading {
            source: &source,
            slots: &mut slots,
            scratch: &mut scratch,
            held: &held,
            unfenced: Searches::default(),
        };
        let mut search = |row: u32| {
            source.count.set(0);
            let found = sorted.lower_bound(value(row), &mut reading);
            assert_eq!(found.expect("within the bytes"), row);
            source.count.get()
        };
        assert!(search(700) > 4 * BLOCK);
        assert!(search(1_700) > 4 * BLOCK);
        // After four reads the block would be decoded again.
        for row in [5, 1_024, 992, 500] {
            assert_eq!(search(row), 4 * STEP as usize, "row {row}");
        }
    }

    #[test]
    fn bounds_are_found_in_blocks_that_are_kept_and_in_others() {
        let plain: Vec<u8> = (0..LEN)
            .flat_map(|row| (value(row) as u32).to_le_bytes())
            .collect();
        let slot = 0;
        check(
            Scalars::Plain(Plain {
                start: 0,
                width: 4,
                len: LEN,
                slot,
                validity: None,
            }),
            &plain,
            0,
        );
        // Packed to all bits of their type.
        let mut bytes = vec![0; 3 * 2 * BLOCK];
        for row in 0..LEN {
            let (block, index) = (row as usize / BLOCK, row as usize % BLOCK);
            let at = block * 2 * BLOCK + Place::of(index, 2, 16).start;
            bytes[at..at + 2].copy_from_slice(&(value(row) as u16).to_le_bytes());
        }
        let packed = || {
            Box::new(Packed {
                start: 0,
                bits: 16,
                width: 2,
                offset: 0,
                len: LEN,
                slot,
                singles: SINGLES,
                patches: None,
                validity: None,
            })
        };
        check(Scalars::Packed(packed()), &bytes, 0);
        // Sums that might go around, and others.
        for (reference, native) in [
            (0, Native::Unsigned(2)),
            (9, Native::Unsigned(2)),
            (9, Native::Unsigned(4)),
        ] {
            let child = Box::new(Scalars::Packed(packed()));
            let values = Scalars::Reference {
                reference,
                native,
                child,
            };
            check(values, &bytes, reference);
        }
    }
}
