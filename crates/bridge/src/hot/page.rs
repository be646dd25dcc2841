//! Copies of heap pages whose tuples are visible to all.
//!
//! A page is copied under a share lock and read from the copy, so no backend waits while values are
//! detoasted, encoded or indexed. The copy stays valid as long as [`super::stamp`] finds the page
//! all-visible and its tuples unchanged.

use std::marker::PhantomData;

use pgrx::pg_sys;

use crate::datum::Datum;
use crate::table::{Descriptor, Table};
use crate::tid::tid_of;

const PAGE_BYTES: usize = pg_sys::BLCKSZ as usize;

/// A page image with the alignment that tuples require.
#[repr(C, align(8))]
struct Image([u8; PAGE_BYTES]);

/// One tuple of a copied page.
#[derive(Clone, Copy, Debug)]
pub struct HotTuple {
    pub offset: u16,
    at_bytes: u16,
    pub(super) len_bytes: u16,
    pub(super) xmin: pg_sys::TransactionId,
}

/// A copy of an all-visible page with its tuples in line-pointer order.
pub struct HotPage {
    pub block: pg_sys::BlockNumber,
    pub tuples: Vec<HotTuple>,
    image: Box<Image>,
    table: pg_sys::Oid,
}

impl HotPage {
    /// A heap tuple that points into the copy, valid as long as the page.
    pub fn tuple(&mut self, index: usize) -> pg_sys::HeapTupleData {
        let tuple = self.tuples[index];
        pg_sys::HeapTupleData {
            t_len: u32::from(tuple.len_bytes),
            t_self: tid_of(self.block, tuple.offset),
            t_tableOid: self.table,
            t_data: self.image.0[usize::from(tuple.at_bytes)..]
                .as_mut_ptr()
                .cast(),
        }
    }

    /// Takes a tuple apart. Values that are not passed by value lie in the copy.
    ///
    /// # Panics
    ///
    /// Panics when there are fewer places than attributes.
    pub fn deform(
        &mut self,
        index: usize,
        desc: Descriptor<'_>,
        values: &mut [Datum],
        nulls: &mut [bool],
    ) {
        let count = desc.attribute_count();
        assert!(
            values.len() >= count && nulls.len() >= count,
            "a place for each attribute"
        );
        let mut tuple = self.tuple(index);
        // SAFETY: the tuple lies in the page's copy; the arrays have one entry per attribute.
        unsafe {
            let (values, nulls) = (values.as_mut_ptr(), nulls.as_mut_ptr());
            pg_sys::heap_deform_tuple(&mut tuple, desc.raw(), values, nulls);
        }
    }

    /// Whether a tuple has values in the TOAST relation.
    pub fn has_external(&self, index: usize) -> bool {
        let at = usize::from(self.tuples[index].at_bytes);
        // SAFETY: a tuple's header lies whole and aligned inside the image (see `read`).
        let header = unsafe {
            &*self.image.0[at..]
                .as_ptr()
                .cast::<pg_sys::HeapTupleHeaderData>()
        };
        u32::from(header.t_infomask) & pg_sys::HEAP_HASEXTERNAL != 0
    }
}

/// The state of a page, read without its tuples.
#[derive(Clone, Copy, Debug)]
pub struct PageState {
    /// Where WAL ended after the page's last logged change; 0 if it is not logged.
    pub lsn: pg_sys::XLogRecPtr,
    pub all_visible: bool,
    /// Tuples, dead ones included.
    pub rows: u32,
}

/// Reads all-visible pages of one relation. Holds a pin on a visibility map page and frees its
/// ring of buffers on drop.
pub struct HotReader<'a> {
    rel: pg_sys::Relation,
    map: pg_sys::Buffer,
    strategy: pg_sys::BufferAccessStrategy,
    open: PhantomData<&'a ()>,
}

impl<'a> HotReader<'a> {
    pub fn begin(table: Table<'a>) -> HotReader<'a> {
        let rel = table.raw();
        // SAFETY: the relation is open as long as it is borrowed.
        let strategy = unsafe {
            let large = crate::relation::main_fork_blocks(rel) > pg_sys::NBuffers as u32 / 4;
            if large {
                pg_sys::GetAccessStrategy(pg_sys::BufferAccessStrategyType::BAS_BULKREAD)
            } else {
                std::ptr::null_mut()
            }
        };
        HotReader {
            rel,
            map: pg_sys::InvalidBuffer as pg_sys::Buffer,
            strategy,
            open: PhantomData,
        }
    }

    /// Whether the visibility map has the page as all-visible; the page itself is not read.
    pub fn is_all_visible(&mut self, block: pg_sys::BlockNumber) -> bool {
        // SAFETY: the relation is open.
        let status = unsafe { pg_sys::visibilitymap_get_status(self.rel, block, &mut self.map) };
        u32::from(status) & pg_sys::VISIBILITYMAP_ALL_VISIBLE != 0
    }

    /// Reads the state of a page without reading its tuples.
    pub fn look(&mut self, block: pg_sys::BlockNumber) -> PageState {
        // SAFETY: the relation is open; pin and share lock are held while the page is read.
        unsafe {
            let all_visible = self.is_all_visible(block);
            let buffer = self.lock(block);
            let page = pg_sys::BufferGetPage(buffer);
            let rows = (1..=pg_sys::PageGetMaxOffsetNumber(page.cast()))
                .filter(|&offset| {
                    (*pg_sys::PageGetItemId(page, offset)).lp_flags() == pg_sys::LP_NORMAL
                })
                .count();
            let state = PageState {
                lsn: pg_sys::PageGetLSN(page.cast()),
                all_visible,
                rows: rows as u32,
            };
            pg_sys::UnlockReleaseBuffer(buffer);
            state
        }
    }

    pub(super) fn table(&self) -> pg_sys::Oid {
        // SAFETY: the relation outlives the reader.
        unsafe { (*self.rel).rd_id }
    }

    /// Pins and share-locks a page.
    pub(super) fn lock(&self, block: pg_sys::BlockNumber) -> pg_sys::Buffer {
        // SAFETY: the relation is open; a block that is not there raises an ERROR.
        unsafe {
            let buffer = pg_sys::ReadBufferExtended(
                self.rel,
                pg_sys::ForkNumber::MAIN_FORKNUM,
                block,
                pg_sys::ReadBufferMode::RBM_NORMAL,
                self.strategy,
            );
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            buffer
        }
    }

    /// Copies the page if its own flag says that it is all-visible. The visibility map is not
    /// consulted: the mover may have cleared the bits of pages that it could not stamp then.
    pub fn read(&mut self, block: pg_sys::BlockNumber) -> Option<HotPage> {
        // SAFETY: the relation is open; pin and share lock are held while the page is read and
        // line pointers are checked before their tuples are touched.
        unsafe {
            let buffer = self.lock(block);
            let page = pg_sys::BufferGetPage(buffer);
            if !pg_sys::PageIsAllVisible(page.cast()) {
                pg_sys::UnlockReleaseBuffer(buffer);
                return None;
            }
            let mut copy = HotPage {
                block,
                tuples: Vec::new(),
                image: Box::new(Image([0; PAGE_BYTES])),
                table: (*self.rel).rd_id,
            };
            std::ptr::copy_nonoverlapping(page.cast::<u8>(), copy.image.0.as_mut_ptr(), PAGE_BYTES);
            pg_sys::UnlockReleaseBuffer(buffer);
            copy.find_tuples();
            Some(copy)
        }
    }
}

impl HotPage {
    fn find_tuples(&mut self) {
        let page: pg_sys::Page = self.image.0.as_mut_ptr().cast();
        let header_bytes = std::mem::size_of::<pg_sys::HeapTupleHeaderData>();
        // SAFETY: `page` is a whole page image of our own; each tuple is checked to lie inside.
        unsafe {
            for offset in 1..=pg_sys::PageGetMaxOffsetNumber(page.cast()) {
                let item = pg_sys::PageGetItemId(page, offset);
                if (*item).lp_flags() != pg_sys::LP_NORMAL {
                    continue;
                }
                let (at, len) = ((*item).lp_off() as usize, (*item).lp_len() as usize);
                if at % 8 != 0 || len < header_bytes || at + len > PAGE_BYTES {
                    let table = crate::names::relation(self.table).unwrap_or_default();
                    crate::damage::raise(format!(
                        "line pointer {offset} of block {} of table \"{table}\" is damaged",
                        self.block
                    ));
                }
                let header = self.image.0[at..]
                    .as_ptr()
                    .cast::<pg_sys::HeapTupleHeaderData>();
                self.tuples.push(HotTuple {
                    offset,
                    at_bytes: at as u16,
                    len_bytes: len as u16,
                    xmin: (*header).t_choice.t_heap.t_xmin,
                });
            }
        }
    }
}

impl Drop for HotReader<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // SAFETY: pinned by visibilitymap_get_status, allocated by GetAccessStrategy; both once.
        unsafe {
            if self.map != pg_sys::InvalidBuffer as pg_sys::Buffer {
                pg_sys::ReleaseBuffer(self.map);
            }
            if !self.strategy.is_null() {
                pg_sys::FreeAccessStrategy(self.strategy);
            }
        }
    }
}
