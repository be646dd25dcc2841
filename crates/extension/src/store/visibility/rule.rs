//! The rule by which the records of a group hide its rows from a snapshot.
//!
//! ```text
//!   snapshot of every tuple ──> nothing is hidden
//!   in memory               ──> hidden for now, from later commands     (pending_marks)
//!   a mark, else a bit in a deletion vector, that the snapshot sees
//!                           ──> hidden by its transaction, for good     (marks)
//!   MVCC, a list of recent inserts that the snapshot sees
//!                           ──> hidden for now                          (marks::recent_inserts)
//! ```
//!
//! The rule is written down here for one row, for a range and for a whole group, over [`Records`]:
//! so the three answers are compared without a server, for any records, in this file's tests. What
//! a snapshot sees of a record is the reader's knowledge ([`super::hidden`]).

use std::ops::Range;

use howdah_bridge::xid::{CommandId, Xid};

use crate::store::row_set::RowSet;

/// Whether a row is hidden from a snapshot, and by which transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hidden {
    No,
    /// By a transaction, our own or a committed one: hidden from every later snapshot, too.
    By(Xid),
    /// In memory only, or because the row is younger than the snapshot.
    ForNow,
}

/// How a snapshot judges the records of a group that it sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// It sees every tuple, and so every row: no record hides any.
    Everything,
    /// An MVCC snapshot; of our own transaction it sees commands before this one.
    Until(CommandId),
    /// It sees what is in force: all of our own transaction, and what is committed.
    Now,
}

impl Sight {
    /// Whether a row that a command of our own has hidden in memory is hidden.
    fn sees(self, command: CommandId) -> bool {
        match self {
            Sight::Everything => false,
            Sight::Until(curcid) => command < curcid,
            Sight::Now => true,
        }
    }

    fn is_mvcc(self) -> bool {
        matches!(self, Sight::Until(_))
    }
}

/// What the flags of a group say of its records: what they deny need not be looked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kinds {
    pub marks: bool,
    pub vectors: bool,
    pub recent: bool,
}

impl Kinds {
    fn are_none(self) -> bool {
        !(self.marks || self.vectors || self.recent)
    }
}

/// The records of one group. Those of `marks` and `vectors` are only the ones that the snapshot
/// sees; each comes with the transaction that wrote it.
pub trait Records {
    type Error;

    fn sight(&self) -> Sight;
    fn kinds(&self) -> Kinds;
    /// Row numbers reserved for the group: a bound of the positions.
    fn capacity(&self) -> u32;
    /// Rows of the group.
    fn row_count(&self) -> u32;

    /// Whether anything at all is hidden in memory, of this group or of another.
    fn any_in_memory(&self) -> bool;
    /// The command of our own that has hidden the row in memory.
    fn in_memory(&self, position: u32) -> Option<CommandId>;
    /// Calls `hide` for each row that is hidden in memory among those at the positions.
    fn among_in_memory(&self, positions: Range<u32>, hide: &mut dyn FnMut(u32, CommandId));

    /// Whether a mark of the row, of its own or in a deletion vector, must be looked for: `false`
    /// only if there is none, of any transaction.
    fn may_be_marked(&self, position: u32) -> bool;
    fn mark(&self, position: u32) -> Result<Option<Xid>, Self::Error>;
    /// Calls `hide` for each marked row among those at the positions.
    fn marks(
        &self,
        positions: Range<u32>,
        hide: &mut dyn FnMut(u32, Xid),
    ) -> Result<(), Self::Error>;

    fn vector(&self, position: u32) -> Result<Option<Xid>, Self::Error>;
    /// Calls `hide` for each row in a deletion vector among those at the positions.
    fn in_vectors(
        &self,
        positions: Range<u32>,
        hide: &mut dyn FnMut(u32, Xid),
    ) -> Result<(), Self::Error>;
    /// Adds the rows of all deletion vectors, and calls `by` for the writer of each.
    fn vectors(&self, rows: &mut RowSet, by: &mut dyn FnMut(Xid)) -> Result<(), Self::Error>;

    /// Whether the row was inserted by a transaction that the snapshot does not see.
    fn is_unseen(&self, position: u32) -> Result<bool, Self::Error>;
    fn all_unseen(&self, rows: &mut RowSet) -> Result<(), Self::Error>;
}

/// Rows that are hidden, by position; and how, which is the same for all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenRows {
    pub rows: RowSet,
    /// If by transactions, the youngest of those that hid any of them.
    pub how: Hidden,
    /// If marks and deletion vectors alone hide every row of the group: the youngest transaction
    /// that wrote one of them.
    pub all_by: Option<Xid>,
}

/// Whether and how a row is hidden.
///
/// # Errors
/// Those of the records.
#[inline]
pub fn of_row<R: Records>(records: &R, position: u32) -> Result<Hidden, R::Error> {
    let (sight, kinds) = (records.sight(), records.kinds());
    if kinds.are_none() || sight == Sight::Everything {
        return Ok(Hidden::No);
    }
    if records
        .in_memory(position)
        .is_some_and(|command| sight.sees(command))
    {
        return Ok(Hidden::ForNow);
    }
    if (kinds.marks || kinds.vectors) && records.may_be_marked(position) {
        let mut by = None;
        if kinds.marks {
            by = records.mark(position)?;
        }
        if by.is_none() && kinds.vectors {
            by = records.vector(position)?;
        }
        if let Some(by) = by {
            return Ok(Hidden::By(by));
        }
    }
    if sight.is_mvcc() && kinds.recent && records.is_unseen(position)? {
        return Ok(Hidden::ForNow);
    }
    Ok(Hidden::No)
}

/// The hidden rows among those beside each other, by position counted from the first of them.
/// `None` where some may be younger than the snapshot: ask for the whole group then.
///
/// # Errors
/// Those of the records.
pub fn of_range<R: Records>(
    records: &R,
    positions: Range<u32>,
) -> Result<Option<HiddenRows>, R::Error> {
    let (sight, kinds) = (records.sight(), records.kinds());
    if kinds.recent {
        return Ok(None);
    }
    let mut rows = RowSet::with_bound(positions.len() as u32);
    let mut youngest = Xid::FROZEN;
    let start = positions.start;
    let mut hide = |position, by| {
        rows.insert(position - start);
        youngest = youngest.younger(by);
    };
    let sees_records = sight != Sight::Everything;
    if kinds.marks && sees_records {
        records.marks(positions.clone(), &mut hide)?;
    }
    if kinds.vectors && sees_records {
        records.in_vectors(positions.clone(), &mut hide)?;
    }
    let mut how = Hidden::By(youngest);
    if records.any_in_memory() {
        records.among_in_memory(positions, &mut |position, command| {
            if sight.sees(command) {
                how = Hidden::ForNow;
                rows.insert(position - start);
            }
        });
    }
    let all_by = None;
    Ok(Some(HiddenRows { rows, how, all_by }))
}

/// The hidden rows of the group, if any are. If [`Hidden::By`] a transaction, all of them are
/// hidden by that one or by older ones, and from every later snapshot.
///
/// # Errors
/// Those of the records.
pub fn of_group<R: Records>(records: &R) -> Result<Option<HiddenRows>, R::Error> {
    let (sight, kinds) = (records.sight(), records.kinds());
    if kinds.are_none() || sight == Sight::Everything {
        return Ok(None);
    }
    let mut rows = RowSet::with_bound(records.capacity());
    let mut youngest = Xid::FROZEN;
    if kinds.marks {
        records.marks(0..records.capacity(), &mut |position, by| {
            rows.insert(position);
            youngest = youngest.younger(by);
        })?;
    }
    if kinds.vectors {
        let mut by = |xid| youngest = youngest.younger(xid);
        records.vectors(&mut rows, &mut by)?;
    }
    let all_by = (rows.len() == records.row_count()).then_some(youngest);
    let mut how = Hidden::By(youngest);
    if records.any_in_memory() {
        how = Hidden::ForNow;
        let all = 0..records.capacity();
        records.among_in_memory(all, &mut |position, command| {
            if sight.sees(command) {
                rows.insert(position);
            }
        });
    }
    if sight.is_mvcc() && kinds.recent {
        how = Hidden::ForNow;
        records.all_unseen(&mut rows)?;
    }
    Ok((!rows.is_empty()).then_some(HiddenRows { rows, how, all_by }))
}

#[cfg(test)]
mod tests;
