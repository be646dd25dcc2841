//! A memory scope: what is allocated for one row is freed with the next one.

use std::cell::Cell;
use std::ptr;

use pgrx::pg_sys;

use crate::ffi::unguarded;

/// Memory for the values of one row, reset before each row.
///
/// Invariant: the parent context outlives this value. The value is made while its parent is the
/// current context, and lives in a frame, or in a state that is dropped with the parent.
pub struct RowMemory {
    parent: pg_sys::MemoryContext,
    /// A child of `parent`, which frees it; NULL before the first row.
    context: Cell<pg_sys::MemoryContext>,
}

impl RowMemory {
    /// A child of the current context, created for the first row.
    pub fn new() -> RowMemory {
        // SAFETY: plain read of a global; a backend always has a current context.
        RowMemory::under(unsafe { pg_sys::CurrentMemoryContext })
    }

    /// Memory that is never freed.
    pub fn lasting() -> RowMemory {
        // SAFETY: plain read of a global that is set when a backend starts.
        RowMemory::under(unsafe { pg_sys::TopMemoryContext })
    }

    fn under(parent: pg_sys::MemoryContext) -> RowMemory {
        RowMemory {
            parent,
            context: Cell::new(ptr::null_mut()),
        }
    }

    /// Frees the memory before its parent does.
    pub fn delete(self) {
        if !self.context.get().is_null() {
            // SAFETY: made by `create`, deleted once; nothing in it is in use any more.
            unsafe { pg_sys::MemoryContextDelete(self.context.get()) }
        }
    }

    /// Frees what the last row has left.
    pub fn clear(&self) {
        if !self.context.get().is_null() {
            // SAFETY: as in `with`; nothing in it is in use any more.
            unsafe { unguarded::MemoryContextReset(self.context.get()) }
        }
    }

    /// Resets the memory and runs `f` with it as the current context.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        if self.context.get().is_null() {
            self.create();
        }
        // SAFETY: the context lives as long as its parent, which outlives this value; an ERROR in
        // `f` leaves the context switch to PostgreSQL's error recovery.
        unsafe {
            unguarded::MemoryContextReset(self.context.get());
            let old = pg_sys::MemoryContextSwitchTo(self.context.get());
            let result = f();
            pg_sys::MemoryContextSwitchTo(old);
            result
        }
    }

    #[cold]
    fn create(&self) {
        // SAFETY: the parent is alive, by the invariant of the type.
        let context = unsafe {
            pg_sys::AllocSetContextCreateInternal(
                self.parent,
                c"howdah cold row".as_ptr(),
                pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            )
        };
        self.context.set(context);
    }
}

impl Default for RowMemory {
    fn default() -> RowMemory {
        RowMemory::new()
    }
}
