//! The bytes of a footer: positions of fixed fields, and checked reading and writing of
//! the rest. Little-endian throughout.

use std::ops::Range;

use crate::error::ColumnarError;
use crate::types::ColumnType;
use crate::value::{Numeric, OwnedNumeric, OwnedValue, Value};

pub(super) const MAGIC: [u8; 8] = *b"HOWDAHRG";
pub(super) const HEADER_LEN: usize = 64;
pub(super) const ENTRY_LEN: usize = 64;
/// The checksum's place in the header.
pub(super) const CHECKSUM: Range<usize> = 32..40;
/// The greatest number of columns; PostgreSQL's is 1,600.
pub(super) const MAX_COLUMNS: usize = 4_096;

pub(super) const LAYOUT_ALL_NULL: u8 = 0;
pub(super) const LAYOUT_ARRAY: u8 = 1;
pub(super) const LAYOUT_NUMERIC: u8 = 2;

pub(super) const FLAG_NAN: u16 = 1;
pub(super) const FLAG_NEGATIVE_ZERO: u16 = 2;
pub(super) const FLAG_WIDE: u16 = 4;
pub(super) const FLAG_SCALES: u16 = 8;
pub(super) const ALL_FLAGS: u16 = 15;

/// What stands for an unknown distinct count.
pub(super) const DISTINCT_UNKNOWN: u64 = u64::MAX;

pub(super) const BOUND_UNKNOWN: u8 = 0;
pub(super) const BOUND_EXACT: u8 = 1;
pub(super) const BOUND_ROUNDED: u8 = 2;

pub(super) fn type_code(ty: ColumnType) -> u8 {
    match ty {
        ColumnType::Bool => 1,
        ColumnType::Int16 => 2,
        ColumnType::Int32 => 3,
        ColumnType::Int64 => 4,
        ColumnType::Float32 => 5,
        ColumnType::Float64 => 6,
        ColumnType::Numeric => 7,
        ColumnType::Text => 8,
        ColumnType::Bytes => 9,
        ColumnType::Fixed { .. } => 10,
    }
}

/// `parameter` is the length of a fixed type.
pub(super) fn type_of_code(code: u8, parameter: u16) -> Option<ColumnType> {
    Some(match code {
        1 => ColumnType::Bool,
        2 => ColumnType::Int16,
        3 => ColumnType::Int32,
        4 => ColumnType::Int64,
        5 => ColumnType::Float32,
        6 => ColumnType::Float64,
        7 => ColumnType::Numeric,
        8 => ColumnType::Text,
        9 => ColumnType::Bytes,
        10 => ColumnType::Fixed { len: parameter },
        _ => return None,
    })
}

/// Appends the bytes of a value, without its type.
pub(super) fn put_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Bool(v) => out.push(v.into()),
        Value::Int16(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Int32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Int64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Float32(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Float64(v) => out.extend_from_slice(&v.to_le_bytes()),
        Value::Numeric(Numeric::Small { unscaled, scale }) => {
            out.extend_from_slice(&unscaled.to_le_bytes());
            out.extend_from_slice(&scale.to_le_bytes());
        }
        Value::Text(v) => put_bytes(out, v.as_bytes()),
        Value::Bytes(v) | Value::Numeric(Numeric::Image(v)) => put_bytes(out, v),
    }
}

/// Bounds are short: their length is 16 bits.
fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("statistics hold short values only");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Reads fields from untrusted bytes, front to back.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], ColumnarError> {
        let (head, tail) = self
            .bytes
            .split_at_checked(len)
            .ok_or_else(|| ColumnarError::corrupt("row group footer ends early"))?;
        self.bytes = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ColumnarError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, ColumnarError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(super) fn u16(&mut self) -> Result<u16, ColumnarError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, ColumnarError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, ColumnarError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(super) fn i128(&mut self) -> Result<i128, ColumnarError> {
        Ok(i128::from_le_bytes(self.array()?))
    }

    /// A string with a 16-bit length.
    pub(super) fn text(&mut self) -> Result<&'a str, ColumnarError> {
        let len = self.u16()?;
        std::str::from_utf8(self.take(len.into())?)
            .map_err(|_| ColumnarError::corrupt("text in row group footer is not UTF-8"))
    }

    /// A value of a column of type `ty`.
    pub(super) fn value(&mut self, ty: ColumnType) -> Result<OwnedValue, ColumnarError> {
        Ok(match ty {
            ColumnType::Bool => OwnedValue::Bool(self.u8()? != 0),
            ColumnType::Int16 => OwnedValue::Int16(i16::from_le_bytes(self.array()?)),
            ColumnType::Int32 => OwnedValue::Int32(i32::from_le_bytes(self.array()?)),
            ColumnType::Int64 => OwnedValue::Int64(i64::from_le_bytes(self.array()?)),
            ColumnType::Float32 => OwnedValue::Float32(f32::from_le_bytes(self.array()?)),
            ColumnType::Float64 => OwnedValue::Float64(f64::from_le_bytes(self.array()?)),
            ColumnType::Numeric => OwnedValue::Numeric(OwnedNumeric::Small {
                unscaled: self.i128()?,
                scale: self.u16()?,
            }),
            ColumnType::Text => OwnedValue::Text(self.text()?.to_owned()),
            ColumnType::Bytes | ColumnType::Fixed { .. } => {
                let len = self.u16()?;
                OwnedValue::Bytes(self.take(len.into())?.to_vec())
            }
        })
    }

    pub(super) fn finish(self) -> Result<(), ColumnarError> {
        if self.bytes.is_empty() {
            Ok(())
        } else {
            Err(ColumnarError::corrupt("unused bytes in row group footer"))
        }
    }
}
