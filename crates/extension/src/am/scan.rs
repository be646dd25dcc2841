//! Sequential and TID-range scans.
//!
//! ```text
//!            forwards                        backwards
//!   Hot ── heap exhausted ──> Cold    Hot <── before first cold row ── Cold
//! ```
//!
//! A heap scan that has passed an end starts over at that end when the direction changes, which is
//! exactly what the hand-over between the sides needs. Forwards, hot rows are returned by
//! [`howdah_bridge::table_am::scans`] as heap returns them, unless this transaction may have
//! changed some of them at their new places ([`moved`]).
//!
//! A serializable scan takes a relation-level predicate lock: heap does so for its sequential
//! scans, and the same lock covers the cold side; [`super::serializable`] describes the other kinds
//! of reads.

use howdah_bridge::hot::scan::{Direction, HotScan};
use howdah_bridge::predicate::lock_relation;
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::table_am::Routine;
use howdah_bridge::table_am::scans::{OpenScan, ScanKind, Side, TableScans, set_scans};
use howdah_bridge::tid::{INVALID_BLOCK, RowNumber, Tid};

use super::analyze::AnalyzeState;
use super::cold_rows;
use super::point_reader::PointReader;
use super::sample::SampleState;
use super::serializable::announce;
use crate::cursor::{ColdCursor, SharedNext};
use crate::load;
use crate::store::pending_groups;
use crate::store::view::{ColdView, Wanted};
use crate::store::visibility::{moved, moved_changes, sees_row};

pub(super) fn install(am: &mut Routine) {
    set_scans::<TwoSides>(am);
}

/// Scans of both sides of a table.
pub(super) struct TwoSides;

pub(super) type Scan<'a> = OpenScan<'a, TwoSides>;

/// The state of a scan that reads, or may read, cold rows.
#[derive(Default)]
pub(super) struct ScanState<'a> {
    cursor: Option<ColdCursor<'a>>,
    tid_range: Option<TidRange>,
    /// Of a bitmap scan: the readers of its cold rows, made for the first one: of those whose
    /// conditions are not checked again, and of the others.
    pub readers: [Option<PointReader>; 2],
    pub sample: SampleState<'a>,
    pub analyze: AnalyzeState<'a>,
}

/// The first and the last TID.
type TidRange = (Tid, Tid);

/// A step of heap's own scan of the hot rows.
type NextHot<'a> = fn(&mut HotScan<'a>, Direction, Slot<'_>) -> bool;

impl TableScans for TwoSides {
    type State<'a> = ScanState<'a>;

    fn announce(table: Table<'_>, snapshot: Snapshot<'_>, kind: ScanKind) {
        match kind {
            ScanKind::Sequential => {}
            ScanKind::TidRange => lock_relation(table, snapshot),
            ScanKind::ByTid => announce(table, snapshot),
        }
    }

    fn follows(snapshot: Snapshot<'_>) -> bool {
        moved_changes::may_hide(snapshot)
    }

    fn restart<'a>(scan: &mut Scan<'a>, state: Option<ScanState<'a>>) {
        // The snapshot stays the same over a rescan, unless it is not an MVCC one.
        let is_same_view = scan.snapshot().is_mvcc() && !pending_groups::any();
        scan.note_nothing_cold(scan.sees_nothing_cold() && is_same_view);
        if is_same_view && let Some(mut cursor) = state.and_then(|state| state.cursor) {
            cursor.rewind();
            scan.state().cursor = Some(cursor);
        }
    }

    fn leave_hot(scan: &mut Scan<'_>) {
        if !scan.has_state() && !scan.sees_nothing_cold() {
            let view = view_of(scan);
            scan.note_nothing_cold(view.is_empty());
            if !view.is_empty() {
                make_cursor(scan, view);
            }
        }
        if scan.sees_nothing_cold() {
            scan.set_side(Side::End);
            return;
        }
        cursor_of(scan).rewind();
        scan.set_side(Side::Cold);
    }

    fn next(scan: &mut Scan<'_>, direction: Direction, slot: Slot<'_>) -> bool {
        next_slot(scan, direction, slot, HotScan::step, None)
    }

    fn set_range(scan: &mut Scan<'_>, low: Tid, high: Tid) {
        let state = scan.state();
        state.tid_range = Some((low, high));
        state.cursor = None;
        scan.reset_side();
    }

    fn next_in_range(scan: &mut Scan<'_>, direction: Direction, slot: Slot<'_>) -> bool {
        let range = scan.state().tid_range;
        match range {
            // Nothing cold lies in a range that ends on the hot side.
            Some((_, high)) if !high.is_cold() && high.block() != INVALID_BLOCK => {
                next_seen(scan, direction, slot, HotScan::step_in_range)
            }
            _ => next_slot(scan, direction, slot, HotScan::step_in_range, range),
        }
    }

    /// A hot row's chain is followed as long as it stays hot; from there it may lead to a cold row
    /// and back.
    fn latest(scan: &mut Scan<'_>, tid: Tid) -> Tid {
        let (table, snapshot) = (scan.table(), scan.snapshot());
        let (mut latest, mut from) = (tid, tid);
        loop {
            let next = match from.row() {
                None => {
                    let (seen, link) = scan.hot().latest(from);
                    latest = seen;
                    link
                }
                Some(row) => {
                    // A row may have been moved here after the snapshot was taken.
                    if ColdStore::open(table, LockMode::AccessShare)
                        .is_some_and(|store| sees_row(&store, table, row, snapshot))
                    {
                        latest = from;
                    }
                    cold_rows::version_after(table, row, snapshot)
                }
            };
            match next {
                Some(next) => from = next,
                None => return latest,
            }
        }
    }

    fn before_parallel(table: Table<'_>) {
        load::flush_for_readers(table.oid());
    }
}

/// Whether this transaction has changed the hot row in the slot, which the scan has just read,
/// where it is now; see [`moved`].
pub(super) fn hides_hot(scan: &Scan<'_>, slot: Slot<'_>) -> bool {
    moved::hides_hot(scan.table(), slot, scan.snapshot())
}

/// What the scan sees of the cold side.
pub(super) fn view_of<'a>(scan: &Scan<'a>) -> ColdView<'a> {
    scan.in_memory(|| ColdView::of(scan.table(), scan.snapshot()))
}

fn make_cursor<'a>(scan: &mut Scan<'a>, view: ColdView<'a>) {
    let shared = scan.shared().map(SharedNext::new);
    let begins_single = shared.is_none() && scan.snapshot().is_mvcc();
    let cursor = scan.in_memory(|| ColdCursor::new(view, Wanted::All, shared));
    scan.state().cursor = Some(match begins_single {
        true => cursor.with_single_rows(),
        false => cursor,
    });
}

/// The cursor over the cold side, made on first use.
fn cursor_of<'s, 'a>(scan: &'s mut Scan<'a>) -> &'s mut ColdCursor<'a> {
    if scan.state().cursor.is_none() {
        let view = view_of(scan);
        make_cursor(scan, view);
    }
    let Some(cursor) = &mut scan.state().cursor else {
        unreachable!("it has just been made")
    };
    cursor
}

/// Both kinds of scan: hot rows by `next_hot`, cold rows within `range`.
fn next_slot<'a>(
    scan: &mut Scan<'a>,
    direction: Direction,
    slot: Slot<'_>,
    next_hot: NextHot<'a>,
    range: Option<TidRange>,
) -> bool {
    let forward = direction == Direction::Forward;
    let first = if forward { Side::Hot } else { Side::Cold };
    let mut side = scan.side().unwrap_or(first);
    if side == Side::End && !forward {
        side = Side::Cold;
    }
    scan.set_side(side);
    if side == Side::Cold && !forward && scan.state().cursor.is_none() {
        cursor_of(scan).move_to_end();
    }
    if side == Side::Hot {
        if next_seen(scan, direction, slot, next_hot) {
            return true;
        }
        if !forward {
            return false;
        }
        TwoSides::leave_hot(scan);
    }
    if scan.side() == Some(Side::End) {
        slot.clear();
        return false;
    }
    let table = scan.table();
    loop {
        let cursor = cursor_of(scan);
        let row = if forward {
            cursor.next(table)
        } else {
            cursor.previous(table)
        };
        let Some(row) = row else { break };
        if range.is_some_and(|range| !is_inside(row, range)) {
            continue;
        }
        if !cursor.ask_dirty_snapshot(table) {
            continue;
        }
        cursor.store(table, slot);
        table.count_rows_read(1);
        if scan.satisfies_keys(slot) {
            return true;
        }
    }
    if forward {
        slot.clear();
        return false;
    }
    scan.set_side(Side::Hot);
    next_seen(scan, direction, slot, next_hot)
}

/// The next hot row that this transaction has not changed at its current place.
fn next_seen<'a>(
    scan: &mut Scan<'a>,
    direction: Direction,
    slot: Slot<'_>,
    next_hot: NextHot<'a>,
) -> bool {
    while next_hot(&mut scan.hot(), direction, slot) {
        if !scan.follows() || !hides_hot(scan, slot) {
            return true;
        }
    }
    false
}

fn is_inside(row: RowNumber, (low, high): TidRange) -> bool {
    (low..=high).contains(&row.tid())
}
