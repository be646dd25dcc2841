//! The receiver that writes rows, in front of PostgreSQL's own.
//!
//! [`receive_row`] runs once per row, and is written for that: it calls nothing that can panic and
//! holds nothing that has a destructor, so PostgreSQL's errors may jump over it.

use std::ffi::c_char;

use pgrx::{pg_guard, pg_sys};

use super::buffer::Buffer;
use super::copy_state::{CopyReceiver, write_file};
use super::text::{Column, Form, push_value};
use super::{Message, binary, is_encoded_for_client, memory_under};
use crate::ffi::{quiet, unguarded};

/// After so many rows, COPY's progress is reported.
const PROGRESS_ROWS: u64 = 64;

/// Our receiver. Lives in memory of its own, below that of the query.
#[repr(C)]
pub(super) struct Receiver {
    head: pg_sys::DestReceiver,
    /// PostgreSQL's own, which begins and ends the output.
    inner: *mut pg_sys::DestReceiver,
    /// Its callbacks: receivers do not change them once they are made.
    calls: Calls,
    message: Message,
    /// For each column 1 if the client wants it in binary, else 0; NULL if all are text.
    formats: *const i16,
    memory: pg_sys::MemoryContext,
    /// For values that output functions write; emptied after each row.
    scratch: pg_sys::MemoryContext,
    row: pg_sys::StringInfoData,
    /// The descriptor of the rows for which the columns were made.
    desc: pg_sys::TupleDesc,
    columns: *mut Column,
    count: usize,
    /// Bytes sent by COPY.
    bytes: i64,
}

/// The callbacks of a receiver of PostgreSQL's.
#[derive(Clone, Copy)]
struct Calls {
    receive:
        unsafe extern "C-unwind" fn(*mut pg_sys::TupleTableSlot, *mut pg_sys::DestReceiver) -> bool,
    start: unsafe extern "C-unwind" fn(*mut pg_sys::DestReceiver, i32, pg_sys::TupleDesc),
    shut_down: unsafe extern "C-unwind" fn(*mut pg_sys::DestReceiver),
}

impl Calls {
    /// `None` if one is missing, which no receiver of PostgreSQL's lacks.
    fn of(receiver: &pg_sys::DestReceiver) -> Option<Calls> {
        Some(Calls {
            receive: receiver.receiveSlot?,
            start: receiver.rStartup?,
            shut_down: receiver.rShutdown?,
        })
    }
}

/// Lines for a file are written together when there are so many bytes.
const FILE_BYTES: usize = 32 << 10;

/// The messages of a receiver, as a parameter.
const DATA_ROW: u8 = Message::DataRow as u8;
const COPY_DATA: u8 = Message::CopyData as u8;
const COPY_FILE: u8 = Message::CopyFile as u8;

/// Makes a receiver in front of the query's own.
///
/// # Safety
/// A started query with a receiver of the kind that `message` tells; `formats` live as long as it
/// runs.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn wrap(
    query: *mut pg_sys::QueryDesc,
    message: Message,
    formats: *const i16,
) -> *mut Receiver {
    // SAFETY: as for this function. The memory is a child of the query's.
    unsafe {
        let inner = (*query).dest;
        let Some(calls) = Calls::of(&*inner) else {
            pgrx::error!("a receiver of rows lacks a callback");
        };
        let memory = memory_under((*(*query).estate).es_query_cxt);
        let old = pg_sys::MemoryContextSwitchTo(memory);
        let ours = pg_sys::palloc0(size_of::<Receiver>()).cast::<Receiver>();
        (*ours).head = pg_sys::DestReceiver {
            receiveSlot: Some(match message {
                Message::DataRow => receive_row::<DATA_ROW>,
                Message::CopyData => receive_row::<COPY_DATA>,
                Message::CopyFile => receive_row::<COPY_FILE>,
            }),
            rStartup: Some(start),
            rShutdown: Some(shut_down),
            rDestroy: None,
            mydest: (*inner).mydest,
        };
        (*ours).inner = inner;
        (*ours).calls = calls;
        (*ours).message = message;
        (*ours).formats = formats;
        (*ours).memory = memory;
        (*ours).scratch = memory_under(memory);
        pg_sys::initStringInfo(&raw mut (*ours).row);
        pg_sys::MemoryContextSwitchTo(old);
        ours
    }
}

/// Frees a receiver that is no longer in use.
///
/// # Safety
/// Made by [`wrap`], and freed once.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn unwrap(ours: *mut Receiver) {
    // SAFETY: as for this function; all that it owns is in its memory.
    unsafe { pg_sys::MemoryContextDelete((*ours).memory) }
}

/// # Safety
/// Called by the executor, as all of the receiver's callbacks.
unsafe extern "C-unwind" fn start(
    ours: *mut pg_sys::DestReceiver,
    operation: i32,
    desc: pg_sys::TupleDesc,
) {
    // SAFETY: made by `wrap`; the callback is called with its own receiver.
    unsafe {
        let ours = ours.cast::<Receiver>();
        ((*ours).calls.start)((*ours).inner, operation, desc);
    }
}

/// # Safety
/// As for [`start`].
unsafe extern "C-unwind" fn shut_down(ours: *mut pg_sys::DestReceiver) {
    // SAFETY: as for `start`.
    unsafe {
        let ours = ours.cast::<Receiver>();
        if (*ours).message != Message::DataRow {
            finish_lines(ours);
        }
        ((*ours).calls.shut_down)((*ours).inner);
    }
}

/// Finds out how the columns are written.
///
/// # Safety
/// Made by [`wrap`]; the descriptor is that of the rows to come.
#[pg_guard]
unsafe extern "C-unwind" fn prepare(ours: *mut Receiver, desc: pg_sys::TupleDesc) {
    // SAFETY: as for this function. Lookups of types; a function's info is in the receiver's
    // memory.
    unsafe {
        let memory = (*ours).memory;
        let count = (*desc).natts as usize;
        let type_of = |i| crate::relation::attribute(desc, i as i32).atttypid;
        let known = (*ours).columns;
        if !known.is_null() {
            // Partitions have descriptors of their own, and their rows may come by turns.
            let is_known = |i| (*known.add(i)).type_oid == type_of(i);
            if (*ours).count == count && (0..count).all(is_known) {
                (*ours).desc = desc;
                return;
            }
            (*ours).columns = std::ptr::null_mut();
            pg_sys::pfree(known.cast());
        }
        let bytes = size_of::<Column>() * count.max(1);
        let columns = pg_sys::MemoryContextAllocZero(memory, bytes).cast::<Column>();
        for i in 0..count {
            let (mut function, mut is_varlena) = (pg_sys::InvalidOid, false);
            let type_oid = type_of(i);
            let column = columns.add(i);
            (*column).type_oid = type_oid;
            (*column).is_binary = !(*ours).formats.is_null() && *(*ours).formats.add(i) != 0;
            (*column).form = if (*column).is_binary {
                pg_sys::getTypeBinaryOutputInfo(type_oid, &mut function, &mut is_varlena);
                binary::form_of(function)
            } else {
                pg_sys::getTypeOutputInfo(type_oid, &mut function, &mut is_varlena);
                Form::of_output(function)
            };
            pg_sys::fmgr_info_cxt(function, &raw mut (*column).output, memory);
        }
        (*ours).columns = columns;
        (*ours).count = count;
        (*ours).desc = desc;
    }
}

/// Writes and sends a row.
///
/// # Safety
/// Called by the executor.
unsafe extern "C-unwind" fn receive_row<const MESSAGE: u8>(
    slot: *mut pg_sys::TupleTableSlot,
    ours: *mut pg_sys::DestReceiver,
) -> bool {
    // SAFETY: made by `wrap`; the slot holds a row, which has a value for each of its columns.
    unsafe {
        let ours = ours.cast::<Receiver>();
        let desc = (*slot).tts_tupleDescriptor;
        if (*ours).desc != desc || (*ours).count != (*desc).natts as usize {
            prepare(ours, desc);
        }
        // COPY has chosen its encoding before its first row.
        if MESSAGE == DATA_ROW && !is_encoded_for_client() {
            return ((*ours).calls.receive)(slot, (*ours).inner);
        }
        let count = (*ours).count;
        if ((*slot).tts_nvalid as usize) < count {
            unguarded::slot_getsomeattrs_int(slot, count as i32);
        }
        let out = Buffer(&raw mut (*ours).row);
        if MESSAGE == DATA_ROW {
            out.clear();
            write_data_row(ours, slot, out);
            send(b'D', out);
        } else {
            if MESSAGE == COPY_DATA {
                out.clear();
            }
            let start = out.len();
            write_line(ours, slot, out);
            (*ours).bytes += (out.len() - start) as i64;
            if MESSAGE == COPY_DATA {
                send(b'd', out);
            } else if out.len() >= FILE_BYTES {
                write_file((*ours).inner, out);
            }
            let copy = (*ours).inner.cast::<CopyReceiver>();
            (*copy).processed += 1;
            if (*copy).processed.is_multiple_of(PROGRESS_ROWS) {
                report(ours);
            }
        }
        if !(*(*ours).scratch).isReset {
            unguarded::MemoryContextReset((*ours).scratch);
        }
        true
    }
}

/// `pq_putmessage` of `libpq/libpq.h`. That the client has gone is found out by the next look at
/// interrupts.
///
/// # Safety
/// The buffer is valid.
#[inline(always)]
unsafe fn send(kind: u8, out: Buffer) {
    // SAFETY: as for this function; the methods are those of the connection.
    unsafe {
        let data = (*out.0).data.cast_const();
        ((*unguarded::PqCommMethods).putmessage)(kind as c_char, data, out.len());
    }
}

/// Writes the lines that are left, and reports the end.
///
/// # Safety
/// A receiver of COPY's.
unsafe fn finish_lines(ours: *mut Receiver) {
    // SAFETY: as for this function.
    unsafe {
        let out = Buffer(&raw mut (*ours).row);
        if (*ours).message == Message::CopyFile && out.len() > 0 {
            write_file((*ours).inner, out);
        }
        report(ours);
    }
}

/// A DataRow: the number of columns; for each its length, -1 for NULL, and its text or bytes.
///
/// # Safety
/// As for [`receive_row`]; the slot's values are there.
#[inline(always)]
unsafe fn write_data_row(ours: *mut Receiver, slot: *mut pg_sys::TupleTableSlot, out: Buffer) {
    // SAFETY: as for this function.
    unsafe {
        let count = (*ours).count;
        let head = (count as u16).to_be_bytes();
        out.push(head.as_ptr(), head.len());
        for i in 0..count {
            let at = out.len();
            let null = (-1_i32).to_be_bytes();
            out.push(null.as_ptr(), null.len());
            if *(*slot).tts_isnull.add(i) {
                continue;
            }
            let value = *(*slot).tts_values.add(i);
            let column = (*ours).columns.add(i);
            match (*column).is_binary {
                true => binary::push_value(out, column, value, (*ours).scratch),
                false => push_value::<false>(out, column, value, (*ours).scratch),
            }
            out.set_number(at, (out.len() - at - null.len()) as i32);
        }
    }
}

/// A line of COPY's text format.
///
/// # Safety
/// As for [`write_data_row`].
#[inline(always)]
unsafe fn write_line(ours: *mut Receiver, slot: *mut pg_sys::TupleTableSlot, out: Buffer) {
    // SAFETY: as for this function.
    unsafe {
        for i in 0..(*ours).count {
            if i > 0 {
                out.push_byte(b'\t');
            }
            if *(*slot).tts_isnull.add(i) {
                out.push(b"\\N".as_ptr(), 2);
                continue;
            }
            let value = *(*slot).tts_values.add(i);
            push_value::<true>(out, (*ours).columns.add(i), value, (*ours).scratch);
        }
        out.push_byte(b'\n');
    }
}

/// Reports COPY's progress.
///
/// # Safety
/// A receiver of COPY's.
unsafe fn report(ours: *mut Receiver) {
    // SAFETY: as for this function.
    unsafe {
        let copy = (*ours).inner.cast::<CopyReceiver>();
        let rows = pg_sys::PROGRESS_COPY_TUPLES_PROCESSED as i32;
        let bytes = pg_sys::PROGRESS_COPY_BYTES_PROCESSED as i32;
        quiet::pgstat_progress_update_param(rows, (*copy).processed as i64);
        quiet::pgstat_progress_update_param(bytes, (*ours).bytes);
    }
}
