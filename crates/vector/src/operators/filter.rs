//! The conjuncts of a query: predicates on one column are tested on statistics and evaluated on
//! encoded data, the others on decoded columns.
//!
//! A conjunct that can raise an error is evaluated last, in the query's order, and for no other
//! rows than the query requires.

use arrow_buffer::BooleanBuffer;
use howdah_columnar::{
    ColumnStatistics, ColumnType, ColumnarError, Condition, Predicate, Verdict, ZONE_ROWS,
};

use super::rising;
use super::scan::{AllRows, OpenColumn, OpenMorsel, Zone};
use super::words::{Verdicts, single_column};
use crate::error::{Declined, VectorError};
use crate::expr::{self, Input, condition_of};
use crate::plan::Expr;

/// Conjuncts, in the order of evaluation.
pub(crate) struct Filter {
    conjuncts: Vec<Conjunct>,
}

struct Conjunct {
    compiled: expr::Compiled,
    /// The same as a condition on a column.
    condition: Option<(usize, Condition)>,
    /// Its column holds numbers that are decoded in any case, for rows that pass.
    is_decoded: bool,
    /// Later comparisons of the same column: packed numbers are compared with all at once.
    joined: Vec<usize>,
}

impl Conjunct {
    /// The column and its predicate, if it is one alone.
    fn predicate(&self) -> Option<(usize, &Predicate)> {
        let (column, condition) = self.condition.as_ref()?;
        Some((*column, condition.predicate()?))
    }

    /// The column, if it is compared with a value.
    fn compared_column(&self) -> Option<usize> {
        match self.predicate()? {
            (column, Predicate::Compare { .. }) => Some(column),
            _ => None,
        }
    }

    /// The column, if it is compared with values in any other way, too.
    fn tested_column(&self) -> Option<usize> {
        match self.condition.as_ref()? {
            (_, Condition::Is(_)) => self.compared_column(),
            (column, Condition::All(_) | Condition::Any(_)) => Some(*column),
        }
    }
}

/// The result of statistics for some rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// None passes.
    Skip,
    /// Some may pass.
    Look,
    /// All pass.
    All,
}

impl Filter {
    pub(crate) fn compile(conjuncts: &[Expr], types: &[ColumnType]) -> Result<Self, Declined> {
        let mut compiled = conjuncts
            .iter()
            .map(|conjunct| {
                let compiled = expr::Compiled::compile(conjunct, types)?;
                if compiled.column_type() != ColumnType::Bool {
                    return Err(Declined::Types {
                        name: "a conjunct".to_owned(),
                    });
                }
                Ok(Conjunct {
                    compiled,
                    condition: condition_of(conjunct),
                    is_decoded: false,
                    joined: Vec::new(),
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        compiled.sort_by_key(|conjunct| {
            let fails = conjunct.condition.is_none() && conjunct.compiled.can_fail();
            (fails, conjunct.condition.is_none())
        });
        for at in 0..compiled.len() {
            let Some(column) = compiled[at].compared_column() else {
                continue;
            };
            let is_same = |other: &usize| compiled[*other].compared_column() == Some(column);
            if !(0..at).any(|before| is_same(&before)) {
                compiled[at].joined = (at + 1..compiled.len()).filter(is_same).collect();
            }
        }
        Ok(Self {
            conjuncts: compiled,
        })
    }

    /// Sets which columns are read of the rows that pass. A predicate on one of them is evaluated
    /// on decoded numbers: decoding them once, for both, costs less than comparing them in packed
    /// form and decoding them afterwards.
    pub(crate) fn set_read(&mut self, columns: &[usize], types: &[ColumnType]) {
        for conjunct in &mut self.conjuncts {
            if let Some(column) = conjunct.tested_column() {
                let is_number = matches!(
                    types.get(column),
                    Some(
                        ColumnType::Int16
                            | ColumnType::Int32
                            | ColumnType::Int64
                            | ColumnType::Float32
                            | ColumnType::Float64
                    )
                );
                conjunct.is_decoded = is_number && columns.contains(&column);
            }
        }
    }

    /// Whether a conjunct may raise an error.
    pub(crate) fn can_fail(&self) -> bool {
        self.conjuncts
            .iter()
            .any(|conjunct| conjunct.compiled.can_fail())
    }

    /// The columns that are read.
    pub(crate) fn columns(&self) -> impl Iterator<Item = usize> {
        self.conjuncts
            .iter()
            .flat_map(|conjunct| conjunct.compiled.columns().iter().copied())
    }

    fn decide(&self, verdict: impl Fn(usize, &Predicate) -> Verdict) -> Decision {
        let mut all = true;
        for conjunct in &self.conjuncts {
            let verdict = match &conjunct.condition {
                Some((column, condition)) => {
                    condition.verdict(&|predicate| verdict(*column, predicate))
                }
                None => Verdict::Some,
            };
            match verdict {
                Verdict::None => return Decision::Skip,
                Verdict::Some => all = false,
                Verdict::All => {}
            }
        }
        if all { Decision::All } else { Decision::Look }
    }

    /// Tests the statistics of all rows of a row group.
    pub(crate) fn decide_group(&self, statistics: &[Option<&ColumnStatistics>]) -> Decision {
        self.decide(|column, predicate| {
            statistics
                .get(column)
                .copied()
                .flatten()
                .map_or(Verdict::Some, |known| known.chunk_verdict(predicate))
        })
    }

    /// Tests the statistics of the rows of a zone of a row group.
    pub(crate) fn decide_zone(
        &self,
        statistics: &[Option<&ColumnStatistics>],
        zone: usize,
    ) -> Decision {
        self.decide(|column, predicate| {
            statistics
                .get(column)
                .copied()
                .flatten()
                .map_or(Verdict::Some, |known| known.zone_verdict(zone, predicate))
        })
    }

    /// Selects the rows of a zone that pass.
    pub(crate) fn apply(&self, zone: &mut Zone<'_>) -> Result<(), VectorError> {
        if zone.morsel().filter_decided {
            return Ok(());
        }
        // Conjuncts that were evaluated together with an earlier one.
        let mut evaluated: Vec<usize> = Vec::new();
        for (at, conjunct) in self.conjuncts.iter().enumerate() {
            if zone.row_count() == 0 {
                return Ok(());
            }
            if evaluated.contains(&at) || on_words(zone, at, conjunct)? {
                continue;
            }
            if on_rising(zone, conjunct)? {
                continue;
            }
            if self.on_packed(zone, at)? {
                evaluated.extend(&conjunct.joined);
                continue;
            }
            if let Some(condition) = &conjunct.condition {
                match on_chunk(zone, condition, conjunct) {
                    Ok(true) => continue,
                    Ok(false) | Err(VectorError::Columnar(ColumnarError::NotComparable)) => {}
                    Err(error) => return Err(error),
                }
            }
            let passed = conjunct.compiled.select(zone)?;
            zone.narrow(passed)?;
        }
        Ok(())
    }

    /// Evaluates a comparison, and those joined to it, on packed numbers; `false` if the column
    /// does not consist of them.
    fn on_packed(&self, zone: &mut Zone<'_>, at: usize) -> Result<bool, VectorError> {
        let conjunct = &self.conjuncts[at];
        let Some(column) = conjunct.compared_column() else {
            return Ok(false);
        };
        let (morsel, rows): (&OpenMorsel, _) = (zone.morsel(), zone.rows());
        let Some(OpenColumn::Chunk(chunk, meta)) = morsel.columns.get(column) else {
            return Ok(false);
        };
        let Some(packed) = chunk.packed() else {
            return Ok(false);
        };
        let mut comparisons = Vec::with_capacity(1 + conjunct.joined.len());
        for at in std::iter::once(at).chain(conjunct.joined.iter().copied()) {
            let Some((_, predicate)) = self.conjuncts[at].predicate() else {
                continue;
            };
            match meta.zone_verdict(rows.start / ZONE_ROWS, predicate) {
                Verdict::All => continue,
                Verdict::Some => {}
                Verdict::None => {
                    zone.select(BooleanBuffer::new_unset(rows.len()))?;
                    return Ok(true);
                }
            }
            let mut computed = morsel.computed.borrow_mut();
            match computed.range(at, || packed.code_range(predicate)) {
                Some(range) => comparisons.push((predicate, range)),
                None => return Ok(false),
            }
        }
        if comparisons.is_empty() {
            return Ok(true);
        }
        // Codes that are decoded afterwards are unpacked once, for both.
        let codes = match conjunct.is_decoded && zone.is_dense() {
            true => Some(zone.codes(column, packed)?),
            false => None,
        };
        let codes = codes.as_ref().map(|codes| codes.as_slice());
        let found = packed.matching(&comparisons, rows, zone.selection(), codes)?;
        zone.select(found).map(|()| true)
    }
}

/// Evaluates a conjunct on one column once per word in a morsel; `false` if the column does not
/// consist of few words.
fn on_words(zone: &mut Zone<'_>, at: usize, conjunct: &Conjunct) -> Result<bool, VectorError> {
    let morsel: &OpenMorsel = zone.morsel();
    let Some(column) = single_column(&conjunct.compiled) else {
        return Ok(false);
    };
    let Some(dictionary) = morsel.dictionary_for_filter(column) else {
        return Ok(false);
    };
    let verdicts = morsel.computed.borrow_mut().verdicts(at, || {
        Verdicts::new(dictionary, &conjunct.compiled, column).ok()
    });
    let Some(verdicts) = verdicts else {
        return Ok(false);
    };
    let found = verdicts.of_rows(dictionary, zone);
    let found = match zone.selection() {
        None => found,
        Some(selected) => &found & selected,
    };
    zone.select(found)?;
    Ok(true)
}

/// Evaluates a comparison with a column of integers that rise or fall evenly; `false` if it is no
/// such comparison.
fn on_rising(zone: &mut Zone<'_>, conjunct: &Conjunct) -> Result<bool, VectorError> {
    let Some((column, Predicate::Compare { op, value })) = conjunct.predicate() else {
        return Ok(false);
    };
    let Some(found) = rising::rows_of(zone, column, *op, value)? else {
        return Ok(false);
    };
    let found = match zone.selection() {
        None => found,
        Some(selected) => &found & selected,
    };
    zone.select(found).map(|()| true)
}

/// Evaluates a condition on a column chunk; `false` if the column is not one.
fn on_chunk(
    zone: &mut Zone<'_>,
    (column, condition): &(usize, Condition),
    conjunct: &Conjunct,
) -> Result<bool, VectorError> {
    let morsel: &OpenMorsel = zone.morsel();
    let Some(OpenColumn::Chunk(chunk, meta)) = morsel.columns.get(*column) else {
        return Ok(false);
    };
    let rows = zone.rows();
    let of_zone = |predicate: &_| meta.zone_verdict(rows.start / ZONE_ROWS, predicate);
    let found = match condition.verdict(&of_zone) {
        Verdict::All => return Ok(true),
        Verdict::None => BooleanBuffer::new_unset(rows.len()),
        Verdict::Some if conjunct.is_decoded && zone.is_dense() => {
            let found = conjunct.compiled.select(&AllRows(zone))?;
            match zone.selection() {
                None => found,
                Some(selected) => &found & selected,
            }
        }
        Verdict::Some => chunk.filter_among(condition, rows, zone.selection())?,
    };
    zone.select(found)?;
    Ok(true)
}
