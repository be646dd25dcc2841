//! Rows of our plan nodes, and of our tables by index, on their way to the client.
//!
//! ```text
//!   ExecutorRun ──> are the rows ours (plan), and for the client? (here)
//!                     └──> receiver: rStartup, rShutdown ──> PostgreSQL's own receiver
//!                            receiveSlot ──> text, binary ──> buffer ──> DataRow, CopyData, or
//!                                                                        a file
//!   ProcessUtility ──> copy: COPY table TO … becomes COPY (SELECT …) TO …
//!
//!   text ─── a value as its type's output function writes it: calendar, numeric
//!   binary ─ a value as its type's send function writes it: numeric
//!   escape ─ what COPY's text format escapes          buffer ─ one message
//!   copy_state ─ where COPY writes to
//! ```
//!
//! PostgreSQL calls an output function for each value, which allocates a C string; then measures
//! and copies it. Where a column's values come decoded in batches, that is most of the time of a
//! query that only returns them; where an index leads to some rows, a good part of it. The receiver
//! writes the common types straight into the message, and has all others written by their output
//! or send functions
//! ([decision 29](../../../../docs/decisions/0029-rows-as-text.md)).
//!
//! Invariants
//! - The client receives the same bytes as from PostgreSQL's own receiver. What depends on a
//!   setting (DateStyle, extra_float_digits, the client's encoding) is looked at for each value or
//!   row, as PostgreSQL does: a function may change the setting in between.
//! - Nothing here runs unless rows come from a node of ours, or by index from a table of ours.
//! - Messages are sent row by row; a row whose output raises an ERROR is not sent in part.

mod binary;
mod buffer;
mod calendar;
mod copy;
mod copy_state;
mod escape;
mod numeric;
mod plan;
mod receiver;
mod text;

use std::sync::atomic::{AtomicUsize, Ordering};

use pgrx::{pg_guard, pg_sys};

pub(crate) use copy::prepare as prepare_copy;

use crate::ffi::{quiet, unguarded};
use crate::table::Table;

static mut PREVIOUS_HOOK: pg_sys::ExecutorRun_hook_type = None;
static mut IS_OUR_TABLE: Option<fn(Table<'_>) -> bool> = None;

/// The function by which PostgreSQL's own receiver gets rows; its address, for comparison.
static PRINTTUP: AtomicUsize = AtomicUsize::new(0);

/// Installs the executor's hook, in front of the one before. `is_our_table` tells whether a table
/// has our access method. Call once, from `_PG_init`.
pub fn register(is_our_table: fn(Table<'_>) -> bool) {
    // SAFETY: the library is being loaded, nothing else runs in the process. The receiver is made
    // to be looked at, and destroyed.
    unsafe {
        let receiver = pg_sys::CreateDestReceiver(pg_sys::CommandDest::DestRemote);
        PRINTTUP.store(receive_slot_of(receiver), Ordering::Relaxed);
        if let Some(destroy) = (*receiver).rDestroy {
            destroy(receiver);
        }
        IS_OUR_TABLE = Some(is_our_table);
        PREVIOUS_HOOK = pg_sys::ExecutorRun_hook;
        pg_sys::ExecutorRun_hook = Some(executor_run);
    }
}

/// What carries a row.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Message {
    DataRow,
    CopyData,
    /// A line of a file on the server.
    CopyFile,
}

/// Not guarded, see [`unguarded`].
///
/// # Safety
/// Called by the executor, with a query that was started.
unsafe extern "C-unwind" fn executor_run(
    query: *mut pg_sys::QueryDesc,
    direction: pg_sys::ScanDirection::Type,
    count: u64,
) {
    // SAFETY: arguments are passed on to exactly one successor; this frame owns nothing. After an
    // ERROR the receiver goes with the query's memory, and the query is not run again.
    unsafe {
        let dest = (*query).dest;
        let ours = match message_of(query) {
            Some((message, formats)) => receiver::wrap(query, message, formats),
            None => std::ptr::null_mut(),
        };
        if !ours.is_null() {
            (*query).dest = ours.cast();
        }
        match PREVIOUS_HOOK {
            Some(previous) => previous(query, direction, count),
            None => unguarded::standard_ExecutorRun(query, direction, count),
        }
        if !ours.is_null() {
            (*query).dest = dest;
            receiver::unwrap(ours);
        }
    }
}

/// In which messages the rows of a query go to the client, and the formats of columns, if we may
/// write them. Not guarded: raises no ERROR.
///
/// # Safety
/// As for [`executor_run`].
unsafe fn message_of(query: *mut pg_sys::QueryDesc) -> Option<(Message, *const i16)> {
    // SAFETY: a started query has a plan, and a receiver or none.
    unsafe {
        let dest = (*query).dest;
        if dest.is_null() || (*query).operation != pg_sys::CmdType::CMD_SELECT {
            return None;
        }
        let message = match (*dest).mydest {
            pg_sys::CommandDest::DestRemote | pg_sys::CommandDest::DestRemoteExecute => {
                if receive_slot_of(dest) != PRINTTUP.load(Ordering::Relaxed) {
                    return None;
                }
                (Message::DataRow, formats_of(query)?)
            }
            pg_sys::CommandDest::DestCopyOut if copy::take_plain((*query).sourceText) => {
                (copy_state::target(query)?, std::ptr::null())
            }
            _ => return None,
        };
        let is_our_table = IS_OUR_TABLE?;
        (is_encoded_for_client() && plan::is_ours(query, is_our_table)).then_some(message)
    }
}

/// The address of the function by which a receiver gets rows.
///
/// # Safety
/// A valid receiver.
unsafe fn receive_slot_of(receiver: *mut pg_sys::DestReceiver) -> usize {
    // SAFETY: as for this function.
    let receive = unsafe { (*receiver).receiveSlot };
    receive.map_or(0, |receive| receive as usize)
}

/// The format that the client wants for each column: 0 is text, 1 binary; NULL if all are text.
/// `None` if that is not known, or if there is another code, about which PostgreSQL complains.
///
/// # Safety
/// As for [`executor_run`]; the query's receiver is a portal's.
unsafe fn formats_of(query: *mut pg_sys::QueryDesc) -> Option<*const i16> {
    // SAFETY: the active portal, if it runs this query, has a format for each column, or none.
    unsafe {
        let portal = pg_sys::ActivePortal;
        if portal.is_null() || (*portal).queryDesc != query {
            return None;
        }
        let formats = (*portal).formats.cast_const();
        let count = (*(*query).tupDesc).natts as usize;
        let are_known = formats.is_null() || (0..count).all(|i| matches!(*formats.add(i), 0 | 1));
        are_known.then_some(formats)
    }
}

/// Whether text goes to the client as it is, as `pg_server_to_any` decides. A database without an
/// encoding has its text verified by PostgreSQL.
#[inline(always)]
fn is_encoded_for_client() -> bool {
    // SAFETY: both read a variable.
    unsafe {
        let client = quiet::pg_get_client_encoding();
        client == quiet::GetDatabaseEncoding() || client == SQL_ASCII
    }
}

/// `PG_SQL_ASCII`
const SQL_ASCII: i32 = 0;

/// A memory context for the receiver.
#[pg_guard]
unsafe extern "C-unwind" fn memory_under(parent: pg_sys::MemoryContext) -> pg_sys::MemoryContext {
    // SAFETY: the parent is a valid context.
    unsafe {
        pg_sys::AllocSetContextCreateInternal(
            parent,
            c"howdah rows for the client".as_ptr(),
            pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
            pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
        )
    }
}
