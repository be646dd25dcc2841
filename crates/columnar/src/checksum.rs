//! Checksums of the format: 64-bit xxh3 with seed 0, verified before any decoder runs.

use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The checksum of a column chunk, or of other bytes that are stored like one.
pub fn of_chunk(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// The checksum of a footer whose checksum field lies at `field`: that field is left out.
pub(crate) fn of_footer(bytes: &[u8], field: std::ops::Range<usize>) -> u64 {
    let mut hasher = Xxh3::new();
    hasher.update(&bytes[..field.start]);
    hasher.update(&bytes[field.end..]);
    hasher.digest()
}
