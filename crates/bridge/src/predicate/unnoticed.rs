//! Index insertions without a check for serialization conflicts.
//!
//! When an index gets an entry, it checks which transactions have read the page that the entry goes
//! to. This is how readers of a range notice keys that are new in it. A new version of a row with
//! the same keys is not new to them: every transaction that has seen the row has a lock on the row
//! itself, which the writer has checked. On heap such an update is a HOT update and inserts no
//! index entries.
//!
//! PostgreSQL has no option to omit the check. It omits it where the process has no serializable
//! transaction, and it has a pair of functions to hand one from process to process, made for
//! parallel queries (`ShareSerializableXact`, `AttachSerializableXact`). [`unnoticed`] detaches the
//! transaction for one call and attaches it again.
//!
//! - *Locks that are held already:* attaching begins a new list of them in this process's memory
//!   (`Local predicate lock`), by which PostgreSQL avoids repeated requests and decides when to
//!   take coarser locks. The entries are copied from the old list, which is then freed. Both lists
//!   are found by the names of their memory contexts, which lie at a fixed distance from the
//!   tables; a table of our own shows the distance.
//! - *Errors:* the transaction is attached again before the error is rethrown.
//! - *Termination:* interrupts are held; otherwise the transaction could end while it is detached,
//!   and its locks would stay for ever.
//! - *Page splits* inside the call hand readers' locks on as usual; that does not depend on the
//!   transaction that splits the page.
//! - A server built with assertions requires that there is no list when a transaction is attached.
//!   On such a server, and wherever the list is not found, the check is made as usual.

use std::cell::OnceCell;
use std::ffi::{CStr, c_void};
use std::panic::AssertUnwindSafe;

use pgrx::{PgTryBuilder, pg_sys};

use crate::ffi;

/// The name of the process's own list, `predicate.c`.
const LIST_NAME: &CStr = c"Local predicate lock";

/// `LOCALPREDICATELOCK` of `storage/predicate_internals.h`
#[repr(C)]
#[derive(Clone, Copy)]
struct LocalPredicateLock {
    target: [u32; 4],
    held: bool,
    child_locks: i32,
}

/// Runs `write`, which must not read rows nor run users' code, with the transaction detached. Where
/// the transaction cannot be detached, it just runs `write`.
///
/// # Safety
/// A transaction runs that has an id.
pub unsafe fn unnoticed(write: impl FnOnce()) {
    // SAFETY: as for this function; the transaction is attached again on every way out.
    unsafe {
        let transaction = ffi::ShareSerializableXact();
        let list = match find_list(None) {
            Some(list) if !transaction.is_null() && !asserts() => list,
            _ => return write(),
        };
        let held = pg_sys::InterruptHoldoffCount;
        ffi::AttachSerializableXact(std::ptr::null_mut());
        pg_sys::InterruptHoldoffCount = held + 1;
        PgTryBuilder::new(AssertUnwindSafe(write))
            .finally(|| {
                reattach(transaction, list);
                // An error has already reset the hold on interrupts.
                pg_sys::InterruptHoldoffCount = held.min(pg_sys::InterruptHoldoffCount);
            })
            .execute();
    }
}

/// # Safety
/// Both were in use when the transaction was detached, and still exist.
unsafe fn reattach(transaction: *mut c_void, old: *mut pg_sys::HTAB) {
    // SAFETY: `old` is the list that was in use when the transaction was detached.
    unsafe {
        ffi::AttachSerializableXact(transaction);
        if let Some(new) = find_list(Some(old)) {
            copy_locks(old, new);
            pg_sys::hash_destroy(old);
        }
    }
}

/// # Safety
/// Both are tables of local predicate locks.
unsafe fn copy_locks(from: *mut pg_sys::HTAB, to: *mut pg_sys::HTAB) {
    // SAFETY: both are tables of local predicate locks.
    unsafe {
        let mut scan = pg_sys::HASH_SEQ_STATUS::default();
        pg_sys::hash_seq_init(&mut scan, from);
        loop {
            let lock: *const LocalPredicateLock = pg_sys::hash_seq_search(&mut scan).cast();
            if lock.is_null() {
                return;
            }
            let mut found = false;
            let enter = pg_sys::HASHACTION::HASH_ENTER;
            let key = (&raw const (*lock).target).cast();
            let copy: *mut LocalPredicateLock =
                pg_sys::hash_search(to, key, enter, &mut found).cast();
            *copy = *lock;
        }
    }
}

/// The process's list of locks, or the one that is not `other`.
///
/// # Safety
/// No memory context is created or deleted meanwhile.
unsafe fn find_list(other: Option<*mut pg_sys::HTAB>) -> Option<*mut pg_sys::HTAB> {
    // SAFETY: contexts that live as long as the process keep their names as long as they live.
    unsafe {
        let distance = distance_of_names();
        let mut lists =
            children_of_top(LIST_NAME).map(|name| name.byte_sub(distance).cast_mut().cast());
        let list = lists.find(|&list: &*mut pg_sys::HTAB| Some(list) != other)?;
        // If there are more than these two, they cannot be told apart.
        lists.all(|list| Some(list) == other).then_some(list)
    }
}

/// The distance from a hash table to its name behind it, in bytes.
fn distance_of_names() -> usize {
    thread_local!(static DISTANCE: OnceCell<usize> = const { OnceCell::new() });
    const NAME: &CStr = c"howdah distance of names";
    // SAFETY: the table is made like PostgreSQL's own and freed at once.
    let measure = || unsafe {
        let control = pg_sys::HASHCTL {
            keysize: size_of::<[u32; 4]>(),
            entrysize: size_of::<LocalPredicateLock>(),
            ..Default::default()
        };
        let flags = (pg_sys::HASH_ELEM | pg_sys::HASH_BLOBS) as i32;
        let table = pg_sys::hash_create(NAME.as_ptr(), 1, &control, flags);
        let name = children_of_top(NAME).next();
        let distance = name.map(|name| name.byte_offset_from_unsigned(table));
        pg_sys::hash_destroy(table);
        distance.unwrap_or_else(|| pgrx::error!("a hash table has no memory context of its own"))
    };
    DISTANCE.with(|distance| *distance.get_or_init(measure))
}

/// The names of the direct children of the top memory context that have this name.
///
/// # Safety
/// No memory context is created or deleted while the iterator is used.
unsafe fn children_of_top(name: &CStr) -> impl Iterator<Item = *const std::ffi::c_char> {
    // SAFETY: contexts form a list, which does not change while the iterator is used.
    unsafe {
        let mut child = (*pg_sys::TopMemoryContext).firstchild;
        std::iter::from_fn(move || {
            while !child.is_null() {
                let ident = (*child).ident;
                child = (*child).nextchild;
                if !ident.is_null() && CStr::from_ptr(ident) == name {
                    return Some(ident);
                }
            }
            None
        })
    }
}

/// Whether the server was built with assertions.
fn asserts() -> bool {
    // SAFETY: a setting that every server has, and that no session can change.
    unsafe {
        let value = pg_sys::GetConfigOption(c"debug_assertions".as_ptr(), false, false);
        CStr::from_ptr(value) == c"on"
    }
}
