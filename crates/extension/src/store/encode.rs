//! Encoding rows on the backend's main thread, where an interrupt ends it.

use howdah_bridge::upper::statement_ends;
use howdah_columnar::{ColumnarError, EncodeOptions, EncodedRowGroup, RowGroupBuilder};

/// Encodes the rows. A pending interrupt is served soon.
///
/// # Errors
/// Those of [`RowGroupBuilder::encode`].
pub fn encode(
    rows: &RowGroupBuilder,
    options: &EncodeOptions,
) -> Result<EncodedRowGroup, ColumnarError> {
    let encoded = match rows.encode_unless(options, &statement_ends) {
        Err(ColumnarError::Stopped) => {
            pgrx::check_for_interrupts!();
            // It raised no ERROR after all.
            rows.encode(options)
        }
        other => other,
    };
    pgrx::check_for_interrupts!();
    encoded
}
