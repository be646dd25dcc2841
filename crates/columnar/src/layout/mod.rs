//! The footer of a row group: what every column chunk is, where it lies, and the statistics of its
//! values. `docs/format.md` specifies the bytes.
//!
//! ```text
//!   header │ column table │ statistics 0 │ nodes 0 │ statistics 1 │ nodes 1 │ … ║ chunk 0 │ …
//!          fixed widths          │            └─▶ encodings, and where their parts lie; or the
//!                                │                column that has those of the same group
//!                                └─▶ counts, sum, extremes, zone map
//! ```
//!
//! [`GroupLayout`] reads header and table only; the two sections of a column are read on request,
//! independently of each other. [`Footer`] is all of it at once.
//!
//! Invariant: everything that was parsed has been checked. Every range lies inside of the stored
//! value, every count agrees with the row count. What only a newer version knows is an error of
//! the column that has it, and of what was asked of that column.

mod statistics;
mod table;
pub(crate) mod wire;

use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub use table::FORMAT_VERSION;
pub(crate) use table::{ChunkLayout, NumericLayout};
use table::{ENTRY_LEN, Entry, HEADER_LEN, Header, Newer};

use crate::access::RowAccess;
use crate::error::ColumnarError;
use crate::grouped::{Beside, Fields};
use crate::nodes::NodeTable;
use crate::predicate::{Predicate, Verdict};
use crate::source::{ByteSource, read_range};
use crate::stats::{ChunkStats, ValueFlags, Zone};
use crate::types::ColumnType;
use crate::verdict::{Extent, verdict};
use crate::zones::ZoneMap;

/// The longest section of a column that a reader accepts, against damaged lengths.
const MAX_SECTION_BYTES: u64 = 16 << 20;

/// The header and the column table of one stored row group.
#[derive(Clone, Debug)]
pub struct GroupLayout {
    header: Header,
    /// By column; an error where only a newer version knows what the column is.
    entries: Arc<[Result<Entry, Newer>]>,
    /// What the columns that lie side by side have in common, by the first one that was read: a
    /// hash, and what a row is made of.
    group: Arc<OnceLock<(u64, Arc<Fields>)>>,
    /// The nodes of these columns, and the column that has them, once another one was read that
    /// has none of its own.
    group_nodes: Arc<OnceLock<(usize, NodeTable)>>,
}

impl GroupLayout {
    /// Reads header and column table, nothing else. A column that only a newer version knows is
    /// no error until it is asked for.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::Corrupt`] or [`ColumnarError::UnsupportedVersion`], and what the source
    /// fails with.
    pub fn read<S: ByteSource + ?Sized>(source: &S) -> Result<Self, S::Error> {
        let mut header = [0; HEADER_LEN];
        source.read(0, &mut header)?;
        let header = Header::parse(&header)?;
        let mut table = vec![0; header.column_count * ENTRY_LEN];
        source.read(HEADER_LEN as u64, &mut table)?;
        let entries = table
            .chunks_exact(ENTRY_LEN)
            .map(|bytes| Entry::parse(bytes, &header))
            .collect::<Result<Arc<[_]>, _>>()?;
        let mut grouped = entries.iter().flatten().filter(|entry| entry.is_grouped());
        let first = grouped.next();
        wire::ensure(
            grouped.all(|entry| first.is_some_and(|first| first.chunk == entry.chunk)),
            "columns that lie side by side have several chunks",
        )?;
        Ok(Self {
            header,
            entries,
            group: Arc::default(),
            group_nodes: Arc::default(),
        })
    }

    /// Rows in the row group.
    pub fn row_count(&self) -> usize {
        self.header.row_count
    }

    /// Columns in the row group.
    pub fn column_count(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of the footer: the chunks start behind it.
    pub fn footer_len(&self) -> usize {
        self.header.footer_len
    }

    /// Bytes of all column chunks together.
    pub fn body_len(&self) -> u64 {
        self.header.body_len
    }

    fn entry(&self, column: usize) -> Result<&Entry, ColumnarError> {
        self.entries[column].as_ref().map_err(|newer| newer.error())
    }

    /// The type of a column.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::Newer`] when the column's type, layout or flags are not known.
    ///
    /// # Panics
    ///
    /// Panics when there is no such column; so do the other functions that take a column.
    pub fn column_type(&self, column: usize) -> Result<ColumnType, ColumnarError> {
        Ok(self.entry(column)?.ty)
    }

    /// The first of the columns whose values lie beside those of a column, if there are any: it
    /// has the same chunk, and what is stored of a row is the same. Columns that only a newer
    /// version knows are in no group.
    pub fn first_of_group(&self, column: usize) -> Option<usize> {
        match is_grouped(&self.entries[column]) {
            true => self.entries.iter().position(is_grouped),
            false => None,
        }
    }

    /// Everything about a column: statistics, zone map, nodes.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), and [`ColumnarError::Newer`] where only a newer version knows what
    /// the column has.
    pub fn column<S: ByteSource + ?Sized>(
        &self,
        column: usize,
        source: &S,
    ) -> Result<ColumnMeta, S::Error> {
        // The two sections lie back to back.
        let entry = self.entry(column)?;
        let bytes = section(source, entry.statistics.start..entry.nodes.end)?;
        let (statistics, nodes) =
            bytes.split_at((entry.statistics.end - entry.statistics.start) as usize);
        let nodes = self.parse_nodes(column, nodes, source)?;
        Ok(self.meta(column, statistics, nodes)?)
    }

    /// The statistics of a column's values, without its nodes.
    ///
    /// # Errors
    ///
    /// As [`column`](Self::column).
    pub fn statistics<S: ByteSource + ?Sized>(
        &self,
        column: usize,
        source: &S,
    ) -> Result<ColumnStatistics, S::Error> {
        let entry = self.entry(column)?;
        let bytes = section(source, entry.statistics.clone())?;
        Ok(self.parse_statistics(entry, &bytes)?)
    }

    /// Access to single rows of a column; only its nodes are read of the footer.
    ///
    /// # Errors
    ///
    /// As [`column`](Self::column).
    pub fn row_access<S: ByteSource + ?Sized>(
        &self,
        column: usize,
        source: &S,
    ) -> Result<RowAccess, S::Error> {
        let entry = self.entry(column)?;
        let bytes = section(source, entry.nodes.clone())?;
        let nodes = self.parse_nodes(column, &bytes, source)?;
        Ok(RowAccess::new(
            entry.ty,
            entry.layout,
            self.header.row_count,
            &entry.chunk,
            &nodes,
        )?)
    }

    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.entries)
    }

    fn parse_statistics(
        &self,
        entry: &Entry,
        bytes: &[u8],
    ) -> Result<ColumnStatistics, ColumnarError> {
        let (chunk, zones) = statistics::parse(bytes, entry.ty, self.header.row_count)?;
        wire::ensure(
            (entry.layout == ChunkLayout::AllNull) == (chunk.null_count == chunk.row_count),
            "null count does not fit the chunk layout",
        )?;
        Ok(ColumnStatistics {
            ty: entry.ty,
            chunk,
            zones,
        })
    }

    fn meta(
        &self,
        column: usize,
        statistics: &[u8],
        nodes: NodeTable,
    ) -> Result<ColumnMeta, ColumnarError> {
        let entry = self.entry(column)?;
        let ColumnStatistics { chunk, zones, .. } = self.parse_statistics(entry, statistics)?;
        Ok(ColumnMeta {
            ty: entry.ty,
            byte_range: entry.chunk.clone(),
            encoding: nodes.describe(entry.layout),
            stats: chunk,
            zones,
            layout: entry.layout,
            flags: entry.flags,
            nodes,
        })
    }

    fn parse_nodes<S: ByteSource + ?Sized>(
        &self,
        column: usize,
        bytes: &[u8],
        source: &S,
    ) -> Result<NodeTable, S::Error> {
        let entry = self.entry(column)?;
        let mut nodes = match Beside::find(bytes)? {
            None => self.parse_own_nodes(bytes, entry.layout, &entry.chunk)?,
            Some(beside) => self.nodes_beside(entry, beside, source)?,
        };
        if let Some(field) = nodes.field() {
            // What one column reads of a row is used by the others. Those that only a newer
            // version knows may be among them, or not.
            let places = |entries: &[Result<Entry, Newer>]| {
                let certain = entries.iter().filter(|it| is_grouped(it)).count();
                certain..=certain + entries.iter().filter(|it| it.is_err()).count()
            };
            let (index, count) = (places(&self.entries[..column]), places(&self.entries));
            let of_group = || (nodes.group_hash(), Arc::clone(field.fields()));
            let (hash, fields) = self.group.get_or_init(of_group);
            wire::ensure(
                field.fits(entry.ty),
                "the form of a grouped column does not fit its type",
            )?;
            wire::ensure(
                field.is_among(index, count) && *hash == nodes.group_hash(),
                "columns that lie side by side disagree about their rows",
            )?;
            nodes.share_fields(fields);
        }
        Ok(nodes)
    }

    fn parse_own_nodes(
        &self,
        bytes: &[u8],
        layout: ChunkLayout,
        chunk: &Range<u64>,
    ) -> Result<NodeTable, ColumnarError> {
        NodeTable::parse(
            bytes,
            layout,
            self.header.row_count,
            chunk.end - chunk.start,
        )
    }

    /// The nodes of a grouped column that names the one that has those of the group. This may be
    /// one of which only a newer version knows more.
    fn nodes_beside<S: ByteSource + ?Sized>(
        &self,
        entry: &Entry,
        beside: Beside,
        source: &S,
    ) -> Result<NodeTable, S::Error> {
        let (chunk, section_range) = match self.entries.get(beside.column) {
            Some(Ok(named)) => (&named.chunk, &named.nodes),
            Some(Err(newer)) => (&newer.chunk, &newer.nodes),
            None => return Err(ColumnarError::corrupt("a group names no column").into()),
        };
        wire::ensure(
            entry.is_grouped() && *chunk == entry.chunk,
            "a column names one that lies elsewhere",
        )?;
        let parsed;
        let nodes = match self.group_nodes.get() {
            Some((column, nodes)) if *column == beside.column => nodes,
            known => {
                let bytes = section(source, section_range.clone())?;
                let nodes = self.parse_own_nodes(&bytes, ChunkLayout::Grouped, chunk)?;
                match known {
                    None => &self.group_nodes.get_or_init(|| (beside.column, nodes)).1,
                    Some(_) => {
                        parsed = nodes;
                        &parsed
                    }
                }
            }
        };
        let nodes = nodes.of_other_field(beside.index);
        Ok(nodes.ok_or_else(|| ColumnarError::corrupt("a column is none of its group"))?)
    }
}

/// Whether the column's values lie beside those of others, as far as this version knows.
fn is_grouped(entry: &Result<Entry, Newer>) -> bool {
    entry.as_ref().is_ok_and(Entry::is_grouped)
}

fn section<S: ByteSource + ?Sized>(source: &S, range: Range<u64>) -> Result<Vec<u8>, S::Error> {
    wire::ensure(
        range.end - range.start <= MAX_SECTION_BYTES,
        "column section in footer is too long",
    )?;
    read_range(source, range)
}

/// The whole footer of one row group, for readers that have it in memory.
#[derive(Clone, Debug)]
pub struct Footer {
    layout: GroupLayout,
    columns: Vec<ColumnMeta>,
}

impl Footer {
    /// Bytes at the start of a footer from which [`encoded_len`](Self::encoded_len) can tell
    /// its length.
    pub const HEADER_LEN: usize = HEADER_LEN;

    /// The length in bytes of the footer that starts with these bytes, so that a reader
    /// knows how much to fetch.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse).
    pub fn encoded_len(header: &[u8]) -> Result<usize, ColumnarError> {
        Header::parse(header).map(|header| header.footer_len)
    }

    /// Parses the footer that `bytes` start with; what follows it (the body) is ignored.
    ///
    /// # Errors
    ///
    /// As [`GroupLayout::read`] and, of any column, [`GroupLayout::column`].
    pub fn parse(bytes: &[u8]) -> Result<Footer, ColumnarError> {
        let layout = GroupLayout::read(bytes)?;
        let columns = (0..layout.column_count())
            .map(|column| layout.column(column, bytes))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Footer { layout, columns })
    }

    /// Header and column table.
    pub fn layout(&self) -> &GroupLayout {
        &self.layout
    }

    /// Rows in the row group.
    pub fn row_count(&self) -> usize {
        self.layout.row_count()
    }

    /// Bytes of all column chunks together.
    pub fn body_len(&self) -> u64 {
        self.layout.body_len()
    }

    /// Columns in the row group.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// One column.
    ///
    /// # Panics
    ///
    /// Panics when there is no such column.
    pub fn column(&self, column: usize) -> &ColumnMeta {
        &self.columns[column]
    }

    /// Memory held by the parsed footer.
    pub fn memory_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(ColumnMeta::memory_bytes).sum();
        size_of::<Self>() + self.layout.memory_bytes() + columns
    }
}

/// What the footer says about the values of one column.
#[derive(Clone, Debug)]
pub struct ColumnStatistics {
    ty: ColumnType,
    /// Statistics of the whole chunk.
    pub chunk: ChunkStats,
    zones: ZoneMap,
}

impl ColumnStatistics {
    /// The type of the column.
    pub fn column_type(&self) -> ColumnType {
        self.ty
    }

    /// Zones in the zone map: one for every [`ZONE_ROWS`](crate::ZONE_ROWS) rows.
    pub fn zone_count(&self) -> usize {
        self.zones.len()
    }

    /// See [`ColumnMeta::zone_verdict`].
    pub fn zone_verdict(&self, zone: usize, predicate: &Predicate) -> Verdict {
        verdict(&self.zones.extent(zone), predicate)
    }

    /// See [`ColumnMeta::chunk_verdict`].
    pub fn chunk_verdict(&self, predicate: &Predicate) -> Verdict {
        chunk_verdict(&self.chunk, &self.zones, predicate)
    }

    /// Whether the rows ascend by this column by and large, as far as zones tell: no zone reaches
    /// into the next one, and most have more than one value.
    pub fn zones_ascend(&self) -> bool {
        self.zones.ascend()
    }

    /// Memory held.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.zones.heap_bytes() + self.chunk.heap_bytes()
    }
}

/// What the footer says about one column.
#[derive(Clone, Debug)]
pub struct ColumnMeta {
    /// The type of the column.
    pub ty: ColumnType,
    /// Where the chunk lies in the stored value.
    pub byte_range: Range<u64>,
    /// The cascade of encodings, for people, such as `dict(bitpacked)`.
    pub encoding: String,
    /// Statistics of the whole chunk.
    pub stats: ChunkStats,
    pub(crate) zones: ZoneMap,
    pub(crate) layout: ChunkLayout,
    pub(crate) flags: ValueFlags,
    pub(crate) nodes: NodeTable,
}

impl ColumnMeta {
    /// The zone map: one entry for every [`ZONE_ROWS`](crate::ZONE_ROWS) rows.
    pub fn zones(&self) -> impl ExactSizeIterator<Item = Zone> + '_ {
        (0..self.zones.len()).map(|zone| self.zones.zone(zone))
    }

    /// One zone; `None` when there is no such zone.
    pub fn zone(&self, zone: usize) -> Option<Zone> {
        (zone < self.zones.len()).then(|| self.zones.zone(zone))
    }

    /// The rows that a zone covers.
    pub fn zone_rows(&self, zone: usize) -> Range<usize> {
        self.zones.rows(zone)
    }

    /// What the statistics alone say about a predicate on the rows of one zone.
    ///
    /// # Panics
    ///
    /// Panics when there is no such zone.
    pub fn zone_verdict(&self, zone: usize, predicate: &Predicate) -> Verdict {
        verdict(&self.zones.extent(zone), predicate)
    }

    /// What the statistics alone say about a predicate on all rows of the chunk.
    pub fn chunk_verdict(&self, predicate: &Predicate) -> Verdict {
        chunk_verdict(&self.stats, &self.zones, predicate)
    }

    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.encoding.capacity()
            + self.zones.heap_bytes()
            + self.stats.heap_bytes()
            + self.nodes.heap_bytes()
    }
}

fn chunk_verdict(stats: &ChunkStats, zones: &ZoneMap, predicate: &Predicate) -> Verdict {
    let whole = verdict(&Extent::of_chunk(stats), predicate);
    if whole != Verdict::Some {
        return whole;
    }
    // Long values have no chunk-wide extremes, and zones may tell more in any case.
    let mut verdicts = (0..zones.len()).map(|zone| verdict(&zones.extent(zone), predicate));
    match verdicts.next() {
        Some(first) if verdicts.all(|other| other == first) => first,
        _ => Verdict::Some,
    }
}

/// One encoded column that will be written into a footer. The chunk's range is relative to the
/// body.
pub(crate) struct NewColumn {
    pub(crate) ty: ColumnType,
    pub(crate) layout: ChunkLayout,
    pub(crate) flags: ValueFlags,
    pub(crate) chunk: Range<u64>,
    pub(crate) stats: ChunkStats,
    pub(crate) zones: Vec<Zone>,
    pub(crate) nodes: NodeTable,
}

/// The bytes of the footer of these columns.
pub(crate) fn write(row_count: usize, body_len: u64, columns: &[NewColumn]) -> Vec<u8> {
    let sections_start = HEADER_LEN + columns.len() * ENTRY_LEN;
    let mut sections = Vec::new();
    let mut entries = Vec::with_capacity(columns.len());
    let mut first_of_group = None;
    for (at, column) in columns.iter().enumerate() {
        let start = sections.len();
        statistics::write(&mut sections, column.ty, &column.stats, &column.zones);
        let middle = sections.len();
        match (column.nodes.field(), first_of_group) {
            (Some(field), Some(column)) => {
                let index = field.index();
                Beside { index, column }.write(&mut sections);
            }
            (field, _) => {
                first_of_group = field.map(|_| at).or(first_of_group);
                column.nodes.write(&mut sections);
            }
        }
        let place = |at: usize| (sections_start + at) as u64;
        entries.push((column, place(start)..place(middle), place(sections.len())));
    }
    let footer_len = sections_start + sections.len();
    let mut footer = Vec::with_capacity(footer_len);
    Header {
        column_count: columns.len(),
        row_count,
        footer_len,
        body_len,
    }
    .write(&mut footer);
    let body_start = footer_len as u64;
    for (column, statistics, end) in entries {
        Entry {
            ty: column.ty,
            layout: column.layout,
            flags: column.flags,
            chunk: body_start + column.chunk.start..body_start + column.chunk.end,
            nodes: statistics.end..end,
            statistics,
        }
        .write(&mut footer, body_start);
    }
    footer.extend_from_slice(&sections);
    footer
}
