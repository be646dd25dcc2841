//! What a ColumnarScan costs.
//!
//! ```text
//!   disk   hot pages + cold pages × share of the needed columns × share of groups touched, at least one
//!   CPU    groups      opening each, whatever its statistics say
//!          hot rows    as in a sequential scan
//!          cold rows   touched, hidden or not, at least a zone: a fraction of an operator for each pushed clause
//!                      selected and not hidden: a fraction of a tuple, more for each column by its type, the rest's qual
//! ```
//!
//! The share of zones touched follows from a pushed clause's selectivity where its column is
//! correlated with the order of rows, interpolated by the square of the correlation as
//! `cost_index` does for pages. A list of values touches a zone for each of them, however few rows there are.

use howdah_bridge::relation::{OpenRelation, main_fork_blocks};
use howdah_bridge::upper::{PlannedTable, cpu_costs};
use howdah_columnar::{ColumnType, ZONE_ROWS};
use pgrx::{PgList, pg_sys};

use super::pushdown::{Test, condition_of};
use crate::am::estimate::{ColdSize, planned_size};
use crate::types::{AttributeLayout, TableLayout};

// Measured on 5 million rows, one process, beside a sequential scan of the same rows as heap
// (which PostgreSQL prices at one `cpu_tuple_cost`): a pushed clause took 2 to 4 % of that time,
// a row without columns about a quarter; of 6 million rows of TPC-H's lineitem, each integer an eighth, each numeric
// nine eighths.

/// Opening one group: finding it, reading its footer, asking its statistics. In units of `cpu_tuple_cost`: about 25 µs
/// where a tuple takes 0.1.
const GROUP: f64 = 250.0;
/// Evaluating a pushed clause on one row of a chunk, in units of `cpu_operator_cost`.
const PUSHED_OPERATOR: f64 = 0.1;
/// Returning one selected row, in units of `cpu_tuple_cost`.
const TUPLE: f64 = 0.25;
/// Decoding one value of a selected row, in units of `cpu_operator_cost`: one that is passed by value, a numeric, another
/// one, and each of its bytes.
const VALUE: f64 = 0.5;
const NUMERIC: f64 = 2.5;
const STRING: f64 = 1.5;
const STRING_BYTE: f64 = 0.08;
/// Bytes of a heap tuple beside its data.
const TUPLE_OVERHEAD_BYTES: f64 = 28.0;

/// What is known of a scan before it runs.
pub struct Estimate {
    rows: f64,
    disk_cost: f64,
    startup_cost: f64,
    cpu_cost: f64,
    pages_as_heap: f64,
    target: pg_sys::QualCost,
    /// Decoding all columns of all cold rows.
    decoding_all: f64,
    groups: f64,
    hot_rows: f64,
    touched_rows: f64,
    selected_rows: f64,
}

impl Estimate {
    /// # Safety
    /// Planner structures; `pushed` and `rest` are the clauses of the scan.
    pub unsafe fn of(
        root: *mut pg_sys::PlannerInfo,
        rel: *mut pg_sys::RelOptInfo,
        table: &OpenRelation,
        cold: ColdSize,
        attributes: &[usize],
        pushed: &[*mut pg_sys::RestrictInfo],
        rest: &[*mut pg_sys::RestrictInfo],
    ) -> Estimate {
        // SAFETY: as for this function; the relation is open.
        unsafe {
            let layout = TableLayout::of((*table.raw()).rd_att);
            let widths = widths(table, &layout);
            let width: f64 = widths.iter().sum();
            let needed: f64 = attributes.iter().map(|&i| widths[i]).sum();
            let share = needed / width.max(1.0);

            let Touched {
                share: touched,
                places,
                operators,
            } = touched(root, rel, table, &layout, pushed);
            let cold_pages = cold.bytes as f64 / f64::from(pg_sys::BLCKSZ);
            let hot_pages = f64::from(main_fork_blocks(table.raw()));
            let (mut random_page, mut sequential_page) = (0.0, 0.0);
            pg_sys::get_tablespace_page_costs(
                (*rel).reltablespace,
                &mut random_page,
                &mut sequential_page,
            );
            // At least the footer of every group is looked at, and where a row is left the chunks of its group.
            let groups = f64::from(cold.groups);
            let of_groups = touched.max(places / groups.max(1.0)).min(1.0);
            let read = (groups + cold_pages * share * of_groups).min(cold_pages);
            let pages = hot_pages + read;

            let (cold_rows, stored_rows) = (cold.rows as f64, cold.stored_rows as f64);
            let touched_rows =
                (stored_rows * touched).max(stored_rows.min(places * ZONE_ROWS as f64));
            let hot_rows = ((*rel).tuples - cold_rows).max(0.0);
            let all: Vec<_> = pushed.iter().chain(rest).copied().collect();
            let (every, left) = (qual_cost(root, &all), qual_cost(root, rest));
            let selected = cold_rows * selectivity(root, rel, pushed);
            let value = |i: usize| value_cost(&layout.attributes[i], widths[i]);
            let values: f64 = attributes.iter().map(|&i| value(i)).sum();
            let all_values: f64 = (0..widths.len()).map(value).sum();
            let per_tuple = TUPLE * pg_sys::cpu_tuple_cost + values;
            let cpu_cost = hot_rows * (pg_sys::cpu_tuple_cost + every.per_tuple)
                + groups * GROUP * pg_sys::cpu_tuple_cost
                + touched_rows * operators * PUSHED_OPERATOR * pg_sys::cpu_operator_cost
                + selected * (per_tuple + left.per_tuple);
            let bytes_as_heap = hot_pages * f64::from(pg_sys::BLCKSZ)
                + touched_rows * (TUPLE_OVERHEAD_BYTES + needed);
            Estimate {
                rows: (*rel).rows,
                disk_cost: pages * sequential_page,
                startup_cost: every.startup,
                cpu_cost,
                pages_as_heap: (bytes_as_heap / f64::from(pg_sys::BLCKSZ)).ceil(),
                target: (*(*rel).reltarget).cost,
                decoding_all: cold_rows * all_values,
                groups,
                hot_rows,
                touched_rows,
                selected_rows: selected,
            }
        }
    }

    /// How many heap pages would hold what is read: what the number of workers goes by, since
    /// compressed pages hold more work.
    pub fn pages_as_heap(&self) -> f64 {
        self.pages_as_heap
    }
}

/// A table as a Vectorized plan would read it.
pub struct Reading {
    layout: TableLayout,
    estimate: Estimate,
}

/// What reading the scanned table costs; `None` if it has no cold rows.
///
/// # Safety
/// Planner structures of a plain scan of `table`, on which the planner holds a lock.
pub unsafe fn reading(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    table: pg_sys::Oid,
) -> Option<Reading> {
    let cold = planned_size(table)?;
    // SAFETY: as for this function.
    unsafe {
        let table = OpenRelation::open(table, pg_sys::NoLock);
        if !crate::am::is_howdah(table.raw()) {
            return None;
        }
        let layout = TableLayout::of((*table.raw()).rd_att);
        let clauses: Vec<_> = PgList::<pg_sys::RestrictInfo>::from_pg((*rel).baserestrictinfo)
            .iter_ptr()
            .collect();
        let numbers = super::path::numbers_used(rel, (*rel).relid, std::ptr::null_mut());
        let attributes = super::state::attributes_of(numbers, &layout);
        let (pushed, rest): (Vec<_>, Vec<_>) = clauses.into_iter().partition(|&clause| {
            condition_of((*clause).clause.cast(), (*rel).relid as i32, &layout).is_some()
        });
        let estimate = Estimate::of(root, rel, &table, cold, &attributes, &pushed, &rest);
        Some(Reading { layout, estimate })
    }
}

// Measured on 20 million rows: threads filter, decode and aggregate a value in 1 to 3 ns where a row of a sequential
// scan takes 100; handing a group over, and starting threads, takes some 50 µs.

/// Filtering or decoding and aggregating one value by a thread, in units of `cpu_operator_cost`.
const VECTOR_VALUE: f64 = 0.04;
/// Likewise of text and other types that are not passed by value.
const VECTOR_STRING: f64 = 0.4;
/// Starting and ending a run, in units of `cpu_tuple_cost`.
const RUN: f64 = 500.0;
/// Looking into each further table, likewise.
const TABLE: f64 = 50.0;

impl Reading {
    /// What it costs a Vectorized plan to read these attributes.
    pub fn cost(&self, attributes: &[usize], conjuncts: usize, threads: usize) -> f64 {
        let estimate = &self.estimate;
        let values: f64 = (attributes.iter())
            .map(|&i| vector_value(&self.layout.attributes[i]))
            .sum();
        let cold = estimate.touched_rows * conjuncts as f64 * VECTOR_VALUE
            + estimate.selected_rows * values;
        estimate.disk_cost
            + cost_of_cold_rows(estimate.groups, cold, threads)
            + cost_of_hot_rows(estimate.hot_rows, attributes.len())
    }
}

/// Decoding and aggregating a value, in units of `cpu_operator_cost`.
fn vector_value(attribute: &AttributeLayout) -> f64 {
    match attribute.by_value {
        true => VECTOR_VALUE,
        false => VECTOR_STRING,
    }
}

/// Opening groups, and so much work of threads in units of `cpu_operator_cost`.
fn cost_of_cold_rows(groups: f64, work: f64, threads: usize) -> f64 {
    let (tuple, operator) = cpu_costs();
    groups * GROUP / 4.0 * tuple + work * operator / threads.max(1) as f64
}

fn cost_of_hot_rows(rows: f64, attribute_count: usize) -> f64 {
    let (tuple, operator) = cpu_costs();
    rows * (tuple + attribute_count as f64 * operator)
}

/// The most stored rows of a table that [`small_reading`] is for.
const SMALL_ROWS: u64 = 2 * ZONE_ROWS as u64;

/// What it costs a Vectorized plan to read these attributes of a small howdah table, one of many:
/// as [`Reading::cost`], but nothing is looked up for it. No group and no zone is taken to be
/// skipped. `None` if the table is not small.
pub fn small_reading<'a>(
    table: &PlannedTable,
    attributes: impl Iterator<Item = &'a AttributeLayout>,
    conjuncts: usize,
    threads: usize,
) -> Option<f64> {
    let cold = planned_size(table.oid).filter(|cold| cold.stored_rows <= SMALL_ROWS)?;
    let (tuples, rows) = table.tuples_and_rows();
    let hot_rows = (tuples - cold.rows as f64).max(0.0);
    let (mut values, mut attribute_count) = (0.0, 0);
    for attribute in attributes {
        values += vector_value(attribute);
        attribute_count += 1;
    }
    let work = cold.stored_rows as f64 * conjuncts as f64 * VECTOR_VALUE + rows * values;
    Some(
        table.cost_of_pages()
            + cost_of_cold_rows(f64::from(cold.groups), work, threads)
            + cost_of_hot_rows(hot_rows, attribute_count),
    )
}

/// What it costs a Vectorized plan to read so many attributes of a table that has no cold rows.
pub fn hot_reading(table: &PlannedTable, attribute_count: usize) -> f64 {
    let (tuples, _) = table.tuples_and_rows();
    table.cost_of_pages() + cost_of_hot_rows(tuples, attribute_count)
}

/// What it costs to run a Vectorized plan that reads so many tables and returns so many rows,
/// beside reading them.
pub fn cost_of_run(rows: f64, table_count: usize) -> f64 {
    let (tuple, operator) = cpu_costs();
    let more_tables = table_count.saturating_sub(1) as f64;
    rows * 2.0 * operator + (RUN + more_tables * TABLE) * tuple
}

/// The attributes of a relation on which this backend holds a lock.
pub fn layout_of(relation: pg_sys::Oid) -> TableLayout {
    let relation = OpenRelation::open_locked(relation);
    // SAFETY: the relation is open.
    unsafe { TableLayout::of((*relation.raw()).rd_att) }
}

/// What it costs to decode a value.
fn value_cost(attribute: &AttributeLayout, width: f64) -> f64 {
    let operators = match attribute.column_type {
        _ if attribute.dropped => 0.0,
        _ if attribute.by_value => VALUE,
        ColumnType::Numeric => NUMERIC,
        _ => STRING + STRING_BYTE * width,
    };
    operators * cpu_costs().1
}

/// Adds to a sequential scan what PostgreSQL does not know of: that it decodes all columns of cold rows.
pub fn correct(path: &mut pg_sys::Path, estimate: &Estimate) {
    let divisor = match path.parallel_workers {
        0 => 1.0,
        workers => parallel_divisor(workers),
    };
    path.total_cost += estimate.decoding_all / divisor;
}

/// Sets rows and costs of a path whose number of workers is set.
pub fn set(path: &mut pg_sys::Path, estimate: &Estimate) {
    let mut rows = match path.param_info.is_null() {
        true => estimate.rows,
        // SAFETY: a valid planner structure.
        false => unsafe { (*path.param_info).ppi_rows },
    };
    let mut cpu_cost = estimate.cpu_cost;
    if path.parallel_workers > 0 {
        let divisor = parallel_divisor(path.parallel_workers);
        rows = (rows / divisor).round().max(1.0);
        cpu_cost /= divisor;
    }
    path.rows = rows;
    path.startup_cost = estimate.startup_cost + estimate.target.startup;
    path.total_cost =
        path.startup_cost + cpu_cost + estimate.target.per_tuple * rows + estimate.disk_cost;
}

/// Mirrors `get_parallel_divisor`.
fn parallel_divisor(workers: i32) -> f64 {
    let workers = f64::from(workers);
    // SAFETY: plain read of a setting.
    let leader = match unsafe { pg_sys::parallel_leader_participation } {
        true => (1.0 - 0.3 * workers).max(0.0),
        false => 0.0,
    };
    workers + leader
}

/// Average bytes of each attribute.
unsafe fn widths(table: &OpenRelation, layout: &TableLayout) -> Vec<f64> {
    // SAFETY: the relation is open; attribute numbers are within its descriptor.
    unsafe {
        let relation = table.raw();
        let width = |i: usize| {
            let known = pg_sys::get_attavgwidth((*relation).rd_id, i as i16 + 1);
            if known > 0 {
                return known;
            }
            let attribute = &*pg_sys::TupleDescAttr((*relation).rd_att, i as i32);
            pg_sys::get_typavgwidth(attribute.atttypid, attribute.atttypmod)
        };
        layout
            .attributes
            .iter()
            .enumerate()
            .map(|(i, attribute)| match attribute.dropped {
                true => 0.0,
                false => f64::from(width(i)),
            })
            .collect()
    }
}

unsafe fn qual_cost(
    root: *mut pg_sys::PlannerInfo,
    clauses: &[*mut pg_sys::RestrictInfo],
) -> pg_sys::QualCost {
    let mut list = PgList::<pg_sys::RestrictInfo>::new();
    clauses.iter().for_each(|&clause| list.push(clause));
    let mut cost = pg_sys::QualCost::default();
    // SAFETY: planner structures.
    unsafe { pg_sys::cost_qual_eval(&mut cost, list.into_pg(), root) };
    cost
}

unsafe fn selectivity(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    clauses: &[*mut pg_sys::RestrictInfo],
) -> f64 {
    let mut list = PgList::<pg_sys::RestrictInfo>::new();
    clauses.iter().for_each(|&clause| list.push(clause));
    // SAFETY: planner structures.
    unsafe {
        pg_sys::clauselist_selectivity(
            root,
            list.into_pg(),
            (*rel).relid as i32,
            pg_sys::JoinType::JOIN_INNER,
            std::ptr::null_mut(),
        )
    }
}

/// What of the cold side has to be looked at, and how.
struct Touched {
    /// The share that statistics cannot exclude.
    share: f64,
    /// In so many places, if rows are in order.
    places: f64,
    /// Evaluations of a row: one for a clause, more for a list of values.
    operators: f64,
}

/// Looking for a value in a list, for each time that it is halved.
const HALVING: f64 = 2.0;

unsafe fn touched(
    root: *mut pg_sys::PlannerInfo,
    rel: *mut pg_sys::RelOptInfo,
    table: &OpenRelation,
    layout: &TableLayout,
    pushed: &[*mut pg_sys::RestrictInfo],
) -> Touched {
    // SAFETY: as for the caller. Clauses on one column count together: two bounds of a range
    // are far less than either.
    unsafe {
        let mut columns: Vec<(usize, Vec<*mut pg_sys::RestrictInfo>)> = Vec::new();
        let (mut places, mut operators) = (f64::INFINITY, 0.0);
        for &clause in pushed {
            let Some(condition) =
                condition_of((*clause).clause.cast(), (*rel).relid as i32, layout)
            else {
                operators += 1.0;
                continue;
            };
            let values = match &condition.test {
                Test::Any(list) | Test::NotAll(list) => {
                    pg_sys::estimate_array_length(root, list.expr.cast()).max(1.0)
                }
                _ => 1.0,
            };
            operators += 1.0 + HALVING * values.log2();
            match condition.test {
                // Most patterns begin anywhere.
                Test::Like { .. } => continue,
                Test::NotAll(_) => {}
                _ => places = places.min(values),
            }
            match columns.iter_mut().find(|(i, _)| *i == condition.attribute) {
                Some((_, clauses)) => clauses.push(clause),
                None => columns.push((condition.attribute, vec![clause])),
            }
        }
        let share = columns
            .iter()
            .map(|(i, clauses)| {
                let square = correlation((*table.raw()).rd_id, *i as i16 + 1).powi(2);
                square * selectivity(root, rel, clauses) + (1.0 - square)
            })
            .fold(1.0, f64::min);
        Touched {
            share,
            places: if places.is_finite() { places } else { 1.0 },
            operators,
        }
    }
}

/// The statistical correlation of an attribute with the order of rows; 0 if unknown.
unsafe fn correlation(table: pg_sys::Oid, attribute: i16) -> f64 {
    // SAFETY: a lookup in the system cache, released below; numbers are read while it is held.
    unsafe {
        let tuple = pg_sys::SearchSysCache3(
            pg_sys::SysCacheIdentifier::STATRELATTINH as i32,
            pg_sys::Datum::from(table),
            pg_sys::Datum::from(attribute),
            pg_sys::Datum::from(false),
        );
        if tuple.is_null() {
            return 0.0;
        }
        let mut slot = pg_sys::AttStatsSlot::default();
        let found = pg_sys::get_attstatsslot(
            &mut slot,
            tuple,
            pg_sys::STATISTIC_KIND_CORRELATION as i32,
            pg_sys::InvalidOid,
            pg_sys::ATTSTATSSLOT_NUMBERS as i32,
        );
        let correlation = match found && slot.nnumbers > 0 {
            true => f64::from(*slot.numbers),
            false => 0.0,
        };
        if found {
            pg_sys::free_attstatsslot(&mut slot);
        }
        pg_sys::ReleaseSysCache(tuple);
        correlation
    }
}
