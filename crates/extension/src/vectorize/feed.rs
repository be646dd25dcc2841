//! The rows of a table as morsels.
//!
//! ```text
//!   groups: chunks as they are stored, which threads copy from pinned pages
//!   rows of this backend's own loads, and heap rows (hot): columns of up to 8,192 rows
//! ```
//!
//! Invariant: between groups no lock is held, and no pin but those of pages that threads are to
//! copy. Chunks are verified by the thread that opens them, before it does. Where too many pages
//! would be pinned, or expressions are evaluated by this thread, it copies the chunks itself. A
//! group's statistics and chunks are read from the same immutable value. Columns are those of the
//! query; each table has them under its own attribute numbers. A group whose images take long to
//! decompress is several morsels, each with all of its chunks and some of its rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::BooleanBuffer;
use howdah_bridge::store::{ColdStore, Loans, StoreError};
use howdah_bridge::upper::Oid;
use howdah_columnar::{Column, OwnedValue};
use howdah_vector::VectorError;
use howdah_vector::operators::Look;
use howdah_vector::runtime::Feeder;
use howdah_vector::source::{Delivery, Morsel, MorselColumn};

use super::counts::Counts;
use super::hot::HotBatch;
use super::source::{Source, batch_rows, next, of_rows, push};
use super::survey::Surveyed;
use crate::errors::ColdError;
use crate::store::column_reader::Rest;
use crate::store::directory::GroupEntry;
use crate::store::view::ColdGroup;
use crate::types::missing_value;

/// What was found while feeding.
#[derive(Default)]
pub struct Fed {
    pub counts: Counts,
    /// The first failure in the main thread.
    pub failure: Option<VectorError>,
    /// The stored groups that were delivered, by the ordinals of their morsels, ascending.
    delivered: Vec<(u64, GroupEntry)>,
}

impl Fed {
    /// The stored group that a morsel was made of.
    pub fn group_of(&self, ordinal: u64) -> Option<GroupEntry> {
        let at = (self
            .delivered
            .binary_search_by_key(&ordinal, |&(ordinal, _)| ordinal))
        .ok()?;
        Some(self.delivered[at].1)
    }
}

impl Source<'_> {
    /// Feeds the rows that are not stored in groups; heap rows may stay in the batch.
    pub fn feed_rows(
        &self,
        ordinal: &mut u64,
        fed: &mut Fed,
        hot: &mut HotBatch,
        feeder: &Feeder<'_>,
    ) -> Result<(), ColdError> {
        self.feed_pending(ordinal, &mut fed.counts, feeder)?;
        self.feed_hot(hot, ordinal, &mut fed.counts, feeder)
    }

    /// Feeds a stored group that the survey has found. Its pages are lent until threads have copied
    /// them.
    pub fn feed_group(
        &self,
        group: Surveyed,
        ordinal: &mut u64,
        fed: &mut Fed,
        loans: &Loans,
        feeder: &Feeder<'_>,
    ) -> Result<(), ColdError> {
        let Some(store) = &self.store else {
            return Ok(());
        };
        let row_count = group.row_count();
        let counts = &mut fed.counts;
        counts.groups += 1;
        let (rows, filter_decided) = match &group.look {
            Look::Skip => {
                counts.groups_skipped += 1;
                return Ok(());
            }
            Look::Statistics => {
                counts.groups_answered += 1;
                counts.cold_rows += row_count as u64;
                let known: Vec<_> = group.statistics.iter().map(Option::as_deref).collect();
                if let Err(error) = feeder.add_statistics(&known, row_count) {
                    fed.failure.get_or_insert(error);
                }
                return Ok(());
            }
            Look::Read {
                rows,
                filter_decided,
            } => (rows.clone(), *filter_decided),
        };
        let rows = match &group.leading {
            Some(leading) => feeder.narrowed(leading, rows),
            None => rows,
        };
        if rows.is_empty() {
            counts.groups_skipped += 1;
            return Ok(());
        }
        counts.note_zones(row_count, &rows);
        let hidden = (group.hidden.as_ref())
            .map(|rows| BooleanBuffer::collect_bool(row_count, |row| rows.contains(row as u32)));
        for rows in &rows {
            let hidden = (hidden.as_ref())
                .map_or(0, |all| all.slice(rows.start, rows.len()).count_set_bits());
            counts.cold_rows += (rows.len() - hidden) as u64;
        }
        loans.release();
        for rows in cut(&rows, group.parts) {
            let (columns, rests) = self.chunks(store, &group, loans)?;
            let morsel = Morsel {
                row_count,
                columns,
                hidden: hidden.clone(),
                rows,
                filter_decided,
                ordinal: next(ordinal),
            };
            fed.delivered.push((morsel.ordinal, group.reader.entry));
            let table = self.table.oid();
            let delivery = Delivery {
                morsel,
                preparation: Some(Box::new(move |morsel| finish(table, morsel, rests))),
            };
            push(feeder, delivery);
        }
        Ok(())
    }

    /// The columns that are read of a group, and what is left to do for them.
    fn chunks(
        &self,
        store: &ColdStore,
        group: &Surveyed,
        loans: &Loans,
    ) -> Result<(Vec<MorselColumn>, Rests), ColdError> {
        let mut columns = Vec::with_capacity(self.attributes.len());
        let mut rests = Vec::new();
        // The place of the first column that is read of those that lie side by side.
        let mut first = None;
        for (place, &attribute) in self.attributes.iter().enumerate() {
            howdah_bridge::check_for_interrupts!();
            columns.push(match group.reader.has_column(attribute) {
                _ if !group.needed.contains(&place) => MorselColumn::Unread,
                false => self.missing(attribute),
                true if group.reader.is_grouped(attribute)
                    && let Some(first) = first =>
                {
                    MorselColumn::Grouped {
                        meta: Arc::new(group.reader.column(store, attribute)?),
                        first,
                    }
                }
                true => {
                    if group.reader.is_grouped(attribute) {
                        first = Some(place);
                    }
                    let (meta, bytes, rest) = group.reader.chunk(store, attribute, loans)?;
                    rests.push((place, rest));
                    MorselColumn::Encoded {
                        meta: Arc::new(meta),
                        bytes,
                    }
                }
            });
        }
        Ok((columns, rests))
    }

    /// The column of a group that was stored before its attribute was added.
    fn missing(&self, attribute: usize) -> MorselColumn {
        let layout = &self.layout.attributes[attribute];
        MorselColumn::Constant(layout.column_type, self.missing_value(attribute))
    }

    /// The value of an attribute in groups that were stored before it was added; `None` is NULL.
    pub fn missing_value(&self, attribute: usize) -> Option<OwnedValue> {
        missing_value(self.table.descriptor(), attribute)
    }

    /// The rows of this backend's own loads that are not written yet.
    fn feed_pending(
        &self,
        ordinal: &mut u64,
        counts: &mut Counts,
        feeder: &Feeder<'_>,
    ) -> Result<(), ColdError> {
        for group in self.view.groups.iter().filter(|group| group.is_pending()) {
            let ColdGroup::Pending {
                load, row_count, ..
            } = group
            else {
                continue;
            };
            let hidden = match &self.store {
                Some(store) if !group.entry().flags.are_clear() => {
                    self.view.hidden(store, group)?
                }
                _ => None,
            };
            let mut at = 0;
            while at < *row_count {
                howdah_bridge::check_for_interrupts!();
                let end = (at + batch_rows() as u32).min(*row_count);
                let rows = at..end;
                // Not borrowed while the rows are worked on: expressions of the query may load.
                let borrowed = load.borrow();
                let columns = (self.attributes.iter())
                    .map(|&attribute| {
                        let ty = self.layout.attributes[attribute].column_type;
                        let values = rows.clone().map(|row| borrowed.value(attribute, row));
                        Ok(MorselColumn::Decoded(Column::from_values(ty, values)?))
                    })
                    .collect::<Result<Vec<_>, ColdError>>()?;
                drop(borrowed);
                counts.cold_rows += rows.len() as u64;
                let is_hidden = |row: usize| {
                    let row = at + row as u32;
                    hidden.as_ref().is_some_and(|rows| rows.contains(row))
                };
                let hidden = hidden
                    .is_some()
                    .then(|| BooleanBuffer::collect_bool(rows.len(), is_hidden));
                push(feeder, of_rows(columns, rows.len(), hidden, next(ordinal)));
                at = end;
            }
        }
        Ok(())
    }
}

/// Damage that a thread has found in a table.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Damaged {
    pub table: Oid,
    pub error: StoreError,
}

/// The bounds at which a group is cut: those of a block of packed numbers, so that none is unpacked
/// twice. A zone is too much: one of four more than the other thread has is a quarter of the time.
const BLOCK_ROWS: usize = 1_024;

/// Cuts rows, which are ascending ranges, into at most so many parts of about as many rows each, at
/// the bounds of blocks.
fn cut(rows: &[Range<usize>], parts: usize) -> Vec<Vec<Range<usize>>> {
    let row_count: usize = rows.iter().map(ExactSizeIterator::len).sum();
    let wanted = row_count.div_ceil(parts.max(1));
    let mut cut: Vec<Vec<Range<usize>>> = Vec::new();
    let mut left = 0;
    for range in rows {
        let mut start = range.start;
        while start < range.end {
            let end = ((start / BLOCK_ROWS + 1) * BLOCK_ROWS).min(range.end);
            if left == 0 {
                cut.push(Vec::new());
                left = wanted;
            }
            if let Some(part) = cut.last_mut() {
                match part.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => part.push(start..end),
                }
            }
            left = left.saturating_sub(end - start);
            start = end;
        }
    }
    cut
}

/// What is left to do for chunks, by the places of their columns.
type Rests = Vec<(usize, Rest)>;

/// Copies and verifies the chunks of a morsel. Called by the threads.
fn finish(table: Oid, morsel: &mut Morsel, rests: Rests) -> Result<(), VectorError> {
    for (place, rest) in rests {
        if let Some(MorselColumn::Encoded { meta, bytes }) = morsel.columns.get_mut(place)
            && let len = (meta.byte_range.end - meta.byte_range.start) as usize
            && let Err(error) = rest.finish(len, bytes)
        {
            return Err(VectorError::Check(Box::new(Damaged { table, error })));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_equal_have_all_rows_once_and_end_where_blocks_do() {
        let rows = [0..5, BLOCK_ROWS - 1..30 * BLOCK_ROWS + 7];
        let row_count: usize = rows.iter().map(ExactSizeIterator::len).sum();
        for parts in 1..9 {
            let cut = cut(&rows, parts);
            assert!((1..=parts).contains(&cut.len()));
            for part in &cut {
                let len: usize = part.iter().map(ExactSizeIterator::len).sum();
                assert!(len <= row_count / parts + BLOCK_ROWS, "{len} of {parts}");
            }
            let all = cut.iter().flatten().flat_map(Clone::clone);
            assert!(all.eq(rows.iter().flat_map(Clone::clone)));
            let ends = cut.iter().filter_map(|part| Some(part.last()?.end));
            let inner = ends.take(cut.len() - 1);
            for end in inner {
                assert!(end == 5 || end.is_multiple_of(BLOCK_ROWS), "{end}");
            }
        }
        assert_eq!(cut(&rows, 1), [rows.to_vec()]);
        assert!(cut(&[], 2).is_empty());
    }
}
