//! Whether the rows on the heap side of a table are the same as when they were read before.
//!
//! ```text
//!   visibility map   every page all-visible, LSN of the map's page = l     rows are read
//!        …           every page all-visible, LSN of the map's page = l     the same rows
//! ```
//!
//! A transaction that changes a row of an all-visible page clears the page's bit before it can
//! commit. Setting a bit is logged, and gives the map's page a higher LSN. So if all bits were set
//! twice under the same LSN, none was cleared between, and no row was changed. Rows of all-visible
//! pages are those that every snapshot sees, as for heap's own scans; the bits are read when the
//! snapshot exists, which sees no later change, as in an index-only scan.
//!
//! Without WAL the LSN tells nothing: such tables have no version, nor has a table that this
//! transaction has created. A standby's snapshots do not rely on all-visible pages in heap's scans,
//! nor here.

use pgrx::pg_sys;

use crate::snapshot::Snapshot;
use crate::table::Table;

/// The state of a heap side that no transaction is changing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotVersion {
    /// Pages of the main fork.
    pub blocks: u32,
    map_lsn: u64,
}

/// `InvalidSubTransactionId`
const NO_SUBTRANSACTION: pg_sys::SubTransactionId = 0;
/// Heap pages of which one page of the visibility map tells: two bits for each.
const MOST_BLOCKS: u32 =
    (pg_sys::BLCKSZ - size_of::<pg_sys::PageHeaderData>().next_multiple_of(8) as u32) * 4;

impl HotVersion {
    /// The version of a table's heap side, if every page of it is all-visible. One that has fewer
    /// pages than `least`, or more than `most`, has none.
    pub fn of(
        table: Table<'_>,
        snapshot: Snapshot<'_>,
        least: u32,
        most: u32,
    ) -> Option<HotVersion> {
        let blocks = table.main_fork_blocks();
        if blocks < least.max(1) || blocks > most.min(MOST_BLOCKS) {
            return None;
        }
        let rel = table.raw();
        // SAFETY: the relation is open and locked, the snapshot valid. The map's page is pinned by
        // `visibilitymap_get_status`, is read under its lock, and is released here.
        unsafe {
            let is_logged = (*(*rel).rd_rel).relpersistence
                == pg_sys::RELPERSISTENCE_PERMANENT as std::ffi::c_char
                && (*rel).rd_createSubid == NO_SUBTRANSACTION
                && (*rel).rd_firstRelfilelocatorSubid == NO_SUBTRANSACTION;
            if !is_logged
                || !snapshot.is_mvcc()
                || (*snapshot.raw()).takenDuringRecovery
                || pg_sys::RecoveryInProgress()
            {
                return None;
            }
            let mut map = pg_sys::InvalidBuffer as pg_sys::Buffer;
            let first = pg_sys::visibilitymap_get_status(rel, 0, &mut map);
            if map == pg_sys::InvalidBuffer as pg_sys::Buffer {
                return None;
            }
            if u32::from(first) & pg_sys::VISIBILITYMAP_ALL_VISIBLE == 0 {
                pg_sys::ReleaseBuffer(map);
                return None;
            }
            pg_sys::LockBuffer(map, pg_sys::BUFFER_LOCK_SHARE as i32);
            let page = std::slice::from_raw_parts(
                pg_sys::BufferGetPage(map).cast::<u8>(),
                pg_sys::BLCKSZ as usize,
            );
            let (map_lsn, are_set) = (lsn_of(page), are_all_visible(page, blocks));
            pg_sys::UnlockReleaseBuffer(map);
            (are_set && map_lsn != 0).then_some(HotVersion { blocks, map_lsn })
        }
    }
}

/// The LSN in a page's header: its high half first.
fn lsn_of(page: &[u8]) -> u64 {
    let half = |at: usize| {
        let bytes = page[at..].first_chunk().copied();
        u64::from(u32::from_ne_bytes(bytes.unwrap_or_default()))
    };
    half(0) << 32 | half(4)
}

/// Whether the map's page says that so many heap pages, the first ones, are all-visible.
fn are_all_visible(page: &[u8], blocks: u32) -> bool {
    /// The bits of four pages.
    const ALL_VISIBLE: u8 = 0b0101_0101;
    let bits = &page[size_of::<pg_sys::PageHeaderData>().next_multiple_of(8)..];
    let (whole, rest) = (blocks as usize / 4, blocks % 4);
    let of_rest = ALL_VISIBLE & ((1 << (2 * rest)) - 1) as u8;
    (bits[..whole].iter()).all(|byte| byte & ALL_VISIBLE == ALL_VISIBLE)
        && (of_rest == 0 || bits[whole] & of_rest == of_rest)
}

#[cfg(test)]
mod tests {
    use super::{are_all_visible, lsn_of};

    #[test]
    fn every_page_must_be_all_visible() {
        let mut page = [0_u8; 8192];
        page[24] = 0b1101_0111;
        page[25] = 0b0000_0001;
        assert!(are_all_visible(&page, 1) && are_all_visible(&page, 4));
        assert!(are_all_visible(&page, 5), "the first of the next byte");
        assert!(!are_all_visible(&page, 6));
        page[24] = 0b1001_0101;
        assert!(are_all_visible(&page, 3) && !are_all_visible(&page, 4));
    }

    #[test]
    fn the_high_half_of_an_lsn_comes_first() {
        let mut page = [0_u8; 8192];
        page[..4].copy_from_slice(&2_u32.to_ne_bytes());
        page[4..8].copy_from_slice(&9_u32.to_ne_bytes());
        assert_eq!(lsn_of(&page), 2 << 32 | 9);
    }
}
