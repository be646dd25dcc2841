//! The state that row access keeps from one row to the next: the block that was decoded last, by
//! node.

use std::ops::Range;

use arrow_array::BinaryViewArray;
use arrow_buffer::BooleanBuffer;

use super::packed::{self, BLOCK, Word};

/// The number of times that values of one block are read one by one, before the block is decoded.
pub(super) const SINGLES: u8 = 4;

/// A block of values, each as wide as its type.
#[derive(Debug)]
pub(super) enum Values {
    One(Vec<u8>),
    Two(Vec<u16>),
    Four(Vec<u32>),
    Eight(Vec<u64>),
}

impl Default for Values {
    fn default() -> Self {
        Self::One(Vec::new())
    }
}

macro_rules! each_width {
    ($self:expr, $values:ident => $body:expr) => {
        match $self {
            Values::One($values) => $body,
            Values::Two($values) => $body,
            Values::Four($values) => $body,
            Values::Eight($values) => $body,
        }
    };
}

fn widened(value: impl Word) -> u64 {
    value.into()
}

impl Values {
    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<u64> {
        each_width!(self, values => values.get(at).copied().map(widened))
    }

    /// Appends a range of them; nothing if they are fewer.
    pub(super) fn append(&self, range: Range<usize>, out: &mut Vec<u64>) {
        each_width!(self, values => if let Some(values) = values.get(range) {
            out.extend(values.iter().copied().map(widened));
        });
    }

    /// How many of a range of ascending values are less than `bound`; `None`: there are fewer.
    pub(super) fn count_less(&self, range: Range<usize>, bound: u64) -> Option<usize> {
        each_width!(self, values => {
            let values = values.get(range)?;
            Some(values.partition_point(|&value| widened(value) < bound))
        })
    }

    pub(super) fn set(&mut self, at: usize, value: u64) {
        each_width!(self, values => if let Some(place) = values.get_mut(at) {
            *place = value as _;
        });
    }

    fn heap_bytes(&self) -> usize {
        each_width!(self, values => values.capacity() * size_of_val(&values[..]) / values.len().max(1))
    }

    /// Makes this a buffer of values of `width` bytes.
    fn of_width(&mut self, width: u8) {
        let fits = matches!(
            (&self, width),
            (Self::One(_), 1) | (Self::Two(_), 2) | (Self::Four(_), 4) | (Self::Eight(_), 8)
        );
        if !fits {
            *self = match width {
                1 => Self::One(Vec::new()),
                2 => Self::Two(Vec::new()),
                4 => Self::Four(Vec::new()),
                _ => Self::Eight(Vec::new()),
            };
        }
    }

    /// Takes values as they are stored.
    pub(super) fn fill_plain(&mut self, bytes: &[u8], width: u8) {
        fn fill<W: Word>(values: &mut Vec<W>, bytes: &[u8]) {
            values.clear();
            values.extend(W::lanes(bytes));
        }
        self.of_width(width);
        each_width!(self, values => fill(values, bytes));
    }

    /// Takes the values of a packed block.
    pub(super) fn fill_packed(&mut self, packed: &[u8], width: u8, bits: usize) {
        fn fill<W: Word>(values: &mut Vec<W>, packed: &[u8], bits: usize) {
            values.resize(BLOCK, W::default());
            packed::unpack(packed, bits, values);
        }
        self.of_width(width);
        each_width!(self, values => fill(values, packed, bits));
    }

    pub(super) fn fill_wide(&mut self, wide: Vec<u64>) {
        *self = Self::Eight(wide);
    }
}

/// The contents of a slot.
#[derive(Debug, Default)]
pub(super) enum Kept {
    #[default]
    Nothing,
    /// A block of `values`.
    Block(u32),
    /// All values of the node, and which are valid.
    Whole(Option<BooleanBuffer>),
    /// All strings of the node.
    Strings(BinaryViewArray),
    /// The rows of one frame: their bytes, and where each ends in them.
    Frame {
        first_row: u32,
        bytes: Vec<u8>,
        ends: Vec<u32>,
    },
}

/// The state of one node.
#[derive(Debug, Default)]
pub(super) struct Slot {
    pub(super) kept: Kept,
    pub(super) values: Values,
    /// The block that was read from last, and how often in a row.
    near: u32,
    count: u8,
    /// Both of them as they were noted.
    noted: (u32, u8),
}

/// How a value is to be read.
pub(super) enum Approach {
    Kept,
    Single,
    Load,
}

impl Slot {
    /// How to read a value of a block, which is loaded after so many single ones; `is_small`:
    /// loading it costs no more than one value.
    #[inline]
    pub(super) fn approach(&mut self, block: u32, is_small: bool, singles: u8) -> Approach {
        if let Kept::Block(kept) = self.kept
            && kept == block
        {
            return Approach::Kept;
        }
        if self.count == 0 || self.near != block {
            (self.near, self.count) = (block, 0);
        }
        self.count = self.count.saturating_add(1);
        match is_small || self.count > singles {
            true => Approach::Load,
            false => Approach::Single,
        }
    }

    /// Whether a block is kept.
    pub(super) fn holds(&self, block: u32) -> bool {
        matches!(self.kept, Kept::Block(kept) if kept == block)
    }

    /// Whether reading so many values of a block, which is not small, may load it.
    pub(super) fn may_load(&self, block: u32, row_count: usize) -> bool {
        let before = match self.near == block {
            true => self.count.into(),
            false => 0,
        };
        row_count + before > SINGLES.into()
    }

    /// Notes how often values were read, for [`restore_counts`](Self::restore_counts).
    pub(super) fn note_counts(&mut self) {
        self.noted = (self.near, self.count);
    }

    /// Forgets the reads since [`note_counts`](Self::note_counts), but not the blocks they loaded.
    pub(super) fn restore_counts(&mut self) {
        (self.near, self.count) = self.noted;
    }

    /// Searches among a part of a block, if that is kept: how many of its values, which ascend, are
    /// less than `bound`.
    pub(super) fn search(&self, block: u32, range: Range<usize>, bound: u64) -> Option<usize> {
        match self.kept {
            Kept::Block(kept) if kept == block => self.values.count_less(range, bound),
            _ => None,
        }
    }

    /// Whether values of a block, which is not small, are to be read one by one, and not all of
    /// them for the next time.
    #[inline]
    pub(super) fn is_single(&mut self, block: u32, singles: u8) -> bool {
        let is_kept = matches!(self.kept, Kept::Block(kept) if kept == block);
        let is_often = self.near == block && self.count >= singles;
        !is_kept && !is_often && matches!(self.approach(block, false, singles), Approach::Single)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let kept = match &self.kept {
            Kept::Strings(strings) => arrow_array::Array::get_array_memory_size(strings),
            Kept::Whole(Some(valid)) => valid.len() / 8,
            Kept::Frame { bytes, ends, .. } => bytes.capacity() + ends.capacity() * 4,
            _ => 0,
        };
        kept + self.values.heap_bytes()
    }
}
