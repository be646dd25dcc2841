//! Expressions that only the caller's thread can evaluate, and how threads ask it to.
//!
//! ```text
//!   thread   filter by known conjuncts ─▶ columns of the rows left ─▶ request ┐     ┌─▶ groups, …
//!   caller                    Exchange::serve ◀───────────────────────────────┘     │
//!                               └─ Evaluate::evaluate ─▶ a column of results ───────┘
//! ```
//!
//! A thread that needs results waits for them. So a request is made for exactly the rows that an
//! expression of the engine's own would be evaluated for at the same place, and whatever the thread
//! does with them follows as if it had computed them itself. Other threads go on meanwhile.
//!
//! Invariants
//! - Only the thread that made the exchange evaluates. It serves requests wherever it waits for
//!   threads, and before it hands a morsel over, so no request waits for ever.
//! - A thread that waits holds no lock, and returns as soon as the run is stopped.
//! - Nothing is evaluated for no rows.

use std::collections::VecDeque;
use std::fmt;
use std::panic::RefUnwindSafe;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use howdah_columnar::{Column, ColumnType};

use crate::error::VectorError;
use crate::expr::Coded;
use crate::plan::{Expr, Output, Query};

/// Evaluates expressions that are unknown here. A panic leaves it in a state in which it may be
/// dropped.
pub trait Evaluate: Send + Sync + RefUnwindSafe {
    /// The values of the expression with this number for rows, at least one, of which it gets the
    /// columns that it reads. Called on one thread only, that of [`Exchange::new`].
    ///
    /// # Errors
    ///
    /// Ends the run. It may panic as well: the panic passes through [`run`](crate::runtime::run).
    fn evaluate(
        &self,
        place: usize,
        columns: &[Column],
        row_count: usize,
    ) -> Result<Column, VectorError>;
}

/// An expression that the caller evaluates.
#[derive(Clone)]
pub struct Foreign {
    /// Its number.
    pub place: usize,
    /// The type of its values.
    pub column_type: ColumnType,
    /// The columns that it reads: places in [`Query::columns`], and their types.
    pub columns: Vec<(usize, ColumnType)>,
    /// By which it is evaluated; the same for all expressions of a query.
    pub exchange: Arc<Exchange>,
}

impl fmt::Debug for Foreign {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Foreign")
            .field("place", &self.place)
            .field("column_type", &self.column_type)
            .field("columns", &self.columns)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Foreign {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
            && self.column_type == other.column_type
            && self.columns == other.columns
    }
}

impl Foreign {
    /// Its values for rows of which the columns that it reads are given.
    pub(crate) fn evaluate(
        &self,
        columns: Vec<Column>,
        row_count: usize,
    ) -> Result<Column, VectorError> {
        if row_count == 0 {
            return Ok(Column::from_values(self.column_type, std::iter::empty())?);
        }
        let values = self.exchange.evaluate(self.place, columns, row_count)?;
        match values.len() == row_count && values.column_type() == self.column_type {
            true => Ok(values),
            false => Err(MISFIT),
        }
    }
}

impl Foreign {
    /// Its values for rows of the one column that it reads: evaluated for each different value
    /// once. `None` if most are different.
    pub(crate) fn evaluate_coded(&self, coded: &Coded) -> Result<Option<Column>, VectorError> {
        let word_count = coded.words.len();
        let word = |code: u32| (code as usize).min(word_count);
        // By code, and last for NULL: the position among the values that occur.
        let mut positions = vec![u32::MAX; word_count + 1];
        let mut occurring = Vec::new();
        let most = coded.codes.len() / 2;
        let mut rows = Vec::with_capacity(coded.codes.len());
        for &code in &coded.codes {
            let position = &mut positions[word(code)];
            if *position == u32::MAX {
                if occurring.len() == most {
                    return Ok(None);
                }
                *position = occurring.len() as u32;
                occurring.push(word(code));
            }
            rows.push(*position);
        }
        let values = occurring.iter().map(|&word| match word < word_count {
            true => coded.words.value(word),
            false => None,
        });
        let values = Column::from_values(coded.words.column_type(), values)?;
        let results = self.evaluate(vec![values], occurring.len())?;
        Ok(Some(results.take(&rows)?))
    }
}

const MISFIT: VectorError = VectorError::Unsupported {
    what: "values that do not fit their expression",
};

/// Takes requests from threads to the thread that evaluates, and results back.
pub struct Exchange {
    evaluator: Arc<dyn Evaluate>,
    /// The thread that evaluates.
    home: ThreadId,
    state: Mutex<State>,
    /// There is a request, or something else that the thread that evaluates waits for.
    news: Condvar,
    /// There is a result, or there will be none.
    answered: Condvar,
}

#[derive(Default)]
struct State {
    /// The number of the next request.
    next: u64,
    requests: VecDeque<Request>,
    results: Vec<(u64, Result<Column, VectorError>)>,
    has_news: bool,
    is_stopped: bool,
}

struct Request {
    number: u64,
    place: usize,
    columns: Vec<Column>,
    row_count: usize,
}

impl Exchange {
    /// The calling thread is the one that evaluates.
    pub fn new(evaluator: Arc<dyn Evaluate>) -> Self {
        Self {
            evaluator,
            home: std::thread::current().id(),
            state: Mutex::default(),
            news: Condvar::new(),
            answered: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic within the lock leaves a consistent state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn evaluate(
        &self,
        place: usize,
        columns: Vec<Column>,
        row_count: usize,
    ) -> Result<Column, VectorError> {
        if std::thread::current().id() == self.home {
            return self.evaluator.evaluate(place, &columns, row_count);
        }
        let mut state = self.lock();
        let number = state.next;
        state.next += 1;
        state.requests.push_back(Request {
            number,
            place,
            columns,
            row_count,
        });
        self.news.notify_all();
        loop {
            if state.is_stopped {
                return Err(VectorError::Stopped);
            }
            if let Some(at) = state.results.iter().position(|(of, _)| *of == number) {
                return state.results.swap_remove(at).1;
            }
            state = self
                .answered
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Evaluates what was requested. `false` if that was nothing.
    pub(crate) fn serve(&self) -> bool {
        let mut has_served = false;
        loop {
            let Some(request) = self.lock().requests.pop_front() else {
                return has_served;
            };
            let (columns, row_count) = (&request.columns, request.row_count);
            let result = self.evaluator.evaluate(request.place, columns, row_count);
            self.lock().results.push((request.number, result));
            self.answered.notify_all();
            has_served = true;
        }
    }

    /// Serves requests; if there are none, waits for one, for other news, or until the time is
    /// over.
    pub(crate) fn serve_or_wait(&self, timeout: Duration) {
        if self.serve() {
            return;
        }
        let mut state = self.lock();
        if !state.has_news && state.requests.is_empty() {
            let waited = self.news.wait_timeout(state, timeout);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.has_news = false;
        drop(state);
        self.serve();
    }

    /// Wakes the thread that evaluates.
    pub(crate) fn tell_news(&self) {
        self.lock().has_news = true;
        self.news.notify_all();
    }

    /// No more results will come.
    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
        self.answered.notify_all();
        self.news.notify_all();
    }
}

impl Query {
    /// By which its unknown expressions are evaluated; `None` if it has none.
    pub(crate) fn exchange(&self) -> Option<Arc<Exchange>> {
        let aggregate_parts = |aggregates: &'_ [crate::plan::AggregateCall]| -> Vec<Expr> {
            let parts = aggregates
                .iter()
                .flat_map(|call| [&call.argument, &call.filter]);
            parts.flatten().cloned().collect()
        };
        let output: Vec<Expr> = match &self.output {
            Output::Aggregate { keys, aggregates }
            | Output::FirstGroups {
                keys, aggregates, ..
            } => [keys.clone(), aggregate_parts(aggregates)].concat(),
            Output::First { columns, order, .. } => {
                let order = order.iter().map(|order| order.expr.clone());
                columns.iter().cloned().chain(order).collect()
            }
        };
        let found = self.filter.iter().chain(&output).find_map(Expr::foreign);
        found.map(|foreign| foreign.exchange.clone())
    }
}

impl Expr {
    /// An unknown expression in it.
    fn foreign(&self) -> Option<&Foreign> {
        match self {
            Self::Foreign(foreign) => Some(foreign),
            Self::Column(_) | Self::Constant(..) => None,
            Self::Call {
                arguments: parts, ..
            }
            | Self::Zoned {
                arguments: parts, ..
            }
            | Self::And(parts)
            | Self::Or(parts) => parts.iter().find_map(Self::foreign),
            Self::AnyAll { left: of, .. }
            | Self::Not(of)
            | Self::IsNull(of)
            | Self::IsNotNull(of)
            | Self::Is(of, _) => of.foreign(),
        }
    }
}
