//! Space for single rows: a large relation is extended by several pages at a time.
//!
//! Heap appends one page when an insertion finds no space, unless other backends wait for the same
//! lock. Rows that come one by one in transactions of their own, new versions of cold rows above
//! all, then pay for a system call and a page of zeros every few dozen rows. For a bulk insertion
//! that has appended pages before, heap appends as many again, and enters the pages that are left
//! over in the free space map, where the next insertions find them. This module builds a
//! bulk-insert state for one insertion that requests exactly that; small relations are extended as
//! usual. It is not used for plain INSERT: the planner's estimate for a table that was not analyzed
//! depends on its number of pages, and must equal heap's.

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

/// One page is appended in advance for every so many pages of the relation.
const PAGES_PER_PAGE: u32 = 64;
/// Pages that are appended at once, at most.
const MOST_PAGES: u32 = 16;

/// How the insertion of one row extends its relation. Owns nothing that an ERROR would have to
/// drop.
pub struct Growth(State);

/// Pages that are appended in advance to a relation whose last insertion went to this block.
fn pages_in_advance(target: pg_sys::BlockNumber) -> u32 {
    match target {
        pg_sys::InvalidBlockNumber => 0,
        block => (block / PAGES_PER_PAGE).min(MOST_PAGES),
    }
}

impl Growth {
    /// For an open relation.
    pub fn of(table: Table<'_>) -> Growth {
        // SAFETY: the relation is open; the storage manager's entry, where there is one, is that of
        // the relation.
        let target = unsafe {
            match (*table.raw()).rd_smgr {
                smgr if smgr.is_null() => pg_sys::InvalidBlockNumber,
                smgr => (*smgr).smgr_targblock,
            }
        };
        let in_advance = pages_in_advance(target);
        Growth(State {
            strategy: std::ptr::null_mut(),
            current_buf: pg_sys::InvalidBuffer as pg_sys::Buffer,
            next_free: pg_sys::InvalidBlockNumber,
            last_free: pg_sys::InvalidBlockNumber,
            already_extended_by: in_advance,
        })
    }

    /// For one call of `heap_insert`, or of heap's insertion; NULL if the relation is to be
    /// extended as usual.
    pub fn state(&mut self) -> pg_sys::BulkInsertState {
        match self.0.already_extended_by {
            0 => std::ptr::null_mut(),
            _ => (&raw mut self.0).cast(),
        }
    }

    /// Releases the pin on the page that the row went to. After an ERROR the resource owner
    /// releases it.
    pub fn end(self) {
        if self.0.current_buf != pg_sys::InvalidBuffer as pg_sys::Buffer {
            // SAFETY: heap has pinned it for us.
            unsafe { quiet::ReleaseBuffer(self.0.current_buf) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_relations_grow_by_more_pages_up_to_a_bound() {
        for (target, pages) in [
            (0, 0),
            (PAGES_PER_PAGE - 1, 0),
            (PAGES_PER_PAGE, 1),
            (PAGES_PER_PAGE * MOST_PAGES - 1, MOST_PAGES - 1),
            (1 << 30, MOST_PAGES),
            (pg_sys::InvalidBlockNumber, 0),
        ] {
            assert_eq!(pages_in_advance(target), pages, "block {target}");
        }
    }
}
