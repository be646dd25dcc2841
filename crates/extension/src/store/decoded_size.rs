//! How much memory the rows of a stored group take when they are decoded and written anew, with all
//! columns that the table has by now.
//!
//! What a group holds encoded tells nothing about it: a thousand equal texts take a few bytes, and
//! a column that was added with a default none at all.

use howdah_bridge::store::ColdStore;
use howdah_bridge::table::Descriptor;
use howdah_columnar::OwnedValue;

use super::directory::GroupEntry;
use super::open_group::OpenGroup;
use crate::errors::ColdError;
use crate::types::{TableLayout, missing_value};

/// Bytes of the rows of a group.
#[derive(Clone, Copy)]
pub struct DecodedSize {
    /// Of the columns that it stores: of all rows.
    pub stored: u64,
    /// Of those that were added later: of the rows that are written.
    pub added: u64,
}

impl DecodedSize {
    /// That of a group of which so many rows are written.
    ///
    /// # Errors
    /// When the group's footer is damaged or missing.
    pub fn of(
        store: &ColdStore,
        entry: &GroupEntry,
        written_rows: u32,
        (layout, desc): (&TableLayout, Descriptor<'_>),
    ) -> Result<Self, ColdError> {
        let open = OpenGroup::open(store, *entry)?;
        let mut stored = 0;
        for column in 0..open.column_count() {
            stored += open.column(store, column)?.stats.raw_bytes;
        }
        let of_row: u64 = (open.column_count()..layout.attributes.len())
            .map(|attribute| missing_bytes(layout, desc, attribute))
            .sum();
        Ok(Self {
            stored,
            added: of_row * u64::from(written_rows),
        })
    }

    /// That of all columns.
    pub fn all(self) -> u64 {
        self.stored + self.added
    }
}

/// What a row takes that was stored before the attribute was added.
fn missing_bytes(layout: &TableLayout, desc: Descriptor<'_>, attribute: usize) -> u64 {
    if layout.attributes[attribute].dropped {
        return 0;
    }
    match missing_value(desc, attribute) {
        None => 0,
        Some(OwnedValue::Text(text)) => text.len() as u64,
        Some(OwnedValue::Bytes(bytes)) => bytes.len() as u64,
        Some(_) => size_of::<u64>() as u64,
    }
}
