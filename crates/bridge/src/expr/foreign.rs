//! Expressions that PostgreSQL's own executor evaluates for rows of one table, wherever they are
//! read.

use std::ffi::c_int;

use pgrx::{PgList, pg_sys};

use super::Node;

impl<'a> Node<'a> {
    /// The attributes of the relation `rti` that the expression reads, ascending, if a row of these
    /// is all that it depends on beside parameters, and evaluating it for fewer rows, or in another
    /// order, changes no result: it is not volatile, has no subplan and returns no set. `None`
    /// otherwise, and if it reads no attribute.
    pub fn foreign_attributes(self, rti: i32) -> Option<Vec<usize>> {
        let flags = pg_sys::PVC_INCLUDE_AGGREGATES
            | pg_sys::PVC_INCLUDE_WINDOWFUNCS
            | pg_sys::PVC_INCLUDE_PLACEHOLDERS;
        // SAFETY: a valid expression; the list is made anew, its nodes are the expression's. Casts
        // follow the node's tag.
        unsafe {
            if pg_sys::contain_subplans(self.raw)
                || pg_sys::expression_returns_set(self.raw)
                || pg_sys::contain_volatile_functions(self.raw)
            {
                return None;
            }
            let found = pg_sys::pull_var_clause(self.raw, flags as c_int);
            let attribute = |node: *mut pg_sys::Node| {
                if (*node).type_ != pg_sys::NodeTag::T_Var {
                    return None;
                }
                let var = &*node.cast::<pg_sys::Var>();
                let is_of_relation = var.varno == rti && var.varlevelsup == 0;
                // Not a system column, nor a whole row.
                let attribute = usize::try_from(i32::from(var.varattno) - 1).ok()?;
                is_of_relation.then_some(attribute)
            };
            let attributes: Option<Vec<usize>> = PgList::<pg_sys::Node>::from_pg(found)
                .iter_ptr()
                .map(attribute)
                .collect();
            let mut attributes = attributes.filter(|attributes| !attributes.is_empty())?;
            attributes.sort_unstable();
            attributes.dedup();
            Some(attributes)
        }
    }
}
