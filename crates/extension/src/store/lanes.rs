//! In which orders a reader goes through the rows of a group.
//!
//! A range of keys mostly leads from a row to its neighbour. Where rows came in several orders at
//! once (several loaders, or keys that a formula spreads) it leads from one order to the next, and
//! back to a neighbour of the row that it left there:
//!
//! ```text
//!   rows   10   5,010   9,010   11   5,011   9,011   12 …
//!   lane    0       1       2    0       1       2    0
//! ```
//!
//! So the last rows of some *lanes* are remembered, and a row is near if it is near one of them. A
//! lane to which the reader has come back keeps what it has decoded in a state of its own; all
//! others, such as ranges that are read one after the other, share one.

use howdah_columnar::BESIDE_ROWS;

/// Rows at most this far from the previous one count as near it.
pub(super) const NEAR_ROWS: u32 = 256;
/// Rows after this many near ones are read along with their neighbours; at once, if a row follows
/// the one before directly.
const NEAR_READS: u32 = 2;
/// Lanes that are told apart.
pub(super) const MOST_LANES: usize = 8;

/// Whether the neighbours of a row are likely to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Nearness {
    Far,
    /// Yes, and what is decoded of them belongs to the state that lanes share.
    Near,
    /// Yes, and to that of this lane.
    InLane(usize),
}

#[derive(Clone, Copy)]
struct Lane {
    /// The row that was read last.
    last: u32,
    /// How many rows before it were near each other.
    near: u32,
    /// When it was read, by number of reads.
    used: u64,
    /// Whether the reader came back from another lane.
    is_resumed: bool,
}

/// The lanes of one group.
pub(super) struct Lanes {
    lanes: [Lane; MOST_LANES],
    at: usize,
    reads: u64,
    /// How far the row that was noted last is from the one before it in its lane.
    step: u32,
}

impl Default for Lanes {
    fn default() -> Self {
        let nowhere = Lane {
            last: u32::MAX,
            near: 0,
            used: 0,
            is_resumed: false,
        };
        Lanes {
            lanes: [nowhere; MOST_LANES],
            at: 0,
            reads: 0,
            step: u32::MAX,
        }
    }
}

impl Lanes {
    /// Notes that a row is read.
    pub(super) fn note(&mut self, row: u32) -> Nearness {
        self.reads += 1;
        let is_near = |lane: &Lane| row.abs_diff(lane.last) <= NEAR_ROWS;
        if !is_near(&self.lanes[self.at]) {
            match self.lanes.iter().position(is_near) {
                Some(lane) => {
                    self.at = lane;
                    self.lanes[lane].is_resumed = true;
                }
                None => {
                    self.at = self.oldest();
                    self.lanes[self.at] = Lane {
                        last: row,
                        near: 0,
                        used: self.reads,
                        is_resumed: false,
                    };
                    self.step = u32::MAX;
                    return Nearness::Far;
                }
            }
        }
        let lane = &mut self.lanes[self.at];
        // More columns of the same row are no neighbour.
        let step = match row.abs_diff(lane.last) {
            0 => 0,
            1 => NEAR_READS,
            _ => 1,
        };
        if row != lane.last {
            self.step = row.abs_diff(lane.last);
        }
        lane.near = lane.near.saturating_add(step);
        (lane.last, lane.used) = (row, self.reads);
        match (lane.near >= NEAR_READS, lane.is_resumed) {
            (false, _) => Nearness::Far,
            (true, false) => Nearness::Near,
            (true, true) => Nearness::InLane(self.at),
        }
    }

    /// Whether the row that was noted last is so close to the one before it in its lane that it was
    /// probably decoded along with that one.
    pub(super) fn is_beside(&self) -> bool {
        self.step <= BESIDE_ROWS
    }

    fn oldest(&self) -> usize {
        let lanes = self.lanes.iter().enumerate();
        let oldest = lanes.min_by_key(|(_, lane)| lane.used);
        oldest.map_or(0, |(at, _)| at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(rows: &[u32]) -> Vec<Nearness> {
        let mut lanes = Lanes::default();
        rows.iter().map(|&row| lanes.note(row)).collect()
    }

    #[test]
    fn neighbours_are_near_and_share_a_state() {
        use Nearness::{Far, Near};
        assert_eq!(
            notes(&[7, 8, 9, 5_000, 4_999]),
            [Far, Near, Near, Far, Near]
        );
        // Not directly beside each other: from the third one on.
        assert_eq!(notes(&[7, 17, 27, 37]), [Far, Far, Near, Near]);
        assert_eq!(notes(&[0, 1_000, 2_000, 3_000]), [Far; 4]);
        assert_eq!(notes(&[7, 7, 7, 8, 8]), [Far, Far, Far, Near, Near]);
    }

    #[test]
    fn rows_beside_the_last_one_of_their_lane_are_told_from_rows_near_it() {
        let mut lanes = Lanes::default();
        let rows = [7, 8, 12, 17, 5_000, 5_001, 18, 18, 200];
        let beside = rows.map(|row| {
            lanes.note(row);
            lanes.is_beside()
        });
        assert_eq!(
            beside,
            [false, true, true, false, false, true, true, true, false]
        );
    }

    #[test]
    fn orders_that_take_turns_have_a_state_each() {
        let rows = [10, 5_010, 9_010, 11, 5_011, 9_011, 12, 13, 5_012];
        let found = notes(&rows);
        assert_eq!(found[..3], [Nearness::Far; 3]);
        let lanes: Vec<usize> = found[3..]
            .iter()
            .filter_map(|found| match found {
                Nearness::InLane(lane) => Some(*lane),
                _ => None,
            })
            .collect();
        assert_eq!(lanes.len(), 6);
        let (a, b, c) = (lanes[0], lanes[1], lanes[2]);
        assert!(a != b && b != c && a != c);
        assert_eq!(lanes[3..], [a, a, b]);
    }

    #[test]
    fn a_lane_that_was_left_is_used_for_other_rows() {
        let mut lanes = Lanes::default();
        for turn in 0..2 {
            (0..MOST_LANES as u32).for_each(|lane| {
                lanes.note(lane * 10_000 + turn);
            });
        }
        assert_eq!(lanes.note(1_000_000), Nearness::Far);
        assert_eq!(lanes.note(1_000_001), Nearness::Near);
        // The oldest one has given its place.
        assert_eq!(lanes.note(2), Nearness::Far);
    }
}
