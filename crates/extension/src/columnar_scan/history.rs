//! The batches that a scan has handed out, so that it can be moved backwards.
//!
//! Noted is the place of each batch: some 50 bytes for up to 8,192 rows. A batch behind the scan's
//! position is read again from its place, beside what the scan has in hand: then the scan goes on
//! as if it had not been moved.
//!
//! The snapshot and the groups of the view are the same, and so are the rows of a place that pass
//! the clauses. Which rows are selected beside them, to be rechecked, depends on what was read
//! before: the filter may leave a place with more rows than it had, or with none. So a place is a
//! range of the group, whose rows are one batch, and one that turns out empty is dropped.

use std::ops::Range;

use howdah_bridge::scan::Attributes;
use howdah_bridge::table::Table;

use super::current_group::{CurrentGroup, Question};
use super::decoded::Decoded;
use super::piece::Piece;
use crate::errors::ColdError;
use crate::store::view::{ColdView, store_of};

/// Where a batch comes from: a group of the view, and what of it.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// The selected rows of a range.
    Stored(usize, Piece),
    /// These rows of a running load.
    Pending(usize, Range<u32>),
}

/// The batches of a scan.
#[derive(Default)]
pub(super) struct History {
    places: Vec<Place>,
    /// How many of them were passed; the last of these is the current one.
    passed: usize,
    /// The group that was read last for one of them.
    group: Option<CurrentGroup>,
}

impl History {
    /// Notes a batch that is handed out for the first time.
    pub(super) fn push(&mut self, place: Place) {
        self.places.push(place);
        self.passed = self.places.len();
    }

    /// Makes the next batch the current one; `false` if it was not handed out before.
    pub(super) fn step(&mut self) -> bool {
        let has_next = self.passed < self.places.len();
        self.passed += usize::from(has_next);
        has_next
    }

    /// Makes the batch before the current one the current one; `false` if there is none.
    pub(super) fn step_back(&mut self) -> bool {
        self.passed = self.passed.saturating_sub(1);
        self.passed > 0
    }

    /// Drops the current place, which has no rows and was reached forwards.
    pub(super) fn drop_passed(&mut self) {
        self.passed -= 1;
        self.places.remove(self.passed);
    }

    /// Drops the current place, which has no rows and was reached backwards.
    pub(super) fn drop_to_come(&mut self) {
        self.places.remove(self.passed - 1);
    }

    /// The place of the current batch.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    pub(super) fn current(&self) -> Place {
        self.places[self.passed - 1].clone()
    }

    /// The selected rows of a piece, if there are any.
    pub(super) fn read(
        &mut self,
        view: &ColdView<'_>,
        table: Table<'_>,
        question: &Question,
        wanted: &Attributes,
        index: usize,
        piece: &Piece,
    ) -> Result<Option<Decoded>, ColdError> {
        let store = store_of(table)?;
        if (self.group.as_ref()).is_none_or(|group| group.index != index) {
            self.group = None;
            self.group = CurrentGroup::open(view, &store, question, index)?;
        }
        let Some(group) = &mut self.group else {
            return Ok(None);
        };
        Ok(piece.read(view, group, &store, question, wanted)?.decoded)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_passed_in_both_directions() {
        let mut history = History::default();
        let current = |history: &History| match history.current() {
            Place::Pending(index, _) => index,
            Place::Stored(..) => unreachable!(),
        };
        assert!(!history.step() && !history.step_back());
        for index in 0..3 {
            history.push(Place::Pending(index, 0..1));
        }
        assert!(!history.step());
        assert!(history.step_back());
        assert_eq!(current(&history), 1);
        assert!(history.step_back());
        assert!(!history.step_back() && !history.step_back());
        for index in 0..3 {
            assert!(history.step());
            assert_eq!(current(&history), index);
        }
        assert!(!history.step());
    }

    #[test]
    fn places_without_rows_are_passed_over() {
        let places = |history: &History| -> Vec<usize> {
            let index = |place: &Place| match place {
                Place::Pending(index, _) => *index,
                Place::Stored(..) => unreachable!(),
            };
            history.places.iter().map(index).collect()
        };
        let mut history = History::default();
        (0..4).for_each(|index| history.push(Place::Pending(index, 0..1)));
        // Backwards: 2 is empty, then 1 is the current one.
        assert!(history.step_back());
        history.drop_to_come();
        assert!(history.step_back());
        assert!(matches!(history.current(), Place::Pending(1, _)));
        assert_eq!(places(&history), [0, 1, 3]);
        // Forwards: 3 is empty; then the rows of 1 are still the current ones.
        assert!(history.step());
        history.drop_passed();
        assert!(!history.step());
        assert!(matches!(history.current(), Place::Pending(1, _)));
        assert!(history.step_back());
        assert!(matches!(history.current(), Place::Pending(0, _)));
        // Backwards: the first one is empty.
        history.drop_to_come();
        assert!(!history.step_back());
        assert!(history.step());
        assert!(matches!(history.current(), Place::Pending(1, _)));
    }
}
