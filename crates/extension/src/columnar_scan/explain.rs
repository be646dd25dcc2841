//! What EXPLAIN says of a ColumnarScan.

use howdah_bridge::upper::Explanation;
use pgrx::{PgList, pg_guard, pg_sys};

use super::state::{Scan, scan_of};

/// What a scan read and skipped.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Row groups looked at.
    pub groups: u64,
    /// Of these, groups of which statistics excluded every row, or of which none is left.
    pub groups_skipped: u64,
    /// Zones of the other groups.
    pub zones: u64,
    /// Of these, zones of which the zone map excluded every row.
    pub zones_skipped: u64,
    /// Rows that were read and did not pass the pushed clauses.
    pub rows_removed: u64,
}

impl Counts {
    pub const LEN: usize = 5;

    pub fn as_array(self) -> [u64; Self::LEN] {
        [
            self.groups,
            self.groups_skipped,
            self.zones,
            self.zones_skipped,
            self.rows_removed,
        ]
    }

    pub fn from_array(counts: [u64; Self::LEN]) -> Counts {
        let [groups, groups_skipped, zones, zones_skipped, rows_removed] = counts;
        Counts {
            groups,
            groups_skipped,
            zones,
            zones_skipped,
            rows_removed,
        }
    }
}

impl Scan {
    /// The counts of this participant.
    pub fn counts(&self) -> Counts {
        let reader = self.reader.as_ref().map(|r| r.counts).unwrap_or_default();
        let mut counts = self.finished.as_array();
        for (sum, more) in counts.iter_mut().zip(reader.as_array()) {
            *sum += more;
        }
        let mut counts = Counts::from_array(counts);
        counts.rows_removed += self.rows_removed;
        counts
    }
}

#[pg_guard]
pub unsafe extern "C-unwind" fn explain_custom_scan(
    node: *mut pg_sys::CustomScanState,
    ancestors: *mut pg_sys::List,
    es: *mut pg_sys::ExplainState,
) {
    // SAFETY: the node was begun and not ended.
    unsafe {
        let scan = scan_of(node);
        let plan = (*node).ss.ps.plan.cast::<pg_sys::CustomScan>();
        let table = (*(*node).ss.ss_currentRelation).rd_id;
        columns(scan, table, es);
        let pushed = (*plan).custom_exprs;
        if !pushed.is_null() {
            let clauses: *mut pg_sys::Node = pg_sys::make_ands_explicit(pushed).cast();
            let context =
                pg_sys::set_deparse_context_plan((*es).deparse_cxt, plan.cast(), ancestors);
            let text = pg_sys::deparse_expression(clauses, context, (*es).verbose, false);
            pg_sys::ExplainPropertyText(c"Pushed Filter".as_ptr(), text, es);
        }
        if (*es).analyze {
            let counts = scan.totals.unwrap_or_else(|| scan.counts());
            analyzed(&counts, !pushed.is_null(), &mut Explanation::of(es));
        }
    }
}

unsafe fn columns(scan: &Scan, table: pg_sys::Oid, es: *mut pg_sys::ExplainState) {
    // SAFETY: attribute names are NUL-terminated copies.
    unsafe {
        let mut names = PgList::<std::ffi::c_char>::new();
        for &i in &scan.wanted.recheck {
            names.push(pg_sys::get_attname(table, i as i16 + 1, false));
        }
        if names.is_empty() && (*es).format == pg_sys::ExplainFormat::EXPLAIN_FORMAT_TEXT {
            names.push(c"none".as_ptr().cast_mut());
        }
        pg_sys::ExplainPropertyList(c"Columns Read".as_ptr(), names.into_pg(), es);
    }
}

fn analyzed(counts: &Counts, filtered: bool, to: &mut Explanation) {
    let integers = [
        ("Row Groups", counts.groups),
        ("Row Groups Skipped", counts.groups_skipped),
        ("Zones", counts.zones),
        ("Zones Skipped", counts.zones_skipped),
    ];
    let is_text = to.is_text();
    if is_text {
        for [(label, total), (_, skipped)] in
            [[integers[0], integers[1]], [integers[2], integers[3]]]
        {
            to.text(label, &format!("total={total} skipped={skipped}"));
        }
    } else {
        for (label, count) in integers {
            to.integer(label, None, count as i64);
        }
    }
    if filtered || !is_text {
        let removed = counts.rows_removed as i64;
        to.integer("Rows Removed by Pushed Filter", None, removed);
    }
}
