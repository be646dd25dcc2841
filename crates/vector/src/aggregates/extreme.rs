//! `min` and `max`, in PostgreSQL's order of each type: NaN is the greatest float, text and bytes
//! are ordered bytewise, numerics by value.

use std::cmp::Ordering;

use arrow_array::{Float32Array, Float64Array, Int16Array, Int32Array, Int64Array};
use arrow_buffer::NullBuffer;
use howdah_columnar::{
    ChunkStats, Column, ColumnType, Numeric, NumericColumn, NumericDigits, NumericScales,
    OwnedNumeric, OwnedValue, Value, compare,
};

use super::kernel::{GroupIds, Rows, each, each_row, fold};
use super::{Accumulator, Finish, Pair, same, wrong_type};
use crate::error::VectorError;
use crate::runtime::ResultColumn;

/// The accumulator of a type that has an order here.
pub(super) fn accumulator(greatest: bool, ty: ColumnType) -> Option<Box<dyn Accumulator>> {
    fn scalar<T: Scalar>(greatest: bool) -> Box<dyn Accumulator> {
        Box::new(Extreme::<T> {
            states: Vec::new(),
            greatest,
        })
    }
    Some(match ty {
        ColumnType::Int16 => scalar::<i16>(greatest),
        ColumnType::Int32 => scalar::<i32>(greatest),
        ColumnType::Int64 => scalar::<i64>(greatest),
        ColumnType::Float32 => scalar::<f32>(greatest),
        ColumnType::Float64 => scalar::<f64>(greatest),
        ColumnType::Numeric => Box::new(DecimalExtreme {
            states: Vec::new(),
            greatest,
        }),
        ColumnType::Text | ColumnType::Bytes => Box::new(BytesExtreme {
            states: Vec::new(),
            held_bytes: 0,
            greatest,
            ty,
        }),
        ColumnType::Bool | ColumnType::Fixed { .. } => return None,
    })
}

/// A number of fixed width.
trait Scalar: Copy + Send + Sync + 'static {
    /// No value is less.
    const LEAST: Self;
    /// No value is greater.
    const GREATEST: Self;

    fn is_less(self, other: Self) -> bool;

    fn is_more(self, other: Self) -> bool;

    /// The lesser one.
    #[inline(always)]
    fn least(self, other: Self) -> Self {
        if other.is_less(self) { other } else { self }
    }

    /// The greater one.
    #[inline(always)]
    fn greatest(self, other: Self) -> Self {
        if other.is_more(self) { other } else { self }
    }

    fn values(column: &Column) -> Option<&[Self]>;

    fn of(value: &OwnedValue) -> Option<Self>;

    fn column(values: impl Iterator<Item = Option<Self>>) -> Column;
}

macro_rules! impl_scalar {
    ($ty:ty, $variant:ident, $array:ty, $least:expr, $greatest:expr, $less:expr, $more:expr) => {
        impl Scalar for $ty {
            const LEAST: Self = $least;
            const GREATEST: Self = $greatest;

            #[inline(always)]
            fn is_less(self, other: Self) -> bool {
                let less: fn(Self, Self) -> bool = $less;
                less(self, other)
            }

            #[inline(always)]
            fn is_more(self, other: Self) -> bool {
                let more: fn(Self, Self) -> bool = $more;
                more(self, other)
            }

            fn values(column: &Column) -> Option<&[Self]> {
                match column {
                    Column::$variant(values) => Some(values.values()),
                    _ => None,
                }
            }

            fn of(value: &OwnedValue) -> Option<Self> {
                match value {
                    OwnedValue::$variant(value) => Some(*value),
                    _ => None,
                }
            }

            fn column(values: impl Iterator<Item = Option<Self>>) -> Column {
                Column::$variant(values.collect::<$array>())
            }
        }
    };
}

macro_rules! impl_integer {
    ($ty:ty, $variant:ident, $array:ty) => {
        impl_scalar!(
            $ty,
            $variant,
            $array,
            <$ty>::MIN,
            <$ty>::MAX,
            |a, b| a < b,
            |a, b| a > b
        );
    };
}

macro_rules! impl_float {
    ($ty:ty, $variant:ident, $array:ty) => {
        impl_scalar!(
            $ty,
            $variant,
            $array,
            <$ty>::NEG_INFINITY,
            <$ty>::NAN,
            |a, b| (a < b) | (b.is_nan() & !a.is_nan()),
            |a, b| (a > b) | (a.is_nan() & !b.is_nan())
        );
    };
}

impl_integer!(i16, Int16, Int16Array);
impl_integer!(i32, Int32, Int32Array);
impl_integer!(i64, Int64, Int64Array);
impl_float!(f32, Float32, Float32Array);
impl_float!(f64, Float64, Float64Array);

/// The least or greatest number.
#[derive(Debug)]
struct Extreme<T> {
    states: Vec<T>,
    greatest: bool,
}

impl<T: Scalar> Extreme<T> {
    fn identity(&self) -> T {
        if self.greatest { T::LEAST } else { T::GREATEST }
    }

    fn add(&mut self, group: usize, value: T) {
        let state = &mut self.states[group];
        *state = match self.greatest {
            true => state.greatest(value),
            false => state.least(value),
        };
    }
}

impl<T: Scalar> Accumulator for Extreme<T> {
    fn resize(&mut self, group_count: usize) {
        self.states.resize(group_count, self.identity());
    }

    fn update(
        &mut self,
        groups: GroupIds<'_>,
        rows: Rows<'_>,
        values: &Column,
        _counts: &dyn Fn(usize) -> i64,
    ) -> Result<(), VectorError> {
        let Some(values) = T::values(values) else {
            return wrong_type();
        };
        match (groups, self.greatest) {
            (GroupIds::One(group), true) => {
                let value = fold(rows, values, T::LEAST, T::greatest, T::greatest);
                self.add(group as usize, value);
            }
            (GroupIds::One(group), false) => {
                let value = fold(rows, values, T::GREATEST, T::least, T::least);
                self.add(group as usize, value);
            }
            (_, true) => each(&mut self.states, groups, rows, values, |state, value| {
                *state = state.greatest(value);
            }),
            (_, false) => each(&mut self.states, groups, rows, values, |state, value| {
                *state = state.least(value);
            }),
        }
        Ok(())
    }

    fn is_settled(&self, least: &OwnedValue, greatest: &OwnedValue) -> bool {
        let best = T::of(if self.greatest { greatest } else { least });
        let is_better = |best: T, state: T| match self.greatest {
            true => best.is_more(state),
            false => best.is_less(state),
        };
        best.is_some_and(|best| !self.states.iter().any(|&state| is_better(best, state)))
    }

    fn merge(&mut self, other: &dyn Accumulator, pairs: &[Pair]) -> Result<(), VectorError> {
        let other: &Self = same(other)?;
        for pair in pairs {
            self.add(pair.to as usize, other.states[pair.from as usize]);
        }
        Ok(())
    }

    fn add_statistics(&mut self, group: usize, stats: &ChunkStats) -> Result<(), VectorError> {
        if let Some(value) = extreme_of(stats, self.greatest)? {
            match T::of(value) {
                Some(value) => self.add(group, value),
                None => return wrong_type(),
            }
        }
        Ok(())
    }

    fn finish(
        &self,
        groups: &[u32],
        counts: &[i64],
        _finish: Finish,
    ) -> Result<ResultColumn, VectorError> {
        let states = groups.iter().zip(counts);
        let states =
            states.map(|(&group, &count)| (count > 0).then_some(self.states[group as usize]));
        Ok(ResultColumn::Values(T::column(states)))
    }

    fn memory_bytes(&self) -> usize {
        self.states.capacity() * size_of::<T>()
    }
}

/// The extreme of a chunk; `None` if all rows are null.
fn extreme_of(stats: &ChunkStats, greatest: bool) -> Result<Option<&OwnedValue>, VectorError> {
    let extreme = if greatest { &stats.max } else { &stats.min };
    match extreme {
        None if stats.null_count < stats.row_count => Err(VectorError::Unsupported {
            what: "an extreme that statistics do not have",
        }),
        extreme => Ok(extreme.as_ref()),
    }
}

/// The least or greatest numeric: digits and scale. Of equal values the shortest one is kept, so
/// that the result does not depend on the order of rows.
#[derive(Debug)]
struct DecimalExtreme {
    states: Vec<Option<(i128, u16)>>,
    greatest: bool,
}

impl DecimalExtreme {
    fn add(&mut self, group: usize, value: (i128, u16)) {
        let wanted = match self.greatest {
            true => Ordering::Greater,
            false => Ordering::Less,
        };
        let better = self.states[group].is_none_or(|state| {
            let order = match value.1 == state.1 {
                true => value.0.cmp(&state.0),
                false => compare(small(value), small(state)).unwrap_or(Ordering::Equal),
            };
            order == wanted || order == Ordering::Equal && value.1 < state.1
        });
        if better {
            self.states[group] = Some(value);
        }
    }
}

fn small((unscaled, scale): (i128, u16)) -> Value<'static> {
    Value::Numeric(Numeric::Small { unscaled, scale })
}

const IMAGE: VectorError = VectorError::Unsupported {
    what: "a numeric of more than 38 digits, NaN or infinite",
};

impl Accumulator for DecimalExtreme {
    fn resize(&mut self, group_count: usize) {
        self.states.resize(group_count, None);
    }

    fn update(
        &mut self,
        groups: GroupIds<'_>,
        rows: Rows<'_>,
        values: &Column,
        _counts: &dyn Fn(usize) -> i64,
    ) -> Result<(), VectorError> {
        let Column::Numeric(values) = values else {
            return wrong_type();
        };
        each_row(groups, rows, |group, row| {
            match values.value(row) {
                Some(Numeric::Small { unscaled, scale }) => self.add(group, (unscaled, scale)),
                Some(Numeric::Image(_)) => return Err(IMAGE),
                None => {}
            }
            Ok(())
        })
    }

    fn merge(&mut self, other: &dyn Accumulator, pairs: &[Pair]) -> Result<(), VectorError> {
        let other: &Self = same(other)?;
        for pair in pairs {
            if let Some(value) = other.states[pair.from as usize] {
                self.add(pair.to as usize, value);
            }
        }
        Ok(())
    }

    fn add_statistics(&mut self, group: usize, stats: &ChunkStats) -> Result<(), VectorError> {
        match extreme_of(stats, self.greatest)? {
            Some(OwnedValue::Numeric(OwnedNumeric::Small { unscaled, scale })) => {
                self.add(group, (*unscaled, *scale));
                Ok(())
            }
            Some(_) => Err(IMAGE),
            None => Ok(()),
        }
    }

    fn finish(
        &self,
        groups: &[u32],
        _counts: &[i64],
        _finish: Finish,
    ) -> Result<ResultColumn, VectorError> {
        let states = groups.iter().map(|&group| self.states[group as usize]);
        let digits: Vec<i128> = states.clone().map(|s| s.map_or(0, |s| s.0)).collect();
        let scales: Vec<u16> = states.clone().map(|s| s.map_or(0, |s| s.1)).collect();
        let nulls = NullBuffer::from_iter(states.map(|state| state.is_some()));
        let column = NumericColumn::new(
            NumericDigits::Wide(digits.into()),
            NumericScales::PerRow(scales.into()),
            Vec::new(),
            None,
            (nulls.null_count() > 0).then_some(nulls),
        )?;
        Ok(ResultColumn::Values(Column::Numeric(column)))
    }

    fn memory_bytes(&self) -> usize {
        self.states.capacity() * size_of::<Option<(i128, u16)>>()
    }
}

/// The least or greatest text or bytes.
#[derive(Debug)]
struct BytesExtreme {
    states: Vec<Option<Box<[u8]>>>,
    held_bytes: usize,
    greatest: bool,
    ty: ColumnType,
}

impl BytesExtreme {
    fn add(&mut self, group: usize, value: &[u8]) {
        let state = &mut self.states[group];
        let better = state.as_deref().is_none_or(|state| match self.greatest {
            true => value > state,
            false => value < state,
        });
        if better {
            self.held_bytes += value.len();
            self.held_bytes -= state.as_deref().map_or(0, <[u8]>::len);
            *state = Some(value.into());
        }
    }
}

impl Accumulator for BytesExtreme {
    fn resize(&mut self, group_count: usize) {
        self.states.resize(group_count, None);
    }

    fn update(
        &mut self,
        groups: GroupIds<'_>,
        rows: Rows<'_>,
        values: &Column,
        _counts: &dyn Fn(usize) -> i64,
    ) -> Result<(), VectorError> {
        match values {
            Column::Text(values) => each_row(groups, rows, |group, row| {
                self.add(group, values.value(row).as_bytes());
                Ok(())
            }),
            Column::Bytes(values) => each_row(groups, rows, |group, row| {
                self.add(group, values.value(row));
                Ok(())
            }),
            _ => wrong_type(),
        }
    }

    fn merge(&mut self, other: &dyn Accumulator, pairs: &[Pair]) -> Result<(), VectorError> {
        let other: &Self = same(other)?;
        for pair in pairs {
            if let Some(value) = &other.states[pair.from as usize] {
                self.add(pair.to as usize, value);
            }
        }
        Ok(())
    }

    fn add_statistics(&mut self, group: usize, stats: &ChunkStats) -> Result<(), VectorError> {
        match extreme_of(stats, self.greatest)? {
            Some(OwnedValue::Text(value)) => self.add(group, value.as_bytes()),
            Some(OwnedValue::Bytes(value)) => self.add(group, value),
            Some(_) => return wrong_type(),
            None => {}
        }
        Ok(())
    }

    fn finish(
        &self,
        groups: &[u32],
        _counts: &[i64],
        _finish: Finish,
    ) -> Result<ResultColumn, VectorError> {
        let states = groups
            .iter()
            .map(|&group| self.states[group as usize].as_deref());
        column_of_bytes(self.ty, states).map(ResultColumn::Values)
    }

    fn memory_bytes(&self) -> usize {
        self.states.capacity() * size_of::<Option<Box<[u8]>>>() + self.held_bytes
    }
}

/// A column of text, bytes or fixed values.
pub(crate) fn column_of_bytes<'a>(
    ty: ColumnType,
    values: impl Iterator<Item = Option<&'a [u8]>>,
) -> Result<Column, VectorError> {
    let mut is_text = true;
    let values = values.map(|value| {
        let value = value?;
        Some(match ty {
            ColumnType::Text => Value::Text(std::str::from_utf8(value).unwrap_or_else(|_| {
                is_text = false;
                ""
            })),
            _ => Value::Bytes(value),
        })
    });
    let column = Column::from_values(ty, values)?;
    match is_text {
        true => Ok(column),
        false => Err(VectorError::Unsupported {
            what: "text that is not UTF-8",
        }),
    }
}
