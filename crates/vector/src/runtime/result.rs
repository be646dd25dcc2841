//! The result of a run.

use std::time::Duration;

use arrow_array::Array;
use arrow_select::concat::concat;
use howdah_columnar::Column;

use crate::error::VectorError;
use crate::operators::OperatorTimes;

/// The rows of a result, in parts, one after the other.
#[derive(Debug)]
pub struct ResultSet {
    /// Rows of all parts.
    pub row_count: usize,
    /// At least one, unless there is no row.
    pub parts: Vec<ResultPart>,
    /// The figures of the run.
    pub statistics: RunStatistics,
}

/// Some rows of a result, in columns. A result is computed part by part, so that a run can be
/// stopped between two of them.
#[derive(Debug)]
pub struct ResultPart {
    /// Rows.
    pub row_count: usize,
    /// Keys, then aggregates; or the columns of the first rows.
    pub columns: Vec<ResultColumn>,
}

/// Rows of a part of a result, at most.
pub(crate) const PART_ROWS: usize = 16_384;

/// One column of a result.
#[derive(Clone, Debug)]
pub enum ResultColumn {
    /// Values.
    Values(Column),
    /// Averages of integers and numerics, `sums[i] * 10^-scale / counts[i]`, which the caller
    /// divides by the rules of its numerics; a count of 0 is NULL.
    Quotients {
        /// Unscaled sums.
        sums: Vec<i128>,
        /// The display scale of the sums.
        scale: u16,
        /// Numbers of values.
        counts: Vec<i64>,
    },
}

/// The figures of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunStatistics {
    /// Rows that were read.
    pub rows_in: u64,
    /// Rows that passed the filter.
    pub rows_passed: u64,
    /// Groups, or rows, of the result.
    pub groups: u64,
    /// The maximal memory of states of groups and rows at a time.
    pub memory_peak_bytes: usize,
    /// The time of all threads together that was spent on morsels and merging.
    pub busy: Duration,
    /// The part of each operator in that; all zero unless
    /// [measured](crate::operators::Compiled::measure_times).
    pub times: OperatorTimes,
}

impl RunStatistics {
    /// Adds the figures of another run of the same query.
    pub fn add(&mut self, other: &Self) {
        self.rows_in += other.rows_in;
        self.rows_passed += other.rows_passed;
        self.groups += other.groups;
        self.memory_peak_bytes = self.memory_peak_bytes.max(other.memory_peak_bytes);
        self.busy += other.busy;
        self.times.add(&other.times);
    }
}

/// Why there is no result.
#[derive(Debug)]
pub enum RunError<E> {
    /// The source failed.
    Feed(E),
    /// The run did.
    Vector(VectorError),
}

/// The rows of several parts in one.
pub(crate) fn join_parts(mut parts: Vec<ResultPart>) -> Result<ResultPart, VectorError> {
    if parts.len() == 1
        && let Some(one) = parts.pop()
    {
        return Ok(one);
    }
    let row_count = parts.iter().map(|part| part.row_count).sum();
    let column_count = parts.first().map_or(0, |part| part.columns.len());
    let columns = (0..column_count).map(|at| {
        let pieces: Vec<&ResultColumn> = parts.iter().map(|part| &part.columns[at]).collect();
        match pieces[0] {
            ResultColumn::Values(_) => join_values(&pieces).map(ResultColumn::Values),
            ResultColumn::Quotients { .. } => join_quotients(&pieces),
        }
    });
    Ok(ResultPart {
        row_count,
        columns: columns.collect::<Result<_, _>>()?,
    })
}

const MIXED: VectorError = VectorError::Unsupported {
    what: "parts of a result that do not fit",
};

fn join_values(pieces: &[&ResultColumn]) -> Result<Column, VectorError> {
    let pieces: Option<Vec<&Column>> = pieces
        .iter()
        .map(|piece| match piece {
            ResultColumn::Values(column) => Some(column),
            ResultColumn::Quotients { .. } => None,
        })
        .collect();
    let pieces = pieces.ok_or(MIXED)?;
    macro_rules! joined {
        ($($variant:ident),*) => {
            match pieces[0] {
                $(Column::$variant(_) => {
                    let arrays = pieces.iter().map(|piece| match piece {
                        Column::$variant(array) => Ok(array as &dyn Array),
                        _ => Err(MIXED),
                    });
                    let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
                    let joined = concat(&arrays).map_err(|_| MIXED)?;
                    Column::$variant(joined.as_any().downcast_ref().cloned().ok_or(MIXED)?)
                })*
                Column::Numeric(_) => {
                    let values = pieces.iter().flat_map(|piece| {
                        (0..piece.len()).map(|row| piece.value(row))
                    });
                    Column::from_values(pieces[0].column_type(), values)?
                }
            }
        };
    }
    Ok(joined!(
        Bool, Int16, Int32, Int64, Float32, Float64, Text, Bytes, Fixed
    ))
}

fn join_quotients(pieces: &[&ResultColumn]) -> Result<ResultColumn, VectorError> {
    let (mut all_sums, mut all_counts, mut one_scale) = (Vec::new(), Vec::new(), None);
    for piece in pieces {
        let ResultColumn::Quotients {
            sums,
            scale,
            counts,
        } = piece
        else {
            return Err(MIXED);
        };
        all_sums.extend_from_slice(sums);
        all_counts.extend_from_slice(counts);
        // Without a value there is no scale.
        if counts.iter().any(|&count| count > 0) && *one_scale.get_or_insert(*scale) != *scale {
            return Err(VectorError::Unsupported {
                what: "averages of different scales",
            });
        }
    }
    Ok(ResultColumn::Quotients {
        sums: all_sums,
        scale: one_scale.unwrap_or(0),
        counts: all_counts,
    })
}
