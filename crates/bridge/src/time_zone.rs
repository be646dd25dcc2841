//! The session's time zone, as PostgreSQL knows it.

use std::ffi::{c_int, c_long};

use pgrx::pg_sys;

/// Seconds from 1970-01-01 to 2000-01-01.
const EPOCH_SECONDS: i64 = 946_684_800;
const SECONDS_PER_DAY: i64 = 86_400;

/// When the offset of a zone from UTC changes. Moments count seconds since 2000-01-01 00:00 UTC,
/// offsets seconds east of UTC.
#[derive(Debug, PartialEq, Eq)]
pub struct ZoneChanges {
    /// The offset before the first change.
    pub first_offset: i64,
    /// Each change, and the offset after it, ascending.
    pub changes: Vec<(i64, i64)>,
    /// From here on changes are not listed; `None` if all are.
    pub end: Option<i64>,
}

/// What distinguishes the session's time zone from all others, as long as the process lives.
pub fn session_zone() -> usize {
    // SAFETY: plain read; PostgreSQL keeps every zone that was ever loaded.
    unsafe { pg_sys::session_timezone as usize }
}

/// The changes of the session's time zone before `end`, as `DetermineTimeZoneOffset` in
/// PostgreSQL's `utils/adt/datetime.c` asks for them.
///
/// `end` counts seconds since 2000-01-01 00:00 UTC, and lies before 2400: of a zone whose rules go
/// on for ever the server lists some 400 years, and finds no change at the last one.
pub fn session_changes(end: i64) -> ZoneChanges {
    let mut changes = Vec::new();
    // No zone's table begins before the year -30000, and no timestamp lies there.
    let mut at = -SECONDS_PER_DAY * 365 * 30_000;
    let mut first_offset = None;
    loop {
        let (mut before, mut after): (c_long, c_long) = (0, 0);
        let (mut before_is_dst, mut after_is_dst): (c_int, c_int) = (0, 0);
        let mut boundary = 0;
        // SAFETY: valid pointers; the session has a zone.
        let found = unsafe {
            pg_sys::pg_next_dst_boundary(
                &at,
                &mut before,
                &mut before_is_dst,
                &mut boundary,
                &mut after,
                &mut after_is_dst,
                pg_sys::session_timezone,
            )
        };
        if found >= 0
            && let Some(&(change, offset)) = changes.last()
            && offset != before
        {
            // Summer time ends and begins in the same second, as under a rule that lets it last all
            // year. The server tells the first of the two changes, and then skips the other one:
            // what local times next to it mean to the server is not told by a table of changes.
            changes.pop();
            return ZoneChanges {
                first_offset: first_offset.unwrap_or(before),
                changes,
                end: Some(change - SECONDS_PER_DAY),
            };
        }
        let first_offset = *first_offset.get_or_insert(before);
        let next = boundary - EPOCH_SECONDS;
        let known_until = match found {
            0 => None,
            1 if boundary > at && next < end => {
                changes.push((next, after));
                at = boundary;
                continue;
            }
            1 if boundary > at => Some(end),
            // The server could not compute the next change.
            _ => Some(at - EPOCH_SECONDS),
        };
        return ZoneChanges {
            first_offset,
            changes,
            end: known_until,
        };
    }
}
