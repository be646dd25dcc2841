//! Rows of heap pages in columns: hot rows, and rows of heap partitions.
//!
//! One batch may hold rows of several tables, so that many small partitions make few morsels.

use howdah_bridge::datum::TypedDatum;
use howdah_bridge::upper::{BatchMemory, HotRows};
use howdah_columnar::{Column, ColumnType, Numeric, RowGroupBuilder, Value};
use howdah_vector::operators::Compiled;
use howdah_vector::runtime::Feeder;
use howdah_vector::source::MorselColumn;

use super::counts::Counts;
use super::source::{Source, batch_rows, next, of_rows, push};
use crate::errors::ColdError;
use crate::store::visibility::moved;
use crate::types::try_push;

/// A morsel of hot rows gets no more of them when they take as many bytes.
const MOST_BATCH_BYTES: usize = 8 << 20;

/// Rows that will form a morsel.
pub struct HotBatch {
    /// The columns whose values are read.
    rows: RowGroupBuilder,
    columns: Vec<HotColumn>,
    /// Of each column, whether its values are only counted.
    is_counted: Vec<bool>,
    /// Of the next scan.
    memory: BatchMemory,
}

/// A column of the batch.
enum HotColumn {
    /// Its values are read: its place among such columns.
    Read(usize),
    /// Its values are only counted: the rows where it is NULL.
    Counted(ColumnType, Vec<u32>),
}

impl HotBatch {
    /// `types` are those of the query's columns.
    pub fn new(types: &[ColumnType], compiled: &Compiled) -> HotBatch {
        let (mut columns, mut read) = (Vec::new(), Vec::new());
        for (column, &ty) in types.iter().enumerate() {
            columns.push(match compiled.reads_values_of(column) {
                true => {
                    read.push(ty);
                    HotColumn::Read(read.len() - 1)
                }
                false => HotColumn::Counted(ty, Vec::new()),
            });
        }
        let is_counted = |column: &HotColumn| matches!(column, HotColumn::Counted(..));
        HotBatch {
            rows: RowGroupBuilder::new(&read),
            is_counted: columns.iter().map(is_counted).collect(),
            columns,
            memory: BatchMemory::default(),
        }
    }

    /// Hands the collected rows over.
    pub fn flush(&mut self, ordinal: &mut u64, feeder: &Feeder<'_>) -> Result<(), ColdError> {
        howdah_bridge::check_for_interrupts!();
        let row_count = self.rows.row_count();
        if row_count == 0 {
            return Ok(());
        }
        let read = self.rows.columns();
        let columns = (self.columns.iter_mut())
            .map(|column| {
                Ok(match column {
                    HotColumn::Read(at) => MorselColumn::Decoded(read[*at].decoded()?),
                    // As of a row group: what is only counted is not delivered where it has no
                    // nulls.
                    HotColumn::Counted(_, nulls) if nulls.is_empty() => MorselColumn::Unread,
                    HotColumn::Counted(ty, nulls) => {
                        MorselColumn::Decoded(any_values(*ty, row_count, &std::mem::take(nulls))?)
                    }
                })
            })
            .collect::<Result<Vec<_>, ColdError>>()?;
        push(feeder, of_rows(columns, row_count, None, next(ordinal)));
        self.rows.clear();
        Ok(())
    }
}

/// A column whose values are only counted: an arbitrary one where there is one. `nulls` are the
/// other rows, ascending.
fn any_values(ty: ColumnType, row_count: usize, nulls: &[u32]) -> Result<Column, ColdError> {
    let image;
    let any = match ty {
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
    let mut nulls = nulls.iter().copied().peekable();
    let values = (0..row_count as u32).map(|row| match nulls.next_if_eq(&row) {
        Some(_) => None,
        None => Some(any),
    });
    Ok(Column::from_values(ty, values)?)
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
        let batch_rows = batch_rows();
        let mut hot = HotRows::begin(table, snapshot, &self.attributes, &batch.is_counted, memory);
        while !feeder.failed() {
            howdah_bridge::check_for_interrupts!();
            // Rows that must be followed are looked at one by one.
            let follows = self.is_howdah && moved::is_wanted(snapshot);
            let most = match follows {
                true => 1,
                false => batch_rows - batch.rows.row_count(),
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
                let first = batch.rows.row_count();
                let column = match &mut batch.columns[place] {
                    HotColumn::Read(at) => batch.rows.column_mut(*at),
                    HotColumn::Counted(_, nulls) => {
                        let rows = hot.column(place).zip(first as u32..);
                        nulls
                            .extend(rows.filter_map(|(value, row)| value.is_none().then_some(row)));
                        continue;
                    }
                };
                for value in hot.column(place) {
                    // Expanding a value may take long.
                    howdah_bridge::check_for_interrupts!();
                    let Some(datum) = value else {
                        column.push_null();
                        continue;
                    };
                    // SAFETY: a value of this attribute.
                    let datum = unsafe { TypedDatum::of(datum, layout.len, layout.by_value) };
                    if !try_push(column, layout, datum) {
                        return Err(ColdError::InvalidText);
                    }
                }
            }
            batch.rows.finish_rows(row_count);
            counts.hot_rows += row_count as u64;
            let is_full =
                batch.rows.row_count() == batch_rows || batch.rows.raw_bytes() >= MOST_BATCH_BYTES;
            if is_full {
                batch.flush(ordinal, feeder)?;
            }
        }
        batch.memory = hot.end();
        Ok(())
    }
}
