//! Functions of values that are not NULL, distinguished by their names.

use std::cmp::Ordering;

use howdah_columnar::{OwnedNumeric, OwnedValue};

use super::order::{compare, float, integer};
use super::unsupported;
use crate::error::VectorError;

/// The value of PostgreSQL's function of this `prosrc`.
pub(super) fn call(prosrc: &str, arguments: &[OwnedValue]) -> Result<OwnedValue, VectorError> {
    use OwnedValue::{Float32, Float64, Int16, Int32, Int64, Numeric, Text};
    if let Some((dates, timestamps, operator)) = mixed_comparison(prosrc, arguments) {
        let order = date_to_timestamp_order(dates, timestamps)?;
        return Ok(OwnedValue::Bool(operator(order)));
    }
    if let ([left, right], Some(operator)) = (arguments, comparison(prosrc)) {
        return Ok(OwnedValue::Bool(operator(compare(left, right)?)));
    }
    match (prosrc, arguments) {
        ("i2toi4" | "int84", [value]) => sized(4, of_integer(value)?),
        ("int28" | "int48", [value]) => sized(8, of_integer(value)?),
        ("i4toi2" | "int82", [value]) => sized(2, of_integer(value)?),
        ("i2tod" | "i4tod" | "i8tod", [value]) => Ok(Float64(of_integer(value)? as f64)),
        ("i2tof" | "i4tof" | "i8tof", [value]) => Ok(Float32(of_integer(value)? as f32)),
        ("ftoi2" | "dtoi2", [value]) => rounded(2, of_float(value)?),
        ("ftoi4" | "dtoi4", [value]) => rounded(4, of_float(value)?),
        ("ftoi8" | "dtoi8", [value]) => rounded(8, of_float(value)?),
        ("ftod", [Float32(value)]) => Ok(Float64((*value).into())),
        ("dtof", [Float64(value)]) => {
            let narrow = *value as f32;
            if narrow.is_infinite() && !value.is_infinite() {
                return Err(overflow());
            }
            if narrow == 0.0 && *value != 0.0 {
                return Err(underflow());
            }
            Ok(Float32(narrow))
        }
        ("int2_numeric" | "int4_numeric" | "int8_numeric", [value]) => {
            small(Some(of_integer(value)?), 0)
        }
        ("numeric_uminus" | "numeric_abs", [Numeric(OwnedNumeric::Small { unscaled, scale })]) => {
            let negated = unscaled.checked_neg();
            match prosrc == "numeric_abs" && *unscaled >= 0 {
                true => small(Some(*unscaled), *scale),
                false => small(negated, *scale),
            }
        }
        (
            "numeric_add" | "numeric_sub" | "numeric_mul",
            [
                Numeric(OwnedNumeric::Small {
                    unscaled: a,
                    scale: a_scale,
                }),
                Numeric(OwnedNumeric::Small {
                    unscaled: b,
                    scale: b_scale,
                }),
            ],
        ) => numeric(prosrc, (*a, *a_scale), (*b, *b_scale)),
        ("date_pli", [Int32(date), Int32(days)]) => moved(*date, i64::from(*days)),
        ("date_mii", [Int32(date), Int32(days)]) => moved(*date, -i64::from(*days)),
        ("date_mi", [Int32(a), Int32(b)]) => {
            if [*a, *b]
                .iter()
                .any(|day| [i32::MIN, i32::MAX].contains(day))
            {
                let message = "cannot subtract infinite dates";
                return Err(VectorError::DatetimeOutOfRange { message });
            }
            // PostgreSQL is compiled so that integers wrap.
            Ok(Int32((i64::from(*a) - i64::from(*b)) as i32))
        }
        ("timestamp_trunc", [Text(unit), Int64(timestamp)]) => {
            truncated(&unit.to_ascii_lowercase(), *timestamp).map(Int64)
        }
        ("timestamp_date", [Int64(timestamp)]) => Ok(Int32(date_of(*timestamp))),
        ("date_timestamp", [Int32(date)]) => begin_of(*date).map(Int64),
        ("textlen", [Text(text)]) => Ok(Int32(text.chars().count() as i32)),
        ("textoctetlen", [Text(text)]) => Ok(Int32(text.len() as i32)),
        ("rtrim1", [Text(text)]) => Ok(Text(text.trim_end_matches(' ').to_owned())),
        ("text_starts_with", [Text(text), Text(prefix)]) => {
            Ok(OwnedValue::Bool(text.get(..prefix.len()) == Some(prefix)))
        }
        ("textlike" | "textnlike", [Text(text), Text(pattern)]) => {
            let text: Vec<char> = text.chars().collect();
            let pattern: Vec<char> = pattern.chars().collect();
            let is_like = is_like(&text, &pattern)?;
            Ok(OwnedValue::Bool(is_like == (prosrc == "textlike")))
        }
        (_, [Int16(_) | Int32(_) | Int64(_), ..]) => integers(prosrc, arguments),
        (_, [Float32(_) | Float64(_), ..]) => floats(prosrc, arguments),
        (_, [Numeric(_), ..]) => Err(unsupported("a numeric image")),
        _ => Err(unsupported("a function of these arguments")),
    }
}

type Operator = fn(Ordering) -> bool;

fn operator(name: &str) -> Option<Operator> {
    Some(match name {
        "eq" => Ordering::is_eq,
        "ne" => Ordering::is_ne,
        "lt" => Ordering::is_lt,
        "le" => Ordering::is_le,
        "gt" => Ordering::is_gt,
        "ge" => Ordering::is_ge,
        _ => return None,
    })
}

fn comparison(prosrc: &str) -> Option<Operator> {
    const KINDS: [&str; 21] = [
        "int2",
        "int4",
        "int8",
        "int24",
        "int28",
        "int42",
        "int48",
        "int82",
        "int84",
        "float4",
        "float8",
        "float48",
        "float84",
        "bool",
        "date",
        "time",
        "timestamp",
        "numeric",
        "uuid",
        "text",
        "bytea",
    ];
    let (kind, name) = prosrc.split_at_checked(prosrc.len().checked_sub(2)?)?;
    let kind = kind.strip_suffix('_').unwrap_or(kind);
    KINDS.contains(&kind).then(|| operator(name))?
}

/// The date, the timestamp, and what their order must be.
fn mixed_comparison<'a>(
    prosrc: &str,
    arguments: &'a [OwnedValue],
) -> Option<(&'a OwnedValue, &'a OwnedValue, Box<AnyOperator>)> {
    let [left, right] = arguments else {
        return None;
    };
    let parts: Vec<&str> = prosrc.split('_').collect();
    match parts.as_slice() {
        ["date", name, "timestamp"] => {
            let holds = operator(name)?;
            Some((left, right, Box::new(holds)))
        }
        ["timestamp", name, "date"] => {
            let holds = operator(name)?;
            Some((
                right,
                left,
                Box::new(move |order: Ordering| holds(order.reverse())),
            ))
        }
        _ => None,
    }
}

type AnyOperator = dyn Fn(Ordering) -> bool;

fn date_to_timestamp_order(
    date: &OwnedValue,
    timestamp: &OwnedValue,
) -> Result<Ordering, VectorError> {
    let (OwnedValue::Int32(date), OwnedValue::Int64(timestamp)) = (date, timestamp) else {
        return Err(unsupported("a date and a timestamp of other types"));
    };
    // Finite dates are moments between the infinities, however far.
    let rank = |is_least: bool, is_greatest: bool| i32::from(is_greatest) - i32::from(is_least);
    let ranks = rank(*date == i32::MIN, *date == i32::MAX)
        .cmp(&rank(*timestamp == i64::MIN, *timestamp == i64::MAX));
    let moments = (i128::from(*date) * 86_400_000_000).cmp(&i128::from(*timestamp));
    let is_finite = ![i32::MIN, i32::MAX].contains(date);
    Ok(match is_finite {
        true => ranks.then(moments),
        false => ranks,
    })
}

fn of_integer(value: &OwnedValue) -> Result<i128, VectorError> {
    integer(value).ok_or_else(|| unsupported("a value that is no integer"))
}

fn of_float(value: &OwnedValue) -> Result<f64, VectorError> {
    float(value).ok_or_else(|| unsupported("a value that is no float"))
}

/// An integer of this many bytes.
pub(super) fn sized(width: u32, value: i128) -> Result<OwnedValue, VectorError> {
    let (limit, message) = match width {
        2 => (1_i128 << 15, "smallint out of range"),
        4 => (1_i128 << 31, "integer out of range"),
        _ => (1_i128 << 63, "bigint out of range"),
    };
    if value < -limit || value >= limit {
        return Err(VectorError::OutOfRange { message });
    }
    Ok(match width {
        2 => OwnedValue::Int16(value as i16),
        4 => OwnedValue::Int32(value as i32),
        _ => OwnedValue::Int64(value as i64),
    })
}

/// The integer next to a float, the even one of two.
fn rounded(width: u32, value: f64) -> Result<OwnedValue, VectorError> {
    if value.is_nan() || value.abs() > 1e30 {
        return sized(width, i128::MAX);
    }
    let floor = value.floor();
    let above = value - floor;
    let up = above > 0.5 || above == 0.5 && floor % 2.0 != 0.0;
    sized(width, floor as i128 + i128::from(up))
}

/// Arithmetic of integers: `int`, the widths of the arguments, the operation.
fn integers(prosrc: &str, arguments: &[OwnedValue]) -> Result<OwnedValue, VectorError> {
    let unknown = || unsupported("a function of integers");
    let rest = prosrc.strip_prefix("int").ok_or_else(unknown)?;
    let operation = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let widths = &rest[..rest.len() - operation.len()];
    let width = widths
        .chars()
        .filter_map(|digit| digit.to_digit(10))
        .max()
        .ok_or_else(unknown)?;
    let values: Vec<i128> = arguments.iter().map(of_integer).collect::<Result<_, _>>()?;
    let result = match (operation, values.as_slice()) {
        ("pl", [a, b]) => a + b,
        ("mi", [a, b]) => a - b,
        ("mul", [a, b]) => a * b,
        ("div" | "mod", [_, 0]) => return Err(VectorError::DivisionByZero),
        ("div", [a, b]) => a / b,
        ("mod", [a, b]) => a % b,
        ("um", [a]) => -a,
        ("abs", [a]) => a.abs(),
        _ => return Err(unknown()),
    };
    sized(width, result)
}

fn overflow() -> VectorError {
    VectorError::OutOfRange {
        message: "value out of range: overflow",
    }
}

fn underflow() -> VectorError {
    VectorError::OutOfRange {
        message: "value out of range: underflow",
    }
}

/// Arithmetic of floats, in 64 bits; of two 32-bit floats the result is rounded to that, which
/// gives what 32-bit arithmetic gives.
fn floats(prosrc: &str, arguments: &[OwnedValue]) -> Result<OwnedValue, VectorError> {
    let unknown = || unsupported("a function of floats");
    let rest = prosrc.strip_prefix("float").ok_or_else(unknown)?;
    let operation = rest.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let is_narrow = arguments
        .iter()
        .all(|value| matches!(value, OwnedValue::Float32(_)));
    let fitted = |value: f64| match is_narrow {
        true => f64::from(value as f32),
        false => value,
    };
    let values: Vec<f64> = arguments.iter().map(of_float).collect::<Result<_, _>>()?;
    let result = match (operation, values.as_slice()) {
        ("pl", [a, b]) => added(*a, *b, fitted(a + b))?,
        ("mi", [a, b]) => added(*a, *b, fitted(a - b))?,
        ("mul", [a, b]) => {
            let product = added(*a, *b, fitted(a * b))?;
            if product == 0.0 && *a != 0.0 && *b != 0.0 {
                return Err(underflow());
            }
            product
        }
        ("div", [a, b]) => {
            if *b == 0.0 && !a.is_nan() {
                return Err(VectorError::DivisionByZero);
            }
            let quotient = fitted(a / b);
            if quotient.is_infinite() && !a.is_infinite() {
                return Err(overflow());
            }
            if quotient == 0.0 && *a != 0.0 && !b.is_infinite() {
                return Err(underflow());
            }
            quotient
        }
        ("um", [a]) => -a,
        ("abs", [a]) => a.abs(),
        _ => return Err(unknown()),
    };
    Ok(match is_narrow {
        true => OwnedValue::Float32(result as f32),
        false => OwnedValue::Float64(result),
    })
}

/// A sum, difference or product, if it is infinite for a reason.
pub(super) fn added(a: f64, b: f64, result: f64) -> Result<f64, VectorError> {
    if result.is_infinite() && !a.is_infinite() && !b.is_infinite() {
        return Err(overflow());
    }
    Ok(result)
}

/// A numeric of at most 38 digits.
pub(super) fn small(unscaled: Option<i128>, scale: u16) -> Result<OwnedValue, VectorError> {
    match unscaled {
        Some(unscaled) if unscaled.unsigned_abs() < 10_u128.pow(38) => {
            Ok(OwnedValue::Numeric(OwnedNumeric::Small { unscaled, scale }))
        }
        _ => Err(unsupported("a numeric of more than 38 digits")),
    }
}

/// Digits at a scale that is not less than their own.
pub(super) fn at_scale(unscaled: i128, own: u16, scale: u16) -> Option<i128> {
    (own..scale).try_fold(unscaled, |value, _| value.checked_mul(10))
}

fn numeric(prosrc: &str, a: (i128, u16), b: (i128, u16)) -> Result<OwnedValue, VectorError> {
    if prosrc == "numeric_mul" {
        let scale = u32::from(a.1) + u32::from(b.1);
        if scale > 0x3FFF {
            return Err(unsupported("a product that PostgreSQL rounds"));
        }
        return small(a.0.checked_mul(b.0), scale as u16);
    }
    let scale = a.1.max(b.1);
    let (Some(a), Some(b)) = (at_scale(a.0, a.1, scale), at_scale(b.0, b.1, scale)) else {
        return small(None, scale);
    };
    match prosrc {
        "numeric_add" => small(a.checked_add(b), scale),
        _ => small(a.checked_sub(b), scale),
    }
}

/// The date this many days later.
fn moved(date: i32, days: i64) -> Result<OwnedValue, VectorError> {
    if [i32::MIN, i32::MAX].contains(&date) {
        return Ok(OwnedValue::Int32(date));
    }
    let moved = i64::from(date) + days;
    // From Julian day 0 to before DATE_END_JULIAN; PostgreSQL's epoch is Julian day 2451545.
    match (0..2_147_483_494).contains(&(moved + 2_451_545)) {
        true => Ok(OwnedValue::Int32(moved as i32)),
        false => Err(VectorError::DatetimeOutOfRange {
            message: "date out of range",
        }),
    }
}

/// The date of a timestamp.
pub(super) fn date_of(timestamp: i64) -> i32 {
    match timestamp {
        i64::MIN => i32::MIN,
        i64::MAX => i32::MAX,
        timestamp => timestamp.div_euclid(86_400_000_000) as i32,
    }
}

/// The timestamp with which a date begins.
pub(super) fn begin_of(date: i32) -> Result<i64, VectorError> {
    match date {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        // From the year 294277 on.
        106_751_983.. => Err(VectorError::DatetimeOutOfRange {
            message: "date out of range for timestamp",
        }),
        date => Ok(i64::from(date) * 86_400_000_000),
    }
}

/// The beginning of a unit, as PostgreSQL's `timestamp_trunc` finds it.
pub(super) fn truncated(unit: &str, timestamp: i64) -> Result<i64, VectorError> {
    const DAY: i64 = 86_400_000_000;
    const VALID: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;
    let unusual = || unsupported("a unit or a timestamp");
    // PostgreSQL compares ten bytes.
    let spelled: String = unit.chars().take(10).collect();
    let unit = match spelled.as_str() {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => "microseconds",
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => "milliseconds",
        "s" | "sec" | "secs" | "second" | "seconds" => "second",
        "m" | "min" | "mins" | "minute" | "minutes" => "minute",
        "h" | "hr" | "hrs" | "hour" | "hours" => "hour",
        "d" | "day" | "days" => "day",
        "w" | "week" | "weeks" => "week",
        "mon" | "mons" | "month" | "months" => "month",
        "qtr" | "quarter" => "quarter",
        "y" | "yr" | "yrs" | "year" | "years" => "year",
        "dec" | "decs" | "decade" | "decades" => "decade",
        "c" | "cent" | "century" | "centuries" => "century",
        "mil" | "mils" | "millennia" | "millennium" => "millennium",
        _ => return Err(unusual()),
    };
    if [i64::MIN, i64::MAX].contains(&timestamp) {
        return Ok(timestamp);
    }
    if !VALID.contains(&timestamp) {
        return Err(unusual());
    }
    let day = timestamp.div_euclid(DAY);
    let (year, month) = year_and_month(day);
    let of_time = |unit: i64| day * DAY + (timestamp - day * DAY) / unit * unit;
    let of_year = |year: i64| day_of(year, 1) * DAY;
    let last_of = |years: i64| match year > 0 {
        true => (year + years - 1) / years * years,
        false => -((years - 1 - (year - 1)) / years) * years + years,
    };
    let begin = match unit {
        "microseconds" => timestamp,
        "milliseconds" => of_time(1_000),
        "second" => of_time(1_000_000),
        "minute" => of_time(60_000_000),
        "hour" => of_time(3_600_000_000),
        "day" => day * DAY,
        // 2000-01-03 was a Monday.
        "week" => ((day - 2).div_euclid(7) * 7 + 2) * DAY,
        "month" => day_of(year, month) * DAY,
        "quarter" => day_of(year, (month - 1) / 3 * 3 + 1) * DAY,
        "year" => of_year(year),
        "decade" if year > 0 => of_year(year / 10 * 10),
        "decade" => of_year(-((8 - (year - 1)) / 10) * 10),
        "century" => of_year(last_of(100) - 99),
        _ => of_year(last_of(1_000) - 999),
    };
    match VALID.contains(&begin) {
        true => Ok(begin),
        false => Err(unusual()),
    }
}

/// The year and the month of a day, found among the first days of all months.
fn year_and_month(day: i64) -> (i64, i64) {
    // A year before it, as years have 365.2425 days on average.
    let (mut year, mut month) = (1_998 + day / 366 - day.abs() / 100_000, 1);
    while day_of(year + 1, 1) <= day {
        year += 1;
    }
    while month < 12 && day_of(year, month + 1) <= day {
        month += 1;
    }
    (year, month)
}

/// The day on which a month begins, counted from 2000-01-01.
fn day_of(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
    let before = year - 1;
    let leap_days = before.div_euclid(4) - before.div_euclid(100) + before.div_euclid(400);
    let lengths = [
        31,
        28 + i64::from(is_leap),
        31,
        30,
        31,
        30,
        31,
        31,
        30,
        31,
        30,
    ];
    let months: i64 = lengths.iter().take(month as usize - 1).sum();
    365 * (year - 2_000) + leap_days - 484 + months
}

fn is_like(text: &[char], pattern: &[char]) -> Result<bool, VectorError> {
    match pattern {
        [] => Ok(text.is_empty()),
        ['%', rest @ ..] => {
            for start in 0..=text.len() {
                if is_like(&text[start..], rest)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        ['_', rest @ ..] => match text {
            [_, text @ ..] => is_like(text, rest),
            [] => Ok(false),
        },
        ['\\'] => Err(unsupported("a pattern that ends with an escape")),
        ['\\', wanted, rest @ ..] | [wanted, rest @ ..] => match text {
            [letter, text @ ..] if letter == wanted => is_like(text, rest),
            _ => Ok(false),
        },
    }
}
