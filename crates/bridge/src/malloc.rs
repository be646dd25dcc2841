//! Settings of the C library's allocator, which provides the memory for decoded rows.
//!
//! Decoding and encoding allocate and free a few megabytes for every row group. By default glibc
//! returns them to the kernel each time and faults them in again, which cost a scan of wide rows a
//! sixth of its time. A process that decodes or encodes keeps this memory instead.
//!
//! All threads of a process use one arena. With an arena for each, every one keeps that much, and
//! `malloc_trim` returns only the end of the main one: sessions whose plans were stopped kept 10 to
//! 15 MB for each thread that they had ever had. Threads allocate few and large pieces; they took no
//! more processor time, and waited for each other no more often, than with arenas of their own.

use std::sync::Once;

#[cfg(target_env = "gnu")]
mod glibc {
    use std::ffi::c_int;

    pub const M_TRIM_THRESHOLD: c_int = -1;
    pub const M_MMAP_THRESHOLD: c_int = -3;
    pub const M_ARENA_MAX: c_int = -8;

    unsafe extern "C" {
        pub fn mallopt(parameter: c_int, value: c_int) -> c_int;
    }
}

/// Freed memory at the heap's end that the process keeps.
pub const KEPT_BYTES: i32 = 32 << 20;
/// Larger pieces are mapped separately, and returned to the kernel at once.
pub const LARGEST_KEPT_BYTES: i32 = 8 << 20;

/// Returns the memory that is free now to the kernel, that of ended threads too.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the allocator takes its own locks; only free memory is returned.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// From now on this process keeps a bounded amount of freed memory for the next row group. To be
/// called before the first thread is started: later, threads have arenas of their own.
pub fn keep_freed_memory() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        #[cfg(target_env = "gnu")]
        // SAFETY: sets parameters of the allocator, under its own lock.
        unsafe {
            glibc::mallopt(glibc::M_TRIM_THRESHOLD, KEPT_BYTES);
            glibc::mallopt(glibc::M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES);
            glibc::mallopt(glibc::M_ARENA_MAX, 1);
        }
    });
}
