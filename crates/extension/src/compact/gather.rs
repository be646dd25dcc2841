//! Reading the hot rows of one row group to be.

use std::collections::HashSet;

use howdah_bridge::hot::page::{HotPage, HotReader};
use howdah_bridge::relation::main_fork_blocks;
use howdah_columnar::{MAX_ROWS, RowGroupBuilder};
use pgrx::pg_sys;

use super::progress::Progress;
use super::survey::BlockSet;
use super::throttle;
use crate::settings;
use crate::slot_writer::RowMemory;
use crate::store::view::RowDatums;
use crate::types::{TableLayout, must_stay_hot, push_datum};

/// Rows with out-of-line values in one group. Their TOAST values are deleted between stamp and
/// commit, at some 20 µs each, while writers of these rows wait.
const MAX_TOASTED_ROWS: usize = 4_096;

/// Which pages may be taken.
pub struct Pages<'a> {
    pub from: pg_sys::BlockNumber,
    /// Pages that refused before.
    pub except: &'a HashSet<pg_sys::BlockNumber>,
    /// `None`: every page.
    pub only: Option<&'a BlockSet>,
}

/// Copies of pages and their rows, in the order of the pages.
pub struct Batch {
    /// Each page's tuples are the rows to be moved.
    pub pages: Vec<HotPage>,
    pub rows: RowGroupBuilder,
    /// Where the next batch starts; `None` at the end of the table.
    pub next_block: Option<pg_sys::BlockNumber>,
}

impl Batch {
    pub fn row_count(&self) -> u32 {
        self.rows.row_count() as u32
    }
}

/// Reads pages until a row group is full or the table ends.
///
/// # Safety
/// `table` is open and locked against VACUUM and DDL; a snapshot is active (for TOAST values).
pub unsafe fn gather(
    table: pg_sys::Relation,
    layout: &TableLayout,
    pages: &Pages<'_>,
    progress: &Progress,
) -> Batch {
    // SAFETY: the caller holds the relation open.
    let (mut reader, blocks) = unsafe { (HotReader::begin(table), main_fork_blocks(table)) };
    let mut datums = RowDatums::new(layout.attributes.len());
    let memory = RowMemory::new();
    let mut batch = Batch {
        pages: Vec::new(),
        rows: RowGroupBuilder::new(&layout.column_types()),
        next_block: None,
    };
    let mut toasted_rows = 0;
    for block in pages.from..blocks {
        progress.blocks(block, blocks);
        pgrx::check_for_interrupts!();
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
        // SAFETY: as for this function.
        memory.with(|| unsafe { take_rows(table, layout, &mut page, &mut batch, &mut datums) });
        toasted_rows += (0..page.tuples.len())
            .filter(|&i| page.has_external(i))
            .count();
        if !page.tuples.is_empty() {
            batch.pages.push(page);
        }
        // SAFETY: as for this function.
        unsafe { throttle::pay(table) };
    }
    memory.delete();
    progress.blocks(batch.next_block.unwrap_or(blocks), blocks);
    batch
}

/// Appends the page's rows; takes those out of the page that must stay hot.
unsafe fn take_rows(
    table: pg_sys::Relation,
    layout: &TableLayout,
    page: &mut HotPage,
    batch: &mut Batch,
    datums: &mut RowDatums,
) {
    let mut index = 0;
    while index < page.tuples.len() {
        let mut tuple = page.tuple(index);
        // SAFETY: the tuple lies in the page's copy; the arrays have one entry per attribute.
        unsafe {
            pg_sys::heap_deform_tuple(
                &mut tuple,
                (*table).rd_att,
                datums.values.as_mut_ptr(),
                datums.nulls.as_mut_ptr(),
            );
            if must_stay_hot(layout, datums.values.as_ptr(), datums.nulls.as_ptr()) {
                page.tuples.remove(index);
                continue;
            }
            for (i, attribute) in layout.attributes.iter().enumerate() {
                push_datum(
                    batch.rows.column_mut(i),
                    attribute,
                    datums.values[i],
                    datums.nulls[i],
                );
            }
        }
        batch.rows.finish_row();
        index += 1;
    }
}
