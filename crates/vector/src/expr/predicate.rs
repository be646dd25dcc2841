//! Conjuncts that test one column only, and so can be evaluated on statistics and encoded data.

use howdah_columnar::{CompareOp, Condition, OwnedNumeric, OwnedValue, Predicate};

use crate::functions::date_time::{DateTest, date_test};
use crate::functions::kernel::{commuted, negated};
use crate::functions::text::Like;
use crate::functions::{self, Function, Kernel};
use crate::plan::{Expr, Truth};

/// The column and the condition that a conjunct is: both are true of the same rows. `None` where it
/// is about several columns, or some part of it is no predicate.
pub fn condition_of(expr: &Expr) -> Option<(usize, Condition)> {
    let joined = |parts: &[Expr]| {
        let parts: Option<Vec<_>> = parts.iter().map(condition_of).collect();
        let (columns, conditions): (Vec<usize>, Vec<Condition>) = parts?.into_iter().unzip();
        let (&first, others) = columns.split_first()?;
        let is_one = others.iter().all(|&column| column == first);
        is_one.then_some((first, conditions))
    };
    match expr {
        Expr::And(parts) if parts.len() > 1 => {
            joined(parts).map(|(column, conditions)| (column, Condition::All(conditions)))
        }
        Expr::Or(parts) if parts.len() > 1 => {
            joined(parts).map(|(column, conditions)| (column, Condition::Any(conditions)))
        }
        Expr::And(parts) | Expr::Or(parts) => condition_of(parts.first()?),
        Expr::Is(of, Truth::True) => condition_of(of),
        _ => predicate_of(expr).map(|(column, predicate)| (column, Condition::Is(predicate))),
    }
}

/// The column and the predicate that a conjunct is: both are true of the same rows. `None` where it
/// is no predicate, or compares with NULL or with a numeric image.
///
/// [`Predicate`]'s order is PostgreSQL's, NaN and -0.0 included. The conjunct must compile.
fn predicate_of(expr: &Expr) -> Option<(usize, Predicate)> {
    match expr {
        Expr::Column(index) => Some((*index, is_bool(true))),
        Expr::Call {
            function,
            arguments,
        } => of_call(functions::find(function)?, arguments),
        Expr::AnyAll {
            function,
            left,
            values,
            all,
            ..
        } => of_any_all(functions::find(function)?, left, values, *all),
        Expr::Not(of) => opposite(of),
        Expr::IsNull(of) => Some((column(of)?, Predicate::IsNull)),
        Expr::IsNotNull(of) => Some((column(of)?, Predicate::IsNotNull)),
        Expr::Is(of, truth) => match truth {
            Truth::True => predicate_of(of),
            Truth::False => opposite(of),
            Truth::Unknown => Some((column(of)?, Predicate::IsNull)),
            Truth::NotUnknown => Some((column(of)?, Predicate::IsNotNull)),
            Truth::NotTrue | Truth::NotFalse => None,
        },
        Expr::And(_) | Expr::Or(_) | Expr::Zoned { .. } | Expr::Constant(..) | Expr::Foreign(_) => {
            None
        }
    }
}

/// Where an expression is false.
fn opposite(expr: &Expr) -> Option<(usize, Predicate)> {
    match expr {
        Expr::Column(index) => Some((*index, is_bool(false))),
        Expr::Not(of) => predicate_of(of),
        Expr::IsNull(of) => Some((column(of)?, Predicate::IsNotNull)),
        Expr::IsNotNull(of) => Some((column(of)?, Predicate::IsNull)),
        Expr::Call { .. } => match predicate_of(expr)? {
            // NULL, of which neither a predicate nor its opposite is true, stays out.
            (column, Predicate::Compare { op, value }) => {
                let op = negated(op);
                Some((column, Predicate::Compare { op, value }))
            }
            (column, Predicate::Like(pattern)) => Some((column, Predicate::NotLike(pattern))),
            (column, Predicate::NotLike(pattern)) => Some((column, Predicate::Like(pattern))),
            _ => None,
        },
        _ => None,
    }
}

fn column(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column(index) => Some(*index),
        _ => None,
    }
}

fn is_bool(value: bool) -> Predicate {
    Predicate::Compare {
        op: CompareOp::Eq,
        value: OwnedValue::Bool(value),
    }
}

fn of_call(function: &Function, arguments: &[Expr]) -> Option<(usize, Predicate)> {
    match arguments {
        [Expr::Column(index), Expr::Constant(_, Some(value))] => {
            Some((*index, compared(function, value, false)?))
        }
        [Expr::Constant(_, Some(value)), Expr::Column(index)] => {
            Some((*index, compared(function, value, true)?))
        }
        _ => None,
    }
}

/// `column function value`, or the other way round.
fn compared(function: &Function, value: &OwnedValue, is_commuted: bool) -> Option<Predicate> {
    match (function.kernel, value) {
        (Kernel::Like { negated }, OwnedValue::Text(pattern)) if !is_commuted => {
            return Like::new(pattern)?.predicate(negated);
        }
        (_, OwnedValue::Numeric(OwnedNumeric::Image(_))) => return None,
        _ => {}
    }
    let Kernel::Compare { op, by_value, .. } = function.kernel else {
        return None;
    };
    let op = match is_commuted {
        true => commuted(op),
        false => op,
    };
    if by_value {
        let value = value.clone();
        return Some(Predicate::Compare { op, value });
    }
    match value {
        OwnedValue::Int64(timestamp) => Some(date_compared(op, *timestamp)),
        _ => None,
    }
}

/// A date compared with a timestamp, as one compared with a date.
fn date_compared(op: CompareOp, timestamp: i64) -> Predicate {
    match date_test(op, timestamp) {
        DateTest::Compare(op, date) => Predicate::Compare {
            op,
            value: OwnedValue::Int32(date),
        },
        DateTest::Always => Predicate::IsNotNull,
        DateTest::Never => Predicate::In(Vec::new()),
    }
}

fn of_any_all(
    function: &Function,
    left: &Expr,
    values: &[Option<OwnedValue>],
    all: bool,
) -> Option<(usize, Predicate)> {
    let index = column(left)?;
    if let [Some(value)] = values {
        return Some((index, compared(function, value, false)?));
    }
    let is_image =
        |value: &OwnedValue| matches!(value, OwnedValue::Numeric(OwnedNumeric::Image(_)));
    let is_equality = function.comparison() == Some(CompareOp::Eq);
    if all || !is_equality || values.iter().flatten().any(is_image) {
        return None;
    }
    // A NULL among the elements is equal to nothing.
    let values = values.iter().flatten().cloned().collect();
    Some((index, Predicate::In(values)))
}

#[cfg(test)]
mod tests {
    use howdah_columnar::ColumnType;

    use super::*;
    use crate::functions::date_time::MICROSECONDS_PER_DAY;

    fn call(function: &str, arguments: Vec<Expr>) -> Expr {
        Expr::Call {
            function: function.to_owned(),
            arguments,
        }
    }

    fn compare(op: CompareOp, value: OwnedValue) -> Option<(usize, Predicate)> {
        Some((3, Predicate::Compare { op, value }))
    }

    #[test]
    fn comparisons_with_constants_are_predicates_from_either_side() {
        let constant = || Expr::Constant(ColumnType::Int64, Some(OwnedValue::Int64(7)));
        let less = call("int48lt", vec![Expr::Column(3), constant()]);
        assert_eq!(
            predicate_of(&less),
            compare(CompareOp::Lt, OwnedValue::Int64(7))
        );
        assert_eq!(
            predicate_of(&Expr::Not(Box::new(less))),
            compare(CompareOp::Ge, OwnedValue::Int64(7))
        );
        let greater = call("int84lt", vec![constant(), Expr::Column(3)]);
        assert_eq!(
            predicate_of(&greater),
            compare(CompareOp::Gt, OwnedValue::Int64(7))
        );
    }

    #[test]
    fn parts_on_one_column_are_joined() {
        let constant = |value| Expr::Constant(ColumnType::Int32, Some(OwnedValue::Int32(value)));
        let less = |column, value| call("int4lt", vec![Expr::Column(column), constant(value)]);
        let is = |value| {
            Condition::Is(Predicate::Compare {
                op: CompareOp::Lt,
                value: OwnedValue::Int32(value),
            })
        };
        let null = |column| Expr::IsNull(Box::new(Expr::Column(column)));
        let or = Expr::Or(vec![
            Expr::And(vec![less(3, 1), less(3, 2)]),
            null(3),
            less(3, 5),
        ]);
        let any = Condition::Any(vec![
            Condition::All(vec![is(1), is(2)]),
            Condition::Is(Predicate::IsNull),
            is(5),
        ]);
        assert_eq!(condition_of(&or), Some((3, any)));
        assert_eq!(condition_of(&Expr::Or(vec![less(3, 1)])), Some((3, is(1))));
        assert_eq!(condition_of(&Expr::Or(vec![less(3, 1), null(4)])), None);
        let other = call("int4lt", vec![Expr::Column(3), Expr::Column(3)]);
        assert_eq!(condition_of(&Expr::Or(vec![less(3, 1), other])), None);
    }

    #[test]
    fn comparisons_with_null_are_none() {
        let null = Expr::Constant(ColumnType::Int32, None);
        assert_eq!(
            predicate_of(&call("int4eq", vec![Expr::Column(3), null])),
            None
        );
    }

    #[test]
    fn dates_compare_with_the_day_of_a_timestamp() {
        let with = |function: &str, timestamp: i64| {
            let constant = Expr::Constant(ColumnType::Int64, Some(OwnedValue::Int64(timestamp)));
            predicate_of(&call(function, vec![Expr::Column(3), constant]))
        };
        let day = MICROSECONDS_PER_DAY;
        assert_eq!(
            with("date_lt_timestamp", 5 * day),
            compare(CompareOp::Lt, OwnedValue::Int32(5))
        );
        assert_eq!(
            with("date_lt_timestamp", 5 * day + 1),
            compare(CompareOp::Le, OwnedValue::Int32(5))
        );
        assert_eq!(
            with("date_gt_timestamp", -1),
            compare(CompareOp::Gt, OwnedValue::Int32(-1))
        );
        assert_eq!(
            with("date_ge_timestamp", i64::MAX),
            compare(CompareOp::Ge, OwnedValue::Int32(i32::MAX))
        );
    }
}
