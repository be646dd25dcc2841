//! Expressions that PostgreSQL's own executor evaluates for rows of one table, wherever they are
//! read.

use std::ffi::c_int;

use pgrx::{PgList, pg_sys};

use super::Node;
use super::kind::variable;
use crate::upper::Reason;

impl<'a> Node<'a> {
    /// The attributes of the relation `rti` that the expression reads, ascending, if a row of these
    /// is all that it depends on beside parameters, and evaluating it for fewer rows, or in another
    /// order, changes no result: it is not volatile, has no subplan and returns no set.
    ///
    /// # Errors
    ///
    /// The reason why it is otherwise; [`Reason::Expression`] as well if it reads no attribute.
    pub fn foreign_attributes(self, rti: i32) -> Result<Vec<usize>, Reason> {
        let flags = pg_sys::PVC_INCLUDE_AGGREGATES
            | pg_sys::PVC_INCLUDE_WINDOWFUNCS
            | pg_sys::PVC_INCLUDE_PLACEHOLDERS;
        // SAFETY: a valid expression; the list is made anew, its nodes are the expression's. Casts
        // follow the node's tag.
        unsafe {
            let declined = [
                (pg_sys::contain_subplans(self.raw), Reason::Subplan),
                (
                    pg_sys::expression_returns_set(self.raw),
                    Reason::SetReturningFunction,
                ),
                (
                    pg_sys::contain_volatile_functions(self.raw),
                    Reason::Volatile,
                ),
            ];
            if let Some((_, reason)) = declined.into_iter().find(|(holds, _)| *holds) {
                return Err(reason);
            }
            let found = pg_sys::pull_var_clause(self.raw, flags as c_int);
            let attribute = |node: *mut pg_sys::Node| {
                if (*node).type_ != pg_sys::NodeTag::T_Var {
                    return Err(Reason::Expression);
                }
                variable(&*node.cast::<pg_sys::Var>(), rti).map(|variable| variable.attribute)
            };
            let attributes: Result<Vec<usize>, Reason> = PgList::<pg_sys::Node>::from_pg(found)
                .iter_ptr()
                .map(attribute)
                .collect();
            let mut attributes = attributes?;
            attributes.sort_unstable();
            attributes.dedup();
            match attributes.is_empty() {
                true => Err(Reason::Expression),
                false => Ok(attributes),
            }
        }
    }
}
