//! Marks of single rows.

use std::ops::RangeInclusive;

use howdah_bridge::store::{Birth, ColdStore};
use howdah_bridge::tid::{RowNumber, Tid};
use howdah_bridge::xid::CommandId;

use super::mark::RowFate;
use crate::errors::ColdError;
use crate::store::directory::fnv1a;

pub(in crate::store) const FIRST_MARK_ID: u32 = 16;
const MARK_BYTES: usize = 16;
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

fn encode(fate: RowFate) -> [u8; MARK_BYTES] {
    let mut out = [0; MARK_BYTES];
    out[0] = match fate {
        RowFate::Deleted => 1,
        RowFate::Updated { to: tid, keeps_key } => {
            out[1] = u8::from(keeps_key);
            let (high, low) = ((tid.block() >> 16) as u16, tid.block() as u16);
            out[2..4].copy_from_slice(&high.to_le_bytes());
            out[4..6].copy_from_slice(&low.to_le_bytes());
            out[6..8].copy_from_slice(&tid.offset().to_le_bytes());
            2
        }
        RowFate::MovedAway => 3,
    };
    let check = fnv1a(&out[..8]);
    out[8..].copy_from_slice(&check.to_le_bytes());
    out
}

pub(in crate::store) fn decode(group: u32, payload: &[u8]) -> Result<RowFate, ColdError> {
    let half = |at: usize| u16::from_le_bytes([payload[at], payload[at + 1]]);
    if payload.len() != MARK_BYTES || payload[8..] != fnv1a(&payload[..8]).to_le_bytes() {
        return Err(ColdError::DamagedMark { group });
    }
    match payload[0] {
        1 => Ok(RowFate::Deleted),
        2 => Ok(RowFate::Updated {
            to: Tid::new(u32::from(half(2)) << 16 | u32::from(half(4)), half(6)),
            keeps_key: payload[1] == 1,
        }),
        3 => Ok(RowFate::MovedAway),
        _ => Err(ColdError::DamagedMark { group }),
    }
}

/// The bytes of the same mark without the place of the new version.
pub(in crate::store) fn without_place(group: u32, payload: &[u8]) -> Result<Vec<u8>, ColdError> {
    Ok(match decode(group, payload)? {
        RowFate::Updated { .. } => encode(RowFate::MovedAway).to_vec(),
        RowFate::Deleted | RowFate::MovedAway => payload.to_vec(),
    })
}

pub(in crate::store) fn insert(store: &ColdStore, row: RowNumber, fate: RowFate, cid: CommandId) {
    let (id, seq) = key_of(row);
    store.insert(id, seq, &encode(fate), cid, Birth::Transactional, None);
}
