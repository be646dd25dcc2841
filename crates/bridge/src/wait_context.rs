//! The context line of an ERROR that ends the wait for a cold row: which row it was, as heap tells.
//!
//! The server collects context lines when it reports an ERROR. One that is raised below our code is
//! reported again where it leaves our callback, and by then the server's own line for the wait is
//! gone. So the line is added there: by [`told`], around the guarded callback. What is reported
//! while the server waits has the server's own line.

use std::cell::{Cell, RefCell};
use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use pgrx::pg_sys;

use crate::ffi::unguarded;
use crate::row_request::Purpose;
use crate::table::Table;
use crate::tid::RowNumber;

thread_local! {
    static IS_WAITING: Cell<bool> = const { Cell::new(false) };
    /// What the last wait was for.
    static LINE: RefCell<CString> = RefCell::default();
}

/// Waits, for a row.
pub(crate) fn while_waiting(
    table: Table<'_>,
    row: RowNumber,
    purpose: Purpose,
    wait: impl FnOnce(),
) {
    let (tid, name) = (row.tid(), table.name());
    let doing = match purpose {
        Purpose::Delete => "deleting",
        Purpose::Update => "updating",
        Purpose::Lock => "locking",
    };
    let (block, offset) = (tid.block(), tid.offset());
    let line = format!("while {doing} tuple ({block},{offset}) in relation \"{name}\"");
    LINE.set(CString::new(line).unwrap_or_default());
    IS_WAITING.set(true);
    wait();
    IS_WAITING.set(false);
}

/// Calls a guarded callback; an ERROR that ends a wait gets the line.
///
/// # Safety
/// The callback owns nothing that an ERROR would have to drop. Nor does this frame: whatever
/// catches the ERROR restores the server's stack of context callbacks.
pub(crate) unsafe fn told<R>(callback: impl FnOnce() -> R) -> R {
    IS_WAITING.set(false);
    // SAFETY: the frame that is added to the stack lives until it is taken off, or is jumped over.
    unsafe {
        let mut frame = pg_sys::ErrorContextCallback {
            previous: pg_sys::error_context_stack,
            callback: Some(tell),
            arg: null_mut(),
        };
        // By which it knows whether it is the innermost.
        frame.arg = (&raw mut frame).cast();
        pg_sys::error_context_stack = &raw mut frame;
        let result = callback();
        pg_sys::error_context_stack = frame.previous;
        result
    }
}

/// Adds the line to the report that is being made.
///
/// # Safety
/// Called by the server, with the frame that is on its stack.
unsafe extern "C-unwind" fn tell(frame: *mut c_void) {
    // SAFETY: called while an error is reported; the line is copied.
    unsafe {
        if IS_WAITING.get() && pg_sys::error_context_stack.cast() == frame {
            LINE.with_borrow(|line| unguarded::errcontext_msg(c"%s".as_ptr(), line.as_ptr()));
        }
    }
}
