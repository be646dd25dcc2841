//! Checked reading and plain writing of the footer's fields. Little-endian throughout;
//! counts and lengths of sections are LEB128 varints.

use crate::error::ColumnarError;
use crate::types::ColumnType;

pub(crate) fn ensure(condition: bool, detail: &str) -> Result<(), ColumnarError> {
    if condition {
        Ok(())
    } else {
        Err(ColumnarError::corrupt(detail))
    }
}

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

/// `parameter` is the length of a fixed type. `None` is a type that this build does not know.
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

/// Appends a varint.
pub(crate) fn put_varint(out: &mut Vec<u8>, value: u64) {
    put_varint128(out, value.into());
}

/// Appends a varint of up to 128 bits.
pub(crate) fn put_varint128(out: &mut Vec<u8>, mut value: u128) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed varint, zigzag.
pub(crate) fn put_signed(out: &mut Vec<u8>, value: i128) {
    put_varint128(out, ((value << 1) ^ (value >> 127)) as u128);
}

/// Appends a length and bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads fields from untrusted bytes, front to back.
#[derive(Clone, Debug)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], ColumnarError> {
        let (head, tail) = self
            .bytes
            .split_at_checked(len)
            .ok_or_else(|| ColumnarError::corrupt("row group footer ends early"))?;
        self.bytes = tail;
        Ok(head)
    }

    /// What is left, which stays unread.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], ColumnarError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, ColumnarError> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    pub(crate) fn u16(&mut self) -> Result<u16, ColumnarError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, ColumnarError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, ColumnarError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// An unsigned integer of `width` bytes, at most 8.
    pub(crate) fn unsigned(&mut self, width: usize) -> Result<u64, ColumnarError> {
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(self.take(width)?);
        Ok(u64::from_le_bytes(wide))
    }

    pub(crate) fn varint128(&mut self) -> Result<u128, ColumnarError> {
        let mut value = 0u128;
        for shift in (0..128).step_by(7) {
            let byte = self.u8()?;
            let bits = u128::from(byte & 0x7f);
            ensure(
                shift < 126 || bits < 4,
                "a number in the footer is too long",
            )?;
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ColumnarError::corrupt("a number in the footer is too long"))
    }

    pub(crate) fn varint(&mut self) -> Result<u64, ColumnarError> {
        u64::try_from(self.varint128()?)
            .map_err(|_| ColumnarError::corrupt("a number in the footer is too large"))
    }

    /// A varint that counts or measures something in this footer or chunk.
    pub(crate) fn count(&mut self) -> Result<u32, ColumnarError> {
        u32::try_from(self.varint128()?)
            .map_err(|_| ColumnarError::corrupt("a count in the footer is too large"))
    }

    /// Bytes behind their length.
    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], ColumnarError> {
        let len = self.count()?;
        self.take(len as usize)
    }

    pub(crate) fn signed(&mut self) -> Result<i128, ColumnarError> {
        let value = self.varint128()?;
        Ok((value >> 1) as i128 ^ -((value & 1) as i128))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A record: its kind, and what it holds.
    pub(crate) fn record(&mut self) -> Result<(u8, Reader<'a>), ColumnarError> {
        let kind = self.u8()?;
        Ok((kind, Reader::new(self.bytes()?)))
    }

    pub(crate) fn finish(self) -> Result<(), ColumnarError> {
        ensure(self.bytes.is_empty(), "unused bytes in row group footer")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_size_come_back() {
        for value in [0, 1, -1, 63, 64, -65, i128::MAX, i128::MIN, 1 << 64] {
            let mut bytes = Vec::new();
            put_signed(&mut bytes, value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.signed().expect("reads"), value);
            reader.finish().expect("is at the end");
        }
        assert!(Reader::new(&[0xff; 40]).varint128().is_err());
        assert!(Reader::new(&[0x80; 3]).varint().is_err());
    }
}
