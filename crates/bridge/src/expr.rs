//! Expression trees of plans, as borrowed values.
//!
//! ```text
//!   Node ── kind ─▶ Kind: a variable, an operand, a function with its arguments, boolean logic, …
//! ```
//!
//! Only expressions that another executor could compute are described; any other is
//! [`Kind::Other`], with the reason. Functions are identified by their `prosrc`, and described only
//! if they are built in, not volatile, strict and written in C.
//!
//! Fields of PostgreSQL's nodes are named one by one ([`kind`]), so that one that a later version
//! adds fails to compile until it is read, or shown to decide nothing.
//!
//! Invariant: a `Node` borrows a tree of the planner or of a finished plan, which outlives it.

mod aggregate;
mod clause;
mod failure;
mod foreign;
mod kind;

use std::ffi::c_int;
use std::marker::PhantomData;

use pgrx::pg_sys;

pub use clause::{Comparison, Form, Meaning, meanings};
pub(crate) use kind::is_restricted;

use crate::names;
use crate::upper::Reason;

/// An expression.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    raw: *mut pg_sys::Node,
    tree: PhantomData<&'a ()>,
}

/// A column of the scanned table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Index of the attribute.
    pub attribute: usize,
    pub type_oid: pg_sys::Oid,
    pub collation: pg_sys::Oid,
}

/// A call of a built-in function, as such, by an operator, or by a cast of a text.
pub struct Call<'a> {
    /// `pg_proc.prosrc`
    pub function: String,
    pub arguments: Vec<Node<'a>>,
    /// Under which text is compared.
    pub collation: pg_sys::Oid,
    /// The result depends on settings of the session, such as its time zone.
    pub is_stable: bool,
}

/// The test of a boolean: `BoolTestType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truth {
    True,
    NotTrue,
    False,
    NotFalse,
    Unknown,
    NotUnknown,
}

/// A built-in aggregate function applied to rows as they come.
pub struct Aggregate<'a> {
    /// Name and argument types, such as `sum(int4)`, `count()`, `count(any)`.
    pub name: String,
    pub argument: Option<Node<'a>>,
    pub filter: Option<Node<'a>>,
    /// Under which text is compared.
    pub collation: pg_sys::Oid,
}

/// What an expression is.
pub enum Kind<'a> {
    Variable(Variable),
    /// The same for every row of a scan: no variables, nothing volatile, no subplans.
    Operand,
    Call(Call<'a>),
    /// `left op ANY (array)`, or ALL.
    AnyAll {
        call: Call<'a>,
        all: bool,
    },
    And(Vec<Node<'a>>),
    Or(Vec<Node<'a>>),
    Not(Node<'a>),
    IsNull(Node<'a>),
    IsNotNull(Node<'a>),
    Is(Node<'a>, Truth),
    Aggregate(Aggregate<'a>),
    Other(Reason),
}

/// The nodes of a list.
///
/// # Safety
/// `list` is a list of expressions that outlives the result.
pub(crate) unsafe fn nodes<'a>(list: *mut pg_sys::List) -> Vec<Node<'a>> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: as for this function: a list of pointers has so many elements. pgrx's iterator calls
    // the server for each, and planning over partitions asks for thousands.
    unsafe {
        let elements = std::slice::from_raw_parts((*list).elements, (*list).length as usize);
        let elements = elements.iter();
        elements
            .map(|element| Node::of(element.ptr_value.cast()))
            .collect()
    }
}

impl<'a> Node<'a> {
    /// # Safety
    /// `raw` is an expression that outlives the result.
    pub(crate) unsafe fn of(raw: *mut pg_sys::Node) -> Node<'a> {
        Node {
            raw,
            tree: PhantomData,
        }
    }

    pub(crate) fn raw(self) -> *mut pg_sys::Node {
        self.raw
    }

    /// The type of the expression.
    pub fn type_oid(self) -> pg_sys::Oid {
        // SAFETY: a valid expression.
        unsafe { pg_sys::exprType(self.raw) }
    }

    /// The type of the elements, if the expression is an array.
    pub fn element_type(self) -> Option<pg_sys::Oid> {
        // SAFETY: a catalog lookup.
        let element = unsafe { pg_sys::get_element_type(self.type_oid()) };
        (element != pg_sys::InvalidOid).then_some(element)
    }

    /// The collation of the expression.
    pub fn collation(self) -> pg_sys::Oid {
        // SAFETY: a valid expression.
        unsafe { pg_sys::exprCollation(self.raw) }
    }

    /// The expression without relabelings, which change no bits.
    pub fn without_relabel(self) -> Node<'a> {
        let mut raw = self.raw;
        // SAFETY: a RelabelType has an argument.
        unsafe {
            while (*raw).type_ == pg_sys::NodeTag::T_RelabelType {
                let pg_sys::RelabelType {
                    arg: argument,
                    // The operators that read the value tell its type and its collation.
                    resulttype: _,
                    resulttypmod: _,
                    resultcollid: _,
                    relabelformat: _,
                    xpr: _,
                    location: _,
                } = *raw.cast::<pg_sys::RelabelType>();
                raw = argument.cast();
            }
            Node::of(raw)
        }
    }

    /// The variables and aggregates in it; those inside of aggregates are not told.
    pub(crate) fn variables_and_aggregates(self) -> Vec<Node<'a>> {
        let flags = pg_sys::PVC_INCLUDE_AGGREGATES
            | pg_sys::PVC_INCLUDE_WINDOWFUNCS
            | pg_sys::PVC_INCLUDE_PLACEHOLDERS;
        // SAFETY: a valid expression; the list is made anew, its nodes are the expression's.
        unsafe { nodes(pg_sys::pull_var_clause(self.raw, flags as c_int)) }
    }

    pub(crate) fn is_aggregate(self) -> bool {
        // SAFETY: a valid expression.
        unsafe { (*self.raw).type_ == pg_sys::NodeTag::T_Aggref }
    }

    /// Whether it is a call of `GROUPING`.
    pub(crate) fn is_grouping(self) -> bool {
        // SAFETY: a valid expression.
        unsafe { (*self.raw).type_ == pg_sys::NodeTag::T_GroupingFunc }
    }

    /// Whether both are the same expression.
    pub fn equals(self, other: Node<'_>) -> bool {
        // SAFETY: two valid trees.
        unsafe { pg_sys::equal(self.raw.cast(), other.raw.cast()) }
    }

    fn is_operand(self) -> bool {
        let flags = pg_sys::PVC_INCLUDE_AGGREGATES
            | pg_sys::PVC_INCLUDE_WINDOWFUNCS
            | pg_sys::PVC_INCLUDE_PLACEHOLDERS;
        // SAFETY: a valid expression.
        unsafe {
            !pg_sys::contain_subplans(self.raw)
                && !pg_sys::contain_volatile_functions(self.raw)
                && pg_sys::pull_var_clause(self.raw, flags as c_int).is_null()
        }
    }
}

/// The name of a type, for messages.
pub(super) fn name_of_type(oid: pg_sys::Oid) -> String {
    // SAFETY: a catalog lookup, which names unknown types too; the text is a copy.
    unsafe { names::shown(pg_sys::format_type_be(oid)) }
}
