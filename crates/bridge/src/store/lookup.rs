//! The tuples of one key, found without an index scan.
//!
//! Nearly every cold row that is looked up has no mark, and PostgreSQL's index scan, built for any
//! operator class and direction, takes several times as long to find that out as the search itself.
//! Here the tree is descended for exactly one key of the types that every TOAST index has:
//!
//! ```text
//!   root ── last pivot before the key ──> child ── … ──> leaf
//!   leaf ── the key's entries, or the first entry behind them
//! ```
//!
//! One page is share-locked at a time, as in PostgreSQL's own descent: a page that was split
//! meanwhile has its later keys to the right, and one that is being deleted is marked. Where a page
//! is not plain (half dead, split, without an entry behind the key, posting lists, damage), the
//! result is [`Found::Unsure`], and the caller uses an index scan, which handles every case. So a
//! certain result rests on one leaf as it was while it was locked: it holds a later key and it is
//! in use, hence the key can be on no other page.
//!
//! The leaf stays pinned until the tuples have been read, so that VACUUM does not free their line
//! pointers. Source of the page layout: `access/nbtree.h`, `storage/bufpage.h` of PostgreSQL 18.

use std::ops::Range;

use pgrx::pg_sys;

use crate::ffi::{self, quiet};

type Key = (u32, i32);

const PAGE_BYTES: usize = pg_sys::BLCKSZ as usize;
const PAGE_HEADER_BYTES: usize = 24;
const LOWER_AT: usize = 12;
const SPECIAL_AT: usize = 16;
const SPECIAL_BYTES: usize = 16;

const LEAF: u16 = 1;
/// Deleted, meta, half dead, incompletely split.
const NOT_PLAIN: u16 = 4 | 8 | 16 | 128;

const ENTRY_HEADER_BYTES: usize = 8;
const ALT_TID: u16 = 0x2000;
const IS_POSTING: u16 = 0x2000;
const COUNT_MASK: u16 = 0x0FFF;

/// More levels than a tree of 2^32 pages has.
const MOST_LEVELS: usize = 32;
/// Entries of one key that are returned at most: versions of one mark.
const MOST_ENTRIES: usize = 8;

/// The result of a search for a key.
pub(super) enum Found {
    Nothing,
    Entries(Entries),
    /// Unknown: the caller must use an index scan.
    Unsure,
}

/// The tuples that a key's index entries lead to. Their line pointers are not reused as long as
/// this lives.
pub(super) struct Entries {
    leaf: pg_sys::Buffer,
    tids: [pg_sys::ItemPointerData; MOST_ENTRIES],
    count: usize,
}

impl Entries {
    pub fn tids(&self) -> &[pg_sys::ItemPointerData] {
        &self.tids[..self.count]
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: pinned by `find`, released once.
            unsafe { quiet::ReleaseBuffer(self.leaf) }
        }
    }
}

/// Looks for a key in the index of a TOAST relation.
///
/// # Safety
/// `index` is the open, valid unique index of the open TOAST relation `toast`.
pub(super) unsafe fn find(index: pg_sys::Relation, toast: pg_sys::Relation, key: Key) -> Found {
    // SAFETY: every page is read while it is pinned and share-locked; nothing between lock and
    // unlock can raise an ERROR. ReadBuffer may, with nothing held.
    unsafe {
        let share = pg_sys::BUFFER_LOCK_SHARE as i32;
        let mut buffer = ffi::_bt_getroot(index, toast, share);
        if buffer == pg_sys::InvalidBuffer as pg_sys::Buffer {
            return Found::Nothing;
        }
        for _ in 0..MOST_LEVELS {
            let bytes = pg_sys::BufferGetPage(buffer).cast::<u8>();
            let page = Page(std::slice::from_raw_parts(bytes, PAGE_BYTES));
            match page.step(key) {
                Some(Step::Child(block)) => {
                    quiet::UnlockReleaseBuffer(buffer);
                    buffer = pg_sys::ReadBuffer(index, block);
                    quiet::LockBuffer(buffer, share);
                }
                Some(Step::Entries(range)) if range.is_empty() => {
                    quiet::UnlockReleaseBuffer(buffer);
                    return Found::Nothing;
                }
                Some(Step::Entries(range)) => {
                    let mut tids = [pg_sys::ItemPointerData::default(); MOST_ENTRIES];
                    let count = range.len();
                    for (tid, item) in tids.iter_mut().zip(range) {
                        *tid = page.entry(item).map(|entry| entry.tid).unwrap_or_default();
                    }
                    quiet::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
                    let leaf = buffer;
                    return Found::Entries(Entries { leaf, tids, count });
                }
                None => {
                    quiet::UnlockReleaseBuffer(buffer);
                    return Found::Unsure;
                }
            }
        }
        quiet::UnlockReleaseBuffer(buffer);
        Found::Unsure
    }
}

/// The next step of a descent from a page.
#[derive(Debug, PartialEq)]
enum Step {
    Child(pg_sys::BlockNumber),
    /// The items of the key on a leaf that has a later one.
    Entries(Range<usize>),
}

/// The bytes of a btree page.
struct Page<'a>(&'a [u8]);

/// An index entry: what it leads to, and as many of its columns as it has.
struct IndexEntry {
    tid: pg_sys::ItemPointerData,
    key: (Option<u32>, Option<i32>),
    is_posting: bool,
}

impl IndexEntry {
    /// Whether the entry comes before every entry of the key. A column that a pivot lacks is less
    /// than any.
    fn is_before(&self, key: Key) -> bool {
        self.key < (Some(key.0), Some(key.1))
    }

    fn has(&self, key: Key) -> bool {
        self.key == (Some(key.0), Some(key.1))
    }

    fn block(&self) -> pg_sys::BlockNumber {
        crate::tid::block_of(&self.tid)
    }
}

impl Page<'_> {
    fn u16_at(&self, at: usize) -> Option<u16> {
        Some(u16::from_ne_bytes(self.0.get(at..at + 2)?.try_into().ok()?))
    }

    fn u32_at(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
    }

    /// The entry of line pointer `item`, counted from 0.
    fn entry(&self, item: usize) -> Option<IndexEntry> {
        let line = self.u32_at(PAGE_HEADER_BYTES + 4 * item)?;
        let at = (line & 0x7FFF) as usize;
        let half = |i: usize| self.u16_at(at + 2 * i);
        let (high, low, offset, info) = (half(0)?, half(1)?, half(2)?, half(3)?);
        let tid = crate::tid::tid_of(u32::from(high) << 16 | u32::from(low), offset);
        let alternative = info & ALT_TID != 0;
        let is_posting = alternative && offset & IS_POSTING != 0;
        let columns = match alternative && !is_posting {
            true => offset & COUNT_MASK,
            false => 2,
        };
        let column = |i: u16| self.u32_at(at + ENTRY_HEADER_BYTES + 4 * usize::from(i));
        let id = match columns >= 1 {
            true => Some(column(0)?),
            false => None,
        };
        let seq = match columns >= 2 {
            true => Some(column(1)? as i32),
            false => None,
        };
        Some(IndexEntry {
            tid,
            key: (id, seq),
            is_posting,
        })
    }

    /// The first of `items` that does not come before the key.
    fn first_not_before(&self, key: Key, items: Range<usize>) -> Option<usize> {
        let (mut low, mut high) = (items.start, items.end);
        while low < high {
            let middle = low.midpoint(high);
            match self.entry(middle)?.is_before(key) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Some(low)
    }

    /// `None` if the page is not plain, or does not decide.
    fn step(&self, key: Key) -> Option<Step> {
        let special = usize::from(self.u16_at(SPECIAL_AT)?);
        let lower = usize::from(self.u16_at(LOWER_AT)?);
        if special != PAGE_BYTES - SPECIAL_BYTES || !(PAGE_HEADER_BYTES..=special).contains(&lower)
        {
            return None;
        }
        let is_rightmost = self.u32_at(special + 4)? == 0;
        let flags = self.u16_at(special + 12)?;
        if flags & NOT_PLAIN != 0 {
            return None;
        }
        let count = (lower - PAGE_HEADER_BYTES) / 4;
        // The first item of a page that is not the last of its level is an upper bound of its keys.
        let first = usize::from(!is_rightmost);
        if first == 1 && (count == 0 || self.entry(0)?.is_before(key)) {
            return None;
        }
        if flags & LEAF == 0 {
            // The first pivot counts as less than every key, whatever it holds.
            let behind = self.first_not_before(key, first + 1..count.max(first + 1))?;
            return (behind <= count && count > first).then(|| {
                self.entry(behind - 1)
                    .map(|pivot| Step::Child(pivot.block()))
            })?;
        }
        let start = self.first_not_before(key, first..count.max(first))?;
        let mut end = start;
        while end < count {
            let entry = self.entry(end)?;
            if !entry.has(key) {
                return Some(Step::Entries(start..end));
            }
            if entry.is_posting || end - start == MOST_ENTRIES {
                return None;
            }
            end += 1;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHTMOST: u32 = 0;

    /// A page of entries: block, offset, info, columns.
    fn page(next: u32, flags: u16, entries: &[(u32, u16, u16, Vec<u32>)]) -> Vec<u8> {
        let mut bytes = vec![0; PAGE_BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        let special = PAGE_BYTES - SPECIAL_BYTES;
        let lower = PAGE_HEADER_BYTES + 4 * entries.len();
        put(LOWER_AT, &(lower as u16).to_ne_bytes());
        put(SPECIAL_AT, &(special as u16).to_ne_bytes());
        put(special + 4, &next.to_ne_bytes());
        put(special + 12, &flags.to_ne_bytes());
        let mut at = special;
        for (item, (block, offset, info, columns)) in entries.iter().enumerate() {
            at -= ENTRY_HEADER_BYTES + 8;
            put(PAGE_HEADER_BYTES + 4 * item, &(at as u32).to_ne_bytes());
            put(at, &((block >> 16) as u16).to_ne_bytes());
            put(at + 2, &(*block as u16).to_ne_bytes());
            put(at + 4, &offset.to_ne_bytes());
            put(at + 6, &info.to_ne_bytes());
            for (i, column) in columns.iter().enumerate() {
                put(at + ENTRY_HEADER_BYTES + 4 * i, &column.to_ne_bytes());
            }
        }
        bytes
    }

    fn leaf_entry(id: u32, seq: i32) -> (u32, u16, u16, Vec<u32>) {
        (7, 3, 16, vec![id, seq as u32])
    }

    fn pivot(block: u32, columns: Vec<u32>) -> (u32, u16, u16, Vec<u32>) {
        (block, columns.len() as u16, ALT_TID | 16, columns)
    }

    #[test]
    fn a_leaf_tells_what_lies_before_its_last_entry() {
        let entries: Vec<_> = [(16, 5), (16, 9), (16, 9), (17, -4)]
            .map(|(id, seq)| leaf_entry(id, seq))
            .to_vec();
        let bytes = page(RIGHTMOST, LEAF, &entries);
        let step = |key| Page(&bytes).step(key);
        assert_eq!(step((16, 4)), Some(Step::Entries(0..0)));
        assert_eq!(step((16, 5)), Some(Step::Entries(0..1)));
        assert_eq!(step((16, 9)), Some(Step::Entries(1..3)));
        assert_eq!(step((17, -5)), Some(Step::Entries(3..3)));
        assert_eq!(step((17, -4)), None, "there may be more of it to the right");
        assert_eq!(step((17, 0)), None);
    }

    #[test]
    fn a_bounded_leaf_speaks_for_keys_up_to_its_bound() {
        let entries = [pivot(0, vec![17]), leaf_entry(16, 5), leaf_entry(16, 8)];
        let bytes = page(4, LEAF, &entries);
        let step = |key| Page(&bytes).step(key);
        assert_eq!(step((16, 6)), Some(Step::Entries(2..2)));
        assert_eq!(step((16, 9)), None);
        assert_eq!(
            step((17, 0)),
            None,
            "split: what is not below the bound is on the right"
        );
    }

    #[test]
    fn an_inner_page_leads_to_the_last_child_before_the_key() {
        let entries = [
            pivot(10, vec![]),
            pivot(11, vec![16]),
            pivot(12, vec![16, 50]),
            pivot(13, vec![18]),
        ];
        let bytes = page(RIGHTMOST, 0, &entries);
        let step = |key| Page(&bytes).step(key);
        assert_eq!(step((4, 0)), Some(Step::Child(10)));
        assert_eq!(step((16, -9)), Some(Step::Child(11)));
        assert_eq!(
            step((16, 50)),
            Some(Step::Child(11)),
            "its first entry may be there"
        );
        assert_eq!(step((16, 51)), Some(Step::Child(12)));
        assert_eq!(step((18, 0)), Some(Step::Child(13)));
        let bounded: Vec<_> = [pivot(0, vec![20])].into_iter().chain(entries).collect();
        let bytes = page(4, 0, &bounded);
        assert_eq!(Page(&bytes).step((4, 0)), Some(Step::Child(10)));
        assert_eq!(Page(&bytes).step((18, 0)), Some(Step::Child(13)));
        assert_eq!(Page(&bytes).step((20, 0)), None);
    }

    #[test]
    fn what_is_not_plain_is_left_to_an_index_scan() {
        let entries = vec![leaf_entry(16, 5), leaf_entry(16, 8)];
        for flag in [4, 8, 16, 128] {
            assert_eq!(
                Page(&page(RIGHTMOST, LEAF | flag, &entries)).step((16, 5)),
                None
            );
        }
        let posting = (7, IS_POSTING | 2, ALT_TID | 32, vec![16, 5]);
        let bytes = page(RIGHTMOST, LEAF, &[posting, leaf_entry(16, 8)]);
        assert_eq!(Page(&bytes).step((16, 5)), None);
        assert_eq!(Page(&bytes).step((16, 6)), Some(Step::Entries(1..1)));
        assert_eq!(Page(&page(RIGHTMOST, LEAF, &[])).step((16, 5)), None);
        assert_eq!(Page(&page(RIGHTMOST, 0, &[])).step((16, 5)), None);
        assert_eq!(Page(&vec![0; PAGE_BYTES]).step((16, 5)), None);
        assert_eq!(Page(&vec![0xFF; PAGE_BYTES]).step((16, 5)), None);
    }

    #[test]
    fn no_damaged_byte_makes_it_panic() {
        let entries = [pivot(0, vec![17]), leaf_entry(16, 5), leaf_entry(16, 8)];
        let sound = page(4, LEAF, &entries);
        for at in 0..PAGE_BYTES {
            let mut bytes = sound.clone();
            bytes[at] ^= 0xA5;
            let _ = Page(&bytes).step((16, 6));
        }
    }
}
