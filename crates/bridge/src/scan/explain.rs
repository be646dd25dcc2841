//! Output of the node for EXPLAIN.

use pgrx::{PgList, pg_guard, pg_sys};

use super::node::scan_of;
use crate::custom_node::Deparser;
use crate::explanation::Explanation;

#[pg_guard]
pub(super) unsafe extern "C-unwind" fn explain_custom_scan(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    es: *mut pg_sys::ExplainState,
) {
    // SAFETY: the node was begun and not ended.
    unsafe {
        let scan = scan_of(node);
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let table = (*(*node).ss.ss_currentRelation).rd_id;
        columns(&scan.attributes.recheck, table, es);
        let pushed = (*plan).custom_exprs;
        if !pushed.is_null() {
            let clauses: *mut pg_sys::Node = pg_sys::make_ands_explicit(pushed).cast();
            let text = Deparser::of(plan, ancestors, es).text(clauses);
            pg_sys::ExplainPropertyText(c"Pushed Filter".as_ptr(), text, es);
        }
        if (*es).analyze {
            scan.report_removed();
            scan.cold
                .explain(!pushed.is_null(), &mut Explanation::of(es));
        }
    }
}

/// # Safety
/// The table exists and has these attributes; `es` is that of the EXPLAIN callback.
unsafe fn columns(attributes: &[usize], table: pg_sys::Oid, es: *mut pg_sys::ExplainState) {
    // SAFETY: attribute names are NUL-terminated copies.
    unsafe {
        let mut names = PgList::<std::ffi::c_char>::new();
        for &i in attributes {
            names.push(pg_sys::get_attname(table, i as i16 + 1, false));
        }
        if names.is_empty() && (*es).format == pg_sys::ExplainFormat::EXPLAIN_FORMAT_TEXT {
            names.push(c"none".as_ptr().cast_mut());
        }
        pg_sys::ExplainPropertyList(c"Columns Read".as_ptr(), names.into_pg(), es);
    }
}
