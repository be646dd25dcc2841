//! The cost of a ColumnarScan.
//!
//! ```text
//!   disk   hot pages
//!          cold pages × share of the needed columns, and of those beside them, × share of groups
//!          touched, at least one group
//!   CPU    groups      opening each, whatever its statistics tell
//!          hot rows    as in a sequential scan
//!          cold rows   touched, hidden or not, at least a zone:
//!                        a fraction of an operator for each pushed clause
//!                      selected and not hidden:
//!                        a fraction of a tuple, more for each column by its type, the rest's qual
//! ```
//!
//! The share of zones touched follows from a pushed clause's selectivity where its column is
//! correlated with the order of rows, interpolated by the square of the correlation as `cost_index`
//! does for pages. A list of values touches a zone for each of them, however few rows there are.

use howdah_bridge::column_statistics::{average_width, correlation};
use howdah_bridge::relation::{OpenRelation, PAGE_BYTES};
use howdah_bridge::scan::{Clause, Offer, OperandNode, PlannedTable, QualCost, unit_costs};
use howdah_bridge::table::Table;
use howdah_bridge::upper::{Oid, QueriedTable};
use howdah_columnar::{ColumnType, MAX_ROWS, ZONE_ROWS};

use super::operand::Test;
use super::pushdown::{self, Pushed, condition_of};
use crate::am;
use crate::am::estimate::{ColdSize, PlannedSize, planned_size};
use crate::types::{AttributeLayout, TableLayout};
use crate::{options, settings};

// Measured on 5 million rows, in one process, against a sequential scan of the same rows as heap,
// for which PostgreSQL charges one `cpu_tuple_cost` per row: a pushed clause took 2 to 4 % of that
// time, a row without columns about a quarter. On 6 million rows of TPC-H's lineitem, each integer
// took an eighth, each numeric nine eighths.

/// Beginning and ending a scan, in units of `cpu_tuple_cost`. Where few rows are read it takes some
/// 30 µs more than a scan by index, which is priced as if it waited for pages.
const START: f64 = 1000.0;
/// Opening one group: finding it, reading its footer, testing its statistics. In units of
/// `cpu_tuple_cost`: about 25 µs where a tuple takes 0.1.
const GROUP: f64 = 250.0;
/// Evaluating a pushed clause on one row of a chunk, in units of `cpu_operator_cost`.
const PUSHED_OPERATOR: f64 = 0.1;
/// Returning one selected row, in units of `cpu_tuple_cost`.
const TUPLE: f64 = 0.25;
/// Decoding one value of a selected row, in units of `cpu_operator_cost`: one that is passed by
/// value, a numeric, another one, and each of its bytes.
const VALUE: f64 = 0.5;
const NUMERIC: f64 = 2.5;
const STRING: f64 = 1.5;
const STRING_BYTE: f64 = 0.08;
/// Bytes of a heap tuple beside its data.
const TUPLE_OVERHEAD_BYTES: f64 = 28.0;

/// The known figures of a scan before it runs.
struct Estimate {
    disk_cost: f64,
    startup_cost: f64,
    cpu_cost: f64,
    pages_as_heap: f64,
    /// Decoding all columns of all cold rows.
    decoding_all: f64,
    /// Decoding the needed columns of an average row, which is hot or cold.
    decoding_row: f64,
    groups: f64,
    hot_rows: f64,
    touched_rows: f64,
    /// Evaluations of pushed clauses for each of these.
    operators: f64,
    selected_rows: f64,
    /// Pages of each attribute in the groups that are read.
    attribute_pages: Vec<f64>,
}

/// A scan that is planned: the table, and what is read of it.
struct Scan<'a> {
    planned: &'a PlannedTable<'a>,
    table: Table<'a>,
    cold: ColdSize,
    hot_pages: u32,
    attributes: &'a [usize],
    layout: &'a TableLayout,
    clauses: &'a Clauses<'a>,
}

/// The clauses of a scan.
#[derive(Default)]
struct Clauses<'a> {
    /// Those that row groups evaluate.
    pushed: Vec<Clause<'a>>,
    /// The same as they evaluate them.
    conditions: Vec<Pushed<'a>>,
    /// The other clauses.
    rest: Vec<Clause<'a>>,
}

impl<'a> Clauses<'a> {
    /// Sorts the clauses by whether row groups evaluate them.
    fn of(
        clauses: Vec<Clause<'a>>,
        recognise: impl Fn(Clause<'a>) -> Option<Pushed<'a>>,
    ) -> Clauses<'a> {
        let mut sorted = Clauses::default();
        for clause in clauses {
            match recognise(clause) {
                Some(condition) => {
                    sorted.pushed.push(clause);
                    sorted.conditions.push(condition);
                }
                None => sorted.rest.push(clause),
            }
        }
        sorted
    }
}

impl Scan<'_> {
    fn estimate(&self) -> Estimate {
        let (planned, cold) = (self.planned, self.cold);
        let units = unit_costs();
        let widths = widths(self.table, self.layout);
        let width: f64 = widths.iter().sum();
        let needed: f64 = self.attributes.iter().map(|&i| widths[i]).sum();
        let beside = self.beside(&widths);
        let share = (needed + beside) / width.max(1.0);

        let Touched {
            share: touched,
            places,
            operators,
        } = self.touched();
        let cold_pages = cold.bytes as f64 / f64::from(PAGE_BYTES);
        let hot_pages = f64::from(self.hot_pages);
        // At least the footer of every group is read, and, where a row is left, the chunks of its
        // group.
        let groups = f64::from(cold.groups);
        let of_groups = touched.max(places / groups.max(1.0)).min(1.0);
        let read = (groups + cold_pages * share * of_groups).min(cold_pages);
        let pages = hot_pages + read;

        let (cold_rows, stored_rows) = (cold.rows as f64, cold.stored_rows as f64);
        let touched_rows = (stored_rows * touched).max(stored_rows.min(places * ZONE_ROWS as f64));
        let hot_rows = (planned.tuples() - cold_rows).max(0.0);
        let Clauses { pushed, rest, .. } = self.clauses;
        let (first, left) = (planned.qual_cost(pushed), planned.qual_cost(rest));
        let every = QualCost {
            startup: first.startup + left.startup,
            per_tuple: first.per_tuple + left.per_tuple,
        };
        let selected = cold_rows * planned.selectivity(pushed);
        let value = |i: usize| value_cost(&self.layout.attributes[i], widths[i]);
        let values = self.attributes.iter().map(|&i| value(i)).sum::<f64>()
            + beside * STRING_BYTE * units.operator;
        let all_values: f64 = (0..widths.len()).map(value).sum();
        let per_tuple = TUPLE * units.tuple + values;
        let cpu_cost = hot_rows * (units.tuple + every.per_tuple)
            + groups * GROUP * units.tuple
            + touched_rows * operators * PUSHED_OPERATOR * units.operator
            + selected * (per_tuple + left.per_tuple);
        let bytes_as_heap =
            hot_pages * f64::from(PAGE_BYTES) + touched_rows * (TUPLE_OVERHEAD_BYTES + needed);
        Estimate {
            disk_cost: pages * planned.sequential_page_cost(),
            startup_cost: every.startup + START * units.tuple,
            cpu_cost,
            pages_as_heap: (bytes_as_heap / f64::from(PAGE_BYTES)).ceil(),
            decoding_all: cold_rows * all_values,
            decoding_row: values * (cold_rows / planned.tuples().max(1.0)).min(1.0),
            groups,
            hot_rows,
            touched_rows,
            operators,
            selected_rows: selected,
            attribute_pages: (widths.iter())
                .map(|own| cold_pages * of_groups * own / width.max(1.0))
                .collect(),
        }
    }
}

impl Scan<'_> {
    /// The width of the columns that are not needed and lie beside one that is.
    fn beside(&self, widths: &[f64]) -> f64 {
        let options = options::of(self.table.oid());
        let columns = options.grouped_columns.iter();
        let (needed, others): (Vec<usize>, Vec<usize>) = columns
            .filter_map(|&column| usize::try_from(column - 1).ok())
            .filter(|&i| i < widths.len())
            .partition(|i| self.attributes.contains(i));
        match needed.is_empty() {
            true => 0.0,
            false => others.into_iter().map(|i| widths[i]).sum(),
        }
    }
}

/// What the least cost counts of the hot side at most: a plan by index for some hundred rows.
const MOST_FOR_HOT_ROWS: f64 = 200.0;

/// The least cost of a ColumnarScan; `None` if the table has no cold rows.
pub fn least_cost(planned: &PlannedTable<'_>) -> Option<f64> {
    if !settings::columnar_scan() {
        return None;
    }
    let PlannedSize { cold, hot_pages } = planned_size(planned.oid())?;
    let groups = f64::from(cold.groups);
    let footers = groups.min(cold.bytes as f64 / f64::from(PAGE_BYTES));
    let work = (START + groups * GROUP) * unit_costs().tuple;
    let page = planned.sequential_page_cost();
    // Hot rows are read whatever is asked for. But what is not offered a ColumnarScan does not get
    // the surcharges of an offer either, and only small plans are compared well enough without.
    let hot = (f64::from(hot_pages) * page).min(MOST_FOR_HOT_ROWS);
    Some(work + footers * page + hot)
}

/// The offer of a ColumnarScan to the planner; `None` if the table has no cold rows, or system
/// columns other than ctid and tableoid are needed.
pub fn offer(planned: &PlannedTable<'_>) -> Option<Offer> {
    let PlannedSize { cold, hot_pages } = planned_size(planned.oid())?;
    let open = planned.open();
    let table = open.table();
    if !am::is_ours(table) {
        return None;
    }
    let named = planned.attributes(table);
    if named.other_system_columns {
        return None;
    }
    let layout = TableLayout::of(table.descriptor());
    let recognise = |clause| pushdown::recognised(planned, clause, &layout);
    let scan = Scan {
        planned,
        table,
        cold,
        hot_pages,
        attributes: &named.columns,
        layout: &layout,
        clauses: &Clauses::of(planned.clauses(), recognise),
    };
    let estimate = scan.estimate();
    Some(Offer {
        startup_cost: estimate.startup_cost,
        disk_cost: estimate.disk_cost,
        cpu_cost: estimate.cpu_cost,
        // Compressed pages stand for more work.
        pages_as_heap: estimate.pages_as_heap,
        // PostgreSQL's estimate does not include that a sequential scan decodes all columns of cold
        // rows.
        sequential_surcharge: estimate.decoding_all,
        // Nor that a row by index decodes its columns; it takes as long as in a ColumnarScan.
        fetched_row_surcharge: estimate.decoding_row,
    })
}

/// A table as a Vectorized plan would read it.
pub struct Reading {
    layout: TableLayout,
    estimate: Estimate,
    /// Average bytes of each attribute whose values are documents, arrays or the like; 0 of others.
    image_bytes: Vec<f64>,
    /// Attributes of conditions that groups evaluate.
    filtered: Vec<usize>,
}

/// The cost of reading the table, without parameters; `None` if it has no cold rows.
pub fn reading(planned: &PlannedTable<'_>) -> Option<Reading> {
    let PlannedSize { cold, hot_pages } = planned_size(planned.oid())?;
    let open = planned.open();
    let table = open.table();
    if !am::is_ours(table) {
        return None;
    }
    let layout = TableLayout::of(table.descriptor());
    let named = planned.attributes(table);
    let clauses = Clauses::of(planned.clauses(), |clause| {
        condition_of(clause.node(), planned.rti(), &layout)
    });
    let scan = Scan {
        planned,
        table,
        cold,
        hot_pages,
        attributes: &named.columns,
        layout: &layout,
        clauses: &clauses,
    };
    let estimate = scan.estimate();
    let image_bytes = (layout.attributes.iter().enumerate())
        .map(|(i, attribute)| match attribute.column_type {
            ColumnType::Bytes if !attribute.dropped => average_width(table, i),
            _ => 0.0,
        })
        .collect();
    let conditions = clauses.conditions.iter();
    let filtered = conditions.map(|pushed| pushed.tested.attribute);
    Some(Reading {
        filtered: filtered.collect(),
        estimate,
        image_bytes,
        layout,
    })
}

// Measured on 20 million rows: threads decode and aggregate a value in 1 to 3 ns, where a row of a
// sequential scan takes 100. Opening a group takes 5 µs. A filter takes as long as that of a
// ColumnarScan, which works on the same encoded values: only threads make it faster.

/// Each thread has this many rows to read: its start takes as long as a good part of them.
pub const ROWS_OF_A_THREAD: usize = MAX_ROWS / 2;

/// Decoding and aggregating one value by a thread, in units of `cpu_operator_cost`.
const VECTOR_VALUE: f64 = 0.04;
/// The same for text and other types that are not passed by value.
const VECTOR_STRING: f64 = 0.4;
/// Decoding each byte of documents, arrays and other values that are no text, in the same units:
/// about half a nanosecond, where a row of a ColumnarScan with such a value takes one for each byte
/// (1.3 in the few columns that lie in compressed frames).
const IMAGE_BYTE: f64 = 0.05;
/// Copying and verifying a page for values that no row is left of, in units of `cpu_tuple_cost`:
/// about 2.5 µs. Those of rows that are left include it.
const COPIED_PAGE: f64 = 25.0;
/// Planning, starting and ending a run, in units of `cpu_tuple_cost`. It takes some 50 µs more than
/// a ColumnarScan. The paths that it competes with where few rows are read, by index or by
/// ColumnarScan, take about a quarter of what they are priced at; and so does this.
const RUN: f64 = 2900.0;
/// A group by keys that are not passed by value, in the same units: hashing and comparing the key,
/// copying it into the table, merging it with those of other threads, and copying it into the
/// result. Of 10,000 to a million texts that are all different it took a third longer than
/// PostgreSQL's HashAggregate.
pub const STRING_GROUP: f64 = 1.0;
/// One of the first rows, and each of its values, in the same units: its key in the heap, its
/// values by themselves.
pub const FIRST_ROW: f64 = 2.0;
pub const FIRST_VALUE: f64 = 1.0;
/// Opening each further table, in the same units.
const TABLE: f64 = 50.0;

/// The conditions of a Vectorized plan.
#[derive(Clone, Copy)]
pub struct Filter {
    pub conjuncts: usize,
    /// What those cost for each row that read values of any length.
    pub each: f64,
}

impl Filter {
    /// Its work on a row, in units of `cpu_operator_cost`; the clauses that groups evaluate come to
    /// so many operators.
    fn work(self, pushed: f64) -> f64 {
        pushed.max(self.conjuncts as f64) * PUSHED_OPERATOR + self.each / unit_costs().operator
    }
}

/// The least cost of a Vectorized plan for any query over tables with this many row groups.
pub fn least_cost_of_vectorized(groups: u32) -> f64 {
    (f64::from(groups) * GROUP / 4.0 + RUN) * unit_costs().tuple
}

impl Reading {
    /// How many of so many threads the table keeps busy by itself, as a run decides.
    pub fn busy_threads(&self, threads: usize) -> usize {
        let Estimate {
            groups,
            touched_rows,
            ..
        } = self.estimate;
        let busy = groups.min(touched_rows / ROWS_OF_A_THREAD as f64);
        threads.min(busy as usize)
    }

    /// The cost for a Vectorized plan of reading these attributes.
    pub fn cost(&self, attributes: &[usize], filter: Filter, threads: usize) -> f64 {
        let estimate = &self.estimate;
        let values: f64 = (attributes.iter())
            .map(|&i| {
                let of_images = IMAGE_BYTE * self.image_bytes[i];
                vector_value(&self.layout.attributes[i]) + of_images
            })
            .sum();
        let cold = estimate.touched_rows * filter.work(estimate.operators)
            + estimate.selected_rows * values;
        let copied_pages: f64 = (attributes.iter())
            .filter(|i| !self.filtered.contains(i))
            .map(|&i| estimate.attribute_pages[i])
            .sum();
        let dropped = 1.0 - (estimate.selected_rows / estimate.touched_rows.max(1.0)).min(1.0);
        estimate.disk_cost
            + copied_pages * dropped * COPIED_PAGE * unit_costs().tuple
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

/// The cost of opening groups, and of this much work of threads in units of `cpu_operator_cost`.
fn cost_of_cold_rows(groups: f64, work: f64, threads: usize) -> f64 {
    let units = unit_costs();
    groups * GROUP / 4.0 * units.tuple + work * units.operator / threads.max(1) as f64
}

fn cost_of_hot_rows(rows: f64, attribute_count: usize) -> f64 {
    let units = unit_costs();
    rows * (units.tuple + attribute_count as f64 * units.operator)
}

/// The maximal number of stored rows of a table for which [`small_reading`] is meant.
const SMALL_ROWS: u64 = 2 * ZONE_ROWS as u64;

/// The cost for a Vectorized plan of reading these attributes of a small howdah table, one of many:
/// as [`Reading::cost`], but without any look-up, and as if no group and no zone were skipped.
/// `None` if the table is not small.
pub fn small_reading<'a>(
    table: &QueriedTable,
    attributes: impl Iterator<Item = &'a AttributeLayout>,
    filter: Filter,
    threads: usize,
) -> Option<f64> {
    let cold = planned_size(table.oid)?.cold;
    if cold.stored_rows > SMALL_ROWS {
        return None;
    }
    let (tuples, rows) = table.tuples_and_rows();
    let hot_rows = (tuples - cold.rows as f64).max(0.0);
    let (mut values, mut attribute_count) = (0.0, 0);
    for attribute in attributes {
        values += vector_value(attribute);
        attribute_count += 1;
    }
    let work = cold.stored_rows as f64 * filter.work(0.0) + rows * values;
    Some(
        table.cost_of_pages()
            + cost_of_cold_rows(f64::from(cold.groups), work, threads)
            + cost_of_hot_rows(hot_rows, attribute_count),
    )
}

/// The cost for a Vectorized plan of reading this many attributes of a table without cold rows.
pub fn hot_reading(table: &QueriedTable, attribute_count: usize) -> f64 {
    let (tuples, _) = table.tuples_and_rows();
    table.cost_of_pages() + cost_of_hot_rows(tuples, attribute_count)
}

/// The cost of running a Vectorized plan that reads this many tables and returns this many rows,
/// without the cost of reading the tables. `each` is what a row costs besides, in units of
/// `cpu_tuple_cost`.
pub fn cost_of_run(rows: f64, table_count: usize, each: f64) -> f64 {
    let units = unit_costs();
    let more_tables = table_count.saturating_sub(1) as f64;
    rows * 2.0 * units.operator + (rows * each + RUN + more_tables * TABLE) * units.tuple
}

// `sum(CASE WHEN k < 5 THEN v END)`, `sum(length(w))`, on 10,000 to a million rows, against the
// same in a ColumnarScan with PostgreSQL's own aggregate.

/// Turning one value into a datum or back, in units of `cpu_operator_cost`.
const PASSED_VALUE: f64 = 1.3;
/// The same for text and other types that are not passed by value.
const PASSED_STRING: f64 = 1.9;

/// The cost of passing values of these forms to PostgreSQL or back, once each.
pub fn cost_of_passing(values: impl Iterator<Item = AttributeLayout>) -> f64 {
    let operators: f64 = values
        .map(|value| match value.by_value {
            true => PASSED_VALUE,
            false => PASSED_STRING,
        })
        .sum();
    operators * unit_costs().operator
}

/// The attributes of a relation on which this backend holds a lock.
pub fn layout_of(relation: Oid) -> TableLayout {
    TableLayout::of(OpenRelation::open_locked(relation).table().descriptor())
}

/// The cost of decoding a value.
fn value_cost(attribute: &AttributeLayout, width: f64) -> f64 {
    let operators = match attribute.column_type {
        _ if attribute.dropped => 0.0,
        _ if attribute.by_value => VALUE,
        ColumnType::Numeric => NUMERIC,
        _ => STRING + STRING_BYTE * width,
    };
    operators * unit_costs().operator
}

/// Average bytes of each attribute.
fn widths(table: Table<'_>, layout: &TableLayout) -> Vec<f64> {
    let attributes = layout.attributes.iter().enumerate();
    attributes
        .map(|(i, attribute)| match attribute.dropped {
            true => 0.0,
            false => average_width(table, i),
        })
        .collect()
}

/// The part of the cold side that is read, and the work on it.
struct Touched {
    /// The share of zones that statistics cannot exclude.
    share: f64,
    /// The number of places in which these are, if rows are in order.
    places: f64,
    /// Evaluations of a row: one for a clause, more for a list of values.
    operators: f64,
}

/// The share of zones that clauses of this selectivity touch on a column of this correlation with
/// the order of rows: `cost_index` interpolates between pages in the same way.
fn share_of_zones(correlation: f64, selectivity: f64) -> f64 {
    let square = correlation.powi(2);
    square * selectivity + (1.0 - square)
}

/// Looking for a value in a list of several, in the same units as [`Touched::operators`]: for a
/// number, and for a string, which is decoded for it.
const LISTED_NUMBER: f64 = 4.0;
const LISTED_STRING: f64 = 24.0;

impl Scan<'_> {
    /// Clauses on one column count together: both bounds of a range select far less than either.
    fn touched(&self) -> Touched {
        let mut columns: Vec<(usize, Vec<Clause<'_>>)> = Vec::new();
        let (mut places, mut operators) = (f64::INFINITY, 0.0);
        let Clauses {
            pushed, conditions, ..
        } = self.clauses;
        for (&clause, pushed) in pushed.iter().zip(conditions) {
            let attribute = pushed.tested.attribute;
            let listed = match self.layout.attributes[attribute].by_value {
                true => LISTED_NUMBER,
                false => LISTED_STRING,
            };
            let (mut values, mut evaluations) = (0.0, 0.0);
            for operand in &pushed.operands {
                let length = match *operand {
                    OperandNode::Array(array) => self.planned.array_length(array).max(1.0),
                    OperandNode::Value(_) => 1.0,
                };
                values += length;
                evaluations += if length > 1.0 { listed } else { 1.0 };
            }
            // A test without an operand is evaluated as well.
            let values: f64 = values.max(1.0);
            operators += f64::max(evaluations, 1.0);
            match pushed.tested.test {
                ref test if test.is_pattern() => continue,
                Test::NotAll(_) => {}
                _ => places = places.min(values),
            }
            match columns.iter_mut().find(|(i, _)| *i == attribute) {
                Some((_, clauses)) => clauses.push(clause),
                None => columns.push((attribute, vec![clause])),
            }
        }
        let share = columns
            .iter()
            .map(|(i, clauses)| {
                share_of_zones(
                    correlation(self.table, *i),
                    self.planned.selectivity(clauses),
                )
            })
            .fold(1.0, f64::min);
        Touched {
            share,
            places: if places.is_finite() { places } else { 1.0 },
            operators,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_rows_are_in_order_the_fewer_zones_are_touched() {
        assert_eq!(share_of_zones(1.0, 0.25), 0.25);
        assert_eq!(share_of_zones(-1.0, 0.25), 0.25, "in falling order");
        assert_eq!(share_of_zones(0.0, 0.25), 1.0);
        assert_eq!(share_of_zones(0.5, 0.2), 0.8);
    }
}
