//! Cold rows into slots.
//!
//! What a row looks like is taken from the slot, not from the relation: ALTER TABLE reads a table
//! that it is about to rewrite with the descriptor from before its changes, while the relation's
//! own has the new types already and has lost the missing values.

use std::cell::RefCell;

use howdah_bridge::ffi::unguarded;
use howdah_bridge::relation::attribute;
use howdah_bridge::slot::{Origin, store_cold_row};
use howdah_bridge::tuple::TupleForm;
use pgrx::pg_sys;

use crate::store::view::RowDatums;
use crate::types::TableLayout;

/// Memory for one row's datums, emptied before each row.
pub struct RowMemory(pg_sys::MemoryContext);

impl RowMemory {
    /// A context under the current one, which frees it.
    pub fn new() -> RowMemory {
        // SAFETY: the current context is a valid one.
        unsafe { RowMemory::under(pg_sys::CurrentMemoryContext) }
    }

    /// A context under `parent`, which frees it.
    ///
    /// # Safety
    /// `parent` is valid.
    unsafe fn under(parent: pg_sys::MemoryContext) -> RowMemory {
        // SAFETY: plain context creation.
        RowMemory(unsafe {
            pg_sys::AllocSetContextCreateInternal(
                parent,
                c"howdah cold row".as_ptr(),
                pg_sys::ALLOCSET_SMALL_MINSIZE as usize,
                pg_sys::ALLOCSET_SMALL_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            )
        })
    }

    /// Frees the memory before its parent does.
    pub fn delete(self) {
        // SAFETY: made by `new`, deleted once; nothing in it is in use any more.
        unsafe { pg_sys::MemoryContextDelete(self.0) }
    }

    /// Empties the memory and runs `f` with it as the current context.
    pub fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the context lives as long as its parent, which outlives the reader; an ERROR
        // in `f` leaves the context switch to PostgreSQL's error recovery.
        unsafe {
            unguarded::MemoryContextReset(self.0);
            let old = pg_sys::MemoryContextSwitchTo(self.0);
            let result = f();
            pg_sys::MemoryContextSwitchTo(old);
            result
        }
    }
}

/// How the rows of one slot look.
struct Shape {
    desc: pg_sys::TupleDesc,
    /// Types of the attributes, whether they are dropped, and never NULL, and how they are stored.
    types: Vec<(pg_sys::Oid, bool, bool, i8)>,
    layout: TableLayout,
    form: TupleForm,
    datums: RowDatums,
}

impl Shape {
    /// # Safety
    /// `desc` is a valid descriptor.
    unsafe fn of(desc: pg_sys::TupleDesc) -> Shape {
        // SAFETY: as for this function; attribute numbers stay below natts.
        unsafe {
            let types = (0..(*desc).natts).map(|i| type_of(desc, i)).collect();
            let layout = TableLayout::of(desc);
            let datums = RowDatums::new(layout.attributes.len());
            Shape {
                desc,
                types,
                layout,
                form: TupleForm::of(desc),
                datums,
            }
        }
    }

    /// Whether a descriptor has the same types as the one that this shape was made of, which may be
    /// gone.
    ///
    /// # Safety
    /// `desc` is a valid descriptor.
    unsafe fn fits(&self, desc: pg_sys::TupleDesc) -> bool {
        // SAFETY: as for this function; attribute numbers stay below natts.
        unsafe {
            self.types.len() == (*desc).natts as usize
                && (0..(*desc).natts)
                    .zip(&self.types)
                    .all(|(i, known)| type_of(desc, i) == *known)
        }
    }
}

unsafe fn type_of(desc: pg_sys::TupleDesc, i: i32) -> (pg_sys::Oid, bool, bool, i8) {
    // SAFETY: the caller vouches for both.
    let form = unsafe { attribute(desc, i) };
    let storage = form.attstorage as i8;
    (form.atttypid, form.attisdropped, form.attnotnull, storage)
}

thread_local! {
    /// The writer of single rows, for the length of a transaction: then a type may be another one.
    static SINGLE: RefCell<Option<SlotWriter>> = const { RefCell::new(None) };
}

/// Writes a single row into a slot, as [`SlotWriter::write`] does.
///
/// # Safety
/// As for [`SlotWriter::write`].
pub unsafe fn write_single(
    slot: *mut pg_sys::TupleTableSlot,
    tid: pg_sys::ItemPointerData,
    table: pg_sys::Oid,
    origin: Origin,
    fill: impl FnOnce(&TableLayout, pg_sys::TupleDesc, &mut RowDatums),
) {
    SINGLE.with_borrow_mut(|single| {
        let writer = single.get_or_insert_with(SlotWriter::lasting);
        // SAFETY: as for this function.
        unsafe {
            let desc = (*slot).tts_tupleDescriptor;
            if writer.shape.as_ref().is_some_and(|shape| !shape.fits(desc)) {
                writer.shape = None;
            }
            if let Some(shape) = &mut writer.shape {
                shape.desc = desc;
            }
            writer.write(slot, tid, table, origin, fill);
        }
    });
}

/// Forgets how rows look: the transaction is over.
pub fn reset() {
    SINGLE.with_borrow_mut(|single| {
        if let Some(writer) = single {
            writer.shape = None;
        }
    });
}

/// Writes cold rows into slots, usually always the same one.
pub struct SlotWriter {
    parent: pg_sys::MemoryContext,
    /// Made for the first row, under `parent`.
    memory: Option<RowMemory>,
    shape: Option<Shape>,
}

impl SlotWriter {
    /// Allocates under the current memory context, which outlives the writer.
    pub fn new() -> SlotWriter {
        SlotWriter {
            // SAFETY: reads a variable of the backend.
            parent: unsafe { pg_sys::CurrentMemoryContext },
            memory: None,
            shape: None,
        }
    }

    /// A writer that is never freed.
    fn lasting() -> SlotWriter {
        // SAFETY: the top context lasts as long as the backend.
        unsafe {
            let old = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            let writer = SlotWriter::new();
            pg_sys::MemoryContextSwitchTo(old);
            writer
        }
    }

    /// Frees what the writer holds before its memory context does.
    pub fn delete(self) {
        if let Some(memory) = self.memory {
            memory.delete();
        }
    }

    /// Stores the row of `origin` at `tid` that `fill` writes for the layout and descriptor it is given.
    ///
    /// # Safety
    /// `slot` is a buffer-heap-tuple slot of the table with the OID `table`.
    pub unsafe fn write(
        &mut self,
        slot: *mut pg_sys::TupleTableSlot,
        tid: pg_sys::ItemPointerData,
        table: pg_sys::Oid,
        origin: Origin,
        fill: impl FnOnce(&TableLayout, pg_sys::TupleDesc, &mut RowDatums),
    ) {
        // SAFETY: the slot has a descriptor; datums live in the row memory until the slot has
        // copied them.
        unsafe {
            let desc = (*slot).tts_tupleDescriptor;
            let shape = match &mut self.shape {
                Some(shape) if shape.desc == desc => shape,
                other => other.insert(Shape::of(desc)),
            };
            let parent = self.parent;
            let memory = self.memory.get_or_insert_with(|| RowMemory::under(parent));
            memory.with(|| {
                let (datums, form) = (&mut shape.datums, &mut shape.form);
                fill(&shape.layout, desc, datums);
                let (values, nulls) = (&mut datums.values, &mut datums.nulls);
                store_cold_row(form, slot, values, nulls, tid, table, origin);
            });
        }
    }
}
