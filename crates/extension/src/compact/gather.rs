//! Reads the hot rows that will form one row group.

use std::collections::HashSet;

use howdah_bridge::Datum;
use howdah_bridge::hot::page::{HotPage, HotReader};
use howdah_bridge::row_memory::RowMemory;
use howdah_bridge::table::{Descriptor, Table};
use howdah_bridge::tid::BlockNumber;
use howdah_columnar::{MAX_ROWS, RowGroupBuilder};

use super::progress::Progress;
use super::survey::BlockSet;
use super::throttle;
use crate::settings;
use crate::store::view::RowDatums;
use crate::types::{TableLayout, must_stay_hot, push_datums};

/// Rows with out-of-line values in one group. Their TOAST values are deleted between stamp and
/// commit, at some 20 µs each, while writers of these rows wait.
const MAX_TOASTED_ROWS: usize = 4_096;

/// Which pages may be taken.
pub struct Pages<'a> {
    pub from: BlockNumber,
    /// Pages that were refused before.
    pub except: &'a HashSet<BlockNumber>,
    /// `None`: every page.
    pub only: Option<&'a BlockSet>,
}

/// Copies of pages and their rows, in the order of the pages; the mover sorts the rows.
pub struct Batch {
    /// The tuples that each page holds are the rows to be moved.
    pub pages: Vec<HotPage>,
    pub rows: RowGroupBuilder,
    /// Where the next batch starts, as this one is full; `None` at the end of the table.
    pub next_block: Option<BlockNumber>,
    /// Whether rows of the last page were left, because their values are long.
    pub is_cut: bool,
}

impl Batch {
    pub fn row_count(&self) -> u32 {
        self.rows.row_count() as u32
    }
}

/// Reads pages until a row group is full or the table ends. The table is locked against VACUUM and
/// DDL; a snapshot is active (for TOAST values).
pub fn gather(
    table: Table<'_>,
    layout: &TableLayout,
    pages: &Pages<'_>,
    progress: &Progress,
) -> Batch {
    let (mut reader, blocks) = (HotReader::begin(table), table.main_fork_blocks());
    let mut datums = RowDatums::new(layout.attributes.len());
    let memory = RowMemory::new();
    let mut batch = Batch {
        pages: Vec::new(),
        rows: RowGroupBuilder::new(&layout.column_types()),
        next_block: None,
        is_cut: false,
    };
    let mut toasted_rows = 0;
    for block in pages.from..blocks {
        progress.blocks(block, blocks);
        howdah_bridge::check_for_interrupts!();
        if pages.except.contains(&block) || pages.only.is_some_and(|only| !only.contains(block)) {
            continue;
        }
        let Some(mut page) = reader.read(block) else {
            continue;
        };
        let full = batch.rows.row_count() + page.tuples.len() > MAX_ROWS
            || batch.rows.raw_bytes() >= settings::row_group_bytes()
            || toasted_rows >= MAX_TOASTED_ROWS;
        if full {
            batch.next_block = Some(block);
            break;
        }
        let desc = table.descriptor();
        batch.is_cut = memory.with(|| take_rows(desc, layout, &mut page, &mut batch, &mut datums));
        toasted_rows += (0..page.tuples.len())
            .filter(|&i| page.has_external(i))
            .count();
        if !page.tuples.is_empty() {
            batch.pages.push(page);
        }
        throttle::pay(table);
        if batch.is_cut {
            batch.next_block = Some(block + 1);
            break;
        }
    }
    memory.delete();
    progress.blocks(batch.next_block.unwrap_or(blocks), blocks);
    batch
}

/// Appends the page's rows; removes those from the page that must stay hot. Whether the batch was
/// full before the page's end: the rest stays hot for now.
fn take_rows(
    desc: Descriptor<'_>,
    layout: &TableLayout,
    page: &mut HotPage,
    batch: &mut Batch,
    datums: &mut RowDatums,
) -> bool {
    // Whole pages are moved, as the rest of one would stay hot, unless a page of compressed values
    // is a thousand times as long.
    let most_bytes = settings::row_group_bytes() / 2 * 3;
    let mut index = 0;
    while index < page.tuples.len() {
        if index > 0 && batch.rows.raw_bytes() >= most_bytes {
            page.tuples.truncate(index);
            return true;
        }
        let (values, nulls) = (&mut datums.values, &mut datums.nulls);
        page.deform(index, desc, values, nulls);
        // SAFETY: the values are those of a row with this layout; they lie in the page's copy.
        let is_taken = unsafe { push_row(&mut batch.rows, layout, values, nulls) };
        if !is_taken {
            page.tuples.remove(index);
            continue;
        }
        index += 1;
    }
    false
}

/// Appends a row; `false` if it must stay hot.
///
/// # Safety
/// There are a value and a flag for each attribute, valid where the flag does not say NULL.
unsafe fn push_row(
    rows: &mut RowGroupBuilder,
    layout: &TableLayout,
    values: &[Datum],
    nulls: &[bool],
) -> bool {
    // SAFETY: as for this function.
    unsafe {
        if must_stay_hot(layout, values, nulls) {
            return false;
        }
        push_datums(rows, layout, values, nulls);
    }
    rows.finish_row();
    true
}
