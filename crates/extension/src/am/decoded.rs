//! Changes of cold rows that logical decoding must see.
//!
//! Decoding reads what heap's own code has logged of a change; a row mark has no meaning to it. So
//! with `wal_level = logical` a cold row of a permanent table is deleted or updated twice: by its
//! mark, which alone decides visibility, and as a hot tuple that exists for this change only.
//!
//! ```text
//!   row lock held, row found unchanged                    (super::cold_rows)
//!   ├─ insert the old row, unseen by decoding       ─┐
//!   ├─ delete it, or update it to the new version    ├─ hot::decoding_tuple: visibility
//!   ├─ make it invisible to this transaction too    ─┘
//!   └─ mark the cold row: deleted, or updated to the new version's TID
//! ```
//!
//! The tuple has what decoding needs of the old row: the columns of the replica identity, all
//! columns if that is FULL, else none; the other columns are NULL. Nothing else reads it: one
//! command inserts and deletes it, so index builds skip it too. VACUUM removes it.
//!
//! A rollback voids mark and tuple alike, and so does a crash. Rows are never hidden in bulk here,
//! because decoding needs each of them. Moves, merges and VACUUM write no logical changes at all.

use howdah_bridge::hot::decoding_tuple::DecodingTuple;
use howdah_bridge::slot::Slot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::Table;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::CommandId;
use pgrx::PgMemoryContexts;

use crate::errors::{ColdError, or_raise};
use crate::store::directory::{GroupEntry, GroupState};
use crate::store::view::{RowDatums, point_value};

/// Logs the deletion of a cold row for decoding. `entry` is the stored group of the row, whose lock
/// is held; the mark is written by the same command.
pub fn delete(
    table: Table<'_>,
    store: &ColdStore,
    entry: GroupEntry,
    row: RowNumber,
    cid: CommandId,
    changing_partition: bool,
) {
    let old = bring_back(table, store, entry, row, cid);
    // SAFETY: the table is open, the tuple just inserted.
    unsafe { old.delete(table.raw(), changing_partition) }
}

/// Inserts the new version of a cold row among the hot rows, and logs the update for decoding;
/// `slot` has its TID then. As for [`delete`].
pub fn update(
    table: Table<'_>,
    store: &ColdStore,
    entry: GroupEntry,
    row: RowNumber,
    slot: Slot<'_>,
    cid: CommandId,
) {
    let old = bring_back(table, store, entry, row, cid);
    // SAFETY: the table is open, the tuple just inserted; the slot holds a row of the table.
    unsafe { old.update(table.raw(), slot.raw()) }
}

fn bring_back(
    table: Table<'_>,
    store: &ColdStore,
    entry: GroupEntry,
    row: RowNumber,
    cid: CommandId,
) -> DecodingTuple {
    let mut context = PgMemoryContexts::new("row brought back");
    // SAFETY: the table is open. All values live in the context, which outlives the insert.
    unsafe {
        context.switch_to(|_| {
            let mut datums = or_raise(table.oid(), old_row(table, store, entry, row));
            DecodingTuple::insert(table.raw(), &mut datums.values, &mut datums.nulls, cid)
        })
    }
}

/// The old row, with the columns that decoding needs.
fn old_row(
    table: Table<'_>,
    store: &ColdStore,
    entry: GroupEntry,
    row: RowNumber,
) -> Result<RowDatums, ColdError> {
    let group = entry.group();
    let position = entry
        .position_of(row)
        .filter(|_| entry.state == GroupState::Stored)
        .ok_or(ColdError::DamagedDirectory { group })?;
    let desc = table.descriptor();
    let mut datums = RowDatums::new(desc.attribute_count());
    for i in table.decoded_columns() {
        if let Some(value) = point_value(store, entry, position, desc, i)? {
            datums.set(i, value);
        }
    }
    Ok(datums)
}
