//! Whether a query is offered to the planner, and at what cost.

use std::sync::Arc;

use howdah_bridge::relation::OpenRelation;
use howdah_bridge::upper::tables::is_heap;
use howdah_bridge::upper::{
    Node, Offer, Planner, QueriedTable, Reason, Shape, Stage, hash_memory_bytes,
};

use howdah_columnar::{ColumnType, ZONE_ROWS};
use howdah_vector::foreign::Exchange;
use howdah_vector::operators::Compiled;

use super::foreign::Planned;
use super::translate::{ForeignPart, reason_of, translate};
use crate::am::estimate::planned_size;
use crate::am::is_ours;
use crate::columnar_scan::{
    FIRST_ROW, FIRST_VALUE, Filter, STRING_GROUP, cost_of_passing, cost_of_run, hot_reading,
    layout_of, least_cost_of_vectorized, reading, small_reading,
};
use crate::settings;
use crate::types::{AttributeLayout, TableLayout};

/// The approximate size of a group in the engine's tables, and of each of its aggregates, in bytes.
const GROUP_BYTES: usize = 32;
const STATE_BYTES: usize = 16;
/// A query that seems to need more than this many times the memory of a hash table is declined.
/// Below that it is tried: groups by expressions are often far fewer than expected, and giving up
/// half-way costs little compared with PostgreSQL's own plan.
const TRIED: f64 = 8.0;

/// How many times as much a run costs that is one of many, for the rows of a query around it.
/// Measured over a million rows: at the same estimate a run took 1.3 to 1.5 times as long as
/// PostgreSQL's own plan, since operands are translated and threads are started for each.
const AGAIN: f64 = 2.0;

/// The least cost of any query over these tables. Some of them must have cold rows.
pub fn least_cost(tables: &[QueriedTable]) -> Result<f64, Reason> {
    if !settings::vectorized() {
        return Err(Reason::SettingOff);
    }
    let sizes = (tables.iter()).filter_map(|table| Some((table, planned_size(table.oid)?)));
    let (mut groups, mut hot_pages) = (None, 0.0);
    for (table, size) in sizes {
        groups = Some(size.cold.groups.saturating_add(groups.unwrap_or(0)));
        // Hot rows are read whatever is asked for.
        hot_pages += f64::from(size.hot_pages) * table.sequential_page_cost();
    }
    let groups = groups.ok_or(Reason::NoColdRows)?;
    Ok(match settings::force_vectorized() {
        true => 0.0,
        false => least_cost_of_vectorized(groups) + hot_pages,
    })
}

/// Accepts the query if the engine knows all of it, but for expressions that PostgreSQL can
/// evaluate for it, and all of its tables are howdah tables or heap.
pub fn offer<'a>(shape: &Shape<'a>, planner: &Planner<'_>) -> Result<Offer<'a>, Reason> {
    let layout = layout_of(planner.relation());
    let exchange = Arc::new(Exchange::new(Planned::evaluator()));
    // SAFETY: no operand has a value yet.
    let translated = unsafe { translate(shape, &layout, None, exchange)? };
    Compiled::compile(&translated.query).map_err(reason_of)?;
    let group_bytes = GROUP_BYTES + shape.aggregates.len() * STATE_BYTES;
    if shape.stage == Stage::Group
        && planner.rows * group_bytes as f64 > TRIED * hash_memory_bytes() as f64
        && !settings::force_vectorized()
    {
        return Err(Reason::TooManyGroups);
    }
    let filter = Filter {
        conjuncts: shape.filter.len(),
        each: cost_of_images(shape, planner, &layout, &translated.foreign),
    };
    let reading = cost_of_reading(planner, &layout, &translated.attributes, filter)?;
    let cost = match settings::force_vectorized() {
        true => 0.0,
        false => {
            let foreign = cost_of_foreign(shape, planner, &layout, &translated.foreign);
            let run = cost_of_run(planner.rows, planner.tables().len(), cost_of_row(shape));
            let parts = translated.foreign.iter().map(|part| part.node);
            let mut inputs = translated.operands.iter().copied().chain(parts);
            let times = match inputs.any(|node| planner.is_run_again_for(node)) {
                true => AGAIN,
                false => 1.0,
            };
            (reading + foreign + run) * times
        }
    };
    Ok(Offer {
        cost,
        operands: translated.operands,
        foreign: translated.foreign.iter().map(|part| part.node).collect(),
        decisions: translated.decisions,
    })
}

/// What a row of the result costs besides being returned, in units of `cpu_tuple_cost`.
fn cost_of_row(shape: &Shape<'_>) -> f64 {
    let is_string = |key: &Node<'_>| !AttributeLayout::of_type(key.type_oid()).by_value;
    match shape.stage {
        Stage::Group if shape.keys.iter().any(is_string) => STRING_GROUP,
        Stage::Group => 0.0,
        Stage::First => FIRST_ROW + FIRST_VALUE * shape.columns.len() as f64,
    }
}

/// The cost of reading these attributes of all tables. `layout` is that of the relation in the
/// query.
fn cost_of_reading(
    planner: &Planner<'_>,
    layout: &TableLayout,
    attributes: &[usize],
    filter: Filter,
) -> Result<f64, Reason> {
    let threads = settings::threads();
    let mut cost = 0.0;
    for table in planner.tables() {
        let declined = Reason::Child(table.oid);
        let of_table = |&attribute: &usize| table.table.attributes.of(attribute);
        let in_table: Option<Vec<usize>> = attributes.iter().map(of_table).collect();
        let in_table = in_table.ok_or(declined.clone())?;
        if planner.tables().len() > 1 {
            let open = OpenRelation::open_locked(table.oid);
            let is_howdah = is_ours(open.table());
            if !is_howdah && !is_heap(open.table()) {
                return Err(declined);
            }
            let layouts = attributes.iter().map(|&at| &layout.attributes[at]);
            let small = small_reading(table, layouts, filter, threads);
            if let (true, Some(small)) = (is_howdah, small) {
                cost += small;
                continue;
            }
        }
        cost += match reading(&planner.planned(table)) {
            Some(reading) => {
                let threads = match planner.tables().len() {
                    1 => reading.busy_threads(threads),
                    _ => threads,
                };
                reading.cost(&in_table, filter, threads)
            }
            None if planner.tables().len() > 1 => hot_reading(table, in_table.len()),
            None => return Err(Reason::NoColdRows),
        };
    }
    Ok(cost)
}

/// How many times more than PostgreSQL says the engine's own condition on a document takes, beside
/// its other prices. Measured on 200,000 documents of 420 bytes: 90 ns for `@>`, 160 for two
/// comparisons of a number in it, where a row of a ColumnarScan takes 500.
const OF_IMAGE: f64 = 3.0;

/// The cost for each row of conditions on documents, arrays and the like that the engine evaluates
/// itself.
fn cost_of_images(
    shape: &Shape<'_>,
    planner: &Planner<'_>,
    layout: &TableLayout,
    foreign: &[ForeignPart<'_>],
) -> f64 {
    let is_image = |&at: &usize| layout.attributes[at].column_type == ColumnType::Bytes;
    let reads_image = |node: Node<'_>| {
        let read = node.foreign_attributes(shape.rti);
        read.is_ok_and(|attributes| attributes.iter().any(is_image))
    };
    let is_known = |i: usize| foreign.iter().all(|part| part.conjunct != Some(i));
    let conjuncts = shape.filter.iter().enumerate();
    let priced = conjuncts.filter(|&(i, &node)| is_known(i) && reads_image(node));
    priced
        .map(|(_, &node)| planner.cost_of_evaluation(node).1 * OF_IMAGE)
        .sum()
}

/// How many times more than PostgreSQL says a call takes whose arguments are not passed by value.
/// Measured on 2 million rows: `upper(x) LIKE …` took 350 ns, `x ~ …` 460, a row of a sequential
/// scan 100, where PostgreSQL charges an operator for each call and four for the row. It matters
/// only beside plans that make fewer such calls: by workers, which share them as the engine does
/// not, or by an index, for the rows that it finds. Beside one, a count by a range of a number in
/// documents took 90 ms at the price of 12.
const UNDERSTATED: f64 = 12.0;

/// The cost of foreign expressions: all are evaluated by one thread, those of the filter for the
/// rows that the conjuncts before them leave, and known conjuncts come first.
fn cost_of_foreign(
    shape: &Shape<'_>,
    planner: &Planner<'_>,
    layout: &TableLayout,
    parts: &[ForeignPart<'_>],
) -> f64 {
    if parts.is_empty() {
        return 0.0;
    }
    let (all_rows, passed_rows) = planner.rows_and_rows_passed();
    let of_conjunct = |i: usize| parts.iter().filter(move |part| part.conjunct == Some(i));
    let (foreign, known): (Vec<usize>, Vec<usize>) =
        (0..shape.filter.len()).partition(|&i| of_conjunct(i).next().is_some());
    let share = |rows: f64, i: &usize| rows * planner.selectivity(shape.filter[*i]);
    let mut rows = known.iter().fold(all_rows, share);
    let is_shared = planner.has_parallel_plans() || planner.has_index_plan();
    let cost_for = |part: &ForeignPart<'_>, rows: f64| {
        let (once, each) = planner.cost_of_evaluation(part.node);
        let arguments = part.attributes.iter().map(|&at| layout.attributes[at]);
        let each = match is_shared && arguments.clone().any(|of| !of.by_value) {
            true => each * UNDERSTATED,
            false => each,
        };
        let result = AttributeLayout::of_type(part.node.type_oid());
        let rows = match part.attributes.len() {
            // Where such a column is stored as a dictionary, each of its values is evaluated once a
            // zone.
            1 => {
                let values = planner.distinct_arguments(part.node);
                rows * (values / ZONE_ROWS as f64).min(1.0)
            }
            _ => rows,
        };
        once + rows * (each + cost_of_passing(arguments.chain([result])))
    };
    let mut cost = 0.0;
    for i in foreign {
        cost += of_conjunct(i).map(|part| cost_for(part, rows)).sum::<f64>();
        rows = share(rows, &i);
    }
    let of_output = parts.iter().filter(|part| part.conjunct.is_none());
    cost + of_output
        .map(|part| cost_for(part, passed_rows))
        .sum::<f64>()
}
