//! Bytes of pages that are not worth a shared buffer, copied from the operating system's memory.
//!
//! A row of ten columns lies on ten pages. Where a table is much larger than shared buffers, each
//! of them takes a buffer from another page, is copied and verified whole, and is evicted before it
//! is read again: 4 to 5 µs for the hundred bytes that are needed. Reading just these from the file
//! takes 2, and leaves shared buffers to pages that are read more often. Where a session reads a
//! part of a file again and again it is mapped ([`super::file_map`]), and a copy takes half of one.
//!
//! ```text
//!   page in a shared buffer? ─ yes ────────────────────────────▶ read there
//!     └─ no: a free buffer, or worth one? ─ yes ───────────────▶ read into a shared buffer
//!          └─ no: mapped? ─ no: in the system's memory? ─ no ──▶ read into a shared buffer
//!               └─ yes ──────────────┴─ yes: copied
//!                    do key and checks match? ─ no ────────────▶ read into a shared buffer
//!                      └─ yes: done
//! ```
//!
//! *Why the file may be read beside shared buffers.* A piece of a long value is written once and
//! never changed. Every kilobyte is copied along with its check, which depends on the piece's key,
//! and is returned only if key and check match. So whatever the file has (an older page, none, one
//! that is being written, damage), it is left to shared buffers and their errors. Nor can the file
//! have an older value under the same key: a page that is in no shared buffer was written to its
//! file before it lost its buffer, and the value was there before its reader found it. The lock on
//! the relation keeps the file from being truncated or replaced. All of this holds on a standby,
//! too.
//!
//! `RWF_NOWAIT` makes the read fail where it would wait for a disk. Where the kernel or the file
//! system does not know it, or files are opened for direct I/O, nothing is read here.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use pgrx::guc::GucSetting;
use pgrx::{PostgresGucEnum, pg_sys};

use super::page::{BYTES_START, KEYS_START, PAGE_BYTES, payload_of_whole};
use super::piece::{CHECKED_BYTES, PIECE_BYTES, Piece, PieceKey, Verified};
use super::{file_reads, mapped, recent};
use crate::ffi;

/// Which pages are read from files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PostgresGucEnum)]
pub enum FileCopies {
    #[name = c"off"]
    Off,
    /// Those that are not worth a shared buffer.
    #[name = c"auto"]
    Auto,
    /// All that are in none.
    #[name = c"always"]
    Always,
}

/// The setting `howdah.file_copies`.
pub static FILE_COPIES: GucSetting<FileCopies> = GucSetting::<FileCopies>::new(FileCopies::Auto);

/// A page that is read here so often gets a shared buffer, if no more other pages are read here
/// between two times than an eighth of all buffers.
const ENOUGH: u32 = 4;
/// The same of a page that is mapped: a copy costs twice as much as a read of its buffer, not ten
/// times. The most that is counted.
const ENOUGH_MAPPED: u32 = recent::MOST_TIMES_COPIED;
const LATELY: u32 = 8;
/// One page in so many gets one in any case: many sessions that live for a few rows each would
/// never read a page often enough.
const SOONER_OR_LATER: u32 = 32;

thread_local! {
    static PAGE: RefCell<[u8; PAGE_BYTES]> = const { RefCell::new([0; PAGE_BYTES]) };
    static IS_POSSIBLE: Cell<bool> = const { Cell::new(true) };
    /// Pages that were in no buffer so far.
    static MISSED: Cell<u32> = const { Cell::new(0) };
}

/// How many copies ago still is lately.
fn lately() -> u32 {
    // SAFETY: a plain read of a value that is set when the server starts.
    unsafe { pg_sys::NBuffers as u32 / LATELY }
}

/// Whether a page that is in no shared buffer is worth one.
///
/// # Safety
/// `rel` is open.
unsafe fn is_worth_a_buffer(
    rel: pg_sys::Relation,
    block: pg_sys::BlockNumber,
    is_mapped: bool,
) -> bool {
    let missed = MISSED.get().wrapping_add(1);
    MISSED.set(missed);
    // SAFETY: as for this function; and a plain read of this process's number.
    unsafe {
        let times = recent::times_copied(rel, block, lately());
        if is_mapped {
            return times >= ENOUGH_MAPPED;
        }
        let first = pg_sys::MyProcPid as u32;
        times >= ENOUGH || missed.wrapping_add(first).is_multiple_of(SOONER_OR_LATER)
    }
}

/// Copies `range` of a piece into `into`, if the piece fills its page, this block, and the page is
/// better read from the file.
///
/// # Safety
/// `rel` is open and locked, and has this block.
pub(super) unsafe fn copy(
    rel: pg_sys::Relation,
    block: pg_sys::BlockNumber,
    key: PieceKey,
    range: Range<usize>,
    into: &mut [u8],
) -> bool {
    // SAFETY: as for this function.
    unsafe {
        let is_shared = (*rel).rd_backend == pg_sys::INVALID_PROC_NUMBER;
        let copies = FILE_COPIES.get();
        if !is_shared || copies == FileCopies::Off || !IS_POSSIBLE.get() {
            return false;
        }
        let is_forced = copies == FileCopies::Always;
        if !is_forced && ffi::quiet::have_free_buffer() {
            return false;
        }
        if let Some(buffer) = buffer_with(rel, block) {
            recent::note(rel, block, buffer);
            return false;
        }
        let is_mapped = mapped::has(rel, block);
        if !is_forced && is_worth_a_buffer(rel, block, is_mapped) {
            return false;
        }
        let kilobytes = verified_with(&range);
        PAGE.with_borrow_mut(|page| {
            if !(is_mapped && mapped::copy(rel, block, &kilobytes, page)) {
                if !read(rel, block, &mut page[..kilobytes[1].end]) {
                    return false;
                }
                mapped::count(rel, block);
            }
            count_read(rel, kilobytes.iter().map(ExactSizeIterator::len).sum());
            let Some(payload) = payload_of_whole(page, key) else {
                return false;
            };
            // All else in `page` are bytes of earlier reads, which are not looked at.
            let piece = Piece::of(key, payload);
            let bytes = piece.and_then(|piece| piece.verified(range, &mut Verified::default()));
            bytes.is_ok_and(|bytes| {
                into.copy_from_slice(bytes);
                recent::note_copied(rel, block, lately());
                true
            })
        })
    }
}

/// Prefetches into the processor's cache what [`copy`] would wait for, if the page lies in a file
/// that is mapped.
///
/// # Safety
/// `rel` is open.
pub(super) unsafe fn touch(rel: pg_sys::Relation, block: pg_sys::BlockNumber, range: Range<usize>) {
    // SAFETY: as for this function.
    unsafe { mapped::touch(rel, block, &verified_with(&range)) };
}

/// The places on its page of a piece's keys and checks, and of the kilobytes that are verified when
/// a range of it is read.
fn verified_with(range: &Range<usize>) -> [Range<usize>; 2] {
    let first = BYTES_START + range.start / CHECKED_BYTES * CHECKED_BYTES;
    let end = BYTES_START + range.end.next_multiple_of(CHECKED_BYTES).min(PIECE_BYTES);
    [KEYS_START..BYTES_START, first..end]
}

/// The shared buffer that holds the page.
///
/// # Safety
/// `rel` is open.
unsafe fn buffer_with(rel: pg_sys::Relation, block: pg_sys::BlockNumber) -> Option<pg_sys::Buffer> {
    // SAFETY: the table of buffers is searched under the lock of the tag's part, as bufmgr.c does.
    unsafe {
        let locator = (*rel).rd_locator;
        let mut tag = pg_sys::BufferTag {
            spcOid: locator.spcOid,
            dbOid: locator.dbOid,
            relNumber: locator.relNumber,
            forkNum: pg_sys::ForkNumber::MAIN_FORKNUM,
            blockNum: block,
        };
        let hash = ffi::quiet::BufTableHashCode(&raw mut tag);
        let part = hash % pg_sys::NUM_BUFFER_PARTITIONS;
        let lock =
            pg_sys::MainLWLockArray.add((pg_sys::BUFFER_MAPPING_LWLOCK_OFFSET + part) as usize);
        let lock = &raw mut (*lock).lock;
        ffi::quiet::LWLockAcquire(lock, pg_sys::LWLockMode::LW_SHARED);
        let found = ffi::quiet::BufTableLookup(&raw mut tag, hash);
        ffi::quiet::LWLockRelease(lock);
        (found >= 0).then(|| found + 1)
    }
}

/// Fills `into` with the first bytes of the block, if that needs no waiting.
///
/// # Safety
/// `rel` is open and locked, and has this block.
unsafe fn read(rel: pg_sys::Relation, block: pg_sys::BlockNumber, into: &mut [u8]) -> bool {
    // SAFETY: the descriptor is open until PostgreSQL opens another file, which it does not do
    // before it is used. The bytes are ours.
    let read = unsafe {
        let file = pg_sys::RelationGetSmgr(rel);
        let mut offset = 0_u32;
        let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
        let descriptor = ffi::mdfd(file, fork, block, &raw mut offset);
        let vector = libc::iovec {
            iov_base: into.as_mut_ptr().cast(),
            iov_len: into.len(),
        };
        libc::preadv2(
            descriptor,
            &raw const vector,
            1,
            i64::from(offset),
            libc::RWF_NOWAIT,
        )
    };
    if read < 0 {
        let error = std::io::Error::last_os_error().raw_os_error();
        // Other errors concern this page, which PostgreSQL reads then.
        if matches!(error, Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL)) {
            IS_POSSIBLE.set(false);
        }
    }
    let is_read = usize::try_from(read).is_ok_and(|read| read == into.len());
    if is_read {
        file_reads::was_in_memory();
    }
    is_read
}

/// Counts the page as read, as bufmgr.c does.
///
/// # Safety
/// `rel` is open.
unsafe fn count_read(rel: pg_sys::Relation, bytes: usize) {
    // SAFETY: counters of this process.
    unsafe {
        if let Some(statistics) = (*rel).pgstat_info.as_mut() {
            statistics.counts.blocks_fetched += 1;
        }
        pg_sys::pgBufferUsage.shared_blks_read += 1;
        ffi::quiet::pgstat_count_io_op(
            pg_sys::IOObject::IOOBJECT_RELATION,
            pg_sys::IOContext::IOCONTEXT_NORMAL,
            pg_sys::IOOp::IOOP_READ,
            1,
            bytes as u64,
        );
    }
}
