//! The buffers in which pages of TOAST relations were last found. Most reads are thereby spared a
//! look-up in the buffer table, and memory can be prefetched for what will be read.
//!
//! ```text
//!   (file, block) ──place──▶ buffer ──ReadRecentBuffer: is its tag this page's?──▶ pin
//!                                   └─ touch: descriptor, page header, keys, bytes ──▶ cache
//! ```
//!
//! One table for all files of a session, with one buffer number for each place; pages that share a
//! place replace each other. Its contents are hints: the buffer's tag is compared before it is
//! pinned. Neighbouring blocks lie side by side.
//!
//! Pages that were loaded or read one after the other mostly lie in buffers that follow each other
//! as well. So a page that the session has not met yet is looked for beside the buffer of the
//! nearest one that it has met, as long as that proves right more often than not.
//!
//! `ReadRecentBuffer` does not raise the page's usage count. So a page whose usage count has become
//! low is read by its block number instead, which raises it.

use std::alloc::Layout;
use std::cell::{Cell, RefCell};
use std::ops::Range;

use pgrx::pg_sys;

use super::page::{BYTES_START, KEYS_START};
use super::piece::PIECE_BYTES;

/// The most places, of four bytes each. Those that are not in use cost no memory.
const MOST_PLACES: usize = 1 << 18;
/// Places for each shared buffer: files may be larger than shared buffers, and pages that share a
/// place are forgotten by turns.
const SPARSENESS: usize = 8;
/// A page whose usage count is lower is about to be evicted.
const SAFE_USAGE: u32 = 2;

/// How far away a neighbour may be by which a buffer is guessed.
const NEIGHBOURS: usize = 8;
/// So many more wrong guesses than right ones end guessing for a while: for so many pages.
const MOST_SURENESS: i32 = 16;
const REST: i32 = 1_000;

thread_local! {
    static PLACES: RefCell<Vec<pg_sys::Buffer>> = const { RefCell::new(Vec::new()) };
    /// Right guesses less wrong ones; below zero, the pages for which none is made.
    static SURENESS: Cell<i32> = const { Cell::new(MOST_SURENESS) };
}

/// # Safety
/// `rel` is open.
unsafe fn place(rel: pg_sys::Relation, block: pg_sys::BlockNumber, places: usize) -> usize {
    // SAFETY: as for this function.
    let file = unsafe { (*rel).rd_locator.relNumber.to_u32() };
    place_in(file, block, places)
}

/// The place of a file's block among so many, which are a power of two.
fn place_in(file: u32, block: pg_sys::BlockNumber, places: usize) -> usize {
    // Spreads files over the table: 2^32 divided by the golden ratio.
    let at = file.wrapping_mul(0x9E37_79B9).wrapping_add(block);
    at as usize & (places - 1)
}

/// The shared buffer in which a page may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hint {
    pub buffer: pg_sys::Buffer,
    /// Whether the page was not met there, but is expected there beside its neighbour.
    is_guess: bool,
}

/// What is known of the pages of a file.
#[derive(Clone, Copy)]
pub(super) struct Known<'p> {
    places: &'p [pg_sys::Buffer],
    file: u32,
}

impl Known<'_> {
    /// The shared buffer in which the page may be.
    #[inline]
    pub(super) fn buffer_of(self, block: pg_sys::BlockNumber) -> Option<Hint> {
        let at = place_in(self.file, block, self.places.len());
        match self.places.get(at) {
            Some(&buffer) if buffer > 0 => Some(Hint {
                buffer,
                is_guess: false,
            }),
            // A page that was copied from its file had no buffer.
            Some(&copied) if copied < 0 => None,
            _ => guess(self.places, at),
        }
    }
}

/// Calls `look` with what is known of a file's pages, if there is anything. `look` notes nothing.
///
/// # Safety
/// `rel` is open.
#[inline]
pub(super) unsafe fn with_known<R>(
    rel: pg_sys::Relation,
    look: impl FnOnce(Known<'_>) -> R,
) -> Option<R> {
    // SAFETY: as for this function.
    let (is_shared, file) = unsafe {
        let is_shared = (*rel).rd_backend == pg_sys::INVALID_PROC_NUMBER;
        (is_shared, (*rel).rd_locator.relNumber.to_u32())
    };
    PLACES.with_borrow(|places| {
        // The file of a temporary table may have the number of a file that is in shared buffers.
        let is_known = is_shared && !places.is_empty();
        is_known.then(|| look(Known { places, file }))
    })
}

/// The shared buffer in which the page may be.
///
/// # Safety
/// `rel` is open.
pub(super) unsafe fn buffer_of(rel: pg_sys::Relation, block: pg_sys::BlockNumber) -> Option<Hint> {
    // SAFETY: as for this function.
    unsafe { with_known(rel, |known| known.buffer_of(block)) }.flatten()
}

/// The buffer of the nearest neighbour that is known, and as many further.
#[inline(never)]
fn guess(places: &[pg_sys::Buffer], at: usize) -> Option<Hint> {
    let sureness = SURENESS.get();
    if sureness < 0 {
        SURENESS.set(sureness + 1);
        return None;
    }
    let buffer = beside_neighbour(places, at)?;
    // SAFETY: a plain read of a value that is set when the server starts.
    let is_shared = (1..=unsafe { pg_sys::NBuffers }).contains(&buffer);
    is_shared.then_some(Hint {
        buffer,
        is_guess: true,
    })
}

/// As far from the buffer of the nearest place that is known as that place is away; there may be no
/// such buffer. The places are a power of two.
fn beside_neighbour(places: &[pg_sys::Buffer], at: usize) -> Option<pg_sys::Buffer> {
    let known = |at: usize| {
        let found = places.get(at & (places.len() - 1)).copied();
        found.filter(|&found| found > 0)
    };
    (1..=NEIGHBOURS).find_map(|apart| {
        let below = known(at.wrapping_sub(apart)).map(|found| found + apart as i32);
        below.or_else(|| known(at.wrapping_add(apart)).map(|found| found - apart as i32))
    })
}

impl Hint {
    #[cfg(test)]
    pub(super) fn of_test() -> Hint {
        Hint {
            buffer: 1,
            is_guess: false,
        }
    }

    /// Whether the page was not met there, but is expected there beside its neighbour.
    pub(super) fn is_guess(self) -> bool {
        self.is_guess
    }

    /// Notes whether the page was there.
    ///
    /// # Safety
    /// `rel` is open.
    pub(super) unsafe fn was_right(
        self,
        is_right: bool,
        rel: pg_sys::Relation,
        block: pg_sys::BlockNumber,
    ) {
        if !self.is_guess {
            return;
        }
        let sureness = SURENESS.get();
        SURENESS.set(match is_right {
            true => (sureness + 1).min(MOST_SURENESS),
            false if sureness > 0 => sureness - 1,
            false => -REST,
        });
        if is_right {
            // SAFETY: as for this function.
            unsafe { note(rel, block, self.buffer) };
        }
    }
}

thread_local! {
    /// Pages that were copied from files so far.
    static COPIES: Cell<u32> = const { Cell::new(0) };
}

/// Of a page that was copied more often in a row, no more is counted.
pub(super) const MOST_TIMES_COPIED: u32 = Copied::MOST_TIMES;

/// How often a page was copied from its file in a row, and when last: below zero in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Copied {
    /// The count of the session's copies then.
    at: u32,
    times: u32,
}

impl Copied {
    const TIMES_BITS: u32 = 3;
    const MOST_TIMES: u32 = (1 << Copied::TIMES_BITS) - 1;
    /// The count goes around after so many.
    const AROUND: u32 = 1 << (i32::BITS - 1 - Copied::TIMES_BITS);

    fn read(place: i32) -> Option<Copied> {
        let bits = u32::try_from(-1 - place).ok().filter(|_| place < 0)?;
        Some(Copied {
            at: bits >> Copied::TIMES_BITS,
            times: bits & Copied::MOST_TIMES,
        })
    }

    fn place(self) -> i32 {
        -1 - ((self.at % Copied::AROUND) << Copied::TIMES_BITS | self.times.min(Copied::MOST_TIMES))
            as i32
    }

    /// Copies of the session since then.
    fn age(self, now: u32) -> u32 {
        (now % Copied::AROUND + Copied::AROUND - self.at) % Copied::AROUND
    }
}

/// Notes that the page was copied from its file.
///
/// # Safety
/// `rel` is open.
pub(super) unsafe fn note_copied(rel: pg_sys::Relation, block: pg_sys::BlockNumber, lately: u32) {
    // SAFETY: as for this function.
    unsafe {
        let times = 1 + times_copied(rel, block, lately);
        let at = COPIES.get().wrapping_add(1);
        COPIES.set(at);
        set(rel, block, Copied { at, times }.place());
    }
}

/// How often the page was copied from its file, each time at most so many copies after the time
/// before.
///
/// # Safety
/// `rel` is open.
pub(super) unsafe fn times_copied(
    rel: pg_sys::Relation,
    block: pg_sys::BlockNumber,
    lately: u32,
) -> u32 {
    PLACES.with_borrow(|places| {
        if places.is_empty() {
            return 0;
        }
        // SAFETY: as for this function.
        let at = unsafe { place(rel, block, places.len()) };
        let copied = places.get(at).and_then(|&place| Copied::read(place));
        let copied = copied.filter(|copied| copied.age(COPIES.get()) <= lately);
        copied.map_or(0, |copied| copied.times)
    })
}

/// Remembers the buffer of a page. Local buffers are ignored.
///
/// # Safety
/// `rel` is open.
pub(super) unsafe fn note(
    rel: pg_sys::Relation,
    block: pg_sys::BlockNumber,
    buffer: pg_sys::Buffer,
) {
    // SAFETY: as for this function.
    unsafe { set(rel, block, buffer.max(0)) }
}

/// So many places where nothing is remembered; none if memory is refused, which is no reason to end
/// a statement, less still the server: pages are found without them.
fn empty_places(count: usize) -> Vec<pg_sys::Buffer> {
    let Ok(layout) = Layout::array::<pg_sys::Buffer>(count) else {
        return Vec::new();
    };
    // SAFETY: the memory is of the allocator and the layout that the vector frees it with, and
    // zeros are places of which nothing is known. Pages of it that are never used take none.
    unsafe {
        let start = std::alloc::alloc_zeroed(layout);
        match start.is_null() {
            true => Vec::new(),
            false => Vec::from_raw_parts(start.cast(), count, count),
        }
    }
}

/// What is remembered of a page: its buffer, or below zero when it was copied.
///
/// # Safety
/// `rel` is open.
unsafe fn set(rel: pg_sys::Relation, block: pg_sys::BlockNumber, what: i32) {
    PLACES.with_borrow_mut(|places| {
        // SAFETY: as for this function; the size of the pool is set when the server starts.
        unsafe {
            if places.is_empty() {
                let count = (pg_sys::NBuffers.max(1) as usize * SPARSENESS).next_power_of_two();
                *places = empty_places(count.min(MOST_PLACES));
            }
            if places.is_empty() {
                return;
            }
            let at = place(rel, block, places.len());
            if let Some(place) = places.get_mut(at) {
                *place = what;
            }
        }
    });
}

/// The descriptor of a shared buffer.
fn descriptor(buffer: pg_sys::Buffer) -> Option<*const pg_sys::BufferDesc> {
    // SAFETY: plain reads of values that are set when the server starts; the descriptor lies in the
    // pool's array.
    unsafe {
        let is_shared = (1..=pg_sys::NBuffers).contains(&buffer);
        is_shared.then(|| {
            pg_sys::BufferDescriptors
                .add(buffer as usize - 1)
                .cast_const()
                .cast()
        })
    }
}

/// Whether the buffer's usage count is high enough to keep it from eviction.
pub(super) fn is_well_used(buffer: pg_sys::Buffer) -> bool {
    // SAFETY: the descriptor lives as long as the server; its state is one atomic word, which other
    // backends may change meanwhile.
    descriptor(buffer).is_some_and(|descriptor| unsafe {
        let state = (&raw const (*descriptor).state.value).read_volatile();
        (state & pg_sys::BUF_USAGECOUNT_MASK) >> pg_sys::BUF_USAGECOUNT_SHIFT >= SAFE_USAGE
    })
}

/// A cache line.
const LINE_BYTES: usize = 64;
/// For longer ranges the processor prefetches the rest by itself.
const MOST_LINES: usize = 4;

/// Prefetches into the processor's cache the memory that pinning the page, and reading these bytes
/// of a piece that fills it, would wait for, if the page is in this buffer. It reads and pins
/// nothing.
#[inline]
pub(super) fn touch(buffer: pg_sys::Buffer, bytes: Range<usize>) {
    let Some(descriptor) = descriptor(buffer) else {
        return;
    };
    fetch_line(descriptor.cast());
    // SAFETY: the address of the pool is set when the server starts.
    let page = unsafe { pg_sys::BufferBlocks.cast::<u8>().cast_const() };
    let page = page.wrapping_add((buffer as usize - 1) * pg_sys::BLCKSZ as usize);
    fetch_line(page);
    fetch_line(page.wrapping_add(KEYS_START));
    let bytes_start = page.wrapping_add(BYTES_START);
    let (first, last) = (bytes.start, bytes.end.clamp(1, PIECE_BYTES) - 1);
    // Most ranges lie in one line, or in two.
    fetch_line(bytes_start.wrapping_add(first));
    fetch_line(bytes_start.wrapping_add(last));
    let mut at = first + LINE_BYTES;
    while at < last && at < first + MOST_LINES * LINE_BYTES {
        fetch_line(bytes_start.wrapping_add(at));
        at += LINE_BYTES;
    }
}

/// Prefetches into the processor's cache the first lines of ranges of a page, wherever it lies.
pub(super) fn fetch_lines(page: *const u8, ranges: &[Range<usize>]) {
    for range in ranges {
        for at in range.clone().step_by(LINE_BYTES).take(MOST_LINES) {
            fetch_line(page.wrapping_add(at));
        }
    }
}

/// Prefetches bytes into the processor's cache.
pub(super) fn fetch(bytes: &[u8]) {
    for line in bytes.chunks(LINE_BYTES) {
        fetch_line(line.as_ptr());
    }
}

#[inline(always)]
fn fetch_line(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint about an address, which raises nothing whatever lies there.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_guessed_from_the_nearest_neighbour_s() {
        let mut places = [0; 32];
        assert_eq!(beside_neighbour(&places, 5), None);
        (places[2], places[7]) = (100, 900);
        assert_eq!(beside_neighbour(&places, 4), Some(102));
        assert_eq!(beside_neighbour(&places, 6), Some(899));
        assert_eq!(beside_neighbour(&places, 15), Some(908));
        assert_eq!(beside_neighbour(&places, 16), None);
        // Around the end.
        assert_eq!(beside_neighbour(&places, 30), Some(96));
    }

    #[test]
    fn copies_are_counted_beside_buffers_and_grow_old() {
        for at in [0, 1, 70_000, Copied::AROUND - 1] {
            for times in 0..=Copied::MOST_TIMES {
                let copied = Copied { at, times };
                assert!(copied.place() < 0);
                assert_eq!(Copied::read(copied.place()), Some(copied));
                assert_eq!(copied.age(at), 0);
                assert_eq!(copied.age(at.wrapping_add(5)), 5);
            }
        }
        let often = Copied {
            at: Copied::AROUND + 3,
            times: 100,
        };
        let most = Copied {
            at: 3,
            times: Copied::MOST_TIMES,
        };
        assert_eq!(Copied::read(often.place()), Some(most));
        for buffer in [0, 1, i32::MAX] {
            assert_eq!(Copied::read(buffer), None);
        }
    }

    #[test]
    fn neighbouring_blocks_lie_side_by_side_and_files_apart() {
        for file in [1, 16_384, u32::MAX] {
            for block in [0, 77, u32::MAX - 1] {
                let (one, next) = (
                    place_in(file, block, 1 << 10),
                    place_in(file, block + 1, 1 << 10),
                );
                assert!(one < 1 << 10);
                assert_eq!(next, (one + 1) % (1 << 10), "block {block} of file {file}");
            }
        }
        let mut starts: Vec<_> = (16_384..16_434)
            .map(|file| place_in(file, 0, MOST_PLACES))
            .collect();
        starts.sort_unstable();
        let nearest = starts.windows(2).map(|pair| pair[1] - pair[0]).min();
        assert!(
            nearest > Some(4_000),
            "{nearest:?} blocks between two files"
        );
    }
}
