//! Rights of the current user on a relation. They are looked up in the catalogs; no lock is needed.

use pgrx::pg_sys;

fn user() -> pg_sys::Oid {
    // SAFETY: plain read of this backend's state.
    unsafe { pg_sys::GetUserId() }
}

fn has_right(table: pg_sys::Oid, right: u32) -> bool {
    let right = pg_sys::AclMode::from(right);
    // SAFETY: a catalog lookup.
    let answer = unsafe { pg_sys::pg_class_aclcheck(table, user(), right) };
    answer == pg_sys::AclResult::ACLCHECK_OK
}

/// The right MAINTAIN.
pub fn may_maintain(table: pg_sys::Oid) -> bool {
    has_right(table, pg_sys::ACL_MAINTAIN)
}

/// The right SELECT on the whole table.
pub fn may_select_all(table: pg_sys::Oid) -> bool {
    has_right(table, pg_sys::ACL_SELECT)
}

/// The right SELECT on at least one column.
pub fn may_select_any_column(table: pg_sys::Oid) -> bool {
    let select = pg_sys::AclMode::from(pg_sys::ACL_SELECT);
    let any = pg_sys::AclMaskHow::ACLMASK_ANY;
    // SAFETY: a catalog lookup.
    let answer = unsafe { pg_sys::pg_attribute_aclcheck_all(table, user(), select, any) };
    answer == pg_sys::AclResult::ACLCHECK_OK
}

/// The right SELECT on one column, by the index of its attribute. Raises an ERROR for a dropped
/// one.
pub fn may_select_column(table: pg_sys::Oid, attribute: usize) -> bool {
    let select = pg_sys::AclMode::from(pg_sys::ACL_SELECT);
    // SAFETY: a catalog lookup.
    let answer =
        unsafe { pg_sys::pg_attribute_aclcheck(table, attribute as i16 + 1, user(), select) };
    answer == pg_sys::AclResult::ACLCHECK_OK
}

/// Whether row security hides rows of the table from the user.
pub fn hides_rows(table: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup; without an ERROR it tells whether policies apply.
    let applies = unsafe { pg_sys::check_enable_rls(table, pg_sys::InvalidOid, true) };
    applies == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
}

/// Whether the user owns the relation.
pub fn owns(relation: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::object_ownercheck(pg_sys::RelationRelationId, relation, user()) }
}

/// Raises the ERROR of a statement whose user must own the relation.
pub fn refuse_unless_owner(relation: pg_sys::Oid) {
    // SAFETY: catalog lookups; the name is NULL or NUL-terminated.
    unsafe {
        pg_sys::aclcheck_error(
            pg_sys::AclResult::ACLCHECK_NOT_OWNER,
            pg_sys::get_relkind_objtype(pg_sys::get_rel_relkind(relation)),
            pg_sys::get_rel_name(relation),
        );
    }
}

/// Whether the user has the rights of `pg_stat_scan_tables`.
pub fn may_scan_statistics() -> bool {
    // SAFETY: a catalog lookup.
    unsafe { pg_sys::has_privs_of_role(user(), pg_sys::ROLE_PG_STAT_SCAN_TABLES.into()) }
}

/// Whether a role is the current user or has the attribute SUPERUSER.
pub fn is_self_or_superuser(role: pg_sys::Oid) -> bool {
    // SAFETY: a catalog lookup.
    role == user() || unsafe { pg_sys::superuser_arg(role) }
}
