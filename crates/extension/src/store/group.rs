//! Writing a row group and deleting one.

use howdah_bridge::store::ColdStore;
use howdah_bridge::xid::CommandId;
use howdah_columnar::{EncodeOptions, EncodedRowGroup, RowGroupBuilder};

use super::directory::{self, GroupEntry, GroupState, PlacedEntry};
use super::encode::encode;
use crate::errors::ColdError;
use crate::stop_point;

/// Encodes the rows and stores them under a reserved range, see [`store_encoded`].
pub fn write(
    store: &ColdStore,
    placed: &PlacedEntry,
    rows: &RowGroupBuilder,
    encoding: &EncodeOptions,
    cid: CommandId,
) -> Result<GroupEntry, ColdError> {
    let encoded = encode(rows, encoding)?;
    store_encoded(store, placed, rows.row_count(), &encoded, cid)
}

/// Stores an encoded row group under a reserved range.
///
/// The only lock taken is the allocation lock, for the moment in which an unused tail is given
/// back.
pub fn store_encoded(
    store: &ColdStore,
    placed: &PlacedEntry,
    row_count: usize,
    encoded: &EncodedRowGroup,
    cid: CommandId,
) -> Result<GroupEntry, ColdError> {
    let value = store.write_value(&[&encoded.footer, &encoded.body], cid);
    stop_point!("value_written");
    let entry = GroupEntry {
        state: GroupState::Stored,
        row_count: row_count as u32,
        value_id: value.id,
        first_block: value.first_block,
        footer_bytes: encoded.footer.len() as u32,
        body_bytes: encoded.body.len() as u64,
        ..placed.entry
    };
    directory::complete(store, placed, entry)?;
    stop_point!("completed");
    Ok(entry)
}

/// Deletes a group in the current transaction; the group's index entries become dead with it.
pub fn delete(store: &ColdStore, placed: &PlacedEntry) {
    directory::delete(store, placed);
    if placed.entry.state == GroupState::Stored {
        store.delete_value(placed.entry.value_id);
    }
}
