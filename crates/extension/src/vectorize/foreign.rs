//! Expressions that the engine does not know: PostgreSQL evaluates them, on the main thread.
//!
//! ```text
//!   thread's request ─▶ columns ─▶ datums of 256 rows ─▶ ForeignRun (bridge) ─▶ results ─▶ column
//! ```
//!
//! Invariant: an evaluator reaches PostgreSQL only through its [`ForeignRun`], under which nothing
//! is found on other threads or after the run.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use howdah_bridge::upper::{
    Arguments, CHUNK_ROWS, Datum, ForeignRun, Node, Waiting, hash_memory_bytes,
};
use howdah_columnar::{Column, ColumnarError, RowGroupBuilder, Value};
use howdah_vector::VectorError;
use howdah_vector::foreign::Evaluate;

use crate::types::arena::Arena;
use crate::types::{AttributeLayout, TableLayout, datum_in, try_push};

/// A call of PostgreSQL gets no more rows when their texts take as many bytes.
const MOST_COPIED_BYTES: usize = 1 << 20;
/// Results of a step that take more bytes, and more than a hash table may, are left to PostgreSQL,
/// which has one at a time.
const MANY_RESULT_BYTES: usize = 32 << 20;

/// Evaluates the expressions of one run.
pub struct Evaluator {
    run: ForeignRun,
    expressions: Vec<Expression>,
    is_timed: bool,
    rows: AtomicU64,
    time: Mutex<Duration>,
}

struct Expression {
    attributes: Vec<usize>,
    /// The physical forms of the attributes.
    arguments: Vec<AttributeLayout>,
    result: AttributeLayout,
}

/// What was evaluated, for EXPLAIN.
#[derive(Clone, Copy)]
pub struct Evaluated {
    pub rows: u64,
    pub time: Duration,
}

impl Evaluator {
    /// For expressions over attributes of the relation `rti` of this layout; `None` if one of them
    /// is not foreign.
    pub fn new(
        run: ForeignRun,
        nodes: &[Node<'_>],
        rti: i32,
        layout: &TableLayout,
        is_timed: bool,
    ) -> Option<Evaluator> {
        let expression = |node: &Node<'_>| {
            let attributes = node.foreign_attributes(rti).ok()?;
            let arguments = attributes
                .iter()
                .map(|&at| layout.attributes.get(at).copied());
            Some(Expression {
                arguments: arguments.collect::<Option<_>>()?,
                attributes,
                result: AttributeLayout::of_type(node.type_oid()),
            })
        };
        Some(Evaluator {
            run,
            expressions: nodes.iter().map(expression).collect::<Option<_>>()?,
            is_timed,
            rows: AtomicU64::new(0),
            time: Mutex::default(),
        })
    }

    /// What was evaluated so far.
    pub fn evaluated(&self) -> Evaluated {
        Evaluated {
            rows: self.rows.load(Ordering::Relaxed),
            time: *self.time.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

const UNKNOWN: VectorError = VectorError::Unsupported {
    what: "an expression that was not compiled",
};

impl Evaluate for Evaluator {
    fn evaluate(
        &self,
        place: usize,
        columns: &[Column],
        row_count: usize,
    ) -> Result<Column, VectorError> {
        let start = self.is_timed.then(Instant::now);
        Waiting::interrupt();
        let expression = self.expressions.get(place).ok_or(UNKNOWN)?;
        let width = expression.attributes.len();
        if columns.len() != width || columns.iter().any(|column| column.len() != row_count) {
            return Err(UNKNOWN);
        }
        let result = &expression.result;
        let mut results = RowGroupBuilder::new(&[result.column_type]);
        let mut arena = Arena::default();
        let mut values = vec![Datum::from(0); CHUNK_ROWS * width];
        let mut nulls = vec![true; CHUNK_ROWS * width];
        let (mut at, mut are_valid) = (0, true);
        while at < row_count {
            let most = (row_count - at).min(CHUNK_ROWS);
            arena.clear();
            let (mut count, mut copied_bytes) = (0, 0);
            while count < most && copied_bytes < MOST_COPIED_BYTES {
                for (i, column) in columns.iter().enumerate() {
                    let value = column.value(at + count);
                    nulls[count * width + i] = value.is_none();
                    if let Some(value) = value {
                        copied_bytes += match value {
                            Value::Text(text) => text.len(),
                            Value::Bytes(bytes) => bytes.len(),
                            _ => 0,
                        };
                        let layout = &expression.arguments[i];
                        values[count * width + i] = datum_in(&mut arena, value, layout);
                    }
                }
                count += 1;
            }
            let arguments = Arguments {
                attributes: &expression.attributes,
                values: &values,
                nulls: &nulls,
            };
            let done = (self.run).evaluate(place, count, &arguments, |value| {
                let column = results.column_mut(0);
                let is_pushed = value.map(|value| try_push(column, result, value));
                if is_pushed != Some(true) {
                    are_valid &= is_pushed.is_none();
                    column.push_null();
                }
                results.finish_row();
            });
            at += done.ok_or(UNKNOWN)?;
            if !are_valid {
                return Err(VectorError::Unsupported {
                    what: "text that is not valid in the database's encoding",
                });
            }
            let limit_bytes = hash_memory_bytes().max(MANY_RESULT_BYTES);
            if results.raw_bytes() > limit_bytes {
                return Err(VectorError::Memory { limit_bytes });
            }
        }
        self.rows.fetch_add(row_count as u64, Ordering::Relaxed);
        if let Some(start) = start {
            *self.time.lock().unwrap_or_else(PoisonError::into_inner) += start.elapsed();
        }
        let values = (0..row_count).map(|row| results.value(0, row));
        Column::from_values(result.column_type, values)
            .map_err(|error: ColumnarError| VectorError::from(error))
    }
}

/// Stands for an evaluator while a query is planned.
pub struct Planned;

impl Evaluate for Planned {
    fn evaluate(&self, _: usize, _: &[Column], _: usize) -> Result<Column, VectorError> {
        Err(UNKNOWN)
    }
}

impl Planned {
    /// As an evaluator.
    pub fn evaluator() -> Arc<dyn Evaluate> {
        Arc::new(Planned)
    }
}
