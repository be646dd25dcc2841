//! The records of the cold store as bytes: everything that its tuples hold but for the pieces of
//! row groups.
//!
//! ```text
//!   record   kind (1)  version (1)  fields of that kind and version  check (4)
//!            └──────────────── the check is of these bytes ────────┘
//!
//!   kind                         says of                                 changed in place
//!    1 GroupEntry                a row group: rows, bytes, flags         yes
//!    2 HighWater                 the row numbers that were ever used     yes
//!    3 CleanedGaps               what VACUUM has cleaned                 yes
//!    4 DeletionVector            16,384 rows: hidden, cleaned            yes
//!    5 Forward, 9 ForwardTable   where the rows of a merged group went   no
//!    6 UpdateLinks               the new versions of hidden rows         no
//!    7 RecentInserts             rows younger than their group           no
//!    8 RewriteNote               that the table was rewritten            no
//!   10 BlockDeletions            rows beside each other: deleted         no
//!   16 RowMark                   one row: deleted, updated, to a partition no
//! ```
//!
//! Each kind has one file, which holds its layout and nothing else. `docs/format.md` specifies the
//! bytes and how they may change. This crate knows neither PostgreSQL nor row groups: keys,
//! visibility and locks of records are the store's business.
//!
//! Invariants
//! - A record is verified before a field of it is interpreted. A byte that was changed, a record
//!   that was cut, one of another kind, and values that no writer writes are errors.
//! - The frame (kind, version, check) is the same in all versions, so a record of a newer version
//!   is told from a damaged one.
//! - A record that is changed in place keeps its length, and therefore its version.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod block_deletions;
mod cleaned_gaps;
mod deletion_vector;
mod error;
mod forward;
mod frame;
mod group_entry;
mod high_water;
mod kind;
mod recent_inserts;
mod rewrite_note;
mod row_fate;
mod row_mark;
pub mod row_set;
mod update_links;

pub use block_deletions::BlockDeletions;
pub use cleaned_gaps::{CleanedGaps, fingerprint_of};
pub use deletion_vector::{DeletionVector, EditedVector, ROWS_PER_VECTOR};
pub use error::RecordError;
pub use forward::{Forward, ForwardTable, Order, StoredTable};
pub use frame::ShortRecord;
pub use group_entry::{GroupEntry, GroupFlags, GroupState};
pub use high_water::HighWater;
pub use kind::Kind;
pub use recent_inserts::{POSITIONS_PER_LIST, RecentInserts};
pub use rewrite_note::RewriteNote;
pub use row_fate::{Place, RowFate};
pub use row_mark::RowMark;
pub use row_set::RowSet;
pub use update_links::{UpdateLinks, UpdateLinksBuilder};

/// A row group has at most this many rows.
pub const MOST_GROUP_ROWS: u32 = 131_072;
/// Row numbers are below this.
pub const ROW_NUMBER_LIMIT: u64 = 0x7FFF_FFFF << 8;
/// A row group is named by its first cold block: the number of its first row divided by this.
pub const ROWS_PER_COLD_BLOCK: u64 = 256;
/// A record that is one tuple has at most this many bytes.
pub const MOST_RECORD_BYTES: usize = 8_100;
