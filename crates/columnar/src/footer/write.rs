//! Writing footers.

use super::wire::*;
use super::{ChunkLayout, ColumnMeta, FORMAT_VERSION};
use crate::bounds::Bound;
use crate::checksum;
use crate::types::ColumnType;

/// The bytes of the footer of these columns.
pub(crate) fn write(row_count: usize, body_len: u64, columns: &[ColumnMeta]) -> Vec<u8> {
    let table_end = HEADER_LEN + columns.len() * ENTRY_LEN;
    let mut sections = Vec::new();
    let mut table = Vec::with_capacity(columns.len() * ENTRY_LEN);
    for column in columns {
        let start = sections.len();
        put_section(&mut sections, column);
        put_entry(
            &mut table,
            column,
            table_end + start,
            sections.len() - start,
        );
    }
    let footer_len = table_end + sections.len();

    let mut footer = Vec::with_capacity(footer_len);
    footer.extend_from_slice(&MAGIC);
    footer.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    footer.extend_from_slice(&to_u32(columns.len()).to_le_bytes());
    footer.extend_from_slice(&to_u32(row_count).to_le_bytes());
    footer.extend_from_slice(&to_u32(footer_len).to_le_bytes());
    footer.extend_from_slice(&body_len.to_le_bytes());
    footer.resize(HEADER_LEN, 0);
    footer.extend_from_slice(&table);
    footer.extend_from_slice(&sections);
    let sum = checksum::of_footer(&footer, CHECKSUM);
    footer[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    footer
}

fn put_entry(out: &mut Vec<u8>, column: &ColumnMeta, section: usize, section_len: usize) {
    let mut flags = 0;
    let mut parameter = 0;
    let mut image_count = 0;
    if column.flags.has_nan {
        flags |= FLAG_NAN;
    }
    if column.flags.has_negative_zero {
        flags |= FLAG_NEGATIVE_ZERO;
    }
    if let ColumnType::Fixed { len } = column.ty {
        parameter = len;
    }
    let layout = match column.layout {
        ChunkLayout::AllNull => LAYOUT_ALL_NULL,
        ChunkLayout::Array => LAYOUT_ARRAY,
        ChunkLayout::Numeric(numeric) => {
            if numeric.wide {
                flags |= FLAG_WIDE;
            }
            if numeric.scales_per_row {
                flags |= FLAG_SCALES;
            }
            parameter = numeric.scale;
            image_count = numeric.image_count;
            LAYOUT_NUMERIC
        }
    };
    let range = &column.byte_range;
    let stats = &column.stats;
    out.push(type_code(column.ty));
    out.push(layout);
    out.extend_from_slice(&parameter.to_le_bytes());
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&[0; 2]);
    out.extend_from_slice(&range.start.to_le_bytes());
    out.extend_from_slice(&(range.end - range.start).to_le_bytes());
    out.extend_from_slice(&column.checksum.to_le_bytes());
    out.extend_from_slice(&to_u32(stats.null_count).to_le_bytes());
    out.extend_from_slice(&image_count.to_le_bytes());
    out.extend_from_slice(&stats.raw_bytes.to_le_bytes());
    let distinct = stats.distinct_estimate.unwrap_or(DISTINCT_UNKNOWN);
    out.extend_from_slice(&distinct.to_le_bytes());
    out.extend_from_slice(&to_u32(section).to_le_bytes());
    out.extend_from_slice(&to_u32(section_len).to_le_bytes());
}

fn put_section(out: &mut Vec<u8>, column: &ColumnMeta) {
    for part in &column.parts {
        out.extend_from_slice(&part.len_bytes.to_le_bytes());
        out.push(part.encodings.len() as u8);
        out.extend_from_slice(&part.encodings);
    }
    let text = column.encoding.as_bytes();
    out.extend_from_slice(&(text.len() as u16).to_le_bytes());
    out.extend_from_slice(text);
    let stats = &column.stats;
    match stats.sum {
        Some(sum) => {
            out.push(1);
            out.extend_from_slice(&sum.to_le_bytes());
            out.extend_from_slice(&stats.sum_scale.to_le_bytes());
        }
        None => out.push(0),
    }
    for extreme in [&stats.min, &stats.max] {
        match extreme {
            Some(value) => {
                out.push(BOUND_EXACT);
                put_value(out, value.as_value());
            }
            None => out.push(BOUND_UNKNOWN),
        }
    }
    for zone in &column.zones {
        out.extend_from_slice(&zone.null_count.to_le_bytes());
        put_bound(out, zone.min.as_ref());
        put_bound(out, zone.max.as_ref());
    }
}

fn put_bound(out: &mut Vec<u8>, bound: Option<&Bound>) {
    match bound {
        None => out.push(BOUND_UNKNOWN),
        Some(bound) => {
            out.push(if bound.exact {
                BOUND_EXACT
            } else {
                BOUND_ROUNDED
            });
            put_value(out, bound.value.as_value());
        }
    }
}

/// Lengths within a footer are far below 4 GB: 4,096 columns of at most some 40 kB.
fn to_u32(value: usize) -> u32 {
    u32::try_from(value).expect("a footer's lengths and counts fit 32 bits")
}
