//! The pending groups of this backend. See the header of [`super`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use howdah_bridge::ffi::quiet;
use howdah_bridge::predicate;
use howdah_bridge::slot::note_place;
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
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
    table: pg_sys::Oid,
    table_file: u32,
    placed: PlacedEntry,
    subtransaction: pg_sys::SubTransactionId,
    command: pg_sys::CommandId,
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

    fn seen_by(&self, snapshot: pg_sys::Snapshot) -> bool {
        // SAFETY: the snapshot is valid while its scan runs.
        let (kind, curcid) = unsafe { ((*snapshot).snapshot_type, (*snapshot).curcid) };
        kind != pg_sys::SnapshotType::SNAPSHOT_MVCC || self.command < curcid
    }
}

/// How many rows the running command has inserted into a relation.
struct CommandCount {
    subtransaction: pg_sys::SubTransactionId,
    command: pg_sys::CommandId,
    rows: u64,
    /// Whether an index of the relation keeps its loads hot; determined when the first row is past
    /// the threshold.
    stays_hot: Option<bool>,
}

/// A layout, with what shows that it is still valid: a descriptor that replaced the table's may
/// have got the address of the old one.
struct KnownLayout {
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
pub(super) unsafe extern "C-unwind" fn at_invalidation(_arg: pg_sys::Datum, _table: pg_sys::Oid) {
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
/// slot's TID. If the result is `false`, the caller must insert the row hot.
///
/// # Safety
/// `table` is open and locked for writing; `slot` holds a row of it.
pub unsafe fn insert_slot(
    table: pg_sys::Relation,
    slot: *mut pg_sys::TupleTableSlot,
    command: pg_sys::CommandId,
) -> bool {
    // SAFETY: as for this function; GetCurrentSubTransactionId only reads.
    unsafe {
        let subtransaction = quiet::GetCurrentSubTransactionId();
        if !past_threshold(table, subtransaction, command)
            || !may_go_cold(table)
            || stays_hot(table)
        {
            return false;
        }
        pg_sys::slot_getallattrs(slot);
        let layout = layout_of(table);
        if must_stay_hot(&layout, (*slot).tts_values, (*slot).tts_isnull) {
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
                    *(*slot).tts_values.add(i),
                    *(*slot).tts_isnull.add(i),
                );
            }
            pending.rows.finish_row();
            let position = pending.rows.row_count() - 1;
            let tid = RowNumber(pending.placed.entry.first_row.0 + position as u64).tid();
            note_place(slot, tid, (*table).rd_id, command);
            position + 1 == pending.placed.entry.capacity_rows as usize
                || pending.rows.raw_bytes() >= settings::row_group_bytes()
        };
        pgrx::pg_sys::pgstat_count_heap_insert(table, 1);
        if full {
            write_group(&group);
        } else {
            enforce_memory_bound();
        }
        true
    }
}

/// Counts the row; returns whether the statement is a bulk load.
fn past_threshold(
    table: pg_sys::Relation,
    subtransaction: pg_sys::SubTransactionId,
    command: pg_sys::CommandId,
) -> bool {
    // SAFETY: the caller of `insert_slot` holds the relation open.
    let oid = unsafe { (*table).rd_id.to_u32() };
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

/// Whether an index keeps this relation's loads hot. Determined once per command and relation.
///
/// # Safety
/// `table` is open and locked for writing; its rows of this command were counted.
unsafe fn stays_hot(table: pg_sys::Relation) -> bool {
    // SAFETY: as for this function.
    let oid = unsafe { (*table).rd_id.to_u32() };
    let known = LOADS.with_borrow(|l| l.counts.get(&oid).and_then(|count| count.stays_hot));
    known.unwrap_or_else(|| {
        // SAFETY: as for this function.
        let answer = unsafe { brin::loads_stay_hot(table) };
        LOADS.with_borrow_mut(|l| {
            if let Some(count) = l.counts.get_mut(&oid) {
                count.stays_hot = Some(answer);
            }
        });
        answer
    })
}

/// Whether rows of this table may be written cold at all.
unsafe fn may_go_cold(table: pg_sys::Relation) -> bool {
    // SAFETY: the caller holds the relation open.
    unsafe {
        let form = (*table).rd_rel;
        // Logical decoding must see every row as a heap insert.
        let decoded = pg_sys::wal_level >= pg_sys::WalLevel::WAL_LEVEL_LOGICAL as i32
            && (*form).relpersistence == pg_sys::RELPERSISTENCE_PERMANENT as i8;
        (*form).reltoastrelid != pg_sys::InvalidOid
            && !decoded
            && !pg_sys::IsInParallelMode()
            && settings::bulk_load()
    }
}

unsafe fn layout_of(table: pg_sys::Relation) -> Rc<TableLayout> {
    // SAFETY: the descriptor lives as long as the open relation.
    unsafe {
        let desc = (*table).rd_att;
        let oid = (*table).rd_id.to_u32();
        let invalidations = INVALIDATIONS.get();
        let known = LOADS.with_borrow(|l| {
            l.layouts
                .get(&oid)
                .filter(|known| known.desc == desc && known.invalidations == invalidations)
                .map(|known| Rc::clone(&known.layout))
        });
        known.unwrap_or_else(|| {
            let layout = Rc::new(TableLayout::of(desc));
            let known = KnownLayout {
                desc,
                invalidations,
                layout: Rc::clone(&layout),
            };
            LOADS.with_borrow_mut(|l| l.layouts.insert(oid, known));
            layout
        })
    }
}

unsafe fn current_group(
    table: pg_sys::Relation,
    subtransaction: pg_sys::SubTransactionId,
    command: pg_sys::CommandId,
    layout: Rc<TableLayout>,
) -> Rc<RefCell<PendingGroup>> {
    // SAFETY: the caller holds the relation open.
    let (oid, file) = unsafe { ((*table).rd_id, (*table).rd_locator.relNumber.to_u32()) };
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
    // SAFETY: as above.
    let store = unsafe { ColdStore::open(table, pg_sys::RowExclusiveLock) };
    let Some(store) = store else {
        pgrx::error!("table with OID {} has no cold store", oid.to_u32());
    };
    howdah_bridge::malloc::keep_freed_memory();
    let placed = or_raise(oid, directory::reserve(&store, MAX_ROWS as u32, command));
    // SAFETY: as above; the insert's lock is held.
    unsafe { howdah_bridge::relation::ensure_first_page(table) };
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
    let Some(table) = howdah_bridge::relation::OpenRelation::try_open(oid, pg_sys::NoLock) else {
        // The table was dropped by the transaction that loaded it.
        forget(group);
        return;
    };
    // SAFETY: `table` is open; the loading statement's lock is held to the end of the transaction.
    let store = unsafe {
        if (*table.raw()).rd_locator.relNumber.to_u32() != file {
            // The table was truncated or rewritten by the transaction that loaded it.
            forget(group);
            return;
        }
        ColdStore::open(table.raw(), pg_sys::RowExclusiveLock)
    };
    if let Some(store) = store {
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
        // SAFETY: plain read.
        let here = unsafe { quiet::GetCurrentSubTransactionId() };
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
pub fn flush_command(command: pg_sys::CommandId) {
    if has_pending() {
        // SAFETY: plain read.
        let here = unsafe { quiet::GetCurrentSubTransactionId() };
        flush_where(|g| g.command == command && g.subtransaction == here);
    }
}

/// Writes the current subtransaction's pending groups of one table.
pub fn flush_relation(table: pg_sys::Oid) {
    if has_pending() {
        // SAFETY: plain read.
        let here = unsafe { quiet::GetCurrentSubTransactionId() };
        flush_where(|g| g.table == table && g.subtransaction == here);
    }
}

/// Writes the current subtransaction's pending groups that were opened since [`serial_now`]
/// returned `serial`.
pub fn flush_since(serial: u64) {
    if has_pending() {
        // SAFETY: plain read.
        let here = unsafe { quiet::GetCurrentSubTransactionId() };
        flush_where(|g| g.serial > serial && g.subtransaction == here);
    }
}

/// Writes all pending groups of one subtransaction, which is about to commit.
pub(super) fn flush_subtransaction(subtransaction: pg_sys::SubTransactionId) {
    flush_where(|g| g.subtransaction == subtransaction);
}

/// Writes all pending groups; the transaction is about to commit.
pub(super) fn flush_all() {
    flush_where(|_| true);
}

/// Drops the pending groups of an aborted subtransaction.
pub(super) fn discard_subtransaction(subtransaction: pg_sys::SubTransactionId) {
    LOADS.with_borrow_mut(|l| {
        l.groups
            .retain(|g| g.borrow().subtransaction != subtransaction)
    });
}

/// Drops the pending rows of a file that is emptied in place.
///
/// # Safety
/// `table` is open, and its file the one that is emptied.
pub unsafe fn discard_file(table: pg_sys::Relation) {
    // SAFETY: as for this function.
    let (oid, file) = unsafe { ((*table).rd_id, (*table).rd_locator.relNumber.to_u32()) };
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
///
/// # Safety
/// `table` is open, `snapshot` valid.
pub unsafe fn visible_pending(
    table: pg_sys::Relation,
    snapshot: pg_sys::Snapshot,
) -> Vec<ColdGroup> {
    if !has_pending() {
        return Vec::new();
    }
    // SAFETY: the caller holds the relation open.
    let (oid, file) = unsafe { ((*table).rd_id, (*table).rd_locator.relNumber.to_u32()) };
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
///
/// # Safety
/// `table` is open, `snapshot` valid.
pub unsafe fn pending_row(
    table: pg_sys::Relation,
    row: RowNumber,
    snapshot: pg_sys::Snapshot,
) -> Option<Option<(ColdGroup, u32)>> {
    if !has_pending() {
        return None;
    }
    // SAFETY: the caller holds the relation open.
    let (oid, file) = unsafe { ((*table).rd_id, (*table).rd_locator.relNumber.to_u32()) };
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
pub fn note_marked(table: pg_sys::Oid, placed: &PlacedEntry) {
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
