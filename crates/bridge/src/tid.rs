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

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use pgrx::pg_sys;

/// The number of a block in a file.
pub type BlockNumber = pg_sys::BlockNumber;
/// `InvalidBlockNumber`: no block.
pub const INVALID_BLOCK: BlockNumber = pg_sys::InvalidBlockNumber;

/// The server's own type of a TID.
pub type RawTid = pg_sys::ItemPointerData;

/// The place of a row: a block and an offset in it. Ordered as the server orders TIDs.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Tid(pg_sys::ItemPointerData);

impl Tid {
    /// A TID from its parts.
    #[inline]
    pub fn new(block: BlockNumber, offset: u16) -> Tid {
        Tid(tid_of(block, offset))
    }

    /// What stands for a row whose new version is in another partition:
    /// `ItemPointerSetMovedPartitions`.
    #[inline]
    pub fn moved_to_another_partition() -> Tid {
        Tid::new(INVALID_BLOCK, pg_sys::MovedPartitionsOffsetNumber as u16)
    }

    /// From the server's own type.
    #[inline]
    pub const fn from_raw(tid: pg_sys::ItemPointerData) -> Tid {
        Tid(tid)
    }

    /// The server's own type.
    #[inline]
    pub const fn raw(self) -> pg_sys::ItemPointerData {
        self.0
    }

    /// Its block, valid or not.
    #[inline]
    pub fn block(self) -> BlockNumber {
        block_of(&self.0)
    }

    #[inline]
    pub fn offset(self) -> u16 {
        self.0.ip_posid
    }

    /// The cold row that it names; `None` if it is hot or not valid.
    #[inline]
    pub fn row(self) -> Option<RowNumber> {
        RowNumber::from_tid(&self.0)
    }

    /// Whether it lies on the cold side.
    #[inline]
    pub fn is_cold(self) -> bool {
        is_cold(&self.0)
    }
}

impl Default for Tid {
    /// Block 0, offset 0: no row.
    fn default() -> Tid {
        Tid::new(0, 0)
    }
}

impl PartialEq for Tid {
    #[inline]
    fn eq(&self, other: &Tid) -> bool {
        (self.block(), self.offset()) == (other.block(), other.offset())
    }
}

impl Eq for Tid {}

impl PartialOrd for Tid {
    fn partial_cmp(&self, other: &Tid) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Tid {
    fn cmp(&self, other: &Tid) -> Ordering {
        (self.block(), self.offset()).cmp(&(other.block(), other.offset()))
    }
}

impl Hash for Tid {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.block(), self.offset()).hash(state);
    }
}

impl fmt::Debug for Tid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tid({},{})", self.block(), self.offset())
    }
}

impl From<pg_sys::ItemPointerData> for Tid {
    #[inline]
    fn from(tid: pg_sys::ItemPointerData) -> Tid {
        Tid(tid)
    }
}

impl From<Tid> for pg_sys::ItemPointerData {
    #[inline]
    fn from(tid: Tid) -> pg_sys::ItemPointerData {
        tid.0
    }
}

/// First block number of the cold side.
pub const FIRST_COLD_BLOCK: pg_sys::BlockNumber = 0x8000_0000;
/// Above every offset of a cold TID: in the lock tag of a row, the lock of its queue.
pub const TURN_BITS: u16 = 0x8000;
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
    pub fn tid(self) -> Tid {
        debug_assert!(self.0 < ROW_NUMBER_LIMIT);
        Tid::new(
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

/// A row group of a table, named by its first cold block, counted from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(u32);

impl GroupId {
    /// Stands for a group that is not known, in messages.
    pub const UNKNOWN: GroupId = GroupId(u32::MAX);

    /// The group that begins with this cold block.
    #[inline]
    pub const fn of_block(first_block: u32) -> GroupId {
        GroupId(first_block)
    }

    /// The group of an entry with this key in the store.
    #[inline]
    pub const fn of_key(seq: i32) -> GroupId {
        GroupId(seq as u32)
    }

    /// Its first cold block.
    #[inline]
    pub const fn first_block(self) -> u32 {
        self.0
    }

    /// The second part of its entry's key in the store.
    #[inline]
    pub const fn key(self) -> i32 {
        self.0 as i32
    }

    /// Its first row.
    #[inline]
    pub const fn first_row(self) -> RowNumber {
        RowNumber(self.0 as u64 * ROWS_PER_COLD_BLOCK)
    }
}

impl fmt::Display for GroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_number_has_a_tid_of_its_own_on_the_cold_side() {
        let edges = [0, 1, 255, 256, 257, 65_535, 65_536, (1 << 24) - 1, 1 << 24];
        let last = [ROW_NUMBER_LIMIT - 257, ROW_NUMBER_LIMIT - 1];
        let mut before = None;
        for row in edges.into_iter().chain(last).map(RowNumber) {
            let tid = row.tid();
            assert!(tid.is_cold() && is_cold(&tid.raw()), "{row:?}");
            assert_eq!(RowNumber::from_tid(&tid.raw()), Some(row));
            assert_eq!(tid.block() - FIRST_COLD_BLOCK, row.cold_block());
            assert!(tid.offset() >= 1, "an offset of 0 is not valid");
            let key = (tid.block(), tid.offset());
            assert!(
                before.is_none_or(|before| before < key),
                "TIDs ascend with rows"
            );
            before = Some(key);
        }
    }

    #[test]
    fn hot_and_invalid_tids_name_no_row() {
        let invalid_block = pg_sys::InvalidBlockNumber;
        for (block, offset) in [
            (0, 1),
            (FIRST_COLD_BLOCK - 1, 1),
            (FIRST_COLD_BLOCK, 0),
            (FIRST_COLD_BLOCK, 257),
            (invalid_block, 1),
        ] {
            let tid = tid_of(block, offset);
            assert_eq!(RowNumber::from_tid(&tid), None, "({block},{offset})");
        }
        assert!(!is_cold(&tid_of(invalid_block, 1)));
        assert!(!Tid::moved_to_another_partition().is_cold());
    }

    #[test]
    fn a_group_is_named_by_its_first_block_in_keys_and_rows() {
        for block in [0, 1, 0x7FFF_FFFE] {
            let group = GroupId::of_block(block);
            assert_eq!(GroupId::of_key(group.key()), group);
            assert!(group.key() >= 0, "keys ascend with blocks");
            assert_eq!(group.first_row().cold_block(), block);
        }
    }
}
