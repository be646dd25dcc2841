//! The zone map of a column in memory: typed arrays, so that a verdict on a zone allocates
//! nothing.

use std::cmp::Ordering;
use std::ops::Range;

use crate::ZONE_ROWS;
use crate::bounds::Bound;
use crate::stats::Zone;
use crate::types::ColumnType;
use crate::value::{Numeric, OwnedNumeric, OwnedValue, Value, compare};
use crate::verdict::Extent;

/// Lower and upper bounds of the zones that have any, by position among those.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ZoneBounds {
    /// Nothing is known.
    Unknown,
    /// Bools and integers, and decimals of one scale without it; exact.
    Integers {
        scale: u16,
        bounds: Box<[(i64, i64)]>,
    },
    /// Exact.
    Floats(Box<[(f64, f64)]>),
    /// The form for all other types.
    Values(Box<[(Option<Bound>, Option<Bound>)]>),
}

/// The zone map of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ZoneMap {
    pub(crate) ty: ColumnType,
    pub(crate) row_count: u32,
    pub(crate) nulls: ZoneNulls,
    /// Bit z: zone z has an entry in `bounds`.
    pub(crate) known: u16,
    pub(crate) bounds: ZoneBounds,
}

/// Nulls of the zones.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ZoneNulls {
    None,
    All,
    Counts(Box<[u16]>),
}

impl ZoneMap {
    /// Zones.
    pub(crate) fn len(&self) -> usize {
        (self.row_count as usize).div_ceil(ZONE_ROWS)
    }

    /// The rows of a zone.
    pub(crate) fn rows(&self, zone: usize) -> Range<usize> {
        let start = zone * ZONE_ROWS;
        start..(start + ZONE_ROWS).min(self.row_count as usize)
    }

    fn null_count(&self, zone: usize) -> usize {
        match &self.nulls {
            ZoneNulls::None => 0,
            ZoneNulls::All => self.rows(zone).len(),
            ZoneNulls::Counts(counts) => counts[zone].into(),
        }
    }

    /// The bounds of a zone.
    fn bounds(&self, zone: usize) -> (Option<Value<'_>>, Option<Value<'_>>) {
        if self.known >> zone & 1 == 0 {
            return (None, None);
        }
        let at = (self.known & ((1 << zone) - 1)).count_ones() as usize;
        match &self.bounds {
            ZoneBounds::Unknown => (None, None),
            ZoneBounds::Integers { scale, bounds } => {
                let (low, high) = bounds[at];
                (
                    Some(integer_value(self.ty, low, *scale)),
                    Some(integer_value(self.ty, high, *scale)),
                )
            }
            ZoneBounds::Floats(bounds) => {
                let (low, high) = bounds[at];
                (
                    Some(float_value(self.ty, low)),
                    Some(float_value(self.ty, high)),
                )
            }
            ZoneBounds::Values(bounds) => {
                let (low, high) = &bounds[at];
                (
                    low.as_ref().map(|bound| bound.value.as_value()),
                    high.as_ref().map(|bound| bound.value.as_value()),
                )
            }
        }
    }

    /// See [`ColumnStatistics::zones_ascend`](crate::ColumnStatistics::zones_ascend).
    pub(crate) fn ascend(&self) -> bool {
        let is = |a: Option<Value<'_>>, b: Option<Value<'_>>, wanted: fn(Ordering) -> bool| {
            a.zip(b)
                .and_then(|(a, b)| compare(a, b))
                .is_some_and(wanted)
        };
        let bounds = || (0..self.len()).map(|zone| self.bounds(zone));
        let ranges = bounds().filter(|&(min, max)| is(min, max, Ordering::is_lt));
        self.len() > 1
            && 2 * ranges.count() >= self.len()
            && bounds()
                .zip(bounds().skip(1))
                .all(|((_, max), (min, _))| is(max, min, Ordering::is_le))
    }

    /// What is known of the rows of a zone.
    ///
    /// # Panics
    ///
    /// Panics when there is no such zone.
    pub(crate) fn extent(&self, zone: usize) -> Extent<'_> {
        let (min, max) = self.bounds(zone);
        Extent {
            row_count: self.rows(zone).len(),
            null_count: self.null_count(zone),
            min,
            max,
        }
    }

    /// The zone with values of its own.
    pub(crate) fn zone(&self, zone: usize) -> Zone {
        let exact = |value: Option<Value<'_>>| {
            value.map(|value| Bound {
                value: value.into(),
                exact: true,
            })
        };
        let (min, max) = match &self.bounds {
            ZoneBounds::Values(bounds) if self.known >> zone & 1 == 1 => {
                let at = (self.known & ((1 << zone) - 1)).count_ones() as usize;
                bounds[at].clone()
            }
            _ => {
                let (min, max) = self.bounds(zone);
                (exact(min), exact(max))
            }
        };
        Zone {
            null_count: self.null_count(zone) as u32,
            row_count: self.rows(zone).len() as u32,
            min,
            max,
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let nulls = match &self.nulls {
            ZoneNulls::Counts(counts) => size_of_val(&**counts),
            _ => 0,
        };
        let bounds = match &self.bounds {
            ZoneBounds::Unknown => 0,
            ZoneBounds::Integers { bounds, .. } => size_of_val(&**bounds),
            ZoneBounds::Floats(bounds) => size_of_val(&**bounds),
            ZoneBounds::Values(bounds) => {
                let values: usize = bounds
                    .iter()
                    .flat_map(|(low, high)| [low, high])
                    .flatten()
                    .map(|bound| bound.value.heap_bytes())
                    .sum();
                size_of_val(&**bounds) + values
            }
        };
        nulls + bounds
    }
}

/// The integer behind a value of a bool, integer or decimal column, if it has 64 bits; the
/// scale of a decimal.
pub(crate) fn integer_of(value: &OwnedValue) -> Option<(i64, u16)> {
    Some(match value {
        OwnedValue::Bool(v) => ((*v).into(), 0),
        OwnedValue::Int16(v) => ((*v).into(), 0),
        OwnedValue::Int32(v) => ((*v).into(), 0),
        OwnedValue::Int64(v) => (*v, 0),
        OwnedValue::Numeric(OwnedNumeric::Small { unscaled, scale }) => {
            (i64::try_from(*unscaled).ok()?, *scale)
        }
        _ => return None,
    })
}

/// The value that [`integer_of`] took apart.
pub(crate) fn integer_value(ty: ColumnType, value: i64, scale: u16) -> Value<'static> {
    match ty {
        ColumnType::Bool => Value::Bool(value != 0),
        ColumnType::Int16 => Value::Int16(value as i16),
        ColumnType::Int32 => Value::Int32(value as i32),
        ColumnType::Numeric => Value::Numeric(Numeric::Small {
            unscaled: value.into(),
            scale,
        }),
        _ => Value::Int64(value),
    }
}

/// A float of the column's type.
fn float_value(ty: ColumnType, value: f64) -> Value<'static> {
    match ty {
        ColumnType::Float32 => Value::Float32(value as f32),
        _ => Value::Float64(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ascend(zones: &[Option<(i64, i64)>]) -> bool {
        let known = |(zone, bounds): (usize, &Option<_>)| u16::from(bounds.is_some()) << zone;
        let map = ZoneMap {
            ty: ColumnType::Int64,
            row_count: (zones.len() * ZONE_ROWS) as u32 - 5,
            nulls: ZoneNulls::None,
            known: zones.iter().enumerate().map(known).sum(),
            bounds: ZoneBounds::Integers {
                scale: 0,
                bounds: zones.iter().flatten().copied().collect(),
            },
        };
        map.ascend()
    }

    #[test]
    fn zones_ascend_that_do_not_reach_into_the_next_one() {
        assert!(ascend(&[Some((1, 5)), Some((5, 7)), Some((8, 8))]));
        assert!(!ascend(&[Some((1, 5)), Some((4, 7)), Some((8, 8))]));
        assert!(!ascend(&[Some((8, 9)), Some((1, 5))]));
    }

    #[test]
    fn one_zone_and_zones_of_one_value_tell_nothing() {
        assert!(!ascend(&[Some((1, 5))]));
        assert!(!ascend(&[Some((3, 3)), Some((3, 3)), Some((3, 4))]));
    }

    #[test]
    fn a_zone_without_bounds_may_reach_anywhere() {
        assert!(!ascend(&[Some((1, 2)), None, Some((5, 6))]));
    }
}
