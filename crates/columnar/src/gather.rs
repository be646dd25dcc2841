//! Selects rows of decoded columns.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, UInt32Array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ScalarBuffer};

use crate::column::Column;
use crate::error::ColumnarError;
use crate::numeric::{NumericColumn, NumericDigits, NumericScales};

impl Column {
    /// The rows with these numbers, in this order; a row may be named several times.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::OutOfRange`] when there is no such row.
    pub fn take(&self, rows: &[u32]) -> Result<Self, ColumnarError> {
        check_rows(rows, self.len())?;
        let indexes = || UInt32Array::from(rows.to_vec());
        let chosen = |array: &dyn Array| {
            arrow_select::take::take(array, &indexes(), None)
                .map_err(|error| ColumnarError::corrupt(error.to_string()))
        };
        match self {
            Self::Numeric(column) => column.take(rows).map(Self::Numeric),
            _ => self.arrow(chosen),
        }
    }

    /// The rows whose bits are set.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::OutOfRange`] when there are not as many bits as rows.
    pub fn filter(&self, rows: &BooleanBuffer) -> Result<Self, ColumnarError> {
        check_len(rows.len(), self.len())?;
        let chosen = |array: &dyn Array| {
            arrow_select::filter::filter(array, &BooleanArray::new(rows.clone(), None))
                .map_err(|error| ColumnarError::corrupt(error.to_string()))
        };
        match self {
            Self::Numeric(column) => column.filter(rows).map(Self::Numeric),
            _ => self.arrow(chosen),
        }
    }

    /// Applies a function to the Arrow array of a column, which keeps its type.
    fn arrow(
        &self,
        change: impl Fn(&dyn Array) -> Result<ArrayRef, ColumnarError>,
    ) -> Result<Self, ColumnarError> {
        Ok(match self {
            Self::Bool(array) => Self::Bool(change(array)?.as_boolean().clone()),
            Self::Int16(array) => Self::Int16(change(array)?.as_primitive().clone()),
            Self::Int32(array) => Self::Int32(change(array)?.as_primitive().clone()),
            Self::Int64(array) => Self::Int64(change(array)?.as_primitive().clone()),
            Self::Float32(array) => Self::Float32(change(array)?.as_primitive().clone()),
            Self::Float64(array) => Self::Float64(change(array)?.as_primitive().clone()),
            Self::Text(array) => Self::Text(change(array)?.as_string_view().clone()),
            Self::Bytes(array) => Self::Bytes(change(array)?.as_binary_view().clone()),
            Self::Fixed(array) => Self::Fixed(change(array)?.as_fixed_size_binary().clone()),
            Self::Numeric(column) => Self::Numeric(column.clone()),
        })
    }
}

impl NumericColumn {
    /// The rows with these numbers, in this order.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::OutOfRange`] when there is no such row.
    pub fn take(&self, rows: &[u32]) -> Result<Self, ColumnarError> {
        check_rows(rows, self.len())?;
        let digits = match self.digits() {
            NumericDigits::Narrow(digits) => NumericDigits::Narrow(picked(digits, rows)),
            NumericDigits::Wide(digits) => NumericDigits::Wide(picked(digits, rows)),
        };
        let scales = match self.scales() {
            NumericScales::Constant(scale) => NumericScales::Constant(*scale),
            NumericScales::PerRow(scales) => NumericScales::PerRow(picked(scales, rows)),
        };
        let nulls = self.nulls().map(|nulls| {
            let valid = nulls.inner();
            let bit = |at: usize| valid.value(rows[at] as usize);
            NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), bit))
        });
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let Some(images) = self.images() else {
            return Self::new(digits, scales, Vec::new(), None, nulls);
        };
        let (mut image_rows, mut indexes) = (Vec::new(), Vec::new());
        for (at, row) in rows.iter().enumerate() {
            if let Ok(index) = self.image_rows().binary_search(row) {
                image_rows.push(at as u32);
                indexes.push(index as u32);
            }
        }
        let images = arrow_select::take::take(images, &UInt32Array::from(indexes), None)
            .map_err(|error| ColumnarError::corrupt(error.to_string()))?;
        let images = (!image_rows.is_empty()).then(|| images.as_binary_view().clone());
        Self::new(digits, scales, image_rows, images, nulls)
    }

    /// The rows whose bits are set.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::OutOfRange`] when there are not as many bits as rows.
    pub fn filter(&self, rows: &BooleanBuffer) -> Result<Self, ColumnarError> {
        check_len(rows.len(), self.len())?;
        let chosen: Vec<u32> = rows.set_indices_u32().collect();
        self.take(&chosen)
    }
}

fn picked<T: ArrowNativeType>(values: &[T], rows: &[u32]) -> ScalarBuffer<T> {
    rows.iter().map(|&row| values[row as usize]).collect()
}

fn check_rows(rows: &[u32], row_count: usize) -> Result<(), ColumnarError> {
    match rows.iter().max() {
        Some(&last) if last as usize >= row_count => Err(ColumnarError::OutOfRange {
            start: last as usize,
            end: last as usize + 1,
            row_count,
        }),
        _ => Ok(()),
    }
}

fn check_len(bits: usize, row_count: usize) -> Result<(), ColumnarError> {
    match bits == row_count {
        true => Ok(()),
        false => Err(ColumnarError::OutOfRange {
            start: 0,
            end: bits,
            row_count,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ColumnType;
    use crate::value::{OwnedNumeric, OwnedValue};

    fn values() -> Vec<(ColumnType, Vec<Option<OwnedValue>>)> {
        let small =
            |unscaled, scale| Some(OwnedValue::Numeric(OwnedNumeric::Small { unscaled, scale }));
        let image = |image: &[u8]| Some(OwnedValue::Numeric(OwnedNumeric::Image(image.to_vec())));
        let text = |text: &str| Some(OwnedValue::Text(text.to_owned()));
        let bytes = |bytes: &[u8]| Some(OwnedValue::Bytes(bytes.to_vec()));
        vec![
            (
                ColumnType::Numeric,
                vec![small(1, 0), None, image(b"NaN"), small(1 << 70, 5)],
            ),
            (
                ColumnType::Numeric,
                vec![small(1, 2), small(2, 2), None, small(3, 2)],
            ),
            (
                ColumnType::Text,
                vec![text(""), None, text("longer than twelve bytes"), text("a")],
            ),
            (
                ColumnType::Fixed { len: 2 },
                vec![bytes(b"ab"), bytes(b"cd"), None, bytes(b"ef")],
            ),
            (
                ColumnType::Bool,
                vec![
                    Some(OwnedValue::Bool(true)),
                    None,
                    Some(OwnedValue::Bool(false)),
                    None,
                ],
            ),
        ]
    }

    fn rows_of(column: &Column) -> Vec<Option<OwnedValue>> {
        (0..column.len())
            .map(|row| column.value(row).map(OwnedValue::from))
            .collect()
    }

    #[test]
    fn rows_are_chosen_by_number_and_by_bit() {
        for (ty, rows) in values() {
            let column =
                Column::from_values(ty, rows.iter().map(|v| v.as_ref().map(|v| v.as_value())))
                    .expect("values of one type");
            assert_eq!(column.column_type(), ty);
            let picks = [3_u32, 2, 2, 0];
            let expected: Vec<_> = picks.iter().map(|&at| rows[at as usize].clone()).collect();
            assert_eq!(rows_of(&column.take(&picks).expect("in range")), expected);
            let bits = BooleanBuffer::from(vec![true, false, true, true]);
            let expected = vec![rows[0].clone(), rows[2].clone(), rows[3].clone()];
            assert_eq!(
                rows_of(&column.filter(&bits).expect("same length")),
                expected
            );
            assert_eq!(column.take(&[]).expect("nothing").len(), 0);
        }
    }

    #[test]
    fn rows_that_do_not_exist_are_refused() {
        for (ty, rows) in values() {
            let column =
                Column::from_values(ty, rows.iter().map(|v| v.as_ref().map(|v| v.as_value())))
                    .expect("values of one type");
            assert!(column.take(&[0, 4]).is_err());
            assert!(column.filter(&BooleanBuffer::new_set(3)).is_err());
        }
    }
}
