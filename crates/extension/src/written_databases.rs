//! The databases where howdah tables were written, in shared memory.
//!
//! ```text
//!   writers        set `written` of their database, again at the commit
//!   launcher       finds the databases that a worker should visit
//!   worker         clears `written`, and says how its visit ended
//! ```
//!
//! Below the table access method, which notes the writes; [`crate::compact`] reads them. Atomics
//! only, no lock: a reader that sees half of an update acts a little early or late.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use howdah_bridge::shared_memory::{Area, Shareable};
use howdah_bridge::transactions::{self, TransactionEvent};
use howdah_bridge::xid::current_database;

const MOST_DATABASES: usize = 64;

/// How a worker's visit to a database ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum VisitEnd {
    /// The worker has not said: it runs, or it failed.
    Unknown = 0,
    /// There is nothing to do until a transaction writes.
    Settled = 1,
    /// There are rows that may be moved later.
    Waiting = 2,
    /// Rows were moved.
    Moved = 3,
}

/// One database with howdah tables.
#[repr(C)]
pub struct Database {
    oid: AtomicU32,
    /// A transaction wrote to a howdah table since the last visit began.
    pub written: AtomicBool,
    end: AtomicU32,
}

impl Database {
    pub fn oid(&self) -> u32 {
        self.oid.load(Ordering::Relaxed)
    }

    pub fn set_end(&self, end: VisitEnd) {
        self.end.store(end as u32, Ordering::Relaxed);
    }

    pub fn end(&self) -> VisitEnd {
        match self.end.load(Ordering::Relaxed) {
            1 => VisitEnd::Settled,
            2 => VisitEnd::Waiting,
            3 => VisitEnd::Moved,
            _ => VisitEnd::Unknown,
        }
    }

    /// Frees the slot of a database that is gone.
    pub fn forget(&self) {
        self.oid.store(0, Ordering::Relaxed);
    }
}

/// The slots of all databases.
#[repr(C)]
pub struct Written {
    databases: [Database; MOST_DATABASES],
}

// SAFETY: made of atomics.
unsafe impl Shareable for Written {}

pub static WRITTEN: Area<Written> = Area::new(c"howdah written databases");

/// Watches transactions end. Call once, from `_PG_init`.
pub fn register() {
    transactions::at_events(at_transaction_event);
}

/// The databases known to have howdah tables.
pub fn databases() -> &'static [Database] {
    WRITTEN.get().map_or(&[], |written| &written.databases)
}

/// The slot of a database, taken if there was none; `None` if all are in use.
pub fn database(oid: u32) -> Option<&'static Database> {
    let databases = databases();
    if let Some(known) = databases.iter().find(|d| d.oid() == oid) {
        return Some(known);
    }
    databases.iter().find(|slot| {
        let taken = (slot.oid).compare_exchange(0, oid, Ordering::Relaxed, Ordering::Relaxed);
        // Another backend of the database may have taken it meanwhile.
        taken.map_or_else(|found| found == oid, |_| true)
    })
}

thread_local! {
    /// Whether the running transaction wrote to a howdah table.
    static WROTE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    static OWN_DATABASE: std::cell::Cell<Option<&'static Database>> =
        const { std::cell::Cell::new(None) };
}

/// Notes that a howdah table of this database was written. Cheap: usually one shared read.
#[inline]
pub fn note_write() {
    WROTE.set(true);
    mark_own_database();
}

/// Notes it again at the commit: a worker that came before could not see what was written, or
/// not even the table. Called for every transaction: not guarded, and does no more than its atomics
/// and cells.
fn at_transaction_event(event: TransactionEvent) {
    use TransactionEvent::{Abort, Commit, Prepare};
    let ended = matches!(event, Commit | Prepare | Abort);
    if ended && WROTE.take() && event != Abort {
        mark_own_database();
    }
}

#[inline]
fn mark_own_database() {
    let own = current_database().to_u32();
    // The slot may have been taken away while the database allowed no connections.
    let mut slot = OWN_DATABASE.get().filter(|slot| slot.oid() == own);
    if slot.is_none() {
        slot = database(own);
        OWN_DATABASE.set(slot);
    }
    if let Some(database) = slot
        && !database.written.load(Ordering::Relaxed)
    {
        database.written.store(true, Ordering::Relaxed);
    }
}
