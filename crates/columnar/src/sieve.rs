//! Few bits that tell of most values that they are not in a list.
//!
//! A search in a list of hundreds of values takes longer than reading the value that is looked for,
//! and nearly all values of a column are not in it. So the values of the list set bits, one each of
//! so many that most are clear; and only a value whose bit is set is searched for.

/// Bits for each value of the list, at least.
const BITS_PER_VALUE: usize = 16;
/// Bits in all, at most: they should stay in the processor's first cache.
const MOST_BITS: usize = 1 << 17;

/// The bits of a list.
pub(crate) struct Sieve {
    bits: Vec<u64>,
    /// Which bits of a hash are used.
    shift: u32,
}

impl Sieve {
    /// Of values with these hashes: of [`hash_of_bytes`], or [`hash_of_integer`].
    pub fn of(hashes: impl ExactSizeIterator<Item = u64>) -> Sieve {
        let wanted = (hashes.len() * BITS_PER_VALUE).next_power_of_two();
        let bit_count = wanted.clamp(64, MOST_BITS);
        let mut sieve = Sieve {
            bits: vec![0; bit_count / 64],
            shift: u64::BITS - bit_count.trailing_zeros(),
        };
        for hash in hashes {
            let bit = hash >> sieve.shift;
            sieve.bits[bit as usize / 64] |= 1 << (bit % 64);
        }
        sieve
    }

    /// Whether a value with this hash may be in the list.
    #[inline]
    pub fn may_hold(&self, hash: u64) -> bool {
        let bit = hash >> self.shift;
        self.bits[bit as usize / 64] >> (bit % 64) & 1 == 1
    }
}

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

#[inline]
pub(crate) fn hash_of_integer(value: i64) -> u64 {
    (value as u64).wrapping_mul(FACTOR)
}

/// A hash of the length, the first eight bytes and the last eight.
#[inline]
pub(crate) fn hash_of_bytes(bytes: &[u8]) -> u64 {
    let (first, last) = match (bytes.first_chunk(), bytes.last_chunk()) {
        (Some(&first), Some(&last)) => (u64::from_le_bytes(first), u64::from_le_bytes(last)),
        _ => {
            let mut all = [0; 8];
            all[..bytes.len()].copy_from_slice(bytes);
            (u64::from_le_bytes(all), 0)
        }
    };
    let mixed = (first ^ bytes.len() as u64).wrapping_mul(FACTOR);
    (mixed ^ mixed >> 32 ^ last).wrapping_mul(FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_list_passes_and_most_else_does_not() {
        let texts: Vec<String> = (0..3_000).map(|i| format!("value {i}, and more")).collect();
        let (listed, others) = texts.split_at(300);
        let sieve = Sieve::of(listed.iter().map(|text| hash_of_bytes(text.as_bytes())));
        let passes = |text: &String| sieve.may_hold(hash_of_bytes(text.as_bytes()));
        assert!(listed.iter().all(passes));
        assert!(others.iter().filter(|text| passes(text)).count() < others.len() / 8);
        let integers = Sieve::of((0..50_i32).map(|i| hash_of_integer(i64::from(i) * 3)));
        assert!((0..50).all(|i| integers.may_hold(hash_of_integer(i * 3))));
        let passing = (1_000..2_000).filter(|&i| integers.may_hold(hash_of_integer(i)));
        assert!(passing.count() < 150);
    }

    #[test]
    fn short_strings_and_long_lists_have_hashes_too() {
        let shorts = ["", "a", "b", "aa", "1234567", "12345678", "123456789"];
        let sieve = Sieve::of(shorts.iter().map(|text| hash_of_bytes(text.as_bytes())));
        for text in shorts {
            assert!(sieve.may_hold(hash_of_bytes(text.as_bytes())));
        }
        let sieve = Sieve::of((0..100_000_i32).map(|i| hash_of_integer(i.into())));
        assert!((0..100_000).all(|i| sieve.may_hold(hash_of_integer(i))));
        assert!(!Sieve::of([].into_iter()).may_hold(5));
    }
}
