//! Costs that PostgreSQL estimates too low for a table with cold rows.
//!
//! ```text
//!   sequential scan         decodes all columns of all cold rows
//!   index and bitmap scan   decode the needed columns of each cold row that they fetch
//!   index-only scan         decodes nothing
//! ```
//!
//! PostgreSQL charges for pages, and for handling a tuple that is there already. The paths are
//! taken out of their list, and compete again at their new price. Parameterized paths, the inner
//! sides of nested loops, keep theirs: of the paths that they compete with some are not ours.

use pgrx::{PgList, pg_sys};

use super::planner::{Offer, divisor_of};

/// Corrects the costs of paths, the partial ones too.
///
/// # Safety
/// The planner's, in the memory context of the query level that is being planned.
pub(super) unsafe fn correct(rel: *mut pg_sys::RelOptInfo, offer: &Offer) {
    // SAFETY: planner structures.
    unsafe {
        for (path, surcharge) in take(&mut (*rel).pathlist, rel, offer) {
            (*path).total_cost += surcharge;
            pg_sys::add_path(rel, path);
        }
        for (path, surcharge) in take(&mut (*rel).partial_pathlist, rel, offer) {
            (*path).total_cost += surcharge;
            pg_sys::add_partial_path(rel, path);
        }
    }
}

/// Removes from a list the paths that cost more than estimated, and by how much.
///
/// # Safety
/// A list of the relation's, both the planner's.
unsafe fn take(
    paths: &mut *mut pg_sys::List,
    rel: *const pg_sys::RelOptInfo,
    offer: &Offer,
) -> Vec<(*mut pg_sys::Path, f64)> {
    // SAFETY: as for this function.
    unsafe {
        let all = PgList::<pg_sys::Path>::from_pg(*paths);
        let found: Vec<_> = all
            .iter_ptr()
            .filter_map(|path| Some((path, surcharge(path, rel, offer)?)))
            .collect();
        for &(path, _) in &found {
            *paths = pg_sys::list_delete_ptr(*paths, path.cast());
        }
        found
    }
}

/// # Safety
/// A path of the relation's, both the planner's.
unsafe fn surcharge(
    path: *mut pg_sys::Path,
    rel: *const pg_sys::RelOptInfo,
    offer: &Offer,
) -> Option<f64> {
    // SAFETY: as for this function; the kind of a path tells its type.
    unsafe {
        let all = match (*path).pathtype {
            pg_sys::NodeTag::T_SeqScan => offer.sequential_surcharge,
            _ if !(*path).param_info.is_null() => return None,
            pg_sys::NodeTag::T_IndexScan | pg_sys::NodeTag::T_BitmapHeapScan => {
                (*rel).tuples * share_fetched(path)? * offer.fetched_row_surcharge
            }
            _ => return None,
        };
        Some(all / divisor_of(&*path))
    }
}

/// The share of the table's rows that a path by index fetches.
///
/// # Safety
/// The planner's.
pub(super) unsafe fn share_fetched(path: *mut pg_sys::Path) -> Option<f64> {
    // SAFETY: as for this function; the tag tells the type.
    unsafe {
        match (*path).type_ {
            pg_sys::NodeTag::T_IndexPath => {
                Some((*path.cast::<pg_sys::IndexPath>()).indexselectivity)
            }
            pg_sys::NodeTag::T_BitmapAndPath => {
                Some((*path.cast::<pg_sys::BitmapAndPath>()).bitmapselectivity)
            }
            pg_sys::NodeTag::T_BitmapOrPath => {
                Some((*path.cast::<pg_sys::BitmapOrPath>()).bitmapselectivity)
            }
            pg_sys::NodeTag::T_BitmapHeapPath => {
                share_fetched((*path.cast::<pg_sys::BitmapHeapPath>()).bitmapqual)
            }
            _ => None,
        }
    }
}
