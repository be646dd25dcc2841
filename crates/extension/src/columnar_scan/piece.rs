//! A piece of a row group: its rows, selected and decoded.

use std::ops::Range;

use howdah_bridge::scan::Attributes;
use howdah_bridge::store::ColdStore;

use super::current_group::{CurrentGroup, Question};
use super::decoded::{Decoded, Selection};
use crate::errors::ColdError;
use crate::store::view::ColdView;

/// A run of zones that are treated alike.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) rows: Range<usize>,
    pub(super) filter: bool,
}

/// The values of pieces of so many rows may be read one by one, however many are selected.
pub(super) const SMALL_PIECE: usize = 256;

impl Piece {
    /// Selects and decodes the rows, of this group of the view.
    pub(super) fn read(
        &self,
        view: &ColdView<'_>,
        group: &mut CurrentGroup,
        store: &ColdStore<'_>,
        question: &Question,
        wanted: &Attributes,
    ) -> Result<ReadPiece, ColdError> {
        group.learn_hidden(view, store, &self.rows)?;
        if group.hidden.shown_count(&self.rows) == 0 {
            return Ok(ReadPiece::default());
        }
        let mut recheck = group.undecided;
        let selected = match self.filter {
            false => None,
            true => group.filter(store, question, &self.rows, &mut recheck)?,
        };
        let removed_count = match &selected {
            Some(bits) => self.rows.len() - bits.count_set_bits(),
            None => 0,
        };
        let selected = group.hidden.shown(selected, &self.rows);
        let decoded = match Selection::of(self.rows.clone(), selected) {
            Some(selection) => {
                let selection = match self.rows.len() <= SMALL_PIECE {
                    true => selection.listed(),
                    false => selection,
                };
                let wanted = wanted.of(recheck);
                Some(Decoded::read(group, store, wanted, selection, recheck)?)
            }
            None => None,
        };
        Ok(ReadPiece {
            decoded,
            removed_count,
        })
    }
}

/// What [`Piece::read`] has read.
#[derive(Default)]
pub(super) struct ReadPiece {
    /// The rows, if any is left.
    pub(super) decoded: Option<Decoded>,
    /// Rows that were filtered out.
    pub(super) removed_count: usize,
}
