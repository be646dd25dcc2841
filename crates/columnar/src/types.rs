//! The types a column chunk can hold, and how hard the encoder tries.
//!
//! A type here is a *storage* type: what the bytes are and how they compare. What they mean (a
//! date, an enum label, a collation) is left to the caller.

/// The storage type of one column of a row group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// A boolean.
    Bool,
    /// A signed 16-bit integer.
    Int16,
    /// A signed 32-bit integer; also dates.
    Int32,
    /// A signed 64-bit integer; also times and timestamps.
    Int64,
    /// A 32-bit float whose bit pattern survives (NaN payloads, -0.0).
    Float32,
    /// A 64-bit float whose bit pattern survives (NaN payloads, -0.0).
    Float64,
    /// A decimal that keeps its display scale, see [`crate::Numeric`].
    Numeric,
    /// UTF-8 text of any length.
    Text,
    /// Opaque bytes of any length.
    Bytes,
    /// Opaque bytes of one length, such as a UUID.
    Fixed {
        /// The length of every value, in bytes.
        len: u16,
    },
}

impl ColumnType {
    /// Whether values are strings: of text or bytes, of any length or of one.
    pub fn is_of_strings(self) -> bool {
        matches!(self, Self::Text | Self::Bytes | Self::Fixed { .. })
    }
}

/// How much work the encoder spends on finding a small encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Effort {
    /// Only schemes that encode at memory speed.
    Fast,
    /// The schemes that decode fast, chosen by sampling.
    #[default]
    Default,
    /// Also pco and zstd: smallest, slower to read.
    Best,
}

/// How a row group is encoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// The work that is spent on it.
    pub effort: Effort,
    /// Columns whose values are to lie side by side, so that all that a row has of them is in one
    /// place. Strings that repeat, numbers that are all the same, and columns beyond
    /// [`MAX_GROUPED`](crate::MAX_GROUPED) are encoded by themselves.
    pub grouped: Vec<usize>,
}

impl From<Effort> for EncodeOptions {
    fn from(effort: Effort) -> Self {
        Self {
            effort,
            grouped: Vec::new(),
        }
    }
}

impl From<&EncodeOptions> for EncodeOptions {
    fn from(options: &EncodeOptions) -> Self {
        options.clone()
    }
}
