//! What this backend remembers of cold sides, so that it need not be looked up again.
//!
//! ```text
//!   directory_listings  the places of all entries of a small directory
//!   settled_listings    all entries of a directory that no transaction is changing
//!   settled_entries     entries, and gaps, likewise
//!   hidden_groups       groups of which every row is hidden, and by which transaction last
//!   emptied_tables      tables of whose groups this is true for all
//! ```
//!
//! Each is a [`crate::bounded_cache`]. Each file says what makes its memory void: a higher mark,
//! another version of the directory ([`super::directory_version`]), an older snapshot. What is
//! known of a file that is emptied in place is forgotten by [`forget_file`].

pub(super) mod directory_listings;
pub mod emptied_tables;
pub(super) mod hidden_groups;
pub(super) mod settled_entries;
pub(super) mod settled_listings;

use howdah_bridge::Oid;
use howdah_bridge::store::StoreId;

/// Forgets a table's cold side, `file`, which is emptied in place.
pub(super) fn forget_file(table: Oid, file: StoreId) {
    emptied_tables::forget_table(table);
    directory_listings::forget_file(file);
    settled_listings::forget_file(file);
    settled_entries::forget_file(file);
    hidden_groups::forget_file(file);
}
