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

/// What PostgreSQL puts on top of a table's paths, to compute the targets of the query or to gather
/// the rows of workers, is looked through.
///
/// # Safety
/// A path of a table.
unsafe fn is_foreign(path: *mut pg_sys::Path) -> bool {
    use pg_sys::NodeTag::{
        T_AppendPath, T_CustomPath, T_ForeignPath, T_GatherMergePath, T_GatherPath,
        T_IncrementalSortPath, T_MaterialPath, T_MergeAppendPath, T_ProjectSetPath,
        T_ProjectionPath, T_SortPath, T_SubqueryScanPath,
    };
    // SAFETY: the tag tells the kind of path.
    unsafe {
        match (*path).type_ {
            T_ProjectionPath => is_foreign((*path.cast::<pg_sys::ProjectionPath>()).subpath),
            T_ProjectSetPath => is_foreign((*path.cast::<pg_sys::ProjectSetPath>()).subpath),
            T_GatherPath => is_foreign((*path.cast::<pg_sys::GatherPath>()).subpath),
            T_GatherMergePath => is_foreign((*path.cast::<pg_sys::GatherMergePath>()).subpath),
            T_MaterialPath => is_foreign((*path.cast::<pg_sys::MaterialPath>()).subpath),
            // The one begins with the other.
            T_SortPath | T_IncrementalSortPath => {
                is_foreign((*path.cast::<pg_sys::SortPath>()).subpath)
            }
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
