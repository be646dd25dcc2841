//! Offers the node to the planner.
//!
//! The node is offered for a base relation that the scanner accepts, unless the statement samples
//! it, or identifies its row by a cursor. Statements that change or lock rows need no more of their
//! scans than ctid and the columns that they use: rows are changed by TID, and old versions are
//! fetched by TID (docs/decisions/0008).

use pgrx::{PgList, pg_guard, pg_sys};

use super::planned::PlannedTable;
use super::{by_index, others, plan, scanner, surcharge};
use crate::custom_node::new_path;

static mut PREVIOUS_HOOK: pg_sys::set_rel_pathlist_hook_type = None;

/// The scanner's offer for a scan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offer {
    /// The cost before the first row.
    pub startup_cost: f64,
    /// The cost of reading pages: the same with any number of workers.
    pub disk_cost: f64,
    /// All other costs: divided among workers.
    pub cpu_cost: f64,
    /// The number of heap pages that mean as much work, by which the number of workers is chosen.
    pub pages_as_heap: f64,
    /// The cost of a sequential scan beyond PostgreSQL's estimate: divided among workers.
    pub sequential_surcharge: f64,
    /// The cost of a row that a path by index fetches beyond PostgreSQL's estimate: likewise.
    pub fetched_row_surcharge: f64,
}

/// The planner's units of cost, as set.
#[derive(Clone, Copy, Debug)]
pub struct UnitCosts {
    /// `cpu_tuple_cost`
    pub tuple: f64,
    /// `cpu_operator_cost`
    pub operator: f64,
}

/// The planner's units of cost.
pub fn unit_costs() -> UnitCosts {
    // SAFETY: plain reads of settings.
    unsafe {
        UnitCosts {
            tuple: pg_sys::cpu_tuple_cost,
            operator: pg_sys::cpu_operator_cost,
        }
    }
}

/// Chains the planner's hook.
///
/// # Safety
/// Called once, while the library is loaded.
pub(super) unsafe fn install() {
    // SAFETY: nothing else runs in the process yet.
    unsafe {
        PREVIOUS_HOOK = pg_sys::set_rel_pathlist_hook;
        pg_sys::set_rel_pathlist_hook = Some(set_rel_pathlist);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn set_rel_pathlist(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    rti: pg_sys::Index,
    rte: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: arguments come from the planner, which holds a lock on the table; the previous hook
    // gets what we got.
    unsafe {
        if let Some(previous) = PREVIOUS_HOOK {
            pg_sys::ffi::pg_guard_ffi_boundary(|| previous(root, rel, rti, rte));
        }
        if is_plain_table(rel, rte) {
            offer(&PlannedTable::of(root, rel));
        }
    }
}

/// Adds our paths, if there are any that may be the cheapest.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
unsafe fn offer(table: &PlannedTable<'_>) -> Option<()> {
    let scanner = scanner()?;
    let least_cost = scanner.least_cost(table)?;
    // SAFETY: planner structures.
    unsafe {
        if !is_beaten(table.root, table.rel, least_cost) {
            add_paths(table, &scanner.offer(table)?);
        }
    }
    Some(())
}

/// Whether all rows of the table, and only these, are scanned.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
unsafe fn is_plain_table(rel: *mut pg_sys::RelOptInfo, rte: *mut pg_sys::RangeTblEntry) -> bool {
    // SAFETY: planner structures.
    unsafe {
        (*rte).rtekind == pg_sys::RTEKind::RTE_RELATION
            && !(*rte).inh
            && (*rte).tablesample.is_null()
            && matches!((*rte).relkind as u8, b'r' | b'm')
            && !pg_sys::is_dummy_rel(rel)
            && !is_current_of_cursor(rel)
            && !others::supply_rows(rel)
    }
}

/// Whether the statement identifies its row by a cursor: only TID scans can find that row.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
unsafe fn is_current_of_cursor(rel: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: planner structures; the clause stands for itself, never inside another one.
    unsafe {
        PgList::<pg_sys::RestrictInfo>::from_pg((*rel).baserestrictinfo)
            .iter_ptr()
            .any(|clause| (*(*clause).clause).type_ == pg_sys::NodeTag::T_CurrentOfExpr)
    }
}

/// Adds our paths to those of PostgreSQL, whose costs are corrected first.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
unsafe fn add_paths(table: &PlannedTable<'_>, offer: &Offer) {
    let rel = table.rel;
    // SAFETY: planner structures; paths are made in the planner's memory.
    unsafe {
        surcharge::correct(rel, offer);
        let serial = path(table, offer, 0);
        let is_parameterized = !(*serial).path.param_info.is_null();
        if !is_parameterized && by_index::prefer(rel, table.oid(), (*serial).path.total_cost) {
            return;
        }
        pg_sys::add_path(rel, serial.cast());
        if (*rel).consider_parallel && (*rel).lateral_relids.is_null() {
            let most = pg_sys::max_parallel_workers_per_gather;
            let workers = pg_sys::compute_parallel_worker(rel, offer.pages_as_heap, -1.0, most);
            if workers > 0 {
                pg_sys::add_partial_path(rel, path(table, offer, workers).cast());
            }
        }
    }
}

/// Whether neither a path of ours with this least cost nor a sequential scan, whose cost is yet to
/// be corrected, is of any use: the cheapest path is an index scan, which `add_path` prefers to
/// both, or the few rows that are wanted are the first of an index. Most statements that select a
/// few rows are planned so, and quickly.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
unsafe fn is_beaten(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    least_cost: f64,
) -> bool {
    // SAFETY: planner structures.
    unsafe {
        // Any plan with workers costs at least as much as starting them.
        let least_parallel = match (*rel).partial_pathlist.is_null() {
            true => f64::INFINITY,
            false => pg_sys::parallel_setup_cost,
        };
        let paths = PgList::<pg_sys::Path>::from_pg((*rel).pathlist);
        let least_sequential = paths
            .iter_ptr()
            .filter(|&path| (*path).pathtype == pg_sys::NodeTag::T_SeqScan)
            .fold(f64::INFINITY, |least, path| least.min((*path).total_cost));
        let least_cost = least_cost.min(least_parallel).min(least_sequential);
        if min_max_cost(root).is_some_and(|cost| cost * SURELY_LESS < least_cost) {
            return true;
        }
        let mut plain = paths
            .iter_ptr()
            .filter(|&path| (*path).param_info.is_null() && (*path).disabled_nodes == 0);
        // A path with higher total cost may start sooner.
        if (*rel).consider_startup {
            return plain.any(|path| {
                first_rows_cost(root, path).is_some_and(|cost| cost * SURELY_LESS < least_cost)
            });
        }
        let cheapest = plain.min_by(|&a, &b| (*a).total_cost.total_cmp(&(*b).total_cost));
        let Some(cheapest) = cheapest else {
            return false;
        };
        (*cheapest).parallel_safe == (*rel).consider_parallel
            && (*cheapest).total_cost * SURELY_LESS < least_cost
    }
}

/// What a path costs up to so many of its rows, by the formula of `adjust_limit_rows_costs`.
pub(crate) fn cost_of_first(rows: f64, path: &pg_sys::Path) -> f64 {
    let share = (rows / path.rows.max(1.0)).min(1.0);
    path.startup_cost + (path.total_cost - path.startup_cost) * share
}

/// The cost of an aggregate query that needs only one end of an index for each of its aggregates,
/// which is planned before anything else (`planagg.c`). Every other plan of it reads whole tables.
///
/// # Safety
/// The planner's, of the query level that is being planned.
unsafe fn min_max_cost(root: *mut pg_sys::PlannerInfo) -> Option<f64> {
    // SAFETY: planner structures.
    unsafe {
        let grouped = (*root).upper_rels[pg_sys::UpperRelationKind::UPPERREL_GROUP_AGG as usize];
        let grouped = PgList::<pg_sys::RelOptInfo>::from_pg(grouped);
        let paths = PgList::<pg_sys::Path>::from_pg((*grouped.get_ptr(0)?).pathlist);
        let path = paths.get_ptr(0)?;
        let is_of_ends = (*path).type_ == pg_sys::NodeTag::T_MinMaxAggPath;
        (is_of_ends && (*path).disabled_nodes == 0).then_some((*path).total_cost)
    }
}

/// What a path costs up to the last row that a query of one table returns under its LIMIT, if the
/// path has the order that the query asks for. A path without it is read to its end and sorted.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
unsafe fn first_rows_cost(root: *mut pg_sys::PlannerInfo, path: *mut pg_sys::Path) -> Option<f64> {
    // SAFETY: planner structures.
    unsafe {
        // It is unknown, or -1, where rows are grouped before they are counted.
        let limit = (*root).limit_tuples;
        let is_ordered = !(*root).query_pathkeys.is_null()
            && !(*path).pathkeys.is_null()
            && pg_sys::bms_num_members((*root).all_baserels) == 1
            && pg_sys::pathkeys_contained_in((*root).query_pathkeys, (*path).pathkeys);
        if limit <= 0.0 || !is_ordered {
            return None;
        }
        Some(cost_of_first(limit, &*path))
    }
}

/// `add_path` treats costs that differ by less than one per cent as equal.
const SURELY_LESS: f64 = 1.02;

/// # Safety
/// The table is one that is being planned, in the current memory context.
unsafe fn path(table: &PlannedTable<'_>, offer: &Offer, workers: i32) -> *mut pg_sys::CustomPath {
    let rel = table.rel;
    // SAFETY: zeroed memory in the planner's context.
    unsafe {
        let custom = new_path(&plan::PATH_METHODS, rel);
        let path = &mut (*custom).path;
        path.pathtarget = (*rel).reltarget;
        path.param_info = table.parameters;
        path.parallel_aware = workers > 0;
        path.parallel_safe = (*rel).consider_parallel;
        path.parallel_workers = workers;
        // Disabling sequential scans asks for an index to be used.
        path.disabled_nodes = i32::from(!pg_sys::enable_seqscan);
        set_cost(path, table, offer);
        (*custom).flags =
            pg_sys::CUSTOMPATH_SUPPORT_PROJECTION | pg_sys::CUSTOMPATH_SUPPORT_BACKWARD_SCAN;
        custom
    }
}

/// Sets rows and costs of a path whose number of workers is set.
fn set_cost(path: &mut pg_sys::Path, table: &PlannedTable<'_>, offer: &Offer) {
    let (mut rows, mut cpu_cost) = (table.rows(), offer.cpu_cost);
    if path.parallel_workers > 0 {
        let divisor = parallel_divisor(path.parallel_workers);
        rows = (rows / divisor).round().max(1.0);
        cpu_cost /= divisor;
    }
    let target = table.target_cost();
    path.rows = rows;
    path.startup_cost = offer.startup_cost + target.startup;
    path.total_cost = path.startup_cost + cpu_cost + target.per_tuple * rows + offer.disk_cost;
}

pub(super) fn divisor_of(path: &pg_sys::Path) -> f64 {
    match path.parallel_workers {
        0 => 1.0,
        workers => parallel_divisor(workers),
    }
}

/// Mirrors `get_parallel_divisor`.
fn parallel_divisor(workers: i32) -> f64 {
    // SAFETY: plain read of a setting.
    divisor(workers, unsafe { pg_sys::parallel_leader_participation })
}

/// The number of processes that workers and leader amount to: the more workers there are, the less
/// time a leader has for the plan itself.
fn divisor(workers: i32, leader_takes_part: bool) -> f64 {
    let workers = f64::from(workers);
    let leader = match leader_takes_part {
        true => (1.0 - 0.3 * workers).max(0.0),
        false => 0.0,
    };
    workers + leader
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_counts_for_less_the_more_workers_it_has() {
        assert_eq!(divisor(1, true), 1.7);
        assert_eq!(divisor(2, true), 2.4);
        assert_eq!(divisor(4, true), 4.0, "and for nothing in the end");
        assert_eq!(divisor(2, false), 2.0);
    }

    #[test]
    fn a_part_of_the_rows_costs_that_part_of_what_follows_the_start() {
        let path = |rows| pg_sys::Path {
            startup_cost: 10.0,
            total_cost: 110.0,
            rows,
            ..Default::default()
        };
        assert_eq!(cost_of_first(50.0, &path(200.0)), 35.0);
        assert_eq!(cost_of_first(500.0, &path(200.0)), 110.0, "all of them");
        assert_eq!(cost_of_first(1.0, &path(0.0)), 110.0, "none are expected");
    }
}
