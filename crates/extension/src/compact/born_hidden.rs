//! Rows of a new group that no snapshot sees.
//!
//! While a group is written, rows that go into it may be changed where they still are. They cannot
//! be taken out again: indexes have entries that lead to them. So the transaction that writes the
//! group hides them in it, and no snapshot ever sees the group without that. What becomes of the
//! rows is told where they were.

use std::collections::BTreeMap;

use howdah_bridge::store::ColdStore;
use howdah_bridge::transactions::{end_command, writing_command};

use crate::errors::ColdError;
use crate::store::directory::PlacedEntry;
use crate::store::marks;
use crate::store::row_set::RowSet;

/// Hides the rows at these positions of a group that the current transaction has written.
pub fn hide(store: &ColdStore, placed: &mut PlacedEntry, rows: &RowSet) -> Result<(), ColdError> {
    if rows.is_empty() {
        return Ok(());
    }
    // Makes our own tuples visible to what follows.
    end_command();
    let cid = writing_command();
    marks::announce_deletion_vectors(store, placed)?;
    marks::hide_in_bulk(store, placed, rows, &BTreeMap::new(), cid)
}
