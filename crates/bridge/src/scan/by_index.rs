//! Whether a path by index takes less time than one of ours that is priced lower.
//!
//! PostgreSQL prices a page that an index leads to at `random_page_cost`, as if some of these came
//! from a disk. A sequential scan of heap is so much dearer than a few hundred such rows that this
//! matters little. A scan by column is often not: priced truthfully, it beats an index that takes a
//! tenth of its time. Where heap would use the index, and the index is surely faster as long as its
//! pages are in memory, our path is not offered.

use pgrx::{PgList, pg_sys};

use super::surcharge::share_fetched;
use crate::relation::PAGE_BYTES;

/// The price of a row that is fetched by index from memory, of each of its columns, and of each
/// byte of these, in units of `seq_page_cost`: a page of heap takes some 5 µs to scan, a row of
/// four short columns half as long.
const ROW: f64 = 0.25;
const COLUMN: f64 = 0.1;
const BYTE: f64 = 0.002;
/// The part of PostgreSQL's price for the index itself.
const INDEX_PART: f64 = 0.15;
/// So many times faster must the index be.
const SURELY: f64 = 1.5;
/// Bytes of a heap tuple beside its data.
const TUPLE_OVERHEAD_BYTES: f64 = 28.0;

/// Whether some path by index of the relation is surely faster than one that costs so much, and
/// would be taken of a heap table.
///
/// # Safety
/// The planner's, with its paths.
pub(crate) unsafe fn is_surely_faster(rel: *const pg_sys::RelOptInfo, cost: f64) -> bool {
    // SAFETY: as for this function.
    unsafe {
        let target = &*(*rel).reltarget;
        let bytes = (*rel).tuples * (TUPLE_OVERHEAD_BYTES + f64::from(target.width));
        let pages = bytes / f64::from(PAGE_BYTES);
        let as_heap = pages * pg_sys::seq_page_cost + (*rel).tuples * pg_sys::cpu_tuple_cost;
        let columns = PgList::<pg_sys::Node>::from_pg(target.exprs).len();
        let row = ROW + COLUMN * columns as f64 + BYTE * f64::from(target.width);
        let paths = PgList::<pg_sys::Path>::from_pg((*rel).pathlist);
        let mut plain = paths
            .iter_ptr()
            .filter(|&path| (*path).param_info.is_null() && (*path).disabled_nodes == 0);
        plain.any(|path| {
            (*path).total_cost < as_heap
                && index_cost(path)
                    .zip(share_fetched(path))
                    .is_some_and(|(index, share)| {
                        let fetched = (*rel).tuples * share * row;
                        let truly = (fetched + index * INDEX_PART) * pg_sys::seq_page_cost;
                        truly * SURELY < cost
                    })
        })
    }
}

/// What PostgreSQL charges for the indexes of a path, without the table.
///
/// # Safety
/// The planner's.
unsafe fn index_cost(path: *mut pg_sys::Path) -> Option<f64> {
    // SAFETY: as for this function; the tag tells the type.
    unsafe {
        match (*path).type_ {
            pg_sys::NodeTag::T_IndexPath => {
                Some((*path.cast::<pg_sys::IndexPath>()).indextotalcost)
            }
            pg_sys::NodeTag::T_BitmapHeapPath => {
                let bitmap = (*path.cast::<pg_sys::BitmapHeapPath>()).bitmapqual;
                index_cost(bitmap).or(Some((*bitmap).total_cost))
            }
            _ => None,
        }
    }
}
