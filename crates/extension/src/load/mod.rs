//! Bulk loads: rows on their way to a row group.
//!
//! ```text
//!   statement's rows 1..threshold      -> heap (hot)
//!   rows past the threshold            -> PendingGroup (memory) --full / statement end--> row group
//! ```
//!
//! A pending group belongs to one relation file, one subtransaction and one command. Its range
//! of row numbers is reserved before its first row gets its TID, so index entries can be made
//! as usual while the rows are still in memory.
//!
//! Who sees pending rows: this backend's own readers, from memory ([`visible_pending`],
//! [`pending_row`]), by the rule of heap's cmin: MVCC snapshots taken by a later command, and
//! all dirty/self/any snapshots. Reading never writes a group early, because a reader may run
//! in a subtransaction whose abort must not take the outer load's rows with it. Other backends
//! see the reservation of a running transaction, see [`crate::store`].
//!
//! When a group is written: full (rows, or raw bytes past `howdah.row_group_bytes`); its
//! statement ends (ExecutorFinish before AFTER triggers fire, finish_bulk_insert, end of COPY);
//! its subtransaction or transaction is about to commit or prepare. An abort drops it.
//!
//! Bounds: all pending groups of a backend together hold at most `howdah.load_memory`; past
//! that the largest is written.

mod pending;
mod xact;

pub use pending::{
    PendingGroup, discard_file, flush_relation, has_pending, insert_slot, note_marked, pending_row,
    visible_pending,
};
pub use xact::{after_utility, before_utility, register};
