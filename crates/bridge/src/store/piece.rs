//! One piece of a long value: its bytes, and checks of them in front.
//!
//! ```text
//!   payload = check 0 | check 1 | … | check 7
//!           | bytes 0..1,024 | bytes 1,024..2,048 | … (at most 8,064)
//! ```
//!
//! Every 1,024 bytes have a check of their own: 32 bits of the XXH3 hash of these bytes and of the
//! place that they belong to. So a reader of a few bytes verifies, and touches, the kilobyte around
//! them instead of the page; and bytes that lie under another key than they were written for are
//! noticed as well. `docs/format.md` is the specification.
//!
//! This module knows bytes only: no pages, no pins.

use std::ops::Range;

use pgrx::pg_sys;

use super::hash::hash;
use super::{StoreError, VALUE_BYTES};

/// Bytes that have one check.
pub(super) const CHECKED_BYTES: usize = 1_024;
const CHECKS: usize = 8;
const CHECK_BYTES: usize = 4;
pub(super) const HEAD_BYTES: usize = CHECKS * CHECK_BYTES;

/// Bytes of a value in one piece: with its checks, tuple header and keys one piece fills a page.
pub const PIECE_BYTES: usize = 8_064;

const _: () = assert!(HEAD_BYTES + PIECE_BYTES <= VALUE_BYTES);
const _: () = assert!(PIECE_BYTES <= CHECKS * CHECKED_BYTES);

/// Spreads the place over all bits of a check: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The key of a piece: the value's id and the piece's number in it.
pub(super) type PieceKey = (u32, i32);

fn check((id, seq): PieceKey, index: usize, bytes: &[u8]) -> u32 {
    let place = (u64::from(id) << 32).wrapping_add(seq as u64 * CHECKS as u64 + index as u64);
    ((hash(bytes) ^ place.wrapping_mul(SPREAD)) >> 32) as u32
}

/// Replaces `payload` by the piece that holds these bytes, at most [`PIECE_BYTES`].
pub(super) fn seal(key: PieceKey, bytes: &[u8], payload: &mut Vec<u8>) {
    payload.clear();
    payload.resize(HEAD_BYTES, 0);
    for (index, block) in bytes.chunks(CHECKED_BYTES).enumerate() {
        let at = index * CHECK_BYTES;
        payload[at..at + CHECK_BYTES].copy_from_slice(&check(key, index, block).to_le_bytes());
    }
    payload.extend_from_slice(bytes);
}

/// What is wrong with a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It is shorter than the range that was requested.
    Short { bytes: usize },
    /// A check does not match.
    Damaged,
}

impl Fault {
    /// The error of a piece in which there should have been so many bytes.
    pub fn into_error(
        self,
        toast: pg_sys::Oid,
        (id, seq): PieceKey,
        expected_bytes: usize,
    ) -> StoreError {
        match self {
            Fault::Damaged => StoreError::DamagedPiece { toast, id, seq },
            Fault::Short { bytes } => StoreError::ShortPiece {
                toast,
                id,
                seq,
                actual_bytes: bytes,
                expected_bytes,
            },
        }
    }
}

/// Which kilobytes of a piece were verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verified(u8);

impl Verified {
    /// All of a piece.
    pub const ALL: Verified = Verified(u8::MAX);

    /// A bit for each kilobyte.
    pub fn bits(self) -> u8 {
        self.0
    }

    pub fn from_bits(bits: u8) -> Verified {
        Verified(bits)
    }

    /// These and those.
    pub fn with(self, other: Verified) -> Verified {
        Verified(self.0 | other.0)
    }

    /// These but not those.
    pub fn without(self, other: Verified) -> Verified {
        Verified(self.0 & !other.0)
    }
}

/// The bytes of a stored piece.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    key: PieceKey,
    checks: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> Piece<'a> {
    pub fn of(key: PieceKey, payload: &'a [u8]) -> Result<Piece<'a>, Fault> {
        let (checks, bytes) = payload
            .split_at_checked(HEAD_BYTES)
            .ok_or(Fault::Short { bytes: 0 })?;
        if bytes.len() > PIECE_BYTES {
            return Err(Fault::Damaged);
        }
        Ok(Piece { key, checks, bytes })
    }

    /// A range of the bytes, verified. `known` remembers which kilobytes were verified already, as
    /// long as the piece is the same.
    pub fn verified(&self, range: Range<usize>, known: &mut Verified) -> Result<&'a [u8], Fault> {
        let wanted = self.bytes.get(range.clone()).ok_or(Fault::Short {
            bytes: self.bytes.len(),
        })?;
        let blocks = range.start / CHECKED_BYTES..range.end.div_ceil(CHECKED_BYTES);
        for index in blocks {
            if known.0 >> index & 1 == 0 {
                if !self.is_sound(index) {
                    return Err(Fault::Damaged);
                }
                known.0 |= 1 << index;
            }
        }
        Ok(wanted)
    }

    /// A range of the bytes, if it is among those that were verified already.
    #[inline]
    pub fn known(&self, start: usize, len: usize, known: Verified) -> Option<&'a [u8]> {
        let bytes = self.bytes.get(start..start.checked_add(len)?)?;
        let (first, last) = (
            start / CHECKED_BYTES,
            (start + len).saturating_sub(1) / CHECKED_BYTES,
        );
        let wanted = (u8::MAX >> (CHECKS - 1).checked_sub(last.checked_sub(first)?)?) << first;
        (known.0 & wanted == wanted).then_some(bytes)
    }

    /// A range of the bytes, of which only those kilobytes are verified that it covers in part.
    /// `later` is given the others: their place in the range, and what proves them.
    pub fn partly_verified(
        &self,
        range: Range<usize>,
        mut later: impl FnMut(Range<usize>, Proof),
    ) -> Result<&'a [u8], Fault> {
        let wanted = self.bytes.get(range.clone()).ok_or(Fault::Short {
            bytes: self.bytes.len(),
        })?;
        for index in range.start / CHECKED_BYTES..range.end.div_ceil(CHECKED_BYTES) {
            let block = self.kilobyte(index);
            if block.start < range.start || range.end < block.end {
                if !self.is_sound(index) {
                    return Err(Fault::Damaged);
                }
                continue;
            }
            let stored = self.stored_check(index).ok_or(Fault::Damaged)?;
            let proof = Proof {
                key: self.key,
                index,
                stored,
            };
            later(block.start - range.start..block.end - range.start, proof);
        }
        Ok(wanted)
    }

    /// Where a kilobyte lies: the last one is shorter.
    fn kilobyte(&self, index: usize) -> Range<usize> {
        index * CHECKED_BYTES..self.bytes.len().min((index + 1) * CHECKED_BYTES)
    }

    fn stored_check(&self, index: usize) -> Option<[u8; CHECK_BYTES]> {
        let at = index * CHECK_BYTES;
        self.checks.get(at..at + CHECK_BYTES)?.try_into().ok()
    }

    fn is_sound(&self, index: usize) -> bool {
        match (
            self.bytes.get(self.kilobyte(index)),
            self.stored_check(index),
        ) {
            (Some(block), Some(stored)) => check(self.key, index, block).to_le_bytes() == stored,
            _ => false,
        }
    }
}

/// What proves that a copied kilobyte is what was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Proof {
    pub key: PieceKey,
    index: usize,
    stored: [u8; CHECK_BYTES],
}

impl Proof {
    /// Whether these are the bytes of the kilobyte.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        check(self.key, self.index, bytes).to_le_bytes() == self.stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: PieceKey = (20_000, 7);

    fn sealed(bytes: &[u8]) -> Vec<u8> {
        let mut payload = vec![1, 2, 3];
        seal(KEY, bytes, &mut payload);
        payload
    }

    fn noise(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 31 % 251) as u8).collect()
    }

    /// Pieces that were written stay readable: the checks are what docs/format.md says. The numbers
    /// were computed by its formula with the reference implementation of XXH3 (xxHash's own).
    #[test]
    fn stored_pieces_have_the_checks_of_the_format() {
        let golden: [(PieceKey, usize, [u32; 8]); 4] = [
            (
                (20_000, 7),
                8_064,
                [
                    0xfc9f_7c58,
                    0x348f_8e54,
                    0xbfeb_df8c,
                    0x18d8_fae3,
                    0xb323_1891,
                    0x53c6_c722,
                    0x83a1_1642,
                    0x086a_1de7,
                ],
            ),
            // The greatest key; the place wraps around.
            (
                (u32::MAX, i32::MAX),
                1_500,
                [0x47fc_5318, 0xad3c_e2fc, 0, 0, 0, 0, 0, 0],
            ),
            ((16_384, 0), 1, [0x5b4e_9ff4, 0, 0, 0, 0, 0, 0, 0]),
            ((16_384, 0), 0, [0; 8]),
        ];
        for (key, len, checks) in golden {
            let bytes = noise(len);
            let mut stored: Vec<u8> = checks.into_iter().flat_map(u32::to_le_bytes).collect();
            stored.extend_from_slice(&bytes);
            let mut payload = Vec::new();
            seal(key, &bytes, &mut payload);
            assert_eq!(payload, stored, "{key:?}, {len} bytes");
            let piece = Piece::of(key, &stored).unwrap();
            let read = piece.verified(0..len, &mut Verified::default());
            assert_eq!(read, Ok(bytes.as_slice()));
        }
        assert_eq!((HEAD_BYTES, PIECE_BYTES), (32, 8_064));
        let longer = vec![0; 32 + 8_065];
        assert_eq!(Piece::of(KEY, &longer).err(), Some(Fault::Damaged));
    }

    #[test]
    fn every_range_of_a_piece_reads_back() {
        for len in [0, 1, 1_023, 1_024, 1_025, 5_000, PIECE_BYTES] {
            let bytes = noise(len);
            let payload = sealed(&bytes);
            let piece = Piece::of(KEY, &payload).unwrap();
            for start in (0..=len).step_by(97) {
                for end in (start..=len).step_by(411).chain([len]) {
                    assert_eq!(
                        piece.verified(start..end, &mut Verified::default()),
                        Ok(&bytes[start..end])
                    );
                }
            }
            for start in (0..len).step_by(97) {
                for end in (start + 1..=len).step_by(411).chain([len]) {
                    let known = |some| piece.known(start, end - start, some);
                    let mut some = Verified::default();
                    assert_eq!(known(some), None);
                    assert!(piece.verified(start..end, &mut some).is_ok());
                    assert_eq!(known(some), Some(&bytes[start..end]));
                    let last = (end - 1) / CHECKED_BYTES;
                    assert_eq!(known(Verified(some.0 & !(1 << last))), None);
                }
            }
            assert_eq!(piece.known(len, 1, Verified(u8::MAX)), None);
            let beyond = piece.verified(len..len + 1, &mut Verified::default());
            assert_eq!(beyond, Err(Fault::Short { bytes: len }));
        }
    }

    #[test]
    fn a_flipped_bit_is_noticed_by_reads_of_its_kilobyte_and_by_no_others() {
        let bytes = noise(3_000);
        let payload = sealed(&bytes);
        for at in 0..payload.len() {
            let mut damaged = payload.clone();
            damaged[at] ^= 1 << (at % 8);
            let piece = Piece::of(KEY, &damaged).unwrap();
            let index = match at.checked_sub(HEAD_BYTES) {
                None => at / CHECK_BYTES,
                Some(at) => at / CHECKED_BYTES,
            };
            for block in 0..3 {
                let range = block * 1_024..((block + 1) * 1_024).min(3_000);
                let read = piece.verified(range, &mut Verified::default());
                assert_eq!(read.is_err(), block == index, "byte {at}");
            }
        }
    }

    #[test]
    fn every_byte_of_a_range_is_verified_now_or_later() {
        for len in [1, 1_023, 1_024, 1_025, 3_000, PIECE_BYTES] {
            let bytes = noise(len);
            let payload = sealed(&bytes);
            for start in (0..len).step_by(333) {
                for end in (start + 1..=len).step_by(401).chain([len]) {
                    for at in [start, (start + end) / 2, end - 1] {
                        let mut damaged = payload.clone();
                        damaged[HEAD_BYTES + at] ^= 1;
                        let piece = Piece::of(KEY, &damaged).unwrap();
                        let mut proofs = Vec::new();
                        let later = |place, proof| proofs.push((place, proof));
                        let is_noticed = match piece.partly_verified(start..end, later) {
                            Err(fault) => fault == Fault::Damaged,
                            Ok(copied) => (proofs.iter())
                                .any(|(place, proof)| !proof.holds(&copied[place.clone()])),
                        };
                        assert!(is_noticed, "byte {at} of {start}..{end}");
                    }
                    let piece = Piece::of(KEY, &payload).unwrap();
                    let mut proofs = Vec::new();
                    let later = |place, proof| proofs.push((place, proof));
                    let copied = piece.partly_verified(start..end, later).unwrap();
                    assert_eq!(copied, &bytes[start..end]);
                    assert!(
                        (proofs.iter()).all(|(place, proof)| proof.holds(&copied[place.clone()]))
                    );
                }
            }
        }
    }

    #[test]
    fn a_piece_under_another_key_is_refused() {
        let payload = sealed(&noise(100));
        for key in [(20_000, 8), (20_001, 7), (20_001, 0)] {
            let piece = Piece::of(key, &payload).unwrap();
            let read = piece.verified(3..4, &mut Verified::default());
            assert_eq!(read, Err(Fault::Damaged));
        }
    }

    #[test]
    fn a_cut_piece_is_refused() {
        let payload = sealed(&noise(2_000));
        assert!(Piece::of(KEY, &payload[..HEAD_BYTES - 1]).is_err());
        let piece = Piece::of(KEY, &payload[..payload.len() - 1]).unwrap();
        let mut known = Verified::default();
        assert!(piece.verified(0..10, &mut known).is_ok());
        assert_eq!(
            piece.verified(1_500..1_501, &mut known),
            Err(Fault::Damaged)
        );
    }
}
