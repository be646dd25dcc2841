//! Which rows of a group that a snapshot sees the snapshot does not see.
//!
//! The same for one row: [`super::row`].

use std::ops::Range;

use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;

use super::hidden::{hidden_range, hidden_rows};
use super::moved_changes;
use crate::errors::ColdError;
use crate::store::directory::GroupEntry;
use crate::store::row_set::RowSet;

/// The rows of a group that the snapshot does not see, by position, if there are any: those that
/// records hide, and those that this transaction has changed at the place to which they were moved.
///
/// # Errors
/// A damaged record.
pub fn rows_not_seen(
    store: &ColdStore,
    entry: &GroupEntry,
    snapshot: Snapshot<'_>,
) -> Result<Option<RowSet>, ColdError> {
    let hidden = hidden_rows(store, entry, snapshot)?;
    if !moved_changes::may_hide(snapshot) {
        return Ok(hidden);
    }
    let changed = moved_changes::changed_rows(store, entry, snapshot)?;
    Ok(match (hidden, changed) {
        (Some(mut hidden), Some(changed)) => {
            changed.iter().for_each(|row| {
                hidden.insert(row);
            });
            Some(hidden)
        }
        (hidden, changed) => hidden.or(changed),
    })
}

/// Whether the snapshot may not see some row of the group, as far as is known without a look at the
/// store.
pub fn may_hide_rows(entry: &GroupEntry, snapshot: Snapshot<'_>) -> bool {
    !entry.flags.are_clear() || moved_changes::may_hide(snapshot)
}

/// The rows among those beside each other that the snapshot does not see, counted from the first.
/// `None` where it takes the whole group to know: ask for that.
pub fn rows_not_seen_among(
    store: &ColdStore,
    entry: &GroupEntry,
    positions: Range<u32>,
    snapshot: Snapshot<'_>,
) -> Option<RowSet> {
    if !may_hide_rows(entry, snapshot) {
        return Some(RowSet::default());
    }
    if moved_changes::may_hide(snapshot) {
        return None;
    }
    hidden_range(store, entry, positions, snapshot).map(|hidden| hidden.rows)
}
