//! The read of one value: its source, and the state that its nodes keep.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::state::Slot;
use crate::error::ColumnarError;
use crate::source::{ByteSource, append};

/// Some of the searches of a column that begin among the first values of blocks (fences).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Searches(u64);

/// What reads have kept in the readers of a column.
#[derive(Debug, Default)]
pub(super) struct Held {
    bytes: AtomicUsize,
    /// The [`Searches`] whose fences are not known yet.
    unfenced: AtomicU64,
}

/// One read of a value.
pub(super) struct Reading<'r, S: ?Sized> {
    pub(super) source: &'r S,
    pub(super) slots: &'r mut [Slot],
    /// A buffer for bytes that are not kept.
    pub(super) scratch: &'r mut Vec<u8>,
    pub(super) held: &'r Held,
    /// What [`Held::unfenced`] was before the first round of [`needs`](super::RowAccess::needs).
    pub(super) unfenced: Searches,
}

impl Searches {
    /// Adds one more. Of more than 64, which no writer has, the last ones pass for one.
    pub(super) fn add(&mut self) -> Searches {
        let one = Searches(1 << self.0.count_ones().min(u64::BITS - 1));
        self.0 |= one.0;
        one
    }

    pub(super) fn meets(self, other: Searches) -> bool {
        self.0 & other.0 != 0
    }
}

impl Held {
    /// For a column of these searches.
    pub(super) fn of(searches: Searches) -> Self {
        Self {
            unfenced: AtomicU64::new(searches.0),
            ..Self::default()
        }
    }

    /// Bytes of memory, see [`super::RowAccess::memory_bytes`].
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The searches whose fences are not known yet.
    pub(super) fn unfenced(&self) -> Searches {
        Searches(self.unfenced.load(Ordering::Relaxed))
    }

    /// Notes that the fences of a search are known.
    pub(super) fn fence(&self, search: Searches) {
        self.unfenced.fetch_and(!search.0, Ordering::Relaxed);
    }
}

impl<S: ByteSource + ?Sized> Reading<'_, S> {
    /// Reads a range into scratch.
    pub(super) fn fetch(&mut self, start: u64, len: usize) -> Result<(), S::Error> {
        self.scratch.clear();
        append(self.source, start, len, self.scratch)
    }

    /// Looks at a range: where it lies if the source shows it, otherwise in scratch.
    pub(super) fn look<R>(
        &mut self,
        range: &Range<u64>,
        mut look: impl FnMut(&[u8]) -> R,
    ) -> Result<R, S::Error> {
        let (len, mut seen) = ((range.end - range.start) as usize, None);
        self.source
            .show(range.start, len, &mut |bytes| seen = Some(look(bytes)));
        if let Some(seen) = seen {
            return Ok(seen);
        }
        self.fetch(range.start, len)?;
        Ok(look(self.scratch))
    }

    /// Reads something for [`needs`](super::RowAccess::needs), which has noted the counts of the
    /// slots: the read of the row counts as if this one had not been.
    pub(super) fn uncounted<R>(&mut self, read: impl FnOnce(&mut Self) -> R) -> R {
        let result = read(self);
        self.slots.iter_mut().for_each(Slot::restore_counts);
        result
    }

    /// Appends a range to `out`.
    pub(super) fn append(&self, range: Range<u64>, out: &mut Vec<u8>) -> Result<(), S::Error> {
        let len = (range.end - range.start) as usize;
        append(self.source, range.start, len, out)
    }

    /// Counts memory that a plan keeps from now on.
    pub(super) fn hold(&self, bytes: usize) {
        self.held.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// A row, a position or a length that is not within its node.
#[cold]
pub(super) fn outside(what: &str) -> ColumnarError {
    ColumnarError::corrupt(format!("{what} lies outside of its node"))
}
