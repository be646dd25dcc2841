//! The ERROR about stored bytes that are not what was written.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// Raises it: `message` names the table, and what is damaged.
#[cold]
pub fn raise(message: String) -> ! {
    let code = PgSqlErrorCode::ERRCODE_DATA_CORRUPTED;
    ErrorReport::new(code, message, "howdah")
        .set_hint("Restore the table from a backup or read what is left of it from a standby.")
        .report(PgLogLevel::ERROR);
    unreachable!("an ERROR does not return")
}
