//! Memory that is set aside, so that a refused allocation ends the statement and not the server.
//!
//! Rust aborts the process if memory is refused, and PostgreSQL then restarts with all its
//! sessions. The operating system refuses memory where a limit is set (`ulimit -v`), or where it
//! promises no more than it has (`vm.overcommit_memory = 2`); elsewhere it never does.
//!
//! ```text
//!   decoding or loading begins ──> set aside          (53200 if that is refused already)
//!   an allocation is refused   ──> the spare memory is given up, the allocation repeated
//!   next check for interrupts  ──> ERROR 53200        (check_for_interrupts!)
//!   the transaction ends       ──> given back
//! ```
//!
//! What is set aside is address space: no page of it is touched. What is allocated between two
//! checks, by the threads as well, must fit into it: a batch, the columns that a load adds to, or
//! what encoding them takes. A process that is refused more than that is aborted as before. Rows by
//! index allocate a few kilobytes, and set nothing aside (docs/decisions/0042-refused-memory.md).

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pgrx::{PgLogLevel, PgSqlErrorCode, ereport, pg_sys};

/// Enough for what reads allocate.
pub const LEAST_BYTES: usize = 32 << 20;

/// The address of a mapping plus the binary logarithm of its size; 0 if there is none. The address
/// is that of a page, so that its lowest bits are free.
static SPARE: AtomicUsize = AtomicUsize::new(0);
const PAGE_BYTES: usize = 4096;
thread_local! {
    /// Size of the mapping that the main thread has made last.
    static SET_ASIDE_BYTES: Cell<usize> = const { Cell::new(0) };
}
/// Whether it was needed, and the statement has not ended yet.
static WAS_NEEDED: AtomicBool = AtomicBool::new(false);

/// The C library's allocator, which falls back on the spare memory.
pub struct Allocator;

// SAFETY: all memory is the system allocator's, which is asked again after a refusal.
unsafe impl GlobalAlloc for Allocator {
    /// # Safety
    /// As the trait says.
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for this function.
        or_again(|| unsafe { System.alloc(layout) })
    }

    /// # Safety
    /// As the trait says.
    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as for this function.
        unsafe { System.dealloc(memory, layout) }
    }

    /// # Safety
    /// As the trait says.
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for this function.
        or_again(|| unsafe { System.alloc_zeroed(layout) })
    }

    /// # Safety
    /// As the trait says.
    #[inline]
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as for this function; a refusal leaves the memory as it was.
        or_again(|| unsafe { System.realloc(memory, layout, new_size) })
    }
}

#[inline]
fn or_again(allocate: impl Fn() -> *mut u8) -> *mut u8 {
    let memory = allocate();
    if !memory.is_null() {
        return memory;
    }
    give_up();
    // Where there was no spare memory, another thread may have given it up just now.
    allocate()
}

/// Unmaps the spare memory for an allocation.
#[cold]
fn give_up() {
    if unmap() {
        WAS_NEEDED.store(true, Ordering::Release);
    }
}

/// Whether there was spare memory.
fn unmap() -> bool {
    // SAFETY: what is there was mapped by `set_aside`, and is taken out once.
    unsafe { free(SPARE.swap(0, Ordering::AcqRel)) }
}

/// # Safety
/// A value of [`SPARE`] whose mapping is used by nothing else.
unsafe fn free(spare: usize) -> bool {
    let (address, log2) = (spare & !(PAGE_BYTES - 1), spare & (PAGE_BYTES - 1));
    // SAFETY: as for this function.
    spare != 0 && unsafe { libc::munmap(address as *mut libc::c_void, 1 << log2) } == 0
}

/// Sets memory aside until the transaction ends, at least so much. Called on the main thread.
///
/// Raises 53200 if it is refused.
pub fn set_aside(bytes: usize) {
    let bytes = bytes.max(LEAST_BYTES).next_power_of_two();
    let is_there = SPARE.load(Ordering::Acquire) != 0;
    if is_there && SET_ASIDE_BYTES.get() >= bytes {
        return;
    }
    // SAFETY: a mapping at an address that the kernel chooses.
    let spare = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if spare == libc::MAP_FAILED {
        refuse();
    }
    SET_ASIDE_BYTES.set(bytes);
    let spare = spare as usize | bytes.ilog2() as usize;
    // SAFETY: what was there before is taken out once.
    unsafe { free(SPARE.swap(spare, Ordering::AcqRel)) };
}

/// The transaction has ended.
pub fn give_back() {
    unmap();
    WAS_NEEDED.store(false, Ordering::Release);
}

/// Whether an allocation was refused, so that the statement ends at its next check for interrupts.
#[inline]
pub fn was_needed() -> bool {
    WAS_NEEDED.load(Ordering::Acquire)
}

/// Raises 53200 if an allocation was refused, where an ERROR may be raised.
#[inline]
pub fn raise_if_needed() {
    if was_needed() {
        raise();
    }
}

#[cold]
fn raise() {
    // SAFETY: plain reads of globals.
    let is_held_off = unsafe { pg_sys::InterruptHoldoffCount > 0 || pg_sys::CritSectionCount > 0 };
    if !is_held_off {
        WAS_NEEDED.store(false, Ordering::Release);
        refuse();
    }
}

fn refuse() -> ! {
    ereport!(
        PgLogLevel::ERROR,
        PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY,
        "out of memory",
        "The operating system refuses memory to this session."
    );
    unreachable!("an ERROR was raised")
}

/// Ends the statement if it is cancelled, its session is ended, or memory was refused.
#[macro_export]
macro_rules! check_for_interrupts {
    () => {{
        $crate::spare_memory::raise_if_needed();
        pgrx::check_for_interrupts!()
    }};
}
