//! Encodes and writes the pending groups of this backend.
//!
//! A group is written when it is full, when its command, subtransaction or transaction ends, and
//! when the groups hold more memory than they may: see the header of [`super`]. Until a transaction
//! commits, a group of another subtransaction than the current one is not written, because an abort
//! of the current one must not remove it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use howdah_bridge::heap_am::InsertOptions;
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::xid::{CommandId, SubTransactionId, current_subtransaction};
use howdah_bridge::{Oid, malloc, spare_memory};

use super::rows_hot;
use crate::errors::or_raise;
use crate::settings;
use crate::store::pending_groups::{self, PendingGroup, PendingRows};
use crate::store::{directory, group};

/// Bytes that are added before the memory of all groups is compared with its bound.
const WEIGHED_BYTES: usize = 1 << 20;

thread_local! {
    static UNWEIGHED_BYTES: Cell<usize> = const { Cell::new(0) };
    /// Whether a thread has encoded a group of this transaction.
    static ENCODED_ASIDE: Cell<bool> = const { Cell::new(false) };
}

/// Counts bytes that were added to a group; returns whether [`bound_memory`] is due.
pub(super) fn note_added(bytes: usize) -> bool {
    UNWEIGHED_BYTES.replace(UNWEIGHED_BYTES.get() + bytes) + bytes > WEIGHED_BYTES
}

/// Has a full group encoded by a thread, while the command fills the next. A backend has one group
/// encoded at a time.
#[cold]
pub(super) fn complete(group: &Rc<RefCell<PendingGroup>>) {
    group.borrow().may_become_hot.set(None);
    let here = current_subtransaction();
    let mut is_free = true;
    for other in pending_groups::all_where(|g| !g.rows.is_filling()) {
        let is_here = other.borrow().subtransaction == here;
        match is_here {
            true => write_group(&other),
            false => is_free = false,
        }
    }
    let encoding = settings::encoding_of(group.borrow().file.table);
    match is_free && group.borrow_mut().encode_aside(encoding) {
        true => ENCODED_ASIDE.set(true),
        false => write_group(group),
    }
}

/// Encodes and stores a pending group, or what a thread has encoded. Its rows stay readable in
/// memory until the stored group can be read; views that already hold it keep it alive.
fn write_group(group: &Rc<RefCell<PendingGroup>>) {
    let file = group.borrow().file;
    // The loading statement's lock is held to the end of the transaction.
    let Some(relation) = OpenRelation::try_open_locked(file.table) else {
        // The table was dropped by the transaction that loaded it.
        pending_groups::forget(group);
        return;
    };
    let table = relation.table();
    if table.file() != file {
        // The table was truncated or rewritten by the transaction that loaded it.
        pending_groups::forget(group);
        return;
    }
    if let Some(options) = stays_small(group) {
        make_hot(table, group, options);
    } else if let Some(store) = ColdStore::open(table, LockMode::RowExclusive) {
        let pending = group.borrow();
        let (placed, command) = (&pending.placed, pending.command);
        let written = match &pending.rows {
            PendingRows::Filling(rows) => group::write(
                &store,
                placed,
                rows,
                &settings::encoding_of(file.table),
                command,
            ),
            PendingRows::Encoding(encoder) => encoder.wait().map_err(Into::into).and_then(|it| {
                let row_count = encoder.rows().row_count();
                group::store_encoded(&store, placed, row_count, &it, command)
            }),
        };
        or_raise(file.table, written);
    }
    pending_groups::forget(group);
}

/// How the rows of a group whose load has ended are to be inserted hot, if they are: no TID of
/// theirs is known, and they are not more than what small statements insert hot.
fn stays_small(group: &RefCell<PendingGroup>) -> Option<InsertOptions> {
    let pending = group.borrow();
    let row_count = pending.rows.get().row_count() as u64;
    let options = pending.may_become_hot.get()?;
    let is_small = row_count <= settings::load_threshold() && pending.rows.is_filling();
    is_small.then_some(options)
}

/// Inserts the rows of a group hot, and withdraws its reservation. In an aborted transaction both
/// sides are void.
fn make_hot(table: Table<'_>, group: &RefCell<PendingGroup>, options: InsertOptions) {
    let pending = group.borrow();
    if let Some(store) = ColdStore::open(table, LockMode::RowExclusive) {
        let withdrawn = directory::withdraw(&store, &pending.placed, pending.command);
        or_raise(table.oid(), withdrawn);
    }
    let rows = pending.rows.get();
    // Heap counts them again.
    table.discount_inserts(rows.row_count());
    rows_hot::insert(table, rows, pending.command, options);
}

/// Writes what a thread has encoded. A thread that has not finished is waited for when the rows
/// added since then take half the memory of a row group.
fn write_encoded(here: SubTransactionId) {
    let encoding = pending_groups::all_where(|g| !g.rows.is_filling() && g.subtransaction == here);
    for group in encoding {
        let since = |g: &PendingGroup| g.serial > group.borrow().serial;
        let added = pending_groups::with_all(|groups| {
            let groups = groups.iter().map(|g| g.borrow()).filter(|g| since(g));
            groups.map(|g| g.weighed_bytes).sum::<usize>()
        });
        let is_finished = match &group.borrow().rows {
            PendingRows::Encoding(encoder) => encoder.is_finished(),
            PendingRows::Filling(_) => false,
        };
        if is_finished || added >= settings::row_group_bytes() / 2 {
            write_group(&group);
        }
    }
}

/// Writes the largest group if the groups of this backend hold more than they may.
#[cold]
pub(super) fn bound_memory() {
    UNWEIGHED_BYTES.set(0);
    let here = current_subtransaction();
    write_encoded(here);
    let bytes = |g: &Rc<RefCell<PendingGroup>>| g.borrow().rows.get().raw_bytes();
    // A column that grows is copied.
    let most = pending_groups::with_all(|groups| groups.iter().map(bytes).max());
    spare_memory::set_aside(2 * most.unwrap_or(0));
    let largest = pending_groups::with_all(|groups| {
        if groups.len() < 2 {
            return None;
        }
        if groups.iter().map(bytes).sum::<usize>() <= settings::load_memory() {
            return None;
        }
        groups.iter().max_by_key(|g| bytes(g)).map(Rc::clone)
    });
    if let Some(group) = largest
        && group.borrow().subtransaction == here
    {
        group.borrow().may_become_hot.set(None);
        write_group(&group);
    }
}

fn flush_where(wanted: impl Fn(&PendingGroup) -> bool) {
    let mut groups = pending_groups::all_where(wanted);
    // What a thread encodes comes last: meanwhile the others are encoded here.
    groups.sort_by_key(|group| !group.borrow().rows.is_filling());
    for group in groups {
        write_group(&group);
    }
}

/// Writes the pending groups of `command` in the current subtransaction.
pub fn flush_command(command: CommandId) {
    if pending_groups::any() {
        let here = current_subtransaction();
        flush_where(|g| g.command == command && g.subtransaction == here);
    }
}

/// Writes the current subtransaction's pending groups of one table.
pub fn flush_relation(table: Oid) {
    if pending_groups::any() {
        let here = current_subtransaction();
        flush_where(|g| g.file.table == table && g.subtransaction == here);
    }
}

/// The same for workers of a parallel query, which do not see this backend's memory. The load may
/// go on: it has become known, and stays cold.
pub fn flush_for_readers(table: Oid) {
    if pending_groups::any() {
        let here = current_subtransaction();
        flush_where(|g| {
            let is_wanted = g.file.table == table && g.subtransaction == here;
            if is_wanted {
                g.may_become_hot.set(None);
            }
            is_wanted
        });
    }
}

/// Writes the current subtransaction's pending groups opened since [`pending_groups::serial_now`]
/// returned `serial`.
pub fn flush_since(serial: u64) {
    if pending_groups::any() {
        let here = current_subtransaction();
        flush_where(|g| g.serial > serial && g.subtransaction == here);
    }
}

/// Writes all pending groups of one subtransaction, which is about to commit.
pub fn flush_subtransaction(subtransaction: SubTransactionId) {
    flush_where(|g| g.subtransaction == subtransaction);
}

/// Writes all pending groups; the transaction is about to commit.
pub fn flush_all() {
    flush_where(|_| true);
}

/// The transaction has ended: no group is left.
pub(super) fn reset() {
    if ENCODED_ASIDE.take() {
        // Rows and groups that two threads have freed stay with the allocator otherwise.
        malloc::return_freed_memory();
    }
}
