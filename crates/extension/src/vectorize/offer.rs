//! Whether the planner is offered a query, and at what cost.

use howdah_bridge::upper::{Offer, Oid, Planner, Shape, Stage, hash_memory_bytes};
use howdah_vector::operators::Compiled;

use super::translate::translate;
use crate::am::estimate::planned_size;
use crate::columnar_scan::{least_cost_of_vectorized, reading};
use crate::settings;

/// What a group takes in the engine's tables, and each of its aggregates, in bytes, about.
const GROUP_BYTES: usize = 32;
const STATE_BYTES: usize = 16;
/// A query is not taken that seems to need more than so many times what a hash table may have. Below that it is tried:
/// groups by expressions are often far fewer than expected, and to give up half way costs little beside PostgreSQL's own plan.
const TRIED: f64 = 8.0;

/// What any query over a table costs at least, if it has cold rows.
pub fn least_cost(table: Oid) -> Option<f64> {
    if !settings::vectorized() {
        return None;
    }
    let cold = planned_size(table)?;
    Some(match settings::force_vectorized() {
        true => 0.0,
        false => least_cost_of_vectorized(&cold),
    })
}

/// Takes the query if the engine knows all of it and the table has cold rows.
pub fn offer<'a>(shape: &Shape<'a>, planner: &Planner<'_>) -> Option<Offer<'a>> {
    let reading = reading(&planner.planned())?;
    // SAFETY: no operand has a value yet.
    let translated = unsafe { translate(shape, &reading.layout, None)? };
    Compiled::compile(&translated.query).ok()?;
    let group_bytes = GROUP_BYTES + shape.aggregates.len() * STATE_BYTES;
    if shape.stage == Stage::Group
        && planner.rows * group_bytes as f64 > TRIED * hash_memory_bytes() as f64
        && !settings::force_vectorized()
    {
        return None;
    }
    let cost = match settings::force_vectorized() {
        true => 0.0,
        false => reading.cost_of_vectorized(
            &translated.attributes,
            shape.filter.len(),
            planner.rows,
            settings::threads(),
        ),
    };
    Some(Offer {
        cost,
        operands: translated.operands,
    })
}
