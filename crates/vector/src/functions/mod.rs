//! PostgreSQL's built-in functions over columns: one entry per function, one file per family.
//!
//! ```text
//!   find(prosrc) ─▶ Function { arguments, result, can_fail, exactness, kernel }
//!                                                                      │
//!        Operand: rows, or the same value in every row ────────────────┴─▶ rows, or bits
//! ```
//!
//! A kernel is a loop over typed slices, without a branch per row on the type or the operator. It
//! may compute anything for a row of which an argument is null, but raises no error for it.
//!
//! Invariant: a function computes what PostgreSQL's function of that `prosrc` computes, or reports
//! [`VectorError::Unsupported`](crate::VectorError::Unsupported).

mod boolean;
mod bytes;
mod compare;
mod convert;
pub(crate) mod date_time;
mod date_trunc;
mod float;
mod input;
mod integer;
mod json;
pub(crate) mod kernel;
mod loops;
mod numeric;
pub(crate) mod numeric_compare;
pub(crate) mod text;
mod zoned;

use std::sync::LazyLock;

use howdah_columnar::{ColumnType, CompareOp};
use rustc_hash::FxHashMap;

pub(crate) use kernel::{Kernel, Operand};
pub(crate) use loops::{bits_of, bits_of_pairs};

/// A built-in function.
#[derive(Debug)]
#[non_exhaustive]
pub struct Function {
    /// Its name in `pg_proc.prosrc`.
    pub prosrc: &'static str,
    /// The types of its arguments. A `Fixed` stands for one of any length, the same for all.
    pub arguments: &'static [ColumnType],
    /// The type of its result.
    pub result: ColumnType,
    /// Whether it may raise an error of PostgreSQL.
    pub can_fail: bool,
    /// When its result is PostgreSQL's.
    pub exactness: Exactness,
    pub(crate) kernel: Kernel,
}

/// When a function computes the same as PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exactness {
    /// For all values.
    Always,
    /// Where this sentence holds. The run checks conditions on values; the caller checks those on
    /// collations and encodings.
    Where(&'static str),
}

impl Function {
    const fn new(
        prosrc: &'static str,
        arguments: &'static [ColumnType],
        result: ColumnType,
        kernel: Kernel,
    ) -> Self {
        Self {
            prosrc,
            arguments,
            result,
            can_fail: false,
            exactness: Exactness::Always,
            kernel,
        }
    }

    const fn failing(mut self) -> Self {
        self.can_fail = true;
        self
    }

    const fn exact_where(mut self, condition: &'static str) -> Self {
        self.exactness = Exactness::Where(condition);
        self
    }

    /// Whether it takes arguments of these types.
    pub fn accepts(&self, arguments: &[ColumnType]) -> bool {
        let is_same = |wanted: &ColumnType, given: &ColumnType| match (wanted, given) {
            (ColumnType::Fixed { .. }, ColumnType::Fixed { .. }) => *given == arguments[0],
            _ => wanted == given,
        };
        self.arguments.len() == arguments.len()
            && self
                .arguments
                .iter()
                .zip(arguments)
                .all(|(wanted, given)| is_same(wanted, given))
    }

    /// Whether it depends on the session's time zone: its calls are
    /// [`Expr::Zoned`](crate::plan::Expr::Zoned).
    pub fn needs_zone(&self) -> bool {
        matches!(self.kernel, Kernel::Zoned(_))
    }

    /// The comparison that it is, if its arguments are compared as
    /// [`howdah_columnar::compare`] compares them.
    pub fn comparison(&self) -> Option<CompareOp> {
        match self.kernel {
            Kernel::Compare { op, by_value, .. } => by_value.then_some(op),
            _ => None,
        }
    }
}

static FAMILIES: &[&[&[Function]]] = &[
    compare::FUNCTIONS,
    boolean::FUNCTIONS,
    bytes::FUNCTIONS,
    numeric_compare::FUNCTIONS,
    integer::FUNCTIONS,
    float::FUNCTIONS,
    convert::FUNCTIONS,
    numeric::FUNCTIONS,
    date_time::FUNCTIONS,
    date_trunc::FUNCTIONS,
    zoned::FUNCTIONS,
    text::FUNCTIONS,
    input::FUNCTIONS,
    json::FUNCTIONS,
];

static BY_NAME: LazyLock<FxHashMap<&'static str, &'static Function>> =
    LazyLock::new(|| all().map(|function| (function.prosrc, function)).collect());

/// The function of this `prosrc`.
pub fn find(prosrc: &str) -> Option<&'static Function> {
    BY_NAME.get(prosrc).copied()
}

/// All functions, family by family.
pub fn all() -> impl Iterator<Item = &'static Function> {
    FAMILIES
        .iter()
        .copied()
        .flatten()
        .flat_map(|group| group.iter())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        assert_eq!(all().count(), BY_NAME.len());
    }

    #[test]
    fn a_function_takes_its_own_types_and_fixed_ones_of_one_length() {
        for function in all() {
            assert!(function.accepts(function.arguments), "{}", function.prosrc);
            assert!(!function.accepts(&[]), "{}", function.prosrc);
        }
        let fixed = |len| ColumnType::Fixed { len };
        let uuid = find("uuid_lt").expect("is there");
        assert!(uuid.accepts(&[fixed(3), fixed(3)]));
        assert!(!uuid.accepts(&[fixed(3), fixed(4)]));
        assert!(!uuid.accepts(&[ColumnType::Bytes, fixed(16)]));
    }
}
