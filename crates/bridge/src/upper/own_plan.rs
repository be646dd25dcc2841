//! PostgreSQL's own path for a query that is offered to the engine: it is kept beside ours, and run
//! where the engine cannot compute the result.

use pgrx::{PgList, pg_sys};

/// The cheapest of the paths that need no parallel workers, for the case that the engine gives up.
///
/// # Safety
/// Planner structures.
pub(super) unsafe fn cheapest_serial(output: *mut pg_sys::RelOptInfo) -> Option<*mut pg_sys::Path> {
    // SAFETY: planner structures.
    unsafe {
        PgList::<pg_sys::Path>::from_pg((*output).pathlist)
            .iter_ptr()
            .filter(|&path| {
                // The subqueries of a MinMaxAggPath belong to the step that makes a plan of it.
                (*path).type_ != pg_sys::NodeTag::T_MinMaxAggPath
                    && !uses_workers(path)
                    && (*path).param_info.is_null()
            })
            .min_by(|&a, &b| (*a).total_cost.total_cmp(&(*b).total_cost))
            .and_then(|path| copy(path))
    }
}

/// A copy of a path that shares its subpaths: `add_path` frees a path that another one dominates,
/// and later steps of the planner change paths in place.
///
/// # Safety
/// A path of the planner's.
unsafe fn copy(path: *mut pg_sys::Path) -> Option<*mut pg_sys::Path> {
    use pg_sys::NodeTag as Tag;
    // SAFETY: the size is that of the node's own type.
    unsafe {
        let len = match (*path).type_ {
            Tag::T_Path => size_of::<pg_sys::Path>(),
            Tag::T_AggPath => size_of::<pg_sys::AggPath>(),
            Tag::T_GroupPath => size_of::<pg_sys::GroupPath>(),
            Tag::T_UpperUniquePath => size_of::<pg_sys::UpperUniquePath>(),
            Tag::T_SortPath => size_of::<pg_sys::SortPath>(),
            Tag::T_IncrementalSortPath => size_of::<pg_sys::IncrementalSortPath>(),
            Tag::T_ProjectionPath => size_of::<pg_sys::ProjectionPath>(),
            Tag::T_GroupResultPath => size_of::<pg_sys::GroupResultPath>(),
            Tag::T_IndexPath => size_of::<pg_sys::IndexPath>(),
            Tag::T_LimitPath => size_of::<pg_sys::LimitPath>(),
            Tag::T_AppendPath => size_of::<pg_sys::AppendPath>(),
            Tag::T_MergeAppendPath => size_of::<pg_sys::MergeAppendPath>(),
            _ => return None,
        };
        let copy = pg_sys::palloc(len).cast::<u8>();
        std::ptr::copy_nonoverlapping(path.cast::<u8>(), copy, len);
        Some(copy.cast())
    }
}

/// Whether a Gather lies in the path: in a chain of nodes with one child, or below an Append of
/// partitions that are grouped one by one.
///
/// # Safety
/// A path of the planner's.
unsafe fn uses_workers(mut path: *mut pg_sys::Path) -> bool {
    use pg_sys::NodeTag as Tag;
    // SAFETY: casts follow the node's tag.
    unsafe {
        loop {
            let children = match (*path).type_ {
                Tag::T_GatherPath | Tag::T_GatherMergePath => return true,
                Tag::T_AppendPath => (*path.cast::<pg_sys::AppendPath>()).subpaths,
                Tag::T_MergeAppendPath => (*path.cast::<pg_sys::MergeAppendPath>()).subpaths,
                _ => match only_child(path) {
                    Some(child) => {
                        path = child;
                        continue;
                    }
                    None => return false,
                },
            };
            let children = PgList::<pg_sys::Path>::from_pg(children);
            return children.iter_ptr().any(|child| uses_workers(child));
        }
    }
}

/// The path below, of those that have one and stand above scans in upper relations.
///
/// # Safety
/// A path of the planner's.
pub(super) unsafe fn only_child(path: *mut pg_sys::Path) -> Option<*mut pg_sys::Path> {
    use pg_sys::NodeTag as Tag;
    // SAFETY: casts follow the node's tag.
    unsafe {
        Some(match (*path).type_ {
            Tag::T_AggPath => (*path.cast::<pg_sys::AggPath>()).subpath,
            Tag::T_GroupPath => (*path.cast::<pg_sys::GroupPath>()).subpath,
            Tag::T_UpperUniquePath => (*path.cast::<pg_sys::UpperUniquePath>()).subpath,
            Tag::T_SortPath => (*path.cast::<pg_sys::SortPath>()).subpath,
            Tag::T_IncrementalSortPath => {
                (*path.cast::<pg_sys::IncrementalSortPath>()).spath.subpath
            }
            Tag::T_ProjectionPath => (*path.cast::<pg_sys::ProjectionPath>()).subpath,
            Tag::T_LimitPath => (*path.cast::<pg_sys::LimitPath>()).subpath,
            Tag::T_MaterialPath => (*path.cast::<pg_sys::MaterialPath>()).subpath,
            Tag::T_WindowAggPath => (*path.cast::<pg_sys::WindowAggPath>()).subpath,
            Tag::T_ProjectSetPath => (*path.cast::<pg_sys::ProjectSetPath>()).subpath,
            _ => return None,
        })
    }
}
