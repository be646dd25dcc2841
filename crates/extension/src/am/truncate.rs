//! Truncation in place, as TRUNCATE does in the transaction that created the table.
//!
//! The core empties the heap, then rebuilds the indexes, then empties the TOAST relation. The
//! rebuild would find the cold rows still there and make entries for them, which would point at
//! the rows of the next load. So the cold side goes first, together with the heap.

use howdah_bridge::relation::OpenRelation;
use pgrx::{pg_guard, pg_sys};

use super::{cold_rows, heap};
use crate::store::directory;

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.relation_nontransactional_truncate = Some(relation_nontransactional_truncate);
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_nontransactional_truncate(rel: pg_sys::Relation) {
    // SAFETY: the core holds AccessExclusiveLock on the table, whose TOAST relation is a heap of
    // its own; it takes the same lock on that relation right after.
    unsafe {
        (heap().relation_nontransactional_truncate.unwrap_unchecked())(rel);
        cold_rows::forget_locks();
        directory::forget_places();
        let toast = (*(*rel).rd_rel).reltoastrelid;
        if toast != pg_sys::InvalidOid {
            let toast = OpenRelation::open(toast, pg_sys::AccessExclusiveLock);
            pg_sys::heap_truncate_one_rel(toast.raw());
        }
    }
}
