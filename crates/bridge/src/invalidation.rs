//! Relcache invalidations: being told of them, and sending them.

use pgrx::{pg_guard, pg_sys};

use crate::names;

/// Has `callback` called when something about a relation changes, or about any (`None`). It is a
/// matter of every invalidation, so it does little. For the life of the process.
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

/// Has every backend forget what it keeps of a table, once the transaction commits. Nothing if the
/// table is gone.
pub fn invalidate(table: pg_sys::Oid) {
    if names::relation_exists(table) {
        // SAFETY: the table exists: for one that does not, this would raise an ERROR.
        unsafe { pg_sys::CacheInvalidateRelcacheByRelid(table) }
    }
}
