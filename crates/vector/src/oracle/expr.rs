//! Expressions, evaluated for one row.

use howdah_columnar::{Column, OwnedValue};

use super::{Datum, functions, json, unsupported, zoned};
use crate::error::VectorError;
use crate::plan::{Expr, Truth};

/// The value of an expression for a row.
///
/// # Errors
///
/// PostgreSQL's errors, and [`VectorError::Unsupported`] for what does not compile or is not
/// computed exactly.
pub fn evaluate(expr: &Expr, row: &[Datum]) -> Result<Datum, VectorError> {
    Ok(match expr {
        Expr::Column(index) => match row.get(*index) {
            Some(value) => value.clone(),
            None => return Err(unsupported("a column that there is not")),
        },
        Expr::Constant(_, value) => value.clone(),
        Expr::Call {
            function,
            arguments,
        } => {
            let arguments = arguments.iter().map(|argument| evaluate(argument, row));
            call(function, arguments.collect::<Result<_, _>>()?)?
        }
        Expr::Zoned {
            function,
            zone,
            arguments,
        } => {
            let arguments = arguments.iter().map(|argument| evaluate(argument, row));
            let arguments: Option<Vec<OwnedValue>> = arguments.collect::<Result<_, _>>()?;
            let value = arguments.map(|arguments| zoned::call(function, zone, &arguments));
            value.transpose()?
        }
        Expr::AnyAll {
            function,
            left,
            values,
            all,
            ..
        } => truth(any_all(function, evaluate(left, row)?, values, *all)?),
        Expr::And(parts) => truth(joined(parts, row, false)?),
        Expr::Or(parts) => truth(joined(parts, row, true)?),
        Expr::Not(of) => truth(boolean(of, row)?.map(|value| !value)),
        Expr::IsNull(of) => truth(Some(evaluate(of, row)?.is_none())),
        Expr::IsNotNull(of) => truth(Some(evaluate(of, row)?.is_some())),
        Expr::Is(of, wanted) => {
            let value = boolean(of, row)?;
            truth(Some(match wanted {
                Truth::True => value == Some(true),
                Truth::NotTrue => value != Some(true),
                Truth::False => value == Some(false),
                Truth::NotFalse => value != Some(false),
                Truth::Unknown => value.is_none(),
                Truth::NotUnknown => value.is_some(),
            }))
        }
        Expr::Foreign(foreign) => {
            let columns = foreign.columns.iter().map(|&(index, ty)| {
                let value = row.get(index).and_then(Option::as_ref);
                Ok(Column::repeat(ty, value.map(OwnedValue::as_value), 1)?)
            });
            let columns = columns.collect::<Result<_, VectorError>>()?;
            let values = foreign.evaluate(columns, 1)?;
            values.value(0).map(OwnedValue::from)
        }
    })
}

fn truth(value: Option<bool>) -> Datum {
    value.map(OwnedValue::Bool)
}

fn as_bool(value: Datum) -> Result<Option<bool>, VectorError> {
    match value {
        None => Ok(None),
        Some(OwnedValue::Bool(value)) => Ok(Some(value)),
        Some(_) => Err(unsupported("a value that is not boolean")),
    }
}

fn boolean(expr: &Expr, row: &[Datum]) -> Result<Option<bool>, VectorError> {
    as_bool(evaluate(expr, row)?)
}

/// A strict function.
fn call(function: &str, arguments: Vec<Datum>) -> Result<Datum, VectorError> {
    match arguments.into_iter().collect::<Option<Vec<_>>>() {
        Some(arguments) => match json::call(function, &arguments) {
            Some(result) => result,
            None => functions::call(function, &arguments).map(Some),
        },
        None => Ok(None),
    }
}

/// AND, which `false` decides, or OR, which `true` does.
fn joined(parts: &[Expr], row: &[Datum], decides: bool) -> Result<Option<bool>, VectorError> {
    let mut result = Some(!decides);
    for part in parts {
        match boolean(part, row)? {
            Some(value) if value == decides => return Ok(Some(decides)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

fn any_all(
    function: &str,
    left: Datum,
    values: &[Datum],
    all: bool,
) -> Result<Option<bool>, VectorError> {
    let decides = !all;
    let mut result = Some(all);
    for value in values {
        match as_bool(call(function, vec![left.clone(), value.clone()])?)? {
            Some(value) if value == decides => return Ok(Some(decides)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}
