//! Changes of cold rows that logical decoding must see.
//!
//! Decoding reads what heap's own code has logged of a change; a row mark has no meaning to it. So
//! with `wal_level = logical` a cold row of a permanent table is deleted or updated twice: by its
//! mark, which alone decides visibility, and as a hot tuple that exists for this change only.
//!
//! ```text
//!   row lock held, row found unchanged                    (super::cold_rows)
//!   ├─ insert the old row, unseen by decoding       ─┐
//!   ├─ delete it, or update it to the new version    ├─ hot::brought_back: visibility at each step
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

use howdah_bridge::hot::brought_back::BroughtBack;
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use pgrx::{PgMemoryContexts, pg_sys};

use crate::errors::{ColdError, or_raise};
use crate::store::directory::{GroupEntry, GroupState};
use crate::store::view::{RowDatums, point_value};

/// `RelationIsLogicallyLogged`, for tables of users.
///
/// # Safety
/// `rel` is open.
pub unsafe fn is_decoded(rel: pg_sys::Relation) -> bool {
    // SAFETY: as for this function.
    unsafe {
        pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_LOGICAL as i32
            && (*(*rel).rd_rel).relpersistence == pg_sys::RELPERSISTENCE_PERMANENT as i8
    }
}

/// Logs the deletion of a cold row for decoding.
///
/// # Safety
/// `rel` is open and locked for writing, `store` its cold store, `entry` the stored group of the
/// row, whose lock is held; the mark is written by the same command.
pub unsafe fn delete(
    rel: pg_sys::Relation,
    store: &ColdStore,
    entry: GroupEntry,
    row: RowNumber,
    cid: pg_sys::CommandId,
    changing_partition: bool,
) {
    // SAFETY: as for this function.
    unsafe { bring_back(rel, store, entry, row, cid).delete(rel, changing_partition) }
}

/// Inserts the new version of a cold row among the hot rows, and logs the update for decoding;
/// `slot` has its TID then.
///
/// # Safety
/// As for [`delete`]; `slot` holds a row of the table.
pub unsafe fn update(
    rel: pg_sys::Relation,
    store: &ColdStore,
    entry: GroupEntry,
    row: RowNumber,
    slot: *mut pg_sys::TupleTableSlot,
    cid: pg_sys::CommandId,
) {
    // SAFETY: as for this function.
    unsafe { bring_back(rel, store, entry, row, cid).update(rel, slot) }
}

unsafe fn bring_back(
    rel: pg_sys::Relation,
    store: &ColdStore,
    entry: GroupEntry,
    row: RowNumber,
    cid: pg_sys::CommandId,
) -> BroughtBack {
    let mut context = PgMemoryContexts::new("row brought back");
    // SAFETY: as for `delete`. All values live in the context, which outlives the insert.
    unsafe {
        context.switch_to(|_| {
            let mut datums = or_raise((*rel).rd_id, old_row(rel, store, entry, row));
            BroughtBack::insert(rel, &mut datums.values, &mut datums.nulls, cid)
        })
    }
}

/// The old row, with the columns that decoding needs.
unsafe fn old_row(
    rel: pg_sys::Relation,
    store: &ColdStore,
    entry: GroupEntry,
    row: RowNumber,
) -> Result<RowDatums, ColdError> {
    let group = entry.group();
    let position = entry
        .position_of(row)
        .filter(|_| entry.state == GroupState::Stored)
        .ok_or(ColdError::DamagedDirectory { group })?;
    // SAFETY: as for `delete`.
    unsafe {
        let desc = (*rel).rd_att;
        let mut datums = RowDatums::new((*desc).natts as usize);
        for i in wanted(rel) {
            if let Some(value) = point_value(store, entry, position, desc, i)? {
                datums.set(i, value);
            }
        }
        Ok(datums)
    }
}

/// The attributes that a change is decoded with, from zero.
unsafe fn wanted(rel: pg_sys::Relation) -> Vec<usize> {
    // SAFETY: the relation is open.
    unsafe {
        let desc = (*rel).rd_att;
        let identity = (*(*rel).rd_rel).relreplident as u8;
        if identity == pg_sys::REPLICA_IDENTITY_NOTHING {
            return Vec::new();
        }
        if identity == pg_sys::REPLICA_IDENTITY_FULL {
            let is_stored = |i: &usize| {
                let attribute = &*pg_sys::TupleDescAttr(desc, *i as i32);
                !attribute.attisdropped
                    && attribute.attgenerated as u8 != pg_sys::ATTRIBUTE_GENERATED_VIRTUAL
            };
            return (0..(*desc).natts as usize).filter(is_stored).collect();
        }
        let kind = pg_sys::IndexAttrBitmapKind::INDEX_ATTR_BITMAP_IDENTITY_KEY;
        let key = pg_sys::RelationGetIndexAttrBitmap(rel, kind);
        let mut attributes = Vec::new();
        let mut member = pg_sys::bms_next_member(key, -1);
        while member >= 0 {
            let number = member + pg_sys::FirstLowInvalidHeapAttributeNumber;
            attributes.extend(usize::try_from(number - 1));
            member = pg_sys::bms_next_member(key, member);
        }
        pg_sys::bms_free(key);
        attributes
    }
}
