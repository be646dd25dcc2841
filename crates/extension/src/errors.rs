//! The one place where typed errors become PostgreSQL errors.

use howdah_bridge::store::StoreError;
use howdah_bridge::tid::GroupId;
use howdah_bridge::{ErrorReport, Oid, damage, names};
use howdah_columnar::{ColumnarError, FORMAT_VERSION};
use howdah_records::RecordError;
use pgrx::PgSqlErrorCode;

/// What can go wrong between a table and its cold side.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColdError {
    #[error(transparent)]
    Columnar(#[from] ColumnarError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("directory entry of row group {group} is damaged")]
    DamagedDirectory { group: GroupId },
    #[error("a mark on a row of row group {group} is damaged")]
    DamagedMark { group: GroupId },
    #[error("a record of row group {group} has version {version} of kind {kind}")]
    NewerRecord {
        group: GroupId,
        kind: howdah_records::Kind,
        version: u8,
    },
    #[error("row group {group} describes {footer} rows, its directory entry {directory}")]
    RowCountMismatch {
        group: GroupId,
        footer: usize,
        directory: u32,
    },
    #[error("a text is not valid in the database's encoding")]
    InvalidText,
    #[error("the table has no cold store")]
    NoColdStore,
    #[error("the table has used up its {limit} cold row numbers")]
    OutOfRowNumbers { limit: u64 },
}

impl ColdError {
    /// A directory entry of a group, or the high-water mark, that could not be read.
    pub fn of_entry(group: GroupId, error: RecordError) -> ColdError {
        match error {
            RecordError::Newer { kind, version } => ColdError::NewerRecord {
                group,
                kind,
                version,
            },
            _ => ColdError::DamagedDirectory { group },
        }
    }

    /// A record of changes of a group's rows that could not be read.
    pub fn of_mark(group: GroupId, error: RecordError) -> ColdError {
        match ColdError::of_entry(group, error) {
            ColdError::DamagedDirectory { group } => ColdError::DamagedMark { group },
            newer => newer,
        }
    }

    /// Whether a newer version of Howdah wrote what could not be read.
    pub fn is_of_newer_version(&self) -> bool {
        match self {
            ColdError::NewerRecord { .. } | ColdError::Columnar(ColumnarError::Newer { .. }) => {
                true
            }
            // Versions before the known one were never released.
            ColdError::Columnar(ColumnarError::UnsupportedVersion { version }) => {
                *version > FORMAT_VERSION
            }
            _ => false,
        }
    }

    /// Whether a piece of a value is not there: damage, unless the value is no longer needed
    /// (see [`crate::store::visibility::group_status`]).
    pub fn is_missing_piece(&self) -> bool {
        matches!(self, ColdError::Store(StoreError::MissingPiece { .. }))
    }
}

/// Raises `error` as a PostgreSQL ERROR about `table`.
pub fn raise(table: Oid, error: &ColdError) -> ! {
    let name = match names::relation(table) {
        Some(name) => format!("\"{name}\""),
        None => format!("with OID {}", table.to_u32()),
    };
    match error {
        ColdError::OutOfRowNumbers { .. } => refuse(
            PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("cannot add cold rows to table {name}: {error}"),
            Some("Rewrite the table with VACUUM FULL to number its rows anew.".into()),
        ),
        ColdError::Columnar(ColumnarError::TooLarge { .. }) => refuse(
            PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("cannot write cold rows of table {name}: {error}"),
            Some(
                "A column that was added with a long default is written for each row when the \
                 table is rewritten. Change the table to heap first, with howdah.release()."
                    .into(),
            ),
        ),
        error if error.is_of_newer_version() => refuse(
            PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("could not read cold rows of table {name}: {error}"),
            Some(
                "A newer version of howdah wrote it. Install that version, or a later one.".into(),
            ),
        ),
        _ => damage::raise(format!("could not read cold rows of table {name}: {error}")),
    }
}

/// Unwraps or raises.
pub fn or_raise<T, E: Into<ColdError>>(table: Oid, result: Result<T, E>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => raise(table, &error.into()),
    }
}

/// Refuses a statement: an ERROR with a hint that says what to do instead.
pub fn refuse(code: PgSqlErrorCode, message: String, hint: Option<String>) -> ! {
    let report = ErrorReport::new(code, message, "howdah");
    match hint {
        Some(hint) => report.set_hint(hint),
        None => report,
    }
    .report(pgrx::PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}

/// Tells the client something that is no error.
pub fn notice(message: String, hint: &str) {
    ErrorReport::new(
        PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
        message,
        pgrx::function_name!(),
    )
    .set_hint(hint)
    .report(pgrx::PgLogLevel::NOTICE);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_are_told_from_damage() {
        let of_columns = |error| ColdError::Columnar(error).is_of_newer_version();
        let unsupported = |version| ColumnarError::UnsupportedVersion { version };
        assert!(of_columns(unsupported(FORMAT_VERSION + 1)));
        assert!(!of_columns(unsupported(FORMAT_VERSION - 1)));
        let (what, number) = ("encoding", 99);
        assert!(of_columns(ColumnarError::Newer { what, number }));
        let detail = "a length".to_owned();
        assert!(!of_columns(ColumnarError::Corrupt { detail }));
        assert!(!ColdError::InvalidText.is_of_newer_version());
    }
}
