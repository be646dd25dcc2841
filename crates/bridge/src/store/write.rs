//! Writing entries, long values and in-place changes.

use pgrx::pg_sys;

use super::page::PinnedPage;
use super::piece::{PIECE_BYTES, Verified, seal};
use super::value::pages_are_checked;
use super::verified_notes;
use super::{ColdStore, PAYLOAD_OFFSET, VALUE_BYTES};
use crate::ffi::{pg_guard_ffi_boundary, unguarded};
use crate::hot::growth::Growth;
use crate::memory::{self, varlena_of};
use crate::tid::Tid;
use crate::xid::CommandId;

/// How a tuple enters the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// Belongs to the running transaction.
    Transactional,
    /// Visible to all at once, also if the running transaction aborts.
    Frozen,
}

impl ColdStore<'_> {
    /// A value id that is not in use.
    pub fn new_value_id(&self) -> u32 {
        // SAFETY: both relations are open; chunk_id is the first column of the TOAST relation.
        unsafe {
            let index = (*self.valid_index()).rd_id;
            pg_sys::GetNewOidWithIndex(self.toast, index, 1).to_u32()
        }
    }

    /// Inserts one tuple and its index entries; `payload` is at most [`VALUE_BYTES`] long.
    /// Never decoded logically.
    pub fn insert(
        &self,
        id: u32,
        seq: i32,
        payload: &[u8],
        cid: CommandId,
        birth: Birth,
        bulk: Option<&BulkWrite>,
    ) -> Tid {
        let unique = pg_sys::IndexUniqueCheck::UNIQUE_CHECK_YES;
        self.insert_as((id, seq), payload, cid, birth, bulk, unique)
    }

    /// The same; `unique` is the uniqueness check that the index makes.
    pub(super) fn insert_as(
        &self,
        (id, seq): (u32, i32),
        payload: &[u8],
        cid: CommandId,
        birth: Birth,
        bulk: Option<&BulkWrite>,
        unique: pg_sys::IndexUniqueCheck::Type,
    ) -> Tid {
        assert!(
            payload.len() <= VALUE_BYTES,
            "a tuple of the cold store has at most {VALUE_BYTES} bytes"
        );
        let mut options = pg_sys::HEAP_INSERT_NO_LOGICAL;
        if birth == Birth::Frozen {
            options |= pg_sys::HEAP_INSERT_FROZEN;
        }
        let (toast, indexes) = (self.toast, &self.indexes().all);
        let mut growth = Growth::of(self.toast());
        let bistate = bulk.map_or_else(|| growth.state(), |b| b.0);
        let image = varlena_of(payload);
        let mut values = [
            pg_sys::Datum::from(pg_sys::Oid::from(id)),
            pg_sys::Datum::from(seq),
            pg_sys::Datum::from(image),
        ];
        let mut nulls = [false; 3];
        // SAFETY: the tuple is formed from values that outlive it; the relations are open and
        // locked for writing; an ERROR leaves only memory of the current context, and passes no
        // frame that owns anything before it reaches the one guard around all of this.
        unsafe {
            let tuple = pg_guard_ffi_boundary(|| {
                let (columns, null_flags) = (values.as_mut_ptr(), nulls.as_mut_ptr());
                let tuple = unguarded::heap_form_tuple((*toast).rd_att, columns, null_flags);
                unguarded::heap_insert(toast, tuple, cid, options as i32, bistate);
                for &index in indexes {
                    if !(*(*index).rd_index).indisready {
                        continue;
                    }
                    // An index that REINDEX CONCURRENTLY has abandoned may hold entries from before
                    // a rewrite; uniqueness is checked in the valid one.
                    let is_judge =
                        (*(*index).rd_index).indisunique && (*(*index).rd_index).indisvalid;
                    let unique = if is_judge {
                        unique
                    } else {
                        pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO
                    };
                    let tid = &raw mut (*tuple).t_self;
                    let no_info = std::ptr::null_mut();
                    unguarded::index_insert(
                        index, columns, null_flags, tid, toast, unique, false, no_info,
                    );
                }
                tuple
            });
            growth.end();
            let tid = Tid::from_raw((*tuple).t_self);
            memory::free(tuple.cast());
            memory::free(image.cast());
            tid
        }
    }

    /// Writes a long value under a fresh id. `parts` are concatenated.
    pub fn write_value(&self, parts: &[&[u8]], cid: CommandId) -> WrittenValue {
        let (bulk, id) = (BulkWrite::begin(), self.new_value_id());
        let mut bytes = Vec::with_capacity(PIECE_BYTES);
        let mut payload = Vec::with_capacity(VALUE_BYTES);
        let mut first_block = None;
        let mut seq = 0;
        let mut write = |bytes: &[u8], seq: i32| {
            seal((id, seq), bytes, &mut payload);
            let birth = Birth::Transactional;
            let tid = self.insert(id, seq, &payload, cid, birth, Some(&bulk));
            if pages_are_checked() {
                let page = PinnedPage::read(self.toast(), tid.block());
                // SAFETY: the relation is open, and the page pinned.
                unsafe {
                    verified_notes::note(self.toast, page.place(), (id, seq), Verified::ALL);
                }
            }
            first_block.get_or_insert(tid.block());
            crate::check_for_interrupts!();
        };
        for part in parts {
            let mut rest = *part;
            while !rest.is_empty() {
                let take = rest.len().min(PIECE_BYTES - bytes.len());
                bytes.extend_from_slice(&rest[..take]);
                rest = &rest[take..];
                if bytes.len() == PIECE_BYTES {
                    write(&bytes, seq);
                    bytes.clear();
                    seq += 1;
                }
            }
        }
        if !bytes.is_empty() || seq == 0 {
            write(&bytes, seq);
        }
        WrittenValue {
            id,
            first_block: first_block.unwrap_or(pg_sys::InvalidBlockNumber),
        }
    }

    /// Replaces the payload of the tuple at `tid` by one of the same length, in place.
    ///
    /// Raises an ERROR (`XX001`) if the tuple has another length, or is damaged.
    pub fn overwrite(&self, tid: Tid, payload: &[u8]) {
        self.update_in_place(tid, |old| {
            if old.len() != payload.len() {
                self.refuse_damaged(tid);
            }
            old.copy_from_slice(payload);
        });
    }

    /// Calls `change` to edit the payload of the tuple at `tid`, exclusively locked and WAL-logged.
    pub fn update_in_place<R>(&self, tid: Tid, change: impl FnOnce(&mut [u8]) -> R) -> R {
        self.change_tuple(tid, |tuple| {
            // SAFETY: a tuple begins with its header.
            let hoff = unsafe { (*tuple.as_ptr().cast::<pg_sys::HeapTupleHeaderData>()).t_hoff };
            let data = tuple.get_mut(hoff as usize..).unwrap_or_default();
            let size = data.get(8..).and_then(|at| at.first_chunk().copied());
            let varlena_bytes = (u32::from_ne_bytes(size.unwrap_or_default()) >> 2) as usize;
            if varlena_bytes < 4 || 8 + varlena_bytes > data.len() {
                self.refuse_damaged(tid);
            }
            change(&mut data[PAYLOAD_OFFSET..8 + varlena_bytes])
        })
    }

    /// Calls `change` to edit the tuple at `tid`, header included, exclusively locked and
    /// WAL-logged.
    pub(super) fn change_tuple<R>(&self, tid: Tid, change: impl FnOnce(&mut [u8]) -> R) -> R {
        // SAFETY: pin and exclusive lock are held from ReadBuffer to UnlockReleaseBuffer. The
        // page that GenericXLogRegisterBuffer returns is a private copy of the whole page; the
        // slice is the item that its line pointer describes. `change` runs before
        // GenericXLogFinish, so a panic in it leaves the page as it was.
        unsafe {
            let buffer = pg_sys::ReadBuffer(self.toast, tid.block());
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_EXCLUSIVE as i32);
            let state = pg_sys::GenericXLogStart(self.toast);
            let page = pg_sys::GenericXLogRegisterBuffer(state, buffer, 0);
            let item = pg_sys::PageGetItemId(page, tid.offset());
            let (at, len) = ((*item).lp_off() as usize, (*item).lp_len() as usize);
            if (*item).lp_flags() != pg_sys::LP_NORMAL
                || len < size_of::<pg_sys::HeapTupleHeaderData>()
                || at + len > pg_sys::BLCKSZ as usize
            {
                self.refuse_damaged(tid);
            }
            let tuple = page.cast::<u8>().add(at);
            let result = change(std::slice::from_raw_parts_mut(tuple, len));
            pg_sys::GenericXLogFinish(state);
            pg_sys::UnlockReleaseBuffer(buffer);
            result
        }
    }

    /// Deletes the tuple at `tid` in the running transaction.
    pub fn delete(&self, tid: Tid) {
        let mut tid = tid.raw();
        // SAFETY: the relation is open and locked for writing; a concurrent change raises an ERROR.
        unsafe { pg_sys::simple_heap_delete(self.toast, &mut tid) }
    }

    /// Deletes a tuple that the current transaction has inserted by the command, which may still
    /// run. Snapshots of the command after it may see the tuple or not.
    pub fn delete_after(&self, tid: Tid, command: CommandId) {
        let mut tid = tid.raw();
        let mut failure = pg_sys::TM_FailureData::default();
        // SAFETY: the relation is open and locked for writing.
        let result = unsafe {
            // Heap takes a tuple of the deleting command itself for invisible.
            let after = pg_sys::GetCurrentCommandId(true).max(command + 1);
            let no_crosscheck = std::ptr::null_mut();
            let (toast, failure) = (self.toast, &mut failure);
            pg_sys::heap_delete(toast, &mut tid, after, no_crosscheck, true, failure, false)
        };
        if result != pg_sys::TM_Result::TM_Ok {
            pgrx::error!("tuple of the current transaction was concurrently changed");
        }
    }

    /// Deletes every piece of a long value in the running transaction.
    pub fn delete_value(&self, id: u32) {
        let mut tids = Vec::new();
        self.scan_entries(
            id,
            0..=i32::MAX,
            false,
            &mut |tuple| tuple.is_in_force(),
            |entry| {
                tids.push(entry.tid);
                std::ops::ControlFlow::Continue(())
            },
        );
        for tid in tids {
            self.delete(tid);
            crate::check_for_interrupts!();
        }
    }

    /// Raises an ERROR: a tuple that is to be changed in place is not what was stored.
    #[cold]
    fn refuse_damaged(&self, tid: Tid) -> ! {
        let (block, offset) = (tid.block(), tid.offset());
        crate::damage::raise(format!(
            "{}: the record at ({block},{offset}) in TOAST relation {} is damaged",
            self.could_not_read(),
            self.toast().oid().to_u32()
        ))
    }
}

/// A long value as it was written.
#[derive(Clone, Copy, Debug)]
pub struct WrittenValue {
    pub id: u32,
    /// Where its first piece went: a hint for readers ([`super::PieceMap`]).
    pub first_block: pg_sys::BlockNumber,
}

/// A bulk-insert state: keeps the current page pinned between inserts.
pub struct BulkWrite(pg_sys::BulkInsertState);

impl BulkWrite {
    pub(super) fn begin() -> BulkWrite {
        // SAFETY: plain allocation in the current memory context.
        BulkWrite(unsafe { pg_sys::GetBulkInsertState() })
    }
}

impl Drop for BulkWrite {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: made by `begin`, freed once.
            unsafe { pg_sys::FreeBulkInsertState(self.0) }
        }
    }
}
