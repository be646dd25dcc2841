//! The cold row that this transaction has changed last.
//!
//! An update of a cold row reaches its old version repeatedly: a check of uniqueness finds its
//! index entry, and so does the next statement that looks up the new version by the same key. For
//! these, this module remembers what they would read from the mark: that the row is hidden, from
//! the command on at which heap's cmax would hide it.
//!
//! The memory is cleared when the transaction ends, when a subtransaction is rolled back, which may
//! have removed the mark, and when a file is emptied in place; other files have other names.

use std::cell::Cell;

use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::table::{Table, TableFile};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::CommandId;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    file: TableFile,
    row: RowNumber,
}

impl Place {
    fn of(table: Table<'_>, row: RowNumber) -> Place {
        Place {
            file: table.file(),
            row,
        }
    }
}

thread_local! {
    static LAST: Cell<Option<(Place, CommandId)>> = const { Cell::new(None) };
}

/// Remembers that the command has marked the row.
pub fn note(table: Table<'_>, row: RowNumber, command: CommandId) {
    LAST.set(Some((Place::of(table, row), command)));
}

pub fn forget() {
    LAST.set(None);
}

/// Whether the row is known to be hidden from an MVCC or a dirty snapshot.
pub fn hides(table: Table<'_>, row: RowNumber, snapshot: Snapshot<'_>) -> bool {
    let Some((place, command)) = LAST.get() else {
        return false;
    };
    place == Place::of(table, row) && (snapshot.is_dirty() || command < snapshot.command())
}
