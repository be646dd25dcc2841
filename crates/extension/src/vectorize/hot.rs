//! Rows of heap pages in columns: hot rows, and rows of heap partitions.
//!
//! One batch may hold rows of several tables, so that many small partitions make few morsels.

use howdah_bridge::upper::HotRows;
use howdah_columnar::{Column, ColumnType, RowGroupBuilder};
use howdah_vector::runtime::Feeder;
use howdah_vector::source::MorselColumn;

use super::counts::Counts;
use super::source::{BATCH_ROWS, Source, next, of_rows, push};
use crate::errors::ColdError;
use crate::store::visibility::moved;
use crate::types::push_datum;

/// Rows that will form a morsel.
pub struct HotBatch {
    types: Vec<ColumnType>,
    rows: RowGroupBuilder,
}

impl HotBatch {
    /// `types` are those of the query's columns.
    pub fn new(types: &[ColumnType]) -> HotBatch {
        HotBatch {
            types: types.to_vec(),
            rows: RowGroupBuilder::new(types),
        }
    }

    /// Hands the collected rows over.
    pub fn flush(&mut self, ordinal: &mut u64, feeder: &Feeder<'_>) -> Result<(), ColdError> {
        pgrx::check_for_interrupts!();
        let row_count = self.rows.row_count();
        if row_count == 0 {
            return Ok(());
        }
        let columns = (self.types.iter().enumerate())
            .map(|(place, &ty)| {
                let values = (0..row_count).map(|row| self.rows.value(place, row));
                Ok(MorselColumn::Decoded(Column::from_values(ty, values)?))
            })
            .collect::<Result<Vec<_>, ColdError>>()?;
        push(feeder, of_rows(columns, row_count, None, next(ordinal)));
        self.rows.clear();
        Ok(())
    }
}

impl Source<'_> {
    /// Adds the table's heap rows to a batch.
    pub fn feed_hot(
        &self,
        batch: &mut HotBatch,
        ordinal: &mut u64,
        counts: &mut Counts,
        feeder: &Feeder<'_>,
    ) -> Result<(), ColdError> {
        let read = self.attributes.iter().max().map_or(0, |&last| last + 1);
        let (table, snapshot) = (self.table, self.snapshot);
        let mut hot = HotRows::begin(table, snapshot, read);
        while !feeder.failed() && hot.advance() {
            if self.is_howdah && moved::hides_hot(table, hot.slot(), snapshot) {
                continue;
            }
            for (place, &attribute) in self.attributes.iter().enumerate() {
                let layout = &self.layout.attributes[attribute];
                let column = batch.rows.column_mut(place);
                match hot.value(attribute) {
                    None => column.push_null(),
                    // SAFETY: a value of this attribute.
                    Some(datum) => unsafe { push_datum(column, layout, datum, false) },
                }
            }
            batch.rows.finish_row();
            counts.hot_rows += 1;
            if batch.rows.row_count() == BATCH_ROWS {
                batch.flush(ordinal, feeder)?;
            }
        }
        Ok(())
    }
}
