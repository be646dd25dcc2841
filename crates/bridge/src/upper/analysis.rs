//! Analyzes a query's upper part: what the engine is asked to compute.
//!
//! Each function takes the planner's structures of the query level that is being planned, and
//! fails with the reason why the engine cannot be asked ([`Reason`]).

use pgrx::{PgList, pg_sys};

use super::expr::{Node, nodes};
use super::fields::{condition, declined_query, declined_relation};
use super::reason::Reason;
use super::{Order, Shape, Stage};
use crate::expr::is_restricted;

/// The table that the input scans directly, if it is a plain scan.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
pub(super) unsafe fn plain_relation(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
) -> Result<*mut pg_sys::RangeTblEntry, Reason> {
    // SAFETY: planner structures.
    unsafe {
        let rte = *(*root).simple_rte_array.add((*input).relid as usize);
        let lateral = (!(*input).lateral_relids.is_null()).then_some(Reason::Lateral);
        let declined = declined_query(&*(*root).parse).or(declined_relation(&*rte));
        match declined.or(lateral) {
            Some(reason) => Err(reason),
            None => Ok(rte),
        }
    }
}

/// The conjuncts in the order in which PostgreSQL evaluates them (`order_qual_clauses`): lower
/// security levels first, except leakproof conjuncts, which may be evaluated at any time; within a
/// level, the cheaper first.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
pub(super) unsafe fn filter_of<'a>(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
) -> Result<Vec<Node<'a>>, Reason> {
    // SAFETY: planner structures.
    unsafe {
        let clauses = PgList::<pg_sys::RestrictInfo>::from_pg((*input).baserestrictinfo);
        let mut ordered = Vec::new();
        for clause in clauses.iter_ptr() {
            let condition = condition(&*clause)?;
            let mut cost = pg_sys::QualCost::default();
            pg_sys::cost_qual_eval_node(&mut cost, clause.cast(), root);
            let node = Node::of(condition.clause.cast());
            ordered.push((condition.level, cost.per_tuple, node));
        }
        ordered.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        // The engine evaluates what is cheap first, and EXPLAIN tells how many rows that left.
        if ordered.first().map(|first| first.0) != ordered.last().map(|last| last.0) {
            return Err(Reason::RowSecurity);
        }
        Ok(ordered.into_iter().map(|(_, _, node)| node).collect())
    }
}

/// An expression by which rows are sorted or grouped.
struct SortOrGroup<'a> {
    node: Node<'a>,
    /// By which groups are told apart.
    equality: pg_sys::Oid,
    /// By which rows are sorted.
    before: pg_sys::Oid,
    nulls_first: bool,
}

/// The expressions of sort or group clauses.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
unsafe fn sort_group_expressions<'a>(
    root: *mut pg_sys::PlannerInfo,
    clauses: *mut pg_sys::List,
) -> Vec<SortOrGroup<'a>> {
    // SAFETY: planner structures; every clause refers to an entry of the target list.
    unsafe {
        PgList::<pg_sys::SortGroupClause>::from_pg(clauses)
            .iter_ptr()
            .map(|clause| {
                let pg_sys::SortGroupClause {
                    eqop: equality,
                    sortop: before,
                    nulls_first,
                    // The operator tells it.
                    reverse_sort: _,
                    // PostgreSQL's own choice.
                    hashable: _,
                    // By which the expression is found.
                    tleSortGroupRef: _,
                    type_: _,
                } = *clause;
                let node = pg_sys::get_sortgroupclause_expr(clause, (*root).processed_tlist);
                SortOrGroup {
                    node: Node::of(node),
                    equality,
                    before,
                    nulls_first,
                }
            })
            .collect()
    }
}

/// The operator by which values of an expression are grouped, unless another one is asked for.
fn default_equality(key: Node<'_>) -> pg_sys::Oid {
    let flags = pg_sys::TYPECACHE_EQ_OPR as i32;
    // SAFETY: a catalog lookup; entries of the type cache are never freed.
    unsafe { (*pg_sys::lookup_type_cache(key.type_oid(), flags)).eq_opr }
}

/// The function by which values of a key are compared, if it has privileges of its own. PostgreSQL
/// asks when a plan is run: no plan is made anew when they change.
pub(super) fn restricted_equality(key: Node<'_>) -> Option<pg_sys::Oid> {
    // SAFETY: a catalog lookup.
    let function = unsafe { pg_sys::get_opcode(default_equality(key)) };
    is_restricted(function).then_some(function)
}

/// The different expressions by which rows are grouped, all by the default equality of their type:
/// the order of the result may ask for another one.
fn group_keys<'a>(clauses: &[SortOrGroup<'a>], keys: &mut Vec<Node<'a>>) -> Result<(), Reason> {
    for key in clauses {
        if default_equality(key.node) != key.equality {
            return Err(Reason::GroupOperator);
        }
        if let Some(function) = restricted_equality(key.node) {
            return Err(Reason::RestrictedFunction(function));
        }
        if !keys.iter().any(|known| known.equals(key.node)) {
            keys.push(key.node);
        }
    }
    Ok(())
}

/// Groups and aggregates. All expressions over groups must consist of these.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
pub(super) unsafe fn groups<'a>(
    root: *mut pg_sys::PlannerInfo,
    target: &[Node<'a>],
    having: *mut pg_sys::List,
    shape: &mut Shape<'a>,
) -> Result<(), Reason> {
    // SAFETY: planner structures; the qual is a list of conjuncts.
    unsafe {
        let keys = sort_group_expressions(root, (*(*root).parse).groupClause);
        group_keys(&keys, &mut shape.keys)?;
        for node in target.iter().copied().chain(nodes(having)) {
            if shape.keys.iter().any(|key| key.equals(node)) {
                continue;
            }
            for part in node.variables_and_aggregates() {
                if part.is_aggregate() {
                    if !shape.aggregates.iter().any(|known| known.equals(part)) {
                        shape.aggregates.push(part);
                    }
                } else if part.is_grouping() {
                    return Err(Reason::Grouping);
                } else if !shape.keys.iter().any(|key| key.equals(part)) {
                    return Err(Reason::NotGrouped);
                }
            }
        }
    }
    Ok(())
}

/// Which groups are needed, if only a sort of them and a constant limit follow: the first ones by
/// an order of keys and aggregates. The sort and the limit remain above the node, which need not
/// return other groups.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
pub(super) unsafe fn first_groups<'a>(
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
        // An expression over groups may raise an ERROR for a group that is not returned.
        if !target.iter().all(is_returned) {
            return None;
        }
        let limit = rows_needed(query)?;
        let mut order = Vec::new();
        for by in sort_group_expressions(root, query.sortClause) {
            is_returned(&by.node).then_some(())?;
            order.push(Order {
                node: by.node,
                descending: is_descending(&by)?,
                nulls_first: by.nulls_first,
            });
        }
        shape.limit = limit;
        shape.order = order;
    }
    Some(())
}

/// Distinct rows are groups without aggregates.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
pub(super) unsafe fn distinct<'a>(
    root: *mut pg_sys::PlannerInfo,
    target: &[Node<'a>],
    shape: &mut Shape<'a>,
) -> Result<(), Reason> {
    // SAFETY: planner structures.
    unsafe {
        let query = &*(*root).parse;
        if query.hasWindowFuncs {
            return Err(Reason::WindowFunctions);
        }
        if query.hasDistinctOn {
            return Err(Reason::DistinctOn);
        }
        let keys = sort_group_expressions(root, query.distinctClause);
        let all = target
            .iter()
            .all(|node| keys.iter().any(|key| key.node.equals(*node)));
        if !all || keys.is_empty() {
            return Err(Reason::ConstantKey);
        }
        group_keys(&keys, &mut shape.keys)?;
    }
    Ok(())
}

/// The first rows by an order.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
pub(super) unsafe fn first<'a>(
    root: *mut pg_sys::PlannerInfo,
    target: &[Node<'a>],
    shape: &mut Shape<'a>,
) -> Result<(), Reason> {
    // SAFETY: planner structures.
    unsafe {
        let query = &*(*root).parse;
        if query.hasWindowFuncs {
            return Err(Reason::WindowFunctions);
        }
        // Rows are sorted for another purpose than returning them.
        let has_groups =
            query.hasAggs || !query.distinctClause.is_null() || !query.groupClause.is_null();
        if query.limitCount.is_null() || query.sortClause.is_null() || has_groups {
            return Err(Reason::SortWithoutLimit);
        }
        if query.limitOption != pg_sys::LimitOption::LIMIT_OPTION_COUNT {
            return Err(Reason::Limit);
        }
        shape.limit = rows_needed(query).ok_or(Reason::Limit)?;
        shape.stage = Stage::First;
        for by in sort_group_expressions(root, query.sortClause) {
            shape.order.push(Order {
                node: by.node,
                descending: is_descending(&by).ok_or(Reason::SortOperator)?,
                nulls_first: by.nulls_first,
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
    Ok(())
}

/// How many rows LIMIT and OFFSET together ask for, if both are constant.
///
/// # Safety
/// The query is the planner's.
unsafe fn rows_needed(query: &pg_sys::Query) -> Option<u64> {
    // SAFETY: expressions of the query, or NULL.
    unsafe {
        let limit = constant(query.limitCount)?;
        let offset = match query.limitOffset.is_null() {
            true => 0,
            false => constant(query.limitOffset)?,
        };
        limit.checked_add(offset)
    }
}

/// The value of a constant bigint that is not negative.
///
/// # Safety
/// `node` is an expression of the planner's, or NULL.
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

/// Whether an order is descending, if it is one of the type's default operator class.
fn is_descending(by: &SortOrGroup<'_>) -> Option<bool> {
    let (mut family, mut input) = (pg_sys::InvalidOid, pg_sys::InvalidOid);
    let mut order = pg_sys::CompareType::COMPARE_INVALID;
    // SAFETY: catalog lookups; entries of the type cache are never freed.
    unsafe {
        let known =
            pg_sys::get_ordering_op_properties(by.before, &mut family, &mut input, &mut order);
        let flags = pg_sys::TYPECACHE_BTREE_OPFAMILY as i32;
        let default = (*pg_sys::lookup_type_cache(by.node.type_oid(), flags)).btree_opf;
        if !known || default == pg_sys::InvalidOid || default != family {
            return None;
        }
    }
    match order {
        pg_sys::CompareType::COMPARE_LT => Some(false),
        pg_sys::CompareType::COMPARE_GT => Some(true),
        _ => None,
    }
}
