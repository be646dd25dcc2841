//! Stored row groups, and what is read of them.

use std::cell::RefCell;
use std::ops::Range;

use howdah_columnar::{ByteSource, ColumnType, ColumnarError, Effort, OwnedValue};

use super::row_group;

/// A stored row group that remembers what was read of it.
pub struct Recorder<'a> {
    bytes: &'a [u8],
    reads: RefCell<Vec<Range<u64>>>,
}

impl<'a> Recorder<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            reads: RefCell::default(),
        }
    }

    pub fn take(&self) -> Vec<Range<u64>> {
        self.reads.take()
    }
}

impl ByteSource for Recorder<'_> {
    type Error = ColumnarError;

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ColumnarError> {
        self.bytes.read(offset, into)?;
        self.reads
            .borrow_mut()
            .push(offset..offset + into.len() as u64);
        Ok(())
    }
}

/// The bytes of a row group of one column.
pub fn stored(ty: ColumnType, rows: &[Option<OwnedValue>], effort: Effort) -> Vec<u8> {
    let encoded = row_group(&[(ty, rows.to_vec())])
        .encode(effort)
        .expect("encodes");
    [encoded.footer, encoded.body].concat()
}
