//! An estimate of how many different values a column chunk holds: HyperLogLog (Flajolet
//! et al., 2007) with 4,096 registers and linear counting for small counts.

use xxhash_rust::xxh3::xxh3_64;

const REGISTER_BITS: u32 = 12;
const REGISTERS: usize = 1 << REGISTER_BITS;

/// A sketch of the values seen.
pub(crate) struct DistinctSketch {
    registers: Box<[u8; REGISTERS]>,
}

impl Default for DistinctSketch {
    fn default() -> Self {
        Self {
            registers: Box::new([0; REGISTERS]),
        }
    }
}

impl DistinctSketch {
    #[inline]
    fn add_hash(&mut self, hash: u64) {
        let register = &mut self.registers[(hash >> (64 - REGISTER_BITS)) as usize];
        let rank = ((hash << REGISTER_BITS) | (1 << (REGISTER_BITS - 1))).leading_zeros() as u8 + 1;
        *register = (*register).max(rank);
    }

    #[inline]
    pub(crate) fn add_integer(&mut self, value: i64) {
        self.add_hash(mix(value as u64));
    }

    /// Equal floats count once: all NaNs, and both zeros.
    #[inline]
    pub(crate) fn add_float(&mut self, value: f64) {
        let bits = if value.is_nan() {
            f64::NAN.to_bits()
        } else if value == 0.0 {
            0
        } else {
            value.to_bits()
        };
        self.add_hash(mix(bits));
    }

    /// Equal decimals count once, whatever their scale.
    pub(crate) fn add_decimal(&mut self, mut unscaled: i128, mut scale: u16) {
        while scale > 0 && unscaled % 10 == 0 {
            if unscaled == 0 {
                scale = 0;
                break;
            }
            unscaled /= 10;
            scale -= 1;
        }
        let high = mix((unscaled >> 64) as u64 ^ u64::from(scale).rotate_left(48));
        self.add_hash(mix(unscaled as u64 ^ high));
    }

    #[inline]
    pub(crate) fn add_bytes(&mut self, value: &[u8]) {
        self.add_hash(xxh3_64(value));
    }

    pub(crate) fn estimate(&self) -> u64 {
        let registers = REGISTERS as f64;
        let zeros = self.registers.iter().filter(|&&rank| rank == 0).count();
        let harmonic: f64 = self
            .registers
            .iter()
            .map(|&rank| (-f64::from(rank)).exp2())
            .sum();
        let raw = 0.7213 / (1.0 + 1.079 / registers) * registers * registers / harmonic;
        let estimate = if raw <= 2.5 * registers && zeros > 0 {
            registers * (registers / zeros as f64).ln()
        } else {
            raw
        };
        estimate.round() as u64
    }
}

/// The finalizer of SplitMix64 (Steele et al., 2014).
#[inline]
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_stay_within_five_percent() {
        for count in [0i64, 1, 10, 1_000, 9_000, 20_000, 131_072] {
            let mut sketch = DistinctSketch::default();
            for value in 0..count {
                sketch.add_integer(value * 7_919);
                sketch.add_integer(value * 7_919);
            }
            let estimate = sketch.estimate() as f64;
            assert!(
                (estimate - count as f64).abs() <= 0.05 * count as f64,
                "{estimate} for {count}"
            );
        }
    }

    #[test]
    fn equal_decimals_of_different_scales_count_once() {
        let mut sketch = DistinctSketch::default();
        sketch.add_decimal(11, 1);
        sketch.add_decimal(110, 2);
        sketch.add_decimal(0, 5);
        sketch.add_decimal(0, 0);
        assert_eq!(sketch.estimate(), 2);
    }
}
