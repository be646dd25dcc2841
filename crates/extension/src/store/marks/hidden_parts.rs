//! Which rows of a group are hidden, read part by part where it is asked for.
//!
//! For a transaction that has locked the whole group: no other one hides a row of it, so what was
//! read stays true but for what this transaction hides itself, which it [notes](HiddenParts::note).
//! The marks are read by [`learn_hidden`](super::marked_rows::learn_hidden).
//! A command that changes a few hundred neighbours reads the marks of a part or two, not those of
//! the group, which may be tens of thousands.

use std::ops::Range;

use crate::store::directory::GroupEntry;
use crate::store::row_set::RowSet;

/// Rows of a part: so few that reading their marks takes microseconds, so many that a group has
/// little more than a hundred parts.
const PART_ROWS: u32 = 1_024;

/// What is known of the hidden rows of a group.
pub struct HiddenParts {
    hidden: RowSet,
    /// The parts that were read.
    known: RowSet,
}

impl HiddenParts {
    /// Nothing is known yet.
    pub fn of(entry: &GroupEntry) -> HiddenParts {
        HiddenParts {
            hidden: RowSet::with_bound(entry.capacity_rows),
            known: RowSet::with_bound(entry.capacity_rows.div_ceil(PART_ROWS)),
        }
    }

    /// Whether the row is hidden, where that is known.
    pub fn is_hidden(&self, position: u32) -> Option<bool> {
        let known = self.known.contains(position / PART_ROWS);
        known.then(|| self.hidden.contains(position))
    }

    /// The positions of the rows whose hidden ones must be [taken in](Self::take_in) to know of
    /// this one; `None` if they are known.
    pub(super) fn unknown(&self, entry: &GroupEntry, position: u32) -> Option<Range<u32>> {
        let start = position / PART_ROWS * PART_ROWS;
        let is_known = self.known.contains(position / PART_ROWS);
        (!is_known).then(|| start..(start + PART_ROWS).min(entry.capacity_rows))
    }

    /// Takes in the hidden rows of a part, which begins at this position.
    pub(super) fn take_in(&mut self, start: u32, hidden: impl Iterator<Item = u32>) {
        hidden.for_each(|position| self.note(position));
        self.known.insert(start / PART_ROWS);
    }

    /// Notes that this transaction has hidden the row.
    pub fn note(&mut self, position: u32) {
        self.hidden.insert(position);
    }
}

#[cfg(test)]
mod tests {
    use howdah_bridge::tid::GroupId;

    use super::*;
    use crate::store::marks::row_state::any_group;

    #[test]
    fn parts_are_known_one_by_one() {
        let entry = GroupEntry {
            capacity_rows: 2_560,
            ..any_group(GroupId::of_block(0))
        };
        let mut parts = HiddenParts::of(&entry);
        assert_eq!(parts.is_hidden(1_024), None);
        parts.note(5);
        assert_eq!(
            parts.is_hidden(5),
            None,
            "of the others of its part nothing is known"
        );
        assert_eq!(parts.unknown(&entry, 1_500), Some(1_024..2_048));
        parts.take_in(1_024, [1_024, 2_047].into_iter());
        assert_eq!(parts.unknown(&entry, 2_047), None);
        let known = [1_023, 1_024, 1_025, 2_047, 2_048].map(|row| parts.is_hidden(row));
        assert_eq!(known, [None, Some(true), Some(false), Some(true), None]);
        parts.note(1_025);
        assert_eq!(parts.is_hidden(1_025), Some(true));
        assert_eq!(
            parts.unknown(&entry, 2_559),
            Some(2_048..2_560),
            "the last part is shorter"
        );
        parts.take_in(0, std::iter::empty());
        assert_eq!(
            (parts.is_hidden(5), parts.is_hidden(6)),
            (Some(true), Some(false))
        );
    }
}
