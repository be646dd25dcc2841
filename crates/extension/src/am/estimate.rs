//! Sizes and row counts for the planner.
//!
//! Heap estimates rows as `reltuples / relpages × pages`, where `reltuples` would count cold rows
//! over hot pages only. With cold rows the hot side is estimated from tuple width, as heap does
//! for a table that was never analyzed, and the cold side counted exactly from the directory.
//!
//! The planner asks for sizes first and for paths later; what was counted is remembered for
//! the latter, so that one planning reads the directory once, and that of a table which is all
//! hot looks no further than the size of its TOAST relation.

use std::cell::RefCell;
use std::collections::HashMap;

use howdah_bridge::relation::main_fork_blocks;
use howdah_bridge::store::ColdStore;
use pgrx::{pg_guard, pg_sys};

use super::heap;
use crate::store::directory::{self, GroupState};

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.relation_estimate_size = Some(relation_estimate_size);
    am.relation_needs_toast_table = Some(relation_needs_toast_table);
    am.relation_toast_am = Some(relation_toast_am);
}

/// Rows and bytes of a table's cold side as the latest snapshot sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColdSize {
    pub rows: u64,
    pub bytes: u64,
    pub groups: u32,
}

/// More tables than a sensible query has.
const MOST_REMEMBERED: usize = 1024;

thread_local! {
    /// By table; only of tables that have cold rows.
    static PLANNED: RefCell<HashMap<u32, ColdSize>> = RefCell::default();
}

/// What the planner was last told of a table's cold side; `None` if it has no cold rows. Every
/// planning asks for the sizes of its tables first, so it is not older than that.
pub fn planned_size(table: pg_sys::Oid) -> Option<ColdSize> {
    PLANNED.with_borrow(|sizes| sizes.get(&table.to_u32()).copied())
}

fn remember(table: pg_sys::Oid, size: ColdSize) {
    PLANNED.with_borrow_mut(|sizes| {
        if size.groups == 0 {
            sizes.remove(&table.to_u32());
            return;
        }
        if sizes.len() >= MOST_REMEMBERED {
            sizes.clear();
        }
        sizes.insert(table.to_u32(), size);
    });
}

/// # Safety
/// `rel` is open.
unsafe fn cold_size(rel: pg_sys::Relation) -> ColdSize {
    // SAFETY: the relation is open; the snapshot is unregistered before returning, and by the
    // resource owner after an ERROR.
    unsafe {
        let Some(store) = ColdStore::open_used(rel, pg_sys::AccessShareLock) else {
            return ColdSize::default();
        };
        let snapshot = pg_sys::RegisterSnapshot(pg_sys::GetLatestSnapshot());
        let groups = directory::groups(&store, snapshot).unwrap_or_default();
        pg_sys::UnregisterSnapshot(snapshot);
        groups
            .iter()
            .filter(|p| p.entry.state == GroupState::Stored)
            .fold(ColdSize::default(), |size, p| ColdSize {
                rows: size.rows + u64::from(p.entry.row_count),
                bytes: size.bytes + p.entry.body_bytes + u64::from(p.entry.footer_bytes),
                groups: size.groups + 1,
            })
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_estimate_size(
    rel: pg_sys::Relation,
    attr_widths: *mut i32,
    pages: *mut pg_sys::BlockNumber,
    tuples: *mut f64,
    allvisfrac: *mut f64,
) {
    // SAFETY: arguments come from the planner.
    unsafe {
        let cold = cold_size(rel);
        remember((*rel).rd_id, cold);
        (heap().relation_estimate_size.unwrap_unchecked())(
            rel,
            attr_widths,
            pages,
            tuples,
            allvisfrac,
        );
        if cold.groups == 0 {
            return;
        }
        let hot_pages = main_fork_blocks(rel);
        let width = pg_sys::get_rel_data_width(rel, attr_widths);
        let tuple_bytes = f64::from(width) + 28.0;
        let per_page = ((pg_sys::BLCKSZ as f64 - 24.0) / tuple_bytes)
            .floor()
            .max(1.0);
        let cold_pages = cold.bytes.div_ceil(u64::from(pg_sys::BLCKSZ)) as u32;
        *pages = hot_pages.saturating_add(cold_pages);
        *tuples = (f64::from(hot_pages) * per_page).round() + cold.rows as f64;
        *allvisfrac *= f64::from(hot_pages) / f64::from((*pages).max(1));
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_needs_toast_table(_rel: pg_sys::Relation) -> bool {
    // The cold store is the TOAST relation.
    true
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_toast_am(_rel: pg_sys::Relation) -> pg_sys::Oid {
    pg_sys::HEAP_TABLE_AM_OID
}
