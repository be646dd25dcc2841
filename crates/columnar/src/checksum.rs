//! The checksum that stored pieces carry: 64-bit xxh3 with seed 0.

use xxhash_rust::xxh3::xxh3_64;

/// The checksum of a piece of a row group, or of other bytes that are stored like one.
pub fn of_chunk(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}
