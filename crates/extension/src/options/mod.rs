//! Options of single tables.
//!
//! ```text
//!   howdah.set_options() ──> catalog: security labels of provider howdah
//!                               │   ▲        │
//!        of(table) <── cache ───┘   │        └──pg_dump──> SECURITY LABEL
//!                                   │                              │
//!                    provider: checks the text <──────restore──────┘
//! ```
//!
//! An access method has no reloptions of its own, so options are kept as security labels (decision
//! 19): PostgreSQL drops a label with its table or column, dumps it, and does not replicate it. A
//! sort key is kept as labels on its columns, and so is which columns are grouped: these labels
//! follow renames and are dumped under the columns' names. `label` defines their text.
//!
//! Readers go through [`of`], which caches the options per backend until the table's relcache entry
//! is invalidated. PostgreSQL does not invalidate it for labels: `catalog` and `provider` do.
//!
//! Locks: a writer holds ShareUpdateExclusiveLock on the table whose options change, as ALTER
//! TABLE … SET does; readers need no lock on it. Crash, standby: catalog rows like any others.

pub mod catalog;
pub mod label;
pub mod provider;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use howdah_bridge::invalidation::at_invalidation;
use howdah_bridge::{Oid, names};
use howdah_columnar::Effort;

use crate::bounded_cache::HashCache;

/// The options of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// Attribute numbers of the columns that row groups are sorted by; empty: the order of the
    /// table's last CLUSTER decides.
    pub sort_key: Vec<i16>,
    /// Attribute numbers, ascending, of the columns whose strings are to lie side by side.
    pub grouped_columns: Vec<i16>,
    /// `None`: the setting `howdah.compression_effort` decides.
    pub effort: Option<Effort>,
    /// How long a page must have been unchanged before its rows are moved; `None`: the setting
    /// `howdah.compact_after` decides.
    pub compact_after: Option<Period>,
    /// Fewer hot rows than this are not made into a row group; `None`: the setting
    /// `howdah.compact_min_rows` decides.
    pub compact_min_rows: Option<i64>,
    /// Whether the background worker may compact the table; `None`: it may.
    pub compaction: Option<bool>,
}

/// An interval none of whose parts is negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Period {
    pub months: i32,
    pub days: i32,
    pub microseconds: i64,
}

impl Period {
    /// A month has 30 days, a day 24 hours.
    pub fn milliseconds(self) -> i64 {
        const DAY_MS: i64 = 86_400_000;
        (self.microseconds / 1000)
            .saturating_add(i64::from(self.days) * DAY_MS)
            .saturating_add(i64::from(self.months) * 30 * DAY_MS)
    }
}

/// Tables whose options are remembered.
const MOST_REMEMBERED: usize = 4_096;

thread_local! {
    static CACHE: RefCell<HashCache<Oid, Rc<TableOptions>>> =
        RefCell::new(HashCache::of_entries(MOST_REMEMBERED));
    /// Invalidations so far: what was read before one is not remembered.
    static INVALIDATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Registers the cache's invalidation. Must be called once, from `_PG_init`.
pub fn register() {
    at_invalidation(|relation| {
        INVALIDATIONS.set(INVALIDATIONS.get() + 1);
        CACHE.with_borrow_mut(|cache| match relation {
            None => cache.clear(),
            Some(relation) => {
                cache.remove(&relation);
            }
        });
    });
}

/// The options of a table; of one that takes over the rows of another, the other's.
pub fn of(table: Oid) -> Rc<TableOptions> {
    if let Some(known) = CACHE.with_borrow_mut(|cache| cache.get(&table).cloned()) {
        return known;
    }
    let before = INVALIDATIONS.get();
    let options = Rc::new(catalog::read(
        names::rewritten_table(table).unwrap_or(table),
    ));
    if INVALIDATIONS.get() == before {
        CACHE.with_borrow_mut(|cache| cache.insert(table, Rc::clone(&options)));
    }
    options
}
