//! The description of a query, without PostgreSQL's types and without storage.
//!
//! ```text
//!   source columns ─▶ filter: conjuncts, in order ─▶ Output ─┬─ Aggregate: groups by keys
//!                                                            ├─ FirstGroups: the first by an order
//!                                                            └─ First: rows, by an order
//! ```

use std::sync::Arc;

use howdah_columnar::{ColumnType, OwnedValue};

use crate::foreign::Foreign;
use crate::zone::Zone;

/// One query over one source.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The columns that the source delivers; expressions name them by their place here.
    pub columns: Vec<ColumnType>,
    /// Conjuncts. A row passes if all are true; one that can raise an error is evaluated only
    /// for rows of which all before it are true.
    pub filter: Vec<Expr>,
    /// What is computed from the rows that pass.
    pub output: Output,
}

/// What is computed from the rows that pass the filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// One row for each group: its keys, then its aggregates. Without keys there is one group, even
    /// of no rows. Keys are grouped by PostgreSQL's `=`, and NULLs are one group. So every NaN is
    /// one key, 0.0 and -0.0 are one key, and numerics of different display scales are one key (any
    /// of them is returned); text and bytes are compared bytewise.
    Aggregate {
        /// The keys of the groups.
        keys: Vec<Expr>,
        /// The aggregates of each group.
        aggregates: Vec<AggregateCall>,
    },
    /// The first groups by an order, in this order.
    FirstGroups {
        /// As in [`Aggregate`](Self::Aggregate).
        keys: Vec<Expr>,
        /// As in [`Aggregate`](Self::Aggregate).
        aggregates: Vec<AggregateCall>,
        /// The order, the most significant part first.
        order: Vec<GroupOrder>,
        /// The maximal number of groups.
        limit: usize,
    },
    /// The first rows by an order.
    First {
        /// The columns of each returned row.
        columns: Vec<Expr>,
        /// The order, the most significant part first.
        order: Vec<OrderBy>,
        /// The maximal number of rows.
        limit: usize,
    },
}

/// One aggregate of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregateCall {
    /// PostgreSQL's name and argument types, such as `sum(int4)`, `count()` or `count(any)`; dates
    /// and timestamps are spelled `date`, `timestamp`, `timestamptz`.
    pub name: String,
    /// Its argument; none for `count()`.
    pub argument: Option<Expr>,
    /// `FILTER (WHERE …)`: the rows that count.
    pub filter: Option<Expr>,
}

/// One part of an order of groups: PostgreSQL's order of the type, text bytewise. Averages of
/// integers and numerics have none here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupOrder {
    /// The position of the compared value: among keys, then aggregates.
    pub column: usize,
    /// Descending.
    pub descending: bool,
    /// NULLs before all else.
    pub nulls_first: bool,
}

/// One part of an order: PostgreSQL's order of the type, text bytewise.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy {
    /// The compared value.
    pub expr: Expr,
    /// Descending.
    pub descending: bool,
    /// NULLs before all else.
    pub nulls_first: bool,
}

/// An expression over the columns of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// The column at this place of [`Query::columns`].
    Column(usize),
    /// The same value in every row; `None` is NULL.
    Constant(ColumnType, Option<OwnedValue>),
    /// A built-in function of PostgreSQL (operators are their functions), named by its `prosrc`.
    /// Strict: NULL if an argument is NULL.
    Call {
        /// Such as `int4pl` or `timestamp_lt`.
        function: String,
        /// Its arguments.
        arguments: Vec<Expr>,
    },
    /// The same of a function that depends on the session's time zone.
    Zoned {
        /// Such as `timestamptz_date`.
        function: String,
        /// The zone.
        zone: Arc<Zone>,
        /// Its arguments.
        arguments: Vec<Expr>,
    },
    /// `left op ANY (array)` or `left op ALL (array)` with a constant array; `None` in it is NULL.
    AnyAll {
        /// The operator's function.
        function: String,
        /// The left side.
        left: Box<Expr>,
        /// The type of the elements.
        element: ColumnType,
        /// The elements.
        values: Vec<Option<OwnedValue>>,
        /// `ALL` instead of `ANY`.
        all: bool,
    },
    /// SQL's AND of at least one; later parts are not evaluated for rows that are false already.
    And(Vec<Expr>),
    /// SQL's OR of at least one; later parts are not evaluated for rows that are true already.
    Or(Vec<Expr>),
    /// SQL's NOT.
    Not(Box<Expr>),
    /// `IS NULL`.
    IsNull(Box<Expr>),
    /// `IS NOT NULL`.
    IsNotNull(Box<Expr>),
    /// `IS TRUE` and the like: never NULL.
    Is(Box<Expr>, Truth),
    /// An expression that is unknown here: the caller evaluates it. It may raise any error.
    Foreign(Foreign),
}

/// The test of a boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    /// `IS TRUE`
    True,
    /// `IS NOT TRUE`
    NotTrue,
    /// `IS FALSE`
    False,
    /// `IS NOT FALSE`
    NotFalse,
    /// `IS UNKNOWN`
    Unknown,
    /// `IS NOT UNKNOWN`
    NotUnknown,
}
