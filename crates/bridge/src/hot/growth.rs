//! Room for single rows: a large relation grows by several pages at a time.
//!
//! Heap appends one page when an insertion finds no room, unless others wait for the same lock. Rows of their own
//! transactions that come one by one, new versions of cold rows above all, then pay for a system call and a
//! page of zeros every few dozen rows. Asked by a bulk insertion that has appended pages before, heap appends as many
//! again, and enters the ones that are left over into the free space map, where the next insertions find
//! them. That is what a state made for one insertion asks for here; small relations grow as ever. Not for plain
//! INSERT: what the planner expects of a table that was not analyzed goes by its pages, and is heap's to the row.

use pgrx::pg_sys;

use crate::ffi::quiet;
use crate::table::Table;

/// `BulkInsertStateData` of `access/hio.h`
#[repr(C)]
struct State {
    strategy: pg_sys::BufferAccessStrategy,
    current_buf: pg_sys::Buffer,
    next_free: pg_sys::BlockNumber,
    last_free: pg_sys::BlockNumber,
    already_extended_by: u32,
}

/// Of so many pages one is appended in advance.
const PAGES_PER_PAGE: u32 = 64;
/// Pages that are appended at once, at most.
const MOST_PAGES: u32 = 16;

/// How an insertion of one row makes its relation grow. Owns nothing that an ERROR would have to drop.
pub struct Growth(State);

impl Growth {
    /// For an open relation.
    pub fn of(table: Table<'_>) -> Growth {
        // SAFETY: the relation is open; the storage manager's entry, where there is one, is that of the relation.
        let target = unsafe {
            match (*table.raw()).rd_smgr {
                smgr if smgr.is_null() => pg_sys::InvalidBlockNumber,
                smgr => (*smgr).smgr_targblock,
            }
        };
        let in_advance = match target {
            pg_sys::InvalidBlockNumber => 0,
            block => (block / PAGES_PER_PAGE).min(MOST_PAGES),
        };
        Growth(State {
            strategy: std::ptr::null_mut(),
            current_buf: pg_sys::InvalidBuffer as pg_sys::Buffer,
            next_free: pg_sys::InvalidBlockNumber,
            last_free: pg_sys::InvalidBlockNumber,
            already_extended_by: in_advance,
        })
    }

    /// For one call of `heap_insert`, or of heap's insertion; NULL where the relation is to grow as ever.
    pub fn state(&mut self) -> pg_sys::BulkInsertState {
        match self.0.already_extended_by {
            0 => std::ptr::null_mut(),
            _ => (&raw mut self.0).cast(),
        }
    }

    /// Gives up the pin on the page that the row went to. An ERROR gives it up by itself.
    pub fn end(self) {
        if self.0.current_buf != pg_sys::InvalidBuffer as pg_sys::Buffer {
            // SAFETY: heap has pinned it for us.
            unsafe { quiet::ReleaseBuffer(self.0.current_buf) }
        }
    }
}
