//! A stored row group of which some columns are read as a whole.
//!
//! Of the footer, only the header, the column table and the sections of the requested columns are
//! read. So the cost of a group with many columns is that of the columns that the query needs.

use std::cell::RefCell;
use std::rc::Rc;

use howdah_bridge::store::{
    ColdStore, LentRun, Loans, PieceMap, StoreError, Unverified, ValueReader,
};
use howdah_columnar::{
    ByteSource, ChunkBuffer, ColumnMeta, ColumnStatistics, ColumnType, GroupLayout,
};

use super::directory::GroupEntry;
use super::known_statistics::Remembered;
use super::open_group::check_counts;
use crate::errors::ColdError;

/// A row group whose column table has been read and checked.
pub struct ColumnReader {
    pub entry: GroupEntry,
    layout: GroupLayout,
    /// Where the group's value lies.
    pieces: RefCell<PieceMap>,
    /// Under which the footer is remembered, if it is.
    remembered: Option<Remembered>,
}

/// What is left to do with a chunk's bytes, by any thread.
pub enum Rest {
    /// To copy them, with their checks.
    Copy(LentRun),
    /// To verify the copy.
    Verify(Unverified),
}

impl Rest {
    /// Does it, with the buffer of a chunk of that many bytes.
    ///
    /// # Errors
    /// A damaged piece.
    pub fn finish(self, len: usize, buffer: &mut ChunkBuffer) -> Result<(), StoreError> {
        match self {
            Rest::Copy(run) => {
                *buffer = ChunkBuffer::with_capacity(len);
                run.copy(&mut |bytes| buffer.append(bytes))
            }
            Rest::Verify(unverified) => unverified.verify(buffer.as_slice()),
        }
    }
}

/// The group's value as a source of bytes.
struct Bytes<'a>(ValueReader<'a>);

impl ByteSource for Bytes<'_> {
    type Error = ColdError;

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ColdError> {
        Ok(self.0.read(offset, into)?)
    }
}

impl ColumnReader {
    /// Reads header and column table of a group of a table that has so many.
    pub fn open(
        store: &ColdStore,
        entry: GroupEntry,
        group_count: usize,
    ) -> Result<ColumnReader, ColdError> {
        let pieces = RefCell::new(PieceMap::starting_at(entry.first_block));
        let remembered = Remembered::of(store.id(), &entry, group_count);
        let layout = match remembered.and_then(Remembered::layout) {
            Some(layout) => layout,
            None => {
                let layout = GroupLayout::read(&Bytes(store.value(entry.value_id, &pieces)))?;
                if let Some(remembered) = remembered {
                    remembered.note_layout(&layout);
                }
                layout
            }
        };
        check_counts(&entry, layout.row_count(), layout.body_len())?;
        Ok(ColumnReader {
            entry,
            layout,
            pieces,
            remembered,
        })
    }

    /// Whether the group has the column; else it was added later.
    pub fn has_column(&self, column: usize) -> bool {
        column < self.layout.column_count()
    }

    /// The type a column is stored as; `None` if the group does not have the column, or if only a
    /// newer version knows what it is: then all that reads the column fails.
    pub fn column_type(&self, column: usize) -> Option<ColumnType> {
        match self.has_column(column) {
            true => self.layout.column_type(column).ok(),
            false => None,
        }
    }

    /// Whether a stored column's values lie beside those of others, of which there is one group.
    pub fn is_grouped(&self, column: usize) -> bool {
        self.layout.first_of_group(column).is_some()
    }

    /// What the footer says of a stored column.
    pub fn column(&self, store: &ColdStore, column: usize) -> Result<ColumnMeta, ColdError> {
        let value = store.value(self.entry.value_id, &self.pieces);
        self.layout.column(column, &Bytes(value))
    }

    /// What is known of a column's values.
    pub fn statistics(
        &self,
        store: &ColdStore,
        column: usize,
    ) -> Result<Rc<ColumnStatistics>, ColdError> {
        let known = (self.remembered).and_then(|remembered| remembered.statistics(column));
        if let Some(known) = known {
            return Ok(known);
        }
        let value = store.value(self.entry.value_id, &self.pieces);
        let statistics = Rc::new(self.layout.statistics(column, &Bytes(value))?);
        if let Some(remembered) = self.remembered {
            remembered.note_statistics(column, &statistics);
        }
        Ok(statistics)
    }

    /// A column's chunk as it is stored, what the footer says of it, and what is to be done before
    /// the chunk is opened.
    pub fn chunk(
        &self,
        store: &ColdStore,
        column: usize,
        loans: &Loans,
    ) -> Result<(ColumnMeta, ChunkBuffer, Rest), ColdError> {
        let value = store.value(self.entry.value_id, &self.pieces);
        let source = Bytes(value);
        let meta = self.layout.column(column, &source)?;
        let (start, len) = (
            meta.byte_range.start,
            meta.byte_range.end - meta.byte_range.start,
        );
        if let Some(run) = source.0.lend_run(start, len, loans)? {
            return Ok((meta, ChunkBuffer::with_capacity(0), Rest::Copy(run)));
        }
        let mut buffer = ChunkBuffer::with_capacity(len as usize);
        let unverified = (source.0).copy_run(start, len, &mut |bytes| buffer.append(bytes))?;
        Ok((meta, buffer, Rest::Verify(unverified)))
    }
}
