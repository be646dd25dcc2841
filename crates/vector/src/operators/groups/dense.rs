//! Groups of integers that lie close together: looked up by place instead of by hash.
//!
//! ```text
//!   integer - base ─▶ group plus one; 0 has none
//! ```
//!
//! The table grows with the integers. It takes no more memory than a hash table of the same groups,
//! or than it is granted. If an integer is too far away for that, the caller hashes all of them, or
//! closes the table, which grows no more then, and hashes those that it does not cover.

/// The most entries of a table: 16 MB.
const MOST_ENTRIES: usize = 1 << 22;

/// Entries that few rows may have: 2 MB, of which only the pages of existing integers are
/// touched.
const SMALL: usize = 1 << 19;

/// Entries for each row so far, beyond these.
const ENTRIES_OF_ROW: usize = 64;

/// Entries for each group that take no more memory than a hash table's.
const ENTRIES_OF_GROUP: usize = 8;

/// Groups by integer.
#[derive(Debug)]
pub(super) struct Dense {
    /// Bits of the integers: words hold them without a sign.
    bits: u32,
    base: i64,
    groups: Vec<u32>,
    /// The number of entries for which memory is granted.
    granted_entries: usize,
    row_count: usize,
    is_closed: bool,
}

impl Dense {
    pub(super) fn new(bits: u32, granted_entries: usize) -> Self {
        Self {
            bits,
            base: 0,
            groups: Vec::new(),
            granted_entries,
            row_count: 0,
            is_closed: false,
        }
    }

    /// The integer of a word.
    #[inline(always)]
    fn integer(word: u64, unused_bits: u32) -> i64 {
        (word << unused_bits) as i64 >> unused_bits
    }

    fn extremes(words: &[u64], unused_bits: u32) -> (i64, i64) {
        const LANES: usize = 4;
        let (mut least, mut greatest) = ([i64::MAX; LANES], [i64::MIN; LANES]);
        let (chunks, rest) = words.as_chunks::<LANES>();
        for chunk in chunks {
            for lane in 0..LANES {
                let integer = Self::integer(chunk[lane], unused_bits);
                least[lane] = least[lane].min(integer);
                greatest[lane] = greatest[lane].max(integer);
            }
        }
        for &word in rest {
            let integer = Self::integer(word, unused_bits);
            least[0] = least[0].min(integer);
            greatest[0] = greatest[0].max(integer);
        }
        let least = least.into_iter().min().unwrap_or(i64::MAX);
        let greatest = greatest.into_iter().max().unwrap_or(i64::MIN);
        (least, greatest)
    }

    /// Makes it keep its size from now on.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Whether the integer of a word has its place here.
    #[inline(always)]
    pub(super) fn covers(&self, word: u64) -> bool {
        self.at(word) < self.groups.len()
    }

    #[inline(always)]
    fn at(&self, word: u64) -> usize {
        Self::integer(word, 64 - self.bits).wrapping_sub(self.base) as usize
    }

    /// Makes room for the integers of these words; `false` if they lie too far apart, or if some of
    /// them are not covered by a closed table.
    pub(super) fn cover(&mut self, words: &[u64], group_count: usize) -> bool {
        if words.is_empty() {
            return true;
        }
        self.row_count = self.row_count.saturating_add(words.len());
        let (min, max) = Self::extremes(words, 64 - self.bits);
        let (old_base, old_len) = (i128::from(self.base), self.groups.len() as i128);
        let (min, max) = (i128::from(min), i128::from(max));
        if old_base <= min && max < old_base + old_len {
            return true;
        }
        if self.is_closed {
            return false;
        }
        let (low, high) = match self.groups.is_empty() {
            true => (min, max),
            false => (min.min(old_base), max.max(old_base + old_len - 1)),
        };
        let most = SMALL
            .max(self.row_count.saturating_mul(ENTRIES_OF_ROW))
            .min(self.granted_entries)
            .max(group_count.saturating_mul(ENTRIES_OF_GROUP))
            .min(MOST_ENTRIES) as i128;
        let span = high - low + 1;
        if span > most {
            return false;
        }
        // Twice as many as before, in the direction in which it grows: integers that rise do not
        // make it grow often.
        let len = span.max(2 * old_len).min(most);
        let base = match min < old_base && max < old_base + old_len {
            true => high - len + 1,
            false => low,
        };
        // Within 64 bits; what is cut off lies beyond the integers.
        let base = base.clamp(i64::MIN.into(), i128::from(i64::MAX) - len + 1);
        let mut groups = vec![0; len as usize];
        if !self.groups.is_empty() {
            let start = (old_base - base) as usize;
            groups[start..start + self.groups.len()].copy_from_slice(&self.groups);
        }
        (self.base, self.groups) = (base as i64, groups);
        true
    }

    /// Appends the groups of words that are covered; the words of new groups go to the store.
    pub(super) fn ids_of(&mut self, words: &[u64], store: &mut Vec<u64>, ids: &mut Vec<u32>) {
        let (base, unused_bits) = (self.base, 64 - self.bits);
        let groups = self.groups.as_mut_slice();
        ids.extend(words.iter().map(|&word| {
            let at = Self::integer(word, unused_bits).wrapping_sub(base) as usize;
            let group = &mut groups[at];
            if *group == 0 {
                store.push(word);
                *group = store.len() as u32;
            }
            *group - 1
        }));
    }

    /// The group of a word.
    #[inline(always)]
    pub(super) fn find(&self, word: u64) -> Option<u32> {
        self.groups.get(self.at(word))?.checked_sub(1)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.groups.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bits: u32, batches: &[&[i64]]) -> bool {
        let mut dense = Dense::new(bits, MOST_ENTRIES);
        let (mut store, mut ids, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for batch in batches {
            let mask = u64::MAX >> (64 - bits);
            let words: Vec<u64> = batch.iter().map(|&v| v as u64 & mask).collect();
            if !dense.cover(&words, store.len()) {
                return false;
            }
            dense.ids_of(&words, &mut store, &mut ids);
            all.extend(words);
        }
        for word in [u64::MAX >> (64 - bits), 0, 1, 77] {
            let group = store.iter().position(|&known| known == word);
            assert_eq!(dense.find(word), group.map(|group| group as u32));
        }
        for (a, &word) in all.iter().enumerate() {
            assert_eq!(dense.find(word), Some(ids[a]));
            assert_eq!(store[ids[a] as usize], word);
            let first = all.iter().position(|&other| other == word);
            assert_eq!(ids[first.unwrap_or(0)], ids[a]);
        }
        true
    }

    #[test]
    fn integers_at_both_ends_have_groups() {
        assert!(check(64, &[&[i64::MAX - 3, i64::MAX], &[i64::MAX - 70]]));
        assert!(check(
            64,
            &[&[i64::MIN + 3, i64::MIN + 9], &[i64::MIN, 90 + i64::MIN]]
        ));
        assert!(check(16, &[&[-5, 3, -5], &[-32_768], &[32_767, 3]]));
        assert!(check(32, &[&[0], &[-1], &[-2_000, 5_000], &[-2_000, 0]]));
        let rising: Vec<i64> = (0..3_000_000).step_by(7).collect();
        let batches: Vec<&[i64]> = rising.chunks(1_000).take(20).collect();
        assert!(check(64, &batches));
    }

    #[test]
    fn integers_far_apart_are_refused() {
        assert!(!check(64, &[&[i64::MIN, i64::MAX]]));
        assert!(!check(32, &[&[1, 2], &[i64::from(i32::MAX)]]));
    }
}
