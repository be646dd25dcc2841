//! Bytes of a value that were copied, and not verified yet.
//!
//! ```text
//!   main thread   pinned page ─▶ bytes, checks          (copied under one pin)
//!   any thread    bytes + checks ─▶ verify ─▶ interpret
//! ```
//!
//! Hashing takes longer than copying. So the main thread, which alone reads pages, copies the
//! checks with the bytes, and leaves the hashing to the thread that will decode them. What is
//! verified is the copy, so whatever happens to the page later does not matter.
//!
//! No pages, no pins, nothing of PostgreSQL: this may be sent to another thread.

use std::ops::Range;

use pgrx::pg_sys;

use super::StoreError;
use super::piece::{CHECKED_BYTES, Proof};

/// The parts of a copy that are still to be verified.
#[derive(Debug)]
#[must_use]
pub struct Unverified {
    toast: pg_sys::Oid,
    parts: Vec<(Range<usize>, Proof)>,
}

impl Unverified {
    /// Nothing yet, of a copy of that many bytes.
    pub(super) fn of(toast: pg_sys::Oid, len: u64) -> Unverified {
        Unverified {
            toast,
            parts: Vec::with_capacity((len / CHECKED_BYTES as u64) as usize),
        }
    }

    /// Adds a part, by its place in the copy.
    pub(super) fn add(&mut self, place: Range<usize>, proof: Proof) {
        self.parts.push((place, proof));
    }

    /// Verifies the copy.
    ///
    /// # Errors
    /// [`StoreError::DamagedPiece`] for the first part that is not what was written.
    pub fn verify(&self, copy: &[u8]) -> Result<(), StoreError> {
        for (place, proof) in &self.parts {
            if !(copy.get(place.clone())).is_some_and(|bytes| proof.holds(bytes)) {
                let (id, seq) = proof.key;
                let toast = self.toast;
                return Err(StoreError::DamagedPiece { toast, id, seq });
            }
        }
        Ok(())
    }
}
