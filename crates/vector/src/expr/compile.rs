//! Checking an expression and finding its functions.

use std::sync::Arc;

use howdah_columnar::{ColumnType, OwnedValue};

use super::any_all::AnyAll;
use crate::error::Declined;
use crate::foreign::Foreign;
use crate::functions::text::Like;
use crate::functions::{self, Function, Kernel};
use crate::plan::{Expr, Truth};
use crate::zone::Zone;

/// An expression whose types fit.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Column(usize, ColumnType),
    Constant(ColumnType, Option<OwnedValue>),
    /// Of arguments none of which is a constant NULL.
    Call {
        function: &'static Function,
        arguments: Vec<Node>,
    },
    /// The same of a function that depends on a time zone.
    Zoned {
        function: &'static Function,
        zone: Arc<Zone>,
        arguments: Vec<Node>,
    },
    /// A strict call with a NULL among its arguments. The others are evaluated for their errors.
    Null {
        ty: ColumnType,
        arguments: Vec<Node>,
    },
    Like {
        text: Box<Node>,
        like: Like,
        negated: bool,
    },
    AnyAll(Box<AnyAll>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Is(Box<Node>, Truth),
    /// `IS NULL`, or `IS NOT NULL`.
    IsNull {
        of: Box<Node>,
        negated: bool,
    },
    /// Evaluated by the caller, and only for rows for which the query requires it.
    Foreign(Foreign),
}

impl Node {
    pub(super) fn compile(expr: &Expr, columns: &[ColumnType]) -> Result<Self, Declined> {
        let one = |expr: &Expr| Self::compile(expr, columns);
        let boolean = |expr: &Expr, name: &str| {
            let node = Self::compile(expr, columns)?;
            match node.column_type() {
                ColumnType::Bool => Ok(node),
                _ => Err(types(name)),
            }
        };
        let booleans = |exprs: &[Expr], name: &str| {
            if exprs.is_empty() {
                return Err(types(name));
            }
            exprs.iter().map(|expr| boolean(expr, name)).collect()
        };
        Ok(match expr {
            Expr::Column(index) => match columns.get(*index) {
                Some(&ty) => Self::Column(*index, ty),
                None => return Err(types(&format!("column {index}"))),
            },
            Expr::Constant(ty, value) => {
                if value.as_ref().is_some_and(|value| !is_of(value, *ty)) {
                    return Err(types("constant"));
                }
                Self::Constant(*ty, value.clone())
            }
            Expr::Call {
                function,
                arguments,
            } => {
                let arguments = arguments.iter().map(one).collect::<Result<_, _>>()?;
                Self::call(find(function)?, None, arguments)?
            }
            Expr::Zoned {
                function,
                zone,
                arguments,
            } => {
                let arguments = arguments.iter().map(one).collect::<Result<_, _>>()?;
                Self::call(find(function)?, Some(zone), arguments)?
            }
            Expr::AnyAll {
                function,
                left,
                element,
                values,
                all,
            } => {
                let function = find(function)?;
                let any_all = AnyAll::new(function, one(left)?, *element, values, *all)?;
                Self::AnyAll(Box::new(any_all))
            }
            Expr::And(exprs) => Self::And(booleans(exprs, "AND")?),
            Expr::Or(exprs) => Self::Or(booleans(exprs, "OR")?),
            Expr::Not(expr) => Self::Not(Box::new(boolean(expr, "NOT")?)),
            Expr::Is(expr, truth) => Self::Is(Box::new(boolean(expr, "IS")?), *truth),
            Expr::IsNull(expr) => Self::IsNull {
                of: Box::new(one(expr)?),
                negated: false,
            },
            Expr::IsNotNull(expr) => Self::IsNull {
                of: Box::new(one(expr)?),
                negated: true,
            },
            Expr::Foreign(foreign) => {
                let is_there = |&(index, ty): &(usize, ColumnType)| columns.get(index) == Some(&ty);
                if !foreign.columns.iter().all(is_there) {
                    return Err(types("an expression of the caller's"));
                }
                Self::Foreign(foreign.clone())
            }
        })
    }

    fn call(
        function: &'static Function,
        zone: Option<&Arc<Zone>>,
        mut arguments: Vec<Self>,
    ) -> Result<Self, Declined> {
        let given: Vec<ColumnType> = arguments.iter().map(Self::column_type).collect();
        if !function.accepts(&given) || function.needs_zone() != zone.is_some() {
            return Err(types(function.prosrc));
        }
        let is_null = |argument: &Self| matches!(argument, Self::Constant(_, None));
        if arguments.iter().any(is_null) {
            let ty = function.result;
            return Ok(Self::Null { ty, arguments });
        }
        if let Some(zone) = zone {
            return Ok(Self::Zoned {
                function,
                zone: zone.clone(),
                arguments,
            });
        }
        let Kernel::Like { negated } = function.kernel else {
            return Ok(Self::Call {
                function,
                arguments,
            });
        };
        let pattern = arguments.pop();
        match (arguments.pop(), pattern) {
            (Some(text), Some(Self::Constant(_, Some(OwnedValue::Text(pattern))))) => {
                Ok(Self::Like {
                    text: Box::new(text),
                    like: Like::new(&pattern).ok_or_else(|| types(function.prosrc))?,
                    negated,
                })
            }
            _ => Err(types(function.prosrc)),
        }
    }

    pub(super) fn column_type(&self) -> ColumnType {
        match self {
            Self::Column(_, ty) | Self::Constant(ty, _) | Self::Null { ty, .. } => *ty,
            Self::Call { function, .. } | Self::Zoned { function, .. } => function.result,
            Self::Foreign(foreign) => foreign.column_type,
            Self::Like { .. }
            | Self::AnyAll(_)
            | Self::And(_)
            | Self::Or(_)
            | Self::Not(_)
            | Self::Is(..)
            | Self::IsNull { .. } => ColumnType::Bool,
        }
    }

    /// What it is made of.
    fn parts(&self) -> &[Self] {
        match self {
            Self::Column(..) | Self::Constant(..) | Self::Foreign(_) => &[],
            Self::Call { arguments, .. }
            | Self::Zoned { arguments, .. }
            | Self::Null { arguments, .. } => arguments,
            Self::And(parts) | Self::Or(parts) => parts,
            Self::Like { text, .. } => std::slice::from_ref(text),
            Self::AnyAll(any_all) => std::slice::from_ref(&any_all.left),
            Self::Not(of) | Self::Is(of, _) | Self::IsNull { of, .. } => std::slice::from_ref(of),
        }
    }

    pub(super) fn can_fail(&self) -> bool {
        let own = match self {
            Self::Call { function, .. } | Self::Zoned { function, .. } => function.can_fail,
            Self::Foreign(_) => true,
            _ => false,
        };
        own || self.parts().iter().any(Self::can_fail)
    }

    pub(super) fn collect_columns(&self, columns: &mut Vec<usize>) {
        match self {
            Self::Column(index, _) => columns.push(*index),
            Self::Foreign(foreign) => columns.extend(foreign.columns.iter().map(|&(at, _)| at)),
            _ => {}
        }
        for part in self.parts() {
            part.collect_columns(columns);
        }
    }
}

pub(super) fn types(name: &str) -> Declined {
    Declined::Types {
        name: name.to_owned(),
    }
}

fn find(prosrc: &str) -> Result<&'static Function, Declined> {
    functions::find(prosrc).ok_or_else(|| Declined::Function {
        name: prosrc.to_owned(),
    })
}

/// Whether a value is of a type.
pub(super) fn is_of(value: &OwnedValue, ty: ColumnType) -> bool {
    match (value, ty) {
        (OwnedValue::Bool(_), ColumnType::Bool)
        | (OwnedValue::Int16(_), ColumnType::Int16)
        | (OwnedValue::Int32(_), ColumnType::Int32)
        | (OwnedValue::Int64(_), ColumnType::Int64)
        | (OwnedValue::Float32(_), ColumnType::Float32)
        | (OwnedValue::Float64(_), ColumnType::Float64)
        | (OwnedValue::Numeric(_), ColumnType::Numeric)
        | (OwnedValue::Text(_), ColumnType::Text)
        | (OwnedValue::Bytes(_), ColumnType::Bytes) => true,
        (OwnedValue::Bytes(bytes), ColumnType::Fixed { len }) => bytes.len() == usize::from(len),
        _ => false,
    }
}
