//! The budget of I/O that background workers share.
//!
//! It is PostgreSQL's own: the buffer manager counts pages that are read from disk or made dirty in
//! `VacuumCostBalance` while `VacuumCostActive` is set, and `vacuum_delay_point` sleeps for what
//! was counted. A worker counts one for each such page, and sets limit and delay so that together
//! they make `howdah.compact_io_limit`, divided by the workers that run. So VACUUM, called by
//! compaction, takes part as it is, and survey, mover, merge and sweep pay by [`pay`]. Pages found
//! in shared buffers are free.
//!
//! `vacuum_delay_point` forgives what is more than four delays; [`pay`] does not: a row group is
//! written in one go, and paid for afterwards.
//!
//! There is no sleep between the first stamp on a hot row and the commit: writers wait for that. A
//! sleeping worker holds the table's lock; it wakes when another backend waits for it. `CALL
//! howdah.compact()` has no limit, like VACUUM by hand.

use std::cell::Cell;

use howdah_bridge::io_cost;
use howdah_bridge::maintained::has_waiters;
use howdah_bridge::relation::PAGE_BYTES;
use howdah_bridge::table::Table;

use super::{policy, shared};

/// The delay, unless so few pages are allowed that one takes longer.
const DELAY_MS: f64 = 10.0;
/// The greatest value of `vacuum_cost_delay`.
const LONGEST_DELAY_MS: f64 = 100.0;
/// The greatest value of `vacuum_cost_limit`.
const MOST_PAGES: f64 = 10_000.0;
/// A sleeping worker looks for waiters after so long.
const LOOK_UP_MS: f64 = 100.0;

thread_local! {
    /// Pages and delay that are set.
    static SET: Cell<(i32, f64)> = const { Cell::new((0, 0.0)) };
}

/// Pages that may be read or made dirty in one delay, and the delay; `None` for no limit.
fn pages_per_delay(bytes_per_second: u64, workers: u32) -> Option<(i32, f64)> {
    if bytes_per_second == 0 {
        return None;
    }
    let pages_per_ms =
        bytes_per_second as f64 / f64::from(PAGE_BYTES) / f64::from(workers) / 1000.0;
    let delay_ms = match pages_per_ms * DELAY_MS < 1.0 {
        true => LONGEST_DELAY_MS,
        false => DELAY_MS,
    };
    let pages = (pages_per_ms * delay_ms).clamp(1.0, MOST_PAGES);
    Some((pages as i32, delay_ms))
}

/// Sets the limits as settings and the number of workers ask for it. For background workers only.
pub fn refresh() {
    let wanted = pages_per_delay(policy::io_limit_bytes(), shared::worker_count());
    let (pages, delay_ms) = wanted.unwrap_or((1, 0.0));
    if SET.replace((pages, delay_ms)) != (pages, delay_ms) {
        io_cost::limit(pages, delay_ms);
    }
}

/// Sleeps for the I/O since the last time, or until another backend waits for the table, which a
/// step of compaction has locked.
pub fn pay(table: Table<'_>) {
    let mut owed_ms = io_cost::take_debt_ms();
    while owed_ms > 0.0 {
        io_cost::sleep_ms(owed_ms.min(LOOK_UP_MS));
        owed_ms -= LOOK_UP_MS;
        pgrx::check_for_interrupts!();
        if has_waiters(table) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pages_per_delay;

    #[test]
    fn limits_come_out_as_asked() {
        assert_eq!(pages_per_delay(0, 1), None);
        for (kb_per_second, workers, pages, delay_ms) in [
            (128 * 1024, 1, 163, 10.0),
            (128 * 1024, 2, 81, 10.0),
            (800, 1, 1, 10.0),
            (400, 1, 5, 100.0),
            (1, 1, 1, 100.0),
            (1 << 30, 1, 10_000, 10.0),
        ] {
            let found = pages_per_delay(kb_per_second * 1024, workers);
            assert_eq!(found, Some((pages, delay_ms)), "{kb_per_second} kB/s");
        }
    }
}
