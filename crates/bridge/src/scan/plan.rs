//! From path to plan: pushed clauses go into `custom_exprs`, the rest into the qual.

use std::ffi::CStr;

use pgrx::{PgList, pg_guard, pg_sys};

use super::planned::{Clause, PlannedTable};
use super::{node, scanner};
use crate::custom_node::{Methods, new_scan, path_methods, scan_methods};

/// The node's name in EXPLAIN and in serialized plans. Names of nodes are global to the server, and
/// `ColumnarScan` is taken in two other extensions: Citus and TimescaleDB.
pub(super) const NAME: &CStr = c"HowdahColumnarScan";

pub(super) static PATH_METHODS: Methods<pg_sys::CustomPathMethods> =
    path_methods(NAME, plan_custom_path);

pub(super) static SCAN_METHODS: Methods<pg_sys::CustomScanMethods> =
    scan_methods(NAME, node::create_custom_scan_state);

#[pg_guard]
unsafe extern "C-unwind" fn plan_custom_path(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    best_path: *mut pg_sys::CustomPath,
    tlist: *mut pg_sys::List,
    clauses: *mut pg_sys::List,
    _custom_plans: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: arguments come from the planner, which holds a lock on the relation. Lists and nodes
    // are made in its memory context.
    unsafe {
        let table = PlannedTable::of(root, rel);
        let clauses: Vec<Clause<'_>> = PgList::<pg_sys::RestrictInfo>::from_pg(clauses)
            .iter_ptr()
            .map(|clause| Clause::of(clause))
            .collect();
        let is_pushed = scanner().map_or_else(Vec::new, |scanner| scanner.pushed(&table, &clauses));
        let mut pushed = PgList::<pg_sys::Expr>::new();
        let mut rest = PgList::<pg_sys::Expr>::new();
        for (i, clause) in clauses.into_iter().enumerate() {
            let expr = (*clause.raw).clause;
            if is_pushed.get(i) == Some(&true) {
                pushed.push(expr);
            } else if !clause.is_pseudoconstant() {
                rest.push(expr);
            }
        }
        let scan = new_scan(&SCAN_METHODS, tlist, rest.into_pg());
        (*scan).scan.scanrelid = (*rel).relid;
        (*scan).flags = (*best_path).flags;
        (*scan).custom_exprs = pushed.into_pg();
        scan.cast()
    }
}
