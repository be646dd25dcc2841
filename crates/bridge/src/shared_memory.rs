//! Memory that all processes of the server share.
//!
//! An area is named by a static, asked for while the library is loaded and zeroed before anybody sees it; after
//! a crash it is zeroed anew.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use pgrx::{pg_guard, pg_sys};

/// Types of which zeroed bytes are a value, and which processes may share: made of atomics.
///
/// # Safety
/// As said.
pub unsafe trait Shareable: Sync {}

/// One area.
pub struct Area<T> {
    name: &'static CStr,
    memory: AtomicPtr<T>,
}

impl<T: Shareable> Area<T> {
    pub const fn new(name: &'static CStr) -> Area<T> {
        Area {
            name,
            memory: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// `None` before the server has made it.
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: set once, to memory that lives as long as the server's processes.
        unsafe { self.memory.load(Ordering::Acquire).as_ref() }
    }
}

/// An area of whatever type.
pub trait AnyArea: Sync {
    fn bytes(&self) -> usize;

    /// # Safety
    /// Called by the postmaster while nobody else is there.
    unsafe fn make(&self);
}

impl<T: Shareable> AnyArea for Area<T> {
    fn bytes(&self) -> usize {
        size_of::<T>()
    }

    unsafe fn make(&self) {
        // SAFETY: as for this function; zeroed bytes are a `T`.
        unsafe {
            let mut found = false;
            let memory = pg_sys::ShmemInitStruct(self.name.as_ptr(), self.bytes(), &mut found);
            if !found {
                std::ptr::write_bytes(memory.cast::<T>(), 0, 1);
            }
            self.memory.store(memory.cast(), Ordering::Release);
        }
    }
}

static AREAS: OnceLock<&'static [&'static dyn AnyArea]> = OnceLock::new();
static mut PREVIOUS_REQUEST: pg_sys::shmem_request_hook_type = None;
static mut PREVIOUS_STARTUP: pg_sys::shmem_startup_hook_type = None;

/// Asks for the areas. Call once, from `_PG_init`.
pub fn register(areas: &'static [&'static dyn AnyArea]) {
    if AREAS.set(areas).is_err() {
        return;
    }
    // SAFETY: the postmaster loads libraries before it makes shared memory; hooks are chained.
    unsafe {
        PREVIOUS_REQUEST = pg_sys::shmem_request_hook;
        pg_sys::shmem_request_hook = Some(request);
        PREVIOUS_STARTUP = pg_sys::shmem_startup_hook;
        pg_sys::shmem_startup_hook = Some(startup);
    }
}

fn areas() -> &'static [&'static dyn AnyArea] {
    AREAS.get().copied().unwrap_or_default()
}

#[pg_guard]
unsafe extern "C-unwind" fn request() {
    // SAFETY: called by the postmaster, once.
    unsafe {
        if let Some(previous) = PREVIOUS_REQUEST {
            previous();
        }
        for area in areas() {
            pg_sys::RequestAddinShmemSpace(area.bytes());
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn startup() {
    // SAFETY: called by the postmaster while nobody else is there.
    unsafe {
        if let Some(previous) = PREVIOUS_STARTUP {
            previous();
        }
        for area in areas() {
            area.make();
        }
    }
}
