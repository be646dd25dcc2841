//! What any session has verified of the pieces in shared buffers, so that other sessions need not
//! verify it once more.
//!
//! ```text
//!   buffer ──▶ word: fingerprint of its page and the piece on it, 56 bits │ kilobytes, 8 bits
//! ```
//!
//! A kilobyte is noted when it is verified, and when it is written. A word that was noted for
//! another page or piece has another fingerprint, and says nothing: so nothing has to be done when
//! a buffer gets another page. The fingerprint is a hash: of two pages that one buffer holds in
//! turn, one in 2^56 pairs have the same.
//!
//! Concurrency: no locks; a word is one atomic. Two sessions that note kilobytes of a piece at a
//! time may lose one of the notes, and it is verified once more. A reader holds a pin, so that the
//! buffer's page is the one that it asks about.
//!
//! Notes are used only where PostgreSQL verifies pages that it reads from disk: a page that was
//! evicted and comes back is then verified by it. A session that lets damaged pages pass
//! (`ignore_checksum_failure`) uses no notes, and wipes those of the pages that it reads. After a
//! crash or a restart nothing is noted. Bytes that were damaged while the server was down, or that
//! `pg_checksums --enable` has taken as they were, are thereby met by their first reader.

use std::sync::atomic::{AtomicU64, Ordering};

use pgrx::pg_sys;

use super::page::Place;
use super::piece::{PieceKey, Verified};
use crate::shared_memory::{PerBuffer, Shareable};

/// The bits of a word that name kilobytes.
const KILOBYTES: u64 = 0xFF;

#[derive(Debug)]
#[repr(transparent)]
pub struct Note(AtomicU64);

// SAFETY: an atomic, of which zero is a valid value.
unsafe impl Shareable for Note {}

/// One word for each shared buffer: a thousandth of their size.
pub static VERIFIED_NOTES: PerBuffer<Note> = PerBuffer::new(c"howdah verified pieces");

/// The word of a buffer; local buffers have none.
fn word(buffer: pg_sys::Buffer) -> Option<&'static AtomicU64> {
    VERIFIED_NOTES.get(buffer).map(|note| &note.0)
}

/// What is noted of a piece on this page.
///
/// # Safety
/// `rel` is open; the buffer is pinned, and holds its block.
pub(super) unsafe fn recall(rel: pg_sys::Relation, at: Place, key: PieceKey) -> Verified {
    let noted = word(at.buffer).map_or(0, |word| word.load(Ordering::Relaxed));
    // SAFETY: as for this function.
    match noted != 0 && noted & !KILOBYTES == unsafe { fingerprint(rel, at.block, key) } {
        true => Verified::from_bits((noted & KILOBYTES) as u8),
        false => Verified::default(),
    }
}

/// Notes which kilobytes of the piece on this page are sound.
///
/// # Safety
/// As for [`recall`].
pub(super) unsafe fn note(rel: pg_sys::Relation, at: Place, key: PieceKey, verified: Verified) {
    if let Some(word) = word(at.buffer) {
        // SAFETY: as for this function.
        let fingerprint = unsafe { fingerprint(rel, at.block, key) };
        word.store(fingerprint | u64::from(verified.bits()), Ordering::Relaxed);
    }
}

/// Forgets what is noted of the page in a buffer, if this process may have read it from disk though
/// it is damaged.
#[inline]
pub(super) fn wipe_if_ignored(buffer: pg_sys::Buffer) {
    // SAFETY: a plain read of a setting.
    if unsafe { pg_sys::ignore_checksum_failure }
        && let Some(word) = word(buffer)
    {
        word.store(0, Ordering::Relaxed);
    }
}

/// The upper 56 bits of a hash of everything that names a page and a piece on it.
///
/// # Safety
/// `rel` is open.
unsafe fn fingerprint(
    rel: pg_sys::Relation,
    block: pg_sys::BlockNumber,
    (id, seq): PieceKey,
) -> u64 {
    // SAFETY: as for this function.
    let file = unsafe { (*rel).rd_locator };
    let words = [
        (file.spcOid.to_u32(), file.dbOid.to_u32()),
        (file.relNumber.to_u32(), block),
        (id, seq as u32),
    ];
    fingerprint_of(words)
}

fn fingerprint_of(words: [(u32, u32); 3]) -> u64 {
    let hash = words.into_iter().fold(0, |hash, (high, low)| {
        mixed(hash ^ (u64::from(high) << 32 | u64::from(low)))
    });
    hash & !KILOBYTES
}

/// Every bit of the result depends on every bit of the word (the finalizer of SplitMix64).
fn mixed(word: u64) -> u64 {
    let word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn pages_and_pieces_have_fingerprints_of_their_own() {
        let mut seen = HashSet::new();
        for file in [(1663, 5), (1663, 6), (1664, 5)] {
            for number in 16_384..16_394 {
                for block in (0..1_000).step_by(7) {
                    for piece in [(16_384, 0), (16_384, 1), (16_385, 0)] {
                        let fingerprint = fingerprint_of([file, (number, block), piece]);
                        assert_eq!(fingerprint & KILOBYTES, 0);
                        assert!(
                            seen.insert(fingerprint),
                            "{file:?} {number} {block} {piece:?}"
                        );
                    }
                }
            }
        }
    }
}
