//! Deciding a predicate from statistics alone.

use std::cmp::Ordering;

use crate::predicate::{CompareOp, Predicate, Verdict};
use crate::stats::ChunkStats;
use crate::value::{OwnedValue, Value, compare};

/// The known bounds of a set of rows: every value lies between `min` and `max`, which need not be
/// held by any row.
pub(crate) struct Extent<'a> {
    pub(crate) row_count: usize,
    pub(crate) null_count: usize,
    pub(crate) min: Option<Value<'a>>,
    pub(crate) max: Option<Value<'a>>,
}

impl<'a> Extent<'a> {
    pub(crate) fn of_chunk(stats: &'a ChunkStats) -> Self {
        Self {
            row_count: stats.row_count,
            null_count: stats.null_count,
            min: stats.min.as_ref().map(OwnedValue::as_value),
            max: stats.max.as_ref().map(OwnedValue::as_value),
        }
    }

    /// A verdict on the rows that are not null, as one on all rows.
    fn unless_null(&self, verdict: Verdict) -> Verdict {
        match verdict {
            _ if self.null_count == self.row_count => Verdict::None,
            Verdict::All if self.null_count > 0 => Verdict::Some,
            verdict => verdict,
        }
    }

    fn compared(&self, op: CompareOp, value: Value<'_>) -> Verdict {
        use CompareOp::{Eq, Ge, Gt, Le, Lt, Ne};
        let min = self.min.and_then(|min| compare(min, value));
        let max = self.max.and_then(|max| compare(max, value));
        let (min_is, max_is) = (
            |orders: &[Ordering]| min.is_some_and(|order| orders.contains(&order)),
            |orders: &[Ordering]| max.is_some_and(|order| orders.contains(&order)),
        );
        use Ordering::{Equal, Greater, Less};
        let outside = min_is(&[Greater]) || max_is(&[Less]);
        let constant = min_is(&[Equal]) && max_is(&[Equal]);
        let (all, none) = match op {
            Eq => (constant, outside),
            Ne => (outside, constant),
            Lt => (max_is(&[Less]), min_is(&[Equal, Greater])),
            Le => (max_is(&[Less, Equal]), min_is(&[Greater])),
            Gt => (min_is(&[Greater]), max_is(&[Less, Equal])),
            Ge => (min_is(&[Equal, Greater]), max_is(&[Less])),
        };
        match (all, none) {
            (true, _) => Verdict::All,
            (_, true) => Verdict::None,
            _ => Verdict::Some,
        }
    }
}

/// What the extent says about the predicate.
pub(crate) fn verdict<'a>(extent: &Extent<'a>, predicate: &Predicate) -> Verdict {
    let of_nulls = |wanted: usize| match wanted {
        0 => Verdict::None,
        count if count == extent.row_count => Verdict::All,
        _ => Verdict::Some,
    };
    match predicate {
        Predicate::IsNull => of_nulls(extent.null_count),
        Predicate::IsNotNull => of_nulls(extent.row_count - extent.null_count),
        Predicate::Compare { op, value } => {
            extent.unless_null(extent.compared(*op, value.as_value()))
        }
        Predicate::In(values) => {
            let found = (values.iter())
                .map(|value| extent.compared(CompareOp::Eq, value.as_value()))
                // If all rows equal one value, this is the only one that is not outside.
                .find(|&verdict| verdict != Verdict::None);
            extent.unless_null(found.unwrap_or(Verdict::None))
        }
        Predicate::NotLike(_) => extent.unless_null(Verdict::Some),
        Predicate::Like(pattern) => {
            let text = |bound: Option<Value<'a>>| match bound {
                Some(Value::Text(text)) => Some(text),
                _ => None,
            };
            extent.unless_null(
                match pattern.is_outside(text(extent.min), text(extent.max)) {
                    true => Verdict::None,
                    false => Verdict::Some,
                },
            )
        }
    }
}
