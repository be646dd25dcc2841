//! The bytes of one stored group, for readers of single rows.
//!
//! They are read from shared buffers; the store is opened when one is first asked for.

use std::cell::{OnceCell, RefCell};
use std::ops::Range;

use howdah_bridge::store::{ColdStore, PieceMap, ValueReader};
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::GroupId;
use howdah_columnar::ByteSource;

use crate::errors::ColdError;

/// The cold store of a table, opened when it is first asked for.
pub enum LazyStore<'a> {
    /// The table is locked for reading.
    Of(Table<'a>, OnceCell<Option<ColdStore<'a>>>),
    Given(&'a ColdStore<'a>),
}

impl<'a> LazyStore<'a> {
    /// The store of a table that is locked for reading.
    pub fn of(table: Table<'a>) -> LazyStore<'a> {
        LazyStore::Of(table, OnceCell::new())
    }

    pub fn get(&self) -> Result<&ColdStore<'a>, ColdError> {
        let (table, opened) = match self {
            LazyStore::Given(store) => return Ok(store),
            LazyStore::Of(table, opened) => (*table, opened),
        };
        let opened = opened.get_or_init(|| ColdStore::open(table, LockMode::AccessShare));
        opened.as_ref().ok_or(ColdError::DamagedDirectory {
            group: GroupId::UNKNOWN,
        })
    }
}

impl<'a> From<&'a ColdStore<'a>> for LazyStore<'a> {
    fn from(store: &'a ColdStore<'a>) -> Self {
        LazyStore::Given(store)
    }
}

/// The bytes of one group while a row of it is read. Holds a pin on the page that was read last.
pub(super) struct GroupBytes<'a, 's> {
    store: &'a LazyStore<'s>,
    value_id: u32,
    pieces: &'a RefCell<PieceMap>,
    reader: OnceCell<ValueReader<'a>>,
}

impl<'a, 's> GroupBytes<'a, 's> {
    pub(super) fn of(
        store: &'a LazyStore<'s>,
        value_id: u32,
        pieces: &'a RefCell<PieceMap>,
    ) -> Self {
        GroupBytes {
            store,
            value_id,
            pieces,
            reader: OnceCell::new(),
        }
    }

    pub(super) fn reader(&self) -> Result<&ValueReader<'a>, ColdError> {
        if let Some(reader) = self.reader.get() {
            return Ok(reader);
        }
        let reader = self.store.get()?.value(self.value_id, self.pieces);
        Ok(self.reader.get_or_init(|| reader))
    }

    /// Requests ranges that will be read soon.
    pub(super) fn ask(&self, ranges: &[Range<u64>], ahead: Ahead) -> Result<(), ColdError> {
        if !ranges.is_empty() {
            let reader = self.reader()?;
            match ahead {
                Ahead::Disk => reader.prefetch(ranges),
                Ahead::Memory => reader.touch(ranges),
            }
        }
        Ok(())
    }
}

/// Where bytes are requested from before they are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ahead {
    /// Pages that are not in memory, from disk.
    Disk,
    /// Cache lines, from memory.
    Memory,
}

impl Ahead {
    /// With fewer columns than this nothing is requested.
    pub(super) fn fewest_columns(self) -> usize {
        match self {
            Ahead::Disk => 1,
            Ahead::Memory => 2,
        }
    }
}

impl ByteSource for GroupBytes<'_, '_> {
    type Error = ColdError;

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ColdError> {
        Ok(self.reader()?.read(offset, into)?)
    }

    fn request(&self, ranges: &[Range<u64>]) {
        // An error is met by the read that follows.
        let _ = self.ask(ranges, Ahead::Memory);
    }

    fn show(&self, offset: u64, len: usize, look: &mut dyn FnMut(&[u8])) -> bool {
        // An error is met by the read that follows.
        self.reader()
            .is_ok_and(|reader| reader.show_known(offset, len, look))
    }
}
