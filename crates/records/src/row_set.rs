//! Sets of rows of one row group, by position.

use std::ops::Range;

/// A set of positions below a fixed bound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSet {
    words: Vec<u64>,
    len: u32,
}

impl RowSet {
    /// An empty set of positions below `bound`.
    pub fn with_bound(bound: u32) -> RowSet {
        RowSet {
            words: vec![0; (bound as usize).div_ceil(64)],
            len: 0,
        }
    }

    /// All positions below `bound`.
    pub fn full(bound: u32) -> RowSet {
        let mut set = RowSet::with_bound(bound);
        set.words.fill(u64::MAX);
        if let (Some(last), rest @ 1..) = (set.words.last_mut(), bound % 64) {
            *last = (1 << rest) - 1;
        }
        set.len = bound;
        set
    }

    /// How many positions are in the set.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether no position is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a position; returns whether it is new.
    ///
    /// # Panics
    /// If `position` is not below the bound.
    #[inline]
    pub fn insert(&mut self, position: u32) -> bool {
        let word = &mut self.words[position as usize / 64];
        let bit = 1 << (position % 64);
        let new = *word & bit == 0;
        *word |= bit;
        self.len += u32::from(new);
        new
    }

    /// Whether the position is in the set.
    #[inline]
    pub fn contains(&self, position: u32) -> bool {
        self.words
            .get(position as usize / 64)
            .is_some_and(|word| word >> (position % 64) & 1 == 1)
    }

    /// How many positions below `position` are in the set.
    #[inline]
    pub fn count_below(&self, position: u32) -> u32 {
        let (whole, rest) = (position as usize / 64, position % 64);
        let below = |word: u64| word & ((1 << rest) - 1);
        self.words[..whole.min(self.words.len())]
            .iter()
            .map(|w| w.count_ones())
            .sum::<u32>()
            + self.words.get(whole).map_or(0, |&w| below(w).count_ones())
    }

    /// The set as little-endian words, for storing.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    /// A set from stored words.
    pub fn from_bytes(bytes: &[u8]) -> RowSet {
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|b| u64::from_le_bytes(b.try_into().unwrap_or_default()))
            .collect();
        let len = words.iter().map(|w| w.count_ones()).sum();
        RowSet { words, len }
    }

    /// The words, 64 positions each, lowest first.
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The positions, ascending.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        positions_of(&self.words, 0)
    }

    /// Those in a range, ascending.
    pub fn iter_among(&self, range: Range<u32>) -> impl Iterator<Item = u32> {
        let first = range.start as usize / 64;
        let end = (range.end as usize).div_ceil(64).min(self.words.len());
        let words = self.words.get(first..end).unwrap_or_default();
        positions_of(words, first).filter(move |position| range.contains(position))
    }
}

/// The positions of words, of which the first has this place.
#[inline]
fn positions_of(words: &[u64], first: usize) -> impl Iterator<Item = u32> {
    words.iter().zip(first..).flat_map(|(&word, i)| {
        std::iter::successors((word != 0).then_some(word), |w| {
            let rest = w & (w - 1);
            (rest != 0).then_some(rest)
        })
        .map(move |w| i as u32 * 64 + w.trailing_zeros())
    })
}

#[cfg(test)]
mod tests {
    use super::RowSet;

    #[test]
    fn a_set_counts_and_lists_what_was_put_in() {
        let mut set = RowSet::with_bound(200);
        for position in [3, 64, 199, 3] {
            set.insert(position);
        }
        assert_eq!(set.len(), 3);
        assert_eq!(set.iter().collect::<Vec<_>>(), [3, 64, 199]);
        let among = |range| set.iter_among(range).collect::<Vec<_>>();
        assert_eq!(among(0..200), [3, 64, 199]);
        assert_eq!((among(4..64), among(64..65)), (vec![], vec![64]));
        assert_eq!((among(65..5_000), among(5_000..5_001)), (vec![199], vec![]));
        assert_eq!(
            [3, 4, 64, 65, 199, 200].map(|p| set.count_below(p)),
            [0, 1, 1, 2, 2, 3]
        );
        assert_eq!(RowSet::from_bytes(&set.to_bytes()), set);
        assert!(set.contains(64) && !set.contains(65) && !set.contains(5_000));
    }
}
