//! The engine's operators in EXPLAIN's output.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::relation::Relation;
use crate::explanation::{Explanation, c_string};

/// What all runs of a node did.
pub struct Work {
    pub row_groups: u64,
    pub row_groups_skipped: u64,
    /// Row groups for which statistics were sufficient.
    pub row_groups_answered: u64,
    pub zones: u64,
    pub zones_skipped: u64,
    pub hot_rows: u64,
    /// The most that one run had.
    pub threads: usize,
    pub scan: OperatorWork,
    pub filter: OperatorWork,
    /// Of the operator that makes the result: groups or first rows.
    pub output: OperatorWork,
    /// What PostgreSQL evaluated for the engine, if anything.
    pub evaluated: Option<OperatorWork>,
}

/// What one operator did.
#[derive(Clone, Copy)]
pub struct OperatorWork {
    /// Rows that it returned.
    pub rows: u64,
    /// Milliseconds of all threads together; `None` if times are not collected.
    pub time_ms: Option<f64>,
    pub memory_bytes: Option<usize>,
}

impl Explanation {
    /// Begins an operator; what is added until it is closed belongs to it.
    pub(super) fn open(&mut self, name: &str, on: Option<&Relation>, work: Option<OperatorWork>) {
        if self.is_text() {
            let on = on.map_or(String::new(), |relation| {
                format!(" on {}", relation.shown())
            });
            let work = work.map_or(String::new(), |work| format!(" (actual {})", work.line()));
            let line = c_string(&format!("->  {name}{on}{work}\n"));
            // SAFETY: EXPLAIN's state outlives the call that it is handed to.
            unsafe {
                pg_sys::ExplainIndentText(self.state);
                pg_sys::appendStringInfoString((*self.state).str_, line.as_ptr());
                (*self.state).indent += OPERATOR_INDENT;
            }
            return;
        }
        // SAFETY: EXPLAIN's state outlives the call; groups are closed in the order in which they
        // were opened.
        unsafe {
            pg_sys::ExplainOpenGroup(OPERATORS.as_ptr(), OPERATORS.as_ptr(), false, self.state);
            pg_sys::ExplainOpenGroup(OPERATOR.as_ptr(), std::ptr::null(), true, self.state);
        }
        self.text("Name", name);
        if let Some(relation) = on {
            self.text("Relation Name", &relation.name);
            if let Some(schema) = &relation.schema {
                self.text("Schema", schema);
            }
            self.text("Alias", &relation.alias);
        }
        let Some(work) = work else {
            return;
        };
        self.integer("Actual Rows", None, work.rows as i64);
        if let Some(ms) = work.time_ms {
            self.milliseconds("Time", ms);
        }
        if let Some(bytes) = work.memory_bytes {
            self.integer("Memory", Some("kB"), bytes.div_ceil(1024) as i64);
        }
    }

    /// Ends the operator that was begun last.
    pub(super) fn close(&mut self) {
        // SAFETY: EXPLAIN's state outlives the call that it is handed to; the groups are those that
        // were opened last.
        unsafe {
            if self.is_text() {
                (*self.state).indent -= OPERATOR_INDENT;
                return;
            }
            pg_sys::ExplainCloseGroup(OPERATOR.as_ptr(), std::ptr::null(), true, self.state);
            pg_sys::ExplainCloseGroup(OPERATORS.as_ptr(), OPERATORS.as_ptr(), false, self.state);
        }
    }

    /// Adds what a scan read and skipped.
    pub(super) fn scanned(&mut self, work: &Work) {
        let integers = [
            ("Row Groups", work.row_groups),
            ("Row Groups Skipped", work.row_groups_skipped),
            (
                "Row Groups Answered by Statistics",
                work.row_groups_answered,
            ),
            ("Zones", work.zones),
            ("Zones Skipped", work.zones_skipped),
        ];
        if self.is_text() {
            let (total, skipped) = (work.row_groups, work.row_groups_skipped);
            let mut groups = format!("total={total} skipped={skipped}");
            if work.row_groups_answered > 0 {
                groups += &format!(" answered by statistics={}", work.row_groups_answered);
            }
            self.text("Row Groups", &groups);
            let zones = format!("total={} skipped={}", work.zones, work.zones_skipped);
            self.text("Zones", &zones);
        } else {
            for (label, count) in integers {
                self.integer(label, None, count as i64);
            }
        }
        self.integer("Hot Rows", None, work.hot_rows as i64);
    }
}

impl OperatorWork {
    fn line(&self) -> String {
        let mut line = format!("rows={}", self.rows);
        if let Some(ms) = self.time_ms {
            line += &format!(" time={ms:.3} ms");
        }
        if let Some(bytes) = self.memory_bytes {
            line += &format!(" memory={}kB", bytes.div_ceil(1024));
        }
        line
    }
}

impl Explanation {
    /// Adds what PostgreSQL evaluated for the engine.
    pub(super) fn evaluated(&mut self, work: OperatorWork) {
        if self.is_text() {
            self.text("Evaluation", &work.line());
            return;
        }
        self.integer("Rows Evaluated", None, work.rows as i64);
        if let Some(ms) = work.time_ms {
            self.milliseconds("Evaluation Time", ms);
        }
    }
}

/// By how much what belongs to an operator is indented, in steps of two blanks: as PostgreSQL does.
const OPERATOR_INDENT: i32 = 3;
const OPERATORS: &CStr = c"Operators";
const OPERATOR: &CStr = c"Operator";
