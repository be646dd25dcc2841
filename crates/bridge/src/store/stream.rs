//! Consecutive pages of the TOAST relation by a read stream: many are read at once, ahead of their
//! use.

use std::ops::Range;

use pgrx::{pg_guard, pg_sys};

use crate::table::Table;

use super::page::PinnedPage;
use super::recent;

/// The blocks that the stream has not requested yet.
struct Blocks {
    next: pg_sys::BlockNumber,
    end: pg_sys::BlockNumber,
}

/// A stream of pages. After an ERROR the resource owner and the memory context release what it
/// holds.
///
/// Invariant: `stream` is open and `blocks` is a box of this value's own until it is dropped; the
/// relation is open as long, because the store that has begun the stream is.
pub(super) struct BlockStream {
    rel: pg_sys::Relation,
    stream: *mut pg_sys::ReadStream,
    /// The stream points at them.
    blocks: *mut Blocks,
    /// The block that comes next.
    at: pg_sys::BlockNumber,
}

#[pg_guard]
unsafe extern "C-unwind" fn next_block(
    _stream: *mut pg_sys::ReadStream,
    private: *mut std::ffi::c_void,
    _per_buffer: *mut std::ffi::c_void,
) -> pg_sys::BlockNumber {
    // SAFETY: `private` is what the stream was begun with, and lives as long as it.
    let blocks = unsafe { &mut *private.cast::<Blocks>() };
    if blocks.next >= blocks.end {
        return pg_sys::InvalidBlockNumber;
    }
    blocks.next += 1;
    blocks.next - 1
}

impl BlockStream {
    /// The relation has these blocks.
    pub fn begin(table: Table<'_>, blocks: Range<pg_sys::BlockNumber>) -> BlockStream {
        let at = blocks.start;
        let blocks = Box::into_raw(Box::new(Blocks {
            next: blocks.start,
            end: blocks.end,
        }));
        let flags = pg_sys::READ_STREAM_SEQUENTIAL
            | pg_sys::READ_STREAM_FULL
            | pg_sys::READ_STREAM_USE_BATCHING;
        // SAFETY: the relation is open; `blocks` is freed after the stream.
        let stream = unsafe {
            pg_sys::read_stream_begin_relation(
                flags as i32,
                std::ptr::null_mut(),
                table.raw(),
                pg_sys::ForkNumber::MAIN_FORKNUM,
                Some(next_block),
                blocks.cast(),
                0,
            )
        };
        BlockStream {
            rel: table.raw(),
            stream,
            blocks,
            at,
        }
    }

    /// The next page, pinned; `None` at the end.
    pub fn next(&mut self) -> Option<PinnedPage> {
        // SAFETY: the stream is open; the buffer comes pinned, and the pin is passed on.
        unsafe {
            let buffer = pg_sys::read_stream_next_buffer(self.stream, std::ptr::null_mut());
            if buffer == pg_sys::InvalidBuffer as pg_sys::Buffer {
                return None;
            }
            recent::note(self.rel, self.at, buffer);
            self.at += 1;
            Some(PinnedPage::of(buffer, self.at - 1))
        }
    }
}

impl Drop for BlockStream {
    fn drop(&mut self) {
        // SAFETY: begun by us, ended once; an ERROR has ended it already. The callback is not
        // called any more.
        unsafe {
            if !std::thread::panicking() {
                pg_sys::read_stream_end(self.stream);
            }
            drop(Box::from_raw(self.blocks));
        }
    }
}
