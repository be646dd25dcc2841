//! How many rows of a group are hidden, for estimates.
//!
//! Records of many rows are counted exactly. Of marks of single rows only the first ones are
//! examined, and the rest of the group is assumed to have as many in proportion: reading every mark
//! of a group may take longer than planning the query.

use std::ops::ControlFlow;

use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::{ColdStore, Visited};

use crate::errors::ColdError;
use crate::store::directory::{GroupEntry, GroupFlags};
use crate::store::marks::block_deletions::for_each_in_blocks;
use crate::store::marks::deletion_vector::{
    DELETION_VECTOR_ID, deletion_vectors_of, insert_rows, open_vector,
};
use crate::store::marks::row_mark::MARK_KEYS;
use crate::store::row_set::RowSet;

/// Marks of one group that are examined.
const MOST_MARKS: u32 = 512;

/// About how many of a group's rows the MVCC snapshot does not see because of marks and deletion
/// vectors. The result equals the number of rows only if that is certain. Marks that are still in
/// this backend's memory are not counted, nor are recent inserts, nor rows that this transaction
/// has changed at the place to which they were moved.
pub fn count_hidden(
    store: &ColdStore,
    entry: &GroupEntry,
    snapshot: Snapshot<'_>,
) -> Result<u32, ColdError> {
    // Not the store's own visibility test: an estimate reads nothing that a serializable
    // transaction depends on.
    let mut sees = |shown: &Visited<'_>| shown.tuple.satisfies(snapshot);
    let mut hidden = RowSet::with_bound(entry.capacity_rows);
    if entry.flags.contain(GroupFlags::DELETION_VECTORS) {
        let mut damage = None;
        store.visit(
            DELETION_VECTOR_ID,
            deletion_vectors_of(entry),
            &mut |shown| {
                match open_vector(entry.group(), shown.payload) {
                    Ok(vector) if sees(&shown) => {
                        insert_rows(entry, shown.seq, &vector.hidden(), &mut hidden);
                    }
                    Ok(_) => {}
                    Err(error) => damage = Some(error),
                }
                ControlFlow::Continue(())
            },
        );
        if let Some(error) = damage {
            return Err(error);
        }
    }
    let mut hide = |position, _| {
        hidden.insert(position);
    };
    for_each_in_blocks(store, entry, 0..entry.capacity_rows, &mut sees, &mut hide)?;
    let in_vectors = hidden.len();
    let mut looked_at = None;
    if entry.flags.contain(GroupFlags::ROW_MARKS) && in_vectors < entry.row_count {
        looked_at = add_first_marks(store, entry, &mut hidden, sees);
    }
    Ok(match looked_at {
        None => hidden.len().min(entry.row_count),
        Some(positions) => extrapolated(entry.row_count, in_vectors, hidden.len(), positions),
    })
}

/// Adds rows hidden by the first marks of the group. Returns how many positions these marks cover,
/// unless they cover the whole group.
fn add_first_marks(
    store: &ColdStore,
    entry: &GroupEntry,
    hidden: &mut RowSet,
    sees: impl Fn(&Visited<'_>) -> bool,
) -> Option<u32> {
    let first = entry.first_row.0;
    let (mut marks, mut position) = (0, 0);
    for (id, seqs) in MARK_KEYS.ranges(entry.first_row, entry.capacity_rows) {
        store.visit(id, seqs, &mut |shown| {
            position = (MARK_KEYS.row_of(id, shown.seq).0 - first) as u32;
            marks += 1;
            if marks > MOST_MARKS {
                return ControlFlow::Break(());
            }
            if sees(&shown) {
                hidden.insert(position);
            }
            ControlFlow::Continue(())
        });
        if marks > MOST_MARKS {
            return Some(position);
        }
    }
    None
}

/// Hidden rows of a group of which only the marks up to some position were examined.
fn extrapolated(rows: u32, in_vectors: u32, found: u32, positions: u32) -> u32 {
    let by_marks = f64::from(found - in_vectors);
    let share = f64::from(rows) / f64::from(positions.clamp(1, rows.max(1)));
    let estimate = f64::from(in_vectors) + by_marks * share;
    (estimate as u32).min(rows.saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::extrapolated;

    #[test]
    fn the_rest_of_a_group_is_taken_to_be_like_its_beginning() {
        assert_eq!(extrapolated(10_000, 0, 512, 1_024), 5_000);
        assert_eq!(extrapolated(10_000, 2_000, 2_512, 1_024), 7_000);
        assert_eq!(extrapolated(10_000, 0, 512, 0), 9_999, "never all");
        assert_eq!(extrapolated(1_000, 1_000, 1_000, 10), 999);
        assert_eq!(extrapolated(0, 0, 0, 0), 0);
    }
}
