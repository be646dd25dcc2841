//! The budget of I/O that background workers share.
//!
//! It uses PostgreSQL's own mechanism: the buffer manager counts pages that are read from disk or
//! dirtied in `VacuumCostBalance` while `VacuumCostActive` is set, and `vacuum_delay_point` sleeps
//! according to the count. A worker sets the cost of each such page to one, and sets limit and
//! delay so that together they make `howdah.compact_io_limit`, divided by the number of running
//! workers. So a VACUUM that compaction calls takes part as it is; survey, mover, merge and sweep
//! call [`pay`]. Pages found in shared buffers cost nothing.
//!
//! `vacuum_delay_point` forgives what exceeds four delays; [`pay`] does not, because a row group is
//! written in one go and paid for afterwards.
//!
//! A worker never sleeps between the first stamp on a hot row and the commit, because writers wait
//! for that commit. While it sleeps it holds the table's lock; it wakes up when another backend
//! waits for that lock. `CALL howdah.compact()` has no limit, like a VACUUM by hand.

use std::cell::Cell;

use howdah_bridge::io_cost;
use howdah_bridge::relation::PAGE_BYTES;
use howdah_bridge::table::Table;

use super::progress::must_yield;
use super::{policy, shared};

/// The delay, unless the limit allows so few pages that one takes longer.
const DELAY_MS: f64 = 10.0;
/// The greatest value of `vacuum_cost_delay`.
const LONGEST_DELAY_MS: f64 = 100.0;
/// The greatest value of `vacuum_cost_limit`.
const MOST_PAGES: f64 = 10_000.0;
/// A sleeping worker looks for waiters at this interval.
const LOOK_UP_MS: f64 = 100.0;

thread_local! {
    /// The pages and the delay that are set.
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

/// Sets the limits according to settings and number of workers. For background workers only.
pub fn refresh() {
    let wanted = pages_per_delay(policy::io_limit_bytes(), shared::worker_count());
    let (pages, delay_ms) = wanted.unwrap_or((1, 0.0));
    if SET.replace((pages, delay_ms)) != (pages, delay_ms) {
        io_cost::limit(pages, delay_ms);
    }
}

/// Sleeps for the I/O since the last call, or until another backend waits for the table, which a
/// step of compaction has locked.
pub fn pay(table: Table<'_>) {
    let mut owed_ms = io_cost::take_delay_ms();
    while owed_ms > 0.0 {
        io_cost::sleep_ms(owed_ms.min(LOOK_UP_MS));
        owed_ms -= LOOK_UP_MS;
        howdah_bridge::check_for_interrupts!();
        if must_yield(table) {
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
