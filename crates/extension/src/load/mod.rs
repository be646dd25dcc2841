//! Bulk loads: rows that are collected in memory for a row group.
//!
//! ```text
//!   the plan expects many rows         -> PendingGroup (memory) from the first row on
//!   COPY brings many rows at once      -> HeldRows (memory) --past the threshold--> PendingGroup
//!   otherwise rows 1..threshold        -> heap (hot)
//!   rows past the threshold            -> PendingGroup (memory)
//!                                         --full / statement end--> row group
//! ```
//!
//! The files in the order of a row: `expected`, `commands` (does it go cold?), `held`, `layouts`,
//! `pending` (it is added to a group), `flush` (the group is written), `rows_hot` (or becomes hot).
//!
//! Where a load begins
//! - A statement begins cold with its first row if its plan expects at least twice the threshold
//!   ([`expected`]), so that its rows lie in the order of insertion and none of them is left hot.
//! - An estimate may be wrong. If no more than the threshold have come when the statement ends,
//!   the rows become hot after all and the reservation is withdrawn ([`rows_hot`]), unless a TID
//!   of theirs may be known: that is the case if the table has an index or AFTER ROW triggers, if
//!   the statement has RETURNING, or if a reader has seen the rows meanwhile. Then the estimate
//!   alone has decided, and a small row group is left to compaction.
//! - Of COPY nothing is known before its end. Its first rows are [held](held) in memory without
//!   TIDs until they are more than the threshold, where nothing needs a TID or can see the
//!   difference: no index, no AFTER ROW trigger, no expression of the table's that is evaluated
//!   for its rows.
//! - All other statements insert the first rows hot: an insertion must know the place of its row.
//!
//! A pending group belongs to one relation file, one subtransaction and one command. Its range of
//! row numbers is reserved before its first row gets its TID, so index entries can be inserted as
//! usual while the rows are still in memory.
//!
//! Visibility of pending rows: this backend's own readers see them, in memory
//! ([`pending_groups`]), by the rule of heap's cmin: MVCC snapshots taken by a later command, and
//! all dirty/self/any snapshots. Reading never writes a group early, because a reader may run in a
//! subtransaction whose abort must not remove the outer load's rows. Other backends see the
//! reservation of an in-progress transaction, see [`crate::store`].
//!
//! A full group is encoded by a thread of its own ([`crate::store::encoder`]) while the statement
//! fills the next; the backend itself writes it when that is done. One group of a backend is
//! encoded so at a time, and where no thread can be had the backend encodes it.
//!
//! A group is written when it is full (rows, or raw bytes past `howdah.row_group_bytes`); when its
//! statement ends (ExecutorFinish before AFTER triggers fire, finish_bulk_insert but of partitions,
//! end of COPY); and when its subtransaction or transaction is about to commit or prepare. An abort
//! drops it.
//!
//! The groups themselves are kept in [`pending_groups`], where readers find them; the ends of
//! transactions and statements are told to this room by `transaction.rs`.
//!
//! Rows come from `tuple_insert` and `multi_insert`. Of a plain INSERT they come straight from its
//! plan once the command fills a group (`howdah_bridge::plain_insert`, `am/plain_insert.rs`): row
//! by row, or the tuples of a heap page column by column.
//!
//! Invariant: a row whose TID is known outside of this room stays at this TID.
//!
//! Bounds: held rows are at most the threshold, of `HELD_BYTES` in all. All pending groups of a
//! backend together hold at most `howdah.load_memory`; past that the largest is written. A load
//! waits for the thread when the rows that it has added meanwhile take half of
//! `howdah.row_group_bytes`.

mod commands;
mod expected;
mod flush;
mod held;
mod hot_only;
mod layouts;
mod pending;
mod rows_hot;

use howdah_bridge::Oid;
use howdah_bridge::table::Table;
use howdah_bridge::xid::SubTransactionId;

use crate::store::pending_groups;

pub use expected::note as expect;
pub use flush::{flush_command, flush_for_readers};
pub use held::hold;
pub use layouts::register;
pub use pending::{insert_next, insert_slot, insert_tuples};

/// A series of insertions into a table is done: what the current subtransaction has collected for
/// it is written.
///
/// Of partitions this is no end: only COPY tells it, and tells it of one of them whenever it fills
/// more than 32 at a time, after as little as one row. Their groups are written when COPY ends
/// ([`after_utility`]), or the transaction, as that of a subscription's initial copy.
pub fn finish_inserts(table: Table<'_>) {
    held::write_table(table.oid());
    if !table.is_partition() {
        flush::flush_relation(table.oid());
    }
}

/// Writes all that a subtransaction has collected, which is about to commit.
pub fn flush_subtransaction(subtransaction: SubTransactionId) {
    held::write_subtransaction(subtransaction);
    flush::flush_subtransaction(subtransaction);
}

/// Writes all that was collected; the transaction is about to commit.
pub fn flush_all() {
    held::write_all();
    flush::flush_all();
}

/// Drops what an aborted subtransaction has collected.
pub fn discard_subtransaction(subtransaction: SubTransactionId) {
    held::discard_subtransaction(subtransaction);
    pending_groups::discard_subtransaction(subtransaction);
}

/// Drops everything: the transaction has ended.
pub fn reset() {
    hot_only::reset();
    held::reset();
    expected::reset();
    commands::reset();
    pending_groups::reset();
    flush::reset();
    layouts::reset();
}

/// A BRIN index of the table is dropped, unless the transaction is rolled back.
pub fn note_dropped_brin(table: Oid) {
    hot_only::note_dropped_brin(table);
}

/// The transaction has made a heap table a howdah table as it is.
pub fn note_adopted(table: Oid) {
    hot_only::note_adopted(table);
}

/// The state before a utility statement runs, to be passed to [`after_utility`].
pub fn before_utility() -> u64 {
    pending_groups::serial_now()
}

/// COPY calls `finish_bulk_insert` only when it inserts in batches; the pending groups of a
/// row-by-row COPY, and those of partitions, are written here, when it ends.
pub fn after_utility(is_copy: bool, before: u64) {
    expected::utility_ends();
    if is_copy {
        flush::flush_since(before);
    }
}
