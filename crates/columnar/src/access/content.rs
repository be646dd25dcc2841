//! The bytes of one or several strings of a column; those of text are known to be UTF-8.

use std::ops::Range;

use crate::error::ColumnarError;
use crate::types::ColumnType;
use crate::value::Value;

#[derive(Debug)]
pub(super) enum Content {
    Bytes(Vec<u8>),
    /// Each of so many bytes.
    Fixed(Vec<u8>, u16),
    Text(String),
}

impl Default for Content {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl Content {
    /// The strings of a column of this type.
    pub(super) fn of(ty: ColumnType, bytes: Vec<u8>) -> Result<Self, ColumnarError> {
        match ty {
            ColumnType::Text => String::from_utf8(bytes)
                .map(Self::Text)
                .map_err(|_| ColumnarError::corrupt("text is not UTF-8")),
            ColumnType::Fixed { len } => Ok(Self::Fixed(bytes, len)),
            _ => Ok(Self::Bytes(bytes)),
        }
    }

    /// One of the strings. Of damaged text, it may begin or end within a character.
    #[inline]
    pub(super) fn value(&self, range: Range<usize>) -> Result<Value<'_>, ColumnarError> {
        match self {
            Self::Fixed(_, len) if range.len() != usize::from(*len) => {
                return Err(ColumnarError::corrupt("a fixed value has another length"));
            }
            Self::Fixed(bytes, _) | Self::Bytes(bytes) => bytes.get(range).map(Value::Bytes),
            Self::Text(text) => text.get(range).map(Value::Text),
        }
        .ok_or_else(|| ColumnarError::corrupt("text is not UTF-8"))
    }

    /// All of it.
    #[inline]
    pub(super) fn whole(&self) -> Value<'_> {
        match self {
            Self::Bytes(bytes) | Self::Fixed(bytes, _) => Value::Bytes(bytes),
            Self::Text(text) => Value::Text(text),
        }
    }

    /// An empty buffer, which had its bytes.
    pub(super) fn take_buffer(&mut self) -> Vec<u8> {
        let mut bytes = match std::mem::take(self) {
            Self::Bytes(bytes) | Self::Fixed(bytes, _) => bytes,
            Self::Text(text) => text.into_bytes(),
        };
        bytes.clear();
        bytes
    }

    pub(super) fn capacity(&self) -> usize {
        match self {
            Self::Bytes(bytes) | Self::Fixed(bytes, _) => bytes.capacity(),
            Self::Text(text) => text.capacity(),
        }
    }
}
