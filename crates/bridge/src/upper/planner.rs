//! Offers a path for a query's upper part, as [`super::analysis`] finds it.
//!
//! When the hook is called, the upper relation has PostgreSQL's paths. Ours is added to them, and
//! the cheapest is used. So whatever is above, a sort or a limit, is planned with our costs, and no
//! plan is changed afterwards.
//!
//! Offered are: grouping and aggregation (no grouping sets), DISTINCT, and ORDER BY with a constant
//! LIMIT, each over a plain scan of one relation, which may be partitioned or have children. For
//! anything else the hook offers nothing, and notes the reason ([`notes`]).
//!
//! The node reads forwards only. PostgreSQL keeps the rows of a `SCROLL` cursor itself where they
//! cannot be moved through backwards; where a cursor is declared without a word, we keep the first
//! rows, as its Sort would.

use pgrx::{PgList, pg_guard, pg_sys};

use super::analysis::{distinct, filter_of, first, first_groups, groups, plain_relation};
use super::expr::{Node, nodes};
use super::own_plan::cheapest_serial;
use super::reason::Reason;
use super::tables::{QueriedTable, tables_of};
use super::{Engine, Shape, Stage, engine, notes, plan};
use crate::scan::{PlannedTable, by_index, cost_of_first, may_scroll};

static mut PREVIOUS_HOOK: pg_sys::create_upper_paths_hook_type = None;

/// Chains the planner's hook.
///
/// # Safety
/// Called once, while the library is loaded.
pub(super) unsafe fn install() {
    // SAFETY: nothing else runs in the process yet.
    unsafe {
        PREVIOUS_HOOK = pg_sys::create_upper_paths_hook;
        pg_sys::create_upper_paths_hook = Some(create_upper_paths);
    }
}

/// The cost of a path, and the operands that it needs.
pub struct Offer<'a> {
    /// All costs except that of returning the rows: the last row is computed before the first is
    /// returned.
    pub cost: f64,
    /// Subexpressions without variables, in the order in which the engine numbers them.
    pub operands: Vec<Node<'a>>,
    /// Parts of the query that PostgreSQL evaluates for the engine, in the order in which it
    /// numbers them.
    pub foreign: Vec<Node<'a>>,
    /// What the engine decided while it translated the query, for [`Run::decisions`](super::Run).
    pub decisions: Vec<bool>,
}

/// The planner's view of the query.
pub struct Planner<'a> {
    root: *mut pg_sys::PlannerInfo,
    rte: &'a pg_sys::RangeTblEntry,
    input: *mut pg_sys::RelOptInfo,
    output: *mut pg_sys::RelOptInfo,
    tables: &'a [QueriedTable],
    /// The number of rows in the result.
    pub rows: f64,
}

impl Planner<'_> {
    /// The relation in the query.
    pub fn relation(&self) -> pg_sys::Oid {
        self.rte.relid
    }

    /// The tables that are read: the relation itself, or its partitions and children.
    pub fn tables(&self) -> &[QueriedTable] {
        self.tables
    }

    /// The number of rows of all tables, and of those that pass the filter.
    pub fn rows_and_rows_passed(&self) -> (f64, f64) {
        // SAFETY: the planner runs as long as this lives.
        unsafe {
            (
                (*self.input).tuples.max((*self.input).rows),
                (*self.input).rows,
            )
        }
    }

    /// Whether PostgreSQL's own plan may evaluate the query's expressions in parallel workers.
    pub fn has_parallel_plans(&self) -> bool {
        // SAFETY: the planner runs as long as this lives.
        unsafe { (*self.output).consider_parallel && !(*self.input).partial_pathlist.is_null() }
    }

    /// Whether PostgreSQL's own plan finds the rows by an index, and evaluates the query's
    /// expressions for these only.
    pub fn has_index_plan(&self) -> bool {
        // SAFETY: the planner runs as long as this lives, and has chosen the input's paths.
        unsafe { finds_by_index((*self.input).cheapest_total_path) }
    }

    /// The share of rows of which the expression is true.
    pub fn selectivity(&self, node: Node<'_>) -> f64 {
        let kind = pg_sys::JoinType::JOIN_INNER;
        // SAFETY: the planner runs as long as this lives; a boolean expression of the query.
        unsafe { pg_sys::clause_selectivity(self.root, node.raw(), 0, kind, std::ptr::null_mut()) }
    }

    /// The number of different values in the table of the only column of an expression.
    pub fn distinct_arguments(&self, node: Node<'_>) -> f64 {
        // SAFETY: the planner runs as long as this lives; the list is made anew. What is examined
        // is a variable of the query, and its statistics are released by the function they name.
        unsafe {
            let variables = PgList::<pg_sys::Node>::from_pg(pg_sys::pull_var_clause(node.raw(), 0));
            let Some(variable) = variables.get_ptr(0) else {
                return 1.0;
            };
            let (mut examined, mut is_default) = (pg_sys::VariableStatData::default(), false);
            pg_sys::examine_variable(self.root, variable, 0, &mut examined);
            let count = pg_sys::get_variable_numdistinct(&mut examined, &mut is_default);
            if let (Some(free), false) = (examined.freefunc, examined.statsTuple.is_null()) {
                free(examined.statsTuple);
            }
            count
        }
    }

    /// The cost of evaluating an expression: once, and for each row.
    pub fn cost_of_evaluation(&self, node: Node<'_>) -> (f64, f64) {
        let mut cost = pg_sys::QualCost::default();
        // SAFETY: the planner runs as long as this lives; an expression of the query.
        unsafe { pg_sys::cost_qual_eval_node(&mut cost, node.raw(), self.root) };
        (cost.startup, cost.per_tuple)
    }

    /// Whether an expression depends on a row of the query around this one, so that the plan is run
    /// again for each of them.
    pub fn is_run_again_for(&self, node: Node<'_>) -> bool {
        // SAFETY: the planner runs as long as this lives, and with it the queries around; their
        // parameters are listed as long as this one is planned.
        unsafe {
            let used = pg_sys::pull_paramids(node.raw().cast());
            let mut around = (*self.root).parent_root;
            while !used.is_null() && !around.is_null() {
                let passed = PgList::<pg_sys::PlannerParamItem>::from_pg((*around).plan_params);
                if (passed.iter_ptr()).any(|item| pg_sys::bms_is_member((*item).paramId, used)) {
                    return true;
                }
                around = (*around).parent_root;
            }
        }
        false
    }

    /// One of them, for estimates.
    pub fn planned(&self, table: &QueriedTable) -> PlannedTable<'_> {
        // SAFETY: the planner runs as long as this lives.
        unsafe { PlannedTable::of(self.root, table.rel()) }
    }
}

/// Whether a path, or one of its children, finds rows by a condition on an index.
///
/// # Safety
/// A path of the planner's, or NULL.
unsafe fn finds_by_index(path: *mut pg_sys::Path) -> bool {
    // SAFETY: as for this function; a node's tag tells its type.
    unsafe {
        let children = match path.as_ref().map(|path| path.type_) {
            Some(pg_sys::NodeTag::T_IndexPath) => {
                return !(*path.cast::<pg_sys::IndexPath>()).indexclauses.is_null();
            }
            Some(pg_sys::NodeTag::T_BitmapHeapPath) => return true,
            Some(pg_sys::NodeTag::T_AppendPath) => (*path.cast::<pg_sys::AppendPath>()).subpaths,
            Some(pg_sys::NodeTag::T_MergeAppendPath) => {
                (*path.cast::<pg_sys::MergeAppendPath>()).subpaths
            }
            _ => return false,
        };
        let children = PgList::<pg_sys::Path>::from_pg(children);
        children.iter_ptr().any(|child| finds_by_index(child))
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn create_upper_paths(
    root: *mut pg_sys::PlannerInfo,
    stage: pg_sys::UpperRelationKind::Type,
    input: *mut pg_sys::RelOptInfo,
    output: *mut pg_sys::RelOptInfo,
    extra: *mut std::ffi::c_void,
) {
    // SAFETY: arguments come from the planner; the previous hook gets what we got.
    unsafe {
        if let Some(previous) = PREVIOUS_HOOK {
            pg_sys::ffi::pg_guard_ffi_boundary(|| previous(root, stage, input, output, extra));
        }
        let Some(engine) = engine() else {
            return;
        };
        match offer(engine, root, stage, input, output, extra) {
            Ok(Offered::Yes) => notes::offered(root),
            Ok(Offered::NotAsked) => {}
            Err(reason) => notes::declined(engine, root, reason),
        }
        if stage == pg_sys::UpperRelationKind::UPPERREL_FINAL {
            notes::finish(engine, root, output);
        }
    }
}

/// The result of a call of the hook that was not declined.
enum Offered {
    Yes,
    /// The stage does not concern rows of tables.
    NotAsked,
}

/// Adds our path to the output's.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
unsafe fn offer(
    engine: &dyn Engine,
    root: *mut pg_sys::PlannerInfo,
    stage: pg_sys::UpperRelationKind::Type,
    input: *mut pg_sys::RelOptInfo,
    output: *mut pg_sys::RelOptInfo,
    extra: *mut std::ffi::c_void,
) -> Result<Offered, Reason> {
    use pg_sys::UpperRelationKind::{UPPERREL_DISTINCT, UPPERREL_GROUP_AGG, UPPERREL_ORDERED};
    // SAFETY: planner structures; what is made lies in the planner's memory.
    unsafe {
        // Set operations have no input. Not every upper relation says what it returns.
        let returned = (*root).upper_targets[stage as usize];
        if input.is_null()
            || returned.is_null()
            || ![UPPERREL_GROUP_AGG, UPPERREL_DISTINCT, UPPERREL_ORDERED].contains(&stage)
        {
            return Ok(Offered::NotAsked);
        }
        match (*input).reloptkind {
            pg_sys::RelOptKind::RELOPT_BASEREL => {}
            pg_sys::RelOptKind::RELOPT_JOINREL => return Err(Reason::Join),
            // Groups, and partitions one by one.
            _ => return Ok(Offered::NotAsked),
        }
        if pg_sys::is_dummy_rel(input) {
            return Err(Reason::NoRows);
        }
        let rte = plain_relation(root, input)?;
        let (tables, is_pruned) = tables_of(root, input)?;
        let limit = match stage {
            UPPERREL_ORDERED => (*root).limit_tuples,
            _ => -1.0,
        };
        let least_cost = engine.least_cost(&tables)?;
        if is_beaten(output, limit, least_cost) {
            return Err(Reason::Cost);
        }
        let mut shape = Shape {
            stage: Stage::Group,
            rti: (*input).relid as i32,
            filter: Vec::new(),
            keys: Vec::new(),
            aggregates: Vec::new(),
            columns: Vec::new(),
            order: Vec::new(),
            limit: 0,
        };
        let target = nodes((*returned).exprs);
        let mut having = std::ptr::null_mut();
        let mut pathkeys = std::ptr::null_mut();
        match stage {
            UPPERREL_GROUP_AGG => {
                let extra = &*extra.cast::<pg_sys::GroupPathExtraData>();
                having = extra.havingQual.cast::<pg_sys::List>();
                groups(root, &target, having, &mut shape)?;
                first_groups(root, &target, having, &mut shape);
            }
            UPPERREL_DISTINCT => distinct(root, &target, &mut shape)?,
            _ => {
                first(root, &target, &mut shape)?;
                pathkeys = (*root).sort_pathkeys;
            }
        }
        shape.filter = filter_of(root, input)?;
        let child = cheapest_serial(output).ok_or(Reason::NoPlanBeside)?;
        let rows = match shape.stage {
            Stage::Group => (*child).rows,
            Stage::First => (shape.limit as f64).min((*input).rows),
        };
        let planner = Planner {
            root,
            rte: &*rte,
            input,
            output,
            tables: &tables,
            rows,
        };
        let mut offer = engine.offer(&shape, &planner);
        let (mut rows, has_first) = (rows, shape.stage == Stage::Group && !shape.order.is_empty());
        if has_first && offer.is_err() {
            // The engine declines the query with this order: all groups are asked for instead.
            (shape.order, shape.limit) = (Vec::new(), 0);
            offer = engine.offer(&shape, &planner);
        } else if has_first {
            rows = rows.min(shape.limit as f64);
        }
        let offer = offer?;
        if by_index::is_surely_faster(input, (*rte).relid, offer.cost) {
            return Err(Reason::Cost);
        }
        let queried = (tables.as_slice(), is_pruned);
        let path = plan::path(output, child, &shape, queried, &offer, having);
        (*path).path.pathtarget = returned;
        (*path).path.pathkeys = pathkeys;
        (*path).path.rows = rows;
        // Disabling sequential scans asks for an index to be used.
        (*path).path.disabled_nodes = i32::from(!pg_sys::enable_seqscan);
        let target = &(*returned).cost;
        (*path).path.startup_cost = offer.cost + target.startup;
        (*path).path.total_cost =
            (*path).path.startup_cost + rows * (pg_sys::cpu_tuple_cost + target.per_tuple);
        let path: *mut pg_sys::Path = path.cast();
        let path = match shape.stage == Stage::First && may_scroll() {
            true => pg_sys::create_material_path(output, path).cast(),
            false => path,
        };
        pg_sys::add_path(output, path);
    }
    Ok(Offered::Yes)
}

/// Whether a path of ours with this startup cost is of no use, because another path returns the
/// rows that a limit leaves (if negative: all) for less. Tested before anything is translated,
/// because most small queries are planned in less time than the translation takes.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
unsafe fn is_beaten(output: *mut pg_sys::RelOptInfo, limit: f64, least_cost: f64) -> bool {
    // SAFETY: planner structures.
    unsafe {
        PgList::<pg_sys::Path>::from_pg((*output).pathlist)
            .iter_ptr()
            .map(|path| &*path)
            .filter(|path| path.disabled_nodes == 0 && path.param_info.is_null())
            .any(|path| {
                let cost = match limit > 0.0 {
                    true => cost_of_first(limit, path),
                    false => path.total_cost,
                };
                cost * SURELY_LESS < least_cost
            })
    }
}

/// `add_path` treats costs that differ by less than one per cent as equal.
const SURELY_LESS: f64 = 1.02;
