//! Marks of single rows.

use std::ops::RangeInclusive;

use howdah_bridge::store::{Birth, ColdStore};
use howdah_bridge::tid::{GroupId, RowNumber, Tid};
use howdah_bridge::xid::CommandId;
use howdah_records::{Kind, Place, RowMark, ShortRecord};

use super::mark::RowFate;
use crate::errors::ColdError;

pub(in crate::store) const FIRST_MARK_ID: u32 = Kind::RowMark.id();
const SEQ_BITS: u32 = 31;

pub(in crate::store) fn key_of(row: RowNumber) -> (u32, i32) {
    let id = FIRST_MARK_ID + (row.0 >> SEQ_BITS) as u32;
    (id, (row.0 & ((1 << SEQ_BITS) - 1)) as i32)
}

pub(in crate::store) fn row_of(id: u32, seq: i32) -> RowNumber {
    RowNumber((u64::from(id - FIRST_MARK_ID) << SEQ_BITS) | seq as u64)
}

/// The key ranges of the marks of `rows` row numbers from `first` on.
pub(in crate::store) fn key_ranges(first: RowNumber, rows: u32) -> Vec<(u32, RangeInclusive<i32>)> {
    let last = RowNumber(first.0 + u64::from(rows.max(1)) - 1);
    let ((low_id, low), (high_id, high)) = (key_of(first), key_of(last));
    if low_id == high_id {
        vec![(low_id, low..=high)]
    } else {
        vec![(low_id, low..=i32::MAX), (high_id, 0..=high)]
    }
}

/// A row's fate as records have it.
pub(super) fn recorded(fate: RowFate) -> howdah_records::RowFate {
    fate.map(|tid| Place {
        block: tid.block(),
        offset: tid.offset(),
    })
}

/// A row's fate from a record.
pub(super) fn from_record(fate: howdah_records::RowFate) -> RowFate {
    fate.map(|place| Tid::new(place.block, place.offset))
}

fn encode(fate: RowFate) -> ShortRecord {
    RowMark(recorded(fate)).encode()
}

pub(in crate::store) fn decode(group: GroupId, payload: &[u8]) -> Result<RowFate, ColdError> {
    match RowMark::decode(payload) {
        Ok(RowMark(fate)) => Ok(from_record(fate)),
        Err(error) => Err(ColdError::of_mark(group, error)),
    }
}

/// The bytes of the same mark without the place of the new version.
pub(in crate::store) fn without_place(
    group: GroupId,
    payload: &[u8],
) -> Result<Vec<u8>, ColdError> {
    Ok(match decode(group, payload)? {
        RowFate::Updated { .. } => encode(RowFate::MovedPartitions).to_vec(),
        RowFate::Deleted | RowFate::MovedPartitions => payload.to_vec(),
    })
}

pub(in crate::store) fn insert(store: &ColdStore, row: RowNumber, fate: RowFate, cid: CommandId) {
    let (id, seq) = key_of(row);
    store.insert(id, seq, &encode(fate), cid, Birth::Transactional, None);
}
