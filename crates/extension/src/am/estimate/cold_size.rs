//! The size of a table's cold side.

/// Rows and bytes of a table's cold side as the latest snapshot sees it, without groups of which no
/// row is left.
#[derive(Clone, Copy, Debug, Default)]
pub struct ColdSize {
    /// Visible rows, approximately.
    pub rows: u64,
    /// Rows of the groups, hidden ones too.
    pub stored_rows: u64,
    pub bytes: u64,
    pub groups: u32,
}
