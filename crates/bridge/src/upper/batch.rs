//! Rows that the engine returns: some at a time, as datums.

use pgrx::pg_sys;

/// Rows that are returned by the engine at a time, at most.
const BATCH_ROWS: usize = 1_024;

/// Rows as datums, row after row; each row has one place per value of the shape.
#[derive(Default)]
pub struct Batch {
    pub(super) width: usize,
    capacity: usize,
    pub(super) values: Vec<pg_sys::Datum>,
    pub(super) nulls: Vec<bool>,
    pub(super) row_count: usize,
}

impl Batch {
    /// A batch of rows of this width for a result of so many rows.
    pub(super) fn of(width: usize, row_count: usize) -> Batch {
        let capacity = row_count.min(BATCH_ROWS);
        Batch {
            width,
            capacity,
            values: vec![pg_sys::Datum::from(0); capacity * width],
            nulls: vec![true; capacity * width],
            row_count: 0,
        }
    }

    /// The maximal number of rows in it.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Sets the number of rows that it holds.
    ///
    /// # Panics
    ///
    /// Panics when that is more than its capacity.
    pub fn set_row_count(&mut self, row_count: usize) {
        assert!(row_count <= self.capacity, "rows of a batch");
        self.row_count = row_count;
    }

    /// Stores a value in its place; `None` is NULL.
    #[inline]
    pub fn put(&mut self, row: usize, place: usize, value: Option<pg_sys::Datum>) {
        let at = row * self.width + place;
        self.values[at] = value.unwrap_or(pg_sys::Datum::from(0));
        self.nulls[at] = value.is_none();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_a_place_for_each_value() {
        let mut batch = Batch::of(3, 2);
        for (row, place, value) in [(0, 0, Some(7)), (0, 2, Some(8)), (1, 0, Some(9))] {
            batch.put(row, place, value.map(pg_sys::Datum::from));
        }
        batch.put(0, 2, None);
        let values: Vec<usize> = batch.values.iter().map(|datum| datum.value()).collect();
        assert_eq!(values, [7, 0, 0, 9, 0, 0]);
        assert_eq!(batch.nulls, [false, true, true, false, true, true]);
    }

    #[test]
    fn a_small_result_has_a_small_batch_and_a_large_one_several() {
        assert_eq!(Batch::of(1, 5).capacity(), 5);
        assert_eq!(Batch::of(1, BATCH_ROWS + 1).capacity(), BATCH_ROWS);
    }
}
