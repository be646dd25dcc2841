//! Why a record could not be read.

use crate::Kind;

/// Why a record could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Its bytes are not those of any record of this kind.
    #[error("a record of kind {kind} is damaged")]
    Damaged {
        /// The kind that was expected.
        kind: Kind,
    },
    /// It is whole, but this reader does not know its version, or a flag of it.
    #[error("a record of kind {kind} was written by a newer version: {version}")]
    Newer {
        /// The kind that was expected.
        kind: Kind,
        /// The version of its layout.
        version: u8,
    },
}
