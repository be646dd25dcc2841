//! Whether the running statement is expected to change many rows of a group.
//!
//! A whole group is locked when a transaction has changed many rows of it: other writers of the
//! group wait then. A statement of which the planner expects so many asks for the lock earlier,
//! once some changes in one group confirm the estimate, which may be wrong by any factor: of a
//! range whose bounds it does not know the planner expects 0.5 % of the table. Statements
//! for a page of rows, a hundred at most, should not lock what is beside their rows.

use std::cell::Cell;

use howdah_bridge::xid::CommandId;

/// Rows changed in one group before the whole group is requested: then they may be collected.
const CHANGES_PER_GROUP: u32 = 256;
/// The same for a statement that is expected to change so many.
const CONFIRMING_CHANGES: u32 = 128;

thread_local! {
    /// The latest statement that was expected to change many rows.
    static EXPECTED: Cell<Option<CommandId>> = const { Cell::new(None) };
}

/// Notes how many rows a statement that has started is expected to change.
pub fn expect(command: CommandId, row_count: f64) {
    if row_count >= f64::from(CHANGES_PER_GROUP) {
        EXPECTED.set(Some(command));
    }
}

/// Rows that a statement changes in one group before the whole group is requested.
pub(super) fn changes_per_group(command: CommandId) -> u32 {
    match EXPECTED.get() == Some(command) {
        true => CONFIRMING_CHANGES,
        false => CHANGES_PER_GROUP,
    }
}

/// The transaction has ended: its commands are counted anew.
pub(super) fn reset() {
    EXPECTED.set(None);
}
