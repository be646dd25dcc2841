//! Rows of heap pages in columns: hot rows, and rows of heap partitions.
//!
//! One batch may hold rows of several tables, so that many small partitions make few morsels.

use howdah_bridge::upper::{BatchMemory, HotRows};
use howdah_columnar::{ColumnBuilder, ColumnType, Numeric, RowGroupBuilder, Value};
use howdah_vector::operators::Compiled;
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
    /// Of each column, whether its values are only counted.
    is_counted: Vec<bool>,
    /// Of the next scan.
    memory: BatchMemory,
}

impl HotBatch {
    /// `types` are those of the query's columns.
    pub fn new(types: &[ColumnType], compiled: &Compiled) -> HotBatch {
        let is_counted = |column| !compiled.reads_values_of(column);
        HotBatch {
            rows: RowGroupBuilder::new(types),
            is_counted: (0..types.len()).map(is_counted).collect(),
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

/// Adds rows of a column whose values are only counted: an arbitrary one where there is one.
fn push_any(column: &mut ColumnBuilder, rows: impl Iterator<Item = bool>) {
    let image;
    let any = match column.column_type() {
        ColumnType::Bool => Value::Bool(false),
        ColumnType::Int16 => Value::Int16(0),
        ColumnType::Int32 => Value::Int32(0),
        ColumnType::Int64 => Value::Int64(0),
        ColumnType::Float32 => Value::Float32(0.0),
        ColumnType::Float64 => Value::Float64(0.0),
        ColumnType::Numeric => Value::Numeric(Numeric::Small {
            unscaled: 0,
            scale: 0,
        }),
        ColumnType::Text => Value::Text(""),
        ColumnType::Bytes => Value::Bytes(&[]),
        ColumnType::Fixed { len } => {
            image = vec![0; usize::from(len)];
            Value::Bytes(&image)
        }
    };
    rows.for_each(|is_value| column.push(is_value.then_some(any)));
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
        let mut hot = HotRows::begin(table, snapshot, &self.attributes, &batch.is_counted, memory);
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
                if batch.is_counted[place] {
                    push_any(column, hot.column(place).map(|value| value.is_some()));
                    continue;
                }
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
