//! Taking a query's upper part apart, and offering a path for it.
//!
//! The upper relation's paths are PostgreSQL's when the hook is called; ours joins them, and the cheapest is taken. So what
//! lies above, a sort or a limit, is planned with our costs, and no plan is changed afterwards.
//!
//! Offered are: grouping and aggregation (no grouping sets), DISTINCT, and ORDER BY with a constant LIMIT, each over
//! a plain scan of one table. Everything the hook does not know makes it offer nothing.

use pgrx::{PgList, pg_guard, pg_sys};

use super::expr::{Node, nodes};
use super::{Order, Shape, Stage, engine, plan};

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

/// What a path costs, and what it needs.
pub struct Offer<'a> {
    /// Everything but returning the rows: no row comes before the last one is computed.
    pub cost: f64,
    /// Subexpressions without variables, in the order in which the engine numbers them.
    pub operands: Vec<Node<'a>>,
}

/// What the planner knows of the query.
pub struct Planner<'a> {
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    rte: &'a pg_sys::RangeTblEntry,
    /// Rows that come out.
    pub rows: f64,
}

impl Planner<'_> {
    /// The scanned table.
    pub fn table(&self) -> pg_sys::Oid {
        self.rte.relid
    }

    /// The scanned relation and its query, for estimates.
    pub fn relation(&self) -> (*mut pg_sys::PlannerInfo, *mut pg_sys::RelOptInfo) {
        (self.root, self.rel)
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
        offer(root, stage, input, output, extra);
    }
}

/// Adds our path to the output's.
unsafe fn offer(
    root: *mut pg_sys::PlannerInfo,
    stage: pg_sys::UpperRelationKind::Type,
    input: *mut pg_sys::RelOptInfo,
    output: *mut pg_sys::RelOptInfo,
    extra: *mut std::ffi::c_void,
) -> Option<()> {
    // SAFETY: planner structures; what is made lies in the planner's memory.
    unsafe {
        let engine = engine()?;
        // Set operations have none.
        if input.is_null() {
            return None;
        }
        let rte = plain_table(root, input)?;
        let filter = filter_of(root, input)?;
        let rti = (*input).relid as i32;
        let mut shape = Shape {
            stage: Stage::Group,
            rti,
            filter,
            keys: Vec::new(),
            aggregates: Vec::new(),
            columns: Vec::new(),
            order: Vec::new(),
            limit: 0,
        };
        // Not every upper relation says what it returns.
        let returned = (*root).upper_targets[stage as usize];
        if returned.is_null() {
            return None;
        }
        let target = nodes((*returned).exprs);
        let mut having = std::ptr::null_mut();
        let mut pathkeys = std::ptr::null_mut();
        match stage {
            pg_sys::UpperRelationKind::UPPERREL_GROUP_AGG => {
                let extra = &*extra.cast::<pg_sys::GroupPathExtraData>();
                having = extra.havingQual.cast::<pg_sys::List>();
                groups(root, &target, having, &mut shape)?;
                first_groups(root, &target, having, &mut shape);
            }
            pg_sys::UpperRelationKind::UPPERREL_DISTINCT => distinct(root, &target, &mut shape)?,
            pg_sys::UpperRelationKind::UPPERREL_ORDERED => {
                first(root, &target, &mut shape)?;
                pathkeys = (*root).sort_pathkeys;
            }
            _ => return None,
        }
        let child = cheapest_serial(output)?;
        let rows = match shape.stage {
            Stage::Group => (*child).rows,
            Stage::First => (shape.limit as f64).min((*input).rows),
        };
        let planner = Planner {
            root,
            rel: input,
            rte: &*rte,
            rows,
        };
        let mut offer = engine.offer(&shape, &planner);
        let (mut rows, has_first) = (rows, shape.stage == Stage::Group && !shape.order.is_empty());
        if has_first && offer.is_none() {
            // Not in this order.
            (shape.order, shape.limit) = (Vec::new(), 0);
            offer = engine.offer(&shape, &planner);
        } else if has_first {
            rows = rows.min(shape.limit as f64);
        }
        let offer = offer?;
        let path = plan::path(output, child, &shape, &offer, having);
        (*path).path.pathtarget = returned;
        (*path).path.pathkeys = pathkeys;
        (*path).path.rows = rows;
        // Whoever forbids sequential scans wants an index to be used.
        (*path).path.disabled_nodes = i32::from(!pg_sys::enable_seqscan);
        let target = &(*returned).cost;
        (*path).path.startup_cost = offer.cost + target.startup;
        (*path).path.total_cost =
            (*path).path.startup_cost + rows * (pg_sys::cpu_tuple_cost + target.per_tuple);
        pg_sys::add_path(output, path.cast());
    }
    Some(())
}

/// The table that the input scans as it is, if it is one.
unsafe fn plain_table(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
) -> Option<*mut pg_sys::RangeTblEntry> {
    // SAFETY: planner structures.
    unsafe {
        let query = &*(*root).parse;
        if (*input).reloptkind != pg_sys::RelOptKind::RELOPT_BASEREL
            || pg_sys::is_dummy_rel(input)
            || !(*input).lateral_relids.is_null()
            || !query.groupingSets.is_null()
            || !query.rowMarks.is_null()
            || query.hasTargetSRFs
            || query.hasWindowFuncs && (*input).relid == 0
        {
            return None;
        }
        let rte = *(*root).simple_rte_array.add((*input).relid as usize);
        ((*rte).rtekind == pg_sys::RTEKind::RTE_RELATION
            && !(*rte).inh
            && (*rte).tablesample.is_null()
            && matches!((*rte).relkind as u8, b'r' | b'm'))
        .then_some(rte)
    }
}

/// The conjuncts in the order in which PostgreSQL evaluates them (`order_qual_clauses`): those of a lower security level
/// first, but for leakproof ones, which may come at any time; among these the cheaper first.
unsafe fn filter_of<'a>(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
) -> Option<Vec<Node<'a>>> {
    // SAFETY: planner structures.
    unsafe {
        let clauses = PgList::<pg_sys::RestrictInfo>::from_pg((*input).baserestrictinfo);
        let mut ordered = Vec::new();
        for clause in clauses.iter_ptr() {
            if (*clause).pseudoconstant {
                return None;
            }
            let level = match (*clause).leakproof {
                true => 0,
                false => (*clause).security_level,
            };
            let mut cost = pg_sys::QualCost::default();
            pg_sys::cost_qual_eval_node(&mut cost, clause.cast(), root);
            ordered.push((level, cost.per_tuple, Node::of((*clause).clause.cast())));
        }
        ordered.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        Some(ordered.into_iter().map(|(_, _, node)| node).collect())
    }
}

unsafe fn sort_group_expressions<'a>(
    root: *mut pg_sys::PlannerInfo,
    clauses: *mut pg_sys::List,
) -> Vec<(&'a pg_sys::SortGroupClause, Node<'a>)> {
    // SAFETY: planner structures; every clause refers to an entry of the target list.
    unsafe {
        PgList::<pg_sys::SortGroupClause>::from_pg(clauses)
            .iter_ptr()
            .map(|clause| {
                let node = pg_sys::get_sortgroupclause_expr(clause, (*root).processed_tlist);
                (&*clause, Node::of(node))
            })
            .collect()
    }
}

/// Groups and aggregates. What is returned or asked of groups must be made of them.
unsafe fn groups<'a>(
    root: *mut pg_sys::PlannerInfo,
    target: &[Node<'a>],
    having: *mut pg_sys::List,
    shape: &mut Shape<'a>,
) -> Option<()> {
    // SAFETY: planner structures; the qual is a list of conjuncts.
    unsafe {
        let keys = sort_group_expressions(root, (*(*root).parse).groupClause);
        for (_, key) in keys {
            if !shape.keys.iter().any(|known| known.equals(key)) {
                shape.keys.push(key);
            }
        }
        for node in target.iter().copied().chain(nodes(having)) {
            if shape.keys.iter().any(|key| key.equals(node)) {
                continue;
            }
            for part in node.variables_and_aggregates() {
                if part.is_aggregate() {
                    if !shape.aggregates.iter().any(|known| known.equals(part)) {
                        shape.aggregates.push(part);
                    }
                } else if !shape.keys.iter().any(|key| key.equals(part)) {
                    return None;
                }
            }
        }
    }
    Some(())
}

/// Which groups are wanted, where all that follows is a sort of them and a constant limit: the
/// first by an order of keys and aggregates. The sort and the limit stay above the node, which need
/// not return other groups.
unsafe fn first_groups<'a>(
    root: *mut pg_sys::PlannerInfo,
    target: &[Node<'a>],
    having: *mut pg_sys::List,
    shape: &mut Shape<'a>,
) -> Option<()> {
    // SAFETY: planner structures.
    unsafe {
        let query = &*(*root).parse;
        if query.limitOption != pg_sys::LimitOption::LIMIT_OPTION_COUNT
            || query.sortClause.is_null()
            || query.hasWindowFuncs
            || query.hasDistinctOn
            || !query.distinctClause.is_null()
            || !having.is_null()
            || shape.keys.is_empty()
        {
            return None;
        }
        let is_returned = |node: &Node<'a>| {
            let mut returned = shape.keys.iter().chain(&shape.aggregates);
            returned.any(|known| known.equals(*node))
        };
        // An expression over groups may fail for one that is not returned.
        if !target.iter().all(is_returned) {
            return None;
        }
        let limit = constant(query.limitCount)?;
        let offset = match query.limitOffset.is_null() {
            true => 0,
            false => constant(query.limitOffset)?,
        };
        let mut order = Vec::new();
        for (clause, node) in sort_group_expressions(root, query.sortClause) {
            is_returned(&node).then_some(())?;
            order.push(Order {
                node,
                descending: is_descending(clause, node)?,
                nulls_first: clause.nulls_first,
            });
        }
        shape.limit = limit.checked_add(offset)?;
        shape.order = order;
    }
    Some(())
}

/// Distinct rows are groups without aggregates.
unsafe fn distinct<'a>(
    root: *mut pg_sys::PlannerInfo,
    target: &[Node<'a>],
    shape: &mut Shape<'a>,
) -> Option<()> {
    // SAFETY: planner structures.
    unsafe {
        let query = &*(*root).parse;
        if query.hasDistinctOn || query.hasWindowFuncs {
            return None;
        }
        let keys = sort_group_expressions(root, query.distinctClause);
        let all = target
            .iter()
            .all(|node| keys.iter().any(|(_, key)| key.equals(*node)));
        if !all || keys.is_empty() {
            return None;
        }
        for (_, key) in keys {
            if !shape.keys.iter().any(|known| known.equals(key)) {
                shape.keys.push(key);
            }
        }
    }
    Some(())
}

/// The first rows by an order.
unsafe fn first<'a>(
    root: *mut pg_sys::PlannerInfo,
    target: &[Node<'a>],
    shape: &mut Shape<'a>,
) -> Option<()> {
    // SAFETY: planner structures.
    unsafe {
        let query = &*(*root).parse;
        if query.limitOption != pg_sys::LimitOption::LIMIT_OPTION_COUNT
            || query.sortClause.is_null()
            || query.hasWindowFuncs
            || query.hasAggs
            || query.hasDistinctOn
            || !query.distinctClause.is_null()
            || !query.groupClause.is_null()
        {
            return None;
        }
        let limit = constant(query.limitCount)?;
        let offset = match query.limitOffset.is_null() {
            true => 0,
            false => constant(query.limitOffset)?,
        };
        shape.stage = Stage::First;
        shape.limit = limit.checked_add(offset)?;
        for (clause, node) in sort_group_expressions(root, query.sortClause) {
            shape.order.push(Order {
                node,
                descending: is_descending(clause, node)?,
                nulls_first: clause.nulls_first,
            });
        }
        for node in target {
            for part in node.variables_and_aggregates() {
                if !shape.columns.iter().any(|known| known.equals(part)) {
                    shape.columns.push(part);
                }
            }
        }
    }
    Some(())
}

/// The value of a constant bigint that is not negative.
unsafe fn constant(node: *mut pg_sys::Node) -> Option<u64> {
    // SAFETY: casts follow the node's tag; LIMIT and OFFSET are bigint.
    unsafe {
        if node.is_null() || (*node).type_ != pg_sys::NodeTag::T_Const {
            return None;
        }
        let constant = &*node.cast::<pg_sys::Const>();
        match constant.constisnull {
            true => None,
            false => u64::try_from(constant.constvalue.value() as i64).ok(),
        }
    }
}

/// Whether an order goes from the greatest down, if it is that of the type's default operator class.
unsafe fn is_descending(clause: &pg_sys::SortGroupClause, node: Node<'_>) -> Option<bool> {
    let (mut family, mut input) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
    let mut order = pg_sys::CompareType::COMPARE_INVALID;
    // SAFETY: catalog lookups.
    unsafe {
        let known =
            pg_sys::get_ordering_op_properties(clause.sortop, &mut family, &mut input, &mut order);
        let class = pg_sys::GetDefaultOpClass(node.type_oid(), pg_sys::BTREE_AM_OID);
        if !known || class == pg_sys::InvalidOid || pg_sys::get_opclass_family(class) != family {
            return None;
        }
    }
    match order {
        pg_sys::CompareType::COMPARE_LT => Some(false),
        pg_sys::CompareType::COMPARE_GT => Some(true),
        _ => None,
    }
}

/// The cheapest of the paths that need no parallel workers: what is run where the engine cannot.
unsafe fn cheapest_serial(output: *mut pg_sys::RelOptInfo) -> Option<*mut pg_sys::Path> {
    // SAFETY: planner structures.
    unsafe {
        PgList::<pg_sys::Path>::from_pg((*output).pathlist)
            .iter_ptr()
            .filter(|&path| {
                // The subqueries of a MinMaxAggPath belong to whoever plans it.
                (*path).type_ != pg_sys::NodeTag::T_MinMaxAggPath
                    && !uses_workers(path)
                    && (*path).param_info.is_null()
            })
            .min_by(|&a, &b| (*a).total_cost.total_cmp(&(*b).total_cost))
            .and_then(|path| copy(path))
    }
}

/// A copy of a path, its subpaths shared: `add_path` frees a path that another one dominates, and later steps of the
/// planner change paths in place.
unsafe fn copy(path: *mut pg_sys::Path) -> Option<*mut pg_sys::Path> {
    use pg_sys::NodeTag as Tag;
    // SAFETY: the size is that of the node's own type.
    unsafe {
        let len = match (*path).type_ {
            Tag::T_Path => size_of::<pg_sys::Path>(),
            Tag::T_AggPath => size_of::<pg_sys::AggPath>(),
            Tag::T_GroupPath => size_of::<pg_sys::GroupPath>(),
            Tag::T_UpperUniquePath => size_of::<pg_sys::UpperUniquePath>(),
            Tag::T_SortPath => size_of::<pg_sys::SortPath>(),
            Tag::T_IncrementalSortPath => size_of::<pg_sys::IncrementalSortPath>(),
            Tag::T_ProjectionPath => size_of::<pg_sys::ProjectionPath>(),
            Tag::T_GroupResultPath => size_of::<pg_sys::GroupResultPath>(),
            Tag::T_IndexPath => size_of::<pg_sys::IndexPath>(),
            Tag::T_LimitPath => size_of::<pg_sys::LimitPath>(),
            _ => return None,
        };
        let copy = pg_sys::palloc(len).cast::<u8>();
        std::ptr::copy_nonoverlapping(path.cast::<u8>(), copy, len);
        Some(copy.cast())
    }
}

/// Whether a Gather lies in the path. Those of upper relations lie in a chain of nodes with one child.
unsafe fn uses_workers(mut path: *mut pg_sys::Path) -> bool {
    use pg_sys::NodeTag as Tag;
    // SAFETY: casts follow the node's tag.
    unsafe {
        loop {
            path = match (*path).type_ {
                Tag::T_GatherPath | Tag::T_GatherMergePath => return true,
                Tag::T_AggPath => (*path.cast::<pg_sys::AggPath>()).subpath,
                Tag::T_GroupPath => (*path.cast::<pg_sys::GroupPath>()).subpath,
                Tag::T_UpperUniquePath => (*path.cast::<pg_sys::UpperUniquePath>()).subpath,
                Tag::T_SortPath => (*path.cast::<pg_sys::SortPath>()).subpath,
                Tag::T_IncrementalSortPath => {
                    (*path.cast::<pg_sys::IncrementalSortPath>()).spath.subpath
                }
                Tag::T_ProjectionPath => (*path.cast::<pg_sys::ProjectionPath>()).subpath,
                Tag::T_LimitPath => (*path.cast::<pg_sys::LimitPath>()).subpath,
                _ => return false,
            };
        }
    }
}
