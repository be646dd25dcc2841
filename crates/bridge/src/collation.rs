//! How a collation compares text.

use pgrx::pg_sys;

use crate::ffi;

/// Whether the collation orders text by its bytes, as C and POSIX do.
pub fn orders_bytewise(collation: pg_sys::Oid) -> bool {
    if collation == pg_sys::InvalidOid {
        return false;
    }
    // SAFETY: the locale is cached for the life of the backend; an unusable collation raises
    // an ERROR.
    unsafe { (*ffi::pg_newlocale_from_collation(collation)).collate_is_c }
}

/// Whether texts are equal under the collation only where their bytes are.
pub fn is_deterministic(collation: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    collation != pg_sys::InvalidOid && unsafe { pg_sys::get_collation_isdeterministic(collation) }
}

/// Whether text of this database is UTF-8.
pub fn is_utf8_database() -> bool {
    // SAFETY: plain read of the database's encoding.
    unsafe { ffi::quiet::GetDatabaseEncoding() == pg_sys::pg_enc::PG_UTF8 as i32 }
}
