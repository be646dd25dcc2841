//! The predicates that a scan may apply to a column, and the verdicts that statistics give.

use std::cmp::Ordering;

use crate::pattern::TextPattern;
use crate::value::{OwnedNumeric, OwnedValue, Value, compare};

/// A comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompareOp {
    /// `=`
    Eq,
    /// `<>`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
}

impl CompareOp {
    /// Whether `left op right` holds when `left` is ordered so to `right`.
    #[inline]
    pub fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Eq => order == Ordering::Equal,
            Self::Ne => order != Ordering::Equal,
            Self::Lt => order == Ordering::Less,
            Self::Le => order != Ordering::Greater,
            Self::Gt => order == Ordering::Greater,
            Self::Ge => order != Ordering::Less,
        }
    }
}

/// A condition on one column. It is true, or it is not (SQL's false and unknown alike).
#[derive(Clone, Debug, PartialEq)]
pub enum Predicate {
    /// `column op value`; never true of NULL.
    Compare {
        /// The operator.
        op: CompareOp,
        /// The right-hand side.
        value: OwnedValue,
    },
    /// `column IN (values)`; never true of NULL.
    In(Vec<OwnedValue>),
    /// `column LIKE pattern`, byte by byte; never true of NULL.
    Like(TextPattern),
    /// `column NOT LIKE pattern`, byte by byte; never true of NULL.
    NotLike(TextPattern),
    /// `column IS NULL`
    IsNull,
    /// `column IS NOT NULL`
    IsNotNull,
}

/// What statistics alone say about a predicate on a set of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is true of no row.
    None,
    /// It may be true of some rows.
    Some,
    /// It is true of every row.
    All,
}

impl Predicate {
    /// Whether the predicate is true of one value (`None` is NULL). This is the plain
    /// evaluation that every faster one agrees with.
    ///
    /// Returns `None` where the column's owner must decide: a comparison that meets a
    /// numeric image or a value of another kind of type.
    pub fn matches(&self, value: Option<Value<'_>>) -> Option<bool> {
        match (self, value) {
            (Self::IsNull, value) => Some(value.is_none()),
            (Self::IsNotNull, value) => Some(value.is_some()),
            (_, None) => Some(false),
            (Self::Compare { op, value: right }, Some(left)) => {
                compare(left, right.as_value()).map(|order| op.holds(order))
            }
            (Self::In(list), Some(left)) => {
                let mut found = false;
                for right in list {
                    found |= compare(left, right.as_value())? == Ordering::Equal;
                }
                Some(found)
            }
            (Self::Like(pattern), Some(Value::Text(text))) => {
                Some(pattern.matches(text.as_bytes()))
            }
            (Self::NotLike(pattern), Some(Value::Text(text))) => {
                Some(!pattern.matches(text.as_bytes()))
            }
            (Self::Like(_) | Self::NotLike(_), Some(_)) => None,
        }
    }

    /// Whether the predicate names a numeric image.
    pub(crate) fn names_image(&self) -> bool {
        let is_image = |v: &OwnedValue| matches!(v, OwnedValue::Numeric(OwnedNumeric::Image(_)));
        match self {
            Self::Compare { value, .. } => is_image(value),
            Self::In(values) => values.iter().any(is_image),
            Self::Like(_) | Self::NotLike(_) | Self::IsNull | Self::IsNotNull => false,
        }
    }
}
