//! Extremes of columns that tell without a look at each value: zones whose bounds would change no
//! group's extreme; few words, of which each is added once to a group however many rows have it;
//! and integers that rise or fall evenly, of which the first and the last row of a group are the
//! extremes.
//!
//! The last and the first zone of a morsel are aggregated before the others. Where values rise or
//! fall from row to row, these have the extremes of all groups with many rows, and the others are
//! skipped.

use std::ops::Range;

use howdah_columnar::{ColumnType, ZONE_ROWS};

use super::{AggregatePlan, Aggregation};
use crate::aggregates::State;
use crate::aggregates::kernel::{GroupIds, Rows};
use crate::error::VectorError;
use crate::expr::{Input, take};
use crate::operators::scan::{OpenColumn, Zone};

/// The maximal number of pairs of a group and a word that are recorded for each row of a zone.
const MOST_PAIRS: usize = 8;

/// Sets the position of each row's group, so that the last one stays.
#[inline(never)]
fn set_positions<'a>(positions: &mut [u32], rows: impl Iterator<Item = (u32, &'a u32)>) {
    for (position, &id) in rows {
        positions[id as usize] = position;
    }
}

/// The groups that have a position, with it, which is forgotten.
fn met_of(positions: &mut [u32]) -> Vec<(u32, u32)> {
    let met = (0u32..)
        .zip(positions.iter_mut())
        .map(|(group, position)| (group, std::mem::replace(position, u32::MAX)));
    met.filter(|&(_, position)| position != u32::MAX).collect()
}

impl AggregatePlan {
    /// Puts the last and the first zone of a morsel first, if extremes of columns are computed.
    /// Not if an expression may raise an error: the first one that is met is raised.
    pub(crate) fn order_zones(&self, zones: &mut [Range<usize>]) {
        let is_column = |input: usize| {
            let argument = self.inputs[input].argument.as_ref();
            argument.is_some_and(|argument| argument.as_column().is_some())
        };
        let mut states = self.states.iter();
        if states.any(|&(input, state, _)| is_extreme(state) && is_column(input))
            && !self.can_fail()
            && zones.len() > 2
        {
            zones.rotate_right(1);
        }
    }
}

fn is_extreme(state: State) -> bool {
    matches!(state, State::Min | State::Max)
}

impl Aggregation {
    /// Whether the values of a zone would change no state of an input: then they are not read. The
    /// column has no NULLs, which would have to be counted.
    pub(super) fn is_settled(
        &self,
        plan: &AggregatePlan,
        at: usize,
        column: usize,
        zone: &Zone<'_>,
    ) -> bool {
        // The look at all groups costs less than the look at the rows.
        if self.group_count > zone.row_count() {
            return false;
        }
        let Some(OpenColumn::Chunk(_, meta)) = zone.morsel().columns.get(column) else {
            return false;
        };
        let has_other_states = || {
            let mut states = plan.states.iter();
            states.any(|&(input, state, _)| input == at && !is_extreme(state))
        };
        if has_other_states() {
            return false;
        }
        let Some(bounds) = meta.zone(zone.rows().start / ZONE_ROWS) else {
            return false;
        };
        let (0, Some(least), Some(greatest)) = (bounds.null_count, &bounds.min, &bounds.max) else {
            return false;
        };
        let mut accumulators = self.accumulators.iter().zip(&plan.states);
        accumulators.all(|(accumulator, &(input, ..))| {
            input != at || accumulator.is_settled(&least.value, &greatest.value)
        })
    }

    /// Adds a column of integers that rise or fall evenly to extremes: of each group only the first
    /// and the last row. `false` if the column is not stored so, or has other states, too.
    pub(super) fn add_rising(
        &mut self,
        plan: &AggregatePlan,
        at: usize,
        column: usize,
        zone: &Zone<'_>,
        groups: GroupIds<'_>,
    ) -> Result<bool, VectorError> {
        let mut states = plan.states.iter();
        let GroupIds::Each(ids) = groups else {
            return Ok(false);
        };
        if self.group_count * MOST_PAIRS > ids.len()
            || !states.all(|&(input, state, _)| input != at || is_extreme(state))
        {
            return Ok(false);
        }
        let Some(rise) = zone.rise(column)? else {
            return Ok(false);
        };
        let wants = |wanted: State| {
            let mut states = plan.states.iter();
            states.any(|&(input, state, _)| input == at && state == wanted)
        };
        let (of_first, of_last) = match rise.step >= 0 {
            true => (State::Min, State::Max),
            false => (State::Max, State::Min),
        };
        let mut met: Vec<(u32, u32)> = Vec::new();
        let mut positions = vec![u32::MAX; self.group_count];
        if wants(of_last) {
            set_positions(&mut positions, (0u32..).zip(ids));
            met.extend(met_of(&mut positions));
        }
        if wants(of_first) {
            set_positions(
                &mut positions,
                (0..ids.len() as u32).rev().zip(ids.iter().rev()),
            );
            met.extend(met_of(&mut positions));
        }
        let rows = zone.selection().map(|_| zone.row_numbers());
        let row = |position: u32| match &rows {
            Some(rows) => rows[position as usize] as usize,
            None => zone.rows().start + position as usize,
        };
        let values = rise.column(met.iter().map(|&(_, position)| row(position)));
        let met_groups: Vec<u32> = met.into_iter().map(|(group, _)| group).collect();
        let groups = GroupIds::Each(&met_groups);
        self.update(plan, at, groups, Rows::All(met_groups.len()), &values)?;
        Ok(true)
    }

    /// Adds the words of a column to extremes: each word once per group, however many rows have it.
    /// `false` if the column does not consist of few words, has nulls, or has other states, too.
    pub(super) fn add_words(
        &mut self,
        plan: &AggregatePlan,
        at: usize,
        column: usize,
        zone: &Zone<'_>,
        groups: GroupIds<'_>,
    ) -> Result<bool, VectorError> {
        let are_extremes = plan.states.iter().all(|&(input, state, ty)| {
            let is_string = matches!(
                ty,
                ColumnType::Text | ColumnType::Bytes | ColumnType::Fixed { .. }
            );
            input != at || is_string && matches!(state, State::Min | State::Max)
        });
        if !are_extremes || zone.may_have_nulls(column) {
            return Ok(false);
        }
        let Some(dictionary) = zone.morsel().dictionary(column) else {
            return Ok(false);
        };
        let word_count = dictionary.words.len();
        let group_count = match groups {
            GroupIds::One(_) => 1,
            GroupIds::Each(_) | GroupIds::Runs { .. } => self.group_count,
        };
        let pair_count = word_count.saturating_mul(group_count);
        if dictionary.words.null_count() > 0 || pair_count > MOST_PAIRS * zone.row_count() {
            return Ok(false);
        }
        let mut of_rows = Vec::new();
        let groups = groups.without_runs(&mut of_rows);
        let mut codes = Vec::new();
        if dictionary.is_constant() {
            codes.push(0);
        }
        let mut is_met = vec![false; pair_count];
        match groups {
            GroupIds::One(_) | GroupIds::Runs { .. } => {
                if !dictionary.is_constant() {
                    dictionary.codes_of(zone, &mut codes);
                }
                codes.iter().for_each(|&code| is_met[code as usize] = true);
            }
            GroupIds::Each(ids) => {
                dictionary.codes_of(zone, &mut codes);
                for (&group, &code) in ids.iter().zip(&codes) {
                    is_met[group as usize * word_count + code as usize] = true;
                }
            }
        }
        let pairs = (0..pair_count).filter(|&pair| is_met[pair]);
        let words: Vec<u32> = pairs
            .clone()
            .map(|pair| (pair % word_count) as u32)
            .collect();
        let met_groups: Vec<u32> = pairs.map(|pair| (pair / word_count) as u32).collect();
        let met_groups = match groups {
            GroupIds::One(group) => GroupIds::One(group),
            GroupIds::Each(_) | GroupIds::Runs { .. } => GroupIds::Each(&met_groups),
        };
        let values = take(&dictionary.words, &words)?;
        self.update(plan, at, met_groups, Rows::All(words.len()), &values)?;
        Ok(true)
    }
}
