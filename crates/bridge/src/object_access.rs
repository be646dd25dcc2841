//! Notification of dropped tables and indexes.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use pgrx::pg_sys;

use crate::ffi::passing;

/// A relation that is being dropped.
#[derive(Clone, Copy, Debug)]
pub struct Dropped {
    pub relation: pg_sys::Oid,
    /// The table of which it is a BRIN index.
    pub brin_of: Option<pg_sys::Oid>,
}

static mut PREVIOUS: pg_sys::object_access_hook_type = None;
static AT_DROP: OnceLock<fn(Dropped)> = OnceLock::new();

/// Registers `at_drop` for each relation that is dropped, before its transaction ends. It must not
/// raise an ERROR. Call once, from `_PG_init`.
pub fn at_drop(at_drop: fn(Dropped)) {
    if AT_DROP.set(at_drop).is_ok() {
        // SAFETY: called while the library loads, before any command runs.
        unsafe {
            PREVIOUS = pg_sys::object_access_hook;
            pg_sys::object_access_hook = Some(at_object_access);
        }
    }
}

/// Called for every function that an expression calls, too, and therefore not guarded: an ERROR of
/// a catalog that cannot be read passes over this frame as it is.
///
/// # Safety
/// Called by the server, with the arguments of its hook.
unsafe extern "C-unwind" fn at_object_access(
    access: pg_sys::ObjectAccessType::Type,
    class: pg_sys::Oid,
    object: pg_sys::Oid,
    sub: c_int,
    arg: *mut c_void,
) {
    // SAFETY: the previous hook gets what we got; it was set before any command ran.
    unsafe {
        if let Some(previous) = PREVIOUS {
            previous(access, class, object, sub, arg);
        }
    }
    let is_drop = access == pg_sys::ObjectAccessType::OAT_DROP;
    if is_drop
        && class == pg_sys::RelationRelationId
        && sub == 0
        && let Some(at_drop) = AT_DROP.get()
    {
        // SAFETY: the relation is locked, and still in the catalogs.
        let brin_of = unsafe {
            (passing::get_rel_relam(object) == pg_sys::BRIN_AM_OID)
                .then(|| passing::IndexGetRelation(object, true))
        };
        at_drop(Dropped {
            relation: object,
            brin_of,
        });
    }
}
