//! Options of single tables.
//!
//! ```text
//!   howdah.set_options() ──> catalog: one row of howdah.options ──dump, restore──> …
//!                               │   ▲
//!        of(table) <── cache ───┘   └── follow: column renames and drops, table drops
//! ```
//!
//! Options live in the configuration table `howdah.options`, one row per table that has any,
//! because an access method has no reloptions of its own that pg_dump would keep. A sort key is
//! kept as column names: attribute numbers change when a dump is restored. `follow` keeps the
//! names in step.
//!
//! Readers go through [`of`], which keeps what it read per backend until the table's relcache
//! entry is invalidated; whoever changes a row invalidates it, a trigger on the configuration
//! table included (a restore fills it by COPY).
//!
//! Locks: writers hold ShareUpdateExclusiveLock on the table whose options change, as ALTER
//! TABLE … SET does; readers need no lock on it.

pub mod catalog;
mod follow;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use howdah_columnar::Effort;
use pgrx::{FromDatum, pg_guard, pg_sys};

use catalog::{Field, OptionsTable};

/// What is set for one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Whether the background worker may compact the table.
    pub compaction: bool,
    /// How long a page must have been quiet before its rows are moved; `None`: the setting
    /// `howdah.compact_after` decides.
    pub compact_after_ms: Option<i64>,
    /// Hot rows below this number are not worth a row group; `None`: the setting
    /// `howdah.compact_min_rows` decides.
    pub compact_min_rows: Option<i64>,
    /// Attribute numbers of the columns that row groups are sorted by; empty: as they come;
    /// `None`: the order of the table's last CLUSTER decides.
    pub sort_key: Option<Vec<i16>>,
    /// `None`: the setting `howdah.compression_effort` decides.
    pub effort: Option<Effort>,
}

impl Default for TableOptions {
    fn default() -> TableOptions {
        TableOptions {
            compaction: true,
            compact_after_ms: None,
            compact_min_rows: None,
            sort_key: None,
            effort: None,
        }
    }
}

thread_local! {
    static CACHE: RefCell<HashMap<pg_sys::Oid, Rc<TableOptions>>> = RefCell::default();
}

/// Registers the cache's invalidation and the hook of `follow`. Call once, from `_PG_init`.
pub fn register() {
    // SAFETY: called while the library loads.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(at_invalidation), pg_sys::Datum::from(0));
    }
    follow::register();
}

#[pg_guard]
unsafe extern "C-unwind" fn at_invalidation(_arg: pg_sys::Datum, relation: pg_sys::Oid) {
    CACHE.with_borrow_mut(|cache| {
        if relation == pg_sys::InvalidOid {
            cache.clear();
        } else {
            cache.remove(&relation);
        }
    });
}

/// The options of a table.
pub fn of(table: pg_sys::Oid) -> Rc<TableOptions> {
    if let Some(known) = CACHE.with_borrow(|cache| cache.get(&table).map(Rc::clone)) {
        return known;
    }
    let options = Rc::new(read(table));
    CACHE.with_borrow_mut(|cache| cache.insert(table, Rc::clone(&options)));
    options
}

fn read(table: pg_sys::Oid) -> TableOptions {
    let mut options = TableOptions::default();
    let row = OptionsTable::open(pg_sys::AccessShareLock).and_then(|t| t.find(table));
    let Some(row) = row else { return options };
    // SAFETY: the row's datums are of the types that `Field` documents.
    unsafe {
        if let Some(on) = row
            .get(Field::Compaction)
            .and_then(|d| bool::from_datum(d, false))
        {
            options.compaction = on;
        }
        if let Some(rows) = row
            .get(Field::CompactMinRows)
            .and_then(|d| i64::from_datum(d, false))
        {
            options.compact_min_rows = Some(rows);
        }
        if let Some(after) = row.get(Field::CompactAfter) {
            options.compact_after_ms =
                Some(milliseconds(&*after.cast_mut_ptr::<pg_sys::Interval>()));
        }
    }
    options.effort = row.text(Field::CompressionEffort).and_then(|t| effort(&t));
    if row.get(Field::SortKey).is_some() {
        let names = row.sort_key();
        let numbers = names.iter().map_while(|name| attribute_number(table, name));
        options.sort_key = Some(numbers.collect());
    }
    options
}

/// An effort by its name in SQL.
pub fn effort(name: &str) -> Option<Effort> {
    match name {
        "fast" => Some(Effort::Fast),
        "default" => Some(Effort::Default),
        "best" => Some(Effort::Best),
        _ => None,
    }
}

/// An interval in milliseconds; a month has 30 days, a day 24 hours.
pub fn milliseconds(interval: &pg_sys::Interval) -> i64 {
    const DAY_MS: i64 = 86_400_000;
    (interval.time / 1000)
        .saturating_add(i64::from(interval.day) * DAY_MS)
        .saturating_add(i64::from(interval.month) * 30 * DAY_MS)
}

/// The attribute number of a live user column.
pub fn attribute_number(table: pg_sys::Oid, column: &str) -> Option<i16> {
    let name = std::ffi::CString::new(column).ok()?;
    // SAFETY: a syscache lookup; 0 stands for "no such column", system columns are negative.
    let number = unsafe { pg_sys::get_attnum(table, name.as_ptr()) };
    (number > 0).then_some(number)
}
