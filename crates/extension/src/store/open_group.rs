//! A stored row group opened for reading.
//!
//! Opening reads and checks the footer; chunks are read when first needed and kept encoded;
//! a chunk from which many rows are asked one by one is decoded once and kept decoded.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use howdah_bridge::store::{ColdStore, PieceMap};
use howdah_columnar::{Chunk, ChunkBuffer, Footer, OwnedValue, RowColumn};

use super::directory::GroupEntry;
use super::group_cache::Memory;
use crate::errors::ColdError;

/// After this many single-row reads of a chunk, or a group, it is decoded whole. That costs about as much as
/// 200 rows read one by one (measured on a table of four columns, group full).
const POINT_READS_BEFORE_DECODING: u32 = 192;

#[derive(Default)]
struct ColumnCache {
    chunk: Option<Chunk>,
    decoded: Option<Rc<RowColumn>>,
    point_reads: u32,
}

/// A row group whose footer has been read and checked.
pub struct OpenGroup {
    pub entry: GroupEntry,
    pub footer: Footer,
    /// Where the group's value lies.
    pieces: RefCell<PieceMap>,
    columns: RefCell<Vec<ColumnCache>>,
    /// Whole rows asked for.
    row_reads: Cell<u32>,
    /// Every column, decoded.
    whole: OnceCell<Vec<Rc<RowColumn>>>,
    memory: Memory,
}

impl OpenGroup {
    /// Reads and checks the footer.
    pub fn open(store: &ColdStore, entry: GroupEntry) -> Result<OpenGroup, ColdError> {
        let pieces = RefCell::new(PieceMap::starting_at(entry.first_block));
        let mut bytes = vec![0; entry.footer_bytes as usize];
        store.value(entry.value_id, &pieces).read(0, &mut bytes)?;
        let footer = Footer::parse(&bytes)?;
        if footer.row_count() != entry.row_count as usize || footer.body_len() != entry.body_bytes {
            return Err(ColdError::RowCountMismatch {
                group: entry.group(),
                footer: footer.row_count(),
                directory: entry.row_count,
            });
        }
        let memory = Memory::default();
        memory.add(footer.memory_bytes());
        let mut columns = Vec::new();
        columns.resize_with(footer.column_count(), ColumnCache::default);
        Ok(OpenGroup {
            entry,
            footer,
            pieces,
            columns: RefCell::new(columns),
            row_reads: Cell::new(0),
            whole: OnceCell::new(),
            memory,
        })
    }

    pub fn row_count(&self) -> u32 {
        self.entry.row_count
    }

    /// Columns stored; a table that has more got them later (ADD COLUMN).
    pub fn column_count(&self) -> usize {
        self.footer.column_count()
    }

    /// The encoded chunk of a column.
    pub fn chunk(&self, store: &ColdStore, column: usize) -> Result<Chunk, ColdError> {
        if let Some(chunk) = &self.columns.borrow()[column].chunk {
            return Ok(chunk.clone());
        }
        let meta = self.footer.column(column);
        let range = meta.byte_range.clone();
        let len = range.end - range.start;
        let mut buffer = ChunkBuffer::with_capacity(len as usize);
        let value = store.value(self.entry.value_id, &self.pieces);
        value.read_run(range.start, len, &mut |bytes| buffer.append(bytes))?;
        let chunk = Chunk::open(meta, self.footer.row_count(), buffer)?;
        self.memory.add(chunk.memory_bytes());
        self.columns.borrow_mut()[column].chunk = Some(chunk.clone());
        Ok(chunk)
    }

    /// The column, decoded for reads of single rows, and kept so.
    fn decoded(&self, store: &ColdStore, column: usize) -> Result<Rc<RowColumn>, ColdError> {
        if let Some(decoded) = &self.columns.borrow()[column].decoded {
            return Ok(Rc::clone(decoded));
        }
        let decoded = Rc::new(self.chunk(store, column)?.decode_for_rows()?);
        self.memory.add(decoded.memory_bytes());
        self.columns.borrow_mut()[column].decoded = Some(Rc::clone(&decoded));
        Ok(decoded)
    }

    /// One value, without decoding the chunk as long as few are asked for.
    pub fn value(
        &self,
        store: &ColdStore,
        column: usize,
        row: u32,
    ) -> Result<Option<OwnedValue>, ColdError> {
        let reads = {
            let cache = &mut self.columns.borrow_mut()[column];
            cache.point_reads += 1;
            cache.point_reads
        };
        if reads > POINT_READS_BEFORE_DECODING {
            let decoded = self.decoded(store, column)?;
            return Ok(decoded.value(row as usize).map(OwnedValue::from));
        }
        Ok(self.chunk(store, column)?.value(row as usize)?)
    }

    /// Every column, if all of them are decoded.
    pub fn whole(&self) -> Option<&[Rc<RowColumn>]> {
        self.whole.get().map(Vec::as_slice)
    }

    /// Notes that a whole row is read; from so many rows on all columns are decoded.
    pub fn whole_after_reading(
        &self,
        store: &ColdStore,
    ) -> Result<Option<&[Rc<RowColumn>]>, ColdError> {
        if let Some(columns) = self.whole() {
            return Ok(Some(columns));
        }
        self.row_reads.set(self.row_reads.get() + 1);
        if self.row_reads.get() <= POINT_READS_BEFORE_DECODING {
            return Ok(None);
        }
        let columns = (0..self.column_count())
            .map(|column| self.decoded(store, column))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Some(self.whole.get_or_init(|| columns)))
    }

    /// The memory that the group holds.
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }
}
