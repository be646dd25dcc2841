//! Groups of several threads become those of one: all of another state, those of one part, or those
//! that both have.

use super::{AggregatePlan, Aggregation};
use crate::aggregates::Pair;
use crate::error::VectorError;
use crate::stop::Stop;

/// Groups that are merged between two checks of the stop flag.
const MERGE_STEP: usize = 2_048;

impl Aggregation {
    /// Adds the groups of another thread, or those of one of several parts.
    pub(crate) fn merge(
        &mut self,
        plan: &AggregatePlan,
        other: &Self,
        part: Option<(usize, usize)>,
        stop: &Stop<'_>,
    ) -> Result<(), VectorError> {
        let mut groups = Vec::with_capacity(MERGE_STEP);
        for start in (0..other.group_count).step_by(MERGE_STEP) {
            stop.check()?;
            let end = (start + MERGE_STEP).min(other.group_count);
            groups.clear();
            groups.extend((start as u32..end as u32).filter(|&group| {
                part.is_none_or(|(part, count)| other.groups.part_of(group, count) == part)
            }));
            self.merge_groups(plan, other, &groups)?;
        }
        Ok(())
    }

    fn merge_groups(
        &mut self,
        plan: &AggregatePlan,
        other: &Self,
        groups: &[u32],
    ) -> Result<(), VectorError> {
        let mut ids = Vec::with_capacity(groups.len());
        match plan.keys.is_empty() {
            true => ids.push(0),
            false => {
                self.groups.absorb(&other.groups, groups, &mut ids);
                self.resize(self.groups.len());
            }
        }
        self.merge_states(plan, other, &ids, groups)
    }

    /// Merges the states that groups have in another table into those of groups here.
    fn merge_states(
        &mut self,
        plan: &AggregatePlan,
        other: &Self,
        ids: &[u32],
        groups: &[u32],
    ) -> Result<(), VectorError> {
        let mut pairs: Vec<Pair> = ids
            .iter()
            .zip(groups)
            .map(|(&to, &from)| Pair {
                to,
                from,
                here: 0,
                there: 0,
            })
            .collect();
        for (accumulator, (kept, &(input, ..))) in other
            .accumulators
            .iter()
            .zip(self.accumulators.iter_mut().zip(&plan.states))
        {
            for pair in &mut pairs {
                let (to, from) = (pair.to as usize, pair.from as usize);
                pair.here = self.counts.rows(to) - self.missing[input].of(to);
                pair.there = other.counts.rows(from) - other.missing[input].of(from);
            }
            kept.merge(accumulator.as_ref(), &pairs)?;
        }
        for pair in &pairs {
            let (to, from) = (pair.to as usize, pair.from as usize);
            self.counts.add_to(to, other.counts.rows(from));
            for (here, there) in self.missing.iter_mut().zip(&other.missing) {
                here.add_to(self.group_count, to, there.of(from));
            }
        }
        Ok(())
    }

    /// Merges the groups that another thread has, too, into that thread's. They have no rows here
    /// afterwards, and are not returned.
    pub(crate) fn cede(
        &mut self,
        plan: &AggregatePlan,
        to: &mut Self,
        stop: &Stop<'_>,
    ) -> Result<(), VectorError> {
        let (mut ids, mut groups) = (Vec::new(), Vec::new());
        for start in (0..self.group_count).step_by(MERGE_STEP) {
            stop.check()?;
            let end = (start + MERGE_STEP).min(self.group_count);
            groups.clear();
            groups
                .extend((start as u32..end as u32).filter(|&at| self.counts.rows(at as usize) > 0));
            ids.clear();
            to.groups.find(&self.groups, &groups, &mut ids);
            // Groups may be known there before any of their rows.
            let is_there = |&(&id, _): &(&u32, &u32)| (id as usize) < to.group_count;
            let (ids, groups): (Vec<u32>, Vec<u32>) =
                ids.iter().zip(&groups).filter(is_there).unzip();
            to.groups.merge_looks(&self.groups, &ids, &groups);
            to.merge_states(plan, self, &ids, &groups)?;
            groups
                .iter()
                .for_each(|&group| self.counts.clear(group as usize));
        }
        Ok(())
    }
}
