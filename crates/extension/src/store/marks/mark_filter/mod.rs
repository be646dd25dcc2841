//! Rows that are known to have no mark, neither one of their own nor in a deletion vector: one bit
//! per row, in shared memory.
//!
//! Most rows of a group with marks have none. Each of them that is read by index would be looked up
//! in the store's index, which takes longer than the rest of the read. This cache remembers which
//! rows may have a mark. It answers "no mark", or it does not answer.
//!
//! ```text
//!   slot   free ─assigned─> building ─all marks read─> valid ─older than an hour, or needed─> free
//!   bits   one per row, set for every mark in the store, of any transaction, dead ones included
//! ```
//!
//! Invariant: when a slot is valid, every mark that is completely written has its bit. A writer of
//! a mark, or of a deletion vector of marks, sets the bits before and after the mark enters the
//! store. A builder publishes the slot as `building` with all bits clear, and reads marks and
//! deletion vectors afterwards. So a mark is either in the index before the builder reads it, or
//! its writer meets the slot when it sets the bit for the second time.
//!
//! A mark that is being written may lack its bit. Its transaction is in progress, and the answer
//! "no mark" is one that the reader could also have got a moment earlier. That is correct for each
//! kind of reader:
//! - an MVCC snapshot does not see the mark;
//! - a backend that has locked the row keeps the writer out;
//! - a check of uniqueness, which waits for writers, counts as earlier than this writer;
//! - a serializable transaction takes its SIREAD lock before it looks here, and the writer looks
//!   for such locks after it has set the bit.
//!
//! Bits are never cleared: VACUUM may remove marks, and a look-up in vain only costs time. Row
//! numbers are not used again, but names of files are, four billion objects later, or when a
//! database is created again from a template under the same OID. Hence the limit of an hour, and
//! [`forget`] for statements on databases. On a standby, marks arrive by WAL replay, which sets no
//! bits: no slot is built there. A crash empties shared memory.
//!
//! [`slots`] is the shared memory, [`note`] what writers of marks do, [`ask`] what readers ask.

pub(in crate::store) mod ask;
pub(in crate::store) mod note;
mod slots;

pub use note::{forget, forget_file};
pub use slots::MARK_FILTER;
