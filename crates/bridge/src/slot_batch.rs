//! Several slots of a table, for rows that are made here and inserted together.

use pgrx::pg_sys;

use crate::slot::Slot;
use crate::table::Table;

/// Slots of heap's kind, with the table's descriptor. They are freed with this value, or by the
/// memory context after an ERROR.
pub struct SlotBatch<'a>(Vec<Slot<'a>>);

impl<'a> SlotBatch<'a> {
    /// Makes so many slots in the current memory context, which outlives them.
    pub fn of(table: Table<'a>, count: usize) -> SlotBatch<'a> {
        let make = |_| {
            // SAFETY: the table is open, and keeps its descriptor as long as it is; the slot has
            // the kind and the descriptor that `from_raw` requires, and lives in the current
            // memory context.
            unsafe {
                let desc = (*table.raw()).rd_att;
                let kind = &raw const pg_sys::TTSOpsBufferHeapTuple;
                Slot::from_raw(pg_sys::MakeSingleTupleTableSlot(desc, kind))
            }
        };
        SlotBatch((0..count).map(make).collect())
    }

    /// The slots.
    pub fn slots(&self) -> &[Slot<'a>] {
        &self.0
    }
}

impl Drop for SlotBatch<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for slot in self.0.drain(..) {
            // SAFETY: made by `of`, freed once.
            unsafe { pg_sys::ExecDropSingleTupleTableSlot(slot.raw()) }
        }
    }
}
