//! Where the pieces of a long value are.
//!
//! The pieces mostly lie on consecutive pages, so the block of one gives the blocks of all others:
//! a map remembers where runs of them begin. It is a hint: see [`super::value`].

use pgrx::pg_sys;

use super::piece::{PIECE_BYTES, Verified};
use super::recent::Hint;

/// Runs of pieces that are remembered of one value.
const MOST_RUNS: usize = 1_024;
/// Pieces that are requested for one row and remembered.
const MOST_REQUESTED: usize = 128;
/// Pieces of one value for which the verified kilobytes are remembered.
const MOST_REMEMBERED: usize = 1 << 15;
/// Where the pieces of a value were found, or should be according to a hint.
#[derive(Clone, Debug, Default)]
pub struct PieceMap {
    /// First piece and its block, ascending: the next pieces are on the next blocks.
    runs: Vec<(i32, pg_sys::BlockNumber)>,
    /// What was verified of each piece.
    verified: Vec<Verified>,
    /// Pieces whose memory was requested for a row, with blocks and buffers, and the place of the
    /// one after that which was asked for last.
    requested: Vec<(i32, pg_sys::BlockNumber, Hint)>,
    next: usize,
}

impl PieceMap {
    /// The map of a value that begins at this block; `InvalidBlockNumber` means unknown.
    pub fn starting_at(block: pg_sys::BlockNumber) -> PieceMap {
        let runs = match block {
            pg_sys::InvalidBlockNumber => Vec::new(),
            block => vec![(0, block)],
        };
        PieceMap {
            runs,
            ..PieceMap::default()
        }
    }

    /// The most memory that the map of a value of this size can hold.
    pub fn most_memory_bytes(value_bytes: u64) -> usize {
        ((value_bytes / PIECE_BYTES as u64) as usize + 1) * size_of::<Verified>()
            + MOST_REQUESTED * size_of::<(i32, pg_sys::BlockNumber, Hint)>()
    }

    /// Forgets what was requested.
    pub(super) fn forget_requested(&mut self) {
        self.requested.clear();
        self.next = 0;
    }

    /// Notes that the memory of a piece on this block was requested.
    pub(super) fn note_requested(&mut self, seq: i32, block: pg_sys::BlockNumber, hint: Hint) {
        let is_last = self.requested.last().is_some_and(|last| last.0 == seq);
        if !is_last && self.requested.len() < MOST_REQUESTED {
            self.requested.push((seq, block, hint));
        }
    }

    /// The block of a piece and the buffer where that was, if it was requested. Pieces are mostly
    /// asked for in the order of their requests; those of places that had to be read first come
    /// after others.
    #[inline(always)]
    pub(super) fn find_requested(&mut self, seq: i32) -> Option<(pg_sys::BlockNumber, Hint)> {
        match self.requested.get(self.next) {
            Some(&(other, block, hint)) if other == seq => {
                self.next += 1;
                Some((block, hint))
            }
            _ => self.search_requested(seq),
        }
    }

    #[inline(never)]
    fn search_requested(&mut self, seq: i32) -> Option<(pg_sys::BlockNumber, Hint)> {
        let (before, after) = self.requested.split_at(self.next);
        let is_it = |&(other, _, _): &(i32, pg_sys::BlockNumber, Hint)| other == seq;
        let at = match after.iter().position(is_it) {
            Some(further) => self.next + further,
            None => before.iter().position(is_it)?,
        };
        self.next = at + 1;
        let (_, block, hint) = self.requested[at];
        Some((block, hint))
    }

    pub(super) fn verified(&self, seq: i32) -> Verified {
        let known = self.verified.get(seq as usize);
        known.copied().unwrap_or_default()
    }

    pub(super) fn note_verified(&mut self, seq: i32, verified: Verified) {
        let at = seq as usize;
        if at >= MOST_REMEMBERED {
            return;
        }
        if at >= self.verified.len() {
            self.verified.resize(at + 1, Verified::default());
        }
        self.verified[at] = verified;
    }

    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<(i32, pg_sys::BlockNumber)>()
            + self.verified.capacity() * size_of::<Verified>()
            + self.requested.capacity() * size_of::<(i32, pg_sys::BlockNumber, Hint)>()
    }

    /// The block where the piece should be.
    pub(super) fn guess(&self, seq: i32) -> Option<pg_sys::BlockNumber> {
        let after = self.runs.partition_point(|(first, _)| *first <= seq);
        let (first, block) = *self.runs.get(after.checked_sub(1)?)?;
        block.checked_add((seq - first) as u32)
    }

    /// How many pieces from this one on should lie on consecutive blocks.
    pub(super) fn run_from(&self, seq: i32) -> i32 {
        let after = self.runs.partition_point(|(first, _)| *first <= seq);
        let end = self.runs.get(after).map_or(i32::MAX, |(first, _)| *first);
        end - seq
    }

    /// Remembers where a piece is.
    pub(super) fn learn(&mut self, seq: i32, block: pg_sys::BlockNumber) {
        if self.guess(seq) == Some(block) {
            return;
        }
        let at = self.runs.partition_point(|(first, _)| *first < seq);
        let is_full = self.runs.len() >= MOST_RUNS;
        match self.runs.get_mut(at) {
            Some(run) if run.0 == seq => run.1 = block,
            _ if is_full => return,
            _ => self.runs.insert(at, (seq, block)),
        }
        // The next run may be a part of this one.
        if let Some(&(next, next_block)) = self.runs.get(at + 1)
            && block.checked_add((next - seq) as u32) == Some(next_block)
        {
            self.runs.remove(at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_goes_on_from_the_run_before() {
        let mut map = PieceMap::starting_at(100);
        assert_eq!(map.guess(0), Some(100));
        assert_eq!(map.guess(7), Some(107));
        assert_eq!(map.run_from(3), i32::MAX - 3);
        map.learn(5, 300);
        assert_eq!(map.guess(4), Some(104));
        assert_eq!(map.guess(9), Some(304));
        assert_eq!(map.run_from(3), 2);
    }

    #[test]
    fn a_wrong_hint_costs_few_look_ups() {
        let mut map = PieceMap::starting_at(100);
        let place = |seq: i32| 5_000 + seq as u32;
        let mut look_ups = 0;
        for k in 0..4_000 {
            let seq = (k * 797) % 1_500;
            if map.guess(seq) != Some(place(seq)) {
                look_ups += 1;
                map.learn(seq, place(seq));
            }
        }
        assert!(look_ups < 30, "{look_ups} look-ups");
        assert_eq!(map.runs, [(0, 5_000)]);
    }

    #[test]
    fn without_a_hint_nothing_is_guessed_before_the_first_piece_that_is_known() {
        let mut map = PieceMap::starting_at(pg_sys::InvalidBlockNumber);
        assert_eq!(map.guess(0), None);
        map.learn(9, 50);
        assert_eq!(map.guess(8), None);
        assert_eq!(map.guess(10), Some(51));
        assert_eq!(map.guess(i32::MAX), Some(50 + (i32::MAX - 9) as u32));
    }

    #[test]
    fn requested_pieces_are_found_in_any_order() {
        let mut map = PieceMap::starting_at(100);
        let hint = Hint::of_test();
        assert!(map.find_requested(3).is_none());
        for seq in [3, 3, 9, 2, 3, 40, 41] {
            map.note_requested(seq, 100 + seq as u32, hint);
        }
        assert_eq!(map.requested.len(), 6, "one that follows itself is one");
        let mut find = |seq| map.find_requested(seq).map(|(block, _)| block);
        for seq in [3, 9, 41, 2, 3, 3, 40, 9, 9] {
            assert_eq!(find(seq), Some(100 + seq as u32), "{seq}");
        }
        assert_eq!(find(4), None);
        map.forget_requested();
        assert!(map.find_requested(3).is_none());
        for seq in 0..1_000 {
            map.note_requested(seq, 5, hint);
        }
        assert!(map.requested.capacity() <= 2 * MOST_REQUESTED);
        assert_eq!(map.find_requested(0).map(|(block, _)| block), Some(5));
        assert!(map.find_requested(999).is_none());
    }

    #[test]
    fn a_scattered_value_does_not_grow_its_map_without_bound() {
        let mut map = PieceMap::default();
        for seq in 0..10_000 {
            map.learn(seq, 2 * seq as u32);
        }
        assert!(map.runs.len() <= MOST_RUNS);
    }
}
