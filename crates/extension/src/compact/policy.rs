//! How a table is compacted.

use howdah_columnar::{Effort, MAX_ROWS};
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use pgrx::pg_sys;

static COMPACT_MIN_ROWS: GucSetting<i32> = GucSetting::<i32>::new(65_536);

/// Defines the settings.
pub fn register() {
    GucRegistry::define_int_guc(
        c"howdah.compact_min_rows",
        c"Rows below which a row group is small enough to be merged with its neighbour.",
        c"A table's own option compact_min_rows comes first.",
        &COMPACT_MIN_ROWS,
        1,
        i32::MAX,
        GucContext::Sighup,
        GucFlags::default(),
    );
}

/// What holds for one table.
#[derive(Clone, Debug)]
pub struct Policy {
    pub min_rows: u32,
    /// Attribute numbers; empty keeps the order of the pages.
    pub sort_key: Vec<i16>,
    pub effort: Effort,
}

/// The policy for a table.
pub fn of(table: pg_sys::Oid) -> Policy {
    let options = crate::options::of(table);
    let min_rows = options.compact_min_rows.map_or_else(
        || COMPACT_MIN_ROWS.get() as u32,
        |rows| u32::try_from(rows).unwrap_or(u32::MAX),
    );
    Policy {
        // A full group is always worth its while.
        min_rows: min_rows.clamp(1, MAX_ROWS as u32 / 2),
        sort_key: options.sort_key.clone(),
        effort: crate::settings::effort_of(table),
    }
}
