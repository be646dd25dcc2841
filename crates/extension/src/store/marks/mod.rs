//! Marks: the changes of cold rows since their group was written.
//!
//! ```text
//!   id  16 + n / 2^31, seq n mod 2^31   mark of row n: deleted, updated to a TID or partition
//!   id 512 + n / 2^31, seq n mod 2^31   rows of a block that were deleted, of which n is the first
//!   id  4, seq group + 64 k             deletion vector of the k-th 16,384 rows of a group
//!   id  6, seq group + 64 k + i         update links of rows that such a vector hides
//!   id  5, seq group                    where the rows of a merged group went
//!   id  7, seq group + i                recent inserts: rows younger than their group
//! ```
//!
//! A mark is an ordinary MVCC tuple of its writer's transaction. A snapshot that does not see the
//! mark still sees the row; if the writer aborts, the mark is void. What a snapshot sees of a row
//! is asked at [`super::visibility`]; what is in force now, and so forbids another change, at
//! [`row_state`] and [`marked_rows`].
//!
//! Invariants
//! - At most one valid mark per row. A writer holds the lock on the row, or on its whole group, and
//!   has looked for a mark under that lock. If it finds a mark of a transaction in progress, it
//!   waits for that transaction.
//! - A committed mark is never taken back. VACUUM may fold a mark that every snapshot sees into a
//!   deletion vector.
//! - A group's flag ([`GroupFlags`]) is set before the first mark of the group is written, hence
//!   before any snapshot can see that mark. So reading groups without marks costs nothing. For rows
//!   without a mark in other groups it costs little: see [`mark_filter`].
//!
//! A deletion vector holds rows hidden in bulk, and rows whose marks were folded. Only a holder of
//! the lock on the whole group writes it. A transaction that hides more rows replaces the deletion
//! vector (MVCC); where the rows are dead anyway, the deletion vector is changed in place. Its
//! second half tells for which rows no index has an entry any more.
//!
//! Modules of this folder, and the rest of `store`, use each other by their own names; the names
//! below are for the rooms above.
//!
//! [`GroupFlags`]: super::directory::GroupFlags

use howdah_bridge::store::StoreId;

pub(in crate::store) mod block_deletions;
mod bulk;
pub mod dead_rows;
pub(in crate::store) mod deletion_vector;
pub(in crate::store) mod forward;
mod group_name;
pub(in crate::store) mod hidden_parts;
mod hiders;
mod index_deletion;
pub(in crate::store) mod mark;
pub mod mark_filter;
pub(in crate::store) mod marked_rows;
pub(in crate::store) mod recent_inserts;
mod rewrite_copy;
mod row_keys;
pub(in crate::store) mod row_mark;
pub(in crate::store) mod row_state;
mod sweep_scan;
pub(in crate::store) mod tuple_visibility;
mod update_links;
mod write;

pub use block_deletions::{announce_block_deletions, delete_by_block};
pub use bulk::hide_in_bulk;
pub use deletion_vector::{announce_deletion_vectors, cleaned, fold};
pub use forward::{Route, forward, forwarded};
pub use hidden_parts::HiddenParts;
pub use hiders::last_hider;
pub use index_deletion::DeadSearch;
pub use mark::{Mark, RowFate};
pub use marked_rows::{arriving_in, folded, hidden_now, learn_hidden};
pub use recent_inserts::{RecentInserts, insert_recent, recent_inserts};
pub use rewrite_copy::RewriteCopy;
pub use row_state::{RowState, of_dropped_row, of_row, state_of_row};
pub use sweep_scan::{Sweepable, for_each_sweepable};
pub use write::write;

/// Discards what is known in shared memory of a file that is truncated in place.
pub fn forget_file(file: StoreId) {
    mark_filter::forget_file(file);
    dead_rows::forget_file(file);
}

/// Discards all of that: names of files may be used again.
pub fn forget() {
    mark_filter::forget();
    dead_rows::forget();
}
