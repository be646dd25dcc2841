//! Row numbers and cold TIDs.
//!
//! ```text
//!   row number n (39 bits)      TID of a cold row
//!   ┌───────────31─┬────8─┐     block  = 0x8000_0000 + (n >> 8)
//!   │ cold block   │ slot │     offset = (n & 255) + 1
//!   └──────────────┴──────┘
//! ```
//!
//! A block with its high bit set is cold. Offsets stay below 291 (`MaxHeapTuplesPerPage`), as
//! bitmap scans require.

use pgrx::pg_sys;

/// First block number of the cold side.
pub const FIRST_COLD_BLOCK: pg_sys::BlockNumber = 0x8000_0000;
/// Rows that share one cold block number.
pub const ROWS_PER_COLD_BLOCK: u64 = 256;
/// Row numbers are below this. `InvalidBlockNumber` (0xFFFF_FFFF) is never used.
pub const ROW_NUMBER_LIMIT: u64 = 0x7FFF_FFFF << 8;

/// A table-wide number of a cold row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowNumber(pub u64);

impl RowNumber {
    /// The row that a TID names; `None` if the TID is hot or not valid.
    #[inline]
    pub fn from_tid(tid: &pg_sys::ItemPointerData) -> Option<RowNumber> {
        let block = block_of(tid);
        if block < FIRST_COLD_BLOCK || block == pg_sys::InvalidBlockNumber {
            return None;
        }
        let offset = u64::from(tid.ip_posid);
        if offset == 0 || offset > ROWS_PER_COLD_BLOCK {
            return None;
        }
        Some(RowNumber(
            (u64::from(block - FIRST_COLD_BLOCK) << 8) | (offset - 1),
        ))
    }

    /// The TID of this row.
    #[inline]
    pub fn tid(self) -> pg_sys::ItemPointerData {
        debug_assert!(self.0 < ROW_NUMBER_LIMIT);
        tid_of(
            FIRST_COLD_BLOCK + (self.0 >> 8) as u32,
            (self.0 & 255) as u16 + 1,
        )
    }

    /// The cold block of this row, counted from zero.
    #[inline]
    pub fn cold_block(self) -> u32 {
        (self.0 >> 8) as u32
    }
}

/// Whether a TID lies on the cold side.
#[inline]
pub fn is_cold(tid: &pg_sys::ItemPointerData) -> bool {
    let block = block_of(tid);
    (FIRST_COLD_BLOCK..pg_sys::InvalidBlockNumber).contains(&block)
}

/// Block number of a TID, valid or not.
#[inline]
pub fn block_of(tid: &pg_sys::ItemPointerData) -> pg_sys::BlockNumber {
    (u32::from(tid.ip_blkid.bi_hi) << 16) | u32::from(tid.ip_blkid.bi_lo)
}

/// A TID from its parts.
#[inline]
pub fn tid_of(block: pg_sys::BlockNumber, offset: u16) -> pg_sys::ItemPointerData {
    pg_sys::ItemPointerData {
        ip_blkid: pg_sys::BlockIdData {
            bi_hi: (block >> 16) as u16,
            bi_lo: block as u16,
        },
        ip_posid: offset,
    }
}
