//! Stamping of hot tuples as updated to cold TIDs.
//!
//! ```text
//!   clear_visibility(run of pages)   visibility map bits off, one full image per map page
//!   stamp(page)                      cleanup lock ── check ── generic WAL ── unlock
//! ```
//!
//! A stamped tuple looks like one that the mover has updated: xmax is the mover, no lock or
//! multixact bits, HEAP_KEYS_UPDATED (so that FOR KEY SHARE waits too), not HOT-updated, and
//! `t_ctid` is the cold TID. If the mover commits, the tuple is dead to later snapshots; if it
//! aborts, the xmax is void and the tuple is live.
//!
//! The cleanup lock, which is only ever requested conditionally, proves that no backend has read
//! the page and is about to act on what it saw: a row lock in progress keeps its pin
//! ([`super::lock`]). A page is stamped only if it is still all-visible and every tuple to be
//! stamped is the one that was copied (same line pointer, length and raw xmin; a line pointer
//! cannot be reused under the same xmin once that has committed) without a live locker.
//!
//! WAL. Heap redo has no record for this, so pages are logged by generic WAL. The visibility map is
//! logged as a full image before the first heap page: after a crash in between, bits are merely
//! missing. A bit that VACUUM has set again since is cleared, and logged, under the heap page's
//! lock. (Generic WAL would lose a map page's content: the page looks empty to it.)
//!
//! Locks: heap page, then map page, as in heap's own code; one heap page at a time.

use pgrx::pg_sys;

use super::page::{HotPage, HotTuple};
use crate::table::Table;
use crate::tid::Tid;

const NO_BUFFER: pg_sys::Buffer = pg_sys::InvalidBuffer as pg_sys::Buffer;

/// Why a page was left as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another backend holds a pin or a lock on the page, or a lock on one of its rows.
    Busy,
    /// The page changed after it was copied.
    Changed,
}

/// Stamps pages of one relation for the running transaction.
pub struct Stamper<'a> {
    table: Table<'a>,
    /// A page of the visibility map, pinned; or none.
    map: pg_sys::Buffer,
    map_needs_wal: bool,
    xid: pg_sys::TransactionId,
    cid: pg_sys::CommandId,
}

impl<'a> Stamper<'a> {
    /// The table is locked against VACUUM and DDL.
    pub fn begin(table: Table<'a>) -> Stamper<'a> {
        let rel = table.raw();
        // SAFETY: the relation is open as long as it is borrowed; a transaction is running.
        unsafe {
            Stamper {
                table,
                map: NO_BUFFER,
                map_needs_wal: (*(*rel).rd_rel).relpersistence
                    == pg_sys::RELPERSISTENCE_PERMANENT as i8,
                xid: pg_sys::GetCurrentTransactionId(),
                cid: pg_sys::GetCurrentCommandId(true),
            }
        }
    }

    /// Whether [`Stamper::stamp`] would accept the page now.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check(&mut self, page: &HotPage) -> Result<(), Refusal> {
        let locked = CleanupLocked::try_lock(self.table, page.block)?;
        // SAFETY: the page is locked.
        unsafe { unchanged(locked.page(), &page.tuples) }
    }

    /// Clears the visibility map bits of the pages; cheap if the blocks are ascending.
    pub fn clear_visibility(&mut self, pages: &[HotPage]) {
        let mut rest = pages;
        while let Some(first) = rest.first() {
            // SAFETY: the relation is open; the map page stays pinned in `self.map`.
            unsafe {
                pg_sys::visibilitymap_pin(self.table.raw(), first.block, &mut self.map);
                let same_map_page =
                    |page: &&HotPage| pg_sys::visibilitymap_pin_ok(page.block, self.map);
                let count = rest.iter().take_while(same_map_page).count().max(1);
                for page in &rest[..count] {
                    pg_sys::visibilitymap_clear(
                        self.table.raw(),
                        page.block,
                        self.map,
                        pg_sys::VISIBILITYMAP_VALID_BITS as u8,
                    );
                }
                rest = &rest[count..];
            }
            self.log_map();
        }
    }

    /// Logs an image of the pinned map page.
    fn log_map(&self) {
        if !self.map_needs_wal {
            return;
        }
        // SAFETY: the map page is pinned and gets locked; nothing between the two counts of the
        // critical section can fail but WAL insertion, which panics the server as it must.
        unsafe {
            pg_sys::LockBuffer(self.map, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            pg_sys::CritSectionCount += 1;
            pg_sys::MarkBufferDirty(self.map);
            pg_sys::log_newpage_buffer(self.map, false);
            pg_sys::CritSectionCount -= 1;
            pg_sys::LockBuffer(self.map, pg_sys::BUFFER_LOCK_UNLOCK as i32);
        }
    }

    /// Deletes the TOAST values of all tuples of a page that was stamped.
    pub fn delete_toasted(&self, page: &mut HotPage) {
        for index in 0..page.tuples.len() {
            if page.has_external(index) {
                let mut tuple = page.tuple(index);
                // SAFETY: the relation is open and locked for writing; the copy equals the tuple on
                // the page; no page lock is held.
                unsafe { crate::ffi::heap_toast_delete(self.table.raw(), &mut tuple, false) };
            }
        }
    }

    /// Stamps every tuple of the copy: tuple `i` becomes updated to `link(i)`.
    ///
    /// # Errors
    /// The page was refused; nothing was changed.
    pub fn stamp(&mut self, page: &HotPage, link: impl Fn(usize) -> Tid) -> Result<(), Refusal> {
        let locked = CleanupLocked::try_lock(self.table, page.block)?;
        // SAFETY: pin and cleanup lock are held to the end of the function; the image is a
        // private copy of the page, whose line pointers `unchanged` has checked.
        unsafe {
            unchanged(locked.page(), &page.tuples)?;
            let status =
                pg_sys::visibilitymap_get_status(self.table.raw(), page.block, &mut self.map);
            if status != 0 {
                pg_sys::visibilitymap_clear(
                    self.table.raw(),
                    page.block,
                    self.map,
                    pg_sys::VISIBILITYMAP_VALID_BITS as u8,
                );
                self.log_map();
            }
            let state = pg_sys::GenericXLogStart(self.table.raw());
            let image = pg_sys::GenericXLogRegisterBuffer(state, locked.buffer, 0);
            for (index, tuple) in page.tuples.iter().enumerate() {
                let item = pg_sys::PageGetItemId(image, tuple.offset);
                let header = image
                    .cast::<u8>()
                    .add((*item).lp_off() as usize)
                    .cast::<pg_sys::HeapTupleHeaderData>();
                self.mark_updated(&mut *header, link(index).raw());
            }
            let header = image.cast::<pg_sys::PageHeaderData>();
            (*header).pd_flags &= !(pg_sys::PD_ALL_VISIBLE as u16);
            let prune = (*header).pd_prune_xid;
            if prune == pg_sys::InvalidTransactionId
                || pg_sys::TransactionIdPrecedes(self.xid, prune)
            {
                (*header).pd_prune_xid = self.xid;
            }
            pg_sys::GenericXLogFinish(state);
        }
        Ok(())
    }

    fn mark_updated(
        &self,
        header: &mut pg_sys::HeapTupleHeaderData,
        link: pg_sys::ItemPointerData,
    ) {
        let old = pg_sys::HEAP_XMAX_BITS | pg_sys::HEAP_MOVED | pg_sys::HEAP_COMBOCID;
        header.t_infomask &= !(old as u16);
        header.t_infomask2 &= !(pg_sys::HEAP_HOT_UPDATED as u16);
        header.t_infomask2 |= pg_sys::HEAP_KEYS_UPDATED as u16;
        // SAFETY: a tuple on a heap page uses the `t_heap` side of the union.
        let fields = unsafe { &mut header.t_choice.t_heap };
        fields.t_xmax = self.xid;
        fields.t_field3.t_cid = self.cid;
        header.t_ctid = link;
    }
}

impl Drop for Stamper<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() && self.map != NO_BUFFER {
            // SAFETY: pinned by the visibility map's functions, released once.
            unsafe { pg_sys::ReleaseBuffer(self.map) }
        }
    }
}

/// A page that no other backend has pinned, exclusively locked.
struct CleanupLocked {
    buffer: pg_sys::Buffer,
}

impl CleanupLocked {
    fn try_lock(table: Table<'_>, block: pg_sys::BlockNumber) -> Result<CleanupLocked, Refusal> {
        // SAFETY: the relation is open and its block exists: only VACUUM truncates, and it is
        // locked out.
        unsafe {
            let buffer = pg_sys::ReadBuffer(table.raw(), block);
            if !pg_sys::ConditionalLockBufferForCleanup(buffer) {
                pg_sys::ReleaseBuffer(buffer);
                return Err(Refusal::Busy);
            }
            Ok(CleanupLocked { buffer })
        }
    }

    fn page(&self) -> pg_sys::Page {
        // SAFETY: the buffer is pinned.
        unsafe { pg_sys::BufferGetPage(self.buffer) }
    }
}

impl Drop for CleanupLocked {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: locked and pinned by `try_lock`.
            unsafe { pg_sys::UnlockReleaseBuffer(self.buffer) }
        }
    }
}

/// Whether the page still holds the copied tuples, visible to all and without lockers.
///
/// # Safety
/// `page` is pinned and exclusively locked.
unsafe fn unchanged(page: pg_sys::Page, tuples: &[HotTuple]) -> Result<(), Refusal> {
    // SAFETY: as for this function; line pointers are checked before tuples are touched.
    unsafe {
        if !pg_sys::PageIsAllVisible(page.cast()) {
            return Err(Refusal::Changed);
        }
        let last = pg_sys::PageGetMaxOffsetNumber(page.cast());
        for tuple in tuples {
            if tuple.offset > last {
                return Err(Refusal::Changed);
            }
            let item = pg_sys::PageGetItemId(page, tuple.offset);
            if (*item).lp_flags() != pg_sys::LP_NORMAL
                || (*item).lp_len() != u32::from(tuple.len_bytes)
            {
                return Err(Refusal::Changed);
            }
            let header =
                pg_sys::PageGetItem(page.cast(), item).cast::<pg_sys::HeapTupleHeaderData>();
            if (*header).t_choice.t_heap.t_xmin != tuple.xmin {
                return Err(Refusal::Changed);
            }
            if has_live_locker(&*header) {
                return Err(Refusal::Busy);
            }
        }
        Ok(())
    }
}

/// Whether the tuple's xmax names an in-progress transaction. On an all-visible page that can only
/// be a locker, or an updater that aborts.
///
/// # Safety
/// The header is that of a heap tuple on a page that is pinned and locked.
unsafe fn has_live_locker(header: &pg_sys::HeapTupleHeaderData) -> bool {
    let infomask = u32::from(header.t_infomask);
    if infomask & pg_sys::HEAP_XMAX_INVALID != 0 {
        return false;
    }
    // SAFETY: a tuple on a heap page uses the `t_heap` side of the union; the lookups only read
    // transaction status.
    unsafe {
        let xmax = header.t_choice.t_heap.t_xmax;
        if infomask & pg_sys::HEAP_XMAX_IS_MULTI == 0 {
            return pg_sys::TransactionIdIsInProgress(xmax);
        }
        !pg_sys::HEAP_LOCKED_UPGRADED(header.t_infomask)
            && pg_sys::MultiXactIdIsRunning(
                xmax,
                pg_sys::HEAP_XMAX_IS_LOCKED_ONLY(header.t_infomask),
            )
    }
}
