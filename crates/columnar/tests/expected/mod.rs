//! What docs/format.md says of the statistics of some rows, and what is true of a predicate,
//! computed from the rows alone.

use std::cmp::Ordering;
use std::collections::HashSet;

use howdah_columnar::{
    Bound, ChunkStats, CompareOp, OwnedNumeric, OwnedValue, Predicate, TextPattern, Verdict,
    ZONE_ROWS, Zone,
};

/// The longest extreme that is kept, and the longest bound that is not cut.
const EXTREME_BYTES: usize = 256;
const BOUND_BYTES: usize = 32;

/// The order of two values of one column; `None` if one is an image.
pub fn order(a: &OwnedValue, b: &OwnedValue) -> Option<Ordering> {
    use OwnedValue::{Bool, Bytes, Float32, Float64, Int16, Int32, Int64, Numeric, Text};
    // NaN is the greatest.
    let floats = |a: f64, b: f64| match (a.is_nan(), b.is_nan()) {
        (false, false) if a < b => Ordering::Less,
        (false, false) if a > b => Ordering::Greater,
        (false, false) => Ordering::Equal,
        (a, b) => a.cmp(&b),
    };
    Some(match (a, b) {
        (Bool(a), Bool(b)) => a.cmp(b),
        (Int16(a), Int16(b)) => a.cmp(b),
        (Int32(a), Int32(b)) => a.cmp(b),
        (Int64(a), Int64(b)) => a.cmp(b),
        (Float32(a), Float32(b)) => floats((*a).into(), (*b).into()),
        (Float64(a), Float64(b)) => floats(*a, *b),
        (Text(a), Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Bytes(a), Bytes(b)) => a.cmp(b),
        (
            Numeric(OwnedNumeric::Small { unscaled, scale }),
            Numeric(OwnedNumeric::Small {
                unscaled: other,
                scale: other_scale,
            }),
        ) if scale == other_scale => unscaled.cmp(other),
        (Numeric(a), Numeric(b)) => decimal(a)?.cmp(&decimal(b)?),
        _ => panic!("values of two types"),
    })
}

/// A decimal in a form that is ordered as it is: its sign, then the place of its first digit and
/// its digits, or their opposites.
fn decimal(numeric: &OwnedNumeric) -> Option<(i8, i32, Vec<i8>)> {
    let OwnedNumeric::Small { unscaled, scale } = numeric else {
        return None;
    };
    let sign = unscaled.signum() as i8;
    let shown = unscaled.unsigned_abs().to_string();
    let digits = shown.trim_end_matches('0').bytes();
    Some(match sign {
        0 => (0, 0, Vec::new()),
        // A shorter number is less than one that it begins, the opposites of both the other way.
        sign => (
            sign,
            i32::from(sign) * (shown.len() as i32 - i32::from(*scale)),
            (digits.map(|digit| sign * (digit - b'0') as i8))
                .chain([if sign < 0 { 1 } else { -10 }])
                .collect(),
        ),
    })
}

/// Something that equal values share, and no others.
fn identity(value: &OwnedValue) -> Vec<u8> {
    let float = |value: f64| match value {
        value if value.is_nan() => b"NaN".to_vec(),
        0.0 => b"zero".to_vec(),
        value => value.to_bits().to_le_bytes().to_vec(),
    };
    match value {
        OwnedValue::Float32(value) => float((*value).into()),
        OwnedValue::Float64(value) => float(*value),
        OwnedValue::Numeric(numeric) => match decimal(numeric) {
            Some(decimal) => format!("{decimal:?}").into_bytes(),
            None => format!("{numeric:?}").into_bytes(),
        },
        value => format!("{value:?}").into_bytes(),
    }
}

fn is_image(value: &OwnedValue) -> bool {
    matches!(value, OwnedValue::Numeric(OwnedNumeric::Image(_)))
}

pub fn has_images(rows: &[Option<OwnedValue>]) -> bool {
    rows.iter().flatten().any(is_image)
}

fn len_of(value: &OwnedValue) -> usize {
    match value {
        OwnedValue::Text(text) => text.len(),
        OwnedValue::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

/// The least and the greatest value; `None` if there is none, or no order.
pub fn extremes(rows: &[Option<OwnedValue>]) -> Option<(&OwnedValue, &OwnedValue)> {
    if has_images(rows) {
        return None;
    }
    let by = |a: &&OwnedValue, b: &&OwnedValue| order(a, b).expect("an order");
    let values = || rows.iter().flatten();
    Some((values().min_by(by)?, values().max_by(by)?))
}

fn null_count(rows: &[Option<OwnedValue>]) -> usize {
    rows.iter().filter(|row| row.is_none()).count()
}

/// That one end of some rows is the value found: one of theirs, to the last bit.
fn assert_end(rows: &[Option<OwnedValue>], end: &OwnedValue, found: &OwnedValue, of: &str) {
    assert_eq!(order(end, found), Some(Ordering::Equal), "{of}");
    let shown = format!("{found:?}");
    let is_there = (rows.iter().flatten())
        .any(|row| order(row, found) == Some(Ordering::Equal) && format!("{row:?}") == shown);
    assert!(is_there, "{of}: no row has {shown}");
}

/// Compares the statistics of a chunk with its rows.
pub fn check_chunk(stats: &ChunkStats, rows: &[Option<OwnedValue>], of: &str) {
    assert_eq!(stats.row_count, rows.len(), "{of}");
    assert_eq!(stats.null_count, null_count(rows), "{of}");
    let kept = |value: &&OwnedValue| len_of(value) <= EXTREME_BYTES;
    let (min, max) = extremes(rows).unzip();
    for (end, found) in [(min, &stats.min), (max, &stats.max)] {
        match (end.filter(kept), found) {
            (None, None) => {}
            (Some(end), Some(found)) => assert_end(rows, end, found, of),
            (expected, found) => panic!("{of}: {found:?} is not {expected:?}"),
        }
    }
    assert_eq!(
        stats.sum.map(|sum| (sum, stats.sum_scale)),
        sum(rows),
        "{of}"
    );
    let distinct: HashSet<_> = rows.iter().flatten().map(identity).collect();
    let distinct = distinct.len() as f64;
    let estimate = stats.distinct_estimate.expect("is always written") as f64;
    // The sketch is exact for the smallest numbers, and mostly 1.6 % off.
    let most = if distinct <= 2.0 {
        0.0
    } else {
        2.0 + 0.06 * distinct
    };
    assert!(
        (estimate - distinct).abs() <= most,
        "{of}: {estimate} different values, not {distinct}"
    );
    let string_bytes: usize = rows.iter().flatten().map(len_of).sum();
    assert!(stats.raw_bytes >= string_bytes as u64, "{of}");
}

/// Of integers, and of decimals of one scale.
fn sum(rows: &[Option<OwnedValue>]) -> Option<(i128, u16)> {
    let mut sum: Option<(i128, u16)> = None;
    for value in rows.iter().flatten() {
        let (number, scale) = match value {
            OwnedValue::Int16(v) => (i128::from(*v), 0),
            OwnedValue::Int32(v) => (i128::from(*v), 0),
            OwnedValue::Int64(v) => (i128::from(*v), 0),
            OwnedValue::Numeric(OwnedNumeric::Small { unscaled, scale }) => (*unscaled, *scale),
            _ => return None,
        };
        let (before, scale_before) = sum.unwrap_or((0, scale));
        if scale != scale_before {
            return None;
        }
        sum = Some((before.checked_add(number)?, scale));
    }
    sum
}

/// Compares the statistics of a zone with its rows.
pub fn check_zone(zone: &Zone, rows: &[Option<OwnedValue>], of: &str) {
    assert_eq!(zone.row_count as usize, rows.len(), "{of}");
    assert_eq!(zone.null_count as usize, null_count(rows), "{of}");
    let Some((min, max)) = extremes(rows) else {
        assert_eq!((&zone.min, &zone.max), (&None, &None), "{of}");
        return;
    };
    let low = zone
        .min
        .as_ref()
        .expect("a zone with values has a lower bound");
    check_bound(low, min, Ordering::Less, rows, of);
    match &zone.max {
        Some(high) => check_bound(high, max, Ordering::Greater, rows, of),
        None => {
            let is_greatest = match max {
                OwnedValue::Text(text) => text.starts_with("\u{10ffff}"),
                OwnedValue::Bytes(bytes) => bytes.starts_with(&[255; 8]),
                _ => false,
            };
            assert!(
                is_greatest && len_of(max) > BOUND_BYTES,
                "{of}: no upper bound"
            );
        }
    }
}

/// `side` is where a bound lies that is no value.
fn check_bound(
    bound: &Bound,
    end: &OwnedValue,
    side: Ordering,
    rows: &[Option<OwnedValue>],
    of: &str,
) {
    assert_eq!(bound.exact, len_of(end) <= BOUND_BYTES, "{of}");
    if bound.exact {
        assert_end(rows, end, &bound.value, of);
        return;
    }
    assert_eq!(order(&bound.value, end), Some(side), "{of}");
    assert!(len_of(&bound.value) <= BOUND_BYTES, "{of}");
    // It differs from the value in its last character only, if at all.
    let (cut, whole) = match (&bound.value, end) {
        (OwnedValue::Text(cut), OwnedValue::Text(whole)) => {
            let last = cut.chars().next_back().expect("not empty").len_utf8();
            (
                cut.as_bytes()[..cut.len() - last].to_vec(),
                whole.as_bytes(),
            )
        }
        (OwnedValue::Bytes(cut), OwnedValue::Bytes(whole)) => {
            (cut[..cut.len() - 1].to_vec(), whole.as_slice())
        }
        _ => panic!("{of}: only strings are cut"),
    };
    assert!(
        whole.starts_with(&cut),
        "{of}: {:?} is far from {end:?}",
        bound.value
    );
}

/// The rows of each zone.
pub fn zones(rows: &[Option<OwnedValue>]) -> impl Iterator<Item = &[Option<OwnedValue>]> {
    rows.chunks(ZONE_ROWS)
}

/// Predicates about values of the rows, and about some that they do not have.
pub fn predicates(rows: &[Option<OwnedValue>]) -> Vec<Predicate> {
    use CompareOp::{Eq, Ge, Gt, Le, Lt, Ne};
    let mut predicates = vec![Predicate::IsNull, Predicate::IsNotNull];
    let ordered: Vec<&OwnedValue> = rows.iter().flatten().filter(|it| !is_image(it)).collect();
    let Some(last) = ordered.last() else {
        return predicates;
    };
    let mut values = vec![ordered[0].clone(), ordered[ordered.len() / 2].clone()];
    if let Some((min, max)) = extremes(rows) {
        values.extend([min.clone(), max.clone()]);
    }
    for value in &values {
        for op in [Eq, Ne, Lt, Le, Gt, Ge] {
            let value = value.clone();
            predicates.push(Predicate::Compare { op, value });
        }
    }
    predicates.push(Predicate::In(vec![values[0].clone(), (*last).clone()]));
    if let OwnedValue::Text(text) = &values[1] {
        let part =
            |chars: usize| -> Vec<u8> { text.chars().take(chars).collect::<String>().into_bytes() };
        for pattern in [
            TextPattern {
                prefix: part(5),
                ..Default::default()
            },
            TextPattern {
                suffix: text.as_bytes().to_vec(),
                ..Default::default()
            },
        ] {
            predicates.push(Predicate::Like(pattern.clone()));
            predicates.push(Predicate::NotLike(pattern));
        }
    }
    predicates
}

/// Whether a predicate is true of a row; `None` if it would have to order an image.
pub fn holds(predicate: &Predicate, row: &Option<OwnedValue>) -> Option<bool> {
    let is_like = |pattern: &TextPattern, value: &OwnedValue| match value {
        OwnedValue::Text(text) => {
            let text = text.as_bytes();
            assert!(pattern.infixes.is_empty());
            text.len() >= pattern.prefix.len() + pattern.suffix.len()
                && text.starts_with(&pattern.prefix)
                && text.ends_with(&pattern.suffix)
        }
        _ => panic!("no text"),
    };
    let Some(value) = row else {
        return Some(matches!(predicate, Predicate::IsNull));
    };
    Some(match predicate {
        Predicate::IsNull => false,
        Predicate::IsNotNull => true,
        Predicate::Compare { op, value: right } => {
            let order = order(value, right)?;
            match op {
                CompareOp::Eq => order.is_eq(),
                CompareOp::Ne => order.is_ne(),
                CompareOp::Lt => order.is_lt(),
                CompareOp::Le => order.is_le(),
                CompareOp::Gt => order.is_gt(),
                CompareOp::Ge => order.is_ge(),
            }
        }
        Predicate::In(list) => {
            let mut found = false;
            for right in list {
                found |= order(value, right)?.is_eq();
            }
            found
        }
        Predicate::Like(pattern) => is_like(pattern, value),
        Predicate::NotLike(pattern) => !is_like(pattern, value),
    })
}

/// That a verdict on some rows is true. `truth` is what [`holds`] says of each.
pub fn check_verdict(verdict: Verdict, truth: &[Option<bool>], of: &str) {
    let fits = match verdict {
        Verdict::All => truth.iter().all(|&it| it == Some(true)),
        Verdict::None => truth.iter().all(|&it| it == Some(false)),
        Verdict::Some => true,
    };
    assert!(fits, "{of}: {verdict:?} rows");
}
