//! Tuples of a heap page to column values, column by column.

use howdah_bridge::plain_insert::FixedTuples;
use howdah_columnar::{ColumnBuilder, ColumnType, RowGroupBuilder};

use super::{AttributeLayout, TableLayout};

/// Whether rows of this layout can be made of such tuples.
pub fn takes_fixed(layout: &TableLayout, tuples: &FixedTuples<'_>) -> bool {
    !layout.has_variable_width && layout.attributes.len() == tuples.attribute_count()
}

/// Appends the first `row_count` tuples, for which [`takes_fixed`] is true.
pub fn push_fixed(
    rows: &mut RowGroupBuilder,
    layout: &TableLayout,
    tuples: &FixedTuples<'_>,
    row_count: usize,
) {
    for (i, attribute) in layout.attributes.iter().enumerate() {
        push_column(rows.column_mut(i), attribute, tuples, (i, row_count));
    }
    rows.finish_rows(row_count);
}

/// Appends the values of an attribute of the first tuples.
fn push_column(
    column: &mut ColumnBuilder,
    attribute: &AttributeLayout,
    tuples: &FixedTuples<'_>,
    (at, row_count): (usize, usize),
) {
    let two = || tuples.values::<2>(at, row_count);
    let four = || tuples.values::<4>(at, row_count);
    let eight = || tuples.values::<8>(at, row_count);
    match attribute.column_type {
        ColumnType::Bool => {
            column.extend_bool(tuples.values::<1>(at, row_count).map(|[byte]| byte != 0));
        }
        ColumnType::Int16 if attribute.len == 1 => {
            let values = tuples.values::<1>(at, row_count);
            column.extend_i16(values.map(|byte| i16::from(i8::from_ne_bytes(byte))));
        }
        ColumnType::Int16 => column.extend_i16(two().map(i16::from_ne_bytes)),
        ColumnType::Int32 => column.extend_i32(four().map(i32::from_ne_bytes)),
        ColumnType::Int64 => column.extend_i64(eight().map(i64::from_ne_bytes)),
        ColumnType::Float32 => column.extend_f32(four().map(f32::from_ne_bytes)),
        ColumnType::Float64 => column.extend_f64(eight().map(f64::from_ne_bytes)),
        ColumnType::Fixed { .. } | ColumnType::Bytes => {
            for value in tuples.bytes(at, row_count) {
                column.push_bytes(value);
            }
        }
        ColumnType::Text | ColumnType::Numeric => {
            unreachable!("a type of variable width, which `takes_fixed` excludes")
        }
    }
}
