//! The door to the question whether a snapshot sees a cold row.
//!
//! ```text
//!   by row      sees_row, sees_row_somewhere      from the directory on
//!               hidden_row                        of a group that is known to be visible
//!               is_surely_shown, is_surely_hidden   without a look at the store, where possible
//!   by range    hidden_range                      rows beside each other
//!               surely_shown_from                 without a look at the store, where possible
//!   by group    rows_not_seen, hidden_group       all rows of a group
//!               count_hidden                      about how many, for the planner
//!   by status   group_status, row_status          as HeapTupleSatisfiesVacuum, for maintenance
//! ```
//!
//! A snapshot sees a row if it sees the directory entry of the row's group, if no record of the
//! group hides the row from it ([`rule`], applied by [`hidden`]), and if this transaction has not
//! changed the row at another place, to which the row was moved since ([`moved`],
//! [`moved_changes`]). The answers by row, by range and by group agree.
//!
//! A check of a constraint, which asks by a dirty snapshot, and a mover pass each other by rules of
//! their own ([`constraint_checks`]).
//!
//! A holder of a row's lock asks another question, what is in force now, at
//! [`marks`](super::marks). Which groups a scan reads is [`super::view`].
//!
//! Modules of `store` use those of this folder by their own names; the names below are for the
//! rooms above.

pub mod constraint_checks;
mod count;
pub(in crate::store) mod group;
pub mod group_status;
pub(in crate::store) mod hidden;
pub mod last_change;
pub mod moved;
pub mod moved_changes;
mod row;
pub(in crate::store) mod row_status;
mod rule;

pub use count::count_hidden;
pub use group::rows_not_seen;
pub use hidden::{
    Hidden, hidden_group, hidden_range, hidden_row, hidden_rows, hides_row, is_all_hidden,
    is_surely_shown, may_be_hidden, note_unseen_changes, surely_shown_from,
};
pub use row::{is_surely_hidden, sees_row, sees_row_somewhere};
pub use row_status::{RowStatus, row_status};
