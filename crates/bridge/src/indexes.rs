//! The indexes of a table.

use pgrx::{pg_guard, pg_sys};

use crate::custom_node::contains;
use crate::table::{LockMode, Table};

/// The OIDs of a table's indexes.
pub fn oids_of(table: Table<'_>) -> Vec<pg_sys::Oid> {
    // SAFETY: the relation is open; the list is a copy of our own.
    unsafe {
        let list = pg_sys::RelationGetIndexList(table.raw());
        let count = pg_sys::list_length(list);
        let oids = (0..count).map(|i| pg_sys::list_nth_oid(list, i)).collect();
        pg_sys::list_free(list);
        oids
    }
}

/// Shows `look` an index, locked with AccessShareLock meanwhile.
pub fn with_index<R>(index: pg_sys::Oid, look: impl FnOnce(Table<'_>) -> R) -> R {
    let lock = LockMode::AccessShare.raw();
    // SAFETY: the index is open while it is looked at, and closed once.
    unsafe {
        let index = pg_sys::index_open(index, lock);
        let result = look(Table::from_raw(index));
        pg_sys::index_close(index, lock);
        result
    }
}

/// Whether an index is a BRIN index: it cannot hold cold TIDs.
pub fn is_brin(index: Table<'_>) -> bool {
    // SAFETY: the index is open.
    unsafe { (*(*index.raw()).rd_rel).relam == pg_sys::BRIN_AM_OID }
}

/// Whether an index is a btree, in whose order PostgreSQL can sort rows.
pub fn is_btree(index: Table<'_>) -> bool {
    index.access_method() == Some(pg_sys::BTREE_AM_OID)
}

/// The key columns of the index that the table was last clustered on, as attribute numbers, up to
/// the first expression; `None` without such an index.
pub fn clustered_key(table: Table<'_>) -> Option<Vec<i16>> {
    // SAFETY: a catalog lookup.
    let is_clustered = |&index: &pg_sys::Oid| unsafe { pg_sys::get_index_isclustered(index) };
    let index = oids_of(table).into_iter().find(is_clustered)?;
    Some(with_index(index, key_columns))
}

/// The columns of the table's primary key, as attribute numbers; `None` without one.
pub fn primary_key(table: Table<'_>) -> Option<Vec<i16>> {
    // SAFETY: the relation is open.
    let index = unsafe { pg_sys::RelationGetPrimaryKeyIndex(table.raw(), true) };
    (index != pg_sys::InvalidOid).then(|| with_index(index, key_columns))
}

/// Up to the first expression.
fn key_columns(index: Table<'_>) -> Vec<i16> {
    // SAFETY: the index is open; its key has `indnkeyatts` columns or more.
    let key = unsafe {
        let form = &*(*index.raw()).rd_index;
        form.indkey.values.as_slice(form.indnkeyatts as usize)
    };
    key.iter()
        .copied()
        .take_while(|&number| number > 0)
        .collect()
}

/// Whether an index is that of an exclusion constraint.
pub fn is_exclusion(index: Table<'_>) -> bool {
    // SAFETY: the index is open.
    unsafe { (*(*index.raw()).rd_index).indisexclusion }
}

/// Whether an expression of a unique index might raise an ERROR for a row of NULLs although it does
/// not for the rows of the table. Strict functions are not called for NULLs. All other functions
/// count, and so do constraints of domains, and whole rows, which are not NULL when their columns
/// are.
pub fn may_fail_on_nulls(index: Table<'_>) -> bool {
    let index = index.raw();
    // SAFETY: the index is open; the list is a copy, and the walkers only read it.
    unsafe {
        if !(*(*index).rd_index).indisunique {
            return false;
        }
        let expressions = pg_sys::RelationGetIndexExpressions(index).cast::<pg_sys::Node>();
        !expressions.is_null()
            && (pg_sys::contain_nonstrict_functions(expressions)
                || contains(expressions, looks_at_null_rows))
    }
}

/// Whether the node is one that [`pg_sys::contain_nonstrict_functions`] treats as strict although
/// it may fail.
///
/// # Safety
/// A node of an expression.
unsafe fn looks_at_null_rows(node: *mut pg_sys::Node) -> bool {
    // SAFETY: the node's tag tells its type.
    unsafe {
        match (*node).type_ {
            pg_sys::NodeTag::T_CoerceToDomain => true,
            pg_sys::NodeTag::T_Var => (*node.cast::<pg_sys::Var>()).varattno == 0,
            _ => false,
        }
    }
}

static mut PREVIOUS_RELATION_INFO: pg_sys::get_relation_info_hook_type = None;
static mut HIDES_BRIN: Option<fn(Table<'_>) -> bool> = None;

/// Hides the BRIN indexes of those tables from the planner for which `hides` holds; it is called
/// for tables that have any, which the planner has locked. To be called once, while the library is
/// loaded.
pub fn hide_brin_from_planner(hides: fn(Table<'_>) -> bool) {
    // SAFETY: nothing else runs in the process yet.
    unsafe {
        HIDES_BRIN = Some(hides);
        PREVIOUS_RELATION_INFO = pg_sys::get_relation_info_hook;
        pg_sys::get_relation_info_hook = Some(hide_brin_indexes);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn hide_brin_indexes(
    root: *mut pg_sys::PlannerInfo,
    relation: pg_sys::Oid,
    inherits: bool,
    rel: *mut pg_sys::RelOptInfo,
) {
    // SAFETY: arguments come from the planner, which holds a lock on the relation; the list and
    // its members live in the planner's memory. The hooks are only written while the library is
    // loaded.
    unsafe {
        if let Some(previous) = PREVIOUS_RELATION_INFO {
            previous(root, relation, inherits, rel);
        }
        let indexes = (*rel).indexlist;
        let brin: Vec<*mut pg_sys::IndexOptInfo> = (0..pg_sys::list_length(indexes))
            .map(|i| pg_sys::list_nth(indexes, i).cast::<pg_sys::IndexOptInfo>())
            .filter(|&index| (*index).relam == pg_sys::BRIN_AM_OID)
            .collect();
        // The parent of an inheritance tree is planned for its own rows by a call of its own.
        if brin.is_empty() || inherits {
            return;
        }
        let table = pg_sys::table_open(relation, pg_sys::NoLock as i32);
        if HIDES_BRIN.is_some_and(|hides| hides(Table::from_raw(table))) {
            for index in brin {
                (*rel).indexlist = pg_sys::list_delete_ptr((*rel).indexlist, index.cast());
            }
        }
        pg_sys::table_close(table, pg_sys::NoLock as i32);
    }
}
