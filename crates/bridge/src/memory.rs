//! Small allocations in PostgreSQL's memory contexts, without a guard around each call.
//!
//! The allocator is called so that it raises no ERROR inside PostgreSQL; a failure is raised here.
//! A guard costs as much as the allocation, and a change of one cold row makes a dozen.

use std::ffi::c_void;

use pgrx::{PgLogLevel, PgSqlErrorCode, ereport, pg_sys};

use crate::ffi::quiet;

/// `MaxAllocSize` of `utils/memutils.h`
const MAX_BYTES: usize = 0x3fff_ffff;

/// `palloc`: in the current memory context, not initialized. Raises 53200 if memory is exhausted.
pub fn allocate(bytes: usize) -> *mut u8 {
    // SAFETY: plain read of a global; a backend always has a current context.
    unsafe { allocate_in(pg_sys::CurrentMemoryContext, bytes) }
}

/// `palloc0`: zeros.
pub fn allocate_zeroed(bytes: usize) -> *mut u8 {
    let memory = allocate(bytes);
    // SAFETY: fresh memory of this size.
    unsafe { memory.write_bytes(0, bytes) };
    memory
}

/// `MemoryContextAlloc`
///
/// # Safety
/// The context is alive.
pub unsafe fn allocate_in(context: pg_sys::MemoryContext, bytes: usize) -> *mut u8 {
    let flags = pg_sys::MCXT_ALLOC_NO_OOM as i32;
    let memory = if bytes > MAX_BYTES {
        std::ptr::null_mut()
    } else {
        // SAFETY: as for this function; a size that is valid and a flag that forbids errors.
        unsafe { quiet::MemoryContextAllocExtended(context, bytes, flags) }
    };
    if memory.is_null() {
        ereport!(
            PgLogLevel::ERROR,
            PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY,
            format!("out of memory: {bytes} bytes")
        );
    }
    memory.cast()
}

/// `maintenance_work_mem`
pub fn maintenance_memory_kb() -> i32 {
    // SAFETY: plain read of a setting.
    unsafe { pg_sys::maintenance_work_mem }
}

/// A copy of the bytes behind a four-byte header, as values of variable length are stored.
pub fn varlena_of(bytes: &[u8]) -> *mut u8 {
    let copy = allocate(bytes.len() + 4);
    // SAFETY: fresh memory of the right size; the header counts itself, shifted by two.
    unsafe {
        copy.cast::<u32>()
            .write_unaligned(((bytes.len() + 4) as u32) << 2);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy.add(4), bytes.len());
    }
    copy
}

/// The datum of a value of these bytes in the current memory context, of a type of this length as
/// `pg_type.typlen` tells it.
pub fn datum_of_bytes(bytes: &[u8], type_len: i16) -> pg_sys::Datum {
    if type_len == -1 {
        return pg_sys::Datum::from(varlena_of(bytes));
    }
    // A cstring ends with a zero byte.
    let terminator = usize::from(type_len == -2);
    let copy = allocate_zeroed(bytes.len() + terminator);
    // SAFETY: fresh memory of the right size.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), copy, bytes.len()) };
    pg_sys::Datum::from(copy)
}

/// `pfree`
///
/// # Safety
/// It was allocated by PostgreSQL and is freed once.
pub unsafe fn free(memory: *mut c_void) {
    // SAFETY: as for this function.
    unsafe { quiet::pfree(memory) }
}
