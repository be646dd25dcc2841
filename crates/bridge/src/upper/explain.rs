//! Output of the node for EXPLAIN.

use std::ffi::{CStr, CString};

use pgrx::{PgList, pg_guard, pg_sys};

use super::node::inner;
use super::plan;
use super::reason::{string, table_name};
use crate::custom_node::Deparser;

/// The properties of a node, in the order in which they are added.
pub struct Explanation {
    state: *mut pg_sys::ExplainState,
}

impl Explanation {
    /// # Safety
    /// EXPLAIN's state outlives the result.
    pub unsafe fn of(state: *mut pg_sys::ExplainState) -> Explanation {
        Explanation { state }
    }

    /// Whether the output is text, in which related numbers share a line.
    pub fn is_text(&self) -> bool {
        // SAFETY: EXPLAIN's state outlives the call that it is handed to.
        unsafe { (*self.state).format == pg_sys::ExplainFormat::EXPLAIN_FORMAT_TEXT }
    }

    /// Adds a property.
    pub fn text(&mut self, label: &str, value: &str) {
        let (label, value) = (c_string(label), c_string(value));
        // SAFETY: EXPLAIN's state outlives the call that it is handed to; EXPLAIN copies both
        // texts.
        unsafe { pg_sys::ExplainPropertyText(label.as_ptr(), value.as_ptr(), self.state) }
    }

    /// Adds a number; `unit` is shown in text only.
    pub fn integer(&mut self, label: &str, unit: Option<&str>, value: i64) {
        let (label, unit) = (c_string(label), unit.map(c_string));
        let unit = unit.as_ref().map_or(std::ptr::null(), |unit| unit.as_ptr());
        // SAFETY: EXPLAIN's state outlives the call that it is handed to; the texts outlive this
        // call.
        unsafe { pg_sys::ExplainPropertyInteger(label.as_ptr(), unit, value, self.state) }
    }
}

impl Explanation {
    /// Adds the name of the relation `rti` of the statement, as PostgreSQL names that of a scan.
    fn relation(&mut self, oid: pg_sys::Oid, rti: i32) {
        let name = table_name(oid);
        // SAFETY: EXPLAIN's state outlives the call that it is handed to; the relation is in the
        // statement's range table. Catalog look-ups return copies, or NULL.
        let (schema, alias) = unsafe {
            let schema = match (*self.state).verbose {
                true => string(pg_sys::get_namespace_name_or_temp(
                    pg_sys::get_rel_namespace(oid),
                )),
                false => None,
            };
            let relations = PgList::<pg_sys::RangeTblEntry>::from_pg((*self.state).rtable);
            let entry = relations.get_ptr(rti as usize - 1);
            let alias = entry.and_then(|entry| string((*(*entry).eref).aliasname));
            (schema, alias.unwrap_or_else(|| name.clone()))
        };
        if self.is_text() {
            let mut shown = schema.map_or(String::new(), |schema| quoted(&schema) + ".");
            shown += &quoted(&name);
            if alias != name {
                shown += &format!(" {}", quoted(&alias));
            }
            self.text("Table", &shown);
            return;
        }
        self.text("Relation Name", &name);
        if let Some(schema) = schema {
            self.text("Schema", &schema);
        }
        self.text("Alias", &alias);
    }
}

/// The work of one operator of a run.
pub struct Operator {
    pub name: &'static str,
    /// Rows of its input; `None` for an operator that reads them.
    pub rows_in: Option<u64>,
    pub rows_out: u64,
    /// Milliseconds of all threads together; `None` if times are not collected.
    pub time_ms: Option<f64>,
    pub memory_bytes: Option<usize>,
}

impl Explanation {
    /// Adds operators, beginning with the one that reads rows.
    pub fn operators(&mut self, operators: &[Operator]) {
        if self.is_text() {
            for operator in operators {
                self.text(operator.name, &operator.line());
            }
            return;
        }
        // SAFETY: as for the properties; groups are closed in the order in which they were opened.
        unsafe {
            let (list, one) = (c"Operators".as_ptr(), c"Operator".as_ptr());
            pg_sys::ExplainOpenGroup(list, list, false, self.state);
            for operator in operators {
                pg_sys::ExplainOpenGroup(one, std::ptr::null(), true, self.state);
                self.text("Name", operator.name);
                if let Some(rows) = operator.rows_in {
                    self.integer("Rows In", None, rows as i64);
                }
                self.integer("Rows Out", None, operator.rows_out as i64);
                if let Some(ms) = operator.time_ms {
                    let (label, unit) = (c"Time".as_ptr(), c"ms".as_ptr());
                    pg_sys::ExplainPropertyFloat(label, unit, ms, 3, self.state);
                }
                if let Some(bytes) = operator.memory_bytes {
                    self.integer("Memory", Some("kB"), bytes.div_ceil(1024) as i64);
                }
                pg_sys::ExplainCloseGroup(one, std::ptr::null(), true, self.state);
            }
            pg_sys::ExplainCloseGroup(list, list, false, self.state);
        }
    }
}

impl Operator {
    fn line(&self) -> String {
        let mut line = match self.rows_in {
            Some(rows) => format!("rows in={rows} out={}", self.rows_out),
            None => format!("rows={}", self.rows_out),
        };
        if let Some(ms) = self.time_ms {
            line += &format!(" time={ms:.3} ms");
        }
        if let Some(bytes) = self.memory_bytes {
            line += &format!(" memory={}kB", bytes.div_ceil(1024));
        }
        line
    }
}

fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

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
        let mut to = Explanation { state: es };
        to.relation(state.relation_oid(), state.rti);
        if state.is_parent() {
            let mut names = PgList::<std::ffi::c_char>::new();
            for oid in state.table_oids() {
                let name = c_string(&quoted(&table_name(oid)));
                names.push(pg_sys::pstrdup(name.as_ptr()));
            }
            pg_sys::ExplainPropertyList(c"Tables".as_ptr(), names.into_pg(), es);
            if state.pruned_count > 0 {
                to.integer("Tables Removed", None, state.pruned_count as i64);
            }
        }
        let shape = plan::shape((*plan).custom_private);
        let offset = state.rti - shape.rti;
        let deparser = Deparser::of(plan, ancestors, es);
        // Variables are numbered as when the query was planned.
        let moved = |expr: *mut pg_sys::Node| {
            let copy = pg_sys::copyObjectImpl(expr.cast()).cast::<pg_sys::Node>();
            pg_sys::OffsetVarNodes(copy, offset, 0);
            deparser.text(copy)
        };
        let show = |label: &CStr, list: Vec<*mut pg_sys::Node>, suffix: &[&str]| {
            let mut texts = PgList::<std::ffi::c_char>::new();
            for (i, expr) in list.into_iter().enumerate() {
                let text = moved(expr);
                let more = c_string(suffix.get(i).copied().unwrap_or_default());
                texts.push(pg_sys::psprintf(c"%s%s".as_ptr(), text, more.as_ptr()));
            }
            if !texts.is_empty() {
                pg_sys::ExplainPropertyList(label.as_ptr(), texts.into_pg(), es);
            }
        };
        show(
            c"Group Key",
            shape.keys.iter().map(|n| n.raw()).collect(),
            &[],
        );
        let suffix: Vec<&str> = (shape.order.iter())
            .map(|order| match (order.descending, order.nulls_first) {
                (false, false) => "",
                (false, true) => " NULLS FIRST",
                (true, true) => " DESC",
                (true, false) => " DESC NULLS LAST",
            })
            .collect();
        show(
            c"Sort Key",
            shape.order.iter().map(|o| o.node.raw()).collect(),
            &suffix,
        );
        if shape.limit > 0 {
            to.integer("First Rows", None, shape.limit as i64);
        }
        if !shape.filter.is_empty() {
            let mut clauses = PgList::<pg_sys::Node>::new();
            for node in &shape.filter {
                clauses.push(node.raw());
            }
            let clauses = pg_sys::make_ands_explicit(clauses.into_pg()).cast();
            let text = moved(clauses);
            pg_sys::ExplainPropertyText(c"Vectorized Filter".as_ptr(), text, es);
        }
        show(
            c"Evaluated by PostgreSQL",
            (plan::foreign((*plan).custom_private).iter())
                .map(|n| n.raw())
                .collect(),
            &[],
        );
        if (*es).analyze {
            if plan::is_pruned((*plan).custom_private) {
                to.integer("Tables Pruned", None, state.left_out_count() as i64);
            }
            if let Some(left) = state.left() {
                to.text("Computed By", "PostgreSQL");
                to.text("Reason", &left.describe());
            } else if let Some(rows) = state.rows() {
                rows.explain(&mut to);
            }
        }
    }
}

fn quoted(name: &str) -> String {
    let name = c_string(name);
    // SAFETY: the result is the argument or a copy.
    unsafe { CStr::from_ptr(pg_sys::quote_identifier(name.as_ptr())) }
        .to_string_lossy()
        .into_owned()
}
