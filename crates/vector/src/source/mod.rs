//! Morsels, which a source delivers: row groups as they are stored, or rows in columns.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::BooleanBuffer;
use howdah_columnar::{ChunkBuffer, Column, ColumnMeta, ColumnType, OwnedValue};

use crate::error::VectorError;

/// One column of a morsel.
#[derive(Debug)]
pub enum MorselColumn {
    /// A column chunk as it is stored.
    Encoded {
        /// What the footer says of it.
        meta: Arc<ColumnMeta>,
        /// Its bytes. They are there and verified, or the morsel's [`Delivery`] sees to that.
        bytes: ChunkBuffer,
    },
    /// A column whose values lie beside those of an earlier column of the morsel: its chunk is the
    /// same.
    Grouped {
        /// What the footer says of it.
        meta: Arc<ColumnMeta>,
        /// The earlier column, which is [`Encoded`](Self::Encoded).
        first: usize,
    },
    /// All rows.
    Decoded(Column),
    /// The same value in every row; `None` is NULL.
    Constant(ColumnType, Option<OwnedValue>),
    /// Not delivered, because it is not among
    /// [`Compiled::needed`](crate::operators::Compiled::needed) or, for this row group, not among
    /// [`Compiled::needed_for`](crate::operators::Compiled::needed_for). A column that is counted
    /// all the same has no nulls.
    Unread,
}

/// Rows that one thread works on at a time: a row group, or a batch of hot rows.
#[derive(Debug)]
pub struct Morsel {
    /// Rows in the morsel.
    pub row_count: usize,
    /// One for each of [`Query::columns`](crate::plan::Query::columns).
    pub columns: Vec<MorselColumn>,
    /// Set bits: rows that do not exist for the query.
    pub hidden: Option<BooleanBuffer>,
    /// The rows to read: ascending and disjoint.
    pub rows: Vec<Range<usize>>,
    /// Statistics show that every conjunct is true of every row to read.
    pub filter_decided: bool,
    /// The place in the source's order.
    pub ordinal: u64,
}

/// What is left to do before anything is read from a morsel, such as to copy and to verify its
/// bytes: done by the thread that works on it.
pub type Preparation = Box<dyn FnOnce(&mut Morsel) -> Result<(), VectorError> + Send>;

/// A morsel on its way to a thread.
pub struct Delivery {
    /// The rows.
    pub morsel: Morsel,
    /// What is left to do before.
    pub preparation: Option<Preparation>,
}

impl From<Morsel> for Delivery {
    fn from(morsel: Morsel) -> Self {
        Self {
            morsel,
            preparation: None,
        }
    }
}
