//! Relcache invalidations: receiving and sending them.

use pgrx::{pg_guard, pg_sys};

use crate::names;

/// Registers `callback` for changes of a relation, or of any (`None`), for the life of the process.
/// It is called for every invalidation, so it must be cheap.
pub fn at_invalidation(callback: fn(Option<pg_sys::Oid>)) {
    let argument = pg_sys::Datum::from(callback as usize);
    // SAFETY: what is registered stays loaded; a pointer to a function is as wide as a datum, and
    // made a function again by `call`.
    unsafe { pg_sys::CacheRegisterRelcacheCallback(Some(call), argument) }
}

#[pg_guard]
unsafe extern "C-unwind" fn call(callback: pg_sys::Datum, relation: pg_sys::Oid) {
    // SAFETY: what `at_invalidation` has registered.
    let callback: fn(Option<pg_sys::Oid>) = unsafe { std::mem::transmute(callback.value()) };
    callback((relation != pg_sys::InvalidOid).then_some(relation));
}

/// Makes every backend discard its relcache entry of a table once the transaction commits. Does
/// nothing if the table was dropped.
pub fn invalidate(table: pg_sys::Oid) {
    if names::relation_exists(table) {
        // SAFETY: the table exists: for one that does not, this would raise an ERROR.
        unsafe { pg_sys::CacheInvalidateRelcacheByRelid(table) }
    }
}
