//! Operands of pushed clauses as values that row groups compare with.
//!
//! Operands are evaluated once per scan, and again when a parameter has changed. An operand without
//! an exact form leaves its clause *undecided*: every row is rechecked.

use std::cmp::Ordering;

use howdah_bridge::Oid;
use howdah_bridge::datum::{ArrayDatum, TypedDatum};
use howdah_bridge::scan::Operand;
use howdah_columnar::{ColumnType, CompareOp, Condition, OwnedNumeric, OwnedValue, Predicate};

use super::like;
use crate::types::{AttributeLayout, padded, typed_value};

/// A longer list of values is replaced by its range, and its rows are rechecked.
const LONGEST_LIST: usize = 16_384;
/// A longer list of values that rows must all differ from is left to the recheck.
const LONGEST_NOT_ALL: usize = 64;

const MICROSECONDS_PER_DAY: i64 = 86_400_000_000;
/// First timestamp, and the first after the last (`datatype/timestamp.h`).
const TIMESTAMP_RANGE: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

/// The type of an operand, and its conversion for the comparison with the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandKind {
    Bool,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    Numeric,
    Text,
    /// Compared for equality with the `char(n)` of so many characters.
    Padded(u32),
    Bytes,
    Uuid,
    /// An oid or enum: compared for equality only, as the bits that are stored.
    OidBits,
    /// A "char", compared likewise.
    CharBits,
    /// An address of a network, likewise.
    ImageBytes,
    /// A date to compare with a timestamp column.
    DateAsTimestamp,
    /// A timestamp to compare with a date column.
    TimestampAsDate,
}

/// The test that a clause applies to a column.
pub enum Test {
    /// Needs no operand.
    Fixed(Predicate),
    /// `column op operand`
    Compare { op: CompareOp, kind: OperandKind },
    /// `column = ANY (operand)`
    Any(OperandKind),
    /// `column <> ALL (operand)`
    NotAll(OperandKind),
    /// `column LIKE operand`, or NOT LIKE
    Like { negated: bool },
    /// All of several tests.
    And(Vec<Test>),
    /// At least one of several tests.
    Or(Vec<Test>),
}

impl Test {
    /// Whether statistics exclude hardly any rows: most patterns begin with a wildcard.
    pub fn is_pattern(&self) -> bool {
        match self {
            Self::Like { .. } => true,
            Self::Or(tests) => tests.iter().any(Test::is_pattern),
            Self::And(tests) => tests.iter().all(Test::is_pattern),
            _ => false,
        }
    }
}

impl OperandKind {
    /// The physical form of an operand; text is stored like `column`.
    fn layout(self, column: ColumnType) -> AttributeLayout {
        let (column_type, len, by_value) = match self {
            Self::Bool => (ColumnType::Bool, 1, true),
            Self::CharBits => (ColumnType::Int16, 1, true),
            Self::Int16 => (ColumnType::Int16, 2, true),
            Self::Int32 | Self::OidBits | Self::DateAsTimestamp => (ColumnType::Int32, 4, true),
            Self::Int64 | Self::TimestampAsDate => (ColumnType::Int64, 8, true),
            Self::Float32 => (ColumnType::Float32, 4, true),
            Self::Float64 => (ColumnType::Float64, 8, true),
            Self::Numeric => (ColumnType::Numeric, -1, false),
            Self::Text | Self::Padded(_) => (column, -1, false),
            Self::Bytes | Self::ImageBytes => (ColumnType::Bytes, -1, false),
            Self::Uuid => (ColumnType::Fixed { len: 16 }, 16, false),
        };
        AttributeLayout {
            type_oid: Oid::INVALID,
            column_type,
            len,
            by_value,
            dropped: false,
            not_null: false,
            align: 1,
            is_toastable: len == -1,
            padded_to: None,
        }
    }

    /// The value of an operand; `None` if it does not have the physical form, or is text that is
    /// not valid.
    fn value(self, datum: TypedDatum<'_>, column: ColumnType) -> Option<OwnedValue> {
        let layout = self.layout(column);
        let has_form = datum.has_form(layout.len, layout.by_value);
        let value = has_form.then(|| typed_value(datum, &layout)).flatten();
        match self {
            Self::Padded(characters) => value.map(|value| padded::as_stored(value, characters)),
            _ => value,
        }
    }
}

/// The test that an evaluated clause applies to its column.
pub struct Bound {
    /// All of them must hold.
    pub conditions: Vec<Condition>,
    /// Whether they are equivalent to the clause; otherwise they hold wherever it does.
    pub exact: bool,
}

impl Bound {
    fn exactly(predicate: Predicate) -> Bound {
        Bound {
            conditions: vec![Condition::Is(predicate)],
            exact: true,
        }
    }

    fn never() -> Bound {
        Bound::exactly(Predicate::In(Vec::new()))
    }

    fn undecided() -> Bound {
        Bound {
            conditions: Vec::new(),
            exact: false,
        }
    }

    fn of(predicate: Option<Predicate>) -> Bound {
        predicate.map_or_else(Bound::undecided, Bound::exactly)
    }

    /// All of these.
    fn all(each: impl Iterator<Item = Bound>) -> Bound {
        let none = Bound {
            conditions: Vec::new(),
            exact: true,
        };
        each.fold(none, |mut all, one| {
            all.conditions.extend(one.conditions);
            all.exact &= one.exact;
            all
        })
    }

    /// At least one of these.
    fn any(each: impl Iterator<Item = Bound>) -> Bound {
        let mut exact = true;
        let parts = each.map(|mut one| {
            exact &= one.exact;
            match one.conditions.len() {
                1 => one.conditions.swap_remove(0),
                _ => Condition::All(one.conditions),
            }
        });
        let conditions = vec![Condition::Any(parts.collect())];
        Bound { conditions, exact }
    }
}

/// The conditions of a test with the values of its operands, which are the next ones (`None` is
/// NULL).
pub fn bind<'o>(
    test: &Test,
    operands: &mut impl Iterator<Item = Option<Operand<'o>>>,
    column: ColumnType,
) -> Bound {
    match test {
        Test::Fixed(predicate) => Bound::exactly(predicate.clone()),
        Test::And(tests) => Bound::all(tests.iter().map(|test| bind(test, operands, column))),
        Test::Or(tests) => Bound::any(tests.iter().map(|test| bind(test, operands, column))),
        Test::Compare { .. } | Test::Any(_) | Test::NotAll(_) | Test::Like { .. } => {
            match operands.next().flatten() {
                Some(operand) => bind_one(test, operand, column),
                // No comparison with NULL is true, and neither is ANY or ALL of a NULL array.
                None => Bound::never(),
            }
        }
    }
}

/// The same of a test that has one operand, which is not NULL.
fn bind_one(test: &Test, operand: Operand<'_>, column: ColumnType) -> Bound {
    match (test, operand) {
        (Test::Compare { op, kind }, Operand::Value(datum)) => {
            let value = kind.value(datum, column);
            Bound::of(value.and_then(|value| compare(*op, *kind, value)))
        }
        (Test::Like { negated }, Operand::Value(datum)) => {
            Bound::of(match OperandKind::Text.value(datum, column) {
                Some(OwnedValue::Text(pattern)) => like::predicate(&pattern, *negated),
                _ => None,
            })
        }
        (Test::Any(kind), Operand::Array(array)) => match elements(array, *kind, column) {
            Some((values, _)) => any(*kind, values),
            None => Bound::undecided(),
        },
        (Test::NotAll(kind), Operand::Array(array)) => match elements(array, *kind, column) {
            Some((values, _)) if values.len() > LONGEST_NOT_ALL => Bound::undecided(),
            // `column <> NULL` is never true, so neither is the conjunction.
            Some((_, true)) => Bound::never(),
            // Every value is <> ALL of an empty list, NULL too.
            Some((values, false)) => {
                let differs = |value| Bound::of(compare(CompareOp::Ne, *kind, value));
                Bound::all(values.into_iter().map(differs))
            }
            None => Bound::undecided(),
        },
        _ => Bound::undecided(),
    }
}

fn is_image(value: &OwnedValue) -> bool {
    matches!(value, OwnedValue::Numeric(OwnedNumeric::Image(_)))
}

/// `column op value` as a predicate; `None` if there is none.
fn compare(op: CompareOp, kind: OperandKind, value: OwnedValue) -> Option<Predicate> {
    match (kind, value) {
        (OperandKind::DateAsTimestamp, OwnedValue::Int32(day)) => {
            let value = OwnedValue::Int64(timestamp_of_date(day)?);
            Some(Predicate::Compare { op, value })
        }
        (OperandKind::TimestampAsDate, OwnedValue::Int64(timestamp)) => {
            Some(compare_date(op, timestamp))
        }
        (_, value) if is_image(&value) => None,
        (_, value) => Some(Predicate::Compare { op, value }),
    }
}

fn any(kind: OperandKind, values: Vec<OwnedValue>) -> Bound {
    let values: Option<Vec<OwnedValue>> = match kind {
        OperandKind::DateAsTimestamp | OperandKind::TimestampAsDate => values
            .into_iter()
            .map(|value| match compare(CompareOp::Eq, kind, value)? {
                Predicate::Compare { value, .. } => Some(vec![value]),
                Predicate::In(values) => Some(values),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()
            .map(|lists| lists.into_iter().flatten().collect()),
        _ if values.iter().any(is_image) => None,
        _ => Some(values),
    };
    let Some(mut values) = values else {
        return Bound::undecided();
    };
    if values.len() <= LONGEST_LIST {
        // They are sorted once more for each stretch of rows, which takes little then.
        values.sort_by(|a, b| {
            let order = howdah_columnar::compare(a.as_value(), b.as_value());
            order.unwrap_or(Ordering::Equal)
        });
        return Bound::exactly(Predicate::In(values));
    }
    let end = |op: CompareOp| {
        let mut best = values[0].clone();
        for value in &values[1..] {
            let order = howdah_columnar::compare(value.as_value(), best.as_value())?;
            if order.is_ne() && op.holds(order) {
                best = value.clone();
            }
        }
        Some(best)
    };
    match (end(CompareOp::Le), end(CompareOp::Ge)) {
        (Some(least), Some(greatest)) => {
            let bound = |op, value| Condition::Is(Predicate::Compare { op, value });
            Bound {
                conditions: vec![bound(CompareOp::Ge, least), bound(CompareOp::Le, greatest)],
                exact: false,
            }
        }
        _ => Bound::undecided(),
    }
}

/// The values of an array's elements, and whether some element is NULL. `None` if elements do not
/// have the expected physical form.
fn elements(
    array: ArrayDatum<'_>,
    kind: OperandKind,
    column: ColumnType,
) -> Option<(Vec<OwnedValue>, bool)> {
    let elements = array.elements();
    let has_null = elements.iter().any(Option::is_none);
    let values = elements.into_iter().flatten();
    let values: Option<Vec<_>> = values.map(|datum| kind.value(datum, column)).collect();
    Some((values?, has_null))
}

/// Mirrors `date2timestamp_opt_overflow`; `None` for a finite date that no timestamp reaches.
fn timestamp_of_date(day: i32) -> Option<i64> {
    match day {
        i32::MAX => Some(i64::MAX),
        i32::MIN => Some(i64::MIN),
        day => i64::from(day)
            .checked_mul(MICROSECONDS_PER_DAY)
            .filter(|timestamp| TIMESTAMP_RANGE.contains(timestamp)),
    }
}

/// `date op timestamp` as a predicate on the date.
fn compare_date(op: CompareOp, timestamp: i64) -> Predicate {
    use CompareOp::{Eq, Ge, Gt, Le, Lt, Ne};
    let (day, midnight) = match timestamp {
        i64::MAX => (i32::MAX, true),
        i64::MIN => (i32::MIN, true),
        timestamp => (
            // Every timestamp's day fits.
            timestamp.div_euclid(MICROSECONDS_PER_DAY) as i32,
            timestamp.rem_euclid(MICROSECONDS_PER_DAY) == 0,
        ),
    };
    let op = match op {
        Eq if !midnight => return Predicate::In(Vec::new()),
        Ne if !midnight => return Predicate::IsNotNull,
        // Between two midnights: on or before the earlier, or after it.
        Lt if !midnight => Le,
        Ge if !midnight => Gt,
        op => op,
    };
    Predicate::Compare {
        op,
        value: OwnedValue::Int32(day),
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    const DAY: i64 = MICROSECONDS_PER_DAY;

    /// Mirrors `date_cmp_timestamp_internal`.
    fn order(day: i32, timestamp: i64) -> Ordering {
        match day {
            i32::MAX => i64::MAX.cmp(&timestamp),
            i32::MIN => i64::MIN.cmp(&timestamp),
            // A finite date that no timestamp reaches is later than all but infinity.
            day if i64::from(day) * DAY >= TIMESTAMP_RANGE.end => match timestamp {
                i64::MAX => Ordering::Less,
                _ => Ordering::Greater,
            },
            day => (i64::from(day) * DAY).cmp(&timestamp),
        }
    }

    fn holds(predicate: &Predicate, day: i32) -> bool {
        match predicate {
            Predicate::Compare {
                op,
                value: OwnedValue::Int32(other),
            } => op.holds(day.cmp(other)),
            Predicate::In(values) => values.contains(&OwnedValue::Int32(day)),
            Predicate::IsNotNull => true,
            _ => panic!("no predicate of dates"),
        }
    }

    #[test]
    fn a_date_compares_with_a_timestamp_as_its_midnight_does() {
        let days = [i32::MIN, -800_000, -2, -1, 0, 1, 2, 100_000_000, i32::MAX];
        let timestamps = [-2 * DAY, -DAY - 1, -DAY, -1, 0, 1, DAY - 1, DAY, DAY + 1];
        for timestamp in timestamps.into_iter().chain([i64::MIN, i64::MAX]) {
            for op in [
                CompareOp::Eq,
                CompareOp::Ne,
                CompareOp::Lt,
                CompareOp::Le,
                CompareOp::Gt,
                CompareOp::Ge,
            ] {
                let predicate = compare_date(op, timestamp);
                for day in days {
                    let expected = op.holds(order(day, timestamp));
                    let found = holds(&predicate, day);
                    assert_eq!(found, expected, "{day} {op:?} {timestamp}");
                }
            }
        }
    }

    #[test]
    fn a_date_beyond_all_timestamps_has_none() {
        assert_eq!(timestamp_of_date(1), Some(DAY));
        assert_eq!(timestamp_of_date(i32::MAX), Some(i64::MAX));
        assert_eq!(timestamp_of_date(i32::MIN), Some(i64::MIN));
        assert_eq!(timestamp_of_date(i32::MAX - 1), None);
        let last = (TIMESTAMP_RANGE.end / DAY) as i32;
        assert_eq!(timestamp_of_date(last), None);
        assert_eq!(
            timestamp_of_date(last - 1),
            Some((i64::from(last) - 1) * DAY)
        );
    }
}
