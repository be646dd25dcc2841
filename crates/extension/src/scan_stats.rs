//! How cold rows were read, per table: what the view `howdah.stat_scans` shows.
//!
//! Scans add what they did when they end. A table that is dropped takes its counters along when
//! the dropping transaction commits; nothing about it is WAL-logged, so that a standby without
//! the library can replay it.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};

use howdah_bridge::counters;
use pgrx::{IntoDatum, pg_guard, pg_sys};

/// What one scan did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanCounts {
    /// ColumnarScans that looked at cold rows.
    pub columnar_scans: i64,
    pub groups_read: i64,
    /// Row groups that their statistics ruled out.
    pub groups_skipped: i64,
    pub zones_read: i64,
    /// Zones that their zone maps ruled out.
    pub zones_skipped: i64,
    /// Row groups decoded by scans that go row by row.
    pub groups_read_by_row: i64,
}

impl ScanCounts {
    fn as_counters(self) -> counters::Counters {
        [
            self.columnar_scans,
            self.groups_read,
            self.groups_skipped,
            self.zones_read,
            self.zones_skipped,
            self.groups_read_by_row,
        ]
    }

    fn from_counters(counters: counters::Counters) -> ScanCounts {
        let [
            columnar_scans,
            groups_read,
            groups_skipped,
            zones_read,
            zones_skipped,
            groups_read_by_row,
        ] = counters;
        ScanCounts {
            columnar_scans,
            groups_read,
            groups_skipped,
            zones_read,
            zones_skipped,
            groups_read_by_row,
        }
    }
}

thread_local! {
    /// Tables that the running transaction has dropped, or has dropped and rolled back.
    static DROPPED: RefCell<Vec<pg_sys::Oid>> = RefCell::default();
}

static mut PREVIOUS_OBJECT_ACCESS: pg_sys::object_access_hook_type = None;

/// Registers counters, callback and hook. Call once, from `_PG_init`.
pub fn register() {
    counters::register();
    // SAFETY: called while the library loads, before any command runs.
    unsafe {
        pg_sys::RegisterXactCallback(Some(at_transaction_event), std::ptr::null_mut());
        PREVIOUS_OBJECT_ACCESS = pg_sys::object_access_hook;
        pg_sys::object_access_hook = Some(at_object_access);
    }
}

/// Adds what a scan did.
pub fn count(table: pg_sys::Oid, counts: ScanCounts) {
    if counts != ScanCounts::default() {
        counters::add(table, &counts.as_counters());
    }
}

/// What the scans of a table did so far.
pub fn of(table: pg_sys::Oid) -> Option<ScanCounts> {
    counters::of(table).map(ScanCounts::from_counters)
}

/// Notes tables that are dropped: their counters go if the transaction commits. Called for every
/// function that an expression calls, too, hence not guarded: nothing here raises an ERROR.
unsafe extern "C-unwind" fn at_object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    sub: c_int,
    arg: *mut c_void,
) {
    // SAFETY: the previous hook gets what we got; it was set before any command ran.
    unsafe {
        if let Some(previous) = PREVIOUS_OBJECT_ACCESS {
            previous(access, class, object, sub, arg);
        }
    }
    let dropped = access == pg_sys::ObjectAccessType::OAT_DROP;
    if dropped && class == pg_sys::RelationRelationId && sub == 0 {
        DROPPED.with_borrow_mut(|dropped| dropped.push(object));
    }
}

/// Not guarded, because it is called for every transaction; [`settle_dropped`] is.
unsafe extern "C-unwind" fn at_transaction_event(
    event: pg_sys::XactEvent::Type,
    _arg: *mut c_void,
) {
    if DROPPED.with_borrow(|dropped| !dropped.is_empty()) {
        // SAFETY: the server calls us for this event.
        unsafe { settle_dropped(event) }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn settle_dropped(event: pg_sys::XactEvent::Type) {
    match event {
        // The catalogs can still be asked: what a savepoint brought back stays.
        pg_sys::XactEvent::XACT_EVENT_PRE_COMMIT => {
            let dropped = DROPPED.take();
            let gone = dropped.into_iter().filter(|table| !exists(*table));
            DROPPED.set(gone.collect());
        }
        pg_sys::XactEvent::XACT_EVENT_COMMIT => {
            DROPPED.take().into_iter().for_each(counters::forget)
        }
        pg_sys::XactEvent::XACT_EVENT_ABORT | pg_sys::XactEvent::XACT_EVENT_PREPARE => {
            DROPPED.take();
        }
        _ => {}
    }
}

fn exists(table: pg_sys::Oid) -> bool {
    let none = pg_sys::Datum::from(0);
    let reloid = pg_sys::SysCacheIdentifier::RELOID as i32;
    // SAFETY: a syscache lookup.
    unsafe {
        pg_sys::SearchSysCacheExists(reloid, table.into_datum().unwrap_or(none), none, none, none)
    }
}
