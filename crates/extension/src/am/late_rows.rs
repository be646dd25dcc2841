//! The rows of late slots ([`howdah_bridge::late_slot`]): which row a slot stands for, and what was
//! read of it.
//!
//! Each scan that reads by index has a writer of its own here: values of a row stay where they are
//! until the next row comes into the slot, while other scans read rows of theirs.
//!
//! A row is read when its snapshot may have gone on to other rows, but within its query: the group
//! it lies in is immutable, and as long as the query's snapshot is in use no VACUUM removes its
//! bytes, and nothing that rewrites the table gets its lock.
//!
//! A scan that goes from row to row of one group has the place go on ([`go_on`]): the group stays,
//! the position is another, and what was read of the row before is given up.
//!
//! Bounded: one writer for each slot in use, which holds no large values once a late slot was
//! emptied, and else those of its last row; and [`MOST_KEPT`] for the next statements.

use std::cell::RefCell;
use std::rc::Rc;

use howdah_bridge::late_slot::{self, LateRows, LateScan};
use howdah_bridge::slot::{Origin, Slot};
use howdah_bridge::table::Table;
use howdah_bridge::tid::{RowNumber, Tid};

use crate::errors::or_raise;
use crate::slot_writer::SlotWriter;
use crate::store::coming::{After, Coming};
use crate::store::group_access::{GroupAccess, RowAt};
use crate::store::group_bytes::LazyStore;

/// A row that a slot stands for.
pub(super) struct LateRow {
    pub group: Rc<GroupAccess>,
    pub position: u32,
    pub tid: Tid,
    pub origin: Origin,
}

impl LateRow {
    /// The rows of the group that the scan asks for next. `is_sure`: their columns are wanted as
    /// this one's are. Those that a row is asked for after others may depend on a condition.
    fn coming(&self, scan: LateScan, slot: Slot<'_>, is_sure: bool) -> Coming {
        let first = (self.tid.row()).and_then(|row| row.0.checked_sub(self.position.into()));
        let Some(first) = first else {
            return Coming::default();
        };
        let mut after = After::of(self.position);
        let row_count = u64::from(self.group.row_count());
        // Entries of rows that were merged or updated lie among the others.
        let mut others = 0;
        let mut show = |row: Option<RowNumber>| {
            let at = row.and_then(|row| row.0.checked_sub(first));
            match at.filter(|at| *at < row_count) {
                Some(at) => after.add(at as u32),
                None => {
                    after.pass_over();
                    others += 1;
                    others < MOST_OTHERS
                }
            }
        };
        match scan.rows_after(slot, self.tid, &mut show) {
            Some(wanted) if is_sure => after.finish(wanted),
            Some(_) => after.finish(1),
            None => Coming::default(),
        }
    }
}

struct Place {
    /// The address of the slot; 0 if none uses the place.
    slot: usize,
    scan: LateScan,
    /// Which columns are read.
    wanted: Rc<[bool]>,
    row: Option<LateRow>,
    /// How many rows were [stored](store), and readers made.
    stored: u64,
    writer: SlotWriter,
}

/// Entries that lead to no row of a group are passed over until they are so many.
const MOST_OTHERS: u32 = 64;
/// Places without a slot that keep their memory.
const MOST_KEPT: usize = 4;

thread_local! {
    static PLACES: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
}

/// Registers the holder of rows. Call once, from `_PG_init`.
pub fn install() {
    late_slot::install(LateRows {
        fill,
        complete,
        empty,
        forget,
    });
}

/// The place for rows of one slot.
#[derive(Clone, Copy)]
pub(super) struct LatePlace {
    scan: LateScan,
    number: u32,
}

/// The place for rows of the slot of a scan, of which these columns are read.
pub(super) fn place_for(scan: LateScan, slot: Slot<'_>, wanted: &Rc<[bool]>) -> LatePlace {
    PLACES.with_borrow_mut(|places| {
        let is_same =
            |place: &Place| place.slot == slot.address() && Rc::ptr_eq(&place.wanted, wanted);
        let is_free = |place: &Place| place.slot == 0;
        let found = places.iter().position(is_same);
        let at = match found.or_else(|| places.iter().position(is_free)) {
            Some(at) => at,
            None => {
                places.push(Place {
                    slot: 0,
                    scan,
                    wanted: Rc::clone(wanted),
                    row: None,
                    stored: 0,
                    writer: SlotWriter::lasting(),
                });
                places.len() - 1
            }
        };
        let place = &mut places[at];
        place.slot = slot.address();
        place.scan = scan;
        place.wanted = Rc::clone(wanted);
        // Nothing goes on from a row of another reader.
        place.stored += 1;
        place.writer.begin_slot();
        LatePlace {
            scan,
            number: at as u32,
        }
    })
}

/// What [`go_on`] goes on from: a row that was stored in a place. By default there is none.
#[derive(Clone, Copy, Default)]
pub(super) struct Stored {
    number: u32,
    /// Counted from 1 on.
    nth: u64,
}

/// Puts a row into the slot that has this place; `None` if the slot cannot take it.
pub(super) fn store(
    at: LatePlace,
    slot: Slot<'_>,
    table: Table<'_>,
    row: LateRow,
) -> Option<Stored> {
    if !late_slot::store(at.scan, slot, at.number, row.tid, table) {
        return None;
    }
    let nth = PLACES.with_borrow_mut(|places| {
        let place = &mut places[at.number as usize];
        place.writer.begin_late(slot.descriptor(), &place.wanted);
        place.row = Some(row);
        place.stored += 1;
        place.stored
    });
    let number = at.number;
    Some(Stored { number, nth })
}

/// Puts another row of the same group into the slot; `false` if the slot does not stand for the row
/// that was stored, or one that this has put there, any more.
#[inline]
pub(super) fn go_on(from: Stored, slot: Slot<'_>, position: u32, tid: Tid) -> bool {
    PLACES.with_borrow_mut(|places| {
        let place = places.get_mut(from.number as usize);
        let Some(place) = place.filter(|it| it.stored == from.nth && it.slot == slot.address())
        else {
            return false;
        };
        let Some(row) = &mut place.row else {
            return false;
        };
        if !late_slot::go_on(slot, tid) || !place.writer.begin_next() {
            return false;
        }
        (row.position, row.tid) = (position, tid);
        true
    })
}

fn fill(place: u32, slot: Slot<'_>, table: Table<'_>, from: usize, to: usize) {
    PLACES.with_borrow_mut(|places| read(&mut places[place as usize], slot, table, from, to));
}

/// Reads the wanted columns among these, and writes them into the slot's arrays.
fn read(place: &mut Place, slot: Slot<'_>, table: Table<'_>, from: usize, to: usize) {
    let Some(row) = &place.row else {
        pgrx::error!("a slot has lost the row that it stands for");
    };
    let (store, scan) = (LazyStore::of(table), place.scan);
    let coming = || row.coming(scan, slot, from == 0);
    let at = RowAt {
        position: row.position,
        coming: &coming,
    };
    place
        .writer
        .fill_late(slot, from..to, |layout, desc, columns, datums| {
            let filled = (row.group).fill_columns(&store, &at, layout, desc, columns, datums);
            or_raise(table.oid(), filled);
        });
}

fn complete(place: u32, slot: Slot<'_>, table: Table<'_>) {
    PLACES.with_borrow_mut(|places| {
        let place = &mut places[place as usize];
        let from = slot.valid_count();
        read(
            place,
            slot,
            table,
            from,
            slot.descriptor().attribute_count(),
        );
        late_slot::make_ready(slot);
        if let Some(row) = place.row.take() {
            place
                .writer
                .finish_late(slot, row.tid, table.oid(), row.origin);
        }
    });
}

impl Place {
    /// The row that was stored last is not read any more.
    fn empty(&mut self) {
        self.row = None;
        self.writer.forget_large();
    }
}

/// Calls `change` with the places. Raises no ERROR: nothing happens while they are in use, nor in a
/// process that is exiting and may have destroyed them already.
fn if_idle(change: impl FnOnce(&mut Vec<Place>)) {
    let _ = PLACES.try_with(|places| {
        if let Ok(mut places) = places.try_borrow_mut() {
            change(&mut places);
        }
    });
}

/// The slot that has this place is emptied.
fn empty(place: u32) {
    if_idle(|places| {
        if let Some(place) = places.get_mut(place as usize) {
            place.empty();
        }
    });
}

/// Called while the slot's memory is freed.
fn forget(slot: usize) {
    if_idle(|places| {
        for place in places.iter_mut().filter(|place| place.slot == slot) {
            place.slot = 0;
            place.empty();
        }
        while places.len() > MOST_KEPT && places.last().is_some_and(|place| place.slot == 0) {
            if let Some(place) = places.pop() {
                place.writer.delete();
            }
        }
    });
}
