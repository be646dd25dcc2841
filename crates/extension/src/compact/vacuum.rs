//! Vacuuming around compaction, as `VACUUM` does it, in the current transaction.
//!
//! The table is vacuumed before, so that pages are all-visible, and after, to remove moved
//! versions.
//!
//! The cold store is frozen, because the pages of a row group are written once and never change. If
//! they are frozen soon after the commit, while they are in memory and before a checkpoint makes
//! the next change of each a full-page image in WAL, they need no other visit: neither by readers
//! that would set hint bits, nor by a VACUUM against wraparound.
//!
//! WAL is flushed first ([`howdah_bridge::vacuum`]), because what is visited here was often
//! committed just before.

use howdah_bridge::Oid;
use howdah_bridge::maintained::{self, Purpose};
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::vacuum::{self, Vacuum, visible_pages};

use super::task::open_for;
use crate::store::directory::ever_cold_unlocked;

/// Fewer unfrozen pages than this are left to VACUUM, and so is a small share of all pages: VACUUM
/// itself leaves pages with few dead tuples.
const UNFROZEN_BLOCKS: u32 = 64;
const UNFROZEN_SHARE: u32 = 32;

/// Vacuums the table. `false` if it could not be opened.
pub fn vacuum(table: Oid, wait: bool) -> bool {
    let Some(step) = open_for(table, wait, Purpose::Vacuum) else {
        return false;
    };
    let asked = Vacuum {
        freezes_all: false,
        truncates: vacuum::truncates(step.table()),
        toast_parent: None,
    };
    vacuum::run(step.table(), asked);
    true
}

/// Freezes what was written to the table's cold store, if it is much. `false` if that is not
/// possible yet: some snapshot is too old, or another process is vacuuming.
pub fn freeze_cold_store(table: Oid, wait: bool) -> bool {
    let Some(step) = open_for(table, wait, Purpose::Vacuum) else {
        return false;
    };
    // As in VACUUM's own survey, no weaker lock is held when the stronger one is asked for.
    let is_ever_cold = ever_cold_unlocked(step.table());
    let Some(toast) = step.table().toast_oid().filter(|_| is_ever_cold) else {
        return true;
    };
    // The lock on the table keeps its TOAST relation from being dropped.
    if !wait && !maintained::try_lock(toast) {
        return false;
    }
    let lock = LockMode::ShareUpdateExclusive;
    let Some(store) = OpenRelation::try_open(toast, lock as u32) else {
        return true;
    };
    if mostly_frozen(store.table()) {
        return true;
    }
    let asked = Vacuum {
        freezes_all: true,
        truncates: false,
        toast_parent: Some(table),
    };
    vacuum::run(store.table(), asked);
    mostly_frozen(store.table())
}

fn mostly_frozen(store: Table<'_>) -> bool {
    let frozen = visible_pages(store).all_frozen;
    let blocks = store.main_fork_blocks();
    blocks.saturating_sub(frozen) < UNFROZEN_BLOCKS.max(blocks / UNFROZEN_SHARE)
}
