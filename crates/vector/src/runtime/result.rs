//! What a run returns.

use std::time::Duration;

use howdah_columnar::Column;

use crate::error::VectorError;

/// The rows of a result, in columns.
#[derive(Debug)]
pub struct ResultSet {
    /// Rows.
    pub row_count: usize,
    /// Keys, then aggregates; or the columns of the first rows.
    pub columns: Vec<ResultColumn>,
    /// What it took.
    pub statistics: RunStatistics,
}

/// One column of a result.
#[derive(Clone, Debug)]
pub enum ResultColumn {
    /// Values.
    Values(Column),
    /// Averages of integers and numerics, `sums[i] * 10^-scale / counts[i]`, for the caller to divide as its numerics
    /// do; a count of 0 is NULL.
    Quotients {
        /// Unscaled sums.
        sums: Vec<i128>,
        /// The display scale of the sums.
        scale: u16,
        /// Numbers of values.
        counts: Vec<i64>,
    },
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunStatistics {
    /// Rows that were looked at.
    pub rows_in: u64,
    /// Rows that passed the filter.
    pub rows_passed: u64,
    /// Groups, or rows, of the result.
    pub groups: u64,
    /// The most memory that states of groups and rows held at a time.
    pub memory_peak_bytes: usize,
    /// The time of all threads together that was spent on morsels and merging.
    pub busy: Duration,
}

/// Why there is no result.
#[derive(Debug)]
pub enum RunError<E> {
    /// The source failed.
    Feed(E),
    /// The run did.
    Vector(VectorError),
}
