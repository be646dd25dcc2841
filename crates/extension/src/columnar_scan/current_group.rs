//! The row group that a scan reads: what its statistics say of the conditions, and which of its
//! rows pass them and are not hidden.

use std::ops::Range;

use arrow_buffer::BooleanBuffer;
use howdah_bridge::store::ColdStore;
use howdah_columnar::{ColumnarError, Condition, Verdict};

use super::hidden_rows::HiddenRows;
use super::singles::{Run, Singles};
use crate::errors::ColdError;
use crate::store::open_group::OpenGroup;
use crate::store::view::{ColdGroup, ColdView};

/// A condition and the attribute it is about.
pub struct ColumnCondition {
    pub attribute: usize,
    pub condition: Condition,
}

/// The tests that a scan applies to the cold side; they change with its parameters.
#[derive(Default)]
pub struct Question {
    pub conditions: Vec<ColumnCondition>,
    /// Whether the conditions are equivalent to the pushed clauses.
    pub exact: bool,
}

/// The group being read.
pub(super) struct CurrentGroup {
    /// Its place in the view.
    pub(super) index: usize,
    pub(super) open: OpenGroup,
    /// Indexes of the conditions that the statistics did not decide; `None` skips the group.
    pub(super) left: Option<Vec<usize>>,
    /// Some condition tests a column that the group does not store.
    pub(super) undecided: bool,
    /// Rows that are hidden from the view.
    pub(super) hidden: HiddenRows,
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
        for (i, asked) in question.conditions.iter().enumerate() {
            if asked.attribute >= open.column_count() {
                undecided = true;
                continue;
            }
            let column = open.column(store, asked.attribute)?;
            match asked
                .condition
                .verdict(&|predicate| column.chunk_verdict(predicate))
            {
                Verdict::All => {}
                Verdict::None => {
                    left = None;
                    break;
                }
                Verdict::Some => left.get_or_insert_default().push(i),
            }
        }
        Ok(Some(CurrentGroup {
            index,
            singles: Singles::of(&open),
            open,
            left,
            undecided,
            hidden: HiddenRows::default(),
        }))
    }

    /// What the statistics of a zone say of the conditions that are left.
    pub(super) fn zone_verdict(&self, left: &[usize], zone: usize, question: &Question) -> Verdict {
        let mut verdict = Verdict::All;
        for &i in left {
            let asked = &question.conditions[i];
            // Those of the conditions that are left were read when the group was opened.
            let verdict_of = |predicate: &_| match self.open.known_column(asked.attribute) {
                Some(column) => column.zone_verdict(zone, predicate),
                None => Verdict::Some,
            };
            match asked.condition.verdict(&verdict_of) {
                Verdict::None => verdict = Verdict::None,
                Verdict::Some if verdict == Verdict::All => verdict = Verdict::Some,
                _ => {}
            }
        }
        verdict
    }

    /// Reads which of these rows are hidden from the view.
    pub(super) fn learn_hidden(
        &mut self,
        view: &ColdView<'_>,
        store: &ColdStore<'_>,
        rows: &Range<usize>,
    ) -> Result<(), ColdError> {
        self.hidden
            .learn(view, store, &view.groups[self.index], rows)
    }

    /// The rows for which all remaining conditions hold; `None` means all rows. Sets `recheck` if
    /// some condition cannot be decided without PostgreSQL.
    pub(super) fn filter(
        &mut self,
        store: &ColdStore<'_>,
        question: &Question,
        rows: &Range<usize>,
        recheck: &mut bool,
    ) -> Result<Option<BooleanBuffer>, ColdError> {
        let mut selected: Option<BooleanBuffer> = None;
        for &i in self.left.iter().flatten() {
            let asked = &question.conditions[i];
            let column = asked.attribute;
            let looked_at = Run::of(rows, selected.as_ref());
            let spread = looked_at.spread();
            let singles = self.singles.group(store, &self.open, column, spread)?;
            let matches = match singles {
                Some(group) => looked_at.filter(&group, store, column, &asked.condition)?,
                None => {
                    let chunk = self.open.chunk(store, column)?;
                    match chunk.filter_among(&asked.condition, rows.clone(), selected.as_ref()) {
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
