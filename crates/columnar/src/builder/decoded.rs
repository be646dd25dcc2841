//! A column under construction as a decoded one: for readers of rows that are not stored yet.

use arrow_array::{Float32Array, Float64Array, Int16Array, Int32Array, Int64Array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};

use super::{ColumnBuilder, ValidityBuilder};
use crate::column::Column;
use crate::error::ColumnarError;

impl ColumnBuilder {
    /// A copy of its rows as a decoded column.
    ///
    /// # Errors
    ///
    /// [`ColumnarError`] when there are more bytes than a column can hold.
    pub fn decoded(&self) -> Result<Column, ColumnarError> {
        macro_rules! copied {
            ($kind:ident, $array:ty, $builder:expr) => {{
                let values = ScalarBuffer::from($builder.values.clone());
                Column::$kind(<$array>::new(values, nulls_of(&$builder.validity)))
            }};
        }
        Ok(match self {
            Self::Int16(builder) => copied!(Int16, Int16Array, builder),
            Self::Int32(builder) => copied!(Int32, Int32Array, builder),
            Self::Int64(builder) => copied!(Int64, Int64Array, builder),
            Self::Float32(builder) => copied!(Float32, Float32Array, builder),
            Self::Float64(builder) => copied!(Float64, Float64Array, builder),
            other => {
                let values = (0..other.len()).map(|row| other.value(row));
                Column::from_values(other.column_type(), values)?
            }
        })
    }
}

fn nulls_of(validity: &ValidityBuilder) -> Option<NullBuffer> {
    let words = validity.words()?.to_vec();
    let bits = BooleanBuffer::new(Buffer::from_vec(words), 0, validity.len());
    Some(NullBuffer::new(bits))
}

#[cfg(test)]
mod tests {
    use super::super::RowGroupBuilder;
    use crate::types::ColumnType;
    use crate::value::{Numeric, OwnedValue, Value};

    const TYPES: [ColumnType; 10] = [
        ColumnType::Bool,
        ColumnType::Int16,
        ColumnType::Int32,
        ColumnType::Int64,
        ColumnType::Float32,
        ColumnType::Float64,
        ColumnType::Numeric,
        ColumnType::Text,
        ColumnType::Bytes,
        ColumnType::Fixed { len: 2 },
    ];

    fn value(ty: ColumnType, row: usize) -> Value<'static> {
        match ty {
            ColumnType::Bool => Value::Bool(row.is_multiple_of(2)),
            ColumnType::Int16 => Value::Int16(row as i16 - 70),
            ColumnType::Int32 => Value::Int32(-(row as i32)),
            ColumnType::Int64 => Value::Int64(row as i64 * 1_000_000_007),
            ColumnType::Float32 => Value::Float32(row as f32 / 3.0),
            ColumnType::Float64 => Value::Float64(-0.0),
            ColumnType::Numeric => Value::Numeric(Numeric::Small {
                unscaled: row as i128,
                scale: 2,
            }),
            ColumnType::Text => Value::Text(["", "a word", "a word that is not inlined"][row % 3]),
            ColumnType::Bytes => Value::Bytes(&[1, 2, 3]),
            ColumnType::Fixed { .. } => Value::Bytes(&[7, 8]),
        }
    }

    #[test]
    fn every_type_reads_back_with_and_without_nulls() {
        for has_nulls in [false, true] {
            for row_count in [0, 1, 63, 64, 65, 200] {
                let mut rows = RowGroupBuilder::new(&TYPES);
                let is_null = |row: usize| has_nulls && row % 5 == 3;
                for (place, &ty) in TYPES.iter().enumerate() {
                    for row in 0..row_count {
                        rows.column_mut(place)
                            .push((!is_null(row)).then(|| value(ty, row)));
                    }
                }
                rows.finish_rows(row_count);
                for (place, &ty) in TYPES.iter().enumerate() {
                    let column = rows.columns()[place].decoded().unwrap();
                    assert_eq!((column.len(), column.column_type()), (row_count, ty));
                    for row in 0..row_count {
                        let expected = (!is_null(row)).then(|| value(ty, row));
                        let read = column.value(row).map(OwnedValue::from);
                        assert_eq!(read, expected.map(OwnedValue::from), "{ty:?}, row {row}");
                    }
                }
            }
        }
    }
}
