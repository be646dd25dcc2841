//! Pages of the TOAST relation as guards, and the tuples on them.
//!
//! A content lock is held for as long as bytes of a page are read. A pin alone keeps the page in
//! its buffer, and keeps its tuples from being moved or removed, so that it can be locked again
//! without another look-up.

use std::ops::Range;

use pgrx::pg_sys;

use crate::ffi::quiet;
use crate::table::Table;

use super::PAYLOAD_OFFSET;
use super::piece::{HEAD_BYTES, PIECE_BYTES};
use super::{file_reads, recent, verified_notes};

pub(super) const PAGE_BYTES: usize = pg_sys::BLCKSZ as usize;
/// The header of a tuple without NULLs.
const HEADER_BYTES: usize = 24;
/// What lies before the bytes of a piece: header, keys, header of the payload, checks.
const TUPLE_BYTES: usize = HEADER_BYTES + PAYLOAD_OFFSET + HEAD_BYTES;
/// Where the tuple of a piece that fills its page begins, where its keys do, and its bytes.
const PIECE_START: usize = PAGE_BYTES - (TUPLE_BYTES + PIECE_BYTES).next_multiple_of(8);
pub(super) const KEYS_START: usize = PIECE_START + HEADER_BYTES;
pub(super) const BYTES_START: usize = PIECE_START + TUPLE_BYTES;
/// The payload of such a piece, and the header of a payload of that length.
const PAYLOAD_BYTES: usize = HEAD_BYTES + PIECE_BYTES;
const PAYLOAD_HEADER: u32 = ((PAYLOAD_BYTES + 4) << 2) as u32;
const _: () = assert!(KEYS_START.is_multiple_of(4));
const _: () = assert!(KEYS_START + PAYLOAD_OFFSET + PAYLOAD_BYTES <= PAGE_BYTES);

fn pin(table: Table<'_>, block: pg_sys::BlockNumber) -> (pg_sys::Buffer, pg_sys::Page) {
    // SAFETY: the relation is open; a block past the end or a damaged page raises an ERROR before
    // anything is held.
    unsafe {
        let buffer = pg_sys::ReadBufferExtended(
            table.raw(),
            pg_sys::ForkNumber::MAIN_FORKNUM,
            block,
            pg_sys::ReadBufferMode::RBM_NORMAL,
            std::ptr::null_mut(),
        );
        (buffer, pg_sys::BufferGetPage(buffer))
    }
}

/// Pins the buffer if it holds the page.
///
/// # Safety
/// The relation is open, and the buffer one of the pool.
#[inline(never)]
unsafe fn pin_if_there(
    rel: pg_sys::Relation,
    block: pg_sys::BlockNumber,
    buffer: pg_sys::Buffer,
) -> bool {
    let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
    // SAFETY: as for this function.
    unsafe { pg_sys::ReadRecentBuffer((*rel).rd_locator, fork, block, buffer) }
}

/// A pinned, share-locked page.
pub(super) struct LockedPage {
    pub buffer: pg_sys::Buffer,
    page: pg_sys::Page,
}

impl LockedPage {
    pub fn read(table: Table<'_>, block: pg_sys::BlockNumber) -> LockedPage {
        let (buffer, page) = pin(table, block);
        // SAFETY: just pinned.
        unsafe { quiet::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32) };
        LockedPage { buffer, page }
    }

    /// The tuple at `tid`, which lies on this page, if there is a normal one.
    pub fn tuple(
        &self,
        table: Table<'_>,
        tid: pg_sys::ItemPointerData,
    ) -> Option<pg_sys::HeapTupleData> {
        // SAFETY: pin and share lock are held.
        unsafe { tuple_on(self.page, table.raw(), tid) }
    }

    /// Whether the tuple that an index entry leads to has its key, or is dead.
    pub fn has_key(&self, table: Table<'_>, tid: pg_sys::ItemPointerData, key: (u32, i32)) -> bool {
        match self.tuple(table, tid) {
            None => !self.has_lost(tid),
            Some(tuple) => {
                // SAFETY: pin and lock are held.
                let fields = unsafe { fields(&tuple) };
                fields.is_some_and(|(id, seq, _)| (id, seq) == key)
            }
        }
    }

    /// Whether there is no line pointer at `tid`, not even that of a dead tuple. VACUUM frees one
    /// after its index entries are deleted: where an entry still leads here, it is damage.
    fn has_lost(&self, tid: pg_sys::ItemPointerData) -> bool {
        // SAFETY: pin and share lock are held.
        let pointer = unsafe { line_pointer(self.page, tid.ip_posid) };
        !matches!(
            pointer.map(|pointer| pointer.lp_flags()),
            Some(pg_sys::LP_NORMAL | pg_sys::LP_DEAD)
        )
    }
}

impl Drop for LockedPage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: locked and pinned by `read`, released once.
            unsafe { quiet::UnlockReleaseBuffer(self.buffer) }
        }
    }
}

/// A pinned page.
pub(super) struct PinnedPage {
    buffer: pg_sys::Buffer,
    page: pg_sys::Page,
    pub block: pg_sys::BlockNumber,
}

impl PinnedPage {
    pub fn read(table: Table<'_>, block: pg_sys::BlockNumber) -> PinnedPage {
        let (buffer, page) = file_reads::timed(|| pin(table, block));
        // SAFETY: the relation is open.
        unsafe { recent::note(table.raw(), block, buffer) };
        PinnedPage {
            buffer,
            page,
            block,
        }
    }

    /// The page, if it is still in the buffer where it was seen before: found without a look-up in
    /// the buffer table.
    ///
    /// `bytes` are those of a piece that will be read: the memory that this waits for is requested
    /// at once, unless it was before (`None`).
    pub fn recent(
        table: Table<'_>,
        block: pg_sys::BlockNumber,
        bytes: Option<Range<usize>>,
    ) -> Option<PinnedPage> {
        // SAFETY: the relation is open.
        let hint = unsafe { recent::buffer_of(table.raw(), block)? };
        if let Some(bytes) = bytes {
            recent::touch(hint.buffer, bytes);
        }
        // SAFETY: no room is claimed.
        unsafe { PinnedPage::in_buffer(table, block, hint, false) }
    }

    /// The page, if it is in this buffer.
    ///
    /// # Safety
    /// If `has_room` is set, this process has released a pin that it had taken, and has taken no
    /// other one, nor anything else that a resource owner knows, since before that. So there is
    /// room where the former one was, and nothing can raise an ERROR: see `ResourceOwnerEnlarge`
    /// and `ReservePrivateRefCountEntry`.
    #[inline(always)]
    pub unsafe fn in_buffer(
        table: Table<'_>,
        block: pg_sys::BlockNumber,
        hint: recent::Hint,
        has_room: bool,
    ) -> Option<PinnedPage> {
        let (rel, buffer) = (table.raw(), hint.buffer);
        // SAFETY: the relation is open; the buffer is one of the pool, and is pinned if it holds
        // the page; as for this function.
        unsafe {
            if !recent::is_well_used(buffer) {
                return None;
            }
            let is_there = match has_room {
                true => {
                    let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
                    quiet::ReadRecentBuffer((*rel).rd_locator, fork, block, buffer)
                }
                false => pin_if_there(rel, block, buffer),
            };
            hint.was_right(is_there, rel, block);
            if !is_there {
                return None;
            }
            if let Some(statistics) = (*rel).pgstat_info.as_mut() {
                statistics.counts.blocks_fetched += 1;
                statistics.counts.blocks_hit += 1;
            }
            Some(PinnedPage::of(buffer, block))
        }
    }

    /// Takes over a pin.
    ///
    /// # Safety
    /// The caller has pinned the buffer, which holds this block, and gives up the pin.
    pub unsafe fn of(buffer: pg_sys::Buffer, block: pg_sys::BlockNumber) -> PinnedPage {
        PinnedPage {
            buffer,
            // SAFETY: as for this function.
            page: unsafe { pg_sys::BufferGetPage(buffer) },
            block,
        }
    }

    /// Where it lies, as long as it is pinned.
    pub fn place(&self) -> Place {
        Place {
            buffer: self.buffer,
            block: self.block,
        }
    }

    /// Whether there is a tuple with this key.
    pub fn has(&self, table: Table<'_>, key: (u32, i32)) -> bool {
        self.find(table, key).is_some()
    }

    /// Keeps the first tuple that has this key pinned, if there is one.
    #[inline(always)]
    pub fn hold(self, table: Table<'_>, key: (u32, i32)) -> Option<HeldPiece> {
        verified_notes::wipe_if_ignored(self.buffer);
        let payload = self.whole(key).or_else(|| self.find(table, key))?;
        Some(HeldPiece {
            page: self,
            payload,
        })
    }

    /// The payload of a piece with this key that fills the page, where such a piece lies. No lock
    /// is needed to see that it is there: a piece that is read was written before, and its tuple,
    /// once its line pointer is seen to be normal under the pin, is neither moved nor removed.
    /// Bytes that VACUUM has left behind have none. Of another page's bytes, which may be changing,
    /// no more is read than these words, which do not match then.
    #[inline]
    fn whole(&self, (id, seq): (u32, i32)) -> Option<*const [u8]> {
        // SAFETY: the pin is held, and the words lie within the page.
        unsafe {
            let header = self.page.cast::<pg_sys::PageHeaderData>();
            let pointer = (*header).pd_linp.as_ptr().read_volatile();
            if pointer.lp_flags() != pg_sys::LP_NORMAL || pointer.lp_off() as usize != PIECE_START {
                return None;
            }
            let keys = self.page.cast::<u8>().cast_const().add(KEYS_START);
            let is_same = keys.cast::<u32>().read_volatile() == id
                && keys.add(4).cast::<i32>().read_volatile() == seq
                && keys.add(8).cast::<u32>().read_volatile() == PAYLOAD_HEADER;
            is_same.then(|| {
                let payload = keys.add(PAYLOAD_OFFSET);
                std::ptr::slice_from_raw_parts(payload, PAYLOAD_BYTES)
            })
        }
    }

    /// The payload of the first tuple that has this key, found under the page's share lock.
    #[cold]
    fn find(&self, table: Table<'_>, key: (u32, i32)) -> Option<*const [u8]> {
        // SAFETY: the pin is held; nothing between lock and unlock can raise an ERROR.
        unsafe {
            quiet::LockBuffer(self.buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let header = self.page.cast::<pg_sys::PageHeaderData>();
            let pointers =
                usize::from((*header).pd_lower).saturating_sub(size_of::<pg_sys::PageHeaderData>());
            let count = (pointers / size_of::<pg_sys::ItemIdData>()) as u16;
            let found = (1..=count).find_map(|offset| {
                let tid = crate::tid::tid_of(self.block, offset);
                let tuple = tuple_on(self.page, table.raw(), tid)?;
                let (id, seq, payload) = fields(&tuple)?;
                ((id, seq) == key).then_some(std::ptr::from_ref(payload))
            });
            quiet::LockBuffer(self.buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
            found
        }
    }
}

/// A buffer and the block that it holds.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub buffer: pg_sys::Buffer,
    pub block: pg_sys::BlockNumber,
}

/// A piece of a long value on a pinned page. Pieces are never changed in place, and a tuple is
/// neither moved nor removed while another backend has its page pinned. So its bytes may be read
/// without a lock, as heap does for rows that it has found.
pub(super) struct HeldPiece {
    /// Keeps the pin.
    page: PinnedPage,
    payload: *const [u8],
}

impl HeldPiece {
    /// Where it lies, as long as it is held.
    pub fn place(&self) -> Place {
        self.page.place()
    }

    pub fn payload(&self) -> &[u8] {
        // SAFETY: it lies on the pinned page, see above.
        unsafe { &*self.payload }
    }
}

impl Drop for PinnedPage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: pinned by us, released once.
            unsafe { quiet::ReleaseBuffer(self.buffer) }
        }
    }
}

/// The tuple at `tid`, if there is a normal one.
///
/// # Safety
/// The page, on which `tid` lies, is pinned and locked; the tuple is used no longer than that.
unsafe fn tuple_on(
    page: pg_sys::Page,
    rel: pg_sys::Relation,
    tid: pg_sys::ItemPointerData,
) -> Option<pg_sys::HeapTupleData> {
    // SAFETY: as for this function; the line pointer is checked before its item is touched.
    unsafe {
        let item = line_pointer(page, tid.ip_posid)?;
        if item.lp_flags() != pg_sys::LP_NORMAL {
            return None;
        }
        Some(pg_sys::HeapTupleData {
            t_len: item.lp_len(),
            t_self: tid,
            t_tableOid: (*rel).rd_id,
            t_data: page.cast::<u8>().add(item.lp_off() as usize).cast(),
        })
    }
}

/// A line pointer, if the page has so many: what PageGetMaxOffsetNumber and PageGetItemId do,
/// without a guard around each.
///
/// # Safety
/// The page is pinned and locked.
unsafe fn line_pointer(page: pg_sys::Page, offset: u16) -> Option<pg_sys::ItemIdData> {
    // SAFETY: as for this function; the pointer is checked to lie on the page.
    unsafe {
        let header = page.cast::<pg_sys::PageHeaderData>();
        let pointers = size_of::<pg_sys::PageHeaderData>()
            + usize::from(offset) * size_of::<pg_sys::ItemIdData>();
        if offset == 0 || pointers > usize::from((*header).pd_lower) {
            return None;
        }
        Some(*(*header).pd_linp.as_ptr().add(usize::from(offset) - 1))
    }
}

/// `(id, seq, payload)` of a TOAST tuple on a pinned page.
///
/// # Safety
/// The tuple lies on a page that stays pinned and locked while the slice is used.
pub(super) unsafe fn fields<'a>(tuple: &pg_sys::HeapTupleData) -> Option<(u32, i32, &'a [u8])> {
    // SAFETY: t_len comes from a line pointer inside the page; everything is checked against it.
    unsafe {
        let hoff = (*tuple.t_data).t_hoff as usize;
        let len = tuple.t_len as usize;
        if len < hoff + PAYLOAD_OFFSET {
            return None;
        }
        let data = tuple.t_data.cast::<u8>().add(hoff);
        let id = data.cast::<u32>().read_unaligned();
        let seq = data.add(4).cast::<i32>().read_unaligned();
        let header = data.add(8).cast::<u32>().read_unaligned();
        let varlena_bytes = (header >> 2) as usize;
        if header & 3 != 0 || varlena_bytes < 4 || hoff + 8 + varlena_bytes > len {
            return None;
        }
        Some((
            id,
            seq,
            std::slice::from_raw_parts(data.add(PAYLOAD_OFFSET), varlena_bytes - 4),
        ))
    }
}

/// The payload of a piece with this key that fills its page, in a copy of the page.
pub(super) fn payload_of_whole(page: &[u8; PAGE_BYTES], (id, seq): (u32, i32)) -> Option<&[u8]> {
    let (keys, payload) = page[KEYS_START..].split_at(PAYLOAD_OFFSET);
    let words = [
        id.to_ne_bytes(),
        seq.to_ne_bytes(),
        PAYLOAD_HEADER.to_ne_bytes(),
    ];
    (keys == words.as_flattened()).then(|| &payload[..PAYLOAD_BYTES])
}

/// Pages that this backend has read into shared buffers so far.
pub fn blocks_read() -> i64 {
    // SAFETY: plain read of a counter of this backend.
    unsafe { pg_sys::pgBufferUsage.shared_blks_read }
}
