//! How cold rows were read, per table: what the view `howdah.stat_scans` shows.
//!
//! Scans add what they did when they end. The counters of a dropped table are dropped when the
//! dropping transaction commits. Nothing about them is WAL-logged, so that a standby without the
//! library can replay the drop.

use std::cell::RefCell;

use howdah_bridge::transactions::{self, TransactionEvent};
use howdah_bridge::{Oid, counters, names};

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
    static DROPPED: RefCell<Vec<Oid>> = RefCell::default();
}

/// Registers counters and callback. Call once, from `_PG_init`.
pub fn register() {
    counters::register();
    transactions::at_events(at_transaction_event);
}

/// A table, or another relation, is dropped, unless its transaction is rolled back.
pub fn note_drop(relation: Oid) {
    DROPPED.with_borrow_mut(|dropped| dropped.push(relation));
}

/// Adds what a scan did.
pub fn count(table: Oid, counts: ScanCounts) {
    if counts != ScanCounts::default() {
        counters::add(table, &counts.as_counters());
    }
}

/// What the scans of a table did so far.
pub fn of(table: Oid) -> Option<ScanCounts> {
    counters::of(table).map(ScanCounts::from_counters)
}

/// Tables that are dropped lose their counters if the transaction commits. Not guarded, because it
/// is called for every transaction; what there is to do then is.
fn at_transaction_event(event: TransactionEvent) {
    if DROPPED.with_borrow(|dropped| !dropped.is_empty()) {
        transactions::guarded(|| settle_dropped(event));
    }
}

fn settle_dropped(event: TransactionEvent) {
    match event {
        // The catalogs can still be asked: what a savepoint brought back stays.
        TransactionEvent::PreCommit => {
            let dropped = DROPPED.take();
            let gone = dropped
                .into_iter()
                .filter(|&table| !names::relation_exists(table));
            DROPPED.set(gone.collect());
        }
        TransactionEvent::Commit => DROPPED.take().into_iter().for_each(counters::forget),
        TransactionEvent::Abort | TransactionEvent::Prepare => {
            DROPPED.take();
        }
        TransactionEvent::PrePrepare | TransactionEvent::Other => {}
    }
}
