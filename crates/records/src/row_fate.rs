//! The fate of a row: what a mark, or an update link, says of it.

/// A place of a row as PostgreSQL writes it: a block and an offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The block.
    pub block: u32,
    /// The offset, counted from 1.
    pub offset: u16,
}

/// The change of a row that a record holds, with the place of the new version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowFate<P = Place> {
    /// There is no new version.
    Deleted,
    /// There is a new version in the same table.
    Updated {
        /// Where the new version is.
        to: P,
        /// Every column that a foreign key may refer to has its old value.
        keeps_key: bool,
    },
    /// The new version is in another partition.
    MovedPartitions,
}

impl<P> RowFate<P> {
    /// The same with the place in another form.
    #[inline]
    pub fn map<Q>(self, form: impl FnOnce(P) -> Q) -> RowFate<Q> {
        match self {
            RowFate::Deleted => RowFate::Deleted,
            RowFate::Updated { to, keeps_key } => RowFate::Updated {
                to: form(to),
                keeps_key,
            },
            RowFate::MovedPartitions => RowFate::MovedPartitions,
        }
    }
}
