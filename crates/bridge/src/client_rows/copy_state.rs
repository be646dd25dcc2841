//! Where COPY writes to: what PostgreSQL keeps to itself in `commands/copyto.c`.
//!
//! The layout is that of PostgreSQL 18, and it is not relied on blindly: the state names the query
//! that it runs, at its own place, and only where that is our query it is used.

use std::ffi::{c_int, c_void};

use pgrx::{pg_guard, pg_sys};

use super::Message;
use super::buffer::Buffer;

/// The head of `CopyToStateData`.
#[repr(C)]
struct CopyState {
    routine: *const c_void,
    /// `CopyDest`
    dest: c_int,
    file: *mut c_void,
    line: *mut pg_sys::StringInfoData,
    file_encoding: c_int,
    need_transcoding: bool,
    encoding_embeds_ascii: bool,
    rel: pg_sys::Relation,
    query: *mut pg_sys::QueryDesc,
}

/// `COPY_FILE` and `COPY_FRONTEND` of `CopyDest`
const COPY_FILE: c_int = 0;
const COPY_FRONTEND: c_int = 1;

/// `DR_copy`
#[repr(C)]
pub(super) struct CopyReceiver {
    head: pg_sys::DestReceiver,
    state: *mut CopyState,
    /// Rows, for the command's tag.
    pub processed: u64,
}

unsafe extern "C" {
    /// `stdio.h`
    fn fwrite(bytes: *const c_void, size: usize, count: usize, file: *mut c_void) -> usize;
}

/// Where the rows of a query of COPY go; `None` if that is not known.
///
/// # Safety
/// A started query whose receiver is COPY's.
pub(super) unsafe fn target(query: *mut pg_sys::QueryDesc) -> Option<Message> {
    // SAFETY: as for this function; a state of COPY's is longer than its head.
    unsafe {
        let state = (*(*query).dest.cast::<CopyReceiver>()).state;
        if state.is_null()
            || (*state).query != query
            || !(*state).rel.is_null()
            || (*state).need_transcoding
            || (*state).encoding_embeds_ascii
        {
            return None;
        }
        match (*state).dest {
            COPY_FRONTEND => Some(Message::CopyData),
            COPY_FILE if !(*state).file.is_null() => Some(Message::CopyFile),
            _ => None,
        }
    }
}

/// Writes lines to the file of COPY, and empties the buffer.
///
/// # Safety
/// A receiver of COPY's whose rows go to a file; the buffer is valid.
pub(super) unsafe fn write_file(receiver: *mut pg_sys::DestReceiver, out: Buffer) {
    // SAFETY: as for this function. COPY has the file open until its query has ended.
    unsafe {
        let state = (*receiver.cast::<CopyReceiver>()).state;
        let data = (*out.0).data.cast_const().cast();
        if fwrite(data, out.len(), 1, (*state).file) != 1 {
            cannot_write();
        }
        out.clear();
    }
}

#[pg_guard]
extern "C-unwind" fn cannot_write() {
    let error = std::io::Error::last_os_error();
    let code = match error.raw_os_error() {
        Some(ENOSPC) => pgrx::PgSqlErrorCode::ERRCODE_DISK_FULL,
        _ => pgrx::PgSqlErrorCode::ERRCODE_IO_ERROR,
    };
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let message = format!("could not write to COPY file: {text}");
    pgrx::ereport!(pgrx::PgLogLevel::ERROR, code, message);
}

/// `errno.h`
const ENOSPC: i32 = 28;
