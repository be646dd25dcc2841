//! Rows of a group that were selected and decoded, on their way to batches.

use std::ops::Range;
use std::rc::Rc;

use arrow_buffer::{BooleanBuffer, bit_iterator::BitIndexIterator};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::Table;
use howdah_bridge::tid::RowNumber;
use howdah_columnar::Column;

use super::batch::{Batch, Rows};
use super::current_group::CurrentGroup;
use super::singles::Spread;
use crate::errors::ColdError;
use crate::store::group_access::GroupAccess;
use crate::store::group_bytes::LazyStore;
use crate::types::TableLayout;

/// A run of more rows than this many times the selected ones is not decoded as a whole.
const SPARSE: usize = 4;

/// Rows of a range of the current group.
pub(super) enum Selection {
    /// All rows of a range, decoded from its start.
    Range(Range<usize>),
    /// Some rows of the group; decoded alone, or among the run that starts at `.1`.
    List(Vec<u32>, Option<usize>),
}

impl Selection {
    /// The selected rows of a range, `None` meaning all; `None` if there are none.
    pub(super) fn of(rows: Range<usize>, selected: Option<BooleanBuffer>) -> Option<Selection> {
        let Some(bits) = selected else {
            return Some(Selection::Range(rows));
        };
        let count = bits.count_set_bits();
        let start = rows.start;
        let dense = count * SPARSE >= rows.len();
        match count {
            0 => None,
            count if count == rows.len() => Some(Selection::Range(rows)),
            _ => Some(Selection::List(
                BitIndexIterator::new(bits.values(), bits.offset(), bits.len())
                    .map(|bit| (start + bit) as u32)
                    .collect(),
                dense.then_some(start),
            )),
        }
    }

    /// The same rows, decoded alone.
    pub(super) fn listed(self) -> Selection {
        match self {
            Selection::Range(rows) => Selection::List(rows.map(|row| row as u32).collect(), None),
            Selection::List(rows, _) => Selection::List(rows, None),
        }
    }

    fn len(&self) -> usize {
        match self {
            Selection::Range(range) => range.len(),
            Selection::List(rows, _) => rows.len(),
        }
    }
}

// One per column of a batch: the difference in size does not matter.
#[allow(clippy::large_enum_variant)]
enum Source {
    Column(Column),
    /// Single values, still to be read.
    Singles(Rc<GroupAccess>),
    /// The attribute was added after the group was written.
    Missing,
}

/// A piece with its rows selected and decoded.
pub(super) struct Decoded {
    first_row: RowNumber,
    columns: Vec<(usize, Source)>,
    selection: Selection,
    recheck: bool,
    /// Rows already returned.
    done: usize,
}

impl Decoded {
    /// Decodes the wanted columns of the selected rows.
    pub(super) fn read(
        current: &mut CurrentGroup,
        store: &ColdStore<'_>,
        wanted: &[usize],
        selection: Selection,
        recheck: bool,
    ) -> Result<Decoded, ColdError> {
        let run_end = match &selection {
            Selection::List(rows, _) => rows.last().map_or(0, |&row| row as usize + 1),
            Selection::Range(range) => range.end,
        };
        if !matches!(selection, Selection::List(_, None)) {
            // Columns that lie side by side are decoded together where all are open.
            for &i in wanted.iter().filter(|&&i| i < current.open.column_count()) {
                current.open.chunk(store, i)?;
            }
        }
        let mut columns = Vec::new();
        for &i in wanted {
            howdah_bridge::check_for_interrupts!();
            if i >= current.open.column_count() {
                columns.push((i, Source::Missing));
                continue;
            }
            if let Selection::List(rows, None) = &selection
                && let Some(group) =
                    (current.singles).group(store, &current.open, i, Spread::of(rows))?
            {
                columns.push((i, Source::Singles(group)));
                continue;
            }
            let chunk = current.open.chunk(store, i)?;
            let column = match &selection {
                Selection::Range(range) => chunk.decode_range(range.clone())?,
                Selection::List(_, Some(start)) => chunk.decode_range(*start..run_end)?,
                Selection::List(rows, None) => chunk.decode_selection(rows)?,
            };
            columns.push((i, Source::Column(column)));
        }
        Ok(Decoded {
            first_row: current.open.entry.first_row,
            columns,
            selection,
            recheck,
            done: 0,
        })
    }

    /// Replaces `batch` by the next of the rows, `most` at most, and returns a range of the group
    /// with these rows and none of the others; `None` if there are no more. `scratch` is of no
    /// meaning between calls.
    pub(super) fn next_batch(
        &mut self,
        table: Table<'_>,
        layout: &TableLayout,
        most: usize,
        scratch: &mut Vec<u32>,
        batch: &mut Batch<'_>,
    ) -> Result<Option<Range<usize>>, ColdError> {
        let end = self.done.saturating_add(most).min(self.selection.len());
        if self.done == end {
            return Ok(None);
        }
        let (positions, rows) = match &self.selection {
            Selection::Range(range) => (
                Rows::Range(range.start + self.done, range.start + end),
                Rows::Range(self.done, end),
            ),
            Selection::List(list, None) => (
                Rows::List(&list[self.done..end]),
                Rows::Range(self.done, end),
            ),
            Selection::List(list, Some(start)) => {
                let list = &list[self.done..end];
                scratch.clear();
                scratch.extend(list.iter().map(|row| row - *start as u32));
                (Rows::List(list), Rows::List(scratch))
            }
        };
        batch.start(self.first_row, positions, self.recheck);
        for (i, source) in &self.columns {
            match source {
                Source::Column(column) => batch.fill(*i, column, rows, &layout.attributes[*i]),
                Source::Singles(group) => {
                    let store = LazyStore::of(table);
                    let Rows::List(rows) = positions else {
                        unreachable!("single values are those of listed rows");
                    };
                    batch.fill_by(*i, &layout.attributes[*i], |push| {
                        group.show_each(&store, *i, rows.iter().copied(), push)
                    })?;
                }
                Source::Missing => batch.repeat(*i, table.descriptor().missing_value(*i)),
            }
        }
        let covered = match &self.selection {
            Selection::Range(range) => range.start + self.done..range.start + end,
            Selection::List(list, _) => list[self.done] as usize..list[end - 1] as usize + 1,
        };
        self.done = end;
        Ok(Some(covered))
    }
}
