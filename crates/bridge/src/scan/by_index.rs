//! Paths by index that take less time than one of ours that is priced lower.
//!
//! PostgreSQL prices a page that an index leads to at `random_page_cost`, as if some of these came
//! from a disk. A sequential scan of heap is so much dearer than a few hundred such rows that this
//! matters little. A scan by column is often not: priced truthfully, it beats an index that takes a
//! tenth of its time. Where heap would use the index, and the index is surely faster as long as its
//! pages are in memory, our path is not offered, and the index gets the price that it is worth.

use pgrx::{PgList, pg_sys};

use super::surcharge::share_fetched;
use crate::relation::PAGE_BYTES;

/// The price of a row that is fetched by index from memory, of each of its columns, and of each
/// byte of these, in units of `seq_page_cost`: about as many as our own paths are charged for the
/// same time, which is 9 µs for a unit. Rows here and there of three short columns took 2.5 µs,
/// with the way through a B-tree for each of them 5.
const ROW: f64 = 0.14;
const COLUMN: f64 = 0.05;
const BYTE: f64 = 0.001;
/// The part of PostgreSQL's price for the index itself.
const INDEX_PART: f64 = 0.08;
/// So many times faster must the index be.
const SURELY: f64 = 1.5;
/// Bytes of a heap tuple beside its data.
const TUPLE_OVERHEAD_BYTES: f64 = 28.0;

/// Whether some path by index of the relation is surely faster than one that costs so much, and
/// would be taken of a heap table.
///
/// # Safety
/// The planner's, with its paths.
pub(crate) unsafe fn is_surely_faster(
    rel: *const pg_sys::RelOptInfo,
    table: pg_sys::Oid,
    cost: f64,
) -> bool {
    // SAFETY: as for this function.
    unsafe { !surely_faster(rel, table, cost).is_empty() }
}

/// Gives those paths of which [`is_surely_faster`] tells the prices that they surely are worth;
/// whether there are any. A statement with parameters is planned anew for their values as long as
/// that is cheaper than a plan for any values, which may be a scan by column.
///
/// # Safety
/// The planner's, with its paths, in the memory context of the query level that is being planned.
pub(super) unsafe fn prefer(rel: *mut pg_sys::RelOptInfo, table: pg_sys::Oid, cost: f64) -> bool {
    // SAFETY: as for this function; a path that is in no list may compete again.
    unsafe {
        let found = surely_faster(rel, table, cost);
        let dearer = |&&(path, price): &&(*mut pg_sys::Path, f64)| price < (*path).total_cost;
        let dearer: Vec<_> = found.iter().filter(dearer).collect();
        // All are taken out first: one that is added frees those in the list that it beats.
        for &&(path, _) in &dearer {
            (*rel).pathlist = pg_sys::list_delete_ptr((*rel).pathlist, path.cast());
        }
        for &&(path, price) in &dearer {
            set_total(path, price);
            pg_sys::add_path(rel, path);
        }
        !found.is_empty()
    }
}

/// # Safety
/// A path of the planner's.
pub(super) unsafe fn set_total(path: *mut pg_sys::Path, cost: f64) {
    // SAFETY: as for this function.
    unsafe {
        (*path).total_cost = cost;
        (*path).startup_cost = (*path).startup_cost.min(cost);
    }
}

/// The paths by index that are surely faster than one that costs so much, and would be taken of a
/// heap table, with the prices that they surely are worth.
///
/// # Safety
/// The planner's, with its paths.
unsafe fn surely_faster(
    rel: *const pg_sys::RelOptInfo,
    table: pg_sys::Oid,
    cost: f64,
) -> Vec<(*mut pg_sys::Path, f64)> {
    // SAFETY: as for this function.
    unsafe {
        let paths = PgList::<pg_sys::Path>::from_pg((*rel).pathlist);
        let plain = paths
            .iter_ptr()
            .filter(|&path| (*path).param_info.is_null() && (*path).disabled_nodes == 0);
        plain
            .filter_map(|path| Some((path, price_in_memory(rel, path)?)))
            .filter(|&(_, price)| price < cost)
            .filter(|&(path, _)| is_for_heap(&[(rel, table)], (*path).total_cost, 0.0))
            .collect()
    }
}

/// Whether look-ups by index that cost so much are cheaper than scans of their tables would be if
/// these were heap's, and something else was done with each row, at this price.
///
/// # Safety
/// The planner's, of plain tables.
pub(super) unsafe fn is_for_heap(
    tables: &[(*const pg_sys::RelOptInfo, pg_sys::Oid)],
    cost: f64,
    row_price: f64,
) -> bool {
    let scan = |rel: &pg_sys::RelOptInfo, row_width: i32| {
        let bytes = rel.tuples * (TUPLE_OVERHEAD_BYTES + f64::from(row_width));
        let pages = bytes / f64::from(PAGE_BYTES);
        // SAFETY: plain reads of settings.
        let (page, row) = unsafe { (pg_sys::seq_page_cost, pg_sys::cpu_tuple_cost) };
        pages * page + rel.tuples * (row + rel.baserestrictcost.per_tuple + row_price)
    };
    // SAFETY: as for this function.
    unsafe {
        // Mostly the needed columns tell it already.
        let needed = (tables.iter()).map(|&(rel, _)| scan(&*rel, (*(*rel).reltarget).width));
        let all = (tables.iter()).map(|&(rel, table)| {
            let width = pg_sys::get_relation_data_width(table, std::ptr::null_mut());
            scan(&*rel, width)
        });
        cost < needed.sum() || cost < all.sum()
    }
}

/// What a path by index of the relation surely costs at most, as long as all pages are in memory.
///
/// # Safety
/// The planner's.
pub(super) unsafe fn price_in_memory(
    rel: *const pg_sys::RelOptInfo,
    path: *mut pg_sys::Path,
) -> Option<f64> {
    // SAFETY: as for this function.
    unsafe {
        let (index, share) = (index_cost(path)?, share_fetched(path)?);
        let target = &*(*rel).reltarget;
        let columns = PgList::<pg_sys::Node>::from_pg(target.exprs).len();
        let row = ROW + COLUMN * columns as f64 + BYTE * f64::from(target.width);
        let fetched = (*rel).tuples * share * row;
        Some((fetched + index * INDEX_PART) * pg_sys::seq_page_cost * SURELY)
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
