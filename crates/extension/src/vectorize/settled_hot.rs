//! Hot rows that no transaction is changing, remembered in columns.
//!
//! A bulk load leaves its first thousands of rows hot, until compaction comes. Fetching and
//! deforming them would take longer than all row groups together where statistics answer a query.
//!
//! ```text
//!   version of the heap side   first sight: noted    as noted: the columns that are missing are
//!   (HotVersion)                                     read and encoded, as of a row group
//!                              another: forgotten    all there: as a row group, asked for its
//!                                                    statistics, and read only if they must be
//! ```
//!
//! Invariants
//! - What is remembered is what a scan under any snapshot would read: the version says that every
//!   page is all-visible, before the rows are read and after.
//! - Rows that must be followed to another place ([`moved`]) are scanned, and so is everything for
//!   serializable transactions.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use howdah_bridge::predicate::is_serializable;
use howdah_bridge::upper::{BatchMemory, HotRows, HotVersion};
use howdah_columnar::{
    ChunkBuffer, ColumnMeta, ColumnStatistics, Effort, GroupLayout, RowGroupBuilder,
};
use howdah_vector::operators::{Compiled, Look};
use howdah_vector::runtime::Feeder;
use howdah_vector::source::{Morsel, MorselColumn};

use super::counts::Counts;
use super::feed::Fed;
use super::source::{Source, next, push};
use super::survey::Bounds;
use crate::bounded_cache::HashCache;
use crate::errors::ColdError;
use crate::store::visibility::moved;
use crate::types::push_datum;

/// A heap side of fewer pages is scanned in as little time.
const LEAST_BLOCKS: u32 = 8;
const MOST_BLOCKS: u32 = 1_024;
/// A heap side of more rows is not remembered, nor a column of more bytes before it is encoded.
const MOST_ROWS: usize = 65_536;
const MOST_RAW_BYTES: usize = 2 << 20;
/// All columns that are remembered, of all tables.
const MOST_BYTES: usize = 512 << 10;

/// A column of the hot rows of a table.
struct Remembered {
    attribute: usize,
    statistics: Rc<ColumnStatistics>,
    meta: Arc<ColumnMeta>,
    bytes: Box<[u8]>,
}

/// What is known of a table's heap side.
struct Known {
    file: u32,
    version: HotVersion,
    /// `None` before they were read.
    row_count: Option<usize>,
    columns: Vec<Rc<Remembered>>,
    /// Attributes whose values take too much memory.
    too_large: Vec<usize>,
}

impl Known {
    fn weight_bytes(&self) -> usize {
        let of_column = |column: &Rc<Remembered>| {
            column.bytes.len() + column.statistics.memory_bytes() + size_of::<ColumnMeta>()
        };
        size_of::<Known>() + self.columns.iter().map(of_column).sum::<usize>()
    }
}

thread_local! {
    /// By table.
    static KNOWN: RefCell<HashCache<u32, Known>> =
        RefCell::new(HashCache::of_bytes(MOST_BYTES, |_, known| known.weight_bytes()));
}

/// What a table's memory says of a version.
enum Recalled {
    /// Its rows, and the columns asked for, in their order.
    All(usize, Vec<Rc<Remembered>>),
    /// The attributes that are not remembered yet.
    Missing(Vec<usize>),
    /// It is to be scanned.
    No,
}

/// A heap side that is remembered, after the survey.
pub struct SettledHot {
    row_count: usize,
    /// By column of the query; `None` is not needed.
    columns: Vec<Option<Rc<Remembered>>>,
    look: Look,
    needed: Vec<usize>,
    /// Of first rows: the column by which they are ordered.
    leading: Option<usize>,
    /// The rows were fetched by this run, and counted.
    is_counted: bool,
}

impl Source<'_> {
    /// The hot rows, if they are remembered, with what their statistics tell. `None`: they are to
    /// be scanned.
    pub fn survey_hot(
        &self,
        compiled: &Compiled,
        bounds: &mut Bounds,
    ) -> Result<Option<SettledHot>, ColdError> {
        if is_serializable() || self.is_howdah && moved::is_wanted(self.snapshot) {
            return Ok(None);
        }
        let Some(version) = self.hot_version() else {
            return Ok(None);
        };
        let needed = compiled.needed();
        let attributes: Vec<usize> = needed.iter().map(|&at| self.attributes[at]).collect();
        let (mut recalled, mut is_counted) = (self.recall(version, &attributes), false);
        if let Recalled::Missing(missing) = &recalled {
            is_counted = true;
            if !self.remember(version, missing)? {
                return Ok(None);
            }
            recalled = self.recall(version, &attributes);
        }
        let Recalled::All(row_count, remembered) = recalled else {
            return Ok(None);
        };
        let mut columns = Vec::new();
        columns.resize_with(self.attributes.len(), || None);
        for (&place, column) in needed.iter().zip(remembered) {
            columns[place] = Some(column);
        }
        let known: Vec<_> = columns.iter().map(statistics).collect();
        if row_count > 0 {
            for place in compiled.asked() {
                bounds.add(place, known[place].map(|statistics| &statistics.chunk));
            }
        }
        let look = compiled.ask(&known, row_count, false);
        let needed = match &look {
            Look::Read { filter_decided, .. } => compiled.needed_now(&known, *filter_decided),
            Look::Skip | Look::Statistics => Vec::new(),
        };
        Ok(Some(SettledHot {
            row_count,
            columns,
            look,
            needed,
            leading: compiled.leading_order().map(|(place, _)| place),
            is_counted,
        }))
    }

    fn hot_version(&self) -> Option<HotVersion> {
        HotVersion::of(self.table, self.snapshot, LEAST_BLOCKS, MOST_BLOCKS)
    }

    /// What is remembered of a version. One that is seen for the first time is noted.
    fn recall(&self, version: HotVersion, attributes: &[usize]) -> Recalled {
        let file = self.table.file_number();
        KNOWN.with_borrow_mut(|all| {
            let table = self.table.oid().to_u32();
            let known =
                (all.get(&table)).filter(|known| known.file == file && known.version == version);
            let Some(known) = known else {
                let noted = Known {
                    file,
                    version,
                    row_count: None,
                    columns: Vec::new(),
                    too_large: Vec::new(),
                };
                all.insert(table, noted);
                return Recalled::No;
            };
            if attributes.iter().any(|at| known.too_large.contains(at)) {
                return Recalled::No;
            }
            let find = |&attribute: &usize| {
                let ty = self.layout.attributes[attribute].column_type;
                let column = (known.columns.iter()).find(|column| column.attribute == attribute);
                column.filter(|column| column.statistics.column_type() == ty)
            };
            // Of no rows there is nothing to remember.
            if known.row_count == Some(0) {
                return Recalled::All(0, Vec::new());
            }
            let found: Option<Vec<_>> = (attributes.iter())
                .map(|attribute| find(attribute).map(Rc::clone))
                .collect();
            match (known.row_count, found) {
                (Some(row_count), Some(columns)) => Recalled::All(row_count, columns),
                _ => {
                    let missing = attributes
                        .iter()
                        .filter(|attribute| find(attribute).is_none());
                    Recalled::Missing(missing.copied().collect())
                }
            }
        })
    }

    /// Reads attributes of all hot rows, and remembers them. Returns whether they are remembered.
    fn remember(&self, version: HotVersion, attributes: &[usize]) -> Result<bool, ColdError> {
        let read = self.read_hot(attributes)?;
        if self.hot_version() != Some(version) {
            return Ok(false);
        }
        let table = self.table.oid().to_u32();
        KNOWN.with_borrow_mut(|all| {
            let Some(mut known) = all.remove(&table) else {
                return Ok(false);
            };
            let is_kept = read.is_some();
            match read {
                Some((row_count, columns)) => {
                    known.row_count = Some(row_count);
                    (known.columns).retain(|column| !attributes.contains(&column.attribute));
                    known.columns.extend(columns);
                }
                None => known.too_large.extend(attributes),
            }
            all.insert(table, known);
            Ok(is_kept)
        })
    }

    /// The hot rows that the snapshot sees: how many, and these attributes of them. `None` if they
    /// take too much memory.
    #[allow(clippy::type_complexity)]
    fn read_hot(
        &self,
        attributes: &[usize],
    ) -> Result<Option<(usize, Vec<Rc<Remembered>>)>, ColdError> {
        let layouts: Vec<_> = (attributes.iter())
            .map(|&attribute| &self.layout.attributes[attribute])
            .collect();
        let types: Vec<_> = layouts.iter().map(|layout| layout.column_type).collect();
        let (mut rows, mut row_count) = (RowGroupBuilder::new(&types), 0);
        let (is_counted, memory) = (vec![false; types.len()], BatchMemory::default());
        let mut hot = HotRows::begin(self.table, self.snapshot, attributes, &is_counted, memory);
        loop {
            pgrx::check_for_interrupts!();
            let fetched = hot.fetch(MOST_ROWS);
            if fetched == 0 {
                break;
            }
            for (place, layout) in layouts.iter().enumerate() {
                let column = rows.column_mut(place);
                for value in hot.column(place) {
                    // Expanding a value may take long.
                    pgrx::check_for_interrupts!();
                    match value {
                        None => column.push_null(),
                        // SAFETY: a value of this attribute.
                        Some(datum) => unsafe { push_datum(column, layout, datum, false) },
                    }
                }
            }
            rows.finish_rows(fetched);
            row_count += fetched;
            if row_count > MOST_ROWS || rows.raw_bytes() > MOST_RAW_BYTES {
                return Ok(None);
            }
        }
        if row_count == 0 || types.is_empty() {
            return Ok(Some((row_count, Vec::new())));
        }
        let encoded = rows.encode(Effort::Fast)?;
        let bytes = [encoded.footer, encoded.body].concat();
        let layout = GroupLayout::read(bytes.as_slice())?;
        let mut columns = Vec::with_capacity(types.len());
        for (place, &attribute) in attributes.iter().enumerate() {
            let meta = layout.column(place, bytes.as_slice())?;
            let range = meta.byte_range.start as usize..meta.byte_range.end as usize;
            if range.len() > MOST_BYTES / 2 {
                return Ok(None);
            }
            columns.push(Rc::new(Remembered {
                attribute,
                statistics: Rc::new(layout.statistics(place, bytes.as_slice())?),
                bytes: bytes[range].into(),
                meta: Arc::new(meta),
            }));
        }
        Ok(Some((row_count, columns)))
    }

    /// Feeds hot rows that are remembered.
    pub fn feed_settled(
        &self,
        hot: SettledHot,
        ordinal: &mut u64,
        fed: &mut Fed,
        feeder: &Feeder<'_>,
    ) {
        let Fed {
            counts, failure, ..
        } = fed;
        self.count(&hot, counts);
        let known: Vec<_> = hot.columns.iter().map(statistics).collect();
        match hot.look {
            Look::Skip => {}
            Look::Statistics => {
                if let Err(error) = feeder.add_statistics(&known, hot.row_count) {
                    failure.get_or_insert(error);
                }
            }
            Look::Read {
                rows,
                filter_decided,
            } => {
                let rows = match hot.leading.and_then(|place| known[place]) {
                    Some(leading) => feeder.narrowed(leading, rows),
                    None => rows,
                };
                if rows.is_empty() {
                    return;
                }
                let column = |(place, column): (usize, &Option<Rc<Remembered>>)| match column {
                    Some(column) if hot.needed.contains(&place) => MorselColumn::Encoded {
                        meta: Arc::clone(&column.meta),
                        bytes: ChunkBuffer::from(&*column.bytes),
                    },
                    _ => MorselColumn::Unread,
                };
                let morsel = Morsel {
                    row_count: hot.row_count,
                    columns: hot.columns.iter().enumerate().map(column).collect(),
                    hidden: None,
                    rows,
                    filter_decided,
                    ordinal: next(ordinal),
                };
                push(feeder, morsel);
            }
        }
    }

    fn count(&self, hot: &SettledHot, counts: &mut Counts) {
        counts.hot_rows += hot.row_count as u64;
        if !hot.is_counted {
            self.table.count_scan(hot.row_count as u64);
        }
    }
}

/// What is known of a column's values.
fn statistics(column: &Option<Rc<Remembered>>) -> Option<&ColumnStatistics> {
    column.as_ref().map(|column| &*column.statistics)
}
