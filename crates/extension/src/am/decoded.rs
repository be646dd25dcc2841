//! Changes of cold rows that logical decoding must see.
//!
//! Decoding reads what heap's own code has logged of a change; a row mark tells it nothing. So with
//! `wal_level = logical` a cold row of a permanent table is deleted or updated twice: by its mark,
//! which is what everybody here goes by, and as a hot tuple that is there for this change alone.
//!
//! ```text
//!   row lock held, nothing has become of the row        (super::cold_rows)
//!   ├─ bring the old row back, unseen by decoding  ─┐
//!   ├─ delete it, or update it to the new version   ├─ hot::brought_back: who sees what, when
//!   ├─ make it invisible to this transaction too   ─┘
//!   └─ mark the cold row: deleted, or updated to the new version's place
//! ```
//!
//! The tuple has what decoding wants of the old row: the columns of the replica identity, all of
//! them if that is FULL, else nothing; the others are NULL. Nobody reads it otherwise: it was made and
//! unmade by one command, so index builds pass over it too. VACUUM removes it.
//!
//! A rollback voids mark and tuple alike, and so does a crash. Rows are never hidden in bulk here, as
//! decoding wants them one by one. Moving, merging and vacuuming write no logical changes at all.

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

/// Tells decoding that a cold row is deleted.
///
/// # Safety
/// `rel` is open and locked for writing, `store` its cold store, `entry` the stored group of the row,
/// whose lock is held; the mark is written by the same command.
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

/// Puts the new version of a cold row among the hot ones, and tells decoding so; `slot` knows its
/// TID then.
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

/// The old row as far as decoding wants it.
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
