//! Stores cold rows in slots.
//!
//! The form of a row is taken from the slot, not from the relation: ALTER TABLE reads a table that
//! it is about to rewrite with the descriptor from before its changes, while the relation's own
//! descriptor already has the new types and has lost the missing values.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use howdah_bridge::Oid;
use howdah_bridge::row_memory::RowMemory;
use howdah_bridge::slot::{Origin, Slot};
use howdah_bridge::table::{Attribute, Descriptor};
use howdah_bridge::tid::Tid;
use howdah_bridge::tuple::TupleForm;

use crate::store::view::RowDatums;
use crate::types::TableLayout;

/// The form of the rows of one slot.
struct Shape {
    /// The address of the descriptor, which may have been freed.
    desc: usize,
    types: Vec<TypeForm>,
    layout: TableLayout,
    form: TupleForm,
    datums: RowDatums,
}

impl Shape {
    fn of(desc: Descriptor<'_>) -> Shape {
        let types = desc.attributes().iter().map(type_of);
        let layout = TableLayout::of(desc);
        let datums = RowDatums::new(layout.attributes.len());
        Shape {
            desc: desc.address(),
            types: types.collect(),
            layout,
            form: TupleForm::of(desc),
            datums,
        }
    }

    /// Whether a descriptor has the same types as the one from which this was made, which may have
    /// been freed.
    fn fits(&self, desc: Descriptor<'_>) -> bool {
        let attributes = desc.attributes();
        self.types.len() == attributes.len()
            && attributes
                .iter()
                .zip(&self.types)
                .all(|(attribute, known)| type_of(attribute) == *known)
    }
}

/// Everything about an attribute on which the form of its values depends. The physical form is
/// part of it, because the OID of a type that was dropped may be used again.
#[derive(PartialEq, Eq)]
struct TypeForm {
    type_oid: Oid,
    len: i16,
    by_value: bool,
    alignment: std::ffi::c_char,
    storage: std::ffi::c_char,
    is_dropped: bool,
    is_not_null: bool,
}

fn type_of(form: &Attribute) -> TypeForm {
    TypeForm {
        type_oid: form.atttypid,
        len: form.attlen,
        by_value: form.attbyval,
        alignment: form.attalign,
        storage: form.attstorage,
        is_dropped: form.attisdropped,
        is_not_null: form.attnotnull,
    }
}

/// A form whose row takes more memory than this is not kept to the next transaction, in bytes.
const MOST_KEPT_BYTES: usize = 64 << 10;

thread_local! {
    /// The writer of single rows. Its form is kept from one transaction to the next: it is compared
    /// with the descriptor before the first row of each reader.
    static SINGLE: RefCell<Option<SlotWriter>> = const { RefCell::new(None) };
}

/// Writes a single row into a slot, as [`SlotWriter::write`] does. `is_next`: the caller has
/// written the row before into the same slot, which has held its descriptor since; then a form that
/// was made for a descriptor at this address was made for this one.
pub fn write_single(
    slot: Slot<'_>,
    is_next: bool,
    tid: Tid,
    table: Oid,
    origin: Origin,
    fill: impl FnOnce(&TableLayout, Descriptor<'_>, &mut RowDatums),
) {
    SINGLE.with_borrow_mut(|single| {
        let writer = single.get_or_insert_with(SlotWriter::lasting);
        let desc = slot.descriptor();
        let is_same = |shape: &Shape| is_next && shape.desc == desc.address();
        if !writer.shape.as_ref().is_some_and(is_same) {
            if writer.shape.as_ref().is_some_and(|shape| !shape.fits(desc)) {
                writer.shape = None;
            }
            if let Some(shape) = &mut writer.shape {
                shape.desc = desc.address();
            }
        }
        writer.write(slot, tid, table, origin, fill);
    });
}

/// To be called when a transaction is over: discards the form of rows if it holds much memory, or
/// if the transaction was aborted, which may have interrupted the writing of a row.
pub fn reset(is_aborted: bool) {
    SINGLE.with_borrow_mut(|single| {
        if let Some(writer) = single {
            let is_large = |shape: &mut Shape| shape.datums.memory_bytes() > MOST_KEPT_BYTES;
            writer.shape.take_if(|shape| is_aborted || is_large(shape));
        }
    });
}

/// Stores cold rows in slots, usually always in the same one.
pub struct SlotWriter {
    memory: RowMemory,
    shape: Option<Shape>,
}

impl SlotWriter {
    /// Allocates under the current memory context, which outlives the writer.
    pub fn new() -> SlotWriter {
        SlotWriter {
            memory: RowMemory::new(),
            shape: None,
        }
    }

    /// A writer that is never freed.
    pub fn lasting() -> SlotWriter {
        SlotWriter {
            memory: RowMemory::lasting(),
            shape: None,
        }
    }

    /// Frees what the writer holds before its memory context does.
    pub fn delete(self) {
        self.memory.delete();
    }

    /// The next rows are those of another slot, or of a slot with another descriptor.
    pub fn begin_slot(&mut self) {
        if let Some(shape) = &mut self.shape {
            shape.desc = 0;
        }
    }

    /// Begins a row of which these columns are wanted, and that is read bit by bit.
    pub fn begin_late(&mut self, desc: Descriptor<'_>, wanted: &Rc<[bool]>) {
        if self
            .shape
            .as_ref()
            .is_some_and(|shape| shape.desc != desc.address() && !shape.fits(desc))
        {
            self.shape = None;
        }
        let shape = self.shape.get_or_insert_with(|| Shape::of(desc));
        shape.desc = desc.address();
        shape.datums.pack();
        shape.datums.start_some(&shape.layout, wanted);
    }

    /// Begins another row after one that [`SlotWriter::begin_late`] has begun; `false` if none was.
    #[inline]
    pub fn begin_next(&mut self) -> bool {
        let Some(shape) = &mut self.shape else {
            return false;
        };
        shape.datums.start_next();
        true
    }

    /// Has `fill` read the wanted columns among these, and copies all of these into the slot's
    /// arrays. [`SlotWriter::begin_late`] comes before.
    pub fn fill_late(
        &mut self,
        slot: Slot<'_>,
        attributes: Range<usize>,
        fill: impl FnOnce(&TableLayout, Descriptor<'_>, &[usize], &mut RowDatums),
    ) {
        let Some(shape) = &mut self.shape else {
            pgrx::error!("a row is read that was not begun");
        };
        self.memory.with(|| {
            let columns = shape.datums.wanted();
            let first = columns.partition_point(|&column| column < attributes.start);
            let end = columns.partition_point(|&column| column < attributes.end);
            if first < end {
                let datums = &mut shape.datums;
                fill(
                    &shape.layout,
                    slot.descriptor(),
                    &columns[first..end],
                    datums,
                );
            }
        });
        let values = &shape.datums.values[attributes.clone()];
        slot.set_values(attributes.start, values, &shape.datums.nulls[attributes]);
    }

    /// Forms the tuple of a row all of which was read, and stores it in the slot, which is of
    /// heap's kind. The values stay where they are: whatever has read some of them before, as the
    /// expression that asks for `xmin` now, goes on using them.
    pub fn finish_late(&mut self, slot: Slot<'_>, tid: Tid, table: Oid, origin: Origin) {
        let desc = slot.descriptor().address();
        // Another shape would hold no value of the row.
        if (self.shape.as_ref()).is_none_or(|shape| shape.desc != desc) {
            pgrx::error!("a row is stored in another slot than it was begun for");
        }
        self.write(slot, tid, table, origin, |_, _, _| {});
    }

    /// Discards the values of the last row, which are not used any more, if they hold much memory.
    pub fn forget_large(&mut self) {
        self.memory.clear();
        self.shape
            .take_if(|shape| shape.datums.memory_bytes() > MOST_KEPT_BYTES);
    }

    /// Stores the row of `origin` at `tid`, whose values `fill` writes for the given layout and
    /// descriptor. The slot is one of the table with the OID `table`.
    pub fn write(
        &mut self,
        slot: Slot<'_>,
        tid: Tid,
        table: Oid,
        origin: Origin,
        fill: impl FnOnce(&TableLayout, Descriptor<'_>, &mut RowDatums),
    ) {
        let desc = slot.descriptor();
        let shape = match &mut self.shape {
            Some(shape) if shape.desc == desc.address() => shape,
            other => other.insert(Shape::of(desc)),
        };
        self.memory.with(|| {
            let (datums, form) = (&mut shape.datums, &mut shape.form);
            fill(&shape.layout, desc, datums);
            let row = (&mut datums.values[..], &mut datums.nulls[..]);
            // SAFETY: a buffer slot of the table, whose descriptor the form was made of; datums
            // live in the row memory until the slot has copied them.
            unsafe { slot.store_cold_row(form, row, tid, table, origin) };
        });
    }
}
