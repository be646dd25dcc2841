//! Conditions on one column, joined, and evaluated on the rows that earlier conditions left.
//!
//! ```text
//!   few rows left ─▶ decode those, evaluate row by row
//!   else          ─▶ Chunk::filter, on encoded data where possible
//! ```

use std::ops::Range;

use arrow_buffer::BooleanBuffer;

use crate::chunk::Chunk;
use crate::error::ColumnarError;
use crate::predicate::{Predicate, Verdict};
use crate::value::Value;

/// If fewer rows than one in this many are left, only those are decoded.
const SPARSE: usize = 16;

/// A condition on one column. It is true, or it is not (SQL's false and unknown alike).
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// A predicate.
    Is(Predicate),
    /// Each of these; true if there are none.
    All(Vec<Condition>),
    /// At least one of these.
    Any(Vec<Condition>),
}

impl Condition {
    /// The predicate, if it is one alone.
    pub fn predicate(&self) -> Option<&Predicate> {
        match self {
            Self::Is(predicate) => Some(predicate),
            Self::All(_) | Self::Any(_) => None,
        }
    }

    /// What is known of the condition on a set of rows of which `of` tells what is known of each
    /// predicate.
    pub fn verdict(&self, of: &impl Fn(&Predicate) -> Verdict) -> Verdict {
        let (conditions, decisive, otherwise) = match self {
            Self::Is(predicate) => return of(predicate),
            Self::All(conditions) => (conditions, Verdict::None, Verdict::All),
            Self::Any(conditions) => (conditions, Verdict::All, Verdict::None),
        };
        let mut verdict = otherwise;
        for condition in conditions {
            match condition.verdict(of) {
                found if found == decisive => return decisive,
                Verdict::Some => verdict = Verdict::Some,
                _ => {}
            }
        }
        verdict
    }

    /// Whether the condition is true of one value. This is the plain evaluation that every faster
    /// one agrees with; `None` as for [`Predicate::matches`], and where a text pattern is applied
    /// to a value of another type.
    pub fn matches(&self, value: Option<Value<'_>>) -> Option<bool> {
        match self {
            Self::Is(predicate) => predicate.matches(value),
            Self::All(conditions) => conditions
                .iter()
                .try_fold(true, |all, one| Some(all & one.matches(value)?)),
            Self::Any(conditions) => conditions
                .iter()
                .try_fold(false, |any, one| Some(any | one.matches(value)?)),
        }
    }
}

impl Chunk {
    /// Where a condition is true in a range (bit 0 is row `rows.start`): among the selected rows,
    /// or among all of them.
    ///
    /// # Errors
    ///
    /// As [`filter_selected`](Self::filter_selected).
    pub fn filter_among(
        &self,
        condition: &Condition,
        rows: Range<usize>,
        selected: Option<&BooleanBuffer>,
    ) -> Result<BooleanBuffer, ColumnarError> {
        match (selected, condition) {
            (Some(selected), condition) => self.filter_selected(condition, rows, selected),
            (None, Condition::Is(predicate)) => self.filter(predicate, rows),
            (None, condition) => {
                let all = BooleanBuffer::new_set(rows.len());
                self.filter_selected(condition, rows, &all)
            }
        }
    }

    /// Where a condition is true among the selected rows of a range (bit 0 is row `rows.start`).
    /// Rows that are not selected are not evaluated where that saves work, and are never in the
    /// result.
    ///
    /// # Errors
    ///
    /// As [`filter`](Self::filter); [`ColumnarError::OutOfRange`] also when the selection has
    /// another length than the range.
    pub fn filter_selected(
        &self,
        condition: &Condition,
        rows: Range<usize>,
        selected: &BooleanBuffer,
    ) -> Result<BooleanBuffer, ColumnarError> {
        if selected.len() != rows.len() {
            return Err(ColumnarError::OutOfRange {
                start: rows.start,
                end: rows.start.saturating_add(selected.len()),
                row_count: self.row_count(),
            });
        }
        match condition {
            Condition::All(conditions) => {
                conditions.iter().try_fold(selected.clone(), |left, one| {
                    self.filter_selected(one, rows.clone(), &left)
                })
            }
            Condition::Any(conditions) => {
                let none = BooleanBuffer::new_unset(rows.len());
                conditions.iter().try_fold(none, |found, one| {
                    // Rows that were found already need not be evaluated again.
                    let left = selected & &!&found;
                    Ok(&found | &self.filter_selected(one, rows.clone(), &left)?)
                })
            }
            leaf => self.leaf(leaf, rows, selected),
        }
    }

    fn leaf(
        &self,
        condition: &Condition,
        rows: Range<usize>,
        selected: &BooleanBuffer,
    ) -> Result<BooleanBuffer, ColumnarError> {
        let count = selected.count_set_bits();
        if count * SPARSE < rows.len() {
            return self.few(condition, rows, selected);
        }
        let found = match condition {
            Condition::Is(predicate) => self.filter(predicate, rows)?,
            Condition::All(_) | Condition::Any(_) => unreachable!("joined by the caller"),
        };
        Ok(&found & selected)
    }

    /// Decodes the selected rows alone.
    fn few(
        &self,
        condition: &Condition,
        rows: Range<usize>,
        selected: &BooleanBuffer,
    ) -> Result<BooleanBuffer, ColumnarError> {
        let wanted: Vec<u32> = selected
            .set_indices()
            .map(|at| (rows.start + at) as u32)
            .collect();
        let column = self.decode_selection(&wanted)?;
        let mut found = vec![false; rows.len()];
        for (at, &row) in wanted.iter().enumerate() {
            found[row as usize - rows.start] = condition
                .matches(column.value(at))
                .ok_or_else(|| self.undecided())?;
        }
        Ok(BooleanBuffer::from(found))
    }

    /// The error of a comparison that has no answer.
    fn undecided(&self) -> ColumnarError {
        match self.column_type() {
            crate::types::ColumnType::Numeric => ColumnarError::NotComparable,
            ty => ColumnarError::TypeMismatch { ty },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_of_joined_conditions_are_those_of_their_parts_joined() {
        use Verdict::{All, None, Some};
        let verdict_of = |predicate: &Predicate| match predicate {
            Predicate::IsNull => None,
            Predicate::IsNotNull => All,
            _ => Some,
        };
        let part = |verdict| {
            Condition::Is(match verdict {
                None => Predicate::IsNull,
                All => Predicate::IsNotNull,
                Some => Predicate::In(Vec::new()),
            })
        };
        for a in [None, Some, All] {
            for b in [None, Some, All] {
                let parts = || vec![part(a), part(b)];
                let all = match (a, b) {
                    (None, _) | (_, None) => None,
                    (All, All) => All,
                    _ => Some,
                };
                let any = match (a, b) {
                    (All, _) | (_, All) => All,
                    (None, None) => None,
                    _ => Some,
                };
                assert_eq!(Condition::All(parts()).verdict(&verdict_of), all);
                assert_eq!(Condition::Any(parts()).verdict(&verdict_of), any);
            }
        }
        assert_eq!(Condition::All(Vec::new()).verdict(&verdict_of), All);
        assert_eq!(Condition::Any(Vec::new()).verdict(&verdict_of), None);
    }
}
