//! Encoding rows on the backend's main thread, where an interrupt ends it.

use howdah_bridge::spare_memory;
use howdah_bridge::upper::statement_ends;
use howdah_columnar::{ColumnarError, EncodeOptions, EncodedRowGroup, RowGroupBuilder};

/// Sets memory aside for what encoding the rows takes between two of its looks at whether it is to
/// stop: a column in other forms.
pub fn set_aside_for(rows: &RowGroupBuilder) {
    spare_memory::set_aside(2 * rows.raw_bytes());
}

/// Encodes the rows. A pending interrupt is served soon.
///
/// # Errors
/// Those of [`RowGroupBuilder::encode`].
pub fn encode(
    rows: &RowGroupBuilder,
    options: &EncodeOptions,
) -> Result<EncodedRowGroup, ColumnarError> {
    set_aside_for(rows);
    let encoded = match rows.encode_unless(options, &statement_ends) {
        Err(ColumnarError::Stopped) => {
            howdah_bridge::check_for_interrupts!();
            // It raised no ERROR after all.
            rows.encode(options)
        }
        other => other,
    };
    howdah_bridge::check_for_interrupts!();
    encoded
}
