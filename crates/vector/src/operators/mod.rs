//! A query that is ready to run: the tests of statistics, and the work of a thread on a morsel.
//!
//! ```text
//!   ask(statistics) ─▶ Skip · Statistics · Read
//!   Read ─▶ Morsel ─▶ zones ─filter─▶ sink: Aggregation | First
//! ```
//!
//! A sink belongs to one thread; sinks are merged at the end.

mod aggregate;
mod compiled;
mod filter;
mod first;
pub(crate) mod groups;
mod rising;
pub(crate) mod scan;
mod sink;
mod times;
pub(crate) mod words;

use std::ops::Range;

use howdah_columnar::ZONE_ROWS;

pub use compiled::{Compiled, Look, Strain};
pub(crate) use first::Cut;
pub use first::LateRows;
pub(crate) use sink::{RowCounts, Sink};
pub use times::OperatorTimes;

/// A range of rows, cut at the bounds of zones.
fn by_zone(rows: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    cut(rows, ZONE_ROWS)
}

/// A range of rows, cut at multiples of a number.
fn cut(rows: &Range<usize>, step: usize) -> impl Iterator<Item = Range<usize>> + use<> {
    let (mut start, last) = (rows.start, rows.end);
    std::iter::from_fn(move || {
        let end = ((start / step + 1) * step).min(last);
        let zone = start..end;
        start = end;
        (!zone.is_empty()).then_some(zone)
    })
}
