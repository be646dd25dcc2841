//! Statistics of a table's columns from ANALYZE.

use pgrx::pg_sys;

use crate::table::Table;

/// Average bytes of an attribute's values: what ANALYZE found, else what PostgreSQL takes for
/// granted of the type.
pub fn average_width(table: Table<'_>, attribute: usize) -> f64 {
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
