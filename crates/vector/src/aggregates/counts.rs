//! How many rows and values groups have: counted once for each batch and argument, whatever the
//! number of aggregates.
//!
//! Invariant: a group's values of an argument are its rows less its missing ones. Arguments that
//! are never NULL cost nothing.

use super::kernel::GroupIds;

/// The rows of each group.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    rows: Vec<i64>,
}

/// The rows of each group that have no value for one argument: NULLs, and those that a FILTER
/// leaves out.
#[derive(Debug, Default)]
pub(crate) struct Missing {
    /// Empty while there are none.
    rows: Vec<i64>,
}

/// Groups that are counted in several arrays at once.
const FEW: usize = 256;

/// Arrays, so that additions to the same group need not wait for each other.
const LANES: usize = 4;

fn add(counts: &mut [i64], groups: GroupIds<'_>, row_count: usize) {
    match groups {
        GroupIds::One(group) => counts[group as usize] += row_count as i64,
        GroupIds::Each(groups) if counts.len() <= FEW => {
            let mut lanes = [[0u32; FEW]; LANES];
            let (chunks, rest) = groups.as_chunks::<LANES>();
            for chunk in chunks {
                for (lane, &group) in lanes.iter_mut().zip(chunk) {
                    lane[group as usize % FEW] += 1;
                }
            }
            for &group in rest {
                lanes[0][group as usize % FEW] += 1;
            }
            for (group, count) in counts.iter_mut().enumerate() {
                *count += lanes.iter().map(|lane| i64::from(lane[group])).sum::<i64>();
            }
        }
        GroupIds::Each(groups) => {
            for &group in groups {
                counts[group as usize] += 1;
            }
        }
        GroupIds::Runs { ids, ends } => {
            let mut start = 0;
            for (&group, &end) in ids.iter().zip(ends) {
                counts[group as usize] += i64::from(end - start);
                start = end;
            }
        }
    }
}

impl Counts {
    pub(crate) fn resize(&mut self, group_count: usize) {
        self.rows.resize(group_count, 0);
    }

    pub(crate) fn add(&mut self, groups: GroupIds<'_>, row_count: usize) {
        add(&mut self.rows, groups, row_count);
    }

    pub(crate) fn add_to(&mut self, group: usize, row_count: i64) {
        self.rows[group] += row_count;
    }

    /// Forgets the rows of a group.
    pub(crate) fn clear(&mut self, group: usize) {
        self.rows[group] = 0;
    }

    #[inline]
    pub(crate) fn rows(&self, group: usize) -> i64 {
        self.rows[group]
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<i64>()
    }
}

impl Missing {
    /// Adds the rows of a batch that are not among `valid`, which ascend.
    pub(crate) fn add(
        &mut self,
        group_count: usize,
        groups: GroupIds<'_>,
        row_count: usize,
        valid: &[u32],
    ) {
        if valid.len() == row_count {
            return;
        }
        self.resize(group_count);
        match groups {
            GroupIds::One(group) => self.rows[group as usize] += (row_count - valid.len()) as i64,
            GroupIds::Each(groups) => {
                for &group in groups {
                    self.rows[group as usize] += 1;
                }
                for &row in valid {
                    self.rows[groups[row as usize] as usize] -= 1;
                }
            }
            GroupIds::Runs { ids, ends } => {
                let mut left = valid;
                let mut start = 0;
                for (&group, &end) in ids.iter().zip(ends) {
                    let (here, after) = left.split_at(left.partition_point(|&row| row < end));
                    self.rows[group as usize] += i64::from(end - start) - here.len() as i64;
                    (left, start) = (after, end);
                }
            }
        }
    }

    pub(crate) fn add_to(&mut self, group_count: usize, group: usize, row_count: i64) {
        if row_count > 0 {
            self.resize(group_count);
            self.rows[group] += row_count;
        }
    }

    fn resize(&mut self, group_count: usize) {
        if self.rows.len() < group_count {
            self.rows.resize(group_count, 0);
        }
    }

    #[inline]
    pub(crate) fn of(&self, group: usize) -> i64 {
        self.rows.get(group).copied().unwrap_or(0)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.rows.capacity() * size_of::<i64>()
    }
}
