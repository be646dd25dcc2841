//! The values of one column, gathered out of rows of its group.

use arrow_array::{Array, BinaryViewArray};
use arrow_buffer::NullBuffer;

use super::fields::Field;
use super::{GroupedColumn, MISSING, numerics};
use crate::byte_views::{built, view_of};
use crate::column::Column;
use crate::error::ColumnarError;
use crate::layout::wire::ensure;
use crate::types::ColumnType;

/// Values of a column in the order of their rows.
pub(super) struct Gathered {
    values: Values,
    valid: Vec<bool>,
}

enum Values {
    /// Strings, end to end, and where each one is.
    Strings { bytes: Vec<u8>, views: Vec<u128> },
    /// The bits of numbers.
    Numbers(Vec<u64>),
}

impl Gathered {
    pub(super) fn of(field: &Field) -> Self {
        let values = match field.number() {
            Some(_) => Values::Numbers(Vec::new()),
            None => Values::Strings {
                bytes: Vec::new(),
                views: Vec::new(),
            },
        };
        Self {
            values,
            valid: Vec::new(),
        }
    }

    /// Adds what some rows have of the column.
    pub(super) fn add(
        &mut self,
        field: &Field,
        rows: &BinaryViewArray,
    ) -> Result<(), ColumnarError> {
        ensure(rows.null_count() == 0, MISSING)?;
        self.valid.reserve(rows.len());
        let rows = (0..rows.len()).map(|row| rows.value(row));
        match &mut self.values {
            Values::Strings { bytes, views } => {
                views.reserve(rows.len());
                for row in rows {
                    let string = field.string(row)?;
                    let start = bytes.len();
                    ensure(start <= i32::MAX as usize, "a chunk is too long")?;
                    let own = string.unwrap_or_default();
                    bytes.extend_from_slice(own);
                    views.push(view_of(own, start as u32));
                    self.valid.push(string.is_some());
                }
            }
            Values::Numbers(numbers) => {
                let (number, start) = field.number().ok_or_else(super::is_none_of_its_group)?;
                numbers.reserve(rows.len());
                for row in rows {
                    let bits = number.bits(row, start)?;
                    numbers.push(bits.unwrap_or_default());
                    self.valid.push(bits.is_some());
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(self, column: &GroupedColumn) -> Result<Column, ColumnarError> {
        let nulls = NullBuffer::from(self.valid);
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        ensure(
            column.may_be_null || nulls.is_none(),
            "a column without nulls has one",
        )?;
        match self.values {
            Values::Strings { bytes, views } => column.of_strings(built(views, bytes, nulls)?),
            Values::Numbers(numbers) => {
                let scale = column
                    .field
                    .number()
                    .map_or(0, |(number, _)| number.scale());
                Column::from_bits(column.ty, scale, numbers, nulls)
            }
        }
    }
}

impl GroupedColumn {
    fn of_strings(&self, strings: BinaryViewArray) -> Result<Column, ColumnarError> {
        match self.ty {
            ColumnType::Numeric => Ok(numerics::column_of(&strings)?.into()),
            ty => Column::from_bytes(ty, strings),
        }
    }

    /// The column, given what each row has of it alone, in a place that is the same in all rows.
    pub(super) fn of_own(&self, own: BinaryViewArray) -> Result<Column, ColumnarError> {
        ensure(own.null_count() == 0, MISSING)?;
        let Some((number, _)) = self.field.number() else {
            return self.of_strings(own);
        };
        let rows = (0..own.len()).map(|row| number.bits(own.value(row), 0));
        let bits = rows.collect::<Result<Vec<_>, _>>()?;
        Gathered {
            valid: bits.iter().map(Option::is_some).collect(),
            values: Values::Numbers(bits.into_iter().map(Option::unwrap_or_default).collect()),
        }
        .finish(self)
    }
}
