//! Pages that are lent to another thread, which copies the bytes of a value from them.
//!
//! ```text
//!   main thread   pins pages ─▶ Loans: LentPages ──────── is_returned ─▶ unpins
//!   any thread               └▶ LentRun ─ copy: verified bytes ─┘
//! ```
//!
//! The main thread alone can pin a page; copying from it, and hashing what is copied, takes several
//! times longer. A run is therefore divided: bytes are verified while they are in the cache of the
//! processor that copies them, which is the one that will decode them.
//!
//! Invariant: a page is pinned for as long as a run may read it. Its pieces are neither changed,
//! moved nor removed meanwhile (see [`HeldPiece`]). [`LentPages`] keeps the pins until the run has
//! been copied or dropped; if it is dropped before, the resource owner keeps them. The thread must
//! end before the resource owner releases them, which is when the statement that lends ends; a
//! process that exits at once releases them under its threads, whose copies it never uses.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::pg_sys;

use super::StoreError;
use super::page::HeldPiece;
use super::piece::{CHECKED_BYTES, Fault, HEAD_BYTES, Piece, PieceKey, Verified};
use super::recent;

/// How far ahead bytes are requested from memory.
const AHEAD_BYTES: usize = 2 * CHECKED_BYTES;

/// What a statement has lent, and will release.
pub struct Loans {
    is_allowed: bool,
    pages: RefCell<Vec<LentPages>>,
}

impl Loans {
    /// None yet. If none are allowed, the main thread copies all bytes itself: while pages are
    /// lent, it should not run arbitrary functions.
    pub fn new(is_allowed: bool) -> Loans {
        Loans {
            is_allowed,
            pages: RefCell::default(),
        }
    }

    pub(super) fn is_allowed(&self) -> bool {
        self.is_allowed
    }

    pub(super) fn add(&self, pages: LentPages) {
        self.pages.borrow_mut().push(pages);
    }

    /// Releases the pages that were returned.
    pub fn release(&self) {
        self.pages.borrow_mut().retain(|pages| !pages.is_returned());
    }
}

/// The pins of a run that was lent.
#[must_use]
pub(super) struct LentPages {
    pieces: Vec<HeldPiece>,
    is_returned: Arc<AtomicBool>,
}

/// A run of bytes of a value on pages that another thread has pinned.
#[must_use]
pub struct LentRun {
    toast: pg_sys::Oid,
    parts: Vec<Part>,
    /// Set when this is dropped.
    is_returned: Arc<AtomicBool>,
}

/// The bytes of one piece that belong to a run.
struct Part {
    key: PieceKey,
    payload: *const [u8],
    range: Range<usize>,
}

// SAFETY: the payload lies in shared memory, on a page that the main thread keeps pinned until this
// is dropped; its bytes do not change meanwhile.
unsafe impl Send for LentRun {}

impl Part {
    fn payload(&self) -> &[u8] {
        // SAFETY: the page is pinned until the run that has this part is dropped.
        unsafe { &*self.payload }
    }
}

/// Pages of a run while they are collected.
pub(super) struct Lender {
    pieces: Vec<HeldPiece>,
    parts: Vec<Part>,
}

impl Lender {
    pub fn with_capacity(count: usize) -> Lender {
        Lender {
            pieces: Vec::with_capacity(count),
            parts: Vec::with_capacity(count),
        }
    }

    /// Adds a range of a piece.
    pub fn add(&mut self, key: PieceKey, piece: HeldPiece, range: Range<usize>) {
        let payload = std::ptr::from_ref(piece.payload());
        self.parts.push(Part {
            key,
            payload,
            range,
        });
        self.pieces.push(piece);
    }

    /// Divides the run into what the main thread keeps and what it sends.
    pub fn lend(self, toast: pg_sys::Oid) -> (LentPages, LentRun) {
        let is_returned = Arc::new(AtomicBool::new(false));
        let pages = LentPages {
            pieces: self.pieces,
            is_returned: Arc::clone(&is_returned),
        };
        let run = LentRun {
            toast,
            parts: self.parts,
            is_returned,
        };
        (pages, run)
    }
}

impl LentPages {
    /// Whether the run was copied or dropped.
    pub fn is_returned(&self) -> bool {
        self.is_returned.load(Ordering::Acquire)
    }
}

impl Drop for LentPages {
    fn drop(&mut self) {
        if !self.is_returned() {
            // A thread may still read them: the resource owner keeps the pins.
            self.pieces.drain(..).for_each(std::mem::forget);
        }
    }
}

impl Drop for LentRun {
    fn drop(&mut self) {
        self.is_returned.store(true, Ordering::Release);
    }
}

impl LentRun {
    /// Passes the bytes to `sink`, each verified before, and returns the pages.
    ///
    /// # Errors
    /// A piece that is damaged or too short; the sink may have got bytes before.
    pub fn copy(self, sink: &mut dyn FnMut(&[u8])) -> Result<(), StoreError> {
        for (at, part) in self.parts.iter().enumerate() {
            let next = self.parts.get(at + 1).map_or(&[][..], Part::payload);
            copy_part(part.key, part.payload(), part.range.clone(), next, sink)
                .map_err(|fault| self.error(part, fault))?;
        }
        Ok(())
    }

    fn error(&self, part: &Part, fault: Fault) -> StoreError {
        fault.into_error(self.toast, part.key, part.range.end)
    }
}

/// Verifies and passes on a range of a piece, kilobyte by kilobyte: the second look at each finds
/// it in the nearest cache. Of the next piece, and of this one, what follows is requested from
/// memory meanwhile: the processor by itself does so only within four kilobytes.
fn copy_part(
    key: PieceKey,
    payload: &[u8],
    range: Range<usize>,
    next: &[u8],
    sink: &mut dyn FnMut(&[u8]),
) -> Result<(), Fault> {
    let piece = Piece::of(key, payload)?;
    let mut at = range.start;
    while at < range.end {
        let end = ((at / CHECKED_BYTES + 1) * CHECKED_BYTES).min(range.end);
        let ahead = HEAD_BYTES + at + AHEAD_BYTES;
        let (from, ahead) = match payload.len().checked_sub(ahead) {
            Some(1..) => (payload, ahead),
            _ => (next, ahead.saturating_sub(payload.len())),
        };
        let till = (ahead + CHECKED_BYTES).min(from.len());
        recent::fetch(&from[ahead.min(till)..till]);
        sink(piece.verified(at..end, &mut Verified::default())?);
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::piece::{PIECE_BYTES, seal};
    use super::*;

    const KEY: PieceKey = (20_000, 7);

    fn sealed(len: usize) -> (Vec<u8>, Vec<u8>) {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
        let mut payload = Vec::new();
        seal(KEY, &bytes, &mut payload);
        (bytes, payload)
    }

    #[test]
    fn every_range_of_a_piece_is_copied() {
        let (bytes, payload) = sealed(PIECE_BYTES);
        for start in [0, 1, 1_023, 1_024, 1_025, 5_000] {
            for end in [start, start + 1, start + 1_024, start + 2_500, PIECE_BYTES] {
                let mut copy = Vec::new();
                let mut sink = |part: &[u8]| copy.extend_from_slice(part);
                assert_eq!(
                    copy_part(KEY, &payload, start..end, &payload, &mut sink),
                    Ok(())
                );
                assert_eq!(copy, bytes[start..end]);
            }
        }
    }

    #[test]
    fn damage_and_missing_bytes_are_noticed() {
        let (bytes, mut payload) = sealed(3_000);
        let mut copied = 0;
        let mut sink = |part: &[u8]| copied += part.len();
        let short = Fault::Short { bytes: bytes.len() };
        assert_eq!(
            copy_part(KEY, &payload, 0..3_001, &[], &mut sink),
            Err(short)
        );
        let last = payload.len() - 1;
        payload[last] ^= 1;
        copied = 0;
        let mut sink = |part: &[u8]| copied += part.len();
        let found = copy_part(KEY, &payload, 0..3_000, &[], &mut sink);
        assert_eq!(found, Err(Fault::Damaged));
        assert_eq!(copied, 2_048);
    }

    /// A run of one part, and whether it was returned.
    fn run_of(payload: &[u8], range: Range<usize>) -> (LentRun, Arc<AtomicBool>) {
        let is_returned = Arc::new(AtomicBool::new(false));
        let part = Part {
            key: KEY,
            payload: std::ptr::from_ref(payload),
            range,
        };
        let run = LentRun {
            toast: pg_sys::Oid::from_u32(1),
            parts: vec![part],
            is_returned: Arc::clone(&is_returned),
        };
        (run, is_returned)
    }

    #[test]
    fn a_run_that_was_copied_or_dropped_returns_its_pages() {
        let (bytes, payload) = sealed(3_000);
        let (run, is_returned) = run_of(&payload, 10..2_000);
        assert!(!is_returned.load(Ordering::Acquire));
        drop(run);
        assert!(is_returned.load(Ordering::Acquire));
        let (run, is_returned) = run_of(&payload, 10..2_000);
        let mut copy = Vec::new();
        assert!(run.copy(&mut |part| copy.extend_from_slice(part)).is_ok());
        assert_eq!(copy, bytes[10..2_000]);
        assert!(is_returned.load(Ordering::Acquire));
    }
}
