//! Fills and writes the pending groups of this backend. See the header of [`super`].

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use howdah_bridge::heap_am::{InsertOptions, InsertRequest};
use howdah_bridge::invalidation::at_invalidation;
use howdah_bridge::plain_insert::FixedTuples;
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::slot::{Origin, Slot};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::{CommandId, SubTransactionId, current_subtransaction};
use howdah_bridge::{Oid, malloc, predicate};
use howdah_columnar::{MAX_ROWS, RowGroupBuilder};
use rustc_hash::FxHashMap;

use super::commands::{begins_cold, note_group};
use super::rows_hot;
use crate::errors::or_raise;
use crate::settings;
use crate::store::pending_groups::{self, PendingGroup, PendingRows};
use crate::store::{directory, group};
use crate::types::fixed::{push_fixed, takes_fixed};
use crate::types::{TableLayout, must_stay_hot, push_datums};
use crate::written_databases;

/// Rows of fixed width that are added before their bytes are counted again.
const ROWS_UNWEIGHED: usize = 64;
/// Bytes that are added before the memory of all groups is compared with its bound.
const WEIGHED_BYTES: usize = 1 << 20;

/// A layout, with what shows that it is still valid: a descriptor that replaced the table's may
/// have got the address of the old one.
struct KnownLayout {
    /// The descriptor's address.
    desc: usize,
    invalidations: u64,
    layout: Rc<TableLayout>,
}

thread_local! {
    static LAYOUTS: RefCell<FxHashMap<u32, KnownLayout>> = RefCell::default();
    /// How many times relcache entries were invalidated.
    static INVALIDATIONS: Cell<u64> = const { Cell::new(0) };
    static FILLING: RefCell<Option<Filling>> = const { RefCell::new(None) };
    static UNWEIGHED_BYTES: Cell<usize> = const { Cell::new(0) };
    /// Whether a thread has encoded a group of this transaction.
    static ENCODED_ASIDE: Cell<bool> = const { Cell::new(false) };
}

/// Watches relcache entries. Must be called once, from `_PG_init`.
pub fn register() {
    at_invalidation(|_| INVALIDATIONS.set(INVALIDATIONS.get().wrapping_add(1)));
}

/// The group that the running command fills: what was asked of one row of the command holds for
/// the rows after it.
struct Filling {
    table: Oid,
    table_file: u32,
    desc: usize,
    invalidations: u64,
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
        let is_of_it = self.table == table.oid()
            && self.command == command
            && self.table_file == table.file_number()
            && self.desc == table.descriptor().address()
            && self.removals == pending_groups::removals()
            && self.invalidations == INVALIDATIONS.get()
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
    /// [`WEIGHED_BYTES`] were added since it was done.
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
        table: table.oid(),
        table_file: table.file_number(),
        desc: table.descriptor().address(),
        invalidations: INVALIDATIONS.get(),
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
    slot.note_place(row.tid(), pending.table, origin);
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
    } else if UNWEIGHED_BYTES.replace(UNWEIGHED_BYTES.get() + added) + added > WEIGHED_BYTES {
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

/// Has a full group encoded by a thread, while the command fills the next. A backend has one group
/// encoded at a time.
#[cold]
fn complete(group: &Rc<RefCell<PendingGroup>>) {
    group.borrow().may_become_hot.set(None);
    let here = current_subtransaction();
    let mut is_free = true;
    for other in pending_groups::all_where(|g| !g.rows.is_filling()) {
        let is_here = other.borrow().subtransaction == here;
        match is_here {
            true => write_group(&other),
            false => is_free = false,
        }
    }
    let effort = settings::effort_of(group.borrow().table);
    match is_free && group.borrow_mut().encode_aside(effort) {
        true => ENCODED_ASIDE.set(true),
        false => write_group(group),
    }
}

/// The layout of the table's rows, as long as its descriptor is the same.
pub(super) fn layout_of(table: Table<'_>) -> Rc<TableLayout> {
    let desc = table.descriptor().address();
    let oid = table.oid().to_u32();
    let invalidations = INVALIDATIONS.get();
    let known = LAYOUTS.with_borrow(|layouts| {
        layouts
            .get(&oid)
            .filter(|known| known.desc == desc && known.invalidations == invalidations)
            .map(|known| Rc::clone(&known.layout))
    });
    known.unwrap_or_else(|| {
        let layout = Rc::new(TableLayout::of(table.descriptor()));
        let known = KnownLayout {
            desc,
            invalidations,
            layout: Rc::clone(&layout),
        };
        LAYOUTS.with_borrow_mut(|layouts| layouts.insert(oid, known));
        layout
    })
}

fn current_group(
    table: Table<'_>,
    subtransaction: SubTransactionId,
    command: CommandId,
    layout: Rc<TableLayout>,
    may_become_hot: Option<InsertOptions>,
) -> Rc<RefCell<PendingGroup>> {
    let (oid, file) = (table.oid(), table.file_number());
    let open = pending_groups::find(|g| {
        g.table == oid
            && g.table_file == file
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
    let (oid, file) = (table.oid(), table.file_number());
    let Some(store) = ColdStore::open(table, LockMode::RowExclusive) else {
        pgrx::error!("table with OID {} has no cold store", oid.to_u32());
    };
    malloc::keep_freed_memory();
    let placed = or_raise(oid, directory::reserve(&store, MAX_ROWS as u32, command));
    table.ensure_first_page();
    pending_groups::add(PendingGroup {
        table: oid,
        table_file: file,
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

/// Encodes and stores a pending group, or what a thread has encoded. Its rows stay readable in
/// memory until the stored group can be read; views that already hold it keep it alive.
fn write_group(group: &Rc<RefCell<PendingGroup>>) {
    let (oid, file) = {
        let pending = group.borrow();
        (pending.table, pending.table_file)
    };
    // The loading statement's lock is held to the end of the transaction.
    let Some(relation) = OpenRelation::try_open_locked(oid) else {
        // The table was dropped by the transaction that loaded it.
        pending_groups::forget(group);
        return;
    };
    let table = relation.table();
    if table.file_number() != file {
        // The table was truncated or rewritten by the transaction that loaded it.
        pending_groups::forget(group);
        return;
    }
    if let Some(options) = stays_small(group) {
        make_hot(table, group, options);
    } else if let Some(store) = ColdStore::open(table, LockMode::RowExclusive) {
        let pending = group.borrow();
        let (placed, command) = (&pending.placed, pending.command);
        let written = match &pending.rows {
            PendingRows::Filling(rows) => {
                group::write(&store, placed, rows, settings::effort_of(oid), command)
            }
            PendingRows::Encoding(encoder) => encoder.wait().map_err(Into::into).and_then(|it| {
                let row_count = encoder.rows().row_count();
                group::store_encoded(&store, placed, row_count, &it, command)
            }),
        };
        or_raise(oid, written);
    }
    pending_groups::forget(group);
}

/// How the rows of a group whose load has ended are to be inserted hot, if they are: no TID of
/// theirs is known, and they are not more than what small statements insert hot.
fn stays_small(group: &RefCell<PendingGroup>) -> Option<InsertOptions> {
    let pending = group.borrow();
    let row_count = pending.rows.get().row_count() as u64;
    let options = pending.may_become_hot.get()?;
    let is_small = row_count <= settings::load_threshold() && pending.rows.is_filling();
    is_small.then_some(options)
}

/// Inserts the rows of a group hot, and withdraws its reservation. In an aborted transaction both
/// sides are void.
fn make_hot(table: Table<'_>, group: &RefCell<PendingGroup>, options: InsertOptions) {
    let pending = group.borrow();
    if let Some(store) = ColdStore::open(table, LockMode::RowExclusive) {
        let withdrawn = directory::withdraw(&store, &pending.placed, pending.command);
        or_raise(table.oid(), withdrawn);
    }
    let rows = pending.rows.get();
    // Heap counts them again.
    table.discount_inserts(rows.row_count());
    rows_hot::insert(table, rows, pending.command, options);
}

/// Writes what a thread has encoded. A thread that has not finished is waited for when the rows
/// added since then take half the memory of a row group.
fn write_encoded(here: SubTransactionId) {
    let encoding = pending_groups::all_where(|g| !g.rows.is_filling() && g.subtransaction == here);
    for group in encoding {
        let since = |g: &PendingGroup| g.serial > group.borrow().serial;
        let added = pending_groups::with_all(|groups| {
            let groups = groups.iter().map(|g| g.borrow()).filter(|g| since(g));
            groups.map(|g| g.weighed_bytes).sum::<usize>()
        });
        let is_finished = match &group.borrow().rows {
            PendingRows::Encoding(encoder) => encoder.is_finished(),
            PendingRows::Filling(_) => false,
        };
        if is_finished || added >= settings::row_group_bytes() / 2 {
            write_group(&group);
        }
    }
}

#[cold]
fn bound_memory() {
    UNWEIGHED_BYTES.set(0);
    let here = current_subtransaction();
    write_encoded(here);
    let largest = pending_groups::with_all(|groups| {
        if groups.len() < 2 {
            return None;
        }
        let bytes = |g: &Rc<RefCell<PendingGroup>>| g.borrow().rows.get().raw_bytes();
        if groups.iter().map(bytes).sum::<usize>() <= settings::load_memory() {
            return None;
        }
        groups.iter().max_by_key(|g| bytes(g)).map(Rc::clone)
    });
    if let Some(group) = largest
        && group.borrow().subtransaction == here
    {
        group.borrow().may_become_hot.set(None);
        write_group(&group);
    }
}

fn flush_where(wanted: impl Fn(&PendingGroup) -> bool) {
    let mut groups = pending_groups::all_where(wanted);
    // What a thread encodes comes last: meanwhile the others are encoded here.
    groups.sort_by_key(|group| !group.borrow().rows.is_filling());
    for group in groups {
        write_group(&group);
    }
}

/// Writes the pending groups of `command` in the current subtransaction.
pub fn flush_command(command: CommandId) {
    if pending_groups::any() {
        let here = current_subtransaction();
        flush_where(|g| g.command == command && g.subtransaction == here);
    }
}

/// Writes the current subtransaction's pending groups of one table.
pub fn flush_relation(table: Oid) {
    if pending_groups::any() {
        let here = current_subtransaction();
        flush_where(|g| g.table == table && g.subtransaction == here);
    }
}

/// The same for workers of a parallel query, which do not see this backend's memory. The load may
/// go on: it has become known, and stays cold.
pub fn flush_for_readers(table: Oid) {
    if pending_groups::any() {
        let here = current_subtransaction();
        flush_where(|g| {
            let is_wanted = g.table == table && g.subtransaction == here;
            if is_wanted {
                g.may_become_hot.set(None);
            }
            is_wanted
        });
    }
}

/// Writes the current subtransaction's pending groups opened since [`pending_groups::serial_now`]
/// returned `serial`.
pub fn flush_since(serial: u64) {
    if pending_groups::any() {
        let here = current_subtransaction();
        flush_where(|g| g.serial > serial && g.subtransaction == here);
    }
}

/// Writes all pending groups of one subtransaction, which is about to commit.
pub fn flush_subtransaction(subtransaction: SubTransactionId) {
    flush_where(|g| g.subtransaction == subtransaction);
}

/// Writes all pending groups; the transaction is about to commit.
pub fn flush_all() {
    flush_where(|_| true);
}

/// Drops everything: the transaction has ended.
pub fn reset() {
    pending_groups::reset();
    if ENCODED_ASIDE.take() {
        // Rows and groups that two threads have freed stay with the allocator otherwise.
        malloc::return_freed_memory();
    }
    LAYOUTS.with_borrow_mut(FxHashMap::clear);
}
