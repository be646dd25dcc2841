//! Rows of heap pages in columns: hot rows, and rows of heap partitions.
//!
//! One batch may hold rows of several tables, so that many small partitions make few morsels.

use howdah_bridge::upper::{BatchMemory, HotRows};
use howdah_columnar::{ColumnType, RowGroupBuilder};
use howdah_vector::runtime::Feeder;
use howdah_vector::source::MorselColumn;

use super::counts::Counts;
use super::source::{BATCH_ROWS, Source, next, of_rows, push};
use crate::errors::ColdError;
use crate::store::visibility::moved;
use crate::types::push_datum;

/// A morsel of hot rows gets no more of them when they take as many bytes.
const MOST_BATCH_BYTES: usize = 8 << 20;

/// Rows that will form a morsel.
pub struct HotBatch {
    rows: RowGroupBuilder,
    /// Of the next scan.
    memory: BatchMemory,
}

impl HotBatch {
    /// `types` are those of the query's columns.
    pub fn new(types: &[ColumnType]) -> HotBatch {
        HotBatch {
            rows: RowGroupBuilder::new(types),
            memory: BatchMemory::default(),
        }
    }

    /// Hands the collected rows over.
    pub fn flush(&mut self, ordinal: &mut u64, feeder: &Feeder<'_>) -> Result<(), ColdError> {
        pgrx::check_for_interrupts!();
        let row_count = self.rows.row_count();
        if row_count == 0 {
            return Ok(());
        }
        let columns = (self.rows.columns().iter())
            .map(|column| Ok(MorselColumn::Decoded(column.decoded()?)))
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
        let (table, snapshot) = (self.table, self.snapshot);
        let memory = std::mem::take(&mut batch.memory);
        let mut hot = HotRows::begin(table, snapshot, &self.attributes, memory);
        while !feeder.failed() {
            pgrx::check_for_interrupts!();
            // Rows that must be followed are looked at one by one.
            let follows = self.is_howdah && moved::is_wanted(snapshot);
            let most = match follows {
                true => 1,
                false => BATCH_ROWS - batch.rows.row_count(),
            };
            let row_count = hot.fetch(most);
            if row_count == 0 {
                break;
            }
            if follows && moved::hides_hot(table, hot.slot(), snapshot) {
                continue;
            }
            for (place, &attribute) in self.attributes.iter().enumerate() {
                let layout = &self.layout.attributes[attribute];
                let column = batch.rows.column_mut(place);
                for value in hot.column(place) {
                    match value {
                        None => column.push_null(),
                        // SAFETY: a value of this attribute.
                        Some(datum) => unsafe { push_datum(column, layout, datum, false) },
                    }
                }
            }
            batch.rows.finish_rows(row_count);
            counts.hot_rows += row_count as u64;
            let is_full =
                batch.rows.row_count() == BATCH_ROWS || batch.rows.raw_bytes() >= MOST_BATCH_BYTES;
            if is_full {
                batch.flush(ordinal, feeder)?;
            }
        }
        batch.memory = hot.end();
        Ok(())
    }
}
