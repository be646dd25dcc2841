//! The batches that a scan has handed out, so that it can be moved backwards.
//!
//! Noted is the place of each batch: some 50 bytes for up to 8,192 rows. A batch behind the scan's
//! position is read again from its place, beside what the scan has in hand: then the scan goes on
//! as if it had not been moved. The snapshot and the groups of the view are the same, and so are
//! the rows; they are not counted twice.

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
    /// The selected rows of a piece, from this one of them on.
    Stored(usize, Piece, usize),
    /// These rows of a running load.
    Pending(usize, Range<u32>),
}

/// The batches of a scan.
#[derive(Default)]
pub(super) struct History {
    places: Vec<Place>,
    /// How many of them were passed; the last of these is the current one.
    passed: usize,
    /// What was read again.
    group: Option<CurrentGroup>,
    decoded: Option<(Piece, Decoded)>,
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

    /// The place of the current batch.
    ///
    /// # Panics
    ///
    /// Panics if there is none.
    pub(super) fn current(&self) -> Place {
        self.places[self.passed - 1].clone()
    }

    /// The rows of a piece that were read once before.
    pub(super) fn decoded(
        &mut self,
        view: &ColdView<'_>,
        table: Table<'_>,
        question: &Question,
        wanted: &Attributes,
        index: usize,
        piece: Piece,
    ) -> Result<&mut Decoded, ColdError> {
        const SAME: &str = "a scan sees the same rows at any time";
        let store = store_of(table)?;
        if (self.group.as_ref()).is_none_or(|group| group.index != index) {
            (self.group, self.decoded) = (None, None);
            self.group = CurrentGroup::open(view, &store, question, index)?;
        }
        if (self.decoded.as_ref()).is_none_or(|(read, _)| *read != piece) {
            self.decoded = None;
            let group = self.group.as_mut().expect(SAME);
            let read = piece.read(group, &store, question, wanted)?;
            self.decoded = Some((piece, read.decoded.expect(SAME)));
        }
        Ok(&mut self.decoded.as_mut().expect(SAME).1)
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
}
