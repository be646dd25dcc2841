//! The new places of the rows of merged groups.
//!
//! ```text
//!   id 5, seq group    order, first row, id and length of a value
//!   the value          new places, or the rows left behind; none if all went in order
//! ```

use std::ops::ControlFlow;

use howdah_bridge::store::{Birth, ColdStore};
use howdah_bridge::tid::{GroupId, ROWS_PER_COLD_BLOCK, RowNumber};
use howdah_bridge::xid::{CommandId, Xid};
use howdah_records::{Forward, ForwardTable, Kind, Order, StoredTable};

use super::tuple_visibility::{in_force, writer_of};
use crate::errors::ColdError;
use crate::store::row_set::RowSet;

pub(in crate::store) const FORWARD_ID: u32 = Kind::Forward.id();

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
    pub const DROPPED: u32 = ForwardTable::DROPPED;
}

/// Records the new places of the rows of a merged group.
pub fn forward(store: &ColdStore, group: GroupId, route: &Route<'_>, cid: CommandId) {
    let (order, first, table) = match route {
        Route::InOrder { first, dropped } => {
            let table = dropped.map(ForwardTable::encode_dropped);
            (Order::Kept, first, table)
        }
        Route::Scattered { first, places } => {
            let table = ForwardTable::encode_places(places);
            (Order::Scattered, first, Some(table))
        }
    };
    let table = table.map(|bytes| StoredTable {
        value_id: store.write_value(&[&bytes], cid).id,
        value_bytes: bytes.len() as u32,
    });
    let payload = Forward {
        order,
        first_row: first.0,
        table,
    }
    .encode();
    let transactional = Birth::Transactional;
    store.insert(FORWARD_ID, group.key(), &payload, cid, transactional, None);
}

/// The present place of a row of a merged group, and the transaction that moved it.
pub fn forwarded(
    store: &ColdStore,
    group: GroupId,
    row: RowNumber,
) -> Result<Option<(RowNumber, Xid)>, ColdError> {
    let Some(places) = Places::of(store, group)? else {
        return Ok(None);
    };
    let position = (row.cold_block() - group.first_block()) * ROWS_PER_COLD_BLOCK as u32
        + (row.0 % ROWS_PER_COLD_BLOCK) as u32;
    Ok(places.place_of(position).map(|place| (place, places.by)))
}

/// The present places of the rows of one merged group.
pub struct Places {
    first: u64,
    by: Xid,
    table: ForwardTable,
}

impl Places {
    /// `None` if the group was not merged.
    pub fn of(store: &ColdStore, group: GroupId) -> Result<Option<Places>, ColdError> {
        let mut found = None;
        store.visit(FORWARD_ID, group.key()..=group.key(), &mut |shown| {
            if !in_force(&shown) {
                return ControlFlow::Continue(());
            }
            found = Some((shown.payload.to_vec(), writer_of(&shown).0));
            ControlFlow::Break(())
        });
        let Some((bytes, by)) = found else {
            return Ok(None);
        };
        let damaged = |error| ColdError::of_mark(group, error);
        let forward = Forward::decode(&bytes).map_err(damaged)?;
        let table = match forward.table {
            Some(stored) => {
                let mut bytes = vec![0; stored.value_bytes as usize];
                store.read_value(stored.value_id, 0, &mut bytes)?;
                ForwardTable::decode(forward.order, &bytes).map_err(damaged)?
            }
            None => ForwardTable::Dropped(RowSet::default()),
        };
        let first = forward.first_row;
        Ok(Some(Places { first, by, table }))
    }

    /// The new numbers of the rows at the first `row_count` positions, without rows left behind.
    pub fn iter(&self, row_count: u32) -> impl Iterator<Item = (u32, RowNumber)> {
        let mut dropped_before = 0;
        (0..row_count).filter_map(move |position| {
            let place = match &self.table {
                ForwardTable::Places(_) => self.place_of(position)?,
                ForwardTable::Dropped(dropped) if dropped.contains(position) => {
                    dropped_before += 1;
                    return None;
                }
                ForwardTable::Dropped(_) => {
                    RowNumber(self.first + u64::from(position - dropped_before))
                }
            };
            Some((position, place))
        })
    }

    /// The new number of the row at the position; `None` if it was left behind.
    fn place_of(&self, position: u32) -> Option<RowNumber> {
        let place = match &self.table {
            ForwardTable::Places(places) => *places.get(position as usize)?,
            ForwardTable::Dropped(dropped) if dropped.contains(position) => Route::DROPPED,
            ForwardTable::Dropped(dropped) => position - dropped.count_below(position),
        };
        (place != Route::DROPPED).then(|| RowNumber(self.first + u64::from(place)))
    }
}
