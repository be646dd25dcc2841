//! Aggregates: what each one is computed from, and the states of all groups of a query.
//!
//! ```text
//!   find("avg(int4)") ─▶ Entry { argument, state: Sum, finish: Quotient }
//!                                            │
//!        Accumulator ◀───────────────────────┘   one state for each group, struct of arrays
//!          update(groups, rows, values) · merge(other, pairs) · finish(groups, counts)
//! ```
//!
//! Accumulators do not count the values of a group; that is done once for each argument: see
//! [`Counts`](counts::Counts). So a `count` has no accumulator at all, and `sum(x)` and `avg(x)`
//! share one.
//!
//! Accumulators never see NULLs. They mirror the transition, combine and final functions of
//! PostgreSQL's `numeric.c`, `float.c` and `int8.c`, errors included.

mod average;
pub(crate) mod counts;
mod decimal;
mod extreme;
pub(crate) mod kernel;
mod logic;
mod sum;

use std::any::Any;

use howdah_columnar::{ChunkStats, Column, ColumnType, OwnedValue};

use crate::error::VectorError;
use crate::runtime::ResultColumn;
pub(crate) use extreme::column_of_bytes;
use kernel::{GroupIds, Rows};

/// The argument of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Nothing: `count()`.
    Nothing,
    /// A value of any type: `count(any)`.
    Anything,
    /// A value of this type.
    One(ColumnType),
}

impl Argument {
    /// Whether a value of this type is accepted; `None` is no argument.
    pub fn accepts(self, ty: Option<ColumnType>) -> bool {
        match self {
            Self::Nothing => ty.is_none(),
            Self::Anything => ty.is_some(),
            Self::One(wanted) => ty == Some(wanted),
        }
    }
}

/// The state that is kept for each group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Only the number of values, which is counted anyway.
    Count,
    /// The sum.
    Sum,
    /// PostgreSQL's `float8_accum`.
    FloatAverage,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Whether all are true.
    And,
    /// Whether any is true.
    Or,
}

/// The computation of the result from a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The number of values.
    Count,
    /// The state.
    Value,
    /// The state and the number of values, to be divided by the caller.
    Quotient,
}

/// An aggregate function.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// PostgreSQL's name and argument type.
    pub name: &'static str,
    /// Its argument.
    pub argument: Argument,
    /// Its state.
    pub state: State,
    /// Its result.
    pub finish: Finish,
    /// Where its results are equal to PostgreSQL's.
    pub exactness: &'static str,
}

const ALWAYS: &str = "always";
const FLOATS: &str = "up to the order of additions, as between two parallel plans";
const DECIMALS: &str = "while sums have at most 38 digits and no value is NaN or infinite; else PostgreSQL evaluates the query";
const BYTEWISE: &str = "where the collation orders bytewise";

macro_rules! entries {
    ($($name:literal $argument:expr, $state:ident, $finish:ident, $exactness:ident;)*) => {
        &[$(Entry {
            name: $name,
            argument: $argument,
            state: State::$state,
            finish: Finish::$finish,
            exactness: $exactness,
        }),*]
    };
}

use Argument::{Anything, Nothing, One};
use ColumnType::{Bool, Bytes, Float32, Float64, Int16, Int32, Int64, Numeric, Text};

static ENTRIES: &[Entry] = entries! {
    "count()" Nothing, Count, Count, ALWAYS;
    "count(any)" Anything, Count, Count, ALWAYS;
    "sum(int2)" One(Int16), Sum, Value, ALWAYS;
    "sum(int4)" One(Int32), Sum, Value, ALWAYS;
    "sum(int8)" One(Int64), Sum, Value, ALWAYS;
    "sum(float4)" One(Float32), Sum, Value, FLOATS;
    "sum(float8)" One(Float64), Sum, Value, FLOATS;
    "sum(numeric)" One(Numeric), Sum, Value, DECIMALS;
    "avg(int2)" One(Int16), Sum, Quotient, ALWAYS;
    "avg(int4)" One(Int32), Sum, Quotient, ALWAYS;
    "avg(int8)" One(Int64), Sum, Quotient, ALWAYS;
    "avg(float4)" One(Float32), FloatAverage, Value, FLOATS;
    "avg(float8)" One(Float64), FloatAverage, Value, FLOATS;
    "avg(numeric)" One(Numeric), Sum, Quotient, DECIMALS;
    "min(int2)" One(Int16), Min, Value, ALWAYS;
    "max(int2)" One(Int16), Max, Value, ALWAYS;
    "min(int4)" One(Int32), Min, Value, ALWAYS;
    "max(int4)" One(Int32), Max, Value, ALWAYS;
    "min(int8)" One(Int64), Min, Value, ALWAYS;
    "max(int8)" One(Int64), Max, Value, ALWAYS;
    "min(float4)" One(Float32), Min, Value, ALWAYS;
    "max(float4)" One(Float32), Max, Value, ALWAYS;
    "min(float8)" One(Float64), Min, Value, ALWAYS;
    "max(float8)" One(Float64), Max, Value, ALWAYS;
    "min(numeric)" One(Numeric), Min, Value, DECIMALS;
    "max(numeric)" One(Numeric), Max, Value, DECIMALS;
    "min(date)" One(Int32), Min, Value, ALWAYS;
    "max(date)" One(Int32), Max, Value, ALWAYS;
    "min(time)" One(Int64), Min, Value, ALWAYS;
    "max(time)" One(Int64), Max, Value, ALWAYS;
    "min(timestamp)" One(Int64), Min, Value, ALWAYS;
    "max(timestamp)" One(Int64), Max, Value, ALWAYS;
    "min(timestamptz)" One(Int64), Min, Value, ALWAYS;
    "max(timestamptz)" One(Int64), Max, Value, ALWAYS;
    "min(text)" One(Text), Min, Value, BYTEWISE;
    "max(text)" One(Text), Max, Value, BYTEWISE;
    "min(bytea)" One(Bytes), Min, Value, ALWAYS;
    "max(bytea)" One(Bytes), Max, Value, ALWAYS;
    "bool_and(bool)" One(Bool), And, Value, ALWAYS;
    "every(bool)" One(Bool), And, Value, ALWAYS;
    "bool_or(bool)" One(Bool), Or, Value, ALWAYS;
};

/// The aggregate of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ENTRIES.iter().find(|entry| entry.name == name)
}

/// Every aggregate.
pub fn all() -> impl Iterator<Item = &'static Entry> {
    ENTRIES.iter()
}

/// The numbers of values of two states that are merged.
pub(crate) struct Pair {
    /// The group here.
    pub(crate) to: u32,
    /// The group there.
    pub(crate) from: u32,
    /// Values here so far.
    pub(crate) here: i64,
    /// Values there.
    pub(crate) there: i64,
}

/// The states of one aggregate in all groups. A group without values has the state that the
/// array was resized with, whose result is NULL.
pub(crate) trait Accumulator: Send + Sync + Any {
    /// Makes room for this many groups.
    fn resize(&mut self, group_count: usize);

    /// Adds values to groups. `counts` tells how many values a group had before.
    ///
    /// # Errors
    ///
    /// [`VectorError::OutOfRange`] and [`VectorError::Unsupported`].
    fn update(
        &mut self,
        groups: GroupIds<'_>,
        rows: Rows<'_>,
        values: &Column,
        counts: &dyn Fn(usize) -> i64,
    ) -> Result<(), VectorError>;

    /// Whether no value between these bounds, both included, would change a state. May be `false`
    /// where that is not known.
    fn is_settled(&self, least: &OwnedValue, greatest: &OwnedValue) -> bool {
        let _ = (least, greatest);
        false
    }

    /// Adds states of an accumulator of the same kind.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    fn merge(&mut self, other: &dyn Accumulator, pairs: &[Pair]) -> Result<(), VectorError>;

    /// Adds all values of a chunk to a group.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    fn add_statistics(&mut self, group: usize, stats: &ChunkStats) -> Result<(), VectorError>;

    /// The states of these groups, which have this many values: NULL for groups without values.
    ///
    /// # Errors
    ///
    /// As [`update`](Self::update).
    fn finish(
        &self,
        groups: &[u32],
        counts: &[i64],
        finish: Finish,
    ) -> Result<ResultColumn, VectorError>;

    /// Memory held.
    fn memory_bytes(&self) -> usize;
}

/// An accumulator without groups; `None` where none is needed, or for a type that the registry
/// does not pair with the state.
pub(crate) fn accumulator(state: State, ty: ColumnType) -> Option<Box<dyn Accumulator>> {
    Some(match (state, ty) {
        (State::Sum, Int16 | Int32) => Box::new(sum::IntegerSum::default()),
        (State::Sum, Int64 | Numeric) => Box::new(decimal::DecimalSum::new(ty)),
        (State::Sum, Float32) => Box::new(sum::FloatSum::<f32>::default()),
        (State::Sum, Float64) => Box::new(sum::FloatSum::<f64>::default()),
        (State::FloatAverage, Float32 | Float64) => Box::new(average::FloatAverage::default()),
        (State::Min | State::Max, ty) => return extreme::accumulator(state == State::Max, ty),
        (State::And, Bool) => Box::new(logic::Logic::new(true)),
        (State::Or, Bool) => Box::new(logic::Logic::new(false)),
        _ => return None,
    })
}

/// The other accumulator of a merge, which is of the same type.
fn same<A: Accumulator>(other: &dyn Accumulator) -> Result<&A, VectorError> {
    (other as &dyn Any)
        .downcast_ref()
        .ok_or(VectorError::Unsupported {
            what: "states of different kinds",
        })
}

/// An argument of another type than the registry says.
fn wrong_type<T>() -> Result<T, VectorError> {
    Err(VectorError::Unsupported {
        what: "an argument of another type",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_and_has_the_state_that_it_names() {
        for entry in all() {
            assert_eq!(find(entry.name).map(|found| found.name), Some(entry.name));
            if let One(ty) = entry.argument {
                assert!(accumulator(entry.state, ty).is_some(), "{}", entry.name);
            }
        }
        assert!(find("sum(text)").is_none());
    }
}
