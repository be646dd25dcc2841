//! Sizes and row counts for the planner.
//!
//! Heap estimates rows as `reltuples / relpages × pages`, where `reltuples` would count cold rows
//! over hot pages only. With cold rows the hot side is estimated from tuple width, as heap does
//! for a table that was never analyzed, and the cold side counted exactly from the directory.

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

/// # Safety
/// `rel` is open.
pub unsafe fn cold_size(rel: pg_sys::Relation) -> ColdSize {
    // SAFETY: the relation is open; the snapshot is unregistered before returning, and by the
    // resource owner after an ERROR.
    unsafe {
        let Some(store) = ColdStore::open(rel, pg_sys::AccessShareLock) else {
            return ColdSize::default();
        };
        if main_fork_blocks(store.toast()) == 0 {
            return ColdSize::default();
        }
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
