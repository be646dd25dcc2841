//! Compaction: hot rows become cold.
//!
//! ```text
//!   launcher ──> worker ──> survey    one transaction per row group:
//!                  └──────┬─> mover    gather ─> encode ─> reserve ─> value, entry ─> indexes
//!   CALL ──> procedure ───┘              no transaction waits for any of this
//!                         │            ─> stamp ─> commit: short
//!                         ├─> merge    small neighbours become one group; a group with many hidden
//!                         │            rows is rewritten
//!                         └─> sweep    deletes marks that are not needed any more
//! ```
//!
//! `gather` copies all-visible pages and reads their rows from the copies. All that takes long is
//! done before the first row is touched: encoding, writing the value, completing the directory
//! entry, and inserting one entry per row into each index (without uniqueness checks, because the
//! rows are in the table already). Only then are the hot tuples stamped as updated to their cold
//! TIDs ([`howdah_bridge::hot::stamp`]), and the transaction commits. A writer that meets a stamped
//! row waits for this short end only.
//!
//! Invariant: each snapshot sees a row on exactly one side. Before the commit, the entry and the
//! stamps belong to a transaction in progress, and an MVCC snapshot sees the hot versions only. A
//! later snapshot sees the stamps' xmax as committed, and the entry: it sees the cold rows only.
//! Both depend on the same transaction.
//! - Checks of constraints use dirty snapshots. They find the hot version (live, or being deleted
//!   by the mover, for which they wait), pass over a cold row whose mover is in progress, and begin
//!   anew where a row has left ([`crate::store::visibility::constraint_checks`]).
//! - Index-only scans: the visibility map covers no cold block, so a row behind a cold entry is
//!   always fetched. Bits of hot pages are cleared before the commit; a scan that saw a bit set has
//!   an older snapshot, which does see the hot row.
//! - An abort, a crash, or giving up half-way leaves dead tuples in the cold store, index entries
//!   into a range that no entry covers (they are dead, and VACUUM removes them), and void stamps.
//!
//! Rows that cannot be moved. Pages are moved as a whole, except for rows with oversized values,
//! which are left out when the page is read. A page that was changed, is pinned, or holds a locked
//! row is left as it is, and its rows are hidden in the group, which is written already: no
//! snapshot sees the group without that. Their index entries are dead. If such rows are a fifth of
//! the group or more, the group is given up and built again without their pages; its index entries
//! are dead at once ([`crate::am`] tells indexes so when they are followed).
//!
//! Locks: ShareUpdateExclusiveLock on the table, for one group at a time. It excludes DDL, VACUUM,
//! CREATE INDEX and other movers, but neither readers nor writers. Between steps the mover looks
//! for waiters, and gives the group up if there are any.
//!
//! Merging replaces two or more neighbouring small groups by one, in one transaction: new row
//! numbers, new index entries; the old entries and values are deleted.

mod born_hidden;
mod first_move;
mod gather;
mod key_order;
mod launcher;
mod left_behind;
mod merge;
mod mover;
mod policy;
mod procedure;
mod progress;
mod shared;
mod survey;
mod sweep;
mod table;
mod task;
mod throttle;
mod vacuum;
mod wal_samples;
mod worker;

pub use shared::SHARED;

/// Defines the settings, asks for shared memory and registers the launcher. Call once, from
/// `_PG_init`.
pub fn register() {
    policy::register();
    launcher::register();
}
