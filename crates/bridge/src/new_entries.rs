//! Index entries for rows that have new TIDs.
//!
//! As `ExecInsertIndexTuples` inserts them, but never with a uniqueness check: the same keys are in
//! the index already under the row's old TID. Every index that accepts inserts gets its entries,
//! valid or not.

use pgrx::pg_sys;

use crate::datum::Datum;
use crate::hot::page::HotPage;
use crate::slot::Slot;
use crate::table::Table;
use crate::tid::Tid;

struct OpenIndex {
    index: pg_sys::Relation,
    info: *mut pg_sys::IndexInfo,
    predicate: *mut pg_sys::ExprState,
}

/// The indexes of one table, open for inserts, and a slot for its rows.
pub struct Indexes<'a> {
    table: Table<'a>,
    indexes: Vec<OpenIndex>,
    estate: *mut pg_sys::EState,
    econtext: *mut pg_sys::ExprContext,
    slot: *mut pg_sys::TupleTableSlot,
}

impl<'a> Indexes<'a> {
    /// Opens the wanted indexes with RowExclusiveLock, which is kept to the end of the transaction.
    /// The table is locked against DDL. Expressions run as the current user.
    pub fn open(table: Table<'a>, is_wanted: impl Fn(Table<'_>) -> bool) -> Indexes<'a> {
        let rel = table.raw();
        // SAFETY: the table is open; all memory belongs to the current context.
        unsafe {
            let estate = pg_sys::CreateExecutorState();
            let econtext = pg_sys::MakePerTupleExprContext(estate);
            let slot =
                pg_sys::MakeSingleTupleTableSlot((*rel).rd_att, &raw const pg_sys::TTSOpsHeapTuple);
            (*slot).tts_tableOid = table.oid();
            let list = pg_sys::RelationGetIndexList(rel);
            let count = if list.is_null() { 0 } else { (*list).length };
            let mut indexes = Vec::new();
            for i in 0..count as usize {
                let oid = (*(*list).elements.add(i)).oid_value;
                let index = pg_sys::index_open(oid, pg_sys::RowExclusiveLock as pg_sys::LOCKMODE);
                let info = pg_sys::BuildIndexInfo(index);
                if !(*info).ii_ReadyForInserts || !is_wanted(Table::from_raw(index)) {
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

    /// Whether one of them belongs to a constraint that may be checked at the end of the
    /// transaction.
    pub fn is_any_deferrable(&self) -> bool {
        // SAFETY: they are open.
        let is_deferrable = |open: &OpenIndex| unsafe { !(*(*open.index).rd_index).indimmediate };
        self.indexes.iter().any(is_deferrable)
    }

    pub fn is_empty(&self) -> bool {
        self.indexes.is_empty()
    }

    /// Inserts the entries of a row of a copied page of the table.
    pub fn insert_hot(&mut self, page: &mut HotPage, index: usize, tid: Tid) {
        let mut tuple = page.tuple(index);
        // SAFETY: the tuple lies in the page's copy.
        unsafe { self.insert(&mut tuple, tid) }
    }

    /// Inserts the entries of a row with these values, in the current memory context.
    ///
    /// # Safety
    /// There are a value and a flag for each attribute of the table, valid where the flag does not
    /// say NULL.
    pub unsafe fn insert_values(&mut self, values: &mut [Datum], nulls: &mut [bool], tid: Tid) {
        // SAFETY: as for this function; the tuple is made in the current memory.
        unsafe {
            let desc = self.table.descriptor().raw();
            let tuple = pg_sys::heap_form_tuple(desc, values.as_mut_ptr(), nulls.as_mut_ptr());
            self.insert(&mut *tuple, tid);
        }
    }

    /// # Safety
    /// `tuple` is a row of the table, valid during the call.
    unsafe fn insert(&mut self, tuple: &mut pg_sys::HeapTupleData, tid: Tid) {
        // SAFETY: everything was made by `open`.
        unsafe {
            pg_sys::ExecStoreHeapTuple(tuple, self.slot, false);
            self.insert_slot(Slot::from_raw(self.slot), tid, false, |insert| insert());
            pg_sys::ExecClearTuple(self.slot);
        }
    }

    /// Inserts the entries of the row in a slot; each insertion into an index is run by `run`.
    /// `keeps_keys` is a hint that the row has the same keys under another TID, whose version may
    /// soon be dead.
    pub fn insert_slot(
        &mut self,
        slot: Slot<'_>,
        tid: Tid,
        keeps_keys: bool,
        run: impl Fn(&mut dyn FnMut()),
    ) {
        let (slot, mut tid) = (slot.raw(), tid.raw());
        // SAFETY: the slot holds a row of the table. Everything was made by `open`; datums live in
        // the per-tuple memory, which is also where index AMs leave what they allocate.
        unsafe {
            pg_sys::MemoryContextReset((*self.econtext).ecxt_per_tuple_memory);
            let old = pg_sys::MemoryContextSwitchTo((*self.econtext).ecxt_per_tuple_memory);
            (*self.econtext).ecxt_scantuple = slot;
            for open in &self.indexes {
                if !open.predicate.is_null() && !pg_sys::ExecQual(open.predicate, self.econtext) {
                    continue;
                }
                let mut values = [pg_sys::Datum::from(0); pg_sys::INDEX_MAX_KEYS as usize];
                let mut nulls = [true; pg_sys::INDEX_MAX_KEYS as usize];
                pg_sys::FormIndexDatum(
                    open.info,
                    slot,
                    self.estate,
                    values.as_mut_ptr(),
                    nulls.as_mut_ptr(),
                );
                run(&mut || {
                    pg_sys::index_insert(
                        open.index,
                        values.as_mut_ptr(),
                        nulls.as_mut_ptr(),
                        &mut tid,
                        self.table.raw(),
                        pg_sys::IndexUniqueCheck::UNIQUE_CHECK_NO,
                        keeps_keys,
                        open.info,
                    );
                });
            }
            pg_sys::MemoryContextSwitchTo(old);
        }
    }
}

impl Drop for Indexes<'_> {
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
