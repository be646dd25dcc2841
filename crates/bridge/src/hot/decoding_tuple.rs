//! A row that exists for logical decoding only: one and the same command inserts it among the hot
//! rows and deletes or updates it.
//!
//! ```text
//!   step         old tuple          new tuple  decoding             visible to
//!   insert       cmin c                        nothing (NO_LOGICAL) old: none yet (c runs)
//!   delete       cmin c, cmax c+1              DELETE, old key      old: command c+1
//!   or update    cmin c, cmax c+1   cmin c+1   UPDATE, both         old: command c+1
//!   set_command  cmin c, cmax c     cmin c     nothing              old: none, ever
//!                                                                   new: from c+1 on
//! ```
//!
//! Heap changes only tuples that were there before its command. So the change is made under the
//! next command id, and the command ids are corrected at once. No query of ours runs in between.
//! Command ids mean nothing to other backends, nor after a crash, so the correction is not logged,
//! as a hint bit is not. If an ERROR comes in between, the subtransaction aborts and both tuples
//! are dead.
//!
//! No index has an entry for the old tuple. So the new tuple is never heap-only: it must not depend
//! on a line pointer that no index entry leads to.
//!
//! Values kept out of line are chunks that the running command has written, and heap would delete
//! them under the same command id. Therefore a command id is consumed in between, as triggers do in
//! the middle of a statement.

use pgrx::pg_sys;

use super::share::header_at;
use crate::tid::block_of;

/// The old tuple.
pub struct DecodingTuple {
    tid: pg_sys::ItemPointerData,
    cid: pg_sys::CommandId,
    /// The combo command id for "inserted and deleted by `cid`".
    both: pg_sys::CommandId,
}

impl DecodingTuple {
    /// Inserts the row. The current memory context may be reset afterwards.
    ///
    /// # Safety
    /// `rel` is an open heap relation, locked for writing; there is a value and a null flag for
    /// each of its attributes.
    pub unsafe fn insert(
        rel: pg_sys::Relation,
        values: &mut [pg_sys::Datum],
        nulls: &mut [bool],
        cid: pg_sys::CommandId,
    ) -> DecodingTuple {
        // SAFETY: as for this function. heap_insert fills in the header of the tuple that it is
        // given, also where it stores a toasted copy of it.
        unsafe {
            let tuple =
                pg_sys::heap_form_tuple((*rel).rd_att, values.as_mut_ptr(), nulls.as_mut_ptr());
            let options = pg_sys::HEAP_INSERT_NO_LOGICAL as i32;
            let large = (*tuple).t_len > most_bytes_in_line()
                || u32::from((*(*tuple).t_data).t_infomask) & pg_sys::HEAP_HASEXTERNAL != 0;
            pg_sys::heap_insert(rel, tuple, cid, options, std::ptr::null_mut());
            if large {
                pg_sys::CommandCounterIncrement();
            }
            let (mut both, mut is_combined) = (cid, false);
            pg_sys::HeapTupleHeaderAdjustCmax((*tuple).t_data, &mut both, &mut is_combined);
            // The row is not new: take it off the statistics again.
            pg_sys::pgstat_count_heap_insert(rel, -1);
            DecodingTuple {
                tid: (*tuple).t_self,
                cid,
                both,
            }
        }
    }

    /// Deletes the row, visibly to decoding.
    ///
    /// # Safety
    /// As for [`DecodingTuple::insert`], called just before.
    pub unsafe fn delete(self, rel: pg_sys::Relation, changing_partition: bool) {
        let mut tid = self.tid;
        let mut failure = pg_sys::TM_FailureData::default();
        // SAFETY: no other transaction can have changed the row: none sees it.
        unsafe {
            let result = pg_sys::heap_delete(
                rel,
                &mut tid,
                self.cid + 1,
                std::ptr::null_mut(),
                true,
                &mut failure,
                changing_partition,
            );
            expect_ok(result);
            set_command(rel, &self.tid, self.both);
        }
    }

    /// Updates the row to the one in `slot`, visibly to decoding; `slot` has the new TID then.
    ///
    /// # Safety
    /// As for [`DecodingTuple::delete`]; `slot` holds a row of the table.
    pub unsafe fn update(self, rel: pg_sys::Relation, slot: *mut pg_sys::TupleTableSlot) {
        let mut tid = self.tid;
        let mut failure = pg_sys::TM_FailureData::default();
        let mut lock_mode = pg_sys::LockTupleMode::LockTupleExclusive;
        let mut update_indexes = pg_sys::TU_UpdateIndexes::TU_None;
        // SAFETY: as for `delete`. The tuple may be a copy of the slot's, to be freed here.
        unsafe {
            let mut should_free = true;
            let tuple = pg_sys::ExecFetchSlotHeapTuple(slot, true, &mut should_free);
            (*slot).tts_tableOid = (*rel).rd_id;
            (*tuple).t_tableOid = (*rel).rd_id;
            let never_hot = NeverHot::begin(rel);
            let result = pg_sys::heap_update(
                rel,
                &mut tid,
                tuple,
                self.cid + 1,
                std::ptr::null_mut(),
                true,
                &mut failure,
                &mut lock_mode,
                &mut update_indexes,
            );
            drop(never_hot);
            expect_ok(result);
            (*slot).tts_tid = (*tuple).t_self;
            if should_free {
                pg_sys::pfree(tuple.cast());
            }
            set_command(rel, &self.tid, self.both);
            set_command(rel, &(*slot).tts_tid, self.cid);
        }
    }
}

/// `TOAST_TUPLE_THRESHOLD`: larger tuples may get values out of line.
fn most_bytes_in_line() -> u32 {
    const PAGE_HEADER_AND_POINTERS: u32 = (24 + 4 * 4 + 7) & !7;
    ((pg_sys::BLCKSZ - PAGE_HEADER_AND_POINTERS) / 4) & !7
}

fn expect_ok(result: pg_sys::TM_Result::Type) {
    if result != pg_sys::TM_Result::TM_Ok {
        pgrx::error!("could not change a row brought back for logical decoding: result {result}");
    }
}

/// Corrects a tuple's command id. Lock: the page's content lock, exclusively.
///
/// # Safety
/// The relation is open; no page of it is locked.
unsafe fn set_command(
    rel: pg_sys::Relation,
    tid: &pg_sys::ItemPointerData,
    command: pg_sys::CommandId,
) {
    // SAFETY: pin and exclusive lock are held while the page is changed; the line pointer is
    // checked. A full-page image is logged where checksums require it, as for a hint bit.
    unsafe {
        let buffer = pg_sys::ReadBuffer(rel, block_of(tid));
        pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
        if let Some(header) = header_at(pg_sys::BufferGetPage(buffer), tid) {
            (*header).t_choice.t_heap.t_field3.t_cid = command;
            pg_sys::MarkBufferDirtyHint(buffer, true);
        }
        pg_sys::UnlockReleaseBuffer(buffer);
    }
}

/// Makes heap treat every update of a relation as a change of an indexed column, until dropped: all
/// columns are entered in the set of columns that rule out a heap-only tuple. heap_update copies
/// that set before anything can rebuild it. If the relcache entry is rebuilt later in the call, the
/// new set is the original one.
struct NeverHot {
    rel: pg_sys::Relation,
    original: *mut pg_sys::Bitmapset,
    was_valid: bool,
    whole_row: *mut pg_sys::Bitmapset,
}

const WHOLE_ROW: i32 = -pg_sys::FirstLowInvalidHeapAttributeNumber;

impl NeverHot {
    /// # Safety
    /// `rel` is open until the guard is dropped.
    unsafe fn begin(rel: pg_sys::Relation) -> NeverHot {
        // SAFETY: as for this function. The first call fills all of the relation's sets, if it
        // has indexes. The entry owns the set from now on, so it is made where the entry lives.
        unsafe {
            let kind = pg_sys::IndexAttrBitmapKind::INDEX_ATTR_BITMAP_HOT_BLOCKING;
            pg_sys::bms_free(pg_sys::RelationGetIndexAttrBitmap(rel, kind));
            let old = pg_sys::MemoryContextSwitchTo(pg_sys::CacheMemoryContext);
            let whole_row = pg_sys::bms_make_singleton(WHOLE_ROW);
            pg_sys::MemoryContextSwitchTo(old);
            let guard = NeverHot {
                rel,
                original: (*rel).rd_hotblockingattr,
                was_valid: (*rel).rd_attrsvalid,
                whole_row,
            };
            (*rel).rd_hotblockingattr = whole_row;
            (*rel).rd_attrsvalid = true;
            guard
        }
    }
}

impl Drop for NeverHot {
    fn drop(&mut self) {
        // SAFETY: the relation is open, also while an ERROR unwinds. The set is ours only if it is
        // still the entry's; otherwise it was freed with the old entry, and the original is ours to
        // free.
        unsafe {
            let now = (*self.rel).rd_hotblockingattr;
            let untouched = now == self.whole_row
                && pg_sys::bms_num_members(now) == 1
                && pg_sys::bms_is_member(WHOLE_ROW, now);
            if untouched {
                (*self.rel).rd_hotblockingattr = self.original;
                (*self.rel).rd_attrsvalid = self.was_valid;
                pg_sys::bms_free(self.whole_row);
            } else {
                pg_sys::bms_free(self.original);
            }
        }
    }
}
