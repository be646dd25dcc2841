//! Compaction: hot rows become cold.
//!
//! ```text
//!   launcher ──> worker ──> survey          one transaction per row group
//!                  └──────┬─> mover ──> gather ─> encode ─> reserve ─> value ─> entry ─> indexes ─> stamp
//!   CALL ──> procedure ───┘                nobody waits for any of this                    └─ short ─┘
//!                         ├─> merge        small neighbours become one, much hidden groups are rewritten
//!                         └─> sweep        marks that nobody needs go
//! ```
//!
//! `gather` copies all-visible pages and reads their rows from the copies. Everything that takes
//! long happens before the first row is touched: encoding, writing the value, completing the
//! directory entry, one entry per row in each index (without uniqueness checks: the rows are there
//! already). Only then are the hot tuples stamped as updated to their cold TIDs
//! ([`howdah_bridge::hot::stamp`]) and the transaction committed. A writer that meets a stamped row
//! waits for that short end alone.
//!
//! Who sees what. Before the commit the entry and the stamps belong to a running transaction:
//! MVCC snapshots see the hot versions only. A later snapshot sees the stamps' xmax as committed
//! and the entry: the cold rows only. Both hang on the same transaction, so no snapshot sees a
//! row on both sides or on neither.
//! - Unique checks of others use dirty snapshots: they find the hot version (live, or being
//!   deleted by the mover: they wait for it) and a cold index entry (its group was written by a
//!   running transaction: they wait for it, and can read the row before). One of the two is live at
//!   any time.
//! - Index-only scans. The visibility map knows no cold block, so cold entries are always
//!   fetched. Hot bits are cleared before the commit; a scan that saw a bit set has an older
//!   snapshot, to which the hot row is visible indeed.
//! - An abort, a crash or giving up half-way leaves dead tuples in the cold store, index entries
//!   into a range that no entry covers (dead, VACUUM removes them), and voided stamps.
//!
//! Rows that cannot be moved. Pages are moved whole, except for rows with oversized values, which
//! are left out when the page is read. A page that changed, is pinned, or holds a locked row is
//! refused: before stamping, all pages are tried, and if one refuses the group is given up and
//! built again without it. Should a page refuse only after others have been stamped, the group
//! ends there: it is encoded again with the rows stamped so far; index entries behind its end are
//! dead. A sorted group has no such prefix; it is rolled back.
//!
//! Locks: ShareUpdateExclusiveLock on the table for one group at a time (excludes DDL, VACUUM,
//! CREATE INDEX, other movers; lets readers and writers through). Between steps the mover looks
//! for waiters and gives the group up if there are any.
//!
//! Merging replaces two or more neighbouring small groups by one, in one transaction: new row
//! numbers, new index entries, old entries and values deleted.

mod first_move;
mod gather;
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
mod throttle;
mod vacuum;
mod worker;

pub use shared::SHARED;

/// Defines the settings, asks for shared memory and registers the launcher. Call once, from
/// `_PG_init`.
pub fn register() {
    policy::register();
    launcher::register();
}
