//! Index entries for rows that got new TIDs.
//!
//! As `ExecInsertIndexTuples` does it, but never with a uniqueness check: the same row is in the
//! index already under its old TID. Every index that takes inserts gets its entries, valid or
//! not, except BRIN, which cannot hold cold TIDs.

use howdah_bridge::tid::RowNumber;
use pgrx::pg_sys;

use crate::am::index_entry::is_hot_only;

struct OpenIndex {
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    predicate: *mut pg_sys::ExprState,
}

/// The indexes of one table, open for inserts, and a slot for its rows.
pub struct Indexes {
    table: pg_sys::Relation,
    indexes: Vec<OpenIndex>,
    estate: *mut pg_sys::EState,
    econtext: *mut pg_sys::ExprContext,
    slot: *mut pg_sys::TupleTableSlot,
}

impl Indexes {
    /// Opens them with RowExclusiveLock, which is kept to the end of the transaction.
    ///
    /// # Safety
    /// `table` is open, locked against DDL and outlives the result. Expressions run as the
    /// current user, who must be the table's owner.
    pub unsafe fn open(table: pg_sys::Relation) -> Indexes {
        // SAFETY: as for this function; all memory belongs to the current context.
        unsafe {
            let estate = pg_sys::CreateExecutorState();
            let econtext = pg_sys::MakePerTupleExprContext(estate);
            let slot = pg_sys::MakeSingleTupleTableSlot(
                (*table).rd_att,
                &raw const pg_sys::TTSOpsHeapTuple,
            );
            (*slot).tts_tableOid = (*table).rd_id;
            (*econtext).ecxt_scantuple = slot;
            let list = pg_sys::RelationGetIndexList(table);
            let count = if list.is_null() { 0 } else { (*list).length };
            let mut indexes = Vec::new();
            for i in 0..count as usize {
                let oid = (*(*list).elements.add(i)).oid_value;
                let index = pg_sys::index_open(oid, pg_sys::RowExclusiveLock as pg_sys::LOCKMODE);
                let info = pg_sys::BuildIndexInfo(index);
                if !(*info).ii_ReadyForInserts || is_hot_only(index) {
                    pg_sys::index_close(index, pg_sys::NoLock as pg_sys::LOCKMODE);
                    continue;
                }
                indexes.push(OpenIndex {
                    index,
                    info,
                    predicate: pg_sys::ExecPrepareQual((*info).ii_Predicate, estate),
                });
            }
            Indexes {
                table,
                indexes,
                estate,
                econtext,
                slot,
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Inserts the entries of one row.
    ///
    /// # Safety
    /// `tuple` is a row of the table, valid during the call.
    pub unsafe fn insert(&mut self, tuple: &mut pg_sys::HeapTupleData, row: RowNumber) {
        let mut tid = row.tid();
        // SAFETY: everything was made by `open`; datums live in the per-tuple memory, which is
        // also where index AMs leave what they allocate.
        unsafe {
            pg_sys::MemoryContextReset((*self.econtext).ecxt_per_tuple_memory);
            let old = pg_sys::MemoryContextSwitchTo((*self.econtext).ecxt_per_tuple_memory);
            pg_sys::ExecStoreHeapTuple(tuple, self.slot, false);
            for open in &self.indexes {
                if !open.predicate.is_null() && !pg_sys::ExecQual(open.predicate, self.econtext) {
                    continue;
                }
                let mut values = [pg_sys::Datum::from(0); pg_sys::INDEX_MAX_KEYS as usize];
                let mut nulls = [true; pg_sys::INDEX_MAX_KEYS as usize];
                pg_sys::FormIndexDatum(
                    open.info,
                    self.slot,
                    self.estate,
                    values.as_mut_ptr(),
                    nulls.as_mut_ptr(),
                );
                pg_sys::index_insert(
                    open.index,
                    values.as_mut_ptr(),
                    nulls.as_mut_ptr(),
                    &mut tid,
                    self.table,
                    pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
                    false,
                    open.info,
                );
            }
            pg_sys::ExecClearTuple(self.slot);
            pg_sys::MemoryContextSwitchTo(old);
        }
    }
}

impl Drop for Indexes {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        // SAFETY: made by `open`, freed once; the locks stay with the transaction.
        unsafe {
            for open in &self.indexes {
                pg_sys::index_insert_cleanup(open.index, open.info);
                pg_sys::index_close(open.index, pg_sys::NoLock as pg_sys::LOCKMODE);
            }
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            pg_sys::FreeExecutorState(self.estate);
        }
    }
}
