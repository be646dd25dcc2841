//! What a run must read: groups that the snapshot sees, and for which statistics are not
//! sufficient.

use std::cmp::Ordering;
use std::rc::Rc;

use howdah_columnar::{ChunkStats, ColumnStatistics, OwnedValue, compare};
use howdah_vector::operators::{Compiled, Look};

use super::source::Source;
use crate::errors::ColdError;
use crate::settings;
use crate::store::column_reader::ColumnReader;
use crate::store::row_set::RowSet;
use crate::store::view::ColdGroup;

/// Rows of equal values that take as long as one of others: they are not looked at one by one.
const UNIFORM_ROWS: usize = 64;

/// A stored group after the survey: the little that is kept of each before the first is read.
pub struct Surveyed {
    pub reader: ColumnReader,
    pub look: Look,
    /// Which of the query's columns are read.
    pub needed: Vec<usize>,
    /// Statistics of those of the query's columns for which they are sufficient.
    pub statistics: Vec<Option<Rc<ColumnStatistics>>>,
    pub hidden: Option<RowSet>,
    /// Whether each column that is read has one value, and no NULL.
    is_uniform: bool,
    /// Of first rows: the statistics of the column by which they are ordered.
    pub leading: Option<Rc<ColumnStatistics>>,
    /// Bytes of the images of jsonb values, arrays, … that are read, before they were encoded.
    image_bytes: u64,
    /// The morsels that it is cut into.
    pub parts: usize,
}

/// So many bytes of images take a thread some 2 ms to decompress, which is worth waking it.
const IMAGE_BYTES_OF_A_THREAD: u64 = 4 << 20;

impl Surveyed {
    /// The best value of the column by which first rows are ordered, where it can be compared.
    fn best(&self, descending: bool) -> Option<&OwnedValue> {
        let chunk = &self.leading.as_ref()?.chunk;
        let best = if descending { &chunk.max } else { &chunk.min };
        let is_comparable =
            |value: &&OwnedValue| compare(value.as_value(), value.as_value()).is_some();
        best.as_ref().filter(is_comparable)
    }

    pub fn row_count(&self) -> usize {
        self.reader.entry.row_count as usize
    }

    /// The rows that a thread must look at: none where statistics are sufficient, and few where all
    /// rows have the same values.
    pub fn rows_to_read(&self) -> usize {
        match &self.look {
            Look::Read { rows, .. } => {
                let row_count = rows.iter().map(ExactSizeIterator::len).sum::<usize>();
                match self.is_uniform {
                    true => row_count.div_ceil(UNIFORM_ROWS),
                    false => row_count,
                }
            }
            Look::Skip | Look::Statistics => 0,
        }
    }

    /// How many threads could share it, because the images in it take long to decompress.
    pub fn threads_worth(&self) -> usize {
        let read = self.rows_to_read() as f64 / self.row_count().max(1) as f64;
        let worth = match settings::force_vectorized() {
            true => 1,
            false => IMAGE_BYTES_OF_A_THREAD,
        };
        let threads = self.image_bytes as f64 * read / worth as f64;
        (threads as usize).max(1)
    }
}

/// The minima and maxima of each integer column of the query, over all groups of all tables.
pub struct Bounds {
    /// `None` if no group has been read yet, or some group has no statistics.
    columns: Vec<Option<(i64, i64)>>,
    unknown: Vec<bool>,
}

impl Bounds {
    pub fn of_columns(count: usize) -> Bounds {
        Bounds {
            columns: vec![None; count],
            unknown: vec![false; count],
        }
    }

    /// Adds what is known of a column in one group.
    fn add(&mut self, column: usize, chunk: Option<&ChunkStats>) {
        let integer = |value: &Option<OwnedValue>| match value {
            Some(OwnedValue::Int16(v)) => Some(i64::from(*v)),
            Some(OwnedValue::Int32(v)) => Some(i64::from(*v)),
            Some(OwnedValue::Int64(v)) => Some(*v),
            _ => None,
        };
        let Some(chunk) = chunk else {
            self.unknown[column] = true;
            return;
        };
        match (integer(&chunk.min), integer(&chunk.max)) {
            _ if chunk.null_count == chunk.row_count => {}
            (Some(min), Some(max)) => {
                let (least, most) = self.columns[column].unwrap_or((min, max));
                self.columns[column] = Some((least.min(min), most.max(max)));
            }
            _ => self.unknown[column] = true,
        }
    }

    /// The least and the greatest integer of a column, if those of every group are known.
    fn of(&self, column: usize) -> Option<(i64, i64)> {
        self.columns[column].filter(|_| !self.unknown[column])
    }

    /// Passes the bounds to the query.
    pub fn set(&self, compiled: &mut Compiled) {
        for column in 0..self.columns.len() {
            if let Some((min, max)) = self.of(column) {
                compiled.set_bounds(column, min, max);
            }
        }
    }
}

/// Moves the groups with the best rows to the front, those without known values to the end.
pub fn best_first(groups: &mut [(usize, Surveyed)], descending: bool) {
    groups.sort_by(
        |(_, a), (_, b)| match (a.best(descending), b.best(descending)) {
            (Some(a), Some(b)) => {
                let order = compare(a.as_value(), b.as_value()).unwrap_or(Ordering::Equal);
                if descending { order.reverse() } else { order }
            }
            (a, b) => b.is_some().cmp(&a.is_some()),
        },
    );
}

impl Source<'_> {
    /// Asks the statistics of every stored group that the snapshot sees a row of. `None` if some
    /// column is stored as another type than the table's: its type was changed without a rewrite.
    pub fn survey(
        &self,
        compiled: &Compiled,
        bounds: &mut Bounds,
    ) -> Result<Option<Vec<Surveyed>>, ColdError> {
        let mut surveyed = Vec::new();
        let asked = compiled.asked();
        let leading = compiled.leading_order();
        let Some(store) = &self.store else {
            return Ok(Some(surveyed));
        };
        for group in &self.view.groups {
            let ColdGroup::Stored(entry) = group else {
                continue;
            };
            howdah_bridge::check_for_interrupts!();
            if self.view.is_all_hidden(store, group) {
                continue;
            }
            let reader = ColumnReader::open(store, *entry, self.view.groups.len())?;
            let mut statistics = Vec::new();
            statistics.resize_with(self.attributes.len(), || None);
            for &place in compiled.needed() {
                let attribute = self.attributes[place];
                match reader.column_type(attribute) {
                    // One of a newer version is an error where it is read, if the group is.
                    None => {}
                    Some(ty) if ty != self.layout.attributes[attribute].column_type => {
                        return Ok(None);
                    }
                    Some(_) if asked.binary_search(&place).is_err() => {}
                    Some(_) => {
                        statistics[place] = Some(reader.statistics(store, attribute)?);
                    }
                }
            }
            let known: Vec<_> = statistics.iter().map(Option::as_deref).collect();
            let row_count = entry.row_count as usize;
            let may_hide = self.view.may_hide(group);
            let mut look = compiled.ask(&known, row_count, may_hide);
            // The marks of a group that is skipped are not read.
            let hidden = match may_hide && look != Look::Skip {
                true => (self.view.hidden(store, group)?).filter(|rows| !rows.is_empty()),
                false => None,
            };
            match &hidden {
                Some(hidden) if hidden.len() >= entry.row_count => continue,
                None if may_hide && look != Look::Skip => {
                    look = compiled.ask(&known, row_count, false);
                }
                _ => {}
            }
            for &place in &asked {
                bounds.add(place, known[place].map(|statistics| &statistics.chunk));
            }
            let needed = match &look {
                Look::Read { filter_decided, .. } => compiled.needed_for(&known, *filter_decided),
                _ => Vec::new(),
            };
            let has_one_value = |&place: &usize| {
                known[place].is_some_and(|known| {
                    let ChunkStats { min, max, .. } = &known.chunk;
                    known.chunk.null_count == 0 && min.is_some() && min == max
                })
            };
            let is_uniform = !needed.is_empty() && needed.iter().all(has_one_value);
            let bytes_of_images = |&place: &usize| match known[place] {
                Some(known) if self.layout.attributes[self.attributes[place]].is_image() => {
                    known.chunk.raw_bytes
                }
                _ => 0,
            };
            let image_bytes = needed.iter().map(bytes_of_images).sum();
            let leading = leading.and_then(|(place, _)| statistics[place].take());
            if look != Look::Statistics {
                statistics.clear();
            }
            surveyed.push(Surveyed {
                reader,
                look,
                needed,
                statistics,
                hidden,
                is_uniform,
                leading,
                image_bytes,
                parts: 1,
            });
        }
        Ok(Some(surveyed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(min: Option<OwnedValue>, max: Option<OwnedValue>, null_count: usize) -> ChunkStats {
        ChunkStats {
            row_count: 10,
            null_count,
            min,
            max,
            sum: None,
            sum_scale: 0,
            distinct_estimate: None,
            raw_bytes: 40,
        }
    }

    #[test]
    fn bounds_hold_the_integers_of_all_groups() {
        let mut bounds = Bounds::of_columns(2);
        assert_eq!(bounds.of(0), None, "no group was read");
        for (min, max) in [(-5, 7), (3, 90), (-4, 8)] {
            let known = chunk(
                Some(OwnedValue::Int32(min)),
                Some(OwnedValue::Int32(max)),
                2,
            );
            bounds.add(0, Some(&known));
        }
        bounds.add(0, Some(&chunk(None, None, 10)));
        assert_eq!(bounds.of(0), Some((-5, 90)), "a group of NULLs has no say");
        assert_eq!(bounds.of(1), None, "another column");
    }

    #[test]
    fn one_group_of_which_nothing_is_known_makes_the_bounds_unknown() {
        let known = chunk(Some(OwnedValue::Int64(1)), Some(OwnedValue::Int64(2)), 0);
        let text = chunk(
            Some(OwnedValue::Text("a".into())),
            Some(OwnedValue::Text("b".into())),
            0,
        );
        for unknown in [None, Some(&text)] {
            let mut bounds = Bounds::of_columns(1);
            bounds.add(0, Some(&known));
            bounds.add(0, unknown);
            bounds.add(0, Some(&known));
            assert_eq!(bounds.of(0), None);
        }
    }
}
