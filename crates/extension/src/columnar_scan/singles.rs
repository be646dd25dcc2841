//! Values of a row group that are read one by one, because they are too few for their chunk.
//!
//! A chunk is read and verified as a whole, some megabytes for any column that does not compress
//! well. A scan that reads one zone, or returns a hundred rows, is better served by row access
//! ([`GroupAccess`]). How much is needed turns out piece by piece: values are read one by one
//! until, together, they have cost as much as the chunk; then the chunk is read. So a scan costs at
//! most about twice the cost of the better choice.

use std::ops::Range;
use std::rc::Rc;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use howdah_bridge::store::ColdStore;
use howdah_columnar::{ColumnType, Condition, ReadUnit};

use crate::errors::ColdError;
use crate::store::group_access::GroupAccess;
use crate::store::group_bytes::LazyStore;
use crate::store::group_cache;
use crate::store::open_group::OpenGroup;

// In bytes of a chunk that take as long to read, to verify and to open as the value does.

/// Reading and opening a chunk of any size.
const CHUNK_BYTES: u64 = 32 << 10;
/// A value far from the previous one.
const FAR_VALUE_BYTES: u64 = 4 << 10;
/// A value in a frame of its own.
const FRAME_BYTES: u64 = 64 << 10;
/// A value after its neighbour: a number, a string.
const NEXT_NUMBER_BYTES: u64 = 64;
const NEXT_STRING_BYTES: u64 = 512;

/// Which values of a group were read one by one.
pub struct Singles {
    group: Option<Rc<GroupAccess>>,
    /// What was spent, by column.
    spent_bytes: Vec<u64>,
}

impl Singles {
    pub fn of(open: &OpenGroup) -> Singles {
        Singles {
            group: None,
            spent_bytes: vec![0; open.column_count()],
        }
    }

    /// The group, if the values of these rows of a column should be read one by one; they are
    /// counted as read.
    pub fn group(
        &mut self,
        store: &ColdStore,
        open: &OpenGroup,
        column: usize,
        rows: Spread,
    ) -> Result<Option<Rc<GroupAccess>>, ColdError> {
        if open.has_chunk(column) {
            return Ok(None);
        }
        let meta = open.column(store, column)?;
        let left = CHUNK_BYTES + meta.byte_range.end - meta.byte_range.start;
        let left = left.saturating_sub(self.spent_bytes[column]);
        let next = match is_string(meta.ty) {
            true => NEXT_STRING_BYTES,
            false => NEXT_NUMBER_BYTES,
        };
        if rows.cost(FAR_VALUE_BYTES, next) > left {
            return Ok(None);
        }
        let group = match &self.group {
            Some(group) => Rc::clone(group),
            None => Rc::clone(self.group.insert(group_cache::cached(store, open.entry)?)),
        };
        let cost = match group.unit(&LazyStore::from(store), column)? {
            ReadUnit::Value => rows.cost(FAR_VALUE_BYTES, next),
            ReadUnit::Frame => rows.cost(FRAME_BYTES, next),
            ReadUnit::Chunk => return Ok(None),
        };
        if cost > left {
            return Ok(None);
        }
        self.spent_bytes[column] += cost;
        Ok(Some(group))
    }
}

/// How the rows of values to be read are spread over their group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Rows far from the one before.
    far: u64,
    /// Rows near to it.
    near: u64,
}

/// Rows at most this far apart are near each other.
const NEAR_ROWS: u32 = 64;

impl Spread {
    /// The spread of ascending rows.
    pub fn of(rows: &[u32]) -> Spread {
        let near = rows.windows(2).filter(|two| two[1] - two[0] <= NEAR_ROWS);
        let near = near.count() as u64;
        Spread {
            far: rows.len() as u64 - near,
            near,
        }
    }

    fn cost(self, far_bytes: u64, near_bytes: u64) -> u64 {
        self.far * far_bytes + self.near * near_bytes
    }
}

fn is_string(ty: ColumnType) -> bool {
    matches!(
        ty,
        ColumnType::Text | ColumnType::Bytes | ColumnType::Fixed { .. }
    )
}

/// Rows of a piece to which a condition is applied.
pub struct Run<'a> {
    rows: &'a Range<usize>,
    /// Those of them that other conditions have left; `None`: all.
    selected: Option<&'a BooleanBuffer>,
}

impl<'a> Run<'a> {
    pub fn of(rows: &'a Range<usize>, selected: Option<&'a BooleanBuffer>) -> Run<'a> {
        Run { rows, selected }
    }

    /// How these rows are spread, assuming an even distribution.
    pub fn spread(&self) -> Spread {
        let all = self.rows.len() as u64;
        let asked = match self.selected {
            None => all,
            Some(selected) => selected.count_set_bits() as u64,
        };
        match asked * u64::from(NEAR_ROWS) >= all {
            true => Spread {
                far: asked.min(1),
                near: asked.saturating_sub(1),
            },
            false => Spread {
                far: asked,
                near: 0,
            },
        }
    }

    /// Where the condition holds, read by single values; `None` if some row cannot be decided
    /// without PostgreSQL. As [`Chunk::filter`](howdah_columnar::Chunk::filter), but it holds
    /// nowhere among rows to which it is not applied.
    pub fn filter(
        &self,
        group: &GroupAccess,
        store: &ColdStore,
        column: usize,
        condition: &Condition,
    ) -> Result<Option<BooleanBuffer>, ColdError> {
        let mut matches = BooleanBufferBuilder::new(self.rows.len());
        matches.append_n(self.rows.len(), false);
        let mut is_decided = true;
        let positions =
            || (0..self.rows.len()).filter(|&at| self.selected.is_none_or(|those| those.value(at)));
        let mut results = positions();
        let numbers = positions().map(|at| (self.rows.start + at) as u32);
        group.show_each(&LazyStore::from(store), column, numbers, |value| {
            let holds = condition.matches(value);
            is_decided &= holds.is_some();
            if let Some(at) = results.next() {
                matches.set_bit(at, holds.unwrap_or_default());
            }
        })?;
        Ok(is_decided.then(|| matches.finish()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_side_by_side_cost_less_than_scattered_ones() {
        let near = Spread::of(&[100, 101, 103, 160]);
        assert_eq!(near, Spread { far: 1, near: 3 });
        assert_eq!(near.cost(1_000, 10), 1_030);
        assert_eq!(Spread::of(&[1, 1_000, 1_010]), Spread { far: 2, near: 1 });
        assert_eq!(Spread::of(&[]), Spread::default());
    }
}
