//! The pending groups of this backend. See the header of [`super`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use howdah_bridge::predicate;
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::slot::{Slot, note_place};
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::{CommandId, SubTransactionId, current_subtransaction};
use howdah_bridge::{Datum, Oid};
use howdah_columnar::{MAX_ROWS, RowGroupBuilder, Value};
use pgrx::{pg_guard, pg_sys};
use rustc_hash::FxHashMap;

use crate::am::brin;
use crate::errors::or_raise;
use crate::settings;
use crate::store::directory::{self, PlacedEntry};
use crate::store::group;
use crate::store::view::ColdGroup;
use crate::types::{TableLayout, must_stay_hot, push_datum};

/// Rows of a load that are not written yet.
pub struct PendingGroup {
    table: Oid,
    table_file: u32,
    placed: PlacedEntry,
    subtransaction: SubTransactionId,
    command: CommandId,
    serial: u64,
    layout: Rc<TableLayout>,
    rows: RowGroupBuilder,
}

impl PendingGroup {
    /// A value of a pending row; `None` is NULL.
    pub fn value(&self, column: usize, row: u32) -> Option<Value<'_>> {
        if column >= self.layout.attributes.len() {
            return None;
        }
        self.rows.value(column, row as usize)
    }

    fn seen_by(&self, snapshot: Snapshot<'_>) -> bool {
        !snapshot.is_mvcc() || self.command < snapshot.command()
    }
}

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
    groups: Vec<Rc<RefCell<PendingGroup>>>,
    counts: FxHashMap<u32, CommandCount>,
    layouts: FxHashMap<u32, KnownLayout>,
    next_serial: u64,
}

thread_local! {
    static LOADS: RefCell<Loads> = RefCell::default();
    /// How many times relcache entries were invalidated.
    static INVALIDATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Relcache callback: some table may have changed.
#[pg_guard]
pub(super) unsafe extern "C-unwind" fn at_invalidation(_arg: Datum, _table: Oid) {
    INVALIDATIONS.set(INVALIDATIONS.get().wrapping_add(1));
}

/// Whether any row of this backend is not written yet.
pub fn has_pending() -> bool {
    LOADS.with_borrow(|l| !l.groups.is_empty())
}

/// A number that is less than the serial number of every group opened later.
pub fn serial_now() -> u64 {
    LOADS.with_borrow(|l| l.next_serial)
}

/// Adds the row to the cold side if the running statement has become a bulk load, and sets the
/// slot's TID. If the result is `false`, the caller must insert the row hot. The table is locked
/// for writing, the slot holds a row of it.
pub fn insert_slot(table: Table<'_>, slot: Slot<'_>, command: CommandId) -> bool {
    let subtransaction = current_subtransaction();
    if !past_threshold(table, subtransaction, command) || !may_go_cold(table) || stays_hot(table) {
        return false;
    }
    // SAFETY: the slot is valid and holds a row of the table, whose values its arrays have then.
    unsafe {
        let row = slot.raw();
        pg_sys::slot_getallattrs(row);
        let (values, nulls) = ((*row).tts_values, (*row).tts_isnull);
        let layout = layout_of(table);
        if must_stay_hot(&layout, values, nulls) {
            return false;
        }
        let group = current_group(table, subtransaction, command, layout);
        // Checked once the group is in the directory: a transaction that has read the directory
        // before has locked the relation by now.
        predicate::check_insert(table);
        let full = {
            let mut pending = group.borrow_mut();
            let pending = &mut *pending;
            for (i, attribute) in pending.layout.attributes.iter().enumerate() {
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
        pg_sys::pgstat_count_heap_insert(table.raw(), 1);
        if full {
            write_group(&group);
        } else {
            enforce_memory_bound();
        }
        true
    }
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
        let answer = brin::loads_stay_hot(table);
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
    // SAFETY: reads the state of this process.
    let in_parallel_mode = || unsafe { pg_sys::IsInParallelMode() };
    // Logical decoding must see every row as a heap insert.
    table.toast_oid().is_some()
        && !table.is_logically_logged()
        && !in_parallel_mode()
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
    let open = LOADS.with_borrow(|loads| {
        loads
            .groups
            .iter()
            .find(|g| {
                let g = g.borrow();
                g.table == oid
                    && g.table_file == file
                    && g.subtransaction == subtransaction
                    && g.command == command
            })
            .map(Rc::clone)
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
    let group = Rc::new(RefCell::new(PendingGroup {
        table: oid,
        table_file: file,
        placed,
        subtransaction,
        command,
        serial: 0,
        rows: RowGroupBuilder::new(&layout.column_types()),
        layout,
    }));
    LOADS.with_borrow_mut(|loads| {
        loads.next_serial += 1;
        group.borrow_mut().serial = loads.next_serial;
        loads.groups.push(Rc::clone(&group));
    });
    group
}

fn forget(group: &Rc<RefCell<PendingGroup>>) {
    LOADS.with_borrow_mut(|l| l.groups.retain(|g| !Rc::ptr_eq(g, group)));
}

/// Encodes and stores a pending group. Its rows stay readable in memory until the stored
/// group can be read; views that already hold it keep it alive.
fn write_group(group: &Rc<RefCell<PendingGroup>>) {
    let (oid, file) = {
        let pending = group.borrow();
        (pending.table, pending.table_file)
    };
    // The loading statement's lock is held to the end of the transaction.
    let Some(relation) = OpenRelation::try_open_locked(oid) else {
        // The table was dropped by the transaction that loaded it.
        forget(group);
        return;
    };
    let table = relation.table();
    if table.file_number() != file {
        // The table was truncated or rewritten by the transaction that loaded it.
        forget(group);
        return;
    }
    if let Some(store) = ColdStore::open(table, LockMode::RowExclusive) {
        let pending = group.borrow();
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
    forget(group);
}

fn enforce_memory_bound() {
    let largest = LOADS.with_borrow(|loads| {
        if loads.groups.len() < 2 {
            return None;
        }
        let total: usize = loads
            .groups
            .iter()
            .map(|g| g.borrow().rows.raw_bytes())
            .sum();
        if total <= settings::load_memory() {
            return None;
        }
        loads
            .groups
            .iter()
            .max_by_key(|g| g.borrow().rows.raw_bytes())
            .map(Rc::clone)
    });
    if let Some(group) = largest {
        let here = current_subtransaction();
        if group.borrow().subtransaction == here {
            write_group(&group);
        }
    }
}

fn flush_where(wanted: impl Fn(&PendingGroup) -> bool) {
    let groups: Vec<_> = LOADS.with_borrow(|l| {
        l.groups
            .iter()
            .filter(|g| wanted(&g.borrow()))
            .map(Rc::clone)
            .collect()
    });
    for group in groups {
        write_group(&group);
    }
}

/// Writes the pending groups of `command` in the current subtransaction.
pub fn flush_command(command: CommandId) {
    if has_pending() {
        let here = current_subtransaction();
        flush_where(|g| g.command == command && g.subtransaction == here);
    }
}

/// Writes the current subtransaction's pending groups of one table.
pub fn flush_relation(table: Oid) {
    if has_pending() {
        let here = current_subtransaction();
        flush_where(|g| g.table == table && g.subtransaction == here);
    }
}

/// Writes the current subtransaction's pending groups that were opened since [`serial_now`]
/// returned `serial`.
pub fn flush_since(serial: u64) {
    if has_pending() {
        let here = current_subtransaction();
        flush_where(|g| g.serial > serial && g.subtransaction == here);
    }
}

/// Writes all pending groups of one subtransaction, which is about to commit.
pub(super) fn flush_subtransaction(subtransaction: SubTransactionId) {
    flush_where(|g| g.subtransaction == subtransaction);
}

/// Writes all pending groups; the transaction is about to commit.
pub(super) fn flush_all() {
    flush_where(|_| true);
}

/// Drops the pending groups of an aborted subtransaction.
pub(super) fn discard_subtransaction(subtransaction: SubTransactionId) {
    LOADS.with_borrow_mut(|l| {
        l.groups
            .retain(|g| g.borrow().subtransaction != subtransaction)
    });
}

/// Drops the pending rows of a table's file, which is emptied in place.
pub fn discard_file(table: Table<'_>) {
    let (oid, file) = (table.oid(), table.file_number());
    LOADS.with_borrow_mut(|l| {
        l.groups.retain(|g| {
            let g = g.borrow();
            g.table != oid || g.table_file != file
        });
    });
}

/// Drops everything: the transaction has ended.
pub(super) fn reset() {
    LOADS.with_borrow_mut(|l| {
        l.groups.clear();
        l.counts.clear();
        l.layouts.clear();
    });
}

/// The pending groups of a table that the snapshot sees, as groups of a view.
pub fn visible_pending(table: Table<'_>, snapshot: Snapshot<'_>) -> Vec<ColdGroup> {
    if !has_pending() {
        return Vec::new();
    }
    let (oid, file) = (table.oid(), table.file_number());
    LOADS.with_borrow(|loads| {
        loads
            .groups
            .iter()
            .filter(|g| {
                let g = g.borrow();
                g.table == oid
                    && g.table_file == file
                    && g.rows.row_count() > 0
                    && g.seen_by(snapshot)
            })
            .map(|g| {
                let pending = g.borrow();
                ColdGroup::Pending {
                    load: Rc::clone(g),
                    entry: pending.placed.entry,
                    row_count: pending.rows.row_count() as u32,
                }
            })
            .collect()
    })
}

/// The pending group and position of one row: `Some(None)` if the row is pending but the
/// snapshot does not see it, `None` if it is not a pending row of this backend.
pub fn pending_row(
    table: Table<'_>,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Option<Option<(ColdGroup, u32)>> {
    if !has_pending() {
        return None;
    }
    let (oid, file) = (table.oid(), table.file_number());
    LOADS.with_borrow(|loads| {
        let group = loads.groups.iter().find(|g| {
            let g = g.borrow();
            g.table == oid && g.table_file == file && g.placed.entry.covers(row)
        })?;
        let pending = group.borrow();
        let row_count = pending.rows.row_count() as u32;
        let position = (row.0 - pending.placed.entry.first_row.0) as u32;
        if position >= row_count || !pending.seen_by(snapshot) {
            return Some(None);
        }
        let view = ColdGroup::Pending {
            load: Rc::clone(group),
            entry: pending.placed.entry,
            row_count,
        };
        Some(Some((view, position)))
    })
}

/// Records that a row of this table has got a mark, if it is pending.
pub fn note_marked(table: Oid, placed: &PlacedEntry) {
    if !has_pending() {
        return;
    }
    LOADS.with_borrow(|loads| {
        for group in &loads.groups {
            let mut group = group.borrow_mut();
            if group.table == table && group.placed.entry.group() == placed.entry.group() {
                group.placed.entry.flags = group.placed.entry.flags.union(placed.entry.flags);
            }
        }
    });
}
