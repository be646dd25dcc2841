//! Rows of this backend's bulk loads that are not written yet, as groups that its readers see.
//!
//! ```text
//!   load     adds groups, fills them, has them encoded, writes them and forgets them
//!   views    show the rows of their own backend (the rule of heap's cmin, see [`visible`])
//!   marks    a pending row may be deleted: its group's flags are noted here, too
//! ```
//!
//! Here are groups and the question what a snapshot sees of them. When a row becomes pending, and
//! when a group is written, is decided by [`crate::load`], which lies above.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use howdah_bridge::Oid;
use howdah_bridge::heap_am::InsertOptions;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::table::{Table, TableFile};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::{CommandId, SubTransactionId};
use howdah_columnar::{EncodeOptions, RowGroupBuilder, Value};

use super::directory::PlacedEntry;
use super::encoder::Encoder;
use super::view::ColdGroup;
use crate::types::TableLayout;

/// Rows of a load that are not written yet.
pub struct PendingGroup {
    pub file: TableFile,
    pub placed: PlacedEntry,
    pub subtransaction: SubTransactionId,
    pub command: CommandId,
    /// Grows from group to group; [`add`] sets it.
    pub serial: u64,
    pub layout: Rc<TableLayout>,
    pub rows: PendingRows,
    /// The bytes of its rows when they were last counted.
    pub weighed_bytes: usize,
    /// Set as long as no row's TID is known outside of this backend's load: its rows may become hot
    /// then, by these options. A reader that sees the group clears it.
    pub may_become_hot: Cell<Option<InsertOptions>>,
}

/// The rows of a pending group.
pub enum PendingRows {
    /// More are added.
    Filling(RowGroupBuilder),
    /// A thread encodes them.
    Encoding(Encoder),
}

impl PendingRows {
    /// Those that are finished.
    pub fn get(&self) -> &RowGroupBuilder {
        match self {
            Self::Filling(rows) => rows,
            Self::Encoding(encoder) => encoder.rows(),
        }
    }

    /// Whether rows may be added.
    pub fn is_filling(&self) -> bool {
        matches!(self, Self::Filling(_))
    }
}

impl PendingGroup {
    /// A value of a pending row; `None` is NULL.
    pub fn value(&self, column: usize, row: u32) -> Option<Value<'_>> {
        if column >= self.layout.attributes.len() {
            return None;
        }
        self.rows.get().value(column, row as usize)
    }

    /// Has the rows encoded by a thread; no more are added then. `false` if none can be had.
    pub fn encode_aside(&mut self, encoding: EncodeOptions) -> bool {
        let empty = PendingRows::Filling(RowGroupBuilder::new(&[]));
        match std::mem::replace(&mut self.rows, empty) {
            PendingRows::Filling(rows) => match Encoder::start(rows, encoding) {
                Ok(encoder) => self.rows = PendingRows::Encoding(encoder),
                Err(rows) => self.rows = PendingRows::Filling(rows),
            },
            encoding => self.rows = encoding,
        }
        !self.rows.is_filling()
    }

    fn seen_by(&self, snapshot: Snapshot<'_>) -> bool {
        !snapshot.is_mvcc() || self.command < snapshot.command()
    }
}

thread_local! {
    static GROUPS: RefCell<Vec<Rc<RefCell<PendingGroup>>>> = const { RefCell::new(Vec::new()) };
    static LAST_SERIAL: Cell<u64> = const { Cell::new(0) };
    static REMOVALS: Cell<u64> = const { Cell::new(0) };
}

/// Changes whenever a group is taken off: one that was found before may be gone then.
#[inline]
pub fn removals() -> u64 {
    REMOVALS.get()
}

/// Takes off the groups that are not to be kept.
fn retain(keep: impl FnMut(&Rc<RefCell<PendingGroup>>) -> bool) {
    REMOVALS.set(REMOVALS.get() + 1);
    // Dropped when the list is not borrowed any more: a drop may wait for a thread.
    let gone: Vec<_> = GROUPS.with_borrow_mut(|groups| {
        let mut keep = keep;
        groups.extract_if(.., |group| !keep(group)).collect()
    });
    drop(gone);
}

/// Whether any row of this backend is not written yet.
pub fn any() -> bool {
    GROUPS.with_borrow(|groups| !groups.is_empty())
}

/// A number that is less than the serial number of every group added later.
pub fn serial_now() -> u64 {
    LAST_SERIAL.get()
}

/// Adds a group, with the next serial number.
pub fn add(mut group: PendingGroup) -> Rc<RefCell<PendingGroup>> {
    LAST_SERIAL.set(LAST_SERIAL.get() + 1);
    group.serial = LAST_SERIAL.get();
    let group = Rc::new(RefCell::new(group));
    GROUPS.with_borrow_mut(|groups| groups.push(Rc::clone(&group)));
    group
}

/// Takes a group off; views that already hold it keep it alive.
pub fn forget(group: &Rc<RefCell<PendingGroup>>) {
    retain(|g| !Rc::ptr_eq(g, group));
}

/// Shows all groups, in the order in which they were added.
pub fn with_all<R>(look: impl FnOnce(&[Rc<RefCell<PendingGroup>>]) -> R) -> R {
    GROUPS.with_borrow(|groups| look(groups))
}

/// The first group that is wanted.
pub fn find(wanted: impl Fn(&PendingGroup) -> bool) -> Option<Rc<RefCell<PendingGroup>>> {
    with_all(|groups| groups.iter().find(|g| wanted(&g.borrow())).map(Rc::clone))
}

/// The groups that are wanted.
pub fn all_where(wanted: impl Fn(&PendingGroup) -> bool) -> Vec<Rc<RefCell<PendingGroup>>> {
    let wanted = |g: &&Rc<RefCell<PendingGroup>>| wanted(&g.borrow());
    with_all(|groups| groups.iter().filter(wanted).map(Rc::clone).collect())
}

/// Drops the groups of an aborted subtransaction.
pub fn discard_subtransaction(subtransaction: SubTransactionId) {
    retain(|g| g.borrow().subtransaction != subtransaction);
}

/// Drops the pending rows of a table's file, which is emptied in place.
pub fn discard_file(table: Table<'_>) {
    let file = table.file();
    retain(|g| g.borrow().file != file);
}

/// Drops everything: the transaction has ended.
pub fn reset() {
    if any() {
        retain(|_| false);
    }
}

/// The pending groups of a table that the snapshot sees, as groups of a view.
pub fn visible(table: Table<'_>, snapshot: Snapshot<'_>) -> Vec<ColdGroup> {
    if !any() {
        return Vec::new();
    }
    let file = table.file();
    GROUPS.with_borrow(|groups| {
        groups
            .iter()
            .filter(|g| {
                let g = g.borrow();
                g.file == file && g.rows.get().row_count() > 0 && g.seen_by(snapshot)
            })
            .map(|g| {
                let pending = g.borrow();
                pending.may_become_hot.set(None);
                ColdGroup::Pending {
                    load: Rc::clone(g),
                    entry: pending.placed.entry,
                    row_count: pending.rows.get().row_count() as u32,
                }
            })
            .collect()
    })
}

/// The pending group and position of one row: `Some(None)` if the row is pending but the
/// snapshot does not see it, `None` if it is not a pending row of this backend.
pub fn of_row(
    table: Table<'_>,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Option<Option<(ColdGroup, u32)>> {
    if !any() {
        return None;
    }
    let file = table.file();
    GROUPS.with_borrow(|groups| {
        let group = groups.iter().find(|g| {
            let g = g.borrow();
            g.file == file && g.placed.entry.covers(row)
        })?;
        let pending = group.borrow();
        let row_count = pending.rows.get().row_count() as u32;
        let position = (row.0 - pending.placed.entry.first_row.0) as u32;
        if position >= row_count || !pending.seen_by(snapshot) {
            return Some(None);
        }
        pending.may_become_hot.set(None);
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
    if !any() {
        return;
    }
    GROUPS.with_borrow(|groups| {
        for group in groups {
            let mut group = group.borrow_mut();
            if group.file.table == table && group.placed.entry.group() == placed.entry.group() {
                group.placed.entry.flags = group.placed.entry.flags.union(placed.entry.flags);
            }
        }
    });
}
