//! The statistics section of a column: counts, sum, extremes and the zone map, as records.
//!
//! Zone bounds are stored relative to the extremes of the chunk where those are integers, with as
//! few bytes as the greatest distance needs; text and bytes share the beginnings of the bounds of
//! the zones before.

use super::wire::{Reader, ensure, put_bytes, put_signed, put_varint};
use crate::ZONE_ROWS;
use crate::bounds::Bound;
use crate::error::ColumnarError;
use crate::nodes::FIRST_OPTIONAL_RECORD;
use crate::stats::{ChunkStats, Zone};
use crate::types::ColumnType;
use crate::value::{Numeric, OwnedNumeric, OwnedValue, Value};
use crate::zones::{ZoneBounds, ZoneMap, ZoneNulls, integer_of, integer_value};

const RECORD_COUNTS: u8 = 1;
const RECORD_SUM: u8 = 2;
const RECORD_EXTREMES: u8 = 3;
const RECORD_ZONE_NULLS: u8 = 4;
const RECORD_ZONE_BOUNDS: u8 = 5;

const FORM_INTEGERS: u8 = 1;
const FORM_FLOATS: u8 = 2;
const FORM_NARROW_FLOATS: u8 = 3;
const FORM_VALUES: u8 = 4;

const BOUND_UNKNOWN: u8 = 0;
const BOUND_EXACT: u8 = 1;
const BOUND_ROUNDED: u8 = 2;

/// The least and greatest value of a chunk, as far as they are kept.
type Extremes<'a> = (Option<&'a OwnedValue>, Option<&'a OwnedValue>);

/// Appends the statistics section of a column.
pub(super) fn write(out: &mut Vec<u8>, ty: ColumnType, stats: &ChunkStats, zones: &[Zone]) {
    let mut record = Vec::new();
    let put = |out: &mut Vec<u8>, kind: u8, record: &mut Vec<u8>| {
        out.push(kind);
        put_varint(out, record.len() as u64);
        out.append(record);
    };
    put_varint(&mut record, stats.null_count as u64);
    put_varint(&mut record, stats.raw_bytes);
    put_varint(
        &mut record,
        stats.distinct_estimate.map_or(0, |count| count + 1),
    );
    put(out, RECORD_COUNTS, &mut record);
    if let Some(sum) = stats.sum {
        put_signed(&mut record, sum);
        put_varint(&mut record, stats.sum_scale.into());
        put(out, RECORD_SUM, &mut record);
    }
    if stats.min.is_some() || stats.max.is_some() {
        for extreme in [&stats.min, &stats.max] {
            record.push(extreme.is_some().into());
            if let Some(value) = extreme {
                put_value(&mut record, value.as_value());
            }
        }
        put(out, RECORD_EXTREMES, &mut record);
    }
    if (1..stats.row_count).contains(&stats.null_count) && zones.len() > 1 {
        for zone in zones {
            record.extend_from_slice(&(zone.null_count as u16).to_le_bytes());
        }
        put(out, RECORD_ZONE_NULLS, &mut record);
    }
    if zones
        .iter()
        .any(|zone| zone.min.is_some() || zone.max.is_some())
    {
        put_bounds(
            &mut record,
            ty,
            (stats.min.as_ref(), stats.max.as_ref()),
            zones,
        );
        put(out, RECORD_ZONE_BOUNDS, &mut record);
    }
}

/// Reads the statistics section of a column.
pub(super) fn parse(
    bytes: &[u8],
    ty: ColumnType,
    row_count: usize,
) -> Result<(ChunkStats, ZoneMap), ColumnarError> {
    let mut section = Reader::new(bytes);
    let mut stats = ChunkStats {
        row_count,
        null_count: 0,
        min: None,
        max: None,
        sum: None,
        sum_scale: 0,
        distinct_estimate: None,
        raw_bytes: 0,
    };
    let mut zones = ZoneMap {
        ty,
        row_count: row_count as u32,
        nulls: ZoneNulls::None,
        known: 0,
        bounds: ZoneBounds::Unknown,
    };
    let mut counted = false;
    while !section.is_empty() {
        let (kind, mut record) = section.record()?;
        match kind {
            RECORD_COUNTS => {
                counted = true;
                stats.null_count = record.count()? as usize;
                stats.raw_bytes = record.varint()?;
                stats.distinct_estimate = record.varint()?.checked_sub(1);
            }
            RECORD_SUM => {
                stats.sum = Some(record.signed()?);
                stats.sum_scale = u16::try_from(record.count()?)
                    .map_err(|_| ColumnarError::corrupt("the scale of a sum is too large"))?;
            }
            RECORD_EXTREMES => {
                stats.min = extreme(&mut record, ty)?;
                stats.max = extreme(&mut record, ty)?;
            }
            RECORD_ZONE_NULLS => {
                let counts = (0..zones.len())
                    .map(|_| record.u16())
                    .collect::<Result<Box<[u16]>, _>>()?;
                zones.nulls = ZoneNulls::Counts(counts);
            }
            RECORD_ZONE_BOUNDS => {
                let extremes = (stats.min.as_ref(), stats.max.as_ref());
                (zones.known, zones.bounds) = bounds(&mut record, ty, extremes, zones.len())?;
            }
            FIRST_OPTIONAL_RECORD.. => continue,
            kind => return Err(ColumnarError::newer("column record", kind.into())),
        }
        record.finish()?;
    }
    ensure(
        counted && stats.null_count <= row_count,
        "counts in footer are wrong",
    )?;
    check_nulls(&mut zones, stats.null_count)?;
    Ok((stats, zones))
}

/// Zone null counts are left out where they follow from the chunk's.
fn check_nulls(zones: &mut ZoneMap, null_count: usize) -> Result<(), ColumnarError> {
    let row_count = zones.row_count as usize;
    match &zones.nulls {
        ZoneNulls::Counts(counts) => {
            let fit = counts
                .iter()
                .enumerate()
                .all(|(zone, &count)| usize::from(count) <= zones.rows(zone).len());
            let sum: usize = counts.iter().map(|&count| usize::from(count)).sum();
            ensure(fit && sum == null_count, "null counts of zones are wrong")
        }
        _ if null_count == 0 => Ok(()),
        _ if null_count == row_count => {
            zones.nulls = ZoneNulls::All;
            Ok(())
        }
        _ => {
            ensure(row_count <= ZONE_ROWS, "null counts of zones are missing")?;
            zones.nulls = ZoneNulls::Counts(Box::new([null_count as u16]));
            Ok(())
        }
    }
}

fn extreme(record: &mut Reader<'_>, ty: ColumnType) -> Result<Option<OwnedValue>, ColumnarError> {
    match record.u8()? {
        0 => Ok(None),
        1 => value(record, ty).map(Some),
        _ => Err(ColumnarError::corrupt("unknown extreme in footer")),
    }
}

fn put_bounds(out: &mut Vec<u8>, ty: ColumnType, extremes: Extremes<'_>, zones: &[Zone]) {
    let is_known = |zone: &&Zone| zone.min.is_some() || zone.max.is_some();
    let mut known = 0u16;
    for (at, _) in zones.iter().enumerate().filter(|(_, zone)| is_known(zone)) {
        known |= 1 << at;
    }
    let start = out.len();
    out.extend_from_slice(&known.to_le_bytes());
    let zones: Vec<&Zone> = zones.iter().filter(is_known).collect();
    if put_integers(out, extremes, &zones).is_some() || put_floats(out, ty, &zones).is_some() {
        return;
    }
    out.truncate(start + 2);
    out.push(FORM_VALUES);
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for zone in zones {
        put_bound(out, zone.min.as_ref(), &mut low);
        put_bound(out, zone.max.as_ref(), &mut high);
    }
}

/// Distances from the extremes of the chunk; `None` if the bounds are not of that kind.
fn put_integers(out: &mut Vec<u8>, extremes: Extremes<'_>, zones: &[&Zone]) -> Option<()> {
    let (least, scale) = integer_of(extremes.0?)?;
    let (greatest, greatest_scale) = integer_of(extremes.1?)?;
    let mut distances = Vec::with_capacity(zones.len());
    for zone in zones {
        let (low, low_scale) = integer_of(&zone.min.as_ref()?.value)?;
        let (high, high_scale) = integer_of(&zone.max.as_ref()?.value)?;
        if [greatest_scale, low_scale, high_scale] != [scale; 3] {
            return None;
        }
        distances.push((
            low.wrapping_sub(least) as u64,
            greatest.wrapping_sub(high) as u64,
        ));
    }
    let width_of = |value: u64| 8 - value.leading_zeros() as usize / 8;
    let low_width = distances.iter().map(|&(low, _)| width_of(low)).max()?;
    let high_width = distances.iter().map(|&(_, high)| width_of(high)).max()?;
    out.push(FORM_INTEGERS);
    out.push((low_width | high_width << 4) as u8);
    for (low, high) in distances {
        out.extend_from_slice(&low.to_le_bytes()[..low_width]);
        out.extend_from_slice(&high.to_le_bytes()[..high_width]);
    }
    Some(())
}

fn put_floats(out: &mut Vec<u8>, ty: ColumnType, zones: &[&Zone]) -> Option<()> {
    let mut bounds = Vec::with_capacity(2 * zones.len());
    for bound in zones.iter().flat_map(|zone| [&zone.min, &zone.max]) {
        bounds.push(match bound.as_ref()?.value {
            OwnedValue::Float32(value) => f64::from(value),
            OwnedValue::Float64(value) => value,
            _ => return None,
        });
    }
    let narrow = ty == ColumnType::Float32
        || bounds
            .iter()
            .all(|&bound| f64::from(bound as f32).to_bits() == bound.to_bits());
    out.push(if narrow {
        FORM_NARROW_FLOATS
    } else {
        FORM_FLOATS
    });
    for bound in bounds {
        match narrow {
            true => out.extend_from_slice(&(bound as f32).to_le_bytes()),
            false => out.extend_from_slice(&bound.to_le_bytes()),
        }
    }
    Some(())
}

fn bounds(
    record: &mut Reader<'_>,
    ty: ColumnType,
    extremes: Extremes<'_>,
    zone_count: usize,
) -> Result<(u16, ZoneBounds), ColumnarError> {
    let known = record.u16()?;
    ensure(
        u32::from(known) >> zone_count == 0,
        "bounds of a zone that is not there",
    )?;
    let count = known.count_ones() as usize;
    let bounds = match record.u8()? {
        FORM_INTEGERS => {
            let widths = record.u8()?;
            integers(record, ty, extremes, widths, count)?
        }
        form @ (FORM_FLOATS | FORM_NARROW_FLOATS) => {
            ensure(
                matches!(ty, ColumnType::Float32 | ColumnType::Float64),
                "bounds do not fit the column type",
            )?;
            let mut float = || {
                Ok(match form {
                    FORM_FLOATS => f64::from_le_bytes(record.array()?),
                    _ => f32::from_le_bytes(record.array()?).into(),
                })
            };
            let bounds = (0..count)
                .map(|_| Ok((float()?, float()?)))
                .collect::<Result<Box<[_]>, ColumnarError>>()?;
            ZoneBounds::Floats(bounds)
        }
        FORM_VALUES => {
            let (mut low, mut high) = (Vec::new(), Vec::new());
            let bounds = (0..count)
                .map(|_| Ok((bound(record, ty, &mut low)?, bound(record, ty, &mut high)?)))
                .collect::<Result<Box<[_]>, ColumnarError>>()?;
            ZoneBounds::Values(bounds)
        }
        form => return Err(ColumnarError::newer("form of zone bounds", form.into())),
    };
    Ok((known, bounds))
}

fn integers(
    record: &mut Reader<'_>,
    ty: ColumnType,
    extremes: Extremes<'_>,
    widths: u8,
    count: usize,
) -> Result<ZoneBounds, ColumnarError> {
    let wrong = || ColumnarError::corrupt("bounds of zones do not fit the extremes");
    let extreme = |value: Option<&OwnedValue>| value.and_then(integer_of).ok_or_else(wrong);
    let (least, scale) = extreme(extremes.0)?;
    let (greatest, _) = extreme(extremes.1)?;
    let (low_width, high_width) = (usize::from(widths & 15), usize::from(widths >> 4));
    ensure(low_width <= 8 && high_width <= 8, "bounds are too wide")?;
    let mut bounds = Vec::with_capacity(count);
    for _ in 0..count {
        let low = least.wrapping_add_unsigned(record.unsigned(low_width)?);
        let high = greatest.wrapping_sub_unsigned(record.unsigned(high_width)?);
        // A value of the column's type, within the chunk's extremes.
        let fits = |value: i64| {
            let back = integer_of(&integer_value(ty, value, scale).into());
            (least..=greatest).contains(&value) && back == Some((value, scale))
        };
        ensure(
            fits(low) && fits(high),
            "bounds of zones do not fit the extremes",
        )?;
        bounds.push((low, high));
    }
    Ok(ZoneBounds::Integers {
        scale,
        bounds: bounds.into(),
    })
}

/// Appends a value, without its type.
fn put_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Bool(v) => out.push(v.into()),
        Value::Int16(v) => put_signed(out, v.into()),
        Value::Int32(v) => put_signed(out, v.into()),
        Value::Int64(v) => put_signed(out, v.into()),
        Value::Float32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Float64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Numeric(Numeric::Small { unscaled, scale }) => {
            put_signed(out, unscaled);
            put_varint(out, scale.into());
        }
        Value::Text(v) => put_bytes(out, v.as_bytes()),
        Value::Bytes(v) | Value::Numeric(Numeric::Image(v)) => put_bytes(out, v),
    }
}

fn value(record: &mut Reader<'_>, ty: ColumnType) -> Result<OwnedValue, ColumnarError> {
    let wrong = || ColumnarError::corrupt("a value in the footer does not fit its type");
    Ok(match ty {
        ColumnType::Bool => OwnedValue::Bool(record.u8()? != 0),
        ColumnType::Int16 => OwnedValue::Int16(record.signed()?.try_into().map_err(|_| wrong())?),
        ColumnType::Int32 => OwnedValue::Int32(record.signed()?.try_into().map_err(|_| wrong())?),
        ColumnType::Int64 => OwnedValue::Int64(record.signed()?.try_into().map_err(|_| wrong())?),
        ColumnType::Float32 => OwnedValue::Float32(f32::from_le_bytes(record.array()?)),
        ColumnType::Float64 => OwnedValue::Float64(f64::from_le_bytes(record.array()?)),
        ColumnType::Numeric => OwnedValue::Numeric(OwnedNumeric::Small {
            unscaled: record.signed()?,
            scale: u16::try_from(record.count()?).map_err(|_| wrong())?,
        }),
        ColumnType::Text | ColumnType::Bytes | ColumnType::Fixed { .. } => {
            bytes_value(ty, record.bytes()?.to_vec())?
        }
    })
}

fn bytes_value(ty: ColumnType, bytes: Vec<u8>) -> Result<OwnedValue, ColumnarError> {
    Ok(match ty {
        ColumnType::Text => OwnedValue::Text(
            String::from_utf8(bytes)
                .map_err(|_| ColumnarError::corrupt("text in row group footer is not UTF-8"))?,
        ),
        _ => OwnedValue::Bytes(bytes),
    })
}

/// Appends a bound; of text and bytes only what differs from the bound `before` it, of the same
/// end.
fn put_bound(out: &mut Vec<u8>, bound: Option<&Bound>, before: &mut Vec<u8>) {
    let Some(bound) = bound else {
        out.push(BOUND_UNKNOWN);
        return;
    };
    out.push(if bound.exact {
        BOUND_EXACT
    } else {
        BOUND_ROUNDED
    });
    let bytes = match bound.value.as_value() {
        Value::Text(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
        value => return put_value(out, value),
    };
    let shared = bytes
        .iter()
        .zip(&*before)
        .take_while(|(a, b)| a == b)
        .count();
    put_varint(out, shared as u64);
    put_bytes(out, &bytes[shared..]);
    before.clear();
    before.extend_from_slice(bytes);
}

fn bound(
    record: &mut Reader<'_>,
    ty: ColumnType,
    before: &mut Vec<u8>,
) -> Result<Option<Bound>, ColumnarError> {
    let exact = match record.u8()? {
        BOUND_UNKNOWN => return Ok(None),
        BOUND_EXACT => true,
        BOUND_ROUNDED => false,
        _ => return Err(ColumnarError::corrupt("unknown bound in footer")),
    };
    let value = match ty {
        ColumnType::Text | ColumnType::Bytes | ColumnType::Fixed { .. } => {
            let shared = record.count()? as usize;
            ensure(shared <= before.len(), "a bound shares more than there is")?;
            before.truncate(shared);
            before.extend_from_slice(record.bytes()?);
            bytes_value(ty, before.clone())?
        }
        ty => value(record, ty)?,
    };
    Ok(Some(Bound { value, exact }))
}
