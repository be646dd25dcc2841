//! XXH3 of at most a kilobyte, with the widest registers that the processor has.
//!
//! ```text
//!   more than 240 bytes, AVX2 ──> 8 lanes of 64 bits in two registers, a stripe of 64 bytes a step
//!   anything else             ──> the crate's XXH3, compiled for any processor
//! ```
//!
//! Every kilobyte that a scan reads is hashed, and each that a reader of single rows meets for the
//! first time. The crate chooses its instructions when it is compiled, and packages are compiled
//! for processors without AVX2. A kilobyte is never longer than one block of XXH3, so that lanes
//! need not be scrambled. Source: the XXH3 specification, and the crate, which is the oracle.

use xxhash_rust::xxh3::xxh3_64;

/// The 64 bits of XXH3 of `bytes`, without a seed.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if (avx2::SHORTEST_BYTES..=avx2::LONGEST_BYTES).contains(&bytes.len())
        && std::arch::is_x86_feature_detected!("avx2")
    {
        // SAFETY: the processor has AVX2.
        return unsafe { avx2::hash(bytes) };
    }
    xxh3_64(bytes)
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm256_add_epi64, _mm256_loadu_si256, _mm256_mul_epu32, _mm256_set_epi64x,
        _mm256_shuffle_epi32, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
    };

    /// Shorter inputs are hashed in another way.
    pub(super) const SHORTEST_BYTES: usize = 241;
    /// Of longer ones lanes are scrambled.
    pub(super) const LONGEST_BYTES: usize = 1_024;

    const STRIPE_BYTES: usize = 64;
    /// Where the secret of the last stripe begins, and that of merging.
    const LAST_SECRET: usize = 121;
    const MERGING_SECRET: usize = 11;

    const PRIME32_1: u64 = 0x9E37_79B1;
    const PRIME32_2: u64 = 0x85EB_CA77;
    const PRIME32_3: u64 = 0xC2B2_AE3D;
    const PRIME64_1: u64 = 0x9E37_79B1_85EB_CA87;
    const PRIME64_2: u64 = 0xC2B2_AE3D_27D4_EB4F;
    const PRIME64_3: u64 = 0x1656_67B1_9E37_79F9;
    const PRIME64_4: u64 = 0x85EB_CA77_C2B2_AE63;
    const PRIME64_5: u64 = 0x27D4_EB2F_1656_67C5;
    const AVALANCHE: u64 = 0x1656_6791_9E37_79F9;

    #[rustfmt::skip]
    static SECRET: [u8; 192] = [
        0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
        0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
        0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
        0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
        0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
        0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
        0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
        0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
        0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
        0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
        0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
        0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
    ];

    /// # Panics
    /// Unless there are [`SHORTEST_BYTES`] to [`LONGEST_BYTES`].
    #[target_feature(enable = "avx2")]
    pub(super) fn hash(bytes: &[u8]) -> u64 {
        let len = bytes.len();
        assert!((SHORTEST_BYTES..=LONGEST_BYTES).contains(&len));
        let lane = |value: u64| value as i64;
        let mut lanes = [
            _mm256_set_epi64x(
                lane(PRIME64_3),
                lane(PRIME64_2),
                lane(PRIME64_1),
                lane(PRIME32_3),
            ),
            _mm256_set_epi64x(
                lane(PRIME32_1),
                lane(PRIME64_5),
                lane(PRIME32_2),
                lane(PRIME64_4),
            ),
        ];
        // The last stripe ends with the input, and may overlap the one before.
        let (stripes, _) = bytes.as_chunks::<STRIPE_BYTES>();
        for (stripe, secret) in stripes[..(len - 1) / STRIPE_BYTES]
            .iter()
            .zip(SECRET.windows(STRIPE_BYTES).step_by(8))
        {
            accumulate(&mut lanes, stripe, secret);
        }
        accumulate(
            &mut lanes,
            &bytes[len - STRIPE_BYTES..],
            &SECRET[LAST_SECRET..],
        );
        merge(&lanes, len as u64)
    }

    /// Adds a stripe to the lanes: the first 64 bytes of each argument.
    ///
    /// # Panics
    /// If there are fewer.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn accumulate(lanes: &mut [__m256i; 2], stripe: &[u8], secret: &[u8]) {
        let (stripe, secret) = (&stripe[..STRIPE_BYTES], &secret[..STRIPE_BYTES]);
        for (lane, at) in lanes.iter_mut().zip([0, STRIPE_BYTES / 2]) {
            // SAFETY: 32 bytes from `at` on are within the 64 bytes of both.
            let (data, secret) = unsafe {
                (
                    _mm256_loadu_si256(stripe.as_ptr().add(at).cast()),
                    _mm256_loadu_si256(secret.as_ptr().add(at).cast()),
                )
            };
            let key = _mm256_xor_si256(data, secret);
            let product = _mm256_mul_epu32(key, _mm256_srli_epi64::<32>(key));
            // Each lane is given its neighbour's data.
            let swapped = _mm256_shuffle_epi32::<0b01_00_11_10>(data);
            *lane = _mm256_add_epi64(product, _mm256_add_epi64(*lane, swapped));
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn merge(lanes: &[__m256i; 2], len: u64) -> u64 {
        let mut values = [0u64; 8];
        // SAFETY: each half of the array is as long as a register.
        unsafe {
            _mm256_storeu_si256(values.as_mut_ptr().cast(), lanes[0]);
            _mm256_storeu_si256(values.as_mut_ptr().add(4).cast(), lanes[1]);
        }
        let (secrets, _) = SECRET[MERGING_SECRET..].as_chunks::<8>();
        let mixed = |at: usize| values[at] ^ u64::from_le_bytes(secrets[at]);
        let folded = (0..4).map(|pair| {
            let product = u128::from(mixed(2 * pair)) * u128::from(mixed(2 * pair + 1));
            product as u64 ^ (product >> 64) as u64
        });
        let sum = folded.fold(len.wrapping_mul(PRIME64_1), u64::wrapping_add);
        let spread = (sum ^ sum >> 37).wrapping_mul(AVALANCHE);
        spread ^ spread >> 32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_hashed_as_the_crate_does() {
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 56) as u8
        })
        .take(2_100)
        .collect();
        for start in [0, 1, 7, 1_000] {
            for len in 0..=1_100 {
                let bytes = &noise[start..start + len];
                assert_eq!(hash(bytes), xxh3_64(bytes), "{len} bytes from {start}");
            }
        }
        assert_eq!(hash(&[255; 1_024]), xxh3_64(&[255; 1_024]));
    }
}
