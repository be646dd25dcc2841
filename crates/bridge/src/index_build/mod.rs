//! Index builds: heap's loops over the hot rows of a table, with a place for rows of another side.
//!
//! ```text
//!   build      every row that some snapshot may need ──▶ the index AM's callback
//!   validate   the second scan of a concurrent build: rows that the index lacks are inserted
//!   entries    a row's values in an index          roots   the TID that an index has for a hot row
//! ```
//!
//! Heap's own loops cannot be called: `heap_getnext` refuses a relation whose routine is not
//! heap's. The code here mirrors them over `heap_getnextslot`; the rows of the other side are added
//! by [`BuildIndex`] and [`ValidateIndex`].
//!
//! Predicates and expressions are users' code, and so, in effect, is the index AM's check for
//! duplicates: their ERRORs jump over the frames of a build unchanged (see
//! [`crate::ffi::unguarded`]). So nothing here owns memory of Rust's, and implementations of the
//! traits keep what must be dropped in a memory context.

mod build;
mod entries;
mod roots;
mod validate;

pub use build::{Build, BuildIndex, OuterScan, set_build};
pub use entries::{IndexInfo, Indexing};
pub use validate::{ValidateIndex, Validation, set_validate};
