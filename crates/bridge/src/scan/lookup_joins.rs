//! Nested loops that look up cold rows of a table, at the price that the look-ups are worth.
//!
//! PostgreSQL prices each page of index and table that a look-up fetches as a random read. Hash
//! joins of heap tables scan all pages of the inner table instead, at a price that includes reading
//! them, so that the two prices stay comparable. A scan by column reads a small part of the pages,
//! and is priced so: beside it the look-ups would seem several times dearer than they are. Hence a
//! join of this form is offered again with a copy of the look-up, the cheaper one of two:
//!
//! ```text
//!   in order    outer rows   a scan of one table, whose column follows the order of its rows
//!                    │ value
//!                    ▼
//!               index        on a column that follows the order of the inner table
//!               inner rows   neighbours: each page is fetched once, after the one before
//!
//!   in memory   any outer rows, so few that heap's rows would be looked up: as if no page had to
//!               be read from a disk (by_index); in partitions too (lookup)
//! ```
//!
//! The order is known by statistics: correlations of both columns, a scan of the outer table that
//! returns rows in their order. Tables without cold rows are planned as PostgreSQL plans them.

use std::cell::OnceCell;

use pgrx::{PgList, pg_guard, pg_sys};

use super::lookup::{Lookup, Price};
use super::planned::PlannedTable;
use super::{plan, scanner, unit_costs};
use crate::column_statistics::correlation;

/// A column whose correlation with the order of rows is at least this follows that order.
const IN_ORDER: f64 = 0.9;

static mut PREVIOUS_HOOK: pg_sys::set_join_pathlist_hook_type = None;

/// Chains the planner's hook.
///
/// # Safety
/// Called once, while the library is loaded.
pub(super) unsafe fn install() {
    // SAFETY: nothing else runs in the process yet.
    unsafe {
        PREVIOUS_HOOK = pg_sys::set_join_pathlist_hook;
        pg_sys::set_join_pathlist_hook = Some(set_join_pathlist);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn set_join_pathlist(
    root: *mut pg_sys::PlannerInfo,
    joinrel: *mut pg_sys::RelOptInfo,
    outerrel: *mut pg_sys::RelOptInfo,
    innerrel: *mut pg_sys::RelOptInfo,
    jointype: pg_sys::JoinType::Type,
    extra: *mut pg_sys::JoinPathExtraData,
) {
    // SAFETY: arguments come from the planner; the previous hook gets what we got.
    unsafe {
        if let Some(previous) = PREVIOUS_HOOK {
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                previous(root, joinrel, outerrel, innerrel, jointype, extra)
            });
        }
        let join = Join {
            root,
            joinrel,
            outerrel,
            innerrel,
            jointype,
            extra,
        };
        if join.may_look_rows_up() {
            join.offer();
        }
    }
}

/// A join that is being planned. All pointers are the planner's, and valid while its hook runs.
struct Join {
    root: *mut pg_sys::PlannerInfo,
    joinrel: *mut pg_sys::RelOptInfo,
    outerrel: *mut pg_sys::RelOptInfo,
    innerrel: *mut pg_sys::RelOptInfo,
    jointype: pg_sys::JoinType::Type,
    extra: *mut pg_sys::JoinPathExtraData,
}

impl Join {
    /// Whether rows of a table are joined with others in a way that a nested loop can.
    ///
    /// # Safety
    /// As long as the planner's hook runs.
    unsafe fn may_look_rows_up(&self) -> bool {
        use pg_sys::JoinType::{JOIN_ANTI, JOIN_INNER, JOIN_LEFT, JOIN_SEMI, JOIN_UNIQUE_OUTER};
        use pg_sys::RelOptKind::{RELOPT_BASEREL, RELOPT_JOINREL};
        let types = [
            JOIN_INNER,
            JOIN_LEFT,
            JOIN_SEMI,
            JOIN_ANTI,
            JOIN_UNIQUE_OUTER,
        ];
        // SAFETY: planner structures.
        unsafe {
            types.contains(&self.jointype)
                && [RELOPT_BASEREL, RELOPT_JOINREL].contains(&(*self.outerrel).reloptkind)
                && !(*self.outerrel).cheapest_total_path.is_null()
                && is_table(self.innerrel)
        }
    }

    /// Adds nested loops with look-ups of the inner table at other prices.
    ///
    /// # Safety
    /// As long as the planner's hook runs; the inner relation is a table.
    unsafe fn offer(&self) {
        // SAFETY: planner structures; paths are made in the planner's memory.
        unsafe {
            let paths =
                PgList::<pg_sys::Path>::from_pg((*self.innerrel).cheapest_parameterized_paths);
            let partial = PgList::<pg_sys::Path>::from_pg((*self.outerrel).partial_pathlist);
            let serial = self.outer_path();
            let lookups = paths.iter_ptr().filter_map(|path| self.lookup(path));
            for lookup in lookups {
                let prices = Prices {
                    in_order: self.price_in_order(lookup.path()).map(Price::of_one),
                    in_memory: OnceCell::new(),
                };
                if (*serial).param_info.is_null()
                    && let Some(copy) = prices.copy(self.root, &lookup, serial)
                {
                    pg_sys::add_path(self.joinrel, self.nested_loop(serial, copy));
                }
                if let Some(outer) = partial.get_ptr(0)
                    && self.may_be_partial(lookup.path())
                    && let Some(copy) = prices.copy(self.root, &lookup, outer)
                {
                    pg_sys::add_partial_path(self.joinrel, self.nested_loop(outer, copy));
                }
            }
        }
    }

    /// The path of the outer rows that are not shared by workers: without duplicates, if the join
    /// is one with distinct rows (`IN` of rows that are fewer).
    ///
    /// # Safety
    /// As for [`Join::offer`].
    unsafe fn outer_path(&self) -> *mut pg_sys::Path {
        // SAFETY: planner structures; the planner has made this path before, and keeps it.
        unsafe {
            let path = (*self.outerrel).cheapest_total_path;
            match self.jointype {
                pg_sys::JoinType::JOIN_UNIQUE_OUTER => {
                    let semijoin = (*self.extra).sjinfo;
                    pg_sys::create_unique_path(self.root, self.outerrel, path, semijoin).cast()
                }
                _ => path,
            }
        }
    }

    /// What fetches rows by index, for values of the outer rows alone.
    ///
    /// # Safety
    /// As for [`Join::offer`]; a path of the inner table.
    unsafe fn lookup(&self, path: *mut pg_sys::Path) -> Option<Lookup> {
        // SAFETY: planner structures.
        unsafe {
            let parameters = (*path).param_info.as_ref()?;
            match pg_sys::bms_is_subset(parameters.ppi_req_outer, (*self.outerrel).relids) {
                true => Lookup::of(path),
                false => None,
            }
        }
    }

    /// The price that the look-up has if it comes in the order of the table; `None` if it does not
    /// come so.
    ///
    /// # Safety
    /// As for [`Join::offer`]; a look-up of the inner table.
    unsafe fn price_in_order(&self, lookup: *mut pg_sys::Path) -> Option<f64> {
        // SAFETY: planner structures; the tag tells the type.
        unsafe {
            if !is_table(self.outerrel) || (*lookup).type_ != pg_sys::NodeTag::T_IndexPath {
                return None;
            }
            let lookup = lookup.cast::<pg_sys::IndexPath>();
            let index = &*(*lookup).indexinfo;
            if index.relam != pg_sys::BTREE_AM_OID || !(*lookup).indexorderbys.is_null() {
                return None;
            }
            let (inner_column, outer_column) = self.first_columns(lookup)?;
            let inner = PlannedTable::of(self.root, self.innerrel);
            scanner()?.least_cost(&inner)?;
            let follows = |planned: &PlannedTable<'_>, column: usize| {
                correlation(planned.open().table(), column).abs() >= IN_ORDER
            };
            let outer = PlannedTable::of(self.root, self.outerrel);
            if !follows(&inner, inner_column) || !follows(&outer, outer_column) {
                return None;
            }
            let (units, selectivity) = (unit_costs(), (*lookup).indexselectivity);
            let times = (*self.outerrel).rows.max(1.0);
            let pages = |all: u32| {
                let all = f64::from(all);
                ((all * selectivity).ceil().max(1.0) * times).min(all)
            };
            let clauses = PgList::<pg_sys::IndexClause>::from_pg((*lookup).indexclauses).len();
            let per_tuple = pg_sys::cpu_index_tuple_cost
                + units.operator * clauses as f64
                + units.tuple
                + (*self.innerrel).baserestrictcost.per_tuple;
            let tuples = (selectivity * inner.tuples()).max(1.0);
            let fetched = pages(index.pages) + pages((*self.innerrel).pages);
            Some(
                (*lookup).path.startup_cost
                    + fetched * inner.sequential_page_cost() / times
                    + tuples * per_tuple,
            )
        }
    }

    /// The first column of the index, and the column of the outer table that it must be equal to;
    /// both as indexes of attributes.
    ///
    /// # Safety
    /// As for [`Join::offer`]; a look-up of the inner table.
    unsafe fn first_columns(&self, lookup: *mut pg_sys::IndexPath) -> Option<(usize, usize)> {
        // SAFETY: planner structures; the clauses of an index name its column on their left.
        unsafe {
            let clauses = PgList::<pg_sys::IndexClause>::from_pg((*lookup).indexclauses);
            let first = clauses.get_ptr(0).filter(|&c| (*c).indexcol == 0)?;
            let quals = PgList::<pg_sys::RestrictInfo>::from_pg((*first).indexquals);
            let qual = quals.get_ptr(0)?;
            let clause = (*qual).clause.cast::<pg_sys::OpExpr>();
            if (*qual).mergeopfamilies.is_null() || (*clause).xpr.type_ != pg_sys::NodeTag::T_OpExpr
            {
                return None;
            }
            let operands = PgList::<pg_sys::Node>::from_pg((*clause).args);
            let operand = pg_sys::strip_implicit_coercions(operands.get_ptr(1)?);
            if (*operand).type_ != pg_sys::NodeTag::T_Var {
                return None;
            }
            let var = &*operand.cast::<pg_sys::Var>();
            let is_of_outer = var.varno == (*self.outerrel).relid as i32 && var.varlevelsup == 0;
            let of_index = *(*(*lookup).indexinfo).indexkeys;
            (is_of_outer && var.varattno > 0 && of_index > 0)
                .then(|| (of_index as usize - 1, var.varattno as usize - 1))
        }
    }

    /// Whether workers may share the outer rows of a loop around this look-up, as for PostgreSQL's
    /// own partial nested loops.
    ///
    /// # Safety
    /// As for [`Join::offer`].
    unsafe fn may_be_partial(&self, lookup: *mut pg_sys::Path) -> bool {
        // SAFETY: planner structures.
        unsafe {
            (*self.joinrel).consider_parallel
                && self.jointype != pg_sys::JoinType::JOIN_UNIQUE_OUTER
                && (*self.joinrel).lateral_relids.is_null()
                && (*lookup).parallel_safe
        }
    }

    /// Mirrors `try_nestloop_path`, for a join that needs no parameters itself.
    ///
    /// # Safety
    /// As for [`Join::offer`]; a path of the outer rows without parameters, and a look-up.
    unsafe fn nested_loop(
        &self,
        outer: *mut pg_sys::Path,
        inner: *mut pg_sys::Path,
    ) -> *mut pg_sys::Path {
        let Join {
            root,
            joinrel,
            extra,
            ..
        } = *self;
        let jointype = match self.jointype {
            pg_sys::JoinType::JOIN_UNIQUE_OUTER => pg_sys::JoinType::JOIN_INNER,
            other => other,
        };
        let mut workspace = pg_sys::JoinCostWorkspace::default();
        // SAFETY: planner structures; the path is made in the planner's memory.
        unsafe {
            let order = pg_sys::build_join_pathkeys(root, joinrel, jointype, (*outer).pathkeys);
            pg_sys::initial_cost_nestloop(root, &mut workspace, jointype, outer, inner, extra);
            let clauses = (*extra).restrictlist;
            pg_sys::create_nestloop_path(
                root,
                joinrel,
                jointype,
                &mut workspace,
                extra,
                outer,
                inner,
                clauses,
                order,
                std::ptr::null_mut(),
            )
            .cast()
        }
    }
}

/// The prices of a look-up that are other than PostgreSQL's.
struct Prices {
    /// If the outer rows come in their order.
    in_order: Option<Price>,
    /// If all pages are in memory.
    in_memory: OnceCell<Option<Price>>,
}

impl Prices {
    /// A copy of the look-up for these outer rows, if one of the prices is lower than its own. That
    /// of rows in memory counts if heap's rows would be looked up so often, rather than scanned: by
    /// one of the workers, if these share the outer rows, since a scan's pages cost each of them
    /// the same.
    ///
    /// # Safety
    /// Paths of the planner's, which is running: a look-up, and one without parameters.
    unsafe fn copy(
        &self,
        root: *mut pg_sys::PlannerInfo,
        lookup: &Lookup,
        outer: *mut pg_sys::Path,
    ) -> Option<*mut pg_sys::Path> {
        // SAFETY: as for this function.
        unsafe {
            let in_order = self.in_order.as_ref();
            let in_order = in_order.filter(|_| returns_in_order(outer));
            let in_memory = match lookup.is_for_heap(root, (*outer).rows.max(1.0)) {
                true => self.in_memory.get_or_init(|| lookup.price_in_memory(root)),
                false => &None,
            };
            let prices = in_order.into_iter().chain(in_memory);
            let least = prices.min_by(|a, b| a.total.total_cmp(&b.total))?;
            (least.total < lookup.cost()).then(|| lookup.copy_at(least))
        }
    }
}

/// # Safety
/// A relation of the planner's, which is running.
unsafe fn is_table(rel: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: as for this function.
    unsafe {
        (*rel).reloptkind == pg_sys::RelOptKind::RELOPT_BASEREL
            && (*rel).rtekind == pg_sys::RTEKind::RTE_RELATION
            && !(*rel).cheapest_total_path.is_null()
    }
}

/// Whether a path without parameters returns the rows of one table in the order of the table.
///
/// # Safety
/// A path of a table that is being planned.
unsafe fn returns_in_order(path: *mut pg_sys::Path) -> bool {
    // SAFETY: planner structures.
    unsafe {
        (*path).param_info.is_null()
            && match (*path).pathtype {
                pg_sys::NodeTag::T_SeqScan => true,
                pg_sys::NodeTag::T_CustomScan => {
                    let custom = path.cast::<pg_sys::CustomPath>();
                    std::ptr::eq((*custom).methods, &raw const plan::PATH_METHODS.0)
                }
                _ => false,
            }
    }
}
