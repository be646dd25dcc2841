//! Where the rows of a merged group went.
//!
//! ```text
//!   Forward        order u8, first row u64, value id u32, value bytes u32
//!     order 0      from the first row on, in their order; the table names rows left behind
//!     order 1      each at its own place; the table has it
//!
//!   ForwardTable   a long value, of which the record tells id and length; 0, 0 if there is none
//!     of order 0   bitmap of the rows left behind, in words u64
//!     of order 1   for each row its number less the first row u32; 0xFFFF_FFFF: left behind
//! ```

use crate::frame::{Building, FRAME_BYTES, ShortRecord, open};
use crate::row_set::RowSet;
use crate::{Kind, MOST_GROUP_ROWS, ROW_NUMBER_LIMIT, RecordError};

/// The longest table.
const MOST_TABLE_BYTES: u32 = FRAME_BYTES as u32 + 4 * MOST_GROUP_ROWS;

/// How the rows of a group were laid out anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// One after the other, without some that were left behind.
    Kept,
    /// Each at its own place.
    Scattered,
}

/// The long value that holds a [`ForwardTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredTable {
    /// Its id.
    pub value_id: u32,
    /// Its length.
    pub value_bytes: u32,
}

/// Where the rows of a merged group went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forward {
    /// How they were laid out.
    pub order: Order,
    /// The row number from which their new numbers are counted.
    pub first_row: u64,
    /// Always there if they were scattered.
    pub table: Option<StoredTable>,
}

impl Forward {
    /// The bytes of the record.
    pub fn encode(&self) -> ShortRecord {
        let order = match self.order {
            Order::Kept => 0,
            Order::Scattered => 1,
        };
        let (id, bytes) = self.table.map_or((0, 0), |t| (t.value_id, t.value_bytes));
        Building::<ShortRecord>::of(Kind::Forward)
            .put([order])
            .put(self.first_row.to_le_bytes())
            .put(id.to_le_bytes())
            .put(bytes.to_le_bytes())
            .seal()
    }

    /// # Errors
    /// The record is damaged, or was written by a newer version.
    pub fn decode(record: &[u8]) -> Result<Forward, RecordError> {
        let mut fields = open(Kind::Forward, record)?;
        let damaged = fields.damaged();
        let order = match fields.u8()? {
            0 => Order::Kept,
            1 => Order::Scattered,
            _ => return Err(damaged),
        };
        let first_row = fields.u64()?;
        let table = match (fields.u32()?, fields.u32()?) {
            (0, 0) => None,
            (value_id @ 1.., value_bytes @ ..=MOST_TABLE_BYTES) => Some(StoredTable {
                value_id,
                value_bytes,
            }),
            _ => return Err(damaged),
        };
        fields.end()?;
        if first_row >= ROW_NUMBER_LIMIT || order == Order::Scattered && table.is_none() {
            return Err(damaged);
        }
        Ok(Forward {
            order,
            first_row,
            table,
        })
    }
}

/// The new places of the rows of a group, or those that have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ForwardTable {
    /// Of rows in their order: those that were left behind.
    Dropped(RowSet),
    /// Of scattered rows: the place of each, counted from the first row.
    Places(Vec<u32>),
}

impl ForwardTable {
    /// The place of a row that was left behind.
    pub const DROPPED: u32 = u32::MAX;

    /// The bytes of the table of rows in their order.
    pub fn encode_dropped(rows: &RowSet) -> Vec<u8> {
        ForwardTable::encode(&rows.to_bytes())
    }

    /// The bytes of the table of scattered rows.
    pub fn encode_places(places: &[u32]) -> Vec<u8> {
        let bytes: Vec<u8> = places
            .iter()
            .flat_map(|place| place.to_le_bytes())
            .collect();
        ForwardTable::encode(&bytes)
    }

    fn encode(content: &[u8]) -> Vec<u8> {
        Building::<Vec<u8>>::of(Kind::ForwardTable)
            .put_all(content)
            .seal()
    }

    /// The table of a record with this order.
    ///
    /// # Errors
    /// The bytes are damaged, or were written by a newer version.
    pub fn decode(order: Order, bytes: &[u8]) -> Result<ForwardTable, RecordError> {
        let fields = open(Kind::ForwardTable, bytes)?;
        let damaged = fields.damaged();
        let content = fields.rest();
        match order {
            Order::Kept
                if content.len() % 8 == 0 && content.len() <= MOST_GROUP_ROWS as usize / 8 =>
            {
                Ok(ForwardTable::Dropped(RowSet::from_bytes(content)))
            }
            Order::Scattered if content.len() % 4 == 0 => {
                let places = content.as_chunks().0.iter();
                Ok(ForwardTable::Places(
                    places.map(|place| u32::from_le_bytes(*place)).collect(),
                ))
            }
            _ => Err(damaged),
        }
    }
}
