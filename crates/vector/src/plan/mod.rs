//! What is asked: a description that knows no PostgreSQL type and no storage.
//!
//! ```text
//!   source columns ─▶ filter: conjuncts, in order ─▶ Output ─┬─ Aggregate: groups by keys, aggregates
//!                                                            ├─ FirstGroups: some of them, by an order
//!                                                            └─ First: rows, by an order
//! ```

use howdah_columnar::{ColumnType, OwnedValue};

/// One query over one source.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// The columns that the source delivers; expressions name them by their place here.
    pub columns: Vec<ColumnType>,
    /// Conjuncts. A row passes if all are true; one that can raise an error is evaluated only
    /// for rows of which all before it are true.
    pub filter: Vec<Expr>,
    /// What becomes of the rows that pass.
    pub output: Output,
}

/// What becomes of the rows that pass the filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// One row for each group: its keys, then its aggregates. Without keys there is one group, also
    /// of no rows. Keys group as PostgreSQL's `=` does and NULLs are one group: every NaN is one
    /// key, 0.0 and -0.0 are one key, numerics of different display scales are one key (any of them
    /// is shown); text and bytes by their bytes.
    Aggregate {
        /// What to group by.
        keys: Vec<Expr>,
        /// What to compute of each group.
        aggregates: Vec<AggregateCall>,
    },
    /// The first groups by an order, in this order.
    FirstGroups {
        /// As of [`Aggregate`](Self::Aggregate).
        keys: Vec<Expr>,
        /// As of [`Aggregate`](Self::Aggregate).
        aggregates: Vec<AggregateCall>,
        /// By what to order, the most significant first.
        order: Vec<GroupOrder>,
        /// How many groups at most.
        limit: usize,
    },
    /// The first rows by an order.
    First {
        /// What to return of each row.
        columns: Vec<Expr>,
        /// By what to order, the most significant first.
        order: Vec<OrderBy>,
        /// How many rows at most.
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
    /// The place of what to compare: among keys, then aggregates.
    pub column: usize,
    /// From the greatest down.
    pub descending: bool,
    /// NULLs before all else.
    pub nulls_first: bool,
}

/// One part of an order: PostgreSQL's order of the type, text bytewise.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy {
    /// What to compare.
    pub expr: Expr,
    /// From the greatest down.
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
    /// SQL's AND of at least one; what comes later is not evaluated for rows that are false
    /// already.
    And(Vec<Expr>),
    /// SQL's OR of at least one; what comes later is not evaluated for rows that are true already.
    Or(Vec<Expr>),
    /// SQL's NOT.
    Not(Box<Expr>),
    /// `IS NULL`.
    IsNull(Box<Expr>),
    /// `IS NOT NULL`.
    IsNotNull(Box<Expr>),
    /// `IS TRUE` and its like: never NULL.
    Is(Box<Expr>, Truth),
}

/// What a boolean is asked to be.
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
