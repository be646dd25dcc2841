//! A stored row group opened for a scan.
//!
//! Opening reads the footer and checks its header; of a long one, header and column table. The
//! description of a column is parsed, and then read, when the column is first asked for. Chunks are
//! read when first needed, and are kept encoded while the scan is at the group. Single rows are
//! read without an open group: see [`super::group_access`].

use std::cell::{OnceCell, RefCell};

use howdah_bridge::store::{ColdStore, PIECE_BYTES, PieceMap};
use howdah_columnar::{ByteSource as _, Chunk, ChunkBuffer, ColumnMeta, GroupLayout};

use super::directory::GroupEntry;
use super::group_bytes::{GroupBytes, LazyStore};
use crate::errors::ColdError;

/// Longer footers are read by the section: they describe many columns, of which a scan mostly looks
/// at few. One that lies in the value's first piece costs one page, however it is read.
const SHORT_FOOTER_BYTES: u32 = PIECE_BYTES as u32;

/// A row group whose columns are known.
pub struct OpenGroup {
    pub entry: GroupEntry,
    layout: GroupLayout,
    /// The footer's bytes, if they are few.
    footer: Option<Vec<u8>>,
    columns: Vec<OnceCell<ColumnMeta>>,
    /// Where the group's value lies.
    pieces: RefCell<PieceMap>,
    chunks: Vec<OnceCell<Chunk>>,
}

impl OpenGroup {
    /// Reads the footer, or its beginning.
    pub fn open(store: &ColdStore, entry: GroupEntry) -> Result<OpenGroup, ColdError> {
        let pieces = RefCell::new(PieceMap::starting_at(entry.first_block));
        let lent = LazyStore::from(store);
        let value = GroupBytes::of(&lent, entry.value_id, &pieces);
        let (footer, layout) = match entry.footer_bytes <= SHORT_FOOTER_BYTES {
            true => {
                let mut footer = vec![0; entry.footer_bytes as usize];
                value.read(0, &mut footer)?;
                let layout = GroupLayout::read(footer.as_slice())?;
                (Some(footer), layout)
            }
            false => (None, GroupLayout::read(&value)?),
        };
        drop(value);
        check_counts(&entry, layout.row_count(), layout.body_len())?;
        let (mut columns, mut chunks) = (Vec::new(), Vec::new());
        columns.resize_with(layout.column_count(), OnceCell::new);
        chunks.resize_with(layout.column_count(), OnceCell::new);
        Ok(OpenGroup {
            entry,
            layout,
            footer,
            columns,
            pieces,
            chunks,
        })
    }

    pub fn row_count(&self) -> u32 {
        self.entry.row_count
    }

    /// Columns stored; columns of the table beyond these were added later (ADD COLUMN).
    pub fn column_count(&self) -> usize {
        self.layout.column_count()
    }

    /// See [`GroupLayout::first_of_group`].
    pub fn first_of_group(&self, column: usize) -> Option<usize> {
        self.layout.first_of_group(column)
    }

    /// What the footer says of a column. `store` is the group's.
    pub fn column(&self, store: &ColdStore, column: usize) -> Result<&ColumnMeta, ColdError> {
        if let Some(known) = self.known_column(column) {
            return Ok(known);
        }
        let meta = match &self.footer {
            Some(footer) => self.layout.column(column, footer.as_slice())?,
            None => {
                let lent = LazyStore::from(store);
                let value = GroupBytes::of(&lent, self.entry.value_id, &self.pieces);
                self.layout.column(column, &value)?
            }
        };
        Ok(self.columns[column].get_or_init(|| meta))
    }

    /// What was read of a column.
    pub fn known_column(&self, column: usize) -> Option<&ColumnMeta> {
        self.columns[column].get()
    }

    /// Whether the chunk of a column has been read.
    pub fn has_chunk(&self, column: usize) -> bool {
        self.chunks[column].get().is_some()
    }

    /// The encoded chunk of a column.
    pub fn chunk(&self, store: &ColdStore, column: usize) -> Result<Chunk, ColdError> {
        if let Some(chunk) = self.chunks[column].get() {
            return Ok(chunk.clone());
        }
        let meta = self.column(store, column)?;
        let shared = self
            .chunks
            .iter()
            .filter_map(OnceCell::get)
            .find_map(|chunk| chunk.of_other_column(meta));
        if let Some(chunk) = shared {
            return Ok(self.chunks[column].get_or_init(|| chunk).clone());
        }
        let range = meta.byte_range.clone();
        let len = range.end - range.start;
        let mut buffer = ChunkBuffer::with_capacity(len as usize);
        let value = store.value(self.entry.value_id, &self.pieces);
        value.read_run(range.start, len, &mut |bytes| buffer.append(bytes))?;
        let chunk = Chunk::open(meta, self.layout.row_count(), buffer)?;
        Ok(self.chunks[column].get_or_init(|| chunk).clone())
    }
}

/// Checks the counts in a footer against those in the directory.
pub(super) fn check_counts(
    entry: &GroupEntry,
    row_count: usize,
    body_bytes: u64,
) -> Result<(), ColdError> {
    if row_count == entry.row_count as usize && body_bytes == entry.body_bytes {
        return Ok(());
    }
    Err(ColdError::RowCountMismatch {
        group: entry.group(),
        footer: row_count,
        directory: entry.row_count,
    })
}
