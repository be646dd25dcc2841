//! What of a table the views may show to the running user: what core shows in the like case.
//!
//! ```text
//!   of all tables           names, sizes of files in blocks       pg_class, pg_relation_size()
//!   count them              exact counts                          SELECT count(*)
//!   select all columns      sizes of values, exact to the byte    SELECT length(…)
//!   select the column       everything about its chunks           pg_stats
//! ```
//!
//! Row security hides rows, so it hides counts and sizes of them, too. Members of
//! `pg_stat_scan_tables` see counts and sizes of any table, as they do by `pgstattuple`, but
//! nothing by column.

use pgrx::pg_sys;

use crate::types::TableLayout;

/// What the running user may see of a table.
pub struct Visible {
    /// How many rows there are.
    pub counts: bool,
    /// How many bytes their values take.
    pub value_sizes: bool,
}

impl Visible {
    pub fn of(table: pg_sys::Oid) -> Visible {
        // SAFETY: catalog lookups.
        unsafe {
            let user = pg_sys::GetUserId();
            let monitors = pg_sys::Oid::from(pg_sys::ROLE_PG_STAT_SCAN_TABLES);
            let monitors = pg_sys::has_privs_of_role(user, monitors);
            let any_column = pg_sys::pg_attribute_aclcheck_all(
                table,
                user,
                pg_sys::ACL_SELECT as pg_sys::AclMode,
                pg_sys::AclMaskHow::ACLMASK_ANY,
            ) == pg_sys::AclResult::ACLCHECK_OK;
            let whole = may_select_all(table);
            let all_rows = !is_restricted(table);
            Visible {
                counts: monitors || all_rows && (whole || any_column),
                value_sizes: monitors || all_rows && whole,
            }
        }
    }
}

/// Per attribute, whether the user may select it and sees all rows.
pub fn readable_columns(table: pg_sys::Oid, layout: &TableLayout) -> Vec<bool> {
    let (all_rows, whole) = (!is_restricted(table), may_select_all(table));
    // SAFETY: a catalog lookup; a dropped column is not asked for, which would be an ERROR.
    let may_select = |i: usize| unsafe {
        pg_sys::pg_attribute_aclcheck(
            table,
            i as i16 + 1,
            pg_sys::GetUserId(),
            pg_sys::ACL_SELECT as pg_sys::AclMode,
        ) == pg_sys::AclResult::ACLCHECK_OK
    };
    layout
        .attributes
        .iter()
        .enumerate()
        .map(|(i, a)| all_rows && !a.dropped && (whole || may_select(i)))
        .collect()
}

fn may_select_all(table: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe {
        let select = pg_sys::ACL_SELECT as pg_sys::AclMode;
        pg_sys::pg_class_aclcheck(table, pg_sys::GetUserId(), select)
            == pg_sys::AclResult::ACLCHECK_OK
    }
}

/// Whether row security hides rows of the table from the user.
fn is_restricted(table: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup; without an ERROR it tells whether policies apply.
    unsafe {
        pg_sys::check_enable_rls(table, pg_sys::InvalidOid, true)
            == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
    }
}
