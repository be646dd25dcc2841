//! How a collation compares text.

use pgrx::pg_sys;

use crate::ffi;

/// Whether the collation orders text by its bytes: C and POSIX, PostgreSQL's own C.UTF-8, and
/// locales of the C library that compare by `strcmp`, such as glibc's C.UTF-8.
pub fn orders_bytewise(collation: pg_sys::Oid) -> bool {
    if collation == pg_sys::InvalidOid {
        return false;
    }
    // SAFETY: the locale is cached for the life of the backend; an unusable collation raises
    // an ERROR.
    let locale = unsafe { &*ffi::pg_newlocale_from_collation(collation) };
    locale.collate_is_c || has_no_rules(locale)
}

/// Whether the locale is of a C library that has no rules for it: then `strcoll` is `strcmp`.
/// glibc tells the number of rules as an item of the locale, and decides by it (`strcoll_l.c`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn has_no_rules(locale: &ffi::PgLocaleHead) -> bool {
    /// `_NL_COLLATE_NRULES` of `langinfo.h`: the first item of category `LC_COLLATE`, 3.
    const NUMBER_OF_RULES: libc::nl_item = 3 << 16;
    if locale.provider as u8 != pg_sys::COLLPROVIDER_LIBC as u8 || locale.lt.is_null() {
        return false;
    }
    // SAFETY: PostgreSQL opened the locale for this collation and never frees it.
    let item = unsafe { libc::nl_langinfo_l(NUMBER_OF_RULES, locale.lt) };
    // Numbers come back in place of a pointer, in the 32 bits that lie first in memory.
    let bytes = (item as usize).to_ne_bytes();
    bytes[..size_of::<u32>()].iter().all(|&byte| byte == 0)
}

/// Other C libraries do not tell.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn has_no_rules(_locale: &ffi::PgLocaleHead) -> bool {
    false
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
