//! The result of the engine as datums.

use std::any::Any;

use howdah_bridge::upper::{Batch, Datum, Rows, Work, with_quotient};
use howdah_columnar::{Numeric, Value};
use howdah_vector::runtime::{ResultColumn, ResultSet};

use super::counts::Figures;
use crate::types::arena::Arena;
use crate::types::{AttributeLayout, datum_in};

/// The rows of a result, as they are returned to the executor.
pub struct Answer {
    result: ResultSet,
    /// The physical form of each column.
    layouts: Vec<AttributeLayout>,
    /// The next row: its part of the result, and its number there.
    at: (usize, usize),
    /// Memory to which the datums of the rows that were returned last point.
    arena: Arena,
    figures: Figures,
}

impl Answer {
    pub fn new(result: ResultSet, layouts: Vec<AttributeLayout>, figures: Figures) -> Answer {
        Answer {
            result,
            layouts,
            at: (0, 0),
            arena: Arena::default(),
            figures,
        }
    }

    /// The figures of an answer whose rows were dropped.
    pub fn figures_of(rows: Option<Box<dyn Rows>>) -> Option<Figures> {
        let rows: Box<dyn Any> = rows?;
        Some(rows.downcast::<Answer>().ok()?.figures)
    }
}

impl Rows for Answer {
    fn row_count(&self) -> usize {
        self.result.row_count
    }

    fn next(&mut self, batch: &mut Batch) {
        self.arena.clear();
        let (number, first) = self.at;
        let Some(part) = self.result.parts.get(number) else {
            batch.set_row_count(0);
            return;
        };
        let end = (first + batch.capacity()).min(part.row_count);
        let rows = first..end;
        for (place, column) in part.columns.iter().enumerate() {
            let layout = &self.layouts[place];
            for (to, row) in rows.clone().enumerate() {
                let value = match column {
                    ResultColumn::Values(column) => {
                        (column.value(row)).map(|value| datum_in(&mut self.arena, value, layout))
                    }
                    ResultColumn::Quotients {
                        sums,
                        scale,
                        counts,
                    } => average(&mut self.arena, layout, sums[row], *scale, counts[row]),
                };
                batch.put(to, place, value);
            }
        }
        batch.set_row_count(rows.len());
        self.at = match end == part.row_count {
            true => (number + 1, 0),
            false => (number, end),
        };
    }

    fn rewind(&mut self) {
        self.at = (0, 0);
    }

    fn forget(&mut self) {
        self.result.parts = Vec::new();
        self.result.row_count = 0;
        self.arena = Arena::default();
        self.rewind();
    }

    fn work(&self) -> Work {
        self.figures.work()
    }
}

/// The average of integers or numerics; `None` is NULL.
fn average(
    arena: &mut Arena,
    layout: &AttributeLayout,
    unscaled: i128,
    scale: u16,
    count: i64,
) -> Option<Datum> {
    if count == 0 {
        return None;
    }
    let sum = Value::Numeric(Numeric::Small { unscaled, scale });
    let sum = datum_in(arena, sum, layout);
    // SAFETY: a numeric.
    Some(unsafe {
        with_quotient(sum, count, |image| {
            datum_in(arena, Value::Numeric(Numeric::Image(image)), layout)
        })
    })
}
