//! When and how a table is compacted.

use howdah_bridge::Oid;
use howdah_columnar::{EncodeOptions, MAX_ROWS};
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};

use crate::options::Period;

static COMPACTION: GucSetting<bool> = GucSetting::<bool>::new(true);
static COMPACT_AFTER: GucSetting<i32> = GucSetting::<i32>::new(60_000);
static COMPACT_MIN_ROWS: GucSetting<i32> = GucSetting::<i32>::new(65_536);
static COMPACT_NAPTIME: GucSetting<i32> = GucSetting::<i32>::new(10_000);
static MAX_WORKERS: GucSetting<i32> = GucSetting::<i32>::new(2);
static IO_LIMIT: GucSetting<i32> = GucSetting::<i32>::new(128 * 1024);

/// Defines the settings.
pub fn register() {
    GucRegistry::define_bool_guc(
        c"howdah.compaction",
        c"Lets background workers compact tables.",
        c"CALL howdah.compact() works either way.",
        &COMPACTION,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"howdah.compact_after",
        c"Time for which a page must not have changed before its rows are moved.",
        c"A table's own option compact_after comes first.",
        &COMPACT_AFTER,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"howdah.compact_min_rows",
        c"Fewest rows that background workers make a row group of.",
        c"A table's own option compact_min_rows comes first.",
        &COMPACT_MIN_ROWS,
        1,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"howdah.compact_naptime",
        c"Time between two looks for tables to compact.",
        c"",
        &COMPACT_NAPTIME,
        100,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_MS,
    );
    GucRegistry::define_int_guc(
        c"howdah.max_compaction_workers",
        c"Most databases that are compacted at the same time.",
        c"Workers come out of max_worker_processes.",
        &MAX_WORKERS,
        0,
        64,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"howdah.compact_io_limit",
        c"Most bytes that background workers read from disk and make dirty in a second, all together.",
        c"0 is no limit. CALL howdah.compact() has none.",
        &IO_LIMIT,
        0,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::UNIT_KB,
    );
}

pub fn compaction() -> bool {
    COMPACTION.get()
}

/// The setting, for tables without an option of their own.
pub fn compact_after_ms() -> i64 {
    i64::from(COMPACT_AFTER.get())
}

pub fn naptime_ms() -> i64 {
    i64::from(COMPACT_NAPTIME.get())
}

pub fn max_workers() -> usize {
    MAX_WORKERS.get() as usize
}

/// Per second, for all workers; 0: no limit.
pub fn io_limit_bytes() -> u64 {
    IO_LIMIT.get() as u64 * 1024
}

/// The policy that applies to one table.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Whether background workers may compact it.
    pub enabled: bool,
    pub compact_after_ms: i64,
    pub min_rows: u32,
    /// The table's option: attribute numbers; [`crate::row_order::key_of`] knows what holds.
    pub sort_key: Vec<i16>,
    pub encoding: EncodeOptions,
}

/// The policy for a table.
pub fn of(table: Oid) -> Policy {
    let options = crate::options::of(table);
    let min_rows = options.compact_min_rows.map_or_else(
        || COMPACT_MIN_ROWS.get() as u32,
        |rows| u32::try_from(rows).unwrap_or(u32::MAX),
    );
    Policy {
        enabled: options.compaction.unwrap_or(true),
        compact_after_ms: options
            .compact_after
            .map_or_else(compact_after_ms, Period::milliseconds),
        // A full group is always worth moving.
        min_rows: min_rows.clamp(1, MAX_ROWS as u32 / 2),
        sort_key: options.sort_key.clone(),
        encoding: crate::settings::encoding_of(table),
    }
}
