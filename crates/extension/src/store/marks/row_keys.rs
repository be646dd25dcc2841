//! Keys that name a row: its number, which is longer than one part of a key.

use std::ops::RangeInclusive;

use howdah_bridge::tid::RowNumber;
use howdah_records::Kind;

const SEQ_BITS: u32 = 31;

/// The keys of a kind of records: id `first + n / 2^31`, seq `n mod 2^31` for row `n`.
#[derive(Clone, Copy)]
pub(in crate::store) struct RowKeys {
    first_id: u32,
}

impl RowKeys {
    pub const fn of(kind: Kind) -> RowKeys {
        RowKeys {
            first_id: kind.id(),
        }
    }

    pub fn key_of(self, row: RowNumber) -> (u32, i32) {
        let id = self.first_id + (row.0 >> SEQ_BITS) as u32;
        (id, (row.0 & ((1 << SEQ_BITS) - 1)) as i32)
    }

    pub fn row_of(self, id: u32, seq: i32) -> RowNumber {
        RowNumber((u64::from(id - self.first_id) << SEQ_BITS) | seq as u64)
    }

    /// The key ranges of `rows` row numbers from `first` on.
    pub fn ranges(self, first: RowNumber, rows: u32) -> Vec<(u32, RangeInclusive<i32>)> {
        let last = RowNumber(first.0 + u64::from(rows.max(1)) - 1);
        let ((low_id, low), (high_id, high)) = (self.key_of(first), self.key_of(last));
        if low_id == high_id {
            vec![(low_id, low..=high)]
        } else {
            vec![(low_id, low..=i32::MAX), (high_id, 0..=high)]
        }
    }

    /// The ids of the keys of all rows below `end`.
    pub fn ids_below(self, end: u64) -> RangeInclusive<u32> {
        self.first_id..=self.key_of(RowNumber(end.max(1) - 1)).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_rows_is_a_range_of_keys_or_two() {
        let keys = RowKeys::of(Kind::RowMark);
        let border = 3 << SEQ_BITS;
        let ranges = keys.ranges(RowNumber(border - 2), 5);
        assert_eq!(ranges, [(18, i32::MAX - 1..=i32::MAX), (19, 0..=2)]);
        assert_eq!(keys.ranges(RowNumber(border), 2), [(19, 0..=1)]);
        for row in [
            0,
            1,
            border - 1,
            border,
            howdah_records::ROW_NUMBER_LIMIT - 1,
        ] {
            let (id, seq) = keys.key_of(RowNumber(row));
            assert_eq!(keys.row_of(id, seq), RowNumber(row));
        }
        assert_eq!(keys.ids_below(0), 16..=16);
        assert_eq!(keys.ids_below(border), 16..=18);
        assert_eq!(keys.ids_below(border + 1), 16..=19);
    }

    /// Each kind has ids of its own, and none that long values have.
    #[test]
    fn kinds_do_not_share_keys() {
        let last = RowNumber(howdah_records::ROW_NUMBER_LIMIT - 1);
        let [marks, blocks] = [Kind::RowMark, Kind::BlockDeletions].map(RowKeys::of);
        assert!(marks.key_of(last).0 < blocks.key_of(RowNumber(0)).0);
        assert!(blocks.key_of(last).0 < 16_384);
    }
}
