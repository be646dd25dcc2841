//! Values of first rows that are read when the rows are known.
//!
//! A group delivers the columns that are filtered and ordered by; what is only returned is read of
//! the few rows of the result one by one, as an index scan reads them ([`GroupAccess`]). The groups
//! are those of the run's view of the directory: immutable, and visible to its snapshot.
//!
//! [`GroupAccess`]: crate::store::group_access::GroupAccess

use howdah_columnar::OwnedValue;
use howdah_vector::operators::LateRows;
use howdah_vector::runtime::LateValues;

use super::source::Source;
use crate::errors::ColdError;
use crate::store::directory::GroupEntry;
use crate::store::group_bytes::LazyStore;
use crate::store::group_cache;

impl Source<'_> {
    /// Reads the values of rows of a stored group.
    pub fn read_late(&self, entry: GroupEntry, late: &LateRows) -> Result<LateValues, ColdError> {
        let Some(store) = &self.store else {
            return Ok(Vec::new());
        };
        let group = group_cache::cached(store, entry)?;
        let store = LazyStore::from(store);
        let mut columns = Vec::with_capacity(late.columns.len());
        for &place in &late.columns {
            let attribute = self.attributes[place];
            let mut values = Vec::with_capacity(late.rows.len());
            if attribute < group.column_count() {
                group.show_each(&store, attribute, late.rows.iter().copied(), |value| {
                    values.push(value.map(OwnedValue::from));
                })?;
            } else {
                values.resize(late.rows.len(), self.missing_value(attribute));
            }
            columns.push(values);
        }
        Ok(columns)
    }
}
