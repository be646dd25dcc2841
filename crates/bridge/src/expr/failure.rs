//! Expressions whose evaluation may raise an ERROR.

use pgrx::{pg_guard, pg_sys};

use super::Node;
use crate::custom_node::contains;

impl Node<'_> {
    /// Whether evaluating the expression may raise an ERROR that depends on its values. Leakproof
    /// functions raise none; of anything that is not known to raise none, it is assumed.
    pub fn may_fail(self) -> bool {
        // SAFETY: a valid expression; the function follows the tags of its nodes.
        unsafe { contains(self.raw, may_fail) }
    }
}

/// # Safety
/// A node of an expression.
unsafe fn may_fail(node: *mut pg_sys::Node) -> bool {
    use pg_sys::NodeTag as Tag;
    // SAFETY: the cast follows the node's tag; the callback uses no context.
    unsafe {
        match (*node).type_ {
            // A subquery whose result it is may not have been executed.
            Tag::T_Param => {
                (*node.cast::<pg_sys::Param>()).paramkind != pg_sys::ParamKind::PARAM_EXTERN
            }
            Tag::T_Const
            | Tag::T_Var
            | Tag::T_RelabelType
            | Tag::T_BoolExpr
            | Tag::T_NullTest
            | Tag::T_BooleanTest
            | Tag::T_CaseExpr
            | Tag::T_CaseWhen
            | Tag::T_CaseTestExpr
            | Tag::T_CoalesceExpr
            | Tag::T_SQLValueFunction
            | Tag::T_ArrayExpr
            | Tag::T_List => false,
            Tag::T_OpExpr
            | Tag::T_FuncExpr
            | Tag::T_ScalarArrayOpExpr
            | Tag::T_DistinctExpr
            | Tag::T_NullIfExpr => {
                pg_sys::check_functions_in_node(node, Some(is_leaky), std::ptr::null_mut())
            }
            _ => true,
        }
    }
}

/// # Safety
/// To be called by PostgreSQL.
#[pg_guard]
unsafe extern "C-unwind" fn is_leaky(
    function: pg_sys::Oid,
    _context: *mut std::ffi::c_void,
) -> bool {
    // SAFETY: a catalog lookup.
    unsafe { !pg_sys::get_func_leakproof(function) }
}
