//! Output of the node for EXPLAIN.
//!
//! ```text
//!   Custom Scan (Vectorized)          HAVING, what PostgreSQL evaluates, threads
//!     ->  Aggregate or Top-N          keys, order, limit
//!           ->  Filter                only where there is one
//!                 ->  Scan on …       tables, row groups, zones, hot rows
//! ```
//!
//! The engine's operators look like nodes of PostgreSQL. In other formats each is an object in the
//! list `Operators` of the one above.

mod operators;
mod relation;

use std::ffi::CStr;

use pgrx::{PgList, pg_guard, pg_sys};

use super::expr::Node;
use super::node::inner;
use super::reason::table_name;
use super::{Order, Stage, plan};
use crate::custom_node::Deparser;
use crate::explanation::{Explanation, c_string};

use relation::{Relation, qualified, schema_if_verbose};

pub use operators::{OperatorWork, Work};

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn explain_custom_scan(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    es: *mut pg_sys::ExplainState,
) {
    // SAFETY: the node was begun and not ended.
    unsafe {
        let state = inner(node);
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let mut to = Explanation::of(es);
        let shape = plan::shape((*plan).custom_private);
        let shown = Shown {
            deparser: Deparser::of(plan, ancestors, es),
            offset: state.rti - shape.rti,
            state: es,
        };
        shown.list(
            c"Evaluated by PostgreSQL",
            &plan::foreign((*plan).custom_private),
            |_| "",
        );
        if let Some(left) = state.left().filter(|_| (*es).analyze) {
            to.text("Computed By", "PostgreSQL");
            to.text("Reason", &left.describe());
            return;
        }
        let work = match (*es).analyze {
            true => state.rows().map(|rows| rows.work()),
            false => None,
        };
        let work = work.as_ref();
        if let Some(evaluated) = work.and_then(|work| work.evaluated) {
            to.evaluated(evaluated);
        }
        if let Some(work) = work {
            to.integer("Threads", None, work.threads as i64);
        }
        let name = match shape.stage {
            Stage::Group => "Aggregate",
            Stage::First => "Top-N",
        };
        to.open(name, None, work.map(|work| work.output));
        shown.list(c"Group Key", &shape.keys, |_| "");
        let order: Vec<Node<'_>> = shape.order.iter().map(|order| order.node).collect();
        shown.list(c"Sort Key", &order, |at| direction(&shape.order[at]));
        if shape.limit > 0 {
            to.integer("Limit", None, shape.limit as i64);
        }
        let has_filter = !shape.filter.is_empty();
        if has_filter {
            to.open("Filter", None, work.map(|work| work.filter));
            shown.conjunction(c"Filter", &shape.filter);
            if let Some(work) = work {
                let removed = work.scan.rows.saturating_sub(work.filter.rows);
                to.integer("Rows Removed by Filter", None, removed as i64);
            }
        }
        let relation = Relation::of(es, state.relation_oid(), state.rti);
        to.open("Scan", Some(&relation), work.map(|work| work.scan));
        if state.is_parent() {
            let mut names = PgList::<std::ffi::c_char>::new();
            for oid in state.table_oids() {
                let schema = schema_if_verbose(es, oid);
                let name = c_string(&qualified(schema.as_deref(), &table_name(oid)));
                names.push(pg_sys::pstrdup(name.as_ptr()));
            }
            pg_sys::ExplainPropertyList(c"Tables".as_ptr(), names.into_pg(), es);
            if state.pruned_count > 0 {
                to.integer("Tables Removed", None, state.pruned_count as i64);
            }
        }
        if (*es).analyze && plan::is_pruned((*plan).custom_private) {
            to.integer("Tables Pruned", None, state.left_out_count() as i64);
        }
        if let Some(work) = work {
            to.scanned(work);
        }
        (0..2 + usize::from(has_filter)).for_each(|_| to.close());
    }
}

fn direction(order: &Order<'_>) -> &'static str {
    match (order.descending, order.nulls_first) {
        (false, false) => "",
        (false, true) => " NULLS FIRST",
        (true, true) => " DESC",
        (true, false) => " DESC NULLS LAST",
    }
}

/// Shows expressions of the shape, whose variables are numbered as when the query was planned.
struct Shown {
    deparser: Deparser,
    /// By how much range table indexes were shifted since.
    offset: i32,
    state: *mut pg_sys::ExplainState,
}

impl Shown {
    /// # Safety
    /// An expression of the shape; EXPLAIN's state and the node are there.
    unsafe fn moved(&self, expr: *mut pg_sys::Node) -> *mut std::ffi::c_char {
        // SAFETY: as for this function; what is moved is a copy.
        unsafe {
            let copy = pg_sys::copyObjectImpl(expr.cast()).cast::<pg_sys::Node>();
            pg_sys::OffsetVarNodes(copy, self.offset, 0);
            self.deparser.text(copy)
        }
    }

    /// Adds expressions as a list, each with what follows it; nothing if there are none.
    ///
    /// # Safety
    /// As for [`Self::moved`].
    unsafe fn list(
        &self,
        label: &CStr,
        exprs: &[Node<'_>],
        suffix: impl Fn(usize) -> &'static str,
    ) {
        let mut texts = PgList::<std::ffi::c_char>::new();
        for (at, expr) in exprs.iter().enumerate() {
            let more = c_string(suffix(at));
            // SAFETY: as for this function.
            unsafe {
                let text = self.moved(expr.raw());
                texts.push(pg_sys::psprintf(c"%s%s".as_ptr(), text, more.as_ptr()));
            }
        }
        if !texts.is_empty() {
            // SAFETY: as for this function.
            unsafe { pg_sys::ExplainPropertyList(label.as_ptr(), texts.into_pg(), self.state) }
        }
    }

    /// Adds conditions that all must hold, as one text.
    ///
    /// # Safety
    /// As for [`Self::moved`].
    unsafe fn conjunction(&self, label: &CStr, conditions: &[Node<'_>]) {
        let mut clauses = PgList::<pg_sys::Node>::new();
        for node in conditions {
            clauses.push(node.raw());
        }
        // SAFETY: as for this function.
        unsafe {
            let clauses = pg_sys::make_ands_explicit(clauses.into_pg()).cast();
            pg_sys::ExplainPropertyText(label.as_ptr(), self.moved(clauses), self.state);
        }
    }
}
