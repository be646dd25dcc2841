//! Fills the pending groups of this backend.
//!
//! What was found out for one row of a command holds for the rows after it ([`Filling`]), so most
//! rows are added without a look at the table: [`super::commands`] is asked for the first row of a
//! group only.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use howdah_bridge::heap_am::{InsertOptions, InsertRequest};
use howdah_bridge::plain_insert::FixedTuples;
use howdah_bridge::slot::{Origin, Slot};
use howdah_bridge::spare_memory::{self, LEAST_BYTES};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table, TableFile};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::{CommandId, SubTransactionId, current_subtransaction};
use howdah_bridge::{malloc, predicate};
use howdah_columnar::{MAX_ROWS, RowGroupBuilder};

use super::commands::{begins_cold, note_group};
use super::flush::{self, bound_memory, complete};
use super::layouts::{Shape, layout_of};
use crate::errors::{ColdError, or_raise, raise};
use crate::settings;
use crate::store::directory;
use crate::store::pending_groups::{self, PendingGroup, PendingRows};
use crate::types::fixed::{push_fixed, takes_fixed};
use crate::types::{TableLayout, must_stay_hot, push_datums};
use crate::written_databases;

/// Rows of fixed width that are added before their bytes are counted again.
const ROWS_UNWEIGHED: usize = 64;

thread_local! {
    static FILLING: RefCell<Option<Filling>> = const { RefCell::new(None) };
}

/// The group that the running command fills: what was asked of one row of the command holds for
/// the rows after it.
struct Filling {
    file: TableFile,
    shape: Shape,
    /// [`pending_groups::removals`] when the group was among them.
    removals: u64,
    subtransaction: SubTransactionId,
    command: CommandId,
    origin: Origin,
    group: Weak<RefCell<PendingGroup>>,
}

impl Filling {
    /// The group, if rows of the command still go there.
    #[inline]
    fn group_of(&self, table: Table<'_>, command: CommandId) -> Option<Rc<RefCell<PendingGroup>>> {
        let is_of_it = self.command == command
            && self.file == table.file()
            && self.shape == Shape::of(table)
            && self.removals == pending_groups::removals()
            && self.subtransaction == current_subtransaction()
            && settings::bulk_load();
        if is_of_it { self.group.upgrade() } else { None }
    }
}

/// What is to be done after a row was added.
enum Then {
    Nothing,
    /// The group is full.
    Complete,
    /// Enough bytes were added since it was done.
    BoundMemory,
}

/// Adds the row to the cold side if the running statement has become a bulk load, and sets the
/// slot's TID. If the result is `false`, the caller must insert the row hot. The table is locked
/// for writing, the slot holds a row of it.
pub fn insert_slot(table: Table<'_>, slot: Slot<'_>, request: InsertRequest<'_>) -> bool {
    insert_next(table, slot, request.command) || begin_group(table, slot, request)
}

/// Adds the row to the group that the running command fills, as [`insert_slot`] does; `false` if
/// there is none, or the row does not go there.
#[inline]
pub fn insert_next(table: Table<'_>, slot: Slot<'_>, command: CommandId) -> bool {
    if let Some((group, origin)) = filling(table, command)
        && let Some(then) = add_row(&group, slot, origin)
    {
        table.count_another_insert();
        proceed(&group, then);
        return true;
    }
    false
}

/// Adds tuples from the first one on to the group that the running command fills; returns how
/// many. The table is locked for writing, the tuples have its attributes.
pub fn insert_tuples(table: Table<'_>, tuples: &FixedTuples<'_>, command: CommandId) -> usize {
    let Some((group, _)) = filling(table, command) else {
        return 0;
    };
    let Some((row_count, then)) = add_tuples(&group, tuples) else {
        return 0;
    };
    table.count_more_inserts(row_count);
    proceed(&group, then);
    row_count
}

/// The group that the running command fills with rows of the table, and the rows' origin.
#[inline]
fn filling(table: Table<'_>, command: CommandId) -> Option<(Rc<RefCell<PendingGroup>>, Origin)> {
    FILLING.with_borrow(|filling| {
        let filling = filling.as_ref()?;
        Some((filling.group_of(table, command)?, filling.origin))
    })
}

/// The same for the first row of a group, and for rows that may have to stay hot.
fn begin_group(table: Table<'_>, slot: Slot<'_>, request: InsertRequest<'_>) -> bool {
    let (subtransaction, command) = (current_subtransaction(), request.command);
    if !begins_cold(table, request) {
        return false;
    }
    let layout = layout_of(table);
    let (values, nulls) = slot.row();
    // SAFETY: values and flags of a row of the table.
    if unsafe { must_stay_hot(&layout, values, nulls) } {
        return false;
    }
    written_databases::note_write();
    let may_become_hot = note_group(table).then(|| request.options());
    let group = current_group(table, subtransaction, command, layout, may_become_hot);
    // Checked once the group is in the directory: a transaction that has read the directory
    // before has locked the relation by now.
    predicate::check_insert(table);
    let origin = Origin::here(command);
    let Some(then) = add_row(&group, slot, origin) else {
        return false;
    };
    table.count_insert();
    // In a serializable transaction every row is checked.
    if !predicate::is_serializable() {
        fill_next(table, subtransaction, command, &group);
    }
    proceed(&group, then);
    true
}

/// Has the rows of the command that follow added to the group.
fn fill_next(
    table: Table<'_>,
    subtransaction: SubTransactionId,
    command: CommandId,
    group: &Rc<RefCell<PendingGroup>>,
) {
    FILLING.set(Some(Filling {
        file: table.file(),
        shape: Shape::of(table),
        removals: pending_groups::removals(),
        subtransaction,
        command,
        origin: Origin::here(command),
        group: Rc::downgrade(group),
    }));
}

/// The first rows of the running command, which were held until they have passed the threshold,
/// become a group; those that follow are added to it.
pub(super) fn begin_with(
    table: Table<'_>,
    command: CommandId,
    layout: Rc<TableLayout>,
    rows: RowGroupBuilder,
) {
    let subtransaction = current_subtransaction();
    written_databases::note_write();
    let row_count = rows.row_count();
    let group = new_group(table, subtransaction, command, layout, rows, None);
    // As in `begin_group`.
    predicate::check_insert(table);
    table.count_insert();
    table.count_more_inserts(row_count - 1);
    fill_next(table, subtransaction, command, &group);
    let weighed = {
        let mut pending = group.borrow_mut();
        let pending = &mut *pending;
        match &pending.rows {
            PendingRows::Filling(rows) => weigh(rows, &mut pending.weighed_bytes),
            PendingRows::Encoding(_) => Then::Nothing,
        }
    };
    proceed(&group, weighed);
}

/// Adds the row in a slot to a group that is being filled, and sets the slot's TID; `None` for a
/// row that must stay hot.
#[inline]
fn add_row(group: &RefCell<PendingGroup>, slot: Slot<'_>, origin: Origin) -> Option<Then> {
    let mut pending = group.borrow_mut();
    let pending = &mut *pending;
    let PendingRows::Filling(rows) = &mut pending.rows else {
        return None;
    };
    let (values, nulls) = slot.row();
    // SAFETY: values and flags of a row of the table.
    unsafe {
        if must_stay_hot(&pending.layout, values, nulls) {
            return None;
        }
        push_datums(rows, &pending.layout, values, nulls);
    }
    rows.finish_row();
    let position = rows.row_count() - 1;
    let row = RowNumber(pending.placed.entry.first_row.0 + position as u64);
    slot.note_place(row.tid(), pending.file.table, origin);
    if position + 1 == pending.placed.entry.capacity_rows as usize {
        return Some(Then::Complete);
    }
    if !pending.layout.has_variable_width && position % ROWS_UNWEIGHED != 0 {
        return Some(Then::Nothing);
    }
    Some(weigh(rows, &mut pending.weighed_bytes))
}

/// Adds tuples to a group that is being filled, as far as there is room; returns how many. `None`
/// if it does not take them.
fn add_tuples(group: &RefCell<PendingGroup>, tuples: &FixedTuples<'_>) -> Option<(usize, Then)> {
    let mut pending = group.borrow_mut();
    let pending = &mut *pending;
    let PendingRows::Filling(rows) = &mut pending.rows else {
        return None;
    };
    let room = pending.placed.entry.capacity_rows as usize - rows.row_count();
    if room == 0 || !takes_fixed(&pending.layout, tuples) {
        return None;
    }
    let row_count = room.min(tuples.row_count());
    push_fixed(rows, &pending.layout, tuples, row_count);
    let then = weigh(rows, &mut pending.weighed_bytes);
    match row_count == room {
        true => Some((row_count, Then::Complete)),
        false => Some((row_count, then)),
    }
}

/// Counts the bytes of a group that has got rows; they were `weighed_bytes` the last time.
fn weigh(rows: &RowGroupBuilder, weighed_bytes: &mut usize) -> Then {
    let bytes = rows.raw_bytes();
    let added = bytes - std::mem::replace(weighed_bytes, bytes);
    if bytes >= settings::row_group_bytes() {
        Then::Complete
    } else if flush::note_added(added) {
        Then::BoundMemory
    } else {
        Then::Nothing
    }
}

#[inline]
fn proceed(group: &Rc<RefCell<PendingGroup>>, then: Then) {
    match then {
        Then::Nothing => {}
        Then::Complete => complete(group),
        Then::BoundMemory => bound_memory(),
    }
}

fn current_group(
    table: Table<'_>,
    subtransaction: SubTransactionId,
    command: CommandId,
    layout: Rc<TableLayout>,
    may_become_hot: Option<InsertOptions>,
) -> Rc<RefCell<PendingGroup>> {
    let file = table.file();
    let open = pending_groups::find(|g| {
        g.file == file
            && g.subtransaction == subtransaction
            && g.command == command
            && g.rows.is_filling()
    });
    if let Some(group) = open {
        return group;
    }
    let rows = RowGroupBuilder::new(&layout.column_types());
    new_group(table, subtransaction, command, layout, rows, may_become_hot)
}

/// Reserves row numbers for a group that begins with these rows.
fn new_group(
    table: Table<'_>,
    subtransaction: SubTransactionId,
    command: CommandId,
    layout: Rc<TableLayout>,
    rows: RowGroupBuilder,
    may_become_hot: Option<InsertOptions>,
) -> Rc<RefCell<PendingGroup>> {
    let file = table.file();
    let Some(store) = ColdStore::open(table, LockMode::RowExclusive) else {
        raise(file.table, &ColdError::NoColdStore)
    };
    malloc::keep_freed_memory();
    spare_memory::set_aside(LEAST_BYTES);
    let placed = or_raise(
        file.table,
        directory::reserve(&store, MAX_ROWS as u32, command),
    );
    table.ensure_first_page();
    pending_groups::add(PendingGroup {
        file,
        placed,
        subtransaction,
        command,
        serial: 0,
        rows: PendingRows::Filling(rows),
        weighed_bytes: 0,
        layout,
        may_become_hot: Cell::new(may_become_hot),
    })
}
