//! The session's time zone in the engine's form, made once for each zone.

use std::cell::RefCell;
use std::sync::Arc;

use howdah_bridge::time_zone::{session_changes, session_zone};
use howdah_vector::zone::Zone;

const MICROSECONDS: i64 = 1_000_000;
/// 200 years of 365.2425 days. Later timestamps are left to PostgreSQL, or the table of a zone with
/// summer time would have no end.
const END_SECONDS: i64 = 200 * 31_556_952;

thread_local! {
    static LAST: RefCell<Option<(usize, Arc<Zone>)>> = const { RefCell::new(None) };
}

/// The session's time zone.
pub fn of_session() -> Arc<Zone> {
    let name = session_zone();
    let known = LAST.with_borrow(|last| match last {
        Some((of, zone)) if *of == name => Some(zone.clone()),
        _ => None,
    });
    known.unwrap_or_else(|| {
        let found = session_changes(END_SECONDS);
        let changes = found.changes.iter();
        let changes: Vec<(i64, i64)> = changes
            .map(|&(at, offset)| (at * MICROSECONDS, offset * MICROSECONDS))
            .collect();
        let end = found.end.map_or(i64::MAX, |end| end * MICROSECONDS);
        let zone = Arc::new(Zone::new(found.first_offset * MICROSECONDS, &changes, end));
        LAST.set(Some((name, zone.clone())));
        zone
    })
}
