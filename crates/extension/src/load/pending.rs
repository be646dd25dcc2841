//! Fills and writes the pending groups of this backend. See the header of [`super`].

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use howdah_bridge::predicate;
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::slot::{Slot, note_place};
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::{
    CommandId, SubTransactionId, current_subtransaction, is_in_parallel_mode,
};
use howdah_bridge::{Datum, Oid};
use howdah_columnar::{MAX_ROWS, RowGroupBuilder};
use pgrx::{pg_guard, pg_sys};
use rustc_hash::FxHashMap;

use super::hot_only;
use crate::errors::or_raise;
use crate::settings;
use crate::store::pending_groups::{self, PendingGroup};
use crate::store::{directory, group};
use crate::types::{TableLayout, must_stay_hot, push_datum};

/// How many rows the running command has inserted into a relation.
struct CommandCount {
    subtransaction: SubTransactionId,
    command: CommandId,
    rows: u64,
    /// Whether an index of the relation keeps its loads hot; determined when the first row is past
    /// the threshold.
    stays_hot: Option<bool>,
}

/// A layout, with what shows that it is still valid: a descriptor that replaced the table's may
/// have got the address of the old one.
struct KnownLayout {
    /// Compared, and never followed.
    desc: pg_sys::TupleDesc,
    invalidations: u64,
    layout: Rc<TableLayout>,
}

#[derive(Default)]
struct Loads {
    counts: FxHashMap<u32, CommandCount>,
    layouts: FxHashMap<u32, KnownLayout>,
}

thread_local! {
    static LOADS: RefCell<Loads> = RefCell::default();
    static LAST_GROUP: RefCell<Option<LastGroup>> = const { RefCell::new(None) };
    /// How many times relcache entries were invalidated.
    static INVALIDATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Watches relcache entries. Must be called once, from `_PG_init`.
pub fn register() {
    // SAFETY: called while the library loads; the callback is a function for ever.
    unsafe {
        pg_sys::CacheRegisterRelcacheCallback(Some(at_invalidation), pg_sys::Datum::from(0));
    }
}

/// Relcache callback: some table may have changed.
#[pg_guard]
unsafe extern "C-unwind" fn at_invalidation(_arg: Datum, _table: Oid) {
    INVALIDATIONS.set(INVALIDATIONS.get().wrapping_add(1));
}

/// Adds the row to the cold side if the running statement has become a bulk load, and sets the
/// slot's TID. If the result is `false`, the caller must insert the row hot. The table is locked
/// for writing, the slot holds a row of it.
pub fn insert_slot(table: Table<'_>, slot: Slot<'_>, command: CommandId) -> bool {
    let subtransaction = current_subtransaction();
    let known = same_group(table, subtransaction, command);
    if known.is_none()
        && (!past_threshold(table, subtransaction, command)
            || !may_go_cold(table)
            || stays_hot(table))
    {
        return false;
    }
    let row = slot.deformed();
    let layout = match &known {
        Some((layout, _)) => Rc::clone(layout),
        None => layout_of(table),
    };
    // SAFETY: the slot's arrays hold the values of a row of the table.
    unsafe {
        let (values, nulls) = ((*row).tts_values, (*row).tts_isnull);
        if must_stay_hot(&layout, values, nulls) {
            return false;
        }
        let group = match known {
            Some((_, group)) => group,
            None => {
                let group = current_group(table, subtransaction, command, Rc::clone(&layout));
                remember(table, &group, Rc::clone(&layout));
                group
            }
        };
        // Checked once the group is in the directory: a transaction that has read the directory
        // before has locked the relation by now.
        predicate::check_insert(table);
        let full = {
            let mut pending = group.borrow_mut();
            let pending = &mut *pending;
            for (i, attribute) in layout.attributes.iter().enumerate() {
                push_datum(
                    pending.rows.column_mut(i),
                    attribute,
                    *values.add(i),
                    *nulls.add(i),
                );
            }
            pending.rows.finish_row();
            let position = pending.rows.row_count() - 1;
            let tid = RowNumber(pending.placed.entry.first_row.0 + position as u64).tid();
            note_place(row, tid.raw(), table.oid(), command);
            position + 1 == pending.placed.entry.capacity_rows as usize
                || pending.rows.raw_bytes() >= settings::row_group_bytes()
        };
        if full {
            write_group(&group);
        } else {
            enforce_memory_bound();
        }
        true
    }
}

/// The group that the last row of a load went to.
struct LastGroup {
    table: Oid,
    file: u32,
    /// Compared, and never followed.
    desc: pg_sys::TupleDesc,
    invalidations: u64,
    subtransaction: SubTransactionId,
    command: CommandId,
    /// Of [`pending_groups`]: no group was taken off since.
    generation: u64,
    layout: Rc<TableLayout>,
    /// Weak: where it was written, its memory is free.
    group: Weak<RefCell<PendingGroup>>,
}

/// The group of the row before, and the table's layout, if the next row of the same load goes there
/// too: what was found out for the former holds as long as table, file, descriptor, command and
/// subtransaction are the same, and the group is not taken off.
#[inline]
fn same_group(
    table: Table<'_>,
    subtransaction: SubTransactionId,
    command: CommandId,
) -> Option<(Rc<TableLayout>, Rc<RefCell<PendingGroup>>)> {
    LAST_GROUP.with_borrow(|last| {
        let last = last.as_ref()?;
        let is_same = last.table == table.oid()
            && last.command == command
            && last.subtransaction == subtransaction
            && last.desc == table.descriptor().raw()
            && last.invalidations == INVALIDATIONS.get()
            && last.generation == pending_groups::generation()
            && last.file == table.file_number()
            && settings::bulk_load();
        let group = last.group.upgrade().filter(|_| is_same)?;
        Some((Rc::clone(&last.layout), group))
    })
}

fn remember(table: Table<'_>, group: &Rc<RefCell<PendingGroup>>, layout: Rc<TableLayout>) {
    let (subtransaction, command) = {
        let pending = group.borrow();
        (pending.subtransaction, pending.command)
    };
    LAST_GROUP.set(Some(LastGroup {
        table: table.oid(),
        file: table.file_number(),
        desc: table.descriptor().raw(),
        invalidations: INVALIDATIONS.get(),
        subtransaction,
        command,
        generation: pending_groups::generation(),
        layout,
        group: Rc::downgrade(group),
    }));
}

/// Counts the row; returns whether the statement is a bulk load.
fn past_threshold(table: Table<'_>, subtransaction: SubTransactionId, command: CommandId) -> bool {
    let oid = table.oid().to_u32();
    let rows = LOADS.with_borrow_mut(|loads| {
        let count = loads.counts.entry(oid).or_insert(CommandCount {
            subtransaction,
            command,
            rows: 0,
            stays_hot: None,
        });
        if count.command != command || count.subtransaction != subtransaction {
            *count = CommandCount {
                subtransaction,
                command,
                rows: 0,
                stays_hot: None,
            };
        }
        count.rows += 1;
        count.rows
    });
    settings::force_cold() || rows > settings::load_threshold()
}

/// Whether an index keeps this relation's loads hot. Determined once per command and relation,
/// whose rows of this command were counted.
fn stays_hot(table: Table<'_>) -> bool {
    let oid = table.oid().to_u32();
    let known = LOADS.with_borrow(|l| l.counts.get(&oid).and_then(|count| count.stays_hot));
    known.unwrap_or_else(|| {
        let answer = hot_only::loads_stay_hot(table);
        LOADS.with_borrow_mut(|l| {
            if let Some(count) = l.counts.get_mut(&oid) {
                count.stays_hot = Some(answer);
            }
        });
        answer
    })
}

/// Whether rows of this table may be written cold at all.
fn may_go_cold(table: Table<'_>) -> bool {
    // Logical decoding must see every row as a heap insert.
    table.toast_oid().is_some()
        && !table.is_logically_logged()
        && !is_in_parallel_mode()
        && settings::bulk_load()
}

fn layout_of(table: Table<'_>) -> Rc<TableLayout> {
    let desc = table.descriptor().raw();
    let oid = table.oid().to_u32();
    let invalidations = INVALIDATIONS.get();
    let known = LOADS.with_borrow(|l| {
        l.layouts
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
        LOADS.with_borrow_mut(|l| l.layouts.insert(oid, known));
        layout
    })
}

fn current_group(
    table: Table<'_>,
    subtransaction: SubTransactionId,
    command: CommandId,
    layout: Rc<TableLayout>,
) -> Rc<RefCell<PendingGroup>> {
    let (oid, file) = (table.oid(), table.file_number());
    let open = pending_groups::find(|g| {
        g.table == oid
            && g.table_file == file
            && g.subtransaction == subtransaction
            && g.command == command
    });
    if let Some(group) = open {
        return group;
    }
    let Some(store) = ColdStore::open(table, LockMode::RowExclusive) else {
        pgrx::error!("table with OID {} has no cold store", oid.to_u32());
    };
    howdah_bridge::malloc::keep_freed_memory();
    let placed = or_raise(oid, directory::reserve(&store, MAX_ROWS as u32, command));
    table.ensure_first_page();
    pending_groups::add(PendingGroup {
        table: oid,
        table_file: file,
        placed,
        subtransaction,
        command,
        serial: 0,
        rows: RowGroupBuilder::new(&layout.column_types()),
        layout,
    })
}

/// Encodes and stores a pending group, and counts its rows as inserted. Its rows stay readable in memory until the stored
/// group can be read; views that already hold it keep it alive.
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
    if let Some(store) = ColdStore::open(table, LockMode::RowExclusive) {
        let pending = group.borrow();
        table.count_inserted_rows(pending.rows.row_count());
        let effort = settings::effort_of(oid);
        or_raise(
            oid,
            group::write(
                &store,
                &pending.placed,
                &pending.rows,
                effort,
                pending.command,
            ),
        );
    }
    pending_groups::forget(group);
}

fn enforce_memory_bound() {
    let largest = pending_groups::with_all(|groups| {
        if groups.len() < 2 {
            return None;
        }
        let bytes = |g: &Rc<RefCell<PendingGroup>>| g.borrow().rows.raw_bytes();
        if groups.iter().map(bytes).sum::<usize>() <= settings::load_memory() {
            return None;
        }
        groups.iter().max_by_key(|g| bytes(g)).map(Rc::clone)
    });
    if let Some(group) = largest {
        let here = current_subtransaction();
        if group.borrow().subtransaction == here {
            write_group(&group);
        }
    }
}

fn flush_where(wanted: impl Fn(&PendingGroup) -> bool) {
    for group in pending_groups::all_where(wanted) {
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
    LAST_GROUP.set(None);
    LOADS.with_borrow_mut(|l| {
        l.counts.clear();
        l.layouts.clear();
    });
}
