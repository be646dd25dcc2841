//! The hidden rows of the group that a scan reads, as far as the scan gets.
//!
//! A scan that reads a zone or two of a group, or ends after its first rows, reads the marks of
//! these rows. One that reads more reads all marks of the group at once, as does one that finds
//! thousands of rows and all of them hidden: where the whole group is hidden, that is remembered
//! ([`crate::store::visibility::hidden_group`]).

use std::ops::Range;

use arrow_buffer::BooleanBuffer;
use howdah_bridge::store::ColdStore;

use crate::errors::ColdError;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, ColdView};

/// A piece of at most this part of its group has its marks read for itself.
const SMALL_PART: usize = 4;
/// So many rows that are all hidden may be those of a group that is hidden as a whole.
const MANY_HIDDEN: usize = 4_096;

/// What is known of the hidden rows of a group.
#[derive(Default)]
pub(super) enum HiddenRows {
    #[default]
    Unknown,
    /// Of these rows: the hidden ones, counted from the first.
    Of(Range<usize>, RowSet),
    All(Option<RowSet>),
}

impl HiddenRows {
    /// Reads what is needed to answer for these rows.
    pub(super) fn learn(
        &mut self,
        view: &ColdView<'_>,
        store: &ColdStore<'_>,
        group: &ColdGroup,
        rows: &Range<usize>,
    ) -> Result<(), ColdError> {
        match self {
            HiddenRows::All(_) => return Ok(()),
            HiddenRows::Of(known, _) if known == rows => return Ok(()),
            _ => {}
        }
        if rows.len() * SMALL_PART <= group.row_count() as usize {
            let positions = rows.start as u32..rows.end as u32;
            if let Some(hidden) = view.hidden_among(store, group, positions)
                && ((hidden.len() as usize) < rows.len() || rows.len() < MANY_HIDDEN)
            {
                *self = HiddenRows::Of(rows.clone(), hidden);
                return Ok(());
            }
        }
        *self = HiddenRows::All(view.hidden(store, group)?);
        Ok(())
    }

    /// The rows of the range among which there are hidden ones, and the place of its first row
    /// there; `None` if no row is hidden. They were [learnt](Self::learn).
    fn of(&self, rows: &Range<usize>) -> Option<(&RowSet, usize)> {
        let (hidden, first) = match self {
            HiddenRows::Unknown => (None, 0),
            HiddenRows::Of(known, hidden) => {
                debug_assert_eq!(known, rows);
                (Some(hidden), 0)
            }
            HiddenRows::All(hidden) => (hidden.as_ref(), rows.start),
        };
        Some((hidden.filter(|hidden| !hidden.is_empty())?, first))
    }

    /// How many rows of a range are not hidden.
    pub(super) fn shown_count(&self, rows: &Range<usize>) -> usize {
        match self.of(rows) {
            None => rows.len(),
            Some((hidden, first)) => without(hidden, first, None, rows.len()).count_set_bits(),
        }
    }

    /// The selected rows of a range that are not hidden; `None` means all rows.
    pub(super) fn shown(
        &self,
        selected: Option<BooleanBuffer>,
        rows: &Range<usize>,
    ) -> Option<BooleanBuffer> {
        match self.of(rows) {
            None => selected,
            Some((hidden, first)) => Some(without(hidden, first, selected, rows.len())),
        }
    }
}

/// The selected ones of `len` rows, of which the first is at position `first`, that are not hidden.
fn without(
    hidden: &RowSet,
    first: usize,
    selected: Option<BooleanBuffer>,
    len: usize,
) -> BooleanBuffer {
    let words = hidden.words();
    let seen = BooleanBuffer::collect_bool(len, |i| {
        let row = first + i;
        (words.get(row / 64)).is_none_or(|word| word >> (row % 64) & 1 == 0)
    });
    match selected {
        None => seen,
        Some(selected) => &selected & &seen,
    }
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
        for rows in [64..150, 65..150, 70..71, 3..129] {
            rows_are_left(&hidden, rows);
        }
    }

    /// Whether the hidden rows are known of all rows, or of these only.
    fn rows_are_left(hidden: &RowSet, rows: Range<usize>) {
        let is_hidden = |row: usize| hidden.contains(row as u32);
        let mut of_rows = RowSet::with_bound(rows.len() as u32);
        for row in rows.clone().filter(|&row| is_hidden(row)) {
            of_rows.insert((row - rows.start) as u32);
        }
        let seen: Vec<usize> = (0..rows.len())
            .filter(|i| !is_hidden(rows.start + i))
            .collect();
        let even = BooleanBuffer::collect_bool(rows.len(), |i| i % 2 == 0);
        let expected: Vec<usize> = seen.iter().copied().filter(|i| i % 2 == 0).collect();
        for known in [
            HiddenRows::All(Some(hidden.clone())),
            HiddenRows::Of(rows.clone(), of_rows),
        ] {
            let left = |selected| match known.shown(selected, &rows) {
                None => (0..rows.len()).collect(),
                Some(bits) => bits.set_indices().collect::<Vec<_>>(),
            };
            assert_eq!(left(None), seen);
            assert_eq!(known.shown_count(&rows), seen.len());
            assert_eq!(left(Some(even.clone())), expected);
        }
    }

    #[test]
    fn rows_behind_the_last_hidden_one_are_seen() {
        let mut hidden = RowSet::with_bound(1);
        hidden.insert(0);
        let known = HiddenRows::All(Some(hidden));
        assert_eq!(known.shown_count(&(8_192..8_292)), 100);
    }
}
