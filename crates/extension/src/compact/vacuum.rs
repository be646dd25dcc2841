//! Vacuuming around compaction, as `VACUUM` does it, in the running transaction.
//!
//! The table: before, so that pages are all-visible; after, so that moved versions go.
//!
//! The cold store: pages of a row group are written once and stay as they are. Frozen soon after the
//! commit, while they are in memory and before a checkpoint makes their next change an image in WAL, they
//! need no other visit: not by readers that would set hint bits, nor by a VACUUM against wraparound.
//!
//! WAL is flushed first: a page with rows whose commit record is not flushed (`synchronous_commit = off`) cannot become
//! all-visible, and what is visited here was often committed a moment ago.

use howdah_bridge::relation::{OpenRelation, main_fork_blocks};
use howdah_bridge::table::Table;
use howdah_bridge::wal;
use pgrx::pg_sys;

use super::table::StepTable;
use crate::am::brin::ever_cold;

/// Fewer pages that are not frozen are left to VACUUM, and so is a small share of all: VACUUM
/// itself leaves pages with few dead tuples.
const UNFROZEN_BLOCKS: u32 = 64;
const UNFROZEN_SHARE: u32 = 32;

/// Vacuums the table. `false` if it could not be opened.
pub fn vacuum(table: pg_sys::Oid, wait: bool) -> bool {
    let Some(step) = StepTable::open_for_vacuum(table, wait) else {
        return false;
    };
    // SAFETY: the relation is open and locked as vacuum wants it; no row of ours is pending.
    unsafe {
        let options = (*step.raw()).rd_options.cast::<pg_sys::StdRdOptions>();
        let truncate = if !options.is_null() && (*options).vacuum_truncate_set {
            (*options).vacuum_truncate
        } else {
            pg_sys::vacuum_truncate
        };
        run(step.raw(), &mut parameters(-1, truncate));
    }
    true
}

/// Freezes what was written to the table's cold store, if it is much. `false` if it could not be
/// done yet: somebody's snapshot is too old, or somebody else is vacuuming.
pub fn freeze_cold_store(table: pg_sys::Oid, wait: bool) -> bool {
    let Some(step) = StepTable::open_for_vacuum(table, wait) else {
        return false;
    };
    // SAFETY: the table is open and locked; its TOAST relation cannot go away meanwhile.
    unsafe {
        if !ever_cold(Table::from_raw(step.raw())) {
            return true;
        }
        let toast = (*(*step.raw()).rd_rel).reltoastrelid;
        let lock = pg_sys::ShareUpdateExclusiveLock;
        let free = wait || pg_sys::ConditionalLockRelationOid(toast, lock as pg_sys::LOCKMODE);
        if !free {
            return false;
        }
        let Some(store) = OpenRelation::try_open(toast, lock) else {
            return true;
        };
        if mostly_frozen(store.raw()) {
            return true;
        }
        let mut parameters = parameters(0, false);
        parameters.toast_parent = table;
        run(store.raw(), &mut parameters);
        mostly_frozen(store.raw())
    }
}

unsafe fn mostly_frozen(rel: pg_sys::Relation) -> bool {
    let (mut visible, mut frozen) = (0, 0);
    // SAFETY: the relation is open.
    let blocks = unsafe {
        pg_sys::visibilitymap_count(rel, &mut visible, &mut frozen);
        main_fork_blocks(rel)
    };
    blocks.saturating_sub(frozen) < UNFROZEN_BLOCKS.max(blocks / UNFROZEN_SHARE)
}

fn parameters(freeze_min_age: i32, truncate: bool) -> pg_sys::VacuumParams {
    pg_sys::VacuumParams {
        options: pg_sys::VACOPT_VACUUM | pg_sys::VACOPT_PROCESS_MAIN,
        freeze_min_age,
        freeze_table_age: -1,
        multixact_freeze_min_age: -1,
        multixact_freeze_table_age: -1,
        is_wraparound: false,
        log_min_duration: -1,
        index_cleanup: pg_sys::VacOptValue::VACOPTVALUE_AUTO,
        truncate: if truncate {
            pg_sys::VacOptValue::VACOPTVALUE_ENABLED
        } else {
            pg_sys::VacOptValue::VACOPTVALUE_DISABLED
        },
        toast_parent: pg_sys::InvalidOid,
        // SAFETY: plain read of a setting.
        max_eager_freeze_failure_rate: unsafe { pg_sys::vacuum_max_eager_freeze_failure_rate },
        nworkers: -1,
    }
}

/// # Safety
/// `rel` is open and locked with ShareUpdateExclusiveLock; a snapshot is active.
unsafe fn run(rel: pg_sys::Relation, parameters: &mut pg_sys::VacuumParams) {
    wal::flush();
    // SAFETY: as for this function.
    unsafe {
        let strategy = pg_sys::GetAccessStrategy(pg_sys::BufferAccessStrategyType::BAS_VACUUM);
        pg_sys::table_relation_vacuum(rel, parameters, strategy);
        pg_sys::FreeAccessStrategy(strategy);
    }
}
