//! Security labels of tables and of their columns: what `commands/seclabel.c` keeps in
//! `pg_seclabel`.
//!
//! PostgreSQL removes a label together with its table or column, follows renames because labels
//! name columns by number, and dumps labels under the current names. It does not invalidate
//! relcache entries for a label: callers that cache labels must do so.
//!
//! Locks: writers of a table's labels hold ShareUpdateExclusiveLock on it, as SECURITY LABEL
//! does; readers hold none.

use std::ffi::{CStr, CString, c_char};
use std::sync::OnceLock;

use pgrx::{IntoDatum, pg_guard, pg_sys};

use crate::table::RelationKind;

/// One label of a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The column that is labelled; 0 for the table itself.
    pub column: i16,
    pub text: String,
}

/// Makes SECURITY LABEL FOR `provider` known to this backend. PostgreSQL cannot undo this.
///
/// `check` is called for each label that is set by that statement, after ownership was checked,
/// and before the label is stored; with `None` for a label that is removed. PostgreSQL holds
/// ShareUpdateExclusiveLock on the object.
///
/// One provider can be registered.
pub fn register_provider(provider: &CStr, check: Check) {
    if CHECK.set(check).is_ok() {
        // SAFETY: the name is copied.
        unsafe { pg_sys::register_label_provider(provider.as_ptr(), Some(call_check)) }
    }
}

/// Checks a label of an object.
pub type Check = fn(&Labelled, Option<&str>);

static CHECK: OnceLock<Check> = OnceLock::new();

/// What a label is put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Labelled {
    Relation {
        oid: pg_sys::Oid,
        /// The number of its column; 0 is the relation itself.
        column: i32,
        kind: RelationKind,
        is_catalog: bool,
    },
    /// Anything else.
    Other,
}

#[pg_guard]
unsafe extern "C-unwind" fn call_check(object: *const pg_sys::ObjectAddress, text: *const c_char) {
    // SAFETY: the object exists and is locked, the text is NULL or NUL-terminated.
    let (object, text) = unsafe {
        let text = (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy());
        (*object, text)
    };
    let labelled = match object.classId == pg_sys::RelationRelationId {
        false => Labelled::Other,
        // SAFETY: catalog lookups.
        true => unsafe {
            Labelled::Relation {
                oid: object.objectId,
                column: object.objectSubId,
                kind: RelationKind::of(pg_sys::get_rel_relkind(object.objectId)),
                is_catalog: pg_sys::IsCatalogRelationOid(object.objectId),
            }
        },
    };
    if let Some(check) = CHECK.get() {
        check(&labelled, text.as_deref());
    }
}

/// The provider's labels of a table and of its columns.
pub fn labels_of(table: pg_sys::Oid, provider: &CStr) -> Vec<Label> {
    let mut keys: [pg_sys::ScanKeyData; 2] = Default::default();
    let mut labels = Vec::new();
    // SAFETY: the catalog is open and locked during the scan; a tuple is read before the next one
    // is requested; provider and label are declared NOT NULL and of type text.
    unsafe {
        for (key, column, value) in [
            (0, pg_sys::Anum_pg_seclabel_objoid, table.into_datum()),
            (
                1,
                pg_sys::Anum_pg_seclabel_classoid,
                pg_sys::RelationRelationId.into_datum(),
            ),
        ] {
            pg_sys::ScanKeyInit(
                &mut keys[key],
                column as i16,
                pg_sys::BTEqualStrategyNumber as u16,
                pg_sys::Oid::from(pg_sys::F_OIDEQ),
                value.unwrap_or(pg_sys::Datum::from(0)),
            );
        }
        let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
        let catalog = pg_sys::table_open(pg_sys::SecLabelRelationId, lock);
        let scan = pg_sys::systable_beginscan(
            catalog,
            pg_sys::Oid::from(pg_sys::SecLabelObjectIndexId),
            true,
            std::ptr::null_mut(),
            2,
            keys.as_mut_ptr(),
        );
        loop {
            let tuple = pg_sys::systable_getnext(scan);
            if tuple.is_null() {
                break;
            }
            let value = |number: u32| {
                let mut is_null = false;
                pg_sys::heap_getattr(tuple, number as i32, (*catalog).rd_att, &mut is_null)
            };
            if text(value(pg_sys::Anum_pg_seclabel_provider)).as_bytes() == provider.to_bytes() {
                labels.push(Label {
                    column: value(pg_sys::Anum_pg_seclabel_objsubid).value() as i16,
                    text: text(value(pg_sys::Anum_pg_seclabel_label)),
                });
            }
        }
        pg_sys::systable_endscan(scan);
        pg_sys::table_close(catalog, lock);
    }
    labels
}

/// Sets the provider's label of a table (column 0) or of one of its columns; `None` removes it.
/// At most once per command and object: call `CommandCounterIncrement` in between.
pub fn set_label(table: pg_sys::Oid, column: i16, provider: &CStr, label: Option<&str>) {
    let object = pg_sys::ObjectAddress {
        classId: pg_sys::RelationRelationId,
        objectId: table,
        objectSubId: i32::from(column),
    };
    // A label cannot contain a NUL byte.
    let label = label.map(|label| CString::new(label).unwrap_or_default());
    let label = label.as_deref().map_or(std::ptr::null(), CStr::as_ptr);
    // SAFETY: the strings are NUL-terminated and copied.
    unsafe { pg_sys::SetSecurityLabel(&object, provider.as_ptr(), label) }
}

/// # Safety
/// `datum` is a text value that is not NULL.
unsafe fn text(datum: pg_sys::Datum) -> String {
    // SAFETY: as for this function; the copy is freed with the current memory context.
    let copy = unsafe { CStr::from_ptr(pg_sys::text_to_cstring(datum.cast_mut_ptr())) };
    copy.to_string_lossy().into_owned()
}
