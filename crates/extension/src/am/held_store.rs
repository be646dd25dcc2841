//! Locks for reading the cold store that are taken before rows are entered into indexes.
//!
//! A check of uniqueness reads the row of an equal key while it holds the lock of an index page. If
//! it waited for a heavyweight lock then, for that of a `REINDEX` of the store for example, nothing
//! could interrupt it, and no deadlock that it is part of would be noticed. So a transaction takes
//! these locks, where it may wait, before its first entry in a table that has cold rows; they are
//! kept to its end. Where the first cold rows of a table come after that, the check must get them
//! at once, or fails ([`for_check`]).

use std::cell::{Cell, RefCell};

use howdah_bridge::Oid;
use howdah_bridge::process::is_uninterruptible;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::xid::{CommandId, current_command};
use pgrx::PgSqlErrorCode;

use crate::errors::refuse;

thread_local! {
    /// The TOAST relation that was asked about last, and all whose locks were taken.
    static LAST: Cell<Oid> = const { Cell::new(Oid::INVALID) };
    static HELD: RefCell<Vec<Oid>> = const { RefCell::new(Vec::new()) };
    /// The latest command that updates or deletes rows.
    static CHANGING: Cell<Option<CommandId>> = const { Cell::new(None) };
}

/// Notes a statement that has started and is going to update or delete rows.
pub fn expect_changes(command: CommandId) {
    CHANGING.set(Some(command));
}

/// How the store of a table is locked to read it: for writing, if the running statement changes
/// rows of the table.
#[inline]
pub fn mode(table: Table<'_>) -> LockMode {
    match CHANGING.get() {
        Some(command) if command == current_command() && table.is_locked_for_changes() => {
            LockMode::RowExclusive
        }
        _ => LockMode::AccessShare,
    }
}

/// Takes the locks on the store of a table, if it has indexes and was ever used.
#[inline]
pub fn hold(table: Table<'_>) {
    if let Some(toast) = table.toast_oid()
        && toast != LAST.get()
        && table.has_indexes()
    {
        hold_another(table, toast);
    }
}

#[cold]
fn hold_another(table: Table<'_>, toast: Oid) {
    if !HELD.with_borrow(|held| held.contains(&toast)) {
        if let Some(store) = ColdStore::open_used(table, mode(table)) {
            store.lock_indexes();
        }
        HELD.with_borrow_mut(|held| held.push(toast));
    }
    LAST.set(toast);
}

/// The transaction or a subtransaction has ended, and may have given back its locks.
pub fn forget() {
    LAST.set(Oid::INVALID);
    HELD.with_borrow_mut(Vec::clear);
    CHANGING.set(None);
}

/// The store of a table, for a check of uniqueness: it does not wait while a page is locked.
pub fn for_check(table: Table<'_>) -> Option<ColdStore<'_>> {
    table.toast_oid()?;
    if !is_uninterruptible() {
        return ColdStore::open(table, LockMode::AccessShare);
    }
    let store = ColdStore::open_at_once(table);
    if store.is_none() {
        refuse(
            PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
            format!(
                "could not obtain lock on the cold rows of table \"{}\"",
                table.name()
            ),
            Some("Repeat the transaction: the table is being reindexed.".into()),
        );
    }
    store
}
