//! Memory that all processes of the server share.
//!
//! An area is named by a static, requested while the library is loaded, and zeroed before any
//! process sees it; after a crash it is zeroed anew.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use pgrx::{pg_guard, pg_sys};

/// Types for which zeroed bytes are a valid value, and which processes may share: made of atomics.
///
/// # Safety
/// The type is as described above.
pub unsafe trait Shareable: Sync {}

/// Zeroed memory, as an area is at first, that belongs to this process alone: for tests.
pub fn zeroed<T: Shareable>() -> Box<T> {
    let memory = Box::<T>::new_zeroed();
    // SAFETY: zeroed bytes are a valid value.
    unsafe { memory.assume_init() }
}

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

    /// `None` before the server has allocated it.
    pub fn get(&self) -> Option<&'static T> {
        // SAFETY: set once, to memory that lives as long as the server's processes.
        unsafe { self.memory.load(Ordering::Acquire).as_ref() }
    }
}

/// An area with one place for each of many.
struct Places<T> {
    name: &'static CStr,
    /// How many; the same from before shared memory is requested.
    count: fn() -> usize,
    memory: AtomicPtr<T>,
}

impl<T: Shareable> Places<T> {
    const fn new(name: &'static CStr, count: fn() -> usize) -> Places<T> {
        Places {
            name,
            count,
            memory: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    #[inline]
    fn get(&self, at: usize) -> Option<&'static T> {
        let memory = self.memory.load(Ordering::Acquire);
        // SAFETY: set once, to an array of that many places, which lives as long as the server's
        // processes.
        (!memory.is_null() && at < (self.count)()).then(|| unsafe { &*memory.add(at) })
    }
}

/// An area with one place per backend of the server.
pub struct PerBackend<T>(Places<T>);

impl<T: Shareable + 'static> PerBackend<T> {
    pub const fn new(name: &'static CStr) -> PerBackend<T> {
        PerBackend(Places::new(name, most_backends))
    }

    /// The place of a backend; `None` before the server has allocated the area, and for processes
    /// that are not backends.
    pub fn get(&self, backend: pg_sys::ProcNumber) -> Option<&'static T> {
        self.0.get(usize::try_from(backend).ok()?)
    }

    /// The places of all backends, running or not.
    pub fn all(&self) -> impl Iterator<Item = &'static T> {
        (0..most_backends()).map_while(|at| self.0.get(at))
    }
}

/// An area with one place per shared buffer.
pub struct PerBuffer<T>(Places<T>);

impl<T: Shareable> PerBuffer<T> {
    pub const fn new(name: &'static CStr) -> PerBuffer<T> {
        PerBuffer(Places::new(name, buffers))
    }

    /// The place of a buffer; `None` before the server has allocated the area, and for local
    /// buffers.
    #[inline]
    pub fn get(&self, buffer: pg_sys::Buffer) -> Option<&'static T> {
        self.0.get(usize::try_from(buffer).ok()?.checked_sub(1)?)
    }
}

/// Known before shared memory is requested, and never changed.
fn buffers() -> usize {
    // SAFETY: plain read of a global.
    usize::try_from(unsafe { pg_sys::NBuffers }).unwrap_or(0)
}

/// Known before shared memory is requested, and never changed.
fn most_backends() -> usize {
    // SAFETY: plain read of a global.
    usize::try_from(unsafe { pg_sys::MaxBackends }).unwrap_or(0)
}

/// An area of any type.
pub trait AnyArea: Sync {
    fn bytes(&self) -> usize;

    /// # Safety
    /// Called by the postmaster while no other process exists.
    unsafe fn make(&self);
}

impl<T: Shareable> AnyArea for Area<T> {
    fn bytes(&self) -> usize {
        size_of::<T>()
    }

    /// # Safety
    /// As for [`AnyArea::make`].
    unsafe fn make(&self) {
        // SAFETY: as for this function.
        unsafe { make(self.name, self.bytes(), &self.memory) }
    }
}

impl<T: Shareable> AnyArea for Places<T> {
    fn bytes(&self) -> usize {
        size_of::<T>() * (self.count)()
    }

    /// # Safety
    /// As for [`AnyArea::make`].
    unsafe fn make(&self) {
        // SAFETY: as for this function.
        unsafe { make(self.name, self.bytes(), &self.memory) }
    }
}

impl<T: Shareable> AnyArea for PerBackend<T> {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// # Safety
    /// As for [`AnyArea::make`].
    unsafe fn make(&self) {
        // SAFETY: as for this function.
        unsafe { self.0.make() }
    }
}

impl<T: Shareable> AnyArea for PerBuffer<T> {
    fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// # Safety
    /// As for [`AnyArea::make`].
    unsafe fn make(&self) {
        // SAFETY: as for this function.
        unsafe { self.0.make() }
    }
}

/// # Safety
/// As for [`AnyArea::make`]; zeroed bytes are values of `T`, and fill `bytes`.
unsafe fn make<T>(name: &CStr, bytes: usize, memory: &AtomicPtr<T>) {
    // SAFETY: as for this function.
    unsafe {
        let mut found = false;
        let made = pg_sys::ShmemInitStruct(name.as_ptr(), bytes, &mut found);
        if !found {
            std::ptr::write_bytes(made.cast::<u8>(), 0, bytes);
        }
        memory.store(made.cast(), Ordering::Release);
    }
}

static AREAS: OnceLock<&'static [&'static dyn AnyArea]> = OnceLock::new();
static mut PREVIOUS_REQUEST: pg_sys::shmem_request_hook_type = None;
static mut PREVIOUS_STARTUP: pg_sys::shmem_startup_hook_type = None;

/// Requests the areas. Must be called once, from `_PG_init`.
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
    // SAFETY: called by the postmaster while no other process exists.
    unsafe {
        if let Some(previous) = PREVIOUS_STARTUP {
            previous();
        }
        for area in areas() {
            area.make();
        }
    }
}

thread_local! {
    static BEFORE_EXIT: std::cell::Cell<Option<fn()>> = const { std::cell::Cell::new(None) };
}

#[pg_guard]
unsafe extern "C-unwind" fn run_before_exit(_code: std::ffi::c_int, _argument: pg_sys::Datum) {
    if let Some(callback) = BEFORE_EXIT.take() {
        callback();
    }
}

/// Registers a function to be called before this process leaves shared memory, in whatever way it
/// ends except a crash. Only the first one that is registered is called.
pub fn before_exit(callback: fn()) {
    if BEFORE_EXIT.get().is_none() {
        BEFORE_EXIT.set(Some(callback));
        // SAFETY: the callback is a function of this library, which stays loaded.
        unsafe { pg_sys::before_shmem_exit(Some(run_before_exit), pg_sys::Datum::from(0)) };
    }
}
