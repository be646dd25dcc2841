//! Rows of the configuration table `howdah.options`, read and written as catalogs are.
//!
//! The table belongs to the extension's owner; users reach it by functions that check their
//! rights on the table whose options they ask for. Nothing here checks rights.

use std::ffi::CStr;

use howdah_bridge::relation::OpenRelation;
use pgrx::{FromDatum, IntoDatum, pg_sys};

/// Columns of `howdah.options`, by their position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// `regclass`
    Relation = 0,
    /// `text[]`
    SortKey = 1,
    /// `text`
    CompressionEffort = 2,
    /// `interval`
    CompactAfter = 3,
    /// `bigint`
    CompactMinRows = 4,
    /// `boolean`
    Compaction = 5,
}

/// Columns of `howdah.options`.
const FIELD_COUNT: usize = 6;

impl Field {
    /// Every option, with its name in SQL.
    pub const OPTIONS: [(&'static str, Field); 5] = [
        ("sort_key", Field::SortKey),
        ("compression_effort", Field::CompressionEffort),
        ("compact_after", Field::CompactAfter),
        ("compact_min_rows", Field::CompactMinRows),
        ("compaction", Field::Compaction),
    ];
}

/// One row, copied into the memory context that was current when it was read.
pub struct OptionsRow {
    /// Its place; `None` for a row that is not stored yet.
    tid: Option<pg_sys::ItemPointerData>,
    values: [pg_sys::Datum; FIELD_COUNT],
    nulls: [bool; FIELD_COUNT],
}

impl OptionsRow {
    /// A row without any option set.
    pub fn new(relation: pg_sys::Oid) -> OptionsRow {
        let mut row = OptionsRow {
            tid: None,
            values: [pg_sys::Datum::from(0); FIELD_COUNT],
            nulls: [true; FIELD_COUNT],
        };
        row.set(Field::Relation, relation.into_datum());
        row
    }

    pub fn get(&self, field: Field) -> Option<pg_sys::Datum> {
        (!self.nulls[field as usize]).then(|| self.values[field as usize])
    }

    pub fn set(&mut self, field: Field, value: Option<pg_sys::Datum>) {
        self.nulls[field as usize] = value.is_none();
        self.values[field as usize] = value.unwrap_or(pg_sys::Datum::from(0));
    }

    pub fn text(&self, field: Field) -> Option<String> {
        let datum = self.get(field)?;
        // SAFETY: only asked of fields of type text.
        unsafe { String::from_datum(datum, false) }
    }

    /// The names of the sort key's columns.
    pub fn sort_key(&self) -> Vec<String> {
        self.get(Field::SortKey)
            // SAFETY: the field is of type text[].
            .and_then(|datum| unsafe { Vec::<Option<String>>::from_datum(datum, false) })
            .map(|names| names.into_iter().flatten().collect())
            .unwrap_or_default()
    }

    /// An empty sort key is none.
    pub fn set_sort_key(&mut self, names: &[String]) {
        let datum = (!names.is_empty()).then(|| names.to_vec().into_datum());
        self.set(Field::SortKey, datum.flatten());
    }

    /// Whether no option is set, so that the row is not needed.
    pub fn is_empty(&self) -> bool {
        Field::OPTIONS
            .iter()
            .all(|(_, field)| self.get(*field).is_none())
    }
}

/// The configuration table, open.
pub struct OptionsTable(OpenRelation);

impl OptionsTable {
    /// `None` where the extension is not created, being created or being dropped.
    pub fn open(lockmode: u32) -> Option<OptionsTable> {
        let oid = options_oid()?;
        OpenRelation::try_open(oid, lockmode).map(|rel| OptionsTable(rel.releasing(lockmode)))
    }

    /// The row of a table.
    pub fn find(&self, relation: pg_sys::Oid) -> Option<OptionsRow> {
        let rel = self.0.raw();
        let mut key = pg_sys::ScanKeyData::default();
        // SAFETY: the relation is open; the scan is ended before returning; the tuple is copied
        // before its page is released, and the datums point into that copy.
        unsafe {
            pg_sys::ScanKeyInit(
                &mut key,
                Field::Relation as i16 + 1,
                pg_sys::BTEqualStrategyNumber as u16,
                pg_sys::Oid::from(pg_sys::F_OIDEQ),
                relation.into_datum().unwrap_or(pg_sys::Datum::from(0)),
            );
            let index = pg_sys::RelationGetPrimaryKeyIndex(rel, false);
            let scan = pg_sys::systable_beginscan(
                rel,
                index,
                index != pg_sys::InvalidOid,
                std::ptr::null_mut(),
                1,
                &mut key,
            );
            let found = pg_sys::systable_getnext(scan);
            let row = (!found.is_null()).then(|| {
                let tuple = pg_sys::heap_copytuple(found);
                let mut row = OptionsRow::new(relation);
                row.tid = Some((*tuple).t_self);
                pg_sys::heap_deform_tuple(
                    tuple,
                    (*rel).rd_att,
                    row.values.as_mut_ptr(),
                    row.nulls.as_mut_ptr(),
                );
                row
            });
            pg_sys::systable_endscan(scan);
            row
        }
    }

    /// Stores the row, or removes it when no option is left in it; everyone's cached options of
    /// its table become invalid when the transaction commits.
    pub fn put(&self, relation: pg_sys::Oid, row: &mut OptionsRow) {
        let rel = self.0.raw();
        // SAFETY: the relation is open and locked for writing; values match its descriptor.
        unsafe {
            if row.is_empty() {
                if let Some(mut tid) = row.tid {
                    pg_sys::CatalogTupleDelete(rel, &mut tid);
                }
            } else {
                let tuple = pg_sys::heap_form_tuple(
                    (*rel).rd_att,
                    row.values.as_mut_ptr(),
                    row.nulls.as_mut_ptr(),
                );
                match row.tid {
                    Some(mut tid) => pg_sys::CatalogTupleUpdate(rel, &mut tid, tuple),
                    None => pg_sys::CatalogTupleInsert(rel, tuple),
                }
                pg_sys::heap_freetuple(tuple);
            }
            invalidate(relation);
        }
    }

    /// Removes a table's row, if it has one.
    pub fn remove(&self, relation: pg_sys::Oid) {
        if let Some(mut tid) = self.find(relation).and_then(|row| row.tid) {
            // SAFETY: as in `put`.
            unsafe { pg_sys::CatalogTupleDelete(self.0.raw(), &mut tid) }
        }
    }
}

/// Makes everyone read a table's options again.
pub fn invalidate(relation: pg_sys::Oid) {
    // SAFETY: a syscache lookup guards against a table that is gone, for which the invalidation
    // would raise an ERROR; a table that is gone needs none.
    unsafe {
        let key = relation.into_datum().unwrap_or(pg_sys::Datum::from(0));
        let none = pg_sys::Datum::from(0);
        let reloid = pg_sys::SysCacheIdentifier::RELOID as i32;
        if pg_sys::SearchSysCacheExists(reloid, key, none, none, none) {
            pg_sys::CacheInvalidateRelcacheByRelid(relation);
        }
    }
}

/// OID of `howdah.options`, if the extension owns a table of that name.
fn options_oid() -> Option<pg_sys::Oid> {
    const EXTENSION: &CStr = c"howdah";
    // SAFETY: catalog lookups that return InvalidOid for what is not there.
    unsafe {
        let extension = pg_sys::get_extension_oid(EXTENSION.as_ptr(), true);
        if extension == pg_sys::InvalidOid {
            return None;
        }
        let schema = pg_sys::get_namespace_oid(EXTENSION.as_ptr(), true);
        if schema == pg_sys::InvalidOid {
            return None;
        }
        let oid = pg_sys::get_relname_relid(c"options".as_ptr(), schema);
        let owned = oid != pg_sys::InvalidOid
            && pg_sys::getExtensionOfObject(pg_sys::RelationRelationId, oid) == extension;
        owned.then_some(oid)
    }
}
