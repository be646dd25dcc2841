//! Expressions over columns: compiled once, evaluated for many rows at a time.
//!
//! ```text
//!   Expr ── compile ─▶ Node tree ─┬─ column: a value for each row
//!                                 ├─ truths: true, false or NULL for each row, as bits
//!                                 └─ select: where true, as bits
//! ```
//!
//! AND and OR evaluate parts that can raise an error only for rows that are not decided yet: these
//! rows are extracted from the input, and the results are put back in place. Parts that cannot fail
//! are evaluated for all rows.
//!
//! Constant parts are evaluated like others; the caller may fold them. What a function computes is
//! defined in [`functions`](crate::functions).

mod any_all;
mod compile;
mod evaluate;
mod predicate;
mod subset;
mod truths;

use arrow_buffer::BooleanBuffer;
use howdah_columnar::{Column, ColumnType};

use crate::error::{Declined, VectorError};
use crate::plan::Expr;
use compile::Node;

pub use predicate::condition_of;

/// Rows to evaluate expressions of.
pub trait Input {
    /// How many there are.
    fn row_count(&self) -> usize;

    /// A column of them, by its position in [`Query::columns`](crate::plan::Query::columns). It may
    /// be requested several times.
    ///
    /// # Errors
    ///
    /// Any error of reading the column.
    fn column(&self, index: usize) -> Result<Column, VectorError>;

    /// A column as codes of few words, if it is stored so.
    fn coded(&self, _index: usize) -> Option<Coded> {
        None
    }
}

/// A column of few different values.
pub struct Coded {
    /// For each row the position of its value; [`Coded::NULL`] is NULL.
    pub codes: Vec<u32>,
    /// The values, more than occur perhaps; NULL may be one of them.
    pub words: Column,
}

impl Coded {
    /// The code of NULL.
    pub const NULL: u32 = u32::MAX;
}

/// An expression whose functions and types are known to fit.
#[derive(Clone, Debug)]
pub struct Compiled {
    node: Node,
    columns: Vec<usize>,
    can_fail: bool,
}

impl Compiled {
    /// Compiles an expression over columns of these types.
    ///
    /// # Errors
    ///
    /// [`Declined`] when a function is not known here, or types do not fit.
    pub fn compile(expr: &Expr, columns: &[ColumnType]) -> Result<Self, Declined> {
        let node = Node::compile(expr, columns)?;
        let mut columns = Vec::new();
        node.collect_columns(&mut columns);
        columns.sort_unstable();
        columns.dedup();
        let can_fail = node.can_fail();
        Ok(Self {
            node,
            columns,
            can_fail,
        })
    }

    /// The type of its values.
    pub fn column_type(&self) -> ColumnType {
        self.node.column_type()
    }

    /// The places of the columns that it reads, ascending, each once.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether it may raise an error of PostgreSQL.
    pub fn can_fail(&self) -> bool {
        self.can_fail
    }

    /// The place of the column that it is, if it is nothing else.
    pub fn as_column(&self) -> Option<usize> {
        match self.node {
            Node::Column(index, _) => Some(index),
            _ => None,
        }
    }

    /// Its value for each row.
    ///
    /// # Errors
    ///
    /// PostgreSQL's errors, [`VectorError::Unsupported`], and those of the input.
    pub fn evaluate(&self, input: &dyn Input) -> Result<Column, VectorError> {
        self.node.column(input)
    }

    /// Where a boolean expression is true, which NULL is not.
    ///
    /// # Errors
    ///
    /// As [`evaluate`](Self::evaluate); [`VectorError::Unsupported`] when it is not boolean.
    pub fn select(&self, input: &dyn Input) -> Result<BooleanBuffer, VectorError> {
        self.node.select(input)
    }
}

/// The rows with these numbers, in this order; a row may be named several times.
///
/// # Errors
///
/// When there is no such row.
pub fn take(column: &Column, rows: &[u32]) -> Result<Column, VectorError> {
    Ok(column.take(rows)?)
}

/// The rows whose bits are set.
///
/// # Errors
///
/// When there are not as many bits as rows.
pub fn filter(column: &Column, rows: &BooleanBuffer) -> Result<Column, VectorError> {
    Ok(column.filter(rows)?)
}
