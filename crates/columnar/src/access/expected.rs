//! Which rows are read along with one that is asked for.
//!
//! ```text
//!   nothing known    a row that follows another: 4 rows, then 8, up to 64, in its direction
//!   rows expected    as many of them as are wanted, and never one that is not expected
//! ```
//!
//! A reader that looks into an index knows the rows to which it leads next; one that does not may
//! still go from row to row. Either way a row that stands alone is read by itself.

use std::ops::Range;

/// Rows of the first ones that are read together, and the most.
pub(super) const FIRST_ROWS: u32 = 4;
const MOST_ROWS: u32 = 64;

/// What a reader knows of the rows that it asks for next. By default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// Rows beside each other that may be asked for, from the row that is read on, in either
    /// direction: it is the first of them, or the last. Of other rows nothing is known.
    pub rows: Range<u32>,
    /// How many of them are surely asked for, that row among them.
    pub wanted: u32,
}

impl Expected {
    /// The farthest of the rows that are read along with this one because they are surely asked
    /// for, if there are any.
    pub fn farthest(&self, row: u32) -> Option<u32> {
        if !self.rows.contains(&row) {
            return None;
        }
        let steps = self.wanted.clamp(1, MOST_ROWS) - 1;
        let farthest = match row == self.rows.start {
            true => row.saturating_add(steps).min(self.rows.end - 1),
            false => row.saturating_sub(steps).max(self.rows.start),
        };
        (farthest != row).then_some(farthest)
    }
}

/// Rows that are read together, and those before them.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Those that were read last.
    rows: Range<u32>,
    /// How many rows they were to be.
    count: u32,
}

impl Progress {
    #[inline]
    pub(super) fn holds(&self, row: u32) -> bool {
        self.rows.contains(&row)
    }

    /// The place of a row among those that were read last.
    #[inline]
    pub(super) fn place(&self, row: u32) -> Option<usize> {
        self.rows
            .contains(&row)
            .then(|| (row - self.rows.start) as usize)
    }

    /// Notes which rows were read.
    pub(super) fn set(&mut self, rows: Range<u32>) {
        self.rows = rows;
    }

    /// The rows to be read for `row`, which is not among those that were read last, in a column of
    /// so many; `None` if it is to be read by itself. `before` is the row that was asked for before
    /// it, if that is near. None count as read from then on, until [`set`](Self::set).
    pub(super) fn next(
        &mut self,
        row: u32,
        row_count: u32,
        before: Option<u32>,
        expected: &Expected,
    ) -> Option<Range<u32>> {
        let last = &self.rows;
        let is_before = row.checked_add(1) == Some(last.start) && !last.is_empty();
        let goes_on = is_before || row == last.end && !last.is_empty();
        let likely = match before {
            None => 1,
            Some(_) if goes_on => self.count.saturating_mul(2),
            Some(_) => FIRST_ROWS,
        };
        let known = expected.rows.contains(&row).then_some(&expected.rows);
        let count = match known {
            Some(_) => likely.max(expected.wanted),
            None => likely,
        };
        let count = count.min(MOST_ROWS);
        let is_backwards = match known {
            Some(known) => row > known.start,
            None if goes_on => is_before,
            None => before > Some(row),
        };
        let rows = match is_backwards {
            true => (row + 1).saturating_sub(count)..row + 1,
            false => row..row.saturating_add(count),
        };
        let (least, most) = known.map_or((0, row_count), |known| (known.start, known.end));
        let rows = rows.start.max(least)..rows.end.min(most).min(row_count);
        if rows.len() < 2 {
            return None;
        }
        *self = Self { rows: 0..0, count };
        Some(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows that are read when these are asked for, which are expected like this.
    fn rows_for(
        asked: impl Iterator<Item = u32>,
        expected: impl Fn(u32) -> Expected,
    ) -> Vec<Range<u32>> {
        let mut progress = Progress::default();
        let mut last: Option<u32> = None;
        let mut read = Vec::new();
        for row in asked {
            let before = last.filter(|last| last.abs_diff(row) <= FIRST_ROWS);
            last = Some(row);
            if progress.holds(row) {
                continue;
            }
            let rows = progress.next(row, 1_000, before, &expected(row));
            let rows = rows.unwrap_or(row..row + 1);
            assert!(rows.contains(&row));
            read.push(rows.clone());
            if rows.len() > 1 {
                progress.set(rows);
            }
        }
        read
    }

    #[test]
    fn rows_that_follow_each_other_are_read_in_growing_numbers() {
        let unknown = |_| Expected::default();
        let all = [10..11, 11..15, 15..23, 23..39, 39..71, 71..135, 135..199];
        assert_eq!(rows_for(10..199, unknown), all);
        let back = [500..501, 496..500, 488..496, 472..488];
        assert_eq!(rows_for((472..501).rev(), unknown), back);
        assert_eq!(rows_for(997..1_000, unknown), [997..998, 998..1_000]);
        assert_eq!(rows_for([7, 100, 900].into_iter(), unknown).len(), 3);
    }

    #[test]
    fn rows_that_are_wanted_are_read_at_once_and_others_not_at_all() {
        let up_to = |end: u32, wanted: u32| {
            move |row| Expected {
                rows: row..end,
                wanted,
            }
        };
        let once = std::slice::from_ref(&(10..51));
        assert_eq!(rows_for(10..51, up_to(51, u32::MAX)), once);
        assert_eq!(rows_for(10..120, up_to(120, u32::MAX)), [10..74, 74..120]);
        let down = |row| Expected {
            rows: 10..row + 1,
            wanted: u32::MAX,
        };
        assert_eq!(rows_for((10..51).rev(), down), once);
        // Some are wanted, and the reader goes on.
        let all = [10..15, 15..25, 25..45, 45..60];
        assert_eq!(rows_for(10..60, up_to(60, 5)), all);
        assert_eq!(rows_for(10..14, up_to(60, 1)), [10..11, 11..15]);
        assert_eq!(up_to(60, 5)(10).farthest(10), Some(14));
        assert_eq!(up_to(12, 5)(10).farthest(10), Some(11));
        assert_eq!(down(200).farthest(200), Some(137));
        assert_eq!(up_to(60, 1)(10).farthest(10), None);
        assert_eq!(up_to(60, 5)(10).farthest(70), None);
        // Rows of which no other is expected.
        let alone = |row| Expected {
            rows: row..row + 1,
            wanted: u32::MAX,
        };
        assert_eq!(rows_for(10..12, alone), [10..11, 11..12]);
    }
}
