//! From path to plan, and back to a shape.
//!
//! ```text
//!   custom_private     (stage, rti, limit low, high, pruned in the run) · filter · keys ·
//!                      aggregates · columns · order · order's flags ·
//!                      tables: range table index and attribute map of each
//!                      · foreign expressions, which are parts of filter, keys, aggregates, order
//!                      · the engine's decisions (0, 1)
//!   custom_exprs       operands
//!   custom_scan_tlist  keys, then aggregates; or columns; then one variable of the relation, never
//!                      read: after setrefs it tells by how much range table indexes were shifted,
//!                      those of the tables, too
//!   custom_plans       PostgreSQL's own plan
//! ```
//!
//! Path and plan share the private list. The node is never asked to project, so the rows of its
//! child are its own.

use std::ffi::CStr;

use pgrx::{PgList, pg_guard, pg_sys};

use super::expr::{Node, nodes};
use super::node;
use super::planner::Offer;
use super::tables::{self, QueriedTable, Table};
use super::{Order, Shape, Stage};
use crate::custom_node::{Methods, new_path, new_scan, path_methods, scan_methods};

/// The node's name in EXPLAIN and in serialized plans.
pub(super) const NAME: &CStr = c"Vectorized";

const DESCENDING: i32 = 1;
const NULLS_FIRST: i32 = 2;

static PATH_METHODS: Methods<pg_sys::CustomPathMethods> = path_methods(NAME, plan_custom_path);

pub(super) static SCAN_METHODS: Methods<pg_sys::CustomScanMethods> =
    scan_methods(NAME, node::create_custom_scan_state);

fn list_of(nodes: &[Node<'_>]) -> *mut pg_sys::List {
    let mut list = PgList::<pg_sys::Node>::new();
    nodes.iter().for_each(|node| list.push(node.raw()));
    list.into_pg()
}

pub(super) fn integers(values: &[i32]) -> *mut pg_sys::List {
    let mut list = std::ptr::null_mut();
    for &value in values {
        // SAFETY: makes or extends a list in the current memory context.
        list = unsafe { pg_sys::lappend_int(list, value) };
    }
    list
}

/// The path for a shape; the caller sets target, rows, costs and order.
///
/// # Safety
/// Planner structures.
pub(super) unsafe fn path(
    output: *mut pg_sys::RelOptInfo,
    child: *mut pg_sys::Path,
    shape: &Shape<'_>,
    (tables, is_pruned): (&[QueriedTable], bool),
    offer: &Offer<'_>,
    having: *mut pg_sys::List,
) -> *mut pg_sys::CustomPath {
    let flags: Vec<i32> = (shape.order.iter())
        .map(|order| {
            i32::from(order.descending) * DESCENDING + i32::from(order.nulls_first) * NULLS_FIRST
        })
        .collect();
    let order: Vec<Node<'_>> = shape.order.iter().map(|order| order.node).collect();
    let numbers = integers(&[
        (shape.stage == Stage::First) as i32,
        shape.rti,
        shape.limit as u32 as i32,
        (shape.limit >> 32) as i32,
        i32::from(is_pruned),
    ]);
    let lists = [
        numbers,
        list_of(&shape.filter),
        list_of(&shape.keys),
        list_of(&shape.aggregates),
        list_of(&shape.columns),
        list_of(&order),
        integers(&flags),
        tables::list_of(tables),
        list_of(&offer.foreign),
        integers(
            &offer
                .decisions
                .iter()
                .map(|&it| i32::from(it))
                .collect::<Vec<_>>(),
        ),
        // These two are used by the plan only.
        list_of(&offer.operands),
        having,
    ];
    // SAFETY: zeroed memory and lists in the planner's context.
    unsafe {
        let mut private = PgList::<pg_sys::List>::new();
        lists.into_iter().for_each(|list| private.push(list));
        let mut children = PgList::<pg_sys::Path>::new();
        children.push(child);
        let custom = new_path(&PATH_METHODS, output);
        (*custom).path.parallel_safe = false;
        (*custom).custom_paths = children.into_pg();
        (*custom).custom_private = private.into_pg();
        custom
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn plan_custom_path(
    _root: *mut pg_sys::PlannerInfo,
    _rel: *mut pg_sys::RelOptInfo,
    best_path: *mut pg_sys::CustomPath,
    tlist: *mut pg_sys::List,
    _clauses: *mut pg_sys::List,
    custom_plans: *mut pg_sys::List,
) -> *mut pg_sys::Plan {
    // SAFETY: arguments come from the planner; the private list is the one that `path` made.
    unsafe {
        let mut private = PgList::<pg_sys::List>::from_pg((*best_path).custom_private);
        let having = private.pop().unwrap_or(std::ptr::null_mut());
        let operands = private.pop().unwrap_or(std::ptr::null_mut());
        let private = private.into_pg();
        let shape = shape(private);
        let scan = new_scan(&SCAN_METHODS, tlist, having);
        (*scan).custom_plans = custom_plans;
        (*scan).custom_exprs = operands;
        (*scan).custom_private = private;
        (*scan).custom_scan_tlist = scan_target(&shape);
        scan.cast()
    }
}

/// The target list of the rows that the engine returns.
///
/// # Safety
/// To be called by the planner: what is made lies in its memory.
unsafe fn scan_target(shape: &Shape<'_>) -> *mut pg_sys::List {
    // SAFETY: nodes and lists are made in the planner's memory.
    unsafe {
        let mut entries = PgList::<pg_sys::TargetEntry>::new();
        let returned = shape
            .keys
            .iter()
            .chain(&shape.aggregates)
            .chain(&shape.columns);
        for node in returned {
            let number = entries.len() as i16 + 1;
            let expr = pg_sys::copyObjectImpl(node.raw().cast()).cast();
            entries.push(pg_sys::makeTargetEntry(
                expr,
                number,
                std::ptr::null_mut(),
                false,
            ));
        }
        let place = pg_sys::makeVar(
            shape.rti,
            pg_sys::TableOidAttributeNumber as i16,
            pg_sys::OIDOID,
            -1,
            pg_sys::InvalidOid,
            0,
        );
        let number = entries.len() as i16 + 1;
        let name = std::ptr::null_mut();
        entries.push(pg_sys::makeTargetEntry(place.cast(), number, name, true));
        entries.into_pg()
    }
}

/// The shape that a private list describes.
///
/// # Safety
/// The list is one that [`path`] made, or a copy, and outlives the result.
pub(super) unsafe fn shape<'a>(private: *mut pg_sys::List) -> Shape<'a> {
    // SAFETY: as for this function.
    unsafe {
        let lists = PgList::<pg_sys::List>::from_pg(private);
        let list = |i: usize| lists.get_ptr(i).unwrap_or(std::ptr::null_mut());
        let number = |list: *mut pg_sys::List, i: usize| pg_sys::list_nth_int(list, i as i32);
        let numbers = list(0);
        let flags = list(6);
        let order = (nodes(list(5)).into_iter().enumerate())
            .map(|(i, node)| Order {
                node,
                descending: number(flags, i) & DESCENDING != 0,
                nulls_first: number(flags, i) & NULLS_FIRST != 0,
            })
            .collect();
        let (low, high) = (number(numbers, 2) as u32, number(numbers, 3) as u32);
        Shape {
            stage: match number(numbers, 0) {
                0 => Stage::Group,
                _ => Stage::First,
            },
            rti: number(numbers, 1),
            filter: nodes(list(1)),
            keys: nodes(list(2)),
            aggregates: nodes(list(3)),
            columns: nodes(list(4)),
            order,
            limit: u64::from(high) << 32 | u64::from(low),
        }
    }
}

/// Whether parameters of the run choose among the tables.
///
/// # Safety
/// As for [`shape`].
pub(super) unsafe fn is_pruned(private: *mut pg_sys::List) -> bool {
    // SAFETY: as for this function; the first list is that of numbers.
    unsafe {
        let numbers = PgList::<pg_sys::List>::from_pg(private).get_ptr(0);
        numbers.is_some_and(|numbers| pg_sys::list_nth_int(numbers, 4) != 0)
    }
}

/// The tables in a private list.
///
/// # Safety
/// As for [`shape`].
pub(super) unsafe fn tables(private: *mut pg_sys::List) -> Vec<Table> {
    // SAFETY: as for this function; the eighth list is that of the tables.
    unsafe {
        let list = PgList::<pg_sys::List>::from_pg(private).get_ptr(7);
        tables::of_list(list.unwrap_or(std::ptr::null_mut()))
    }
}

/// The foreign expressions in a private list.
///
/// # Safety
/// As for [`shape`].
pub(super) unsafe fn foreign<'a>(private: *mut pg_sys::List) -> Vec<Node<'a>> {
    // SAFETY: as for this function; the ninth list is that of foreign expressions.
    unsafe {
        let list = PgList::<pg_sys::List>::from_pg(private).get_ptr(8);
        nodes(list.unwrap_or(std::ptr::null_mut()))
    }
}

/// The engine's decisions in a private list.
///
/// # Safety
/// As for [`shape`].
pub(super) unsafe fn decisions(private: *mut pg_sys::List) -> Vec<bool> {
    // SAFETY: as for this function; the tenth list is that of decisions.
    unsafe {
        let list = PgList::<pg_sys::List>::from_pg(private).get_ptr(9);
        let list = PgList::<i32>::from_pg(list.unwrap_or(std::ptr::null_mut()));
        list.iter_int().map(|decision| decision != 0).collect()
    }
}

/// The index of the query's relation in the range table of the whole statement.
///
/// # Safety
/// A finished plan of this node.
pub(super) unsafe fn table_index(plan: *const pg_sys::CustomScan) -> pg_sys::Index {
    // SAFETY: the last entry of the scan's target list is the variable that `scan_target` made.
    unsafe {
        let entries = PgList::<pg_sys::TargetEntry>::from_pg((*plan).custom_scan_tlist);
        let last = entries
            .tail()
            .map_or(std::ptr::null_mut(), |entry| (*entry).expr);
        match last.is_null() {
            true => 0,
            false => (*last.cast::<pg_sys::Var>()).varno as pg_sys::Index,
        }
    }
}

/// Whether a path is one that [`path`] made.
///
/// # Safety
/// A path of the planner's.
pub(super) unsafe fn is_ours(path: *const pg_sys::Path) -> bool {
    // SAFETY: the cast follows the node's tag.
    unsafe {
        (*path).type_ == pg_sys::NodeTag::T_CustomPath
            && std::ptr::eq(
                (*path.cast::<pg_sys::CustomPath>()).methods,
                &raw const PATH_METHODS.0,
            )
    }
}
