//! Relations whose rows another extension supplies.
//!
//! Its hook may have put paths of its own into a table's list, such as one that appends rows which
//! lie elsewhere, compressed, to those of the table. Reading the table alone gives too few rows
//! then. PostgreSQL itself gives a table only scans by sequence, index, bitmap or TID.

use pgrx::{PgList, pg_sys};

use super::plan::PATH_METHODS;

/// Whether a table has a path that is neither PostgreSQL's for a table of its own nor ours.
///
/// # Safety
/// A relation of the planner's, which is not dummy.
pub(crate) unsafe fn supply_rows(rel: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: planner structures.
    unsafe {
        let lists = [(*rel).pathlist, (*rel).partial_pathlist];
        lists.into_iter().any(|paths| {
            let paths = PgList::<pg_sys::Path>::from_pg(paths);
            paths.iter_ptr().any(|path| is_foreign(path))
        })
    }
}

/// # Safety
/// A path of a table.
unsafe fn is_foreign(path: *mut pg_sys::Path) -> bool {
    use pg_sys::NodeTag::{
        T_AppendPath, T_CustomPath, T_ForeignPath, T_MergeAppendPath, T_SubqueryScanPath,
    };
    // SAFETY: the tag tells the kind of path.
    unsafe {
        match (*path).type_ {
            T_CustomPath => {
                let methods = (*path.cast::<pg_sys::CustomPath>()).methods;
                !std::ptr::eq(methods, &PATH_METHODS.0)
            }
            kind => [
                T_ForeignPath,
                T_AppendPath,
                T_MergeAppendPath,
                T_SubqueryScanPath,
            ]
            .contains(&kind),
        }
    }
}
