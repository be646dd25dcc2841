//! The rows of a group that a reader asks for next, as far as an index tells.

use howdah_columnar::{Expected, MOST_SCATTERED};

/// Rows beside each other that are looked for, and how many of them are worth a stretch if others
/// follow.
const MOST_BESIDE: usize = 64;
const FEWEST_BESIDE: usize = 4;

/// The rows that are asked for, the one that is read first. By default nothing is known of others.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Coming {
    /// Those beside the first one.
    pub expected: Expected,
    /// Rows here and there; none if they are better read as those beside each other.
    pub scattered: Vec<u32>,
}

/// Rows that an index leads to, one after the other.
#[derive(Debug)]
pub struct After {
    /// Made for each row that is read: not in memory of their own.
    rows: [u32; MOST_BESIDE],
    /// How many rows, of whatever group, are asked for before each of them.
    before: [u32; MOST_BESIDE],
    count: usize,
    /// How many were shown.
    shown: u32,
    /// How many of them are the first ones beside each other, and whether these ascend.
    beside: usize,
    ascends: bool,
}

impl After {
    /// So far the row that is read.
    pub fn of(row: u32) -> After {
        After {
            rows: [row; MOST_BESIDE],
            before: [0; MOST_BESIDE],
            count: 1,
            shown: 1,
            beside: 1,
            ascends: true,
        }
    }

    /// Notes that the next row is none of the group.
    pub fn pass_over(&mut self) {
        self.shown += 1;
    }

    /// Adds the next row. Whether others may be added.
    pub fn add(&mut self, row: u32) -> bool {
        let (first, count) = (self.rows[0], self.count);
        if count == 1 {
            self.ascends = row > first;
        }
        let is_next = match self.ascends {
            true => row.checked_sub(first) == Some(count as u32),
            false => first.checked_sub(row) == Some(count as u32),
        };
        self.beside += usize::from(is_next && self.beside == count);
        self.rows[count] = row;
        self.before[count] = self.shown;
        self.count += 1;
        self.shown += 1;
        let most = match self.beside == self.count {
            true => MOST_BESIDE,
            false => MOST_SCATTERED,
        };
        self.count < most
    }

    /// All of them, if so many rows are surely asked for, of whatever groups.
    pub fn finish(self, wanted: u32) -> Coming {
        let (first, beside) = (self.rows[0], self.beside as u32);
        if self.beside < FEWEST_BESIDE && self.beside < self.count {
            let before = &self.before[..self.count.min(MOST_SCATTERED)];
            let asked = before.partition_point(|&before| before < wanted);
            return Coming {
                expected: Expected {
                    rows: first..first + 1,
                    wanted: 1,
                },
                scattered: self.rows[..asked].to_vec(),
            };
        }
        let rows = match self.ascends {
            true => first..first + beside,
            false => first + 1 - beside..first + 1,
        };
        Coming {
            expected: Expected { rows, wanted },
            scattered: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coming(rows: &[u32], wanted: u32) -> Coming {
        let mut after = After::of(rows[0]);
        let _ = rows[1..].iter().all(|&row| after.add(row));
        after.finish(wanted)
    }

    fn beside(rows: std::ops::Range<u32>) -> Coming {
        Coming {
            expected: Expected { rows, wanted: 9 },
            scattered: Vec::new(),
        }
    }

    #[test]
    fn rows_beside_each_other_are_counted_both_ways() {
        assert_eq!(coming(&[7], 9), beside(7..8));
        assert_eq!(coming(&[7, 8, 9], 9), beside(7..10));
        assert_eq!(coming(&[7, 6, 5, 4], 9), beside(4..8));
        assert_eq!(coming(&[2, 1, 0], 9), beside(0..3));
        assert_eq!(coming(&[7, 8, 9, 10, 50, 60], 9), beside(7..11));
        let long: Vec<u32> = (100..1_000).collect();
        assert_eq!(coming(&long, 9), beside(100..164));
    }

    #[test]
    fn rows_here_and_there_are_as_many_as_are_wanted() {
        let scattered = |rows: &[u32], wanted| coming(rows, wanted).scattered;
        assert_eq!(scattered(&[7, 50, 51], 9), [7, 50, 51]);
        assert_eq!(scattered(&[7, 8, 50], 9), [7, 8, 50]);
        assert_eq!(scattered(&[90, 8, 50], 2), [90, 8]);
        assert_eq!(scattered(&[90, 90, 90], 9), [90, 90, 90]);
        let many: Vec<u32> = (0..100).map(|row| row * 7 % 100).collect();
        assert_eq!(scattered(&many, u32::MAX), many[..MOST_SCATTERED]);
        assert_eq!(coming(&many, 3).expected.rows, 0..1);
    }

    #[test]
    fn rows_of_other_groups_are_among_those_that_are_wanted() {
        let mut after = After::of(90);
        for row in [8, 50, 3] {
            after.pass_over();
            after.pass_over();
            after.add(row);
        }
        // 90 · · 8 · · 50 · · 3
        assert_eq!(after.finish(6).scattered, [90, 8]);
    }
}
