//! Sizes and row counts for the planner: `relation_estimate_size`. And the size by which ANALYZE
//! weighs a table beside others: `relation_size`.
//!
//! ANALYZE of a partitioned or inherited table draws from each child in proportion to its pages,
//! which it counts once before the first row is drawn. At no other time is a table said to have
//! more pages than its file has. The server's own report of progress tells that moment: a child
//! is sampled only once their number is reported. Where activities are not tracked, there is no
//! report, and tables weigh what their files do.

use std::marker::PhantomData;

use pgrx::{pg_guard, pg_sys};

use super::Routine;
use crate::heap_am;
use crate::table::Table;

/// What the planner is told of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sizes {
    pub pages: pg_sys::BlockNumber,
    pub rows: f64,
    /// The share of the pages, 0 to 1, whose rows are all visible to all.
    pub all_visible: f64,
}

/// The planner's widths of a table's attributes, which are filled in as they are computed.
#[derive(Clone, Copy)]
pub struct Widths<'a> {
    /// An array by attribute number, or NULL.
    raw: *mut i32,
    lives: PhantomData<&'a mut i32>,
}

impl Widths<'static> {
    /// None: a width that is needed is computed and not kept.
    pub fn unknown() -> Widths<'static> {
        Widths {
            raw: std::ptr::null_mut(),
            lives: PhantomData,
        }
    }
}

/// Estimates the sizes of tables.
pub trait EstimateSizes {
    /// The table is locked by the query that is being planned.
    fn estimate(table: Table<'_>, widths: Widths<'_>) -> Sizes;

    /// The pages that the rows which are not in the table's own file would fill. The table is
    /// locked.
    fn pages_elsewhere(table: Table<'_>) -> u64;
}

/// Has sizes estimated by `E`.
pub fn set_sizes<E: EstimateSizes>(routine: &mut Routine) {
    routine.relation_estimate_size = Some(estimate_size::<E>);
    routine.relation_size = Some(size::<E>);
}

#[pg_guard]
unsafe extern "C-unwind" fn size<E: EstimateSizes>(
    rel: pg_sys::Relation,
    fork: pg_sys::ForkNumber::Type,
) -> u64 {
    // SAFETY: the arguments are passed on.
    let bytes = unsafe { (heap_am::callbacks().relation_size)(rel, fork) };
    if fork != pg_sys::ForkNumber::MAIN_FORKNUM || !weighs_children() {
        return bytes;
    }
    // SAFETY: ANALYZE holds the relation open and locked.
    let pages = E::pages_elsewhere(unsafe { Table::from_raw(rel) });
    let most_pages = u64::from(pg_sys::InvalidBlockNumber - 1) - bytes / u64::from(pg_sys::BLCKSZ);
    bytes + pages.min(most_pages) * u64::from(pg_sys::BLCKSZ)
}

/// Whether ANALYZE is counting the pages of a table's children.
fn weighs_children() -> bool {
    // SAFETY: the entry is this backend's own, and lives as long.
    unsafe {
        let Some(report) = pg_sys::MyBEEntry.as_ref() else {
            return false;
        };
        let reported = |what: u32| report.st_progress_param[what as usize];
        let sampling = i64::from(pg_sys::PROGRESS_ANALYZE_PHASE_ACQUIRE_SAMPLE_ROWS_INH);
        pg_sys::pgstat_track_activities
            && report.st_progress_command == pg_sys::ProgressCommandType::PROGRESS_COMMAND_ANALYZE
            && reported(pg_sys::PROGRESS_ANALYZE_PHASE) == sampling
            && reported(pg_sys::PROGRESS_ANALYZE_CHILD_TABLES_TOTAL) == 0
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn estimate_size<E: EstimateSizes>(
    rel: pg_sys::Relation,
    widths: *mut i32,
    pages: *mut pg_sys::BlockNumber,
    rows: *mut f64,
    all_visible: *mut f64,
) {
    // SAFETY: the planner holds the relation open and locked; its widths are those of this
    // relation, or NULL, and the other places are variables of its own.
    unsafe {
        let widths = Widths {
            raw: widths,
            lives: PhantomData,
        };
        let sizes = E::estimate(Table::from_raw(rel), widths);
        *pages = sizes.pages;
        *rows = sizes.rows;
        *all_visible = sizes.all_visible;
    }
}

/// The sizes of a table as heap estimates them.
pub fn heap_sizes(table: Table<'_>, widths: Widths<'_>) -> Sizes {
    let mut sizes = Sizes::default();
    // SAFETY: the table is open, and the widths are the table's.
    unsafe {
        (heap_am::callbacks().relation_estimate_size)(
            table.raw(),
            widths.raw,
            &mut sizes.pages,
            &mut sizes.rows,
            &mut sizes.all_visible,
        );
    }
    sizes
}

/// Rows of average width that fit in a page, as heap computes it; at least one.
pub fn rows_per_page(table: Table<'_>, widths: Widths<'_>) -> f64 {
    // SAFETY: the table is open, and the widths are the table's.
    let width = f64::from(unsafe { pg_sys::get_rel_data_width(table.raw(), widths.raw) });
    ((f64::from(pg_sys::BLCKSZ) - 24.0) / (width + 28.0))
        .floor()
        .max(1.0)
}
