//! The row group that a scan reads: what its statistics say of the predicates, and which of its
//! rows pass them and are not hidden.

use std::ops::Range;

use arrow_buffer::BooleanBuffer;
use howdah_bridge::store::ColdStore;
use howdah_columnar::{ColumnarError, Predicate, Verdict};

use super::singles::{Run, Singles};
use crate::errors::ColdError;
use crate::store::open_group::OpenGroup;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, ColdView};

/// A predicate and the attribute it is about.
pub struct ColumnPredicate {
    pub attribute: usize,
    pub predicate: Predicate,
}

/// The tests that a scan applies to the cold side; they change with its parameters.
#[derive(Default)]
pub struct Question {
    pub predicates: Vec<ColumnPredicate>,
    /// Whether the predicates are equivalent to the pushed clauses.
    pub exact: bool,
}

/// The group being read.
pub(super) struct CurrentGroup {
    /// Its place in the view.
    pub(super) index: usize,
    pub(super) open: OpenGroup,
    /// Indexes of the predicates that the statistics did not decide; `None` skips the group.
    pub(super) left: Option<Vec<usize>>,
    /// Some predicate tests a column that the group does not store.
    pub(super) undecided: bool,
    /// Rows that are hidden from the snapshot.
    hidden: Option<RowSet>,
    pub(super) singles: Singles,
}

impl CurrentGroup {
    /// Opens a stored group of the view and tests its statistics; `None` if every row of it is
    /// hidden.
    pub(super) fn open(
        view: &ColdView<'_>,
        store: &ColdStore<'_>,
        question: &Question,
        index: usize,
    ) -> Result<Option<CurrentGroup>, ColdError> {
        let ColdGroup::Stored(entry) = &view.groups[index] else {
            unreachable!("only stored groups are listed");
        };
        if view.is_all_hidden(store, &view.groups[index]) {
            return Ok(None);
        }
        let open = OpenGroup::open(store, *entry)?;
        let mut undecided = !question.exact;
        let mut left = Some(Vec::new());
        for (i, asked) in question.predicates.iter().enumerate() {
            if asked.attribute >= open.column_count() {
                undecided = true;
                continue;
            }
            let column = open.column(asked.attribute)?;
            match column.chunk_verdict(&asked.predicate) {
                Verdict::All => {}
                Verdict::None => {
                    left = None;
                    break;
                }
                Verdict::Some => left.get_or_insert_default().push(i),
            }
        }
        let hidden = match &left {
            Some(_) => view.hidden(store, &view.groups[index])?,
            None => None,
        };
        if hidden.as_ref().is_some_and(|h| h.len() >= entry.row_count) {
            left = None;
        }
        Ok(Some(CurrentGroup {
            index,
            singles: Singles::of(&open),
            open,
            left,
            undecided,
            hidden,
        }))
    }

    /// What the statistics of a zone say of the predicates that are left.
    pub(super) fn zone_verdict(
        &self,
        left: &[usize],
        zone: usize,
        question: &Question,
    ) -> Result<Verdict, ColdError> {
        let mut verdict = Verdict::All;
        for &i in left {
            let asked = &question.predicates[i];
            let column = self.open.column(asked.attribute)?;
            match column.zone_verdict(zone, &asked.predicate) {
                Verdict::None => verdict = Verdict::None,
                Verdict::Some if verdict == Verdict::All => verdict = Verdict::Some,
                _ => {}
            }
        }
        Ok(verdict)
    }

    /// How many rows of a range are not hidden.
    pub(super) fn shown_count(&self, rows: &Range<usize>) -> usize {
        match &self.hidden {
            None => rows.len(),
            Some(hidden) => without(hidden, None, rows).count_set_bits(),
        }
    }

    /// The selected rows of a range that are not hidden; `None` means all rows.
    pub(super) fn shown(
        &self,
        selected: Option<BooleanBuffer>,
        rows: &Range<usize>,
    ) -> Option<BooleanBuffer> {
        match &self.hidden {
            None => selected,
            Some(hidden) => Some(without(hidden, selected, rows)),
        }
    }

    /// The rows for which all remaining predicates hold; `None` means all rows. Sets `recheck` if
    /// some predicate cannot be decided without PostgreSQL.
    pub(super) fn filter(
        &mut self,
        store: &ColdStore<'_>,
        question: &Question,
        rows: &Range<usize>,
        recheck: &mut bool,
    ) -> Result<Option<BooleanBuffer>, ColdError> {
        let mut selected: Option<BooleanBuffer> = None;
        for &i in self.left.iter().flatten() {
            let asked = &question.predicates[i];
            let column = asked.attribute;
            let looked_at = Run::of(rows, selected.as_ref());
            let spread = looked_at.spread();
            let singles = self.singles.group(store, &self.open, column, spread)?;
            let matches = match singles {
                Some(group) => looked_at.filter(&group, store, column, &asked.predicate)?,
                None => {
                    let chunk = self.open.chunk(store, column)?;
                    match chunk.filter(&asked.predicate, rows.clone()) {
                        Ok(matches) => Some(matches),
                        Err(ColumnarError::NotComparable | ColumnarError::TypeMismatch { .. }) => {
                            None
                        }
                        Err(error) => return Err(error.into()),
                    }
                }
            };
            let Some(matches) = matches else {
                *recheck = true;
                continue;
            };
            let both = match &selected {
                None => matches,
                Some(selected) => selected & &matches,
            };
            let empty = both.count_set_bits() == 0;
            selected = Some(both);
            if empty {
                break;
            }
        }
        Ok(selected)
    }
}

/// The selected rows of a range that are not hidden.
fn without(hidden: &RowSet, selected: Option<BooleanBuffer>, rows: &Range<usize>) -> BooleanBuffer {
    let (words, first) = (hidden.words(), rows.start);
    let seen = BooleanBuffer::collect_bool(rows.len(), |i| {
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

    fn rows_are_left(hidden: &RowSet, rows: Range<usize>) {
        let left = |selected| {
            let bits = without(hidden, selected, &rows);
            assert_eq!(bits.len(), rows.len());
            (0..bits.len())
                .filter(|&i| bits.value(i))
                .collect::<Vec<_>>()
        };
        let seen: Vec<usize> = (0..rows.len())
            .filter(|i| !hidden.contains((rows.start + i) as u32))
            .collect();
        assert_eq!(left(None), seen);
        let even = BooleanBuffer::collect_bool(rows.len(), |i| i % 2 == 0);
        let expected: Vec<usize> = seen.into_iter().filter(|i| i % 2 == 0).collect();
        assert_eq!(left(Some(even)), expected);
    }

    #[test]
    fn rows_behind_the_last_hidden_one_are_seen() {
        let hidden = RowSet::with_bound(1);
        let bits = without(&hidden, None, &(8_192..8_292));
        assert_eq!(bits.count_set_bits(), 100);
    }
}
