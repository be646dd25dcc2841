//! Sorts rows in the order of a btree index: the server's own sort, which spills to disk past its
//! share of memory.
//!
//! ```text
//!   TupleSort::put … put ──finish──> SortedTuples::next … None
//! ```
//!
//! Tuples are returned with the header that they had when they were added, so data that belongs to
//! a row is carried there. An ERROR leaves memory and temporary files to the transaction's contexts
//! and resource owner.

use std::marker::PhantomData;

use pgrx::pg_sys;

use crate::rewrite::OldRow;
use crate::slot::Origin;
use crate::table::Table;
use crate::xid::Xid;

/// A sort that accepts rows.
pub struct TupleSort<'a> {
    state: *mut pg_sys::Tuplesortstate,
    desc: pg_sys::TupleDesc,
    row_count: u64,
    /// Table and index are open as long as the sort.
    open: PhantomData<Table<'a>>,
}

impl<'a> TupleSort<'a> {
    /// A sort of rows of a table by one of its indexes, which is a btree.
    ///
    /// # Panics
    /// If the index is of another kind.
    pub fn by_index(table: Table<'a>, index: Table<'a>, memory_kb: i32) -> TupleSort<'a> {
        assert!(crate::indexes::is_btree(index), "the sort needs a btree");
        let none = pg_sys::TUPLESORT_NONE as i32;
        let desc = table.descriptor().raw();
        // SAFETY: table and index outlive the sort.
        let state = unsafe {
            let index = index.raw();
            pg_sys::tuplesort_begin_cluster(desc, index, memory_kb, std::ptr::null_mut(), none)
        };
        TupleSort {
            state,
            desc,
            row_count: 0,
            open: PhantomData,
        }
    }

    pub fn row_count(&self) -> u64 {
        self.row_count
    }

    /// Adds a copy of a version of the table as it is.
    pub fn put_old(&mut self, row: OldRow<'_>) {
        // SAFETY: a valid tuple of the table while it is borrowed.
        unsafe { self.put(row.tuple()) }
    }

    /// Adds a copy of the tuple as it is.
    ///
    /// # Safety
    /// `tuple` is a valid tuple of the table.
    unsafe fn put(&mut self, tuple: pg_sys::HeapTuple) {
        // SAFETY: as for this function.
        unsafe { pg_sys::tuplesort_putheaptuple(self.state, tuple) };
        self.row_count += 1;
    }

    /// Adds a row of values, which is returned with this origin.
    ///
    /// # Safety
    /// The arrays hold one row of the table.
    pub unsafe fn put_row(&mut self, values: *mut pg_sys::Datum, nulls: *mut bool, origin: Origin) {
        // SAFETY: as for this function; the tuple is freed after the sort has copied it.
        unsafe {
            let tuple = pg_sys::heap_form_tuple(self.desc, values, nulls);
            let fields = &mut (*(*tuple).t_data).t_choice.t_heap;
            fields.t_xmin = origin.xid.raw();
            fields.t_field3.t_cid = origin.cid;
            self.put(tuple);
            pg_sys::heap_freetuple(tuple);
        }
    }

    /// Sorts.
    pub fn finish(self) -> SortedTuples<'a> {
        // SAFETY: begun by `by_index`.
        unsafe { pg_sys::tuplesort_performsort(self.state) };
        SortedTuples {
            state: self.state,
            desc: self.desc,
            open: PhantomData,
        }
    }
}

/// Rows in order.
pub struct SortedTuples<'a> {
    state: *mut pg_sys::Tuplesortstate,
    desc: pg_sys::TupleDesc,
    open: PhantomData<Table<'a>>,
}

impl SortedTuples<'_> {
    /// The next tuple, valid until the next call.
    pub(crate) fn next_tuple(&mut self) -> Option<pg_sys::HeapTuple> {
        // SAFETY: sorted by `finish`, not ended.
        let tuple = unsafe { pg_sys::tuplesort_getheaptuple(self.state, true) };
        (!tuple.is_null()).then_some(tuple)
    }

    /// The next row that [`TupleSort::put_row`] took; its values stay valid as a tuple does.
    ///
    /// # Safety
    /// The arrays have one entry per attribute.
    pub unsafe fn next_row(
        &mut self,
        values: *mut pg_sys::Datum,
        nulls: *mut bool,
    ) -> Option<Origin> {
        let tuple = self.next_tuple()?;
        // SAFETY: as for this function.
        unsafe {
            pg_sys::heap_deform_tuple(tuple, self.desc, values, nulls);
            let fields = (*(*tuple).t_data).t_choice.t_heap;
            let (xid, cid) = (Xid::from_raw(fields.t_xmin), fields.t_field3.t_cid);
            Some(Origin::of_insert(xid, cid))
        }
    }

    pub fn end(self) {
        // SAFETY: ended once.
        unsafe { pg_sys::tuplesort_end(self.state) }
    }
}
