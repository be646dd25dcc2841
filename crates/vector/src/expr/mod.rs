//! Stand-in until the expression half arrives: bare columns and constants.
#![allow(missing_docs)]
use arrow_array::{Array, UInt32Array};
use arrow_buffer::BooleanBuffer;
use howdah_columnar::{Column, ColumnType, NumericColumn, NumericDigits, NumericScales, Predicate};

use crate::error::{Declined, VectorError};
use crate::plan::Expr;

pub trait Input {
    fn row_count(&self) -> usize;
    fn column(&self, index: usize) -> Result<Column, VectorError>;
}

#[derive(Debug)]
pub struct Compiled {
    columns: Vec<usize>,
    ty: ColumnType,
}

impl Compiled {
    pub fn compile(expr: &Expr, columns: &[ColumnType]) -> Result<Self, Declined> {
        match expr {
            Expr::Column(index) => Ok(Self {
                columns: vec![*index],
                ty: columns[*index],
            }),
            _ => Err(Declined::Types {
                name: "expression".to_owned(),
            }),
        }
    }
    pub fn column_type(&self) -> ColumnType {
        self.ty
    }
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }
    pub fn can_fail(&self) -> bool {
        false
    }
    pub fn as_column(&self) -> Option<usize> {
        Some(self.columns[0])
    }
    pub fn evaluate(&self, input: &dyn Input) -> Result<Column, VectorError> {
        input.column(self.columns[0])
    }
    pub fn select(&self, input: &dyn Input) -> Result<BooleanBuffer, VectorError> {
        match input.column(self.columns[0])? {
            Column::Bool(array) => Ok(match array.nulls() {
                Some(nulls) => array.values() & nulls.inner(),
                None => array.values().clone(),
            }),
            _ => Err(VectorError::Unsupported { what: "type" }),
        }
    }
}

pub fn predicate_of(expr: &Expr) -> Option<(usize, Predicate)> {
    match expr {
        Expr::IsNull(inner) => match &**inner {
            Expr::Column(at) => Some((*at, Predicate::IsNull)),
            _ => None,
        },
        _ => None,
    }
}

pub fn take(column: &Column, rows: &[u32]) -> Result<Column, VectorError> {
    let indexes = UInt32Array::from(rows.to_vec());
    macro_rules! go {
        ($($v:ident),*) => { match column {
            $(Column::$v(array) => {
                let taken = arrow_select::take::take(array, &indexes, None)
                    .map_err(|_| VectorError::Unsupported { what: "take" })?;
                Column::$v(taken.as_any().downcast_ref().cloned().ok_or(VectorError::Unsupported { what: "take" })?)
            })*
            Column::Numeric(numeric) => {
                let digits = match numeric.digits() {
                    NumericDigits::Narrow(v) => NumericDigits::Narrow(rows.iter().map(|&r| v[r as usize]).collect::<Vec<_>>().into()),
                    NumericDigits::Wide(v) => NumericDigits::Wide(rows.iter().map(|&r| v[r as usize]).collect::<Vec<_>>().into()),
                };
                let scales = match numeric.scales() {
                    NumericScales::Constant(s) => NumericScales::Constant(*s),
                    NumericScales::PerRow(v) => NumericScales::PerRow(rows.iter().map(|&r| v[r as usize]).collect::<Vec<_>>().into()),
                };
                let nulls = numeric.nulls().map(|n| rows.iter().map(|&r| n.is_valid(r as usize)).collect::<Vec<_>>().into());
                if !numeric.image_rows().is_empty() {
                    return Err(VectorError::Unsupported { what: "images" });
                }
                Column::Numeric(NumericColumn::new(digits, scales, Vec::new(), None, nulls)?)
            }
        } };
    }
    Ok(go!(
        Bool, Int16, Int32, Int64, Float32, Float64, Text, Bytes, Fixed
    ))
}

pub fn filter(column: &Column, rows: &BooleanBuffer) -> Result<Column, VectorError> {
    let rows: Vec<u32> = rows.set_indices().map(|row| row as u32).collect();
    take(column, &rows)
}
