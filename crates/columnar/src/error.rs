//! The errors of this crate. The caller maps it to SQLSTATEs: everything but the first three
//! variants of misuse is data corruption.

use crate::types::ColumnType;

/// An error of the columnar format.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnarError {
    /// The bytes are not what the encoder wrote: a checksum, a range or a decoder disagrees.
    #[error("damaged column data: {detail}")]
    Corrupt {
        /// A description of the damage.
        detail: String,
    },
    /// The bytes come from a version of the format that this build does not know.
    #[error("unsupported row group format version {version}")]
    UnsupportedVersion {
        /// The version found in the footer.
        version: u32,
    },
    /// The bytes hold something that only a newer build knows: an encoding, a kind of part.
    #[error("{what} {number} was written by a newer version")]
    Newer {
        /// What it is.
        what: &'static str,
        /// Its number.
        number: u64,
    },
    /// The builder holds no row, or more than [`crate::MAX_ROWS`].
    #[error("a row group holds 1 to {} rows, not {rows}", crate::MAX_ROWS)]
    RowCount {
        /// The number of rows in the builder.
        rows: usize,
    },
    /// One column holds more bytes than a chunk can address.
    #[error("column {column} holds {bytes} bytes, more than a column chunk can")]
    TooLarge {
        /// Position of the column in the row group.
        column: usize,
        /// Bytes it holds.
        bytes: u64,
    },
    /// The encoder failed; the rows in the builder are untouched.
    #[error("could not encode column data: {detail}")]
    Encode {
        /// The message of the encoder.
        detail: String,
    },
    /// The encoder was told to stop.
    #[error("encoding was stopped")]
    Stopped,
    /// A row, a range or a selection lies outside of the chunk.
    #[error("rows {start}..{end} are outside of a chunk of {row_count} rows")]
    OutOfRange {
        /// First row requested.
        start: usize,
        /// One past the last row requested.
        end: usize,
        /// Rows in the chunk.
        row_count: usize,
    },
    /// A predicate's value cannot be compared with the column.
    #[error("a {ty:?} column cannot be compared with this value")]
    TypeMismatch {
        /// The type of the column.
        ty: ColumnType,
    },
    /// The column or the predicate holds numeric images, whose order only the caller knows.
    /// Evaluate the predicate row by row instead.
    #[error("numeric values outside of 38 digits can only be compared by their owner")]
    NotComparable,
}

impl ColumnarError {
    pub(crate) fn newer(what: &'static str, number: u64) -> Self {
        Self::Newer { what, number }
    }

    pub(crate) fn corrupt(detail: impl Into<String>) -> Self {
        Self::Corrupt {
            detail: detail.into(),
        }
    }
}
