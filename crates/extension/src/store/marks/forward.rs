//! The new places of the rows of merged groups.
//!
//! ```text
//!   id 5, seq group    first u64, value id u32, value bytes u32, kind u32, 0 u32, check u64
//!   the value          new places, or the rows left behind, check u64; none if all went in order
//! ```

use std::ops::ControlFlow;

use howdah_bridge::store::{Birth, ColdStore};
use howdah_bridge::tid::{ROWS_PER_COLD_BLOCK, RowNumber};
use howdah_bridge::xid::{CommandId, Xid};
use howdah_columnar::checksum_of;

use super::tuple_visibility::{in_force, writer_of};
use crate::errors::ColdError;
use crate::store::directory::fnv1a;
use crate::store::row_set::RowSet;

pub(in crate::store) const FORWARD_ID: u32 = 5;
const FORWARD_BYTES: usize = 32;

/// The new places of the rows of a merged group.
pub enum Route<'a> {
    /// From this number on, in their order, without some rows that were left behind.
    InOrder {
        first: RowNumber,
        dropped: Option<&'a RowSet>,
    },
    /// Each at its own place, counted from this number; [`Route::DROPPED`] means none.
    Scattered { first: RowNumber, places: Vec<u32> },
}

impl Route<'_> {
    pub const DROPPED: u32 = u32::MAX;
}

/// Records the new places of the rows of a merged group.
pub fn forward(store: &ColdStore, group: u32, route: &Route<'_>, cid: CommandId) {
    let (kind, first, table) = match route {
        Route::InOrder { first, dropped } => (0_u32, first, dropped.map(RowSet::to_bytes)),
        Route::Scattered { first, places } => {
            let bytes = places.iter().flat_map(|place| place.to_le_bytes());
            (1, first, Some(bytes.collect::<Vec<u8>>()))
        }
    };
    let (value_id, value_bytes) = table.map_or((0, 0), |bytes| {
        let check = checksum_of(&bytes).to_le_bytes();
        let value_bytes = bytes.len() + check.len();
        (
            store.write_value(&[&bytes, &check], cid).id,
            value_bytes as u32,
        )
    });
    let mut payload = [0; FORWARD_BYTES];
    payload[..8].copy_from_slice(&first.0.to_le_bytes());
    payload[8..12].copy_from_slice(&value_id.to_le_bytes());
    payload[12..16].copy_from_slice(&value_bytes.to_le_bytes());
    payload[16..20].copy_from_slice(&kind.to_le_bytes());
    let check = fnv1a(&payload[..24]);
    payload[24..].copy_from_slice(&check.to_le_bytes());
    let transactional = Birth::Transactional;
    store.insert(FORWARD_ID, group as i32, &payload, cid, transactional, None);
}

/// The present place of a row of a merged group, and the transaction that moved it.
pub fn forwarded(
    store: &ColdStore,
    group: u32,
    row: RowNumber,
) -> Result<Option<(RowNumber, Xid)>, ColdError> {
    let Some(places) = Places::of(store, group)? else {
        return Ok(None);
    };
    let position = (row.cold_block() - group) * ROWS_PER_COLD_BLOCK as u32
        + (row.0 % ROWS_PER_COLD_BLOCK) as u32;
    Ok(places.place_of(position).map(|place| (place, places.by)))
}

/// The present places of the rows of one merged group.
pub struct Places {
    first: u64,
    by: Xid,
    map: Map,
}

enum Map {
    Scattered(Vec<u8>),
    InOrder { dropped: RowSet },
}

impl Places {
    /// `None` if the group was not merged.
    pub fn of(store: &ColdStore, group: u32) -> Result<Option<Places>, ColdError> {
        let mut found = None;
        store.visit(FORWARD_ID, group as i32..=group as i32, &mut |shown| {
            if !in_force(&shown) {
                return ControlFlow::Continue(());
            }
            found = Some((shown.payload.to_vec(), writer_of(&shown).0));
            ControlFlow::Break(())
        });
        let Some((bytes, by)) = found else {
            return Ok(None);
        };
        if bytes.len() != FORWARD_BYTES || bytes[24..] != fnv1a(&bytes[..24]).to_le_bytes() {
            return Err(ColdError::DamagedMark { group });
        }
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap_or_default());
        let first = u64::from_le_bytes(bytes[..8].try_into().unwrap_or_default());
        let (value_id, value_bytes, kind) = (word(8), word(12), word(16));
        let mut table = vec![0; value_bytes as usize];
        if value_id != 0 {
            store.read_value(value_id, 0, &mut table)?;
            let body = table.len().saturating_sub(size_of::<u64>());
            if table[body..] != checksum_of(&table[..body]).to_le_bytes() {
                return Err(ColdError::DamagedMark { group });
            }
            table.truncate(body);
        }
        let map = match kind {
            1 => Map::Scattered(table),
            _ => Map::InOrder {
                dropped: RowSet::from_bytes(&table),
            },
        };
        Ok(Some(Places { first, by, map }))
    }

    /// The new numbers of the rows at the first `row_count` positions, without rows left behind.
    pub fn iter(&self, row_count: u32) -> impl Iterator<Item = (u32, RowNumber)> {
        let mut dropped_before = 0;
        (0..row_count).filter_map(move |position| {
            let place = match &self.map {
                Map::Scattered(_) => self.place_of(position)?,
                Map::InOrder { dropped } if dropped.contains(position) => {
                    dropped_before += 1;
                    return None;
                }
                Map::InOrder { .. } => RowNumber(self.first + u64::from(position - dropped_before)),
            };
            Some((position, place))
        })
    }

    /// The new number of the row at the position; `None` if it was left behind.
    fn place_of(&self, position: u32) -> Option<RowNumber> {
        let place = match &self.map {
            Map::Scattered(table) => {
                let at = position as usize * 4;
                let bytes = table.get(at..at + 4)?;
                u32::from_le_bytes(bytes.try_into().ok()?)
            }
            Map::InOrder { dropped } if dropped.contains(position) => Route::DROPPED,
            Map::InOrder { dropped } => position - dropped.count_below(position),
        };
        (place != Route::DROPPED).then(|| RowNumber(self.first + u64::from(place)))
    }
}
