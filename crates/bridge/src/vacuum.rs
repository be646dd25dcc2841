//! Vacuums a relation in the current transaction, as `VACUUM` does.

use pgrx::pg_sys;

use crate::table::Table;
use crate::wal;

/// Options of a vacuum.
#[derive(Clone, Copy, Debug)]
pub struct Vacuum {
    /// Freeze rows of any age.
    pub freezes_all: bool,
    /// Truncate empty pages at the end of the file.
    pub truncates: bool,
    /// Of a TOAST relation: its table.
    pub toast_parent: Option<pg_sys::Oid>,
}

/// Counts of pages by their bits in the visibility map.
#[derive(Clone, Copy, Debug, Default)]
pub struct VisiblePages {
    pub all_visible: u32,
    pub all_frozen: u32,
}

/// Counts the pages of the visibility map.
pub fn visible_pages(table: Table<'_>) -> VisiblePages {
    let mut pages = VisiblePages::default();
    // SAFETY: the relation is open.
    unsafe {
        pg_sys::visibilitymap_count(table.raw(), &mut pages.all_visible, &mut pages.all_frozen);
    }
    pages
}

/// Whether VACUUM truncates empty pages of the table, by its option or by the setting.
pub fn truncates(table: Table<'_>) -> bool {
    // SAFETY: the relation is open; options of a table are StdRdOptions.
    unsafe {
        let options = (*table.raw()).rd_options.cast::<pg_sys::StdRdOptions>();
        match !options.is_null() && (*options).vacuum_truncate_set {
            true => (*options).vacuum_truncate,
            false => pg_sys::vacuum_truncate,
        }
    }
}

/// Vacuums a relation that is open and locked with ShareUpdateExclusiveLock; a snapshot is active.
///
/// WAL is flushed first: a page with rows whose commit record is not flushed (`synchronous_commit =
/// off`) cannot become all-visible.
pub fn run(table: Table<'_>, asked: Vacuum) {
    wal::flush();
    let mut parameters = pg_sys::VacuumParams {
        options: pg_sys::VACOPT_VACUUM | pg_sys::VACOPT_PROCESS_MAIN,
        freeze_min_age: if asked.freezes_all { 0 } else { -1 },
        freeze_table_age: -1,
        multixact_freeze_min_age: -1,
        multixact_freeze_table_age: -1,
        is_wraparound: false,
        log_min_duration: -1,
        index_cleanup: pg_sys::VacOptValue::VACOPTVALUE_AUTO,
        truncate: match asked.truncates {
            true => pg_sys::VacOptValue::VACOPTVALUE_ENABLED,
            false => pg_sys::VacOptValue::VACOPTVALUE_DISABLED,
        },
        toast_parent: asked.toast_parent.unwrap_or(pg_sys::InvalidOid),
        // SAFETY: plain read of a setting.
        max_eager_freeze_failure_rate: unsafe { pg_sys::vacuum_max_eager_freeze_failure_rate },
        nworkers: -1,
    };
    // SAFETY: the relation is open and locked as vacuum wants it; the strategy is freed once.
    unsafe {
        let strategy = pg_sys::GetAccessStrategy(pg_sys::BufferAccessStrategyType::BAS_VACUUM);
        pg_sys::table_relation_vacuum(table.raw(), &mut parameters, strategy);
        pg_sys::FreeAccessStrategy(strategy);
    }
}
