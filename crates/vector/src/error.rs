//! Errors before and during a run.

use howdah_columnar::ColumnarError;

/// Why a query cannot be run here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Declined {
    /// No entry in the registry of functions.
    #[error("function {name} is not vectorized")]
    Function {
        /// The function's `prosrc`.
        name: String,
    },
    /// No entry in the registry of aggregates.
    #[error("aggregate {name} is not vectorized")]
    Aggregate {
        /// Such as `sum(int4)`.
        name: String,
    },
    /// Arguments that do not fit the function, or an expression that does not fit its place.
    #[error("arguments of {name} have other types")]
    Types {
        /// The given arguments.
        name: String,
    },
}

/// Why a run ended without a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VectorError {
    /// The stop flag was set.
    #[error("the run was stopped")]
    Stopped,
    /// The run needs more memory than it may have.
    #[error("the run needs more than {limit_bytes} bytes")]
    Memory {
        /// The limit.
        limit_bytes: usize,
    },
    /// Some values cannot be computed exactly here: the caller must evaluate the query itself.
    #[error("not computed exactly here: {what}")]
    Unsupported {
        /// A description of the values.
        what: &'static str,
    },
    /// A result that its type cannot hold; PostgreSQL's SQLSTATE 22003.
    #[error("{message}")]
    OutOfRange {
        /// PostgreSQL's message, such as `integer out of range`.
        message: &'static str,
    },
    /// A date or timestamp beyond its type; PostgreSQL's SQLSTATE 22008.
    #[error("{message}")]
    DatetimeOutOfRange {
        /// PostgreSQL's message, such as `date out of range`.
        message: &'static str,
    },
    /// PostgreSQL's SQLSTATE 22012.
    #[error("division by zero")]
    DivisionByZero,
    /// Bytes of a row group are damaged, or a request does not fit a column.
    #[error(transparent)]
    Columnar(#[from] ColumnarError),
    /// The source's own check of a morsel failed.
    #[error(transparent)]
    Check(Box<dyn std::error::Error + Send + Sync>),
    /// A bug: a thread panicked.
    #[error("a thread of the run panicked: {message}")]
    Panicked {
        /// The message of the panic.
        message: String,
    },
}
