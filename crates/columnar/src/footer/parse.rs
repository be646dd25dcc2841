//! Reading footers from untrusted bytes.

use super::wire::*;
use super::{ChunkLayout, ColumnMeta, FORMAT_VERSION, Footer, NumericLayout, PartMeta};
use crate::bounds::Bound;
use crate::error::ColumnarError;
use crate::stats::{ChunkStats, ValueFlags, Zone};
use crate::types::ColumnType;
use crate::{MAX_ROWS, ZONE_ROWS, checksum, codec};

/// The fixed fields of the header, checked one by one but not yet by the checksum.
struct Header {
    column_count: usize,
    row_count: usize,
    footer_len: usize,
    body_len: u64,
    checksum: u64,
}

fn ensure(condition: bool, detail: &str) -> Result<(), ColumnarError> {
    if condition {
        Ok(())
    } else {
        Err(ColumnarError::corrupt(detail))
    }
}

fn header(bytes: &[u8]) -> Result<Header, ColumnarError> {
    let mut reader = Reader::new(bytes);
    ensure(reader.take(8)? == MAGIC, "not a row group footer")?;
    let version = reader.u32()?;
    if version != FORMAT_VERSION {
        return Err(ColumnarError::UnsupportedVersion { version });
    }
    let header = Header {
        column_count: reader.u32()? as usize,
        row_count: reader.u32()? as usize,
        footer_len: reader.u32()? as usize,
        body_len: reader.u64()?,
        checksum: reader.u64()?,
    };
    let reserved = reader.take(HEADER_LEN - CHECKSUM.end)?;
    ensure(
        reserved.iter().all(|&b| b == 0),
        "reserved bytes in footer are in use",
    )?;
    ensure(
        header.column_count <= MAX_COLUMNS,
        "too many columns in footer",
    )?;
    ensure(
        (1..=MAX_ROWS).contains(&header.row_count),
        "row count in footer is out of range",
    )?;
    ensure(
        header.footer_len >= HEADER_LEN + header.column_count * ENTRY_LEN,
        "footer is shorter than its column table",
    )?;
    Ok(header)
}

pub(super) fn encoded_len(bytes: &[u8]) -> Result<usize, ColumnarError> {
    header(bytes).map(|header| header.footer_len)
}

pub(super) fn parse(bytes: &[u8]) -> Result<Footer, ColumnarError> {
    let header = header(bytes)?;
    let bytes = bytes
        .get(..header.footer_len)
        .ok_or_else(|| ColumnarError::corrupt("row group footer ends early"))?;
    ensure(
        checksum::of_footer(bytes, CHECKSUM) == header.checksum,
        "checksum of row group footer does not match",
    )?;
    let table = &bytes[HEADER_LEN..HEADER_LEN + header.column_count * ENTRY_LEN];
    // Sections lie back to back, so that no byte is read for two columns.
    let mut section_start = HEADER_LEN + table.len();
    let columns = table
        .chunks_exact(ENTRY_LEN)
        .map(|entry| column(entry, bytes, &mut section_start, &header))
        .collect::<Result<Vec<_>, _>>()?;
    ensure(
        section_start == bytes.len(),
        "unused bytes in row group footer",
    )?;
    Ok(Footer {
        row_count: header.row_count,
        body_len: header.body_len,
        columns,
    })
}

/// Parses one column; its section must start at `next_section`, which then moves on.
fn column(
    entry: &[u8],
    footer: &[u8],
    next_section: &mut usize,
    header: &Header,
) -> Result<ColumnMeta, ColumnarError> {
    let mut entry = Reader::new(entry);
    let type_code = entry.u8()?;
    let layout_code = entry.u8()?;
    let parameter = entry.u16()?;
    let flags = entry.u16()?;
    ensure(entry.u16()? == 0, "reserved bytes in footer are in use")?;
    ensure(flags & !ALL_FLAGS == 0, "unknown flags in footer")?;
    let ty = type_of_code(type_code, parameter)
        .ok_or_else(|| ColumnarError::corrupt("unknown column type in footer"))?;
    let start = entry.u64()?;
    let len = entry.u64()?;
    let checksum = entry.u64()?;
    let null_count = entry.u32()? as usize;
    let image_count = entry.u32()?;
    let raw_bytes = entry.u64()?;
    let distinct = entry.u64()?;
    let section_start = entry.u32()? as usize;
    let section_len = entry.u32()? as usize;
    entry.finish()?;

    let end = start
        .checked_add(len)
        .filter(|&end| end <= header.body_len)
        .ok_or_else(|| ColumnarError::corrupt("column chunk lies outside of its row group"))?;
    ensure(
        null_count <= header.row_count && image_count as usize <= header.row_count - null_count,
        "counts in footer exceed the row count",
    )?;
    let is_numeric = layout_code == LAYOUT_NUMERIC;
    let is_float = matches!(ty, ColumnType::Float32 | ColumnType::Float64);
    let is_fixed = matches!(ty, ColumnType::Fixed { .. });
    ensure(
        (is_numeric || image_count == 0 && flags & (FLAG_WIDE | FLAG_SCALES) == 0)
            && (is_float || flags & (FLAG_NAN | FLAG_NEGATIVE_ZERO) == 0)
            && (is_numeric || is_fixed || parameter == 0),
        "fields in footer do not fit the column type",
    )?;
    let layout = match (layout_code, ty) {
        (LAYOUT_ALL_NULL, _) => {
            ensure(
                null_count == header.row_count && len == 0,
                "null chunk is not empty",
            )?;
            ChunkLayout::AllNull
        }
        (LAYOUT_NUMERIC, ColumnType::Numeric) => ChunkLayout::Numeric(NumericLayout {
            wide: flags & FLAG_WIDE != 0,
            scale: parameter,
            scales_per_row: flags & FLAG_SCALES != 0,
            image_count,
        }),
        (LAYOUT_ARRAY, ty) if ty != ColumnType::Numeric => ChunkLayout::Array,
        _ => return Err(ColumnarError::corrupt("unknown chunk layout in footer")),
    };

    ensure(
        section_start == *next_section,
        "column sections are not in order",
    )?;
    *next_section += section_len;
    let section = footer
        .get(section_start..)
        .and_then(|tail| tail.get(..section_len))
        .ok_or_else(|| ColumnarError::corrupt("column section lies outside of the footer"))?;
    let mut section = Reader::new(section);
    let parts = parts(&mut section, layout.part_count(), len)?;
    let encoding = section.text()?.to_owned();
    let (sum, sum_scale) = match section.u8()? {
        0 => (None, 0),
        1 => (Some(section.i128()?), section.u16()?),
        _ => return Err(ColumnarError::corrupt("unknown sum in footer")),
    };
    let min = bound(&mut section, ty)?.map(|bound| bound.value);
    let max = bound(&mut section, ty)?.map(|bound| bound.value);
    let zones = zones(&mut section, ty, header.row_count, null_count)?;
    section.finish()?;

    Ok(ColumnMeta {
        ty,
        byte_range: start..end,
        encoding,
        stats: ChunkStats {
            row_count: header.row_count,
            null_count,
            min,
            max,
            sum,
            sum_scale,
            distinct_estimate: (distinct != DISTINCT_UNKNOWN).then_some(distinct),
            raw_bytes,
        },
        zones,
        checksum,
        layout,
        flags: ValueFlags {
            has_nan: flags & FLAG_NAN != 0,
            has_negative_zero: flags & FLAG_NEGATIVE_ZERO != 0,
        },
        parts,
    })
}

fn parts(
    section: &mut Reader<'_>,
    count: usize,
    chunk_len: u64,
) -> Result<Vec<PartMeta>, ColumnarError> {
    let mut parts = Vec::with_capacity(count);
    let mut end = 0u64;
    for _ in 0..count {
        let len_bytes = section.u32()?;
        let encoding_count = section.u8()?;
        let encodings = section.take(encoding_count.into())?.to_vec();
        ensure(
            encodings
                .iter()
                .all(|&number| codec::is_known_encoding(number)),
            "unknown encoding in footer",
        )?;
        end = end.next_multiple_of(codec::CHUNK_ALIGNMENT as u64) + u64::from(len_bytes);
        parts.push(PartMeta {
            len_bytes,
            encodings,
        });
    }
    ensure(end == chunk_len, "parts of a column chunk do not fill it")?;
    Ok(parts)
}

fn zones(
    section: &mut Reader<'_>,
    ty: ColumnType,
    row_count: usize,
    null_count: usize,
) -> Result<Vec<Zone>, ColumnarError> {
    let mut zones = Vec::with_capacity(row_count.div_ceil(ZONE_ROWS));
    let mut nulls = 0;
    for start in (0..row_count).step_by(ZONE_ROWS) {
        let zone = Zone {
            null_count: section.u32()?,
            row_count: (row_count - start).min(ZONE_ROWS) as u32,
            min: bound(section, ty)?,
            max: bound(section, ty)?,
        };
        ensure(
            zone.null_count <= zone.row_count,
            "zone has more nulls than rows",
        )?;
        nulls += zone.null_count as usize;
        zones.push(zone);
    }
    ensure(nulls == null_count, "null counts of zones do not add up")?;
    Ok(zones)
}

fn bound(section: &mut Reader<'_>, ty: ColumnType) -> Result<Option<Bound>, ColumnarError> {
    let exact = match section.u8()? {
        BOUND_UNKNOWN => return Ok(None),
        BOUND_EXACT => true,
        BOUND_ROUNDED => false,
        _ => return Err(ColumnarError::corrupt("unknown bound in footer")),
    };
    Ok(Some(Bound {
        value: section.value(ty)?,
        exact,
    }))
}
