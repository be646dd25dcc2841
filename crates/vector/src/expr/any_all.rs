//! `left op ANY (array)` and `left op ALL (array)` with a constant array.
//!
//! Equality with many elements is a look-up in a set. Any other operator is evaluated once for each
//! element, for the rows that no element before has decided; between two of them the run may be
//! stopped.

use arrow_array::Array;
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use howdah_columnar::{Column, ColumnType, CompareOp, Numeric, NumericColumn, OwnedValue, Value};
use rustc_hash::FxHashSet;

use super::Input;
use super::compile::{Node, is_of, types};
use super::evaluate::bits_with;
use super::truths::Truths;
use crate::error::{Declined, VectorError};
use crate::functions::kernel::mismatch;
use crate::functions::numeric_compare;
use crate::functions::text::Like;
use crate::functions::{Function, Kernel};
use crate::stop::check_here;

/// The longest list that is evaluated as one comparison per element.
const SHORT_LIST: usize = 4;

#[derive(Clone, Debug)]
pub(super) struct AnyAll {
    pub(super) left: Node,
    test: Test,
    /// The array holds a NULL.
    has_null: bool,
    is_empty: bool,
    all: bool,
}

/// The test whether a row decides the result: for ANY the operator is true for some element, for
/// ALL it is false.
#[derive(Clone, Debug)]
enum Test {
    Set(Set),
    Each(Vec<One>),
}

/// One element.
#[derive(Clone, Debug)]
enum One {
    Value(&'static Function, OwnedValue),
    Like(Like, bool),
}

/// Values to look up.
#[derive(Clone, Debug)]
enum Set {
    /// A bit for each integer from the least on.
    Dense {
        least: i64,
        bits: Vec<u64>,
    },
    Integers(FxHashSet<i64>),
    /// As [`float_key`] makes them.
    Floats(FxHashSet<u64>),
    /// As [`numeric_key`] makes them.
    Numerics(FxHashSet<(i128, u16)>),
    Strings(FxHashSet<Vec<u8>>),
}

impl AnyAll {
    pub(super) fn new(
        function: &'static Function,
        left: Node,
        element: ColumnType,
        values: &[Option<OwnedValue>],
        all: bool,
    ) -> Result<Self, Declined> {
        let declined = || types(function.prosrc);
        let fits = function.accepts(&[left.column_type(), element])
            && function.result == ColumnType::Bool
            && !function.can_fail
            && values.iter().flatten().all(|value| is_of(value, element));
        if !fits {
            return Err(declined());
        }
        let decides = match all {
            false => CompareOp::Eq,
            true => CompareOp::Ne,
        };
        let set = match function.comparison() {
            Some(op) if op == decides && values.len() > SHORT_LIST => Set::new(values),
            _ => None,
        };
        let each = |value: &OwnedValue| match (function.kernel, value) {
            (Kernel::Like { negated }, OwnedValue::Text(pattern)) => {
                Like::new(pattern).map(|like| One::Like(like, negated))
            }
            _ => Some(One::Value(function, value.clone())),
        };
        let test = match set {
            Some(set) => Test::Set(set),
            None => {
                let each = values.iter().flatten().map(each);
                Test::Each(each.collect::<Option<_>>().ok_or_else(declined)?)
            }
        };
        Ok(Self {
            left,
            test,
            has_null: values.iter().any(Option::is_none),
            is_empty: values.is_empty(),
            all,
        })
    }

    pub(super) fn truths(&self, input: &dyn Input) -> Result<Truths, VectorError> {
        let row_count = input.row_count();
        if self.is_empty {
            self.left.evaluate_for_errors(input)?;
            return Ok(Truths::all(Some(self.all), row_count));
        }
        let left = self.left.column(input)?;
        let decided = self.decided(&left)?;
        // A row of ANY that is decided is true, one of ALL is false. The others are the opposite,
        // or NULL if a NULL was compared with.
        let bits = match self.all {
            true => !&decided,
            false => decided.clone(),
        };
        let truths = Truths::new(bits, left.nulls());
        if !self.has_null {
            return Ok(truths);
        }
        let decided = match left.nulls() {
            Some(nulls) => &decided & nulls.inner(),
            None => decided,
        };
        Ok(Truths {
            is_true: &truths.is_true & &decided,
            is_null: Some(!&decided),
        })
    }

    /// A bit for each row; anything where it is null.
    fn decided(&self, left: &Column) -> Result<BooleanBuffer, VectorError> {
        let each = match &self.test {
            Test::Set(set) => return set.contains(left),
            Test::Each(each) => each,
        };
        let mut left_over = LeftOver::of(left);
        for (nth, one) in each.iter().enumerate() {
            check_here()?;
            let bits = one.bits(&left_over.column)?;
            left_over.decide(if self.all { !&bits } else { bits });
            if left_over.is_nothing(each.len() - nth - 1)? {
                break;
            }
        }
        Ok(left_over.decided_rows(left.len()))
    }
}

impl One {
    fn bits(&self, left: &Column) -> Result<BooleanBuffer, VectorError> {
        match self {
            Self::Value(function, value) => bits_with(function, left, value),
            Self::Like(like, negated) => match negated {
                true => Ok(!&like.matches(left)?),
                false => like.matches(left),
            },
        }
    }
}

/// Elements for which it is worth to leave decided rows out.
const MANY_LEFT: usize = 8;

/// The rows that are still to be decided, and some that are decided already.
struct LeftOver {
    column: Column,
    /// Which rows these are; `None`: all.
    rows: Option<Vec<u32>>,
    decided: BooleanBuffer,
}

impl LeftOver {
    fn of(column: &Column) -> Self {
        // Nothing is to be found out about nulls.
        let decided = match column.nulls() {
            Some(nulls) => !nulls.inner(),
            None => BooleanBuffer::new_unset(column.len()),
        };
        Self {
            column: column.clone(),
            rows: None,
            decided,
        }
    }

    fn decide(&mut self, bits: BooleanBuffer) {
        self.decided = &self.decided | &bits;
    }

    /// Whether no row is left. If few are, and as many elements come, it leaves the others out.
    fn is_nothing(&mut self, elements: usize) -> Result<bool, VectorError> {
        if elements < MANY_LEFT {
            return Ok(false);
        }
        let left = self.decided.len() - self.decided.count_set_bits();
        if left > 0 && left <= self.decided.len() / 2 {
            let undecided = !&self.decided;
            let row = |at: usize| match &self.rows {
                Some(rows) => rows[at],
                None => at as u32,
            };
            self.rows = Some(undecided.set_indices().map(row).collect());
            self.column = self.column.filter(&undecided)?;
            self.decided = BooleanBuffer::new_unset(left);
        }
        Ok(left == 0)
    }

    /// A bit for each row of the column that it was made of.
    fn decided_rows(self, row_count: usize) -> BooleanBuffer {
        let Some(rows) = self.rows else {
            return self.decided;
        };
        let mut all = BooleanBufferBuilder::new(row_count);
        all.append_n(row_count, true);
        for (&row, is_decided) in rows.iter().zip(&self.decided) {
            all.set_bit(row as usize, is_decided);
        }
        all.finish()
    }
}

/// The most bits of a dense set for each of its values.
const DENSE_BITS: usize = 256;

/// The same for all floats that are equal: every NaN is, and so are both zeros.
fn float_key(value: f64) -> u64 {
    match value {
        _ if value.is_nan() => f64::NAN.to_bits(),
        0.0 => 0,
        _ => value.to_bits(),
    }
}

/// The same for all decimals that are equal: the digits without zeros at the end of the fraction.
fn numeric_key(mut unscaled: i128, mut scale: u16) -> (i128, u16) {
    while scale > 0 && unscaled % 10 == 0 {
        unscaled /= 10;
        scale -= 1;
    }
    (unscaled, scale)
}

impl Set {
    /// The set of values of one kind, of which equal ones have equal keys; `None` of others.
    fn new(values: &[Option<OwnedValue>]) -> Option<Self> {
        let values = values.iter().flatten();
        values.clone().next()?;
        let floats: Option<FxHashSet<u64>> = values
            .clone()
            .map(|value| match value {
                OwnedValue::Float32(v) => Some(float_key((*v).into())),
                OwnedValue::Float64(v) => Some(float_key(*v)),
                _ => None,
            })
            .collect();
        if let Some(floats) = floats {
            return Some(Self::Floats(floats));
        }
        let numerics: Option<FxHashSet<(i128, u16)>> = values
            .clone()
            .map(|value| match value.as_value() {
                Value::Numeric(Numeric::Small { unscaled, scale }) => {
                    Some(numeric_key(unscaled, scale))
                }
                _ => None,
            })
            .collect();
        if let Some(numerics) = numerics {
            return Some(Self::Numerics(numerics));
        }
        let integers: Option<Vec<i64>> = values
            .clone()
            .map(|value| match value {
                OwnedValue::Int16(v) => Some(i64::from(*v)),
                OwnedValue::Int32(v) => Some(i64::from(*v)),
                OwnedValue::Int64(v) => Some(*v),
                _ => None,
            })
            .collect();
        if let Some(integers) = integers {
            return Some(Self::of_integers(&integers));
        }
        values
            .map(|value| match value {
                OwnedValue::Text(text) => Some(text.clone().into_bytes()),
                OwnedValue::Bytes(bytes) => Some(bytes.clone()),
                _ => None,
            })
            .collect::<Option<_>>()
            .map(Self::Strings)
    }

    fn of_integers(integers: &[i64]) -> Self {
        let (least, greatest) = (integers.iter().min(), integers.iter().max());
        if let (Some(&least), Some(&greatest)) = (least, greatest)
            && greatest.abs_diff(least) < (integers.len() * DENSE_BITS) as u64
        {
            let mut bits = vec![0; greatest.abs_diff(least) as usize / 64 + 1];
            for value in integers {
                let at = value.abs_diff(least) as usize;
                bits[at / 64] |= 1 << (at % 64);
            }
            return Self::Dense { least, bits };
        }
        Self::Integers(integers.iter().copied().collect())
    }

    fn contains(&self, column: &Column) -> Result<BooleanBuffer, VectorError> {
        match column {
            Column::Int16(array) => self.contains_integers(array.values()),
            Column::Int32(array) => self.contains_integers(array.values()),
            Column::Int64(array) => self.contains_integers(array.values()),
            Column::Float32(array) => {
                self.contains_floats(array.len(), |row| array.value(row).into())
            }
            Column::Float64(array) => self.contains_floats(array.len(), |row| array.value(row)),
            Column::Numeric(column) => self.contains_numerics(column),
            Column::Text(array) => {
                self.contains_strings(array.len(), |row| array.value(row).as_bytes())
            }
            Column::Bytes(array) => self.contains_strings(array.len(), |row| array.value(row)),
            Column::Fixed(array) => self.contains_strings(array.len(), |row| array.value(row)),
            _ => Err(mismatch()),
        }
    }

    fn contains_integers<T: Copy + Into<i64>>(
        &self,
        values: &[T],
    ) -> Result<BooleanBuffer, VectorError> {
        match self {
            Self::Dense { least, bits } => Ok(BooleanBuffer::collect_bool(values.len(), |row| {
                let value: i64 = values[row].into();
                let at = value.wrapping_sub(*least) as u64;
                let word = bits.get((at / 64) as usize).copied().unwrap_or(0);
                (value >= *least) & (word >> (at % 64) & 1 == 1)
            })),
            Self::Integers(set) => Ok(BooleanBuffer::collect_bool(values.len(), |row| {
                set.contains(&values[row].into())
            })),
            _ => Err(mismatch()),
        }
    }

    fn contains_floats(
        &self,
        row_count: usize,
        value: impl Fn(usize) -> f64,
    ) -> Result<BooleanBuffer, VectorError> {
        match self {
            Self::Floats(set) => Ok(BooleanBuffer::collect_bool(row_count, |row| {
                set.contains(&float_key(value(row)))
            })),
            _ => Err(mismatch()),
        }
    }

    fn contains_numerics(&self, column: &NumericColumn) -> Result<BooleanBuffer, VectorError> {
        let Self::Numerics(set) = self else {
            return Err(mismatch());
        };
        let mut found = BooleanBufferBuilder::new(column.len());
        for row in 0..column.len() {
            found.append(match column.value(row) {
                Some(Numeric::Small { unscaled, scale }) => {
                    set.contains(&numeric_key(unscaled, scale))
                }
                // Of the values of the set none is as long, infinite or no number.
                Some(Numeric::Image(_)) => return Err(numeric_compare::IMAGE),
                None => false,
            });
        }
        Ok(found.finish())
    }

    fn contains_strings<'a>(
        &self,
        row_count: usize,
        value: impl Fn(usize) -> &'a [u8],
    ) -> Result<BooleanBuffer, VectorError> {
        match self {
            Self::Strings(set) => Ok(BooleanBuffer::collect_bool(row_count, |row| {
                set.contains(value(row))
            })),
            _ => Err(mismatch()),
        }
    }
}
