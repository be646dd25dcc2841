//! Marks of single rows.

use howdah_bridge::store::{Birth, ColdStore};
use howdah_bridge::tid::{GroupId, RowNumber, Tid};
use howdah_bridge::xid::CommandId;
use howdah_records::{Kind, Place, RowMark, ShortRecord};

use super::mark::RowFate;
use super::row_keys::RowKeys;
use crate::errors::ColdError;

pub(in crate::store) const MARK_KEYS: RowKeys = RowKeys::of(Kind::RowMark);

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
    let (id, seq) = MARK_KEYS.key_of(row);
    store.insert(id, seq, &encode(fate), cid, Birth::Transactional, None);
}
