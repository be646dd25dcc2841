//! Statistics of a table's columns from ANALYZE.
//!
//! They are remembered, because planning over partitions asks for those of each of them, and a
//! look-up in the system cache costs more than what is done with the answer. All are forgotten when
//! a statistic or a relation changes.

use std::cell::{Cell, RefCell};
use std::ffi::c_int;

use pgrx::{pg_guard, pg_sys};
use rustc_hash::FxHashMap;

use crate::invalidation::at_invalidation;
use crate::table::Table;

/// More figures than that are not remembered.
const MOST: usize = 1 << 16;

/// A figure of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Figure {
    Width,
    Correlation,
}

thread_local! {
    static KNOWN: RefCell<FxHashMap<(u32, usize, Figure), f64>> = RefCell::default();
    /// How many changes this backend was told of.
    static CHANGES: Cell<u64> = const { Cell::new(0) };
    /// As many as there were when all that is known was found out; `None` before this backend
    /// listens.
    static KNOWN_AT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// A figure of an attribute: known, or looked up.
fn figure(
    table: Table<'_>,
    attribute: usize,
    figure: Figure,
    look_up: impl FnOnce() -> f64,
) -> f64 {
    let key = (table.oid().to_u32(), attribute, figure);
    if KNOWN_AT.get().is_none() {
        listen();
    }
    let changes = CHANGES.get();
    if KNOWN_AT.replace(Some(changes)) != Some(changes) {
        KNOWN.with_borrow_mut(FxHashMap::clear);
    } else if let Some(known) = KNOWN.with_borrow(|known| known.get(&key).copied()) {
        return known;
    }
    let found = look_up();
    // The look-up may have been told of changes.
    if CHANGES.get() == changes {
        KNOWN.with_borrow_mut(|known| {
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(key, found);
        });
    }
    found
}

/// Counts changes of statistics and relations from now on.
fn listen() {
    at_invalidation(|_| CHANGES.set(CHANGES.get().wrapping_add(1)));
    let cache = pg_sys::SysCacheIdentifier::STATRELATTINH as c_int;
    // SAFETY: the callback stays loaded as long as the process lives.
    unsafe {
        pg_sys::CacheRegisterSyscacheCallback(cache, Some(count_change), pg_sys::Datum::from(0));
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn count_change(_argument: pg_sys::Datum, _cache: c_int, _hash: u32) {
    CHANGES.set(CHANGES.get().wrapping_add(1));
}

/// Average bytes of an attribute's values: what ANALYZE found, else what PostgreSQL takes for
/// granted of the type.
pub fn average_width(table: Table<'_>, attribute: usize) -> f64 {
    // SAFETY: plain read of a hook. How long its answers hold is not known.
    let is_hooked = unsafe { pg_sys::get_attavgwidth_hook }.is_some();
    match is_hooked {
        true => width_of(table, attribute),
        false => figure(table, attribute, Figure::Width, || {
            width_of(table, attribute)
        }),
    }
}

fn width_of(table: Table<'_>, attribute: usize) -> f64 {
    // SAFETY: a lookup by OID.
    let known = unsafe { pg_sys::get_attavgwidth(table.oid(), attribute as i16 + 1) };
    if known > 0 {
        return f64::from(known);
    }
    let attribute = table.descriptor().attribute(attribute);
    // SAFETY: a catalog lookup of a type that exists.
    f64::from(unsafe { pg_sys::get_typavgwidth(attribute.atttypid, attribute.atttypmod) })
}

/// The largest of the targets that ANALYZE collects statistics of the table's columns for: of
/// columns without one of their own, the default.
pub fn largest_target(table: Table<'_>) -> i32 {
    // SAFETY: reads a setting.
    let mut target = unsafe { pg_sys::default_statistics_target };
    for number in 1..=table.descriptor().attribute_count() as i16 {
        // SAFETY: a lookup in the system cache; the tuple is released after use.
        unsafe {
            let cache = pg_sys::SysCacheIdentifier::ATTNUM as i32;
            let (relation, number) = (table.oid().into(), pg_sys::Datum::from(number));
            let tuple = pg_sys::SearchSysCache2(cache, relation, number);
            if tuple.is_null() {
                continue;
            }
            let mut is_null = false;
            let own = pg_sys::Anum_pg_attribute_attstattarget as i16;
            let own = pg_sys::SysCacheGetAttr(cache, tuple, own, &mut is_null);
            if !is_null {
                target = target.max(i32::from(own.value() as i16));
            }
            pg_sys::ReleaseSysCache(tuple);
        }
    }
    target
}

/// The statistical correlation of an attribute with the order of rows; 0 if unknown.
pub fn correlation(table: Table<'_>, attribute: usize) -> f64 {
    figure(table, attribute, Figure::Correlation, || {
        correlation_of(table, attribute)
    })
}

fn correlation_of(table: Table<'_>, attribute: usize) -> f64 {
    // SAFETY: a lookup in the system cache, released below; numbers are read while it is held.
    unsafe {
        let tuple = pg_sys::SearchSysCache3(
            pg_sys::SysCacheIdentifier::STATRELATTINH as i32,
            pg_sys::Datum::from(table.oid()),
            pg_sys::Datum::from(attribute as i16 + 1),
            pg_sys::Datum::from(false),
        );
        if tuple.is_null() {
            return 0.0;
        }
        let mut slot = pg_sys::AttStatsSlot::default();
        let found = pg_sys::get_attstatsslot(
            &mut slot,
            tuple,
            pg_sys::STATISTIC_KIND_CORRELATION as i32,
            pg_sys::InvalidOid,
            pg_sys::ATTSTATSSLOT_NUMBERS as i32,
        );
        let correlation = match found && slot.nnumbers > 0 {
            true => f64::from(*slot.numbers),
            false => 0.0,
        };
        if found {
            pg_sys::free_attstatsslot(&mut slot);
        }
        pg_sys::ReleaseSysCache(tuple);
        correlation
    }
}
