//! Offering the node to the planner, and turning its path into a plan.
//!
//! The node is offered for a base relation that is a howdah table with cold rows, unless the
//! statement samples it, names its row by a cursor, wants system columns other than ctid and tableoid, or
//! is itself a cursor that may be scrolled. Statements that change or lock rows need no more of their scans than ctid and the columns that
//! they name: rows are changed by TID, old versions fetched by it (docs/decisions/0008).

use howdah_bridge::relation::OpenRelation;
use pgrx::{PgList, pg_guard, pg_sys};

use super::cost::{self, Estimate};
use super::cursors;
use super::pushdown::condition_of;
use super::state::attributes_of;
use super::{PATH_METHODS, SCAN_METHODS};
use crate::am::{self, estimate::planned_size};
use crate::settings;
use crate::types::TableLayout;

static mut PREVIOUS_HOOK: pg_sys::set_rel_pathlist_hook_type = None;

/// Chains the planner's hook.
///
/// # Safety
/// Called once, while the library is loaded.
pub unsafe fn install() {
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
    // SAFETY: arguments come from the planner; the previous hook gets what we got.
    unsafe {
        if let Some(previous) = PREVIOUS_HOOK {
            pg_sys::ffi::pg_guard_ffi_boundary(|| previous(root, rel, rti, rte));
        }
        if settings::columnar_scan() && !cursors::may_scroll() && is_plain_table(rel, rte) {
            offer(root, rel, rti, rte);
        }
    }
}

/// Whether all of a table's rows are scanned, and of no other table's.
unsafe fn is_plain_table(rel: *mut pg_sys::RelOptInfo, rte: *mut pg_sys::RangeTblEntry) -> bool {
    // SAFETY: planner structures.
    unsafe {
        (*rte).rtekind == pg_sys::RTEKind::RTE_RELATION
            && !(*rte).inh
            && (*rte).tablesample.is_null()
            && matches!((*rte).relkind as u8, b'r' | b'm')
            && !pg_sys::is_dummy_rel(rel)
            && !is_current_of_cursor(rel)
    }
}

/// Whether the statement names its row by a cursor: only TID scans can find that.
unsafe fn is_current_of_cursor(rel: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: planner structures; the clause stands for itself, never inside another one.
    unsafe {
        PgList::<pg_sys::RestrictInfo>::from_pg((*rel).baserestrictinfo)
            .iter_ptr()
            .any(|clause| (*(*clause).clause).type_ == pg_sys::NodeTag::T_CurrentOfExpr)
    }
}

/// Adds our paths.
unsafe fn offer(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    rti: pg_sys::Index,
    rte: *mut pg_sys::RangeTblEntry,
) {
    // SAFETY: the planner holds a lock on the relation.
    unsafe {
        let Some(cold) = planned_size((*rte).relid) else {
            return;
        };
        if is_beaten(rel, cost::least_cost(&cold)) {
            return;
        }
        let table = OpenRelation::open((*rte).relid, pg_sys::NoLock);
        if !am::is_howdah(table.raw()) {
            return;
        }
        let outer = (*rel).lateral_relids;
        let parameters = pg_sys::get_baserel_parampathinfo(root, rel, outer);
        let numbers = numbers_used(rel, rti, parameters);
        if wants_other_system_columns(numbers) {
            return;
        }
        let layout = TableLayout::of((*table.raw()).rd_att);
        let mut clauses = PgList::<pg_sys::RestrictInfo>::from_pg((*rel).baserestrictinfo)
            .iter_ptr()
            .collect::<Vec<_>>();
        if !parameters.is_null() {
            clauses.extend(
                PgList::<pg_sys::RestrictInfo>::from_pg((*parameters).ppi_clauses).iter_ptr(),
            );
        }
        let (pushed, rest): (Vec<_>, Vec<_>) = clauses
            .into_iter()
            .partition(|&clause| is_pushed(clause, rel, &layout));
        let attributes = attributes_of(numbers, &layout);
        let estimate = Estimate::of(root, rel, &table, cold, &attributes, &pushed, &rest);

        for path in take_sequential_scans(&mut (*rel).pathlist) {
            cost::correct(&mut *path, &estimate);
            pg_sys::add_path(rel, path);
        }
        for path in take_sequential_scans(&mut (*rel).partial_pathlist) {
            cost::correct(&mut *path, &estimate);
            pg_sys::add_partial_path(rel, path);
        }
        let serial = path(rel, parameters, &estimate, 0);
        pg_sys::add_path(rel, serial.cast());
        if (*rel).consider_parallel && outer.is_null() {
            let pages = estimate.pages_as_heap();
            let most = pg_sys::max_parallel_workers_per_gather;
            let workers = pg_sys::compute_parallel_worker(rel, pages, -1.0, most);
            if workers > 0 {
                let partial = path(rel, parameters, &estimate, workers);
                pg_sys::add_partial_path(rel, partial.cast());
            }
        }
    }
}

/// Whether neither a path of ours that costs so much at least nor a sequential scan, the cost of
/// which is yet to be corrected, is of any use: the cheapest path is an index's, which `add_path`
/// prefers to both. Most statements that look for a few rows are planned so, and quickly.
unsafe fn is_beaten(rel: *mut pg_sys::RelOptInfo, least_cost: f64) -> bool {
    // SAFETY: planner structures.
    unsafe {
        // A path that is dearer may begin sooner.
        if (*rel).consider_startup {
            return false;
        }
        let paths = PgList::<pg_sys::Path>::from_pg((*rel).pathlist);
        let cheapest = paths
            .iter_ptr()
            .filter(|&path| (*path).param_info.is_null() && (*path).disabled_nodes == 0)
            .min_by(|&a, &b| (*a).total_cost.total_cmp(&(*b).total_cost));
        let Some(cheapest) = cheapest else {
            return false;
        };
        // Any plan with workers costs as much as to start them.
        let least_parallel = match (*rel).partial_pathlist.is_null() {
            true => f64::INFINITY,
            false => pg_sys::parallel_setup_cost,
        };
        (*cheapest).pathtype != pg_sys::NodeTag::T_SeqScan
            && (*cheapest).parallel_safe == (*rel).consider_parallel
            && (*cheapest).total_cost * SURELY_LESS < least_cost.min(least_parallel)
    }
}

/// `add_path` takes costs that differ by less than one in a hundred for the same.
const SURELY_LESS: f64 = 1.02;

/// Takes the sequential scans out of a list of paths.
unsafe fn take_sequential_scans(paths: &mut *mut pg_sys::List) -> Vec<*mut pg_sys::Path> {
    // SAFETY: a list of the planner's.
    unsafe {
        let all = PgList::<pg_sys::Path>::from_pg(*paths);
        let found: Vec<_> = all
            .iter_ptr()
            .filter(|&path| (*path).pathtype == pg_sys::NodeTag::T_SeqScan)
            .collect();
        for &path in &found {
            *paths = pg_sys::list_delete_ptr(*paths, path.cast());
        }
        found
    }
}

/// The attributes that the relation's target and clauses name, as `pull_varattnos` has them.
///
/// # Safety
/// Planner structures.
pub(super) unsafe fn numbers_used(
    rel: *mut pg_sys::RelOptInfo,
    rti: pg_sys::Index,
    parameters: *mut pg_sys::ParamPathInfo,
) -> *mut pg_sys::Bitmapset {
    let mut numbers = std::ptr::null_mut();
    // SAFETY: planner structures; `pull_varattnos` does not look into RestrictInfos.
    unsafe {
        pg_sys::pull_varattnos((*(*rel).reltarget).exprs.cast(), rti, &mut numbers);
        let mut lists = vec![(*rel).baserestrictinfo];
        if !parameters.is_null() {
            lists.push((*parameters).ppi_clauses);
        }
        for list in lists {
            for clause in PgList::<pg_sys::RestrictInfo>::from_pg(list).iter_ptr() {
                pg_sys::pull_varattnos((*clause).clause.cast(), rti, &mut numbers);
            }
        }
    }
    numbers
}

fn wants_other_system_columns(numbers: *const pg_sys::Bitmapset) -> bool {
    let first = pg_sys::FirstLowInvalidHeapAttributeNumber;
    (first + 1..0)
        .filter(|&number| {
            number != pg_sys::SelfItemPointerAttributeNumber
                && number != pg_sys::TableOidAttributeNumber
        })
        // SAFETY: a valid set.
        .any(|number| unsafe { pg_sys::bms_is_member(number - first, numbers) })
}

/// Whether row groups evaluate the clause: they can, and nothing that must run before it
/// (a security barrier's clause) is run after it.
unsafe fn is_pushed(
    clause: *mut pg_sys::RestrictInfo,
    rel: *mut pg_sys::RelOptInfo,
    layout: &TableLayout,
) -> bool {
    // SAFETY: planner structures.
    unsafe {
        let first =
            (*clause).leakproof || (*clause).security_level <= (*rel).baserestrict_min_security;
        !(*clause).pseudoconstant
            && first
            && condition_of((*clause).clause.cast(), (*rel).relid as i32, layout).is_some()
    }
}

unsafe fn path(
    rel: *mut pg_sys::RelOptInfo,
    parameters: *mut pg_sys::ParamPathInfo,
    estimate: &Estimate,
    workers: i32,
) -> *mut pg_sys::CustomPath {
    // SAFETY: zeroed memory in the planner's context.
    unsafe {
        let custom =
            pg_sys::palloc0(std::mem::size_of::<pg_sys::CustomPath>()).cast::<pg_sys::CustomPath>();
        let path = &mut (*custom).path;
        path.type_ = pg_sys::NodeTag::T_CustomPath;
        path.pathtype = pg_sys::NodeTag::T_CustomScan;
        path.parent = rel;
        path.pathtarget = (*rel).reltarget;
        path.param_info = parameters;
        path.parallel_aware = workers > 0;
        path.parallel_safe = (*rel).consider_parallel;
        path.parallel_workers = workers;
        // Whoever forbids sequential scans wants an index to be used.
        path.disabled_nodes = i32::from(!pg_sys::enable_seqscan);
        cost::set(path, estimate);
        (*custom).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
        (*custom).methods = &PATH_METHODS.0;
        custom
    }
}

/// Turns the path into a plan: pushed clauses into `custom_exprs`, the rest into the qual.
#[pg_guard]
pub unsafe extern "C-unwind" fn plan_custom_path(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    best_path: *mut pg_sys::CustomPath,
    tlist: *mut pg_sys::List,
    clauses: *mut pg_sys::List,
    _custom_plans: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: arguments come from the planner, which holds a lock on the relation. Lists and
    // nodes are made in its memory context.
    unsafe {
        let rte = *(*root).simple_rte_array.add((*rel).relid as usize);
        let table = OpenRelation::open((*rte).relid, pg_sys::NoLock);
        let layout = TableLayout::of((*table.raw()).rd_att);
        let mut pushed = PgList::<pg_sys::Expr>::new();
        let mut rest = PgList::<pg_sys::Expr>::new();
        for clause in PgList::<pg_sys::RestrictInfo>::from_pg(clauses).iter_ptr() {
            if is_pushed(clause, rel, &layout) {
                pushed.push((*clause).clause);
            } else if !(*clause).pseudoconstant {
                rest.push((*clause).clause);
            }
        }
        let scan =
            pg_sys::palloc0(std::mem::size_of::<pg_sys::CustomScan>()).cast::<pg_sys::CustomScan>();
        (*scan).scan.plan.type_ = pg_sys::NodeTag::T_CustomScan;
        (*scan).scan.plan.targetlist = tlist;
        (*scan).scan.plan.qual = rest.into_pg();
        (*scan).scan.scanrelid = (*rel).relid;
        (*scan).flags = (*best_path).flags;
        (*scan).custom_exprs = pushed.into_pg();
        (*scan).methods = &SCAN_METHODS.0;
        scan.cast()
    }
}
