//! Bits of selected rows: taken out of those of all rows, and put back.

use arrow_buffer::{BooleanBuffer, Buffer};

/// The bits of `bits` where `places` has one.
pub(super) fn gather_bits(bits: &BooleanBuffer, places: &BooleanBuffer) -> BooleanBuffer {
    places.set_indices().map(|at| bits.value(at)).collect()
}

/// The bits of `dense` put where `places` has one.
pub(super) fn spread_bits(dense: &BooleanBuffer, places: &BooleanBuffer) -> BooleanBuffer {
    // One word more than there are bits for, so that there always is a next one.
    let words: Vec<u64> = (dense.bit_chunks().iter_padded()).chain([0]).collect();
    let mut at = 0;
    let spread = places.bit_chunks().iter_padded().map(|mut places| {
        let (word, shift) = (at / 64, at as u32 % 64);
        let mut bits = words[word] >> shift | words[word + 1].unbounded_shl(64 - shift);
        at += places.count_ones() as usize;
        if places == u64::MAX {
            return bits;
        }
        let mut spread = 0;
        while places != 0 {
            spread |= (bits & 1) << places.trailing_zeros();
            places &= places - 1;
            bits >>= 1;
        }
        spread
    });
    let spread: Vec<u64> = spread.collect();
    BooleanBuffer::new(Buffer::from_vec(spread), 0, places.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_bits_are_gathered_again() {
        let mut random = 7u64;
        let mut next = move || {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            random >> 33
        };
        for len in [0, 1, 63, 64, 65, 128, 1_000] {
            for rare in [1, 2, 30] {
                let places = BooleanBuffer::collect_bool(len, |_| next() % rare == 0);
                let count = places.count_set_bits();
                let dense = BooleanBuffer::collect_bool(count, |_| next() % 3 == 0);
                let spread = spread_bits(&dense, &places);
                assert_eq!(gather_bits(&spread, &places), dense);
                assert_eq!(spread.count_set_bits(), dense.count_set_bits());
                assert_eq!(spread.len(), len);
            }
        }
    }
}
