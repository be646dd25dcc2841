//! Copies out of mapped files, which may end before or be unreadable.
//!
//! A read of a mapped page that the file does not have, or that the disk cannot give, is no error
//! code but the signal SIGBUS, which would end the server. So while bytes are copied here a handler
//! of ours puts a page of zeros where the fault was and notes it: the copy ends, and is not used.
//! The mapping is of no use then, and is to be given up. A fault at any other time or place is none
//! of ours, and goes where it went before.
//!
//! One thread of a process may copy at a time, the main one.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

use super::page::PAGE_BYTES;

/// No system has smaller pages.
pub(super) const SMALLEST_PAGE: usize = 4_096;

/// The address of the page that is being copied; 0 if none is.
static GUARDED: AtomicUsize = AtomicUsize::new(0);
/// Whether there was a fault in it.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Copies ranges of a mapped page to the same places of `page`. `false` if there was a fault.
///
/// # Safety
/// A page of a mapping that is read only, of at least that size, lies there.
pub(super) unsafe fn copy_guarded(
    from: NonNull<u8>,
    ranges: &[Range<usize>],
    page: &mut [u8; PAGE_BYTES],
) -> bool {
    HAS_FAILED.store(false, Ordering::Relaxed);
    GUARDED.store(from.as_ptr() as usize, Ordering::Relaxed);
    // The handler runs in this thread.
    compiler_fence(Ordering::SeqCst);
    for range in ranges {
        let into = &mut page[range.clone()];
        // SAFETY: as for this function; `into` is as long as the range.
        unsafe {
            let from = from.as_ptr().cast_const().add(range.start);
            std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), range.len());
        }
    }
    compiler_fence(Ordering::SeqCst);
    GUARDED.store(0, Ordering::Relaxed);
    !HAS_FAILED.load(Ordering::Relaxed)
}

/// What was done with SIGBUS before our handler was installed; `None` if it cannot be.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();
/// The size of the operating system's pages, once our handler is installed.
static SYSTEM_PAGE_BYTES: AtomicUsize = AtomicUsize::new(SMALLEST_PAGE);

pub(super) fn system_page_bytes() -> usize {
    SYSTEM_PAGE_BYTES.load(Ordering::Relaxed)
}

/// Sees to it that faults of guarded copies are handled. Whether they are.
pub(super) fn handle_faults() -> bool {
    let install = || {
        // SAFETY: zeros are a valid value of this structure, which the kernel fills.
        unsafe {
            let page_bytes = usize::try_from(libc::sysconf(libc::_SC_PAGESIZE)).ok()?;
            SYSTEM_PAGE_BYTES.store(page_bytes, Ordering::Relaxed);
            let mut before = std::mem::zeroed::<libc::sigaction>();
            let mut ours = std::mem::zeroed::<libc::sigaction>();
            let handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                on_bus_error;
            ours.sa_sigaction = handler as *const () as usize;
            ours.sa_flags = libc::SA_SIGINFO;
            libc::sigemptyset(&raw mut ours.sa_mask);
            let code = libc::sigaction(libc::SIGBUS, &raw const ours, &raw mut before);
            (code == 0).then_some(before)
        }
    };
    BEFORE.get_or_init(install).is_some()
}

/// Puts zeros where a guarded copy met a fault. Calls nothing that is not safe in a signal handler.
///
/// # Safety
/// The kernel calls it, with what it tells of a SIGBUS.
unsafe extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    let guarded = GUARDED.load(Ordering::Relaxed);
    // SAFETY: as for this function.
    let (address, is_fault) = unsafe { ((*info).si_addr() as usize, (*info).si_code > 0) };
    let is_guarded = guarded != 0 && (guarded..guarded + PAGE_BYTES).contains(&address);
    if is_fault && is_guarded && put_zeros(address) {
        HAS_FAILED.store(true, Ordering::Relaxed);
        return;
    }
    // None of ours: as if this handler had never been. A fault comes again at once.
    if let Some(Some(before)) = BEFORE.get() {
        // SAFETY: what the kernel gave when our handler was installed.
        unsafe { libc::sigaction(signal, before, std::ptr::null_mut()) };
    }
    if !is_fault {
        // SAFETY: a signal that another process has sent is sent again.
        unsafe { libc::raise(signal) };
    }
}

/// Replaces the system's page at this address of a mapping by zeros, and leaves errno as it was.
fn put_zeros(address: usize) -> bool {
    let page_bytes = system_page_bytes();
    let start = address / page_bytes * page_bytes;
    // SAFETY: a part of the mapping that is being copied from, which nothing else reads.
    unsafe {
        let errno = libc::__errno_location();
        let errno_before = *errno;
        let (read, kind) = (
            libc::PROT_READ,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
        );
        let zeros = libc::mmap(start as *mut c_void, page_bytes, read, kind, -1, 0);
        *errno = errno_before;
        zeros != libc::MAP_FAILED
    }
}
