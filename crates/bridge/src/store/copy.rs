//! Copies tuples, for rewrites, from one store into another that no other transaction can see yet.
//!
//! A rewrite must keep everything that a running snapshot sees. What is visible to all is written
//! frozen; anything else is inserted and then gets the transaction fields of its original, as
//! heap's own rewrite does for a row.

use pgrx::pg_sys;

use super::piece::{PIECE_BYTES, seal};
use super::{Birth, BulkWrite, ColdStore, PieceMap, StoreError, VALUE_BYTES, WrittenValue};
use crate::slot::Origin;
use crate::tid::Tid;
use crate::xid::{CommandId, Xid};

/// Pieces that are read in one go while a value is copied.
const PIECES_AT_ONCE: usize = 64;

/// The transaction fields of a tuple's header, which decide its visibility.
#[derive(Clone, Copy)]
pub struct TupleStamp {
    fields: pg_sys::HeapTupleFields,
    xact_bits: u16,
}

impl TupleStamp {
    /// # Safety
    /// `tuple` is valid; its page is pinned and locked.
    pub unsafe fn of(tuple: pg_sys::HeapTuple) -> TupleStamp {
        // SAFETY: the caller vouches for the tuple.
        let (mut fields, xact_bits) = unsafe {
            let header = &*(*tuple).t_data;
            (
                header.t_choice.t_heap,
                header.t_infomask & pg_sys::HEAP_XACT_MASK as u16,
            )
        };
        if u32::from(xact_bits) & pg_sys::HEAP_XMAX_INVALID != 0 {
            // The xmax is of a transaction that was rolled back, maybe before the new relation's
            // relfrozenxid: VACUUM would report it as damage.
            fields.t_xmax = pg_sys::InvalidTransactionId;
        }
        TupleStamp { fields, xact_bits }
    }

    /// Whether the tuple's inserter precedes `horizon` and no transaction has deleted the tuple:
    /// then it is visible to all, given that it is live.
    pub fn is_settled(&self, horizon: Xid) -> bool {
        self.is_inserted_before(horizon)
            && u32::from(self.xact_bits) & pg_sys::HEAP_XMAX_INVALID != 0
    }

    /// The stamp of a tuple that is visible to exactly those snapshots that do not see the effects
    /// of a transaction.
    pub fn until(origin: Origin) -> TupleStamp {
        let mut fields = pg_sys::HeapTupleFields {
            t_xmin: pg_sys::FrozenTransactionId,
            t_xmax: origin.xid.raw(),
            ..pg_sys::HeapTupleFields::default()
        };
        fields.t_field3.t_cid = origin.cid;
        TupleStamp {
            fields,
            xact_bits: pg_sys::HEAP_XMIN_FROZEN as u16,
        }
    }

    /// Whether the inserter precedes `horizon`, or is frozen.
    pub fn is_inserted_before(&self, horizon: Xid) -> bool {
        let frozen = u32::from(self.xact_bits) & pg_sys::HEAP_XMIN_FROZEN;
        frozen == pg_sys::HEAP_XMIN_FROZEN || Xid::from_raw(self.fields.t_xmin).precedes(horizon)
    }

    /// The transaction that deleted the tuple, given that it was deleted.
    pub fn deleter(&self) -> Xid {
        Xid::from_raw(self.fields.t_xmax)
    }

    /// The same with the inserter frozen if it precedes `horizon`, so that no transaction id older
    /// than the new relation's relfrozenxid is left.
    fn frozen_before(mut self, horizon: Xid) -> TupleStamp {
        if Xid::from_raw(self.fields.t_xmin).precedes(horizon) {
            self.xact_bits |= pg_sys::HEAP_XMIN_FROZEN as u16;
        }
        self
    }
}

/// The visibility of copied tuples.
#[derive(Clone, Copy)]
pub enum CopiedAs {
    /// Visible to all.
    Frozen,
    /// As their original; inserters before the horizon are frozen.
    Stamped(TupleStamp, Xid),
}

impl CopiedAs {
    fn birth(self) -> Birth {
        match self {
            CopiedAs::Frozen => Birth::Frozen,
            CopiedAs::Stamped(..) => Birth::Transactional,
        }
    }
}

/// A long value on its way into a store, piece by piece.
struct Copy<'a> {
    store: &'a ColdStore<'a>,
    id: u32,
    cid: CommandId,
    copied_as: CopiedAs,
    bulk: BulkWrite,
    payload: Vec<u8>,
    seq: i32,
    first_block: pg_sys::BlockNumber,
}

impl<'a> Copy<'a> {
    fn begin(store: &'a ColdStore<'a>, id: u32, cid: CommandId, copied_as: CopiedAs) -> Self {
        Copy {
            store,
            id,
            cid,
            copied_as,
            bulk: BulkWrite::begin(),
            payload: Vec::with_capacity(VALUE_BYTES),
            seq: 0,
            first_block: pg_sys::InvalidBlockNumber,
        }
    }

    /// Adds the next piece, full but for the last one.
    fn add(&mut self, bytes: &[u8]) {
        seal((self.id, self.seq), bytes, &mut self.payload);
        let (id, seq, cid, copied_as) = (self.id, self.seq, self.cid, self.copied_as);
        let bulk = Some(&self.bulk);
        let tid = self
            .store
            .insert_copy(id, seq, &self.payload, cid, copied_as, bulk);
        if seq == 0 {
            self.first_block = tid.block();
        }
        self.seq += 1;
        crate::check_for_interrupts!();
    }

    fn end(self) -> WrittenValue {
        WrittenValue {
            id: self.id,
            first_block: self.first_block,
        }
    }
}

impl ColdStore<'_> {
    /// Inserts a tuple with the visibility that `copied_as` gives. Unique keys are not checked: the
    /// source store has checked them. A check would do harm: a relation that was created by the
    /// running transaction is visible to no other, so the server takes the index entry of a
    /// replaced tuple for one that no snapshot needs, and kills it, although old snapshots will
    /// need it.
    pub fn insert_copy(
        &self,
        id: u32,
        seq: i32,
        payload: &[u8],
        cid: CommandId,
        copied_as: CopiedAs,
        bulk: Option<&BulkWrite>,
    ) -> Tid {
        let (birth, unchecked) = (copied_as.birth(), pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO);
        let tid = self.insert_as((id, seq), payload, cid, birth, bulk, unchecked);
        if let CopiedAs::Stamped(stamp, horizon) = copied_as {
            self.stamp(tid, &stamp.frozen_before(horizon));
        }
        tid
    }

    /// Copies `len` bytes of value `id` out of `source`, under the same id: verified there, and
    /// sealed anew.
    ///
    /// # Errors
    /// A piece that is missing, damaged or of the wrong length.
    pub fn copy_value(
        &self,
        source: &ColdStore,
        id: u32,
        len: u64,
        cid: CommandId,
        copied_as: CopiedAs,
    ) -> Result<WrittenValue, StoreError> {
        let mut copy = Copy::begin(self, id, cid, copied_as);
        let map = std::cell::RefCell::new(PieceMap::default());
        let reader = source.value(id, &map);
        let mut bytes = vec![0; PIECES_AT_ONCE * PIECE_BYTES];
        let mut done = 0;
        while done < len {
            let take = (bytes.len() as u64).min(len - done) as usize;
            let mut filled = 0;
            reader.read_run(done, take as u64, &mut |part| {
                bytes[filled..filled + part.len()].copy_from_slice(part);
                filled += part.len();
            })?;
            bytes[..take].chunks(PIECE_BYTES).for_each(|b| copy.add(b));
            done += take as u64;
        }
        Ok(copy.end())
    }

    /// Writes a long value under a given id. `parts` are concatenated.
    pub fn write_copy(
        &self,
        id: u32,
        parts: &[&[u8]],
        cid: CommandId,
        copied_as: CopiedAs,
    ) -> WrittenValue {
        let mut copy = Copy::begin(self, id, cid, copied_as);
        let bytes = parts.concat();
        bytes.chunks(PIECE_BYTES).for_each(|b| copy.add(b));
        copy.end()
    }

    /// Gives the tuple at `tid` the transaction fields of another one.
    fn stamp(&self, tid: Tid, stamp: &TupleStamp) {
        self.change_tuple(tid, |tuple| {
            let header = tuple.as_mut_ptr().cast::<pg_sys::HeapTupleHeaderData>();
            // SAFETY: a tuple begins with its header.
            unsafe {
                (*header).t_choice.t_heap = stamp.fields;
                (*header).t_infomask =
                    ((*header).t_infomask & !(pg_sys::HEAP_XACT_MASK as u16)) | stamp.xact_bits;
            }
        });
    }
}
