//! Offering the node to the planner.
//!
//! The node is offered for a base relation that the scanner takes, unless the statement samples it, names its row by a
//! cursor, or is itself a cursor that may be scrolled. Statements that change or lock rows need no more of their scans than
//! ctid and the columns that they name: rows are changed by TID, old versions fetched by it (docs/decisions/0008).

use pgrx::{PgList, pg_guard, pg_sys};

use super::planned::PlannedTable;
use super::{cursors, plan, scanner};

static mut PREVIOUS_HOOK: pg_sys::set_rel_pathlist_hook_type = None;

/// What the scanner says of a scan.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offer {
    /// Before the first row.
    pub startup_cost: f64,
    /// Reading pages: the same however many workers take part.
    pub disk_cost: f64,
    /// All else: divided among workers.
    pub cpu_cost: f64,
    /// As many pages of heap hold as much work: what the number of workers goes by.
    pub pages_as_heap: f64,
    /// What a sequential scan takes beyond PostgreSQL's estimate: divided among workers.
    pub sequential_surcharge: f64,
}

/// The planner's units, as settings have them.
#[derive(Clone, Copy, Debug)]
pub struct UnitCosts {
    /// `cpu_tuple_cost`
    pub tuple: f64,
    /// `cpu_operator_cost`
    pub operator: f64,
}

/// The planner's units.
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
    // SAFETY: arguments come from the planner, which holds a lock on the table; the previous hook gets what we got.
    unsafe {
        if let Some(previous) = PREVIOUS_HOOK {
            pg_sys::ffi::pg_guard_ffi_boundary(|| previous(root, rel, rti, rte));
        }
        if !cursors::may_scroll() && is_plain_table(rel, rte) {
            let table = PlannedTable::of(root, rel);
            if let Some(offer) = scanner().and_then(|scanner| scanner.offer(&table)) {
                add_paths(&table, &offer);
            }
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

/// Adds our paths beside sequential scans that cost what they cost here.
unsafe fn add_paths(table: &PlannedTable<'_>, offer: &Offer) {
    let rel = table.rel;
    // SAFETY: planner structures; paths are made in the planner's memory.
    unsafe {
        for path in take_sequential_scans(&mut (*rel).pathlist) {
            (*path).total_cost += offer.sequential_surcharge / divisor_of(&*path);
            pg_sys::add_path(rel, path);
        }
        for path in take_sequential_scans(&mut (*rel).partial_pathlist) {
            (*path).total_cost += offer.sequential_surcharge / divisor_of(&*path);
            pg_sys::add_partial_path(rel, path);
        }
        pg_sys::add_path(rel, path(table, offer, 0).cast());
        if (*rel).consider_parallel && (*rel).lateral_relids.is_null() {
            let most = pg_sys::max_parallel_workers_per_gather;
            let workers = pg_sys::compute_parallel_worker(rel, offer.pages_as_heap, -1.0, most);
            if workers > 0 {
                pg_sys::add_partial_path(rel, path(table, offer, workers).cast());
            }
        }
    }
}

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

unsafe fn path(table: &PlannedTable<'_>, offer: &Offer, workers: i32) -> *mut pg_sys::CustomPath {
    let rel = table.rel;
    // SAFETY: zeroed memory in the planner's context.
    unsafe {
        let custom =
            pg_sys::palloc0(std::mem::size_of::<pg_sys::CustomPath>()).cast::<pg_sys::CustomPath>();
        let path = &mut (*custom).path;
        path.type_ = pg_sys::NodeTag::T_CustomPath;
        path.pathtype = pg_sys::NodeTag::T_CustomScan;
        path.parent = rel;
        path.pathtarget = (*rel).reltarget;
        path.param_info = table.parameters;
        path.parallel_aware = workers > 0;
        path.parallel_safe = (*rel).consider_parallel;
        path.parallel_workers = workers;
        // Disabling sequential scans asks for an index to be used.
        path.disabled_nodes = i32::from(!pg_sys::enable_seqscan);
        set_cost(path, table, offer);
        (*custom).flags = pg_sys::CUSTOMPATH_SUPPORT_PROJECTION;
        (*custom).methods = &plan::PATH_METHODS.0;
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

fn divisor_of(path: &pg_sys::Path) -> f64 {
    match path.parallel_workers {
        0 => 1.0,
        workers => parallel_divisor(workers),
    }
}

/// Mirrors `get_parallel_divisor`.
fn parallel_divisor(workers: i32) -> f64 {
    let workers = f64::from(workers);
    // SAFETY: plain read of a setting.
    let leader = match unsafe { pg_sys::parallel_leader_participation } {
        true => (1.0 - 0.3 * workers).max(0.0),
        false => 0.0,
    };
    workers + leader
}
