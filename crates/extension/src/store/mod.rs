//! The cold side of one table, on top of the key–value store of `bridge`.
//!
//! ```text
//!   id  key (seq)            value
//!   1   first cold block     directory entry of a row group
//!   2   0                    high-water mark of row numbers
//!   3   0                    note of what VACUUM has cleaned
//!   4, 5, 6, 7, 16+          row marks, see [`marks`]
//!   8   0                    note of the last rewrite, see [`rewritten`]
//!   ≥16384                   row groups: footer || body, in pieces
//! ```
//!
//! All but row groups are records of the crate `howdah_records`, which holds their layouts.
//!
//! A row group is one long value: the footer first, then the column chunks. A group is one value
//! and not one value per chunk, because a piece is the unit of I/O anyway, and wide tables do not
//! use up value ids.
//!
//! Life of a row group, and what concurrent transactions see
//! 1. *reserved*: under the allocation lock, an entry in state `Loading` that covers the group's
//!    whole range is inserted, then the high-water mark is advanced past the range. From here on,
//!    index entries may point into the range. Concurrent transactions find the entry of a
//!    transaction in progress: a dirty snapshot waits for that transaction, an MVCC snapshot does
//!    not see the entry.
//! 2. *stored*: the value is written, and the entry is completed in place. The entry becomes valid
//!    or void with its transaction. After an abort or a crash, the entry and the pieces are dead
//!    tuples that VACUUM of the TOAST relation removes, and no entry covers the range: index
//!    entries that point into it are dead.
//! 3. *replaced* by merging or compaction: the transaction that writes the successor deletes the
//!    entry and the pieces. Older snapshots continue to read them.
//!
//! Invariants
//! - A stored group never changes; a change is a new group and the deletion of the old one.
//! - Row numbers are never used again, so an index entry never leads to another row: see [`gaps`].
//! - What a snapshot sees of a group follows from the group's entry and from the marks of its rows;
//!   pieces have no visibility of their own.
//!
//! Locks: the allocation lock is held while a range is reserved, while the unused tail of a range
//! is given back, and while the mark and the entries are read together.

pub mod cache;
mod column_access;
pub mod column_reader;
pub mod coming;
pub mod decoded_size;
pub mod directory;
pub mod directory_version;
pub mod encode;
pub mod encoder;
pub mod gaps;
pub mod group;
pub mod group_access;
pub mod group_bytes;
pub mod group_cache;
pub mod group_name;
mod known_statistics;
mod lanes;
pub mod loads;
pub mod marks;
pub mod open_group;
pub mod pending_groups;
pub mod pending_marks;
pub mod rewritten;
pub mod view;
pub mod visibility;

use howdah_bridge::Oid;
use howdah_bridge::store::{StoreId, VALUE_BYTES};
use howdah_bridge::tid;
pub use howdah_records::row_set;

// Records repeat limits of rooms that they do not know.
const _: () = {
    assert!(howdah_records::MOST_GROUP_ROWS as usize == howdah_columnar::MAX_ROWS);
    assert!(howdah_records::ROW_NUMBER_LIMIT == tid::ROW_NUMBER_LIMIT);
    assert!(howdah_records::ROWS_PER_COLD_BLOCK == tid::ROWS_PER_COLD_BLOCK);
    assert!(howdah_records::MOST_RECORD_BYTES == VALUE_BYTES);
};

/// Discards what this backend remembers of a table's cold side. `file` is the
/// [id](howdah_bridge::store::ColdStore::id) of the table's store, which is being truncated in
/// place: see `am/truncate.rs`.
pub fn forget_file(table: Oid, file: StoreId) {
    cache::forget_file(table, file);
    directory::forget_file(file);
    marks::forget_file(file);
    pending_marks::discard_file(file);
    group_cache::forget_file(file);
    known_statistics::forget_file(file);
}
