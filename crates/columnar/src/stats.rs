//! Statistics of a column chunk and its zone map, gathered while the rows are still typed.
//!
//! Everything is exact except the distinct count (HyperLogLog, about 1.6 % off) and the
//! zone bounds of long text and bytes, which are rounded, see [`Bound`].

use std::cmp::Ordering;

use crate::ZONE_ROWS;
use crate::bounds::{Bound, cut_between, lower_bound, upper_bound};
use crate::builder::{
    BytesBuilder, ColumnBuilder, Digits, NumericBuilder, Scales, ValidityBuilder,
};
use crate::distinct::DistinctSketch;
use crate::value::{Numeric, OwnedValue, Value, compare, compare_floats};

/// Longest minimum or maximum of a chunk that is kept, in bytes; longer ones are unknown.
pub(crate) const EXTREME_BYTES: usize = 256;

/// Statistics of one column chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkStats {
    /// Rows in the chunk, null or not.
    pub row_count: usize,
    /// Rows that are null.
    pub null_count: usize,
    /// The smallest value, exact; `None` when there is none or it is not kept (long
    /// values, numeric images).
    pub min: Option<OwnedValue>,
    /// The greatest value, like `min`.
    pub max: Option<OwnedValue>,
    /// The exact sum of an integer column, or of the unscaled values of a numeric column
    /// of one scale; `None` for other columns, when every row is null, and on overflow.
    pub sum: Option<i128>,
    /// The scale that `sum` has: 0 for integers.
    pub sum_scale: u16,
    /// The approximate number of different values.
    pub distinct_estimate: Option<u64>,
    /// Bytes of the rows before encoding.
    pub raw_bytes: u64,
}

impl ChunkStats {
    /// Memory held beyond the statistics themselves.
    pub(crate) fn heap_bytes(&self) -> usize {
        [&self.min, &self.max]
            .into_iter()
            .flatten()
            .map(OwnedValue::heap_bytes)
            .sum()
    }
}

/// Statistics of [`ZONE_ROWS`] consecutive rows of a column (fewer in the last zone).
#[derive(Clone, Debug, PartialEq)]
pub struct Zone {
    /// Rows that are null.
    pub null_count: u32,
    /// Rows in the zone.
    pub row_count: u32,
    /// Lower bound of the values; `None` when unknown or when every row is null.
    pub min: Option<Bound>,
    /// Upper bound of the values; `None` when unknown or when every row is null.
    pub max: Option<Bound>,
}

/// Properties of a chunk's values that decide how a predicate may be evaluated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueFlags {
    /// A float chunk holds a NaN.
    pub(crate) has_nan: bool,
    /// A float chunk holds a -0.0.
    pub(crate) has_negative_zero: bool,
}

/// All that the footer says about a column's values.
#[derive(Debug)]
pub(crate) struct ColumnStats {
    pub(crate) chunk: ChunkStats,
    pub(crate) zones: Vec<Zone>,
    pub(crate) flags: ValueFlags,
}

/// Gathers the statistics of every row of a column.
pub(crate) fn gather(column: &ColumnBuilder) -> ColumnStats {
    let validity = column.validity();
    let mut flags = ValueFlags::default();
    let (mut extremes, sum, distinct) = match column {
        ColumnBuilder::Bool(b) => (
            zones_of(validity, |row| Some(Value::Bool(b.values[row]))),
            None,
            distinct_of(validity, |sketch, row| {
                sketch.add_integer(b.values[row].into())
            }),
        ),
        ColumnBuilder::Int16(b) => of_integers(&b.values, validity, Value::Int16),
        ColumnBuilder::Int32(b) => of_integers(&b.values, validity, Value::Int32),
        ColumnBuilder::Int64(b) => of_integers(&b.values, validity, Value::Int64),
        ColumnBuilder::Float32(b) => {
            flags = float_flags(b.values.iter().map(|&v| v.into()), validity);
            of_floats(&b.values, validity, |v| v.into(), Value::Float32)
        }
        ColumnBuilder::Float64(b) => {
            flags = float_flags(b.values.iter().copied(), validity);
            of_floats(&b.values, validity, |v| v, Value::Float64)
        }
        ColumnBuilder::Numeric(b) => of_numerics(b),
        ColumnBuilder::Text(b) => of_bytes(b, |v| std::str::from_utf8(v).ok().map(Value::Text)),
        ColumnBuilder::Bytes(b) | ColumnBuilder::Fixed(_, b) => {
            of_bytes(b, |v| Some(Value::Bytes(v)))
        }
    };
    let row_count = validity.len();
    let null_count = validity.null_count();
    let (min, max) = chunk_extremes(&extremes, null_count == row_count);
    extremes.iter_mut().for_each(ZoneExtremes::drop_unknown);
    let cut = cut_of(&extremes);
    let (sum, sum_scale) = match sum {
        Some((sum, scale)) if null_count < row_count => (Some(sum), scale),
        _ => (None, 0),
    };
    ColumnStats {
        chunk: ChunkStats {
            row_count,
            null_count,
            min,
            max,
            sum,
            sum_scale,
            distinct_estimate: Some(distinct.min((row_count - null_count) as u64)),
            raw_bytes: column.heap_bytes() as u64,
        },
        zones: extremes
            .into_iter()
            .map(|zone| zone.into_zone(cut))
            .collect(),
        flags,
    }
}

/// The extremes of one zone, still exact and of full length.
struct ZoneExtremes<'a> {
    row_count: u32,
    null_count: u32,
    min: Option<Value<'a>>,
    max: Option<Value<'a>>,
    /// A value without an order was found: nothing is known.
    unknown: bool,
}

impl ZoneExtremes<'_> {
    fn drop_unknown(&mut self) {
        if self.unknown {
            self.min = None;
            self.max = None;
        }
    }

    /// `cut`: how long bounds of long values are.
    fn into_zone(self, cut: usize) -> Zone {
        Zone {
            null_count: self.null_count,
            row_count: self.row_count,
            min: self.min.map(|min| lower_bound(min, cut)),
            max: self.max.and_then(|max| upper_bound(max, cut)),
        }
    }
}

/// See [`cut_between`].
fn cut_of(zones: &[ZoneExtremes<'_>]) -> usize {
    let order = |a: &Value<'_>, b: &Value<'_>| compare(*a, *b).unwrap_or(Ordering::Equal);
    let least = zones.iter().filter_map(|zone| zone.min).min_by(order);
    let greatest = zones.iter().filter_map(|zone| zone.max).max_by(order);
    match (least, greatest) {
        (Some(least), Some(greatest)) => cut_between(least, greatest),
        _ => 0,
    }
}

type Gathered<'a> = (Vec<ZoneExtremes<'a>>, Option<(i128, u16)>, u64);

/// The plain form: `get` gives the value of a valid row, `None` one without an order.
fn zones_of<'a>(
    validity: &ValidityBuilder,
    get: impl Fn(usize) -> Option<Value<'a>>,
) -> Vec<ZoneExtremes<'a>> {
    each_zone(validity, |rows, zone| {
        for row in rows {
            if !validity.is_valid(row) {
                continue;
            }
            let Some(value) = get(row) else {
                zone.unknown = true;
                continue;
            };
            if zone
                .min
                .is_none_or(|min| compare(value, min) == Some(Ordering::Less))
            {
                zone.min = Some(value);
            }
            if zone
                .max
                .is_none_or(|max| compare(value, max) == Some(Ordering::Greater))
            {
                zone.max = Some(value);
            }
        }
    })
}

fn each_zone<'a>(
    validity: &ValidityBuilder,
    mut fill: impl FnMut(std::ops::Range<usize>, &mut ZoneExtremes<'a>),
) -> Vec<ZoneExtremes<'a>> {
    (0..validity.len())
        .step_by(ZONE_ROWS)
        .map(|start| {
            let end = (start + ZONE_ROWS).min(validity.len());
            let null_count = match validity.words() {
                None => 0,
                Some(words) => {
                    let words = &words[start / 64..end.div_ceil(64)];
                    let valid: u32 = words.iter().map(|word| word.count_ones()).sum();
                    (end - start) as u32 - valid
                }
            };
            let mut zone = ZoneExtremes {
                row_count: (end - start) as u32,
                null_count,
                min: None,
                max: None,
                unknown: false,
            };
            if null_count < zone.row_count {
                fill(start..end, &mut zone);
            }
            zone
        })
        .collect()
}

fn of_integers<'a, T: Copy + Ord + Into<i64>>(
    values: &[T],
    validity: &ValidityBuilder,
    wrap: impl Fn(T) -> Value<'a>,
) -> Gathered<'a> {
    let mut sum = 0i128;
    let zones = each_zone(validity, |rows, zone| {
        let (mut min, mut max) = (None, None);
        if zone.null_count == 0 {
            // No null: loops without branches.
            let values = &values[rows];
            min = values.iter().copied().min();
            max = values.iter().copied().max();
            sum += match size_of::<T>() < size_of::<i64>() {
                // A zone's sum of narrower integers is one of 64 bits.
                true => i128::from(values.iter().map(|&v| v.into()).sum::<i64>()),
                false => values.iter().map(|&v| i128::from(v.into())).sum::<i128>(),
            };
        } else {
            for row in rows.filter(|&row| validity.is_valid(row)) {
                let value = values[row];
                min = Some(min.map_or(value, |min: T| min.min(value)));
                max = Some(max.map_or(value, |max: T| max.max(value)));
                sum += i128::from(value.into());
            }
        }
        zone.min = min.map(&wrap);
        zone.max = max.map(&wrap);
    });
    let distinct = distinct_values(values, validity, |sketch, value| {
        sketch.add_integer(value.into());
    });
    (zones, Some((sum, 0)), distinct)
}

fn of_floats<'a, T: Copy>(
    values: &[T],
    validity: &ValidityBuilder,
    widen: impl Fn(T) -> f64,
    wrap: impl Fn(T) -> Value<'a>,
) -> Gathered<'a> {
    let zones = each_zone(validity, |rows, zone| {
        let mut extremes: Option<(T, T)> = None;
        if zone.null_count == 0 && !values[rows.clone()].iter().any(|&v| widen(v).is_nan()) {
            let first = values[rows.start];
            // Loops without branches. Equal values keep the first of them, as below.
            let least = |a, b| if widen(b) < widen(a) { b } else { a };
            let greatest = |a, b| if widen(b) > widen(a) { b } else { a };
            let values = &values[rows];
            zone.min = Some(wrap(values.iter().copied().fold(first, least)));
            zone.max = Some(wrap(values.iter().copied().fold(first, greatest)));
            return;
        }
        for row in rows.filter(|&row| validity.is_valid(row)) {
            let value = values[row];
            extremes = Some(match extremes {
                None => (value, value),
                Some((min, max)) => (
                    match compare_floats(widen(value), widen(min)) {
                        Ordering::Less => value,
                        _ => min,
                    },
                    match compare_floats(widen(value), widen(max)) {
                        Ordering::Greater => value,
                        _ => max,
                    },
                ),
            });
        }
        zone.min = extremes.map(|(min, _)| wrap(min));
        zone.max = extremes.map(|(_, max)| wrap(max));
    });
    let distinct = distinct_values(values, validity, |sketch, value| {
        sketch.add_float(widen(value));
    });
    (zones, None, distinct)
}

/// Text and bytes are ordered bytewise; only the least and the greatest value are wrapped.
fn of_bytes<'a>(
    builder: &'a BytesBuilder,
    wrap: impl Fn(&'a [u8]) -> Option<Value<'a>>,
) -> Gathered<'a> {
    let validity = &builder.validity;
    let zones = each_zone(validity, |rows, zone| {
        let mut extremes: Option<(&[u8], &[u8])> = None;
        for value in rows.filter_map(|row| builder.value(row)) {
            extremes = Some(match extremes {
                None => (value, value),
                Some((min, max)) if value < min => (value, max),
                Some((min, max)) => (min, if value > max { value } else { max }),
            });
        }
        zone.min = extremes.and_then(|(min, _)| wrap(min));
        zone.max = extremes.and_then(|(_, max)| wrap(max));
        zone.unknown = zone.min.is_none() || zone.max.is_none();
    });
    let distinct = distinct_of(validity, |sketch, row| {
        sketch.add_bytes(builder.value(row).unwrap_or_default());
    });
    (zones, None, distinct)
}

fn float_flags(values: impl Iterator<Item = f64>, validity: &ValidityBuilder) -> ValueFlags {
    let mut flags = ValueFlags::default();
    for (row, value) in values.enumerate() {
        let valid = validity.is_valid(row);
        flags.has_nan |= valid & value.is_nan();
        flags.has_negative_zero |= valid & (value.to_bits() == (-0.0f64).to_bits());
    }
    flags
}

fn of_numerics(builder: &NumericBuilder) -> Gathered<'_> {
    let validity = &builder.validity;
    if let (Digits::Narrow(rows), Scales::Constant(scale)) = (&builder.digits, &builder.scales)
        && builder.image_rows.is_empty()
    {
        let scale = scale.unwrap_or(0);
        let wrap = |v: i64| {
            Value::Numeric(Numeric::Small {
                unscaled: v.into(),
                scale,
            })
        };
        let (zones, sum, distinct) = of_integers(rows, validity, wrap);
        return (zones, sum.map(|(sum, _)| (sum, scale)), distinct);
    }
    let zones = zones_of(validity, |row| match builder.value(row) {
        Some(Numeric::Image(_)) | None => None,
        small => small.map(Value::Numeric),
    });
    let sum = match (&builder.digits, &builder.scales) {
        _ if !builder.image_rows.is_empty() => None,
        (Digits::Wide(rows), Scales::Constant(Some(scale))) => rows
            .iter()
            .try_fold(0i128, |sum, &v| sum.checked_add(v))
            .map(|sum| (sum, *scale)),
        _ => None,
    };
    let distinct = distinct_of(validity, |sketch, row| match builder.value(row) {
        Some(Numeric::Small { unscaled, scale }) => sketch.add_decimal(unscaled, scale),
        Some(Numeric::Image(image)) => sketch.add_bytes(image),
        None => {}
    });
    (zones, sum, distinct)
}

fn distinct_of(validity: &ValidityBuilder, mut add: impl FnMut(&mut DistinctSketch, usize)) -> u64 {
    let mut sketch = DistinctSketch::default();
    for row in (0..validity.len()).filter(|&row| validity.is_valid(row)) {
        add(&mut sketch, row);
    }
    sketch.estimate()
}

/// As [`distinct_of`], of values that lie one behind the other.
fn distinct_values<T: Copy>(
    values: &[T],
    validity: &ValidityBuilder,
    mut add: impl FnMut(&mut DistinctSketch, T),
) -> u64 {
    if validity.null_count() > 0 {
        return distinct_of(validity, |sketch, row| add(sketch, values[row]));
    }
    let mut sketch = DistinctSketch::default();
    for &value in values {
        add(&mut sketch, value);
    }
    sketch.estimate()
}

fn chunk_extremes(
    zones: &[ZoneExtremes<'_>],
    all_null: bool,
) -> (Option<OwnedValue>, Option<OwnedValue>) {
    if all_null || zones.iter().any(|zone| zone.unknown) {
        return (None, None);
    }
    let pick = |values: &mut dyn Iterator<Item = Value<'_>>, wanted: Ordering| {
        let mut best: Option<OwnedValue> = None;
        for value in values {
            if best
                .as_ref()
                .is_none_or(|best| compare(value, best.as_value()) == Some(wanted))
            {
                best = Some(value.into());
            }
        }
        best.filter(|best| length_of(best.as_value()) <= EXTREME_BYTES)
    };
    (
        pick(
            &mut zones.iter().filter_map(|zone| zone.min),
            Ordering::Less,
        ),
        pick(
            &mut zones.iter().filter_map(|zone| zone.max),
            Ordering::Greater,
        ),
    )
}

fn length_of(value: Value<'_>) -> usize {
    match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}
