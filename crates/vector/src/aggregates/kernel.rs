//! The loops that every accumulator shares: they add values of a batch to states of groups.

use std::convert::Infallible;
use std::ops::Range;

use howdah_columnar::wide;

/// The groups of the rows of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum GroupIds<'a> {
    /// Every row belongs to this one.
    One(u32),
    /// One for each row.
    Each(&'a [u32]),
    /// One for each run of rows.
    Runs {
        /// The group of each run.
        ids: &'a [u32],
        /// One past the last row of each run, ascending.
        ends: &'a [u32],
    },
}

impl<'a> GroupIds<'a> {
    /// Calls a function with the group and the rows of each run.
    #[inline(always)]
    pub(crate) fn each_run<E>(
        ids: &[u32],
        ends: &[u32],
        mut visit: impl FnMut(usize, Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut start = 0;
        for (&id, &end) in ids.iter().zip(ends) {
            let end = end as usize;
            visit(id as usize, start..end)?;
            start = end;
        }
        Ok(())
    }

    /// A group for each row instead of runs, in the room given.
    pub(crate) fn without_runs<'b>(self, room: &'b mut Vec<u32>) -> GroupIds<'b>
    where
        'a: 'b,
    {
        let Self::Runs { ids, ends } = self else {
            return self;
        };
        room.clear();
        for (&id, &end) in ids.iter().zip(ends) {
            room.resize(end as usize, id);
        }
        GroupIds::Each(room)
    }
}

/// The rows of a batch that have a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows<'a> {
    /// All; this is their number.
    All(usize),
    /// These, ascending.
    Some(&'a [u32]),
}

impl Rows<'_> {
    pub(crate) fn len(self) -> usize {
        match self {
            Self::All(count) => count,
            Self::Some(rows) => rows.len(),
        }
    }
}

/// Calls a function with the group and the number of each of some rows, which ascend.
#[inline(always)]
fn each_of_runs<E>(
    ids: &[u32],
    ends: &[u32],
    rows: &[u32],
    mut visit: impl FnMut(usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    let mut run = 0;
    for &row in rows {
        while ends[run] <= row {
            run += 1;
        }
        visit(ids[run] as usize, row as usize)?;
    }
    Ok(())
}

/// Gives each value to the state of its group.
#[inline(always)]
pub(crate) fn each<S, T: Copy>(
    states: &mut [S],
    groups: GroupIds<'_>,
    rows: Rows<'_>,
    values: &[T],
    mut add: impl FnMut(&mut S, T),
) {
    match (groups, rows) {
        (GroupIds::Each(groups), Rows::All(_)) => {
            for (&group, &value) in groups.iter().zip(values) {
                add(&mut states[group as usize], value);
            }
        }
        (GroupIds::Each(groups), Rows::Some(rows)) => {
            for &row in rows {
                let row = row as usize;
                add(&mut states[groups[row] as usize], values[row]);
            }
        }
        (GroupIds::Runs { ids, ends }, Rows::All(_)) => {
            let Ok(()) = GroupIds::each_run(ids, ends, |group, rows| {
                let state = &mut states[group];
                for &value in &values[rows] {
                    add(state, value);
                }
                Ok::<(), Infallible>(())
            });
        }
        (GroupIds::Runs { ids, ends }, Rows::Some(rows)) => {
            let Ok(()) = each_of_runs(ids, ends, rows, |group, row| {
                add(&mut states[group], values[row]);
                Ok::<(), Infallible>(())
            });
        }
        (GroupIds::One(group), Rows::All(_)) => {
            let state = &mut states[group as usize];
            for &value in values {
                add(state, value);
            }
        }
        (GroupIds::One(group), Rows::Some(rows)) => {
            let state = &mut states[group as usize];
            for &row in rows {
                add(state, values[row as usize]);
            }
        }
    }
}

/// Calls a function with the group and the position of each row that has a value.
#[inline(always)]
pub(crate) fn each_row<E>(
    groups: GroupIds<'_>,
    rows: Rows<'_>,
    mut visit: impl FnMut(usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    let group = |row: usize| match groups {
        GroupIds::One(group) => group as usize,
        GroupIds::Each(groups) => groups[row] as usize,
        GroupIds::Runs { ids, ends } => {
            ids[ends.partition_point(|&end| end as usize <= row)] as usize
        }
    };
    match (groups, rows) {
        (GroupIds::Runs { ids, ends }, Rows::All(_)) => {
            GroupIds::each_run(ids, ends, |group, mut rows| {
                rows.try_for_each(|row| visit(group, row))
            })
        }
        (GroupIds::Runs { ids, ends }, Rows::Some(rows)) => each_of_runs(ids, ends, rows, visit),
        (_, Rows::All(count)) => (0..count).try_for_each(|row| visit(group(row), row)),
        (_, Rows::Some(rows)) => rows
            .iter()
            .try_for_each(|&row| visit(group(row as usize), row as usize)),
    }
}

/// Values of independent sums, so that additions need not wait for each other.
const LANES: usize = 16;

/// Folds the values of rows in several lanes.
#[inline(always)]
pub(crate) fn fold<T: Copy, S: Copy>(
    rows: Rows<'_>,
    values: &[T],
    identity: S,
    add: impl Fn(S, T) -> S,
    join: impl Fn(S, S) -> S,
) -> S {
    wide(
        #[inline(always)]
        move || fold_lanes(rows, values, identity, add, join),
    )
}

#[inline(always)]
fn fold_lanes<T: Copy, S: Copy>(
    rows: Rows<'_>,
    values: &[T],
    identity: S,
    add: impl Fn(S, T) -> S,
    join: impl Fn(S, S) -> S,
) -> S {
    let mut lanes = [identity; LANES];
    let mut last = identity;
    match rows {
        Rows::All(_) => {
            let (chunks, rest) = values.as_chunks::<LANES>();
            for chunk in chunks {
                for (lane, &value) in lanes.iter_mut().zip(chunk) {
                    *lane = add(*lane, value);
                }
            }
            last = rest.iter().fold(last, |last, &value| add(last, value));
        }
        Rows::Some(rows) => {
            let (chunks, rest) = rows.as_chunks::<LANES>();
            for chunk in chunks {
                for (lane, &row) in lanes.iter_mut().zip(chunk) {
                    *lane = add(*lane, values[row as usize]);
                }
            }
            last = rest
                .iter()
                .fold(last, |last, &row| add(last, values[row as usize]));
        }
    }
    lanes.into_iter().fold(last, join)
}

/// Groups whose states fit several local arrays.
const FEW: usize = 256;

/// Rows of a run that are worth several lanes.
const LONG_RUN: usize = 4 * LANES;

/// Local arrays, so that additions to the same group need not wait for each other.
const COPIES: usize = 4;

/// Adds values to the sums of their groups.
#[inline(always)]
pub(crate) fn sum_each<S: Copy, T: Copy>(
    states: &mut [S],
    groups: GroupIds<'_>,
    rows: Rows<'_>,
    values: &[T],
    identity: S,
    add: impl Fn(S, T) -> S,
    join: impl Fn(S, S) -> S,
) {
    match (groups, rows) {
        (GroupIds::One(group), _) => {
            let state = &mut states[group as usize];
            *state = join(*state, fold(rows, values, identity, add, join_of(&join)));
        }
        (GroupIds::Each(groups), Rows::All(count)) if states.len() <= FEW && count >= 4 * FEW => {
            let mut copies = [[identity; FEW]; COPIES];
            let (groups, last_groups) = groups.as_chunks::<COPIES>();
            let (values, last_values) = values.as_chunks::<COPIES>();
            for (groups, values) in groups.iter().zip(values) {
                for ((copy, &group), &value) in copies.iter_mut().zip(groups).zip(values) {
                    let state = &mut copy[group as usize % FEW];
                    *state = add(*state, value);
                }
            }
            for (&group, &value) in last_groups.iter().zip(last_values) {
                let state = &mut copies[0][group as usize % FEW];
                *state = add(*state, value);
            }
            for (group, state) in states.iter_mut().enumerate() {
                for copy in &copies {
                    *state = join(*state, copy[group]);
                }
            }
        }
        (GroupIds::Runs { ids, ends }, Rows::All(_)) => {
            let Ok(()) = GroupIds::each_run(ids, ends, |group, rows| {
                let state = &mut states[group];
                let values = &values[rows];
                *state = match values.len() >= LONG_RUN {
                    true => {
                        let rows = Rows::All(values.len());
                        join(*state, fold(rows, values, identity, &add, join_of(&join)))
                    }
                    false => values.iter().fold(*state, |sum, &value| add(sum, value)),
                };
                Ok::<(), Infallible>(())
            });
        }
        _ => each(states, groups, rows, values, |state, value| {
            *state = add(*state, value);
        }),
    }
}

fn join_of<S>(join: &impl Fn(S, S) -> S) -> impl Fn(S, S) -> S {
    move |a, b| join(a, b)
}
