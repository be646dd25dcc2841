//! Bulk loads: rows that are collected in memory for a row group.
//!
//! ```text
//!   statement's rows 1..threshold      -> heap (hot)
//!   rows past the threshold            -> PendingGroup (memory)
//!                                         --full / statement end--> row group
//! ```
//!
//! The files in the order of a row: `threshold` (does it go cold?), `layouts`, `pending` (it is
//! added to a group), `flush` (the group is written).
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
//! statement ends (ExecutorFinish before AFTER triggers fire, finish_bulk_insert, end of COPY); and
//! when its subtransaction or transaction is about to commit or prepare. An abort drops it.
//!
//! The groups themselves are kept in [`pending_groups`], where readers find them; the ends of
//! transactions and statements are told to this room by `transaction.rs`.
//!
//! Rows come from `tuple_insert` and `multi_insert`. Of a plain INSERT they come straight from its
//! plan once the command fills a group (`howdah_bridge::plain_insert`, `am/plain_insert.rs`): row
//! by row, or the tuples of a heap page column by column.
//!
//! Bounds: all pending groups of a backend together hold at most `howdah.load_memory`; past
//! that the largest is written. A load waits for the thread when the rows that it has added
//! meanwhile take half of `howdah.row_group_bytes`.

mod flush;
mod hot_only;
mod layouts;
mod pending;
mod threshold;

use crate::store::pending_groups;

pub use flush::{flush_all, flush_command, flush_relation, flush_subtransaction};
pub use layouts::register;
pub use pending::{insert_next, insert_slot, insert_tuples};

/// Drops everything: the transaction has ended.
pub fn reset() {
    pending_groups::reset();
    flush::reset();
    threshold::reset();
    layouts::reset();
}

/// The state before a utility statement runs, to be passed to [`after_utility`].
pub fn before_utility() -> u64 {
    pending_groups::serial_now()
}

/// COPY calls `finish_bulk_insert` only when it inserts in batches; the pending groups of a
/// row-by-row COPY are written here, when it ends.
pub fn after_utility(is_copy: bool, before: u64) {
    if is_copy {
        flush::flush_since(before);
    }
}
