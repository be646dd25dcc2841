//! CLUSTER and VACUUM FULL: `relation_copy_for_cluster`.

use pgrx::{pg_guard, pg_sys};

use super::Routine;
use crate::table::Table;
use crate::xid::Xid;

/// What the server asks of a rewrite. It holds both tables, and the index, open and locked
/// exclusively.
#[derive(Clone, Copy)]
pub struct RewriteRequest<'a> {
    pub old_table: Table<'a>,
    /// The table with the new files, which no other transaction sees.
    pub new_table: Table<'a>,
    /// The index whose order the rows shall have.
    pub index: Option<Table<'a>>,
    /// Whether rows are to be sorted, instead of read along the index.
    pub sorts: bool,
    /// The horizon before which deleted rows are dead.
    pub oldest_xmin: Xid,
    /// Older transactions are frozen in the new table.
    pub freeze_xid: Xid,
    /// Older multixacts are removed.
    pub cutoff_multi: pg_sys::MultiXactId,
}

/// Row versions of a rewrite.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RewriteCounts {
    pub kept: f64,
    pub removed: f64,
    /// Of those that were kept.
    pub recently_dead: f64,
}

/// Copies a table into new files.
pub trait RewriteTable {
    fn rewrite(request: RewriteRequest<'_>) -> RewriteCounts;
}

/// Has tables rewritten by `R`.
pub fn set_rewrite<R: RewriteTable>(routine: &mut Routine) {
    routine.relation_copy_for_cluster = Some(copy_for_cluster::<R>);
}

#[pg_guard]
#[allow(clippy::too_many_arguments)] // the callback's
unsafe extern "C-unwind" fn copy_for_cluster<R: RewriteTable>(
    old_table: pg_sys::Relation,
    new_table: pg_sys::Relation,
    old_index: pg_sys::Relation,
    use_sort: bool,
    oldest_xmin: pg_sys::TransactionId,
    xid_cutoff: *mut pg_sys::TransactionId,
    multi_cutoff: *mut pg_sys::MultiXactId,
    num_tuples: *mut f64,
    tups_vacuumed: *mut f64,
    tups_recently_dead: *mut f64,
) {
    // SAFETY: arguments come from CLUSTER, which holds both tables, and the index if it is not
    // NULL, open and exclusively locked; the places are variables of its own.
    unsafe {
        let counts = R::rewrite(RewriteRequest {
            old_table: Table::from_raw(old_table),
            new_table: Table::from_raw(new_table),
            index: (!old_index.is_null()).then(|| Table::from_raw(old_index)),
            sorts: use_sort,
            oldest_xmin: Xid::from_raw(oldest_xmin),
            freeze_xid: Xid::from_raw(*xid_cutoff),
            cutoff_multi: *multi_cutoff,
        });
        *num_tuples += counts.kept;
        *tups_vacuumed += counts.removed;
        *tups_recently_dead += counts.recently_dead;
    }
}
