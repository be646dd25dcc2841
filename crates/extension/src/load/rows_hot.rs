//! Rows that were collected for a row group, and become hot: too few have come.

use howdah_bridge::heap_am::{self, InsertOptions, InsertRequest};
use howdah_bridge::slot::Origin;
use howdah_bridge::slot_batch::SlotBatch;
use howdah_bridge::table::Table;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::CommandId;
use howdah_columnar::RowGroupBuilder;

use crate::slot_writer::SlotWriter;
use crate::store::view::fill_from_builder;

/// Rows that are passed to heap at once: as COPY does.
const ROWS_AT_ONCE: usize = 1_000;

/// Inserts the rows in their order. The table is locked for writing; `rows` have its columns, or
/// those that it had before columns were added.
pub(super) fn insert(
    table: Table<'_>,
    rows: &RowGroupBuilder,
    command: CommandId,
    options: InsertOptions,
) {
    let row_count = rows.row_count();
    let batch = SlotBatch::of(table, row_count.min(ROWS_AT_ONCE));
    let request = InsertRequest::put_off(command, options);
    let origin = Origin::here(command);
    let mut writer = SlotWriter::new();
    for start in (0..row_count).step_by(ROWS_AT_ONCE) {
        howdah_bridge::check_for_interrupts!();
        let count = (row_count - start).min(ROWS_AT_ONCE);
        for (i, &slot) in batch.slots()[..count].iter().enumerate() {
            // Heap replaces the TID by the one that it assigns.
            let tid = RowNumber(0).tid();
            writer.write(slot, tid, table.oid(), origin, |layout, _, datums| {
                fill_from_builder(rows, start + i, layout, datums);
            });
        }
        heap_am::insert_run(table, batch.slots(), 0..count, request);
        batch.slots()[..count].iter().for_each(|slot| slot.clear());
    }
    writer.delete();
}
