//! Row groups: typed rows in, bytes out, and every way to read them back.
//!
//! A row group holds up to [`MAX_ROWS`] rows. Each column of it is one *column chunk*, encoded on
//! its own; the *footer* says where the chunks lie and holds statistics of their values, with a
//! *zone map* of [`ZONE_ROWS`] rows per zone. `docs/format.md` specifies the bytes. Encodings are
//! Vortex's (BtrBlocks-style cascades: Kuschewski et al., SIGMOD 2023).
//!
//! ```text
//!   RowGroupBuilder ──encode──▶ EncodedRowGroup { footer, body }
//!                                      │
//!         GroupLayout::read ◀──────────┘
//!            │            │ column: ColumnMeta: range, statistics, zone map ─▶ verdicts
//!            │            ▼
//!            │      Chunk::open ─▶ decode · decode_range · decode_selection · filter · packed
//!            ▼
//!         row_access: RowAccess ─▶ value: one row from a few ranges of the stored bytes
//! ```
//!
//! This crate knows nothing of PostgreSQL: no types but storage types, no pages, no transactions,
//! no collations. It keeps PostgreSQL's order of values, so that statistics and filters mean what a
//! query means.
//!
//! Invariants: encoded bytes never change; bytes read back are untrusted: the store verifies
//! them piece by piece, and here every length, offset and count is checked all the same, and a
//! decoder's panic is an error of this crate; no thread is started and nothing global is
//! changed.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod access;
mod ascending;
mod assemble;
mod bounds;
mod buffers;
mod builder;
mod byte_views;
mod chunk;
mod codec;
mod column;
mod condition;
mod decimal_floats;
mod distinct;
mod encode;
mod error;
mod filter;
mod frames;
mod gather;
mod grouped;
mod joined;
mod layout;
mod letters;
mod nodes;
mod numeric;
mod packed_numbers;
mod parts;
mod pattern;
mod predicate;
mod rewrite;
mod select;
mod sieve;
mod source;
mod stats;
mod symbols;
mod types;
mod value;
mod verdict;
mod view;
mod wide;
mod word_answers;
mod words;
mod zones;

pub use access::{BESIDE_ROWS, Expected, MOST_SCATTERED, ReadUnit, RowAccess, RowState};
pub use bounds::Bound;
pub use builder::{BytesBuilder, ColumnBuilder, NumericBuilder, RowGroupBuilder, ScalarBuilder};
pub use chunk::{Chunk, ChunkBuffer};
pub use column::Column;
pub use condition::Condition;
pub use encode::EncodedRowGroup;
pub use error::ColumnarError;
pub use layout::{ColumnMeta, ColumnStatistics, FORMAT_VERSION, Footer, GroupLayout};
pub use numeric::{NumericColumn, NumericDigits, NumericScales};
pub use packed_numbers::{CodeRange, PackedNumbers};
pub use pattern::TextPattern;
pub use predicate::{CompareOp, Predicate, Verdict};
pub use source::ByteSource;
pub use stats::{ChunkStats, Zone};
pub use types::{ColumnType, Effort, EncodeOptions};
pub use value::{Numeric, OwnedNumeric, OwnedValue, Value, compare};
pub use view::{Codes, EncodedView, PackedView};
pub use wide::wide;

/// The most rows in a row group.
pub const MAX_ROWS: usize = 131_072;

/// The most columns that are grouped: each finds its strings behind the lengths of all.
pub const MAX_GROUPED: usize = 128;

/// Rows in a zone of the zone map.
pub const ZONE_ROWS: usize = 8_192;
