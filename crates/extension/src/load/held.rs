//! The first rows of COPY, held in memory until it is known whether more come than the threshold.
//!
//! ```text
//!   batch of COPY ──▶ HeldRows ── more than the threshold ──▶ the first rows of a pending group
//!                        │
//!                        └─ end of the COPY, or HELD_BYTES ──▶ hot, in their order
//! ```
//!
//! A held row has no TID and is not visible to anything, its own transaction included, as rows in
//! COPY's own buffers are not. So rows are held only where nothing can tell the difference: the
//! table has no index and no triggers that COPY fires after rows, nor has another partition of its
//! partitioned table, which the same COPY may fill; and no expression of the table's or of a domain
//! is evaluated for its rows. (COPY inserts row by row where there is a BEFORE ROW trigger or
//! a volatile default.) In a serializable transaction none are held: each insertion is checked for
//! conflicts.
//!
//! Held rows belong to one table, subtransaction and command. Aborts drop them; `finish_inserts` is
//! called at the end of each COPY that inserts in batches, and writes them. (COPY into many
//! partitions calls it for one of them before its end, too: further rows of that one are not held.)

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use howdah_bridge::Oid;
use howdah_bridge::heap_am::{self, InsertOptions, InsertRequest};
use howdah_bridge::partitions;
use howdah_bridge::predicate;
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::slot::Slot;
use howdah_bridge::table::{Table, TableFile};
use howdah_bridge::xid::{CommandId, SubTransactionId, current_subtransaction};
use howdah_columnar::RowGroupBuilder;

use super::layouts::layout_of;
use super::{commands, pending, rows_hot};
use crate::settings;
use crate::types::{TableLayout, must_stay_hot, push_datums};
use crate::written_databases;

/// A COPY whose first batch is smaller is small, or has wide rows: its rows are not held.
const FEWEST_ROWS: usize = 256;
/// Under a higher threshold rows are not held: with one batch more they still fit a row group.
const MOST_ROWS: u64 = 65_536;
/// Raw bytes of held rows, of all tables that a COPY fills.
const HELD_BYTES: usize = 16 << 20;

/// Rows of one COPY into one table.
struct HeldRows {
    file: TableFile,
    subtransaction: SubTransactionId,
    command: CommandId,
    options: InsertOptions,
    layout: Rc<TableLayout>,
    rows: RowGroupBuilder,
}

thread_local! {
    static HELD: RefCell<Vec<HeldRows>> = const { RefCell::new(Vec::new()) };
    /// The latest answer of `partitions_have_triggers`, and what was asked.
    static TRIGGERS: Cell<Option<((Oid, CommandId), bool)>> = const { Cell::new(None) };
}

/// Holds a batch of rows, or lets it follow rows that are held; `false` if the caller must insert
/// it. The table is locked for writing, the slots hold rows of it.
pub fn hold(table: Table<'_>, slots: &[Slot<'_>], request: InsertRequest<'_>) -> bool {
    let mut held = match take(table, request) {
        Some(held) => held,
        None if slots.len() >= FEWEST_ROWS && may_hold(table, request) => begin(table, request),
        None => return false,
    };
    commands::count_held(table, request, slots.len());
    for (i, slot) in slots.iter().enumerate() {
        let (values, nulls) = slot.row();
        // SAFETY: values and flags of a row of the table, whose layout it is.
        unsafe {
            if must_stay_hot(&held.layout, values, nulls) {
                heap_am::insert_run(table, slots, i..i + 1, request);
                continue;
            }
            push_datums(&mut held.rows, &held.layout, values, nulls);
        }
        held.rows.finish_row();
    }
    let (row_count, bytes) = (held.rows.row_count(), held.rows.raw_bytes());
    if row_count as u64 > settings::load_threshold().min(MOST_ROWS) {
        pending::begin_with(table, held.command, held.layout, held.rows);
    } else if bytes + bytes_of_others() > HELD_BYTES {
        write(table, held);
    } else {
        HELD.with_borrow_mut(|all| all.push(held));
    }
    true
}

/// Takes off what is held of the running command and table.
fn take(table: Table<'_>, request: InsertRequest<'_>) -> Option<HeldRows> {
    let (file, command) = (table.file(), request.command);
    HELD.with_borrow_mut(|all| {
        let at = (all.iter()).position(|held| held.file == file && held.command == command)?;
        Some(all.swap_remove(at))
    })
}

/// Whether rows of the running command may be held, of which none has come yet.
fn may_hold(table: Table<'_>, request: InsertRequest<'_>) -> bool {
    settings::load_threshold() <= MOST_ROWS
        && commands::may_begin_later(table, request)
        && !predicate::is_serializable()
        && !table.shows_places()
        && !table.evaluates_for_inserts()
        && !table.has_statement_triggers()
        && !partitions_have_triggers(table, request)
}

/// Whether the partitioned table has triggers that the table is a partition of, or another
/// partition of it. Looked up once in a command, which may fill many partitions.
fn partitions_have_triggers(table: Table<'_>, request: InsertRequest<'_>) -> bool {
    partitions::root_of(table).is_some_and(|root| {
        let asked = (root, request.command);
        if let Some((known, answer)) = TRIGGERS.get()
            && known == asked
        {
            return answer;
        }
        let answer = partitions::have_triggers(root);
        TRIGGERS.set(Some((asked, answer)));
        answer
    })
}

fn begin(table: Table<'_>, request: InsertRequest<'_>) -> HeldRows {
    let layout = layout_of(table);
    HeldRows {
        file: table.file(),
        subtransaction: current_subtransaction(),
        command: request.command,
        options: request.options(),
        rows: RowGroupBuilder::new(&layout.column_types()),
        layout,
    }
}

fn bytes_of_others() -> usize {
    HELD.with_borrow(|all| all.iter().map(|held| held.rows.raw_bytes()).sum())
}

/// Inserts held rows hot.
fn write(table: Table<'_>, held: HeldRows) {
    written_databases::note_write();
    rows_hot::insert(table, &held.rows, held.command, held.options);
}

fn write_where(is_wanted: impl Fn(&HeldRows) -> bool) {
    while let Some(held) = HELD.with_borrow_mut(|all| {
        let at = all.iter().position(&is_wanted)?;
        Some(all.remove(at))
    }) {
        // The statement's lock is held to the end of the transaction. A table that was dropped,
        // emptied or rewritten meanwhile has lost these rows as well.
        if let Some(relation) = OpenRelation::try_open_locked(held.file.table)
            && relation.table().file() == held.file
        {
            write(relation.table(), held);
        }
    }
}

/// Writes what the current subtransaction holds of a table: its COPY is over.
pub(super) fn write_table(table: Oid) {
    let here = current_subtransaction();
    write_where(|held| held.file.table == table && held.subtransaction == here);
}

/// Writes what a subtransaction holds, which is about to commit.
pub(super) fn write_subtransaction(subtransaction: SubTransactionId) {
    write_where(|held| held.subtransaction == subtransaction);
}

/// Writes all; the transaction is about to commit.
pub(super) fn write_all() {
    write_where(|_| true);
}

/// Drops what an aborted subtransaction holds.
pub(super) fn discard_subtransaction(subtransaction: SubTransactionId) {
    HELD.with_borrow_mut(|all| all.retain(|held| held.subtransaction != subtransaction));
}

/// Drops everything: the transaction has ended.
pub(super) fn reset() {
    HELD.with_borrow_mut(Vec::clear);
    TRIGGERS.set(None);
}
