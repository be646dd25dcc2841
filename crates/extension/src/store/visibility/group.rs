//! Which rows of a group that a snapshot sees the snapshot does not see.
//!
//! The same for one row: [`super::row`].

use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;

use super::hidden::hidden_rows;
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
