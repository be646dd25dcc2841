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
//! Invariant: a `Node` borrows a tree of the planner or of a finished plan, which outlives it.

mod clause;
mod failure;
mod foreign;

use std::ffi::{CStr, c_int};
use std::marker::PhantomData;

use pgrx::{PgList, pg_sys};

pub use clause::{Comparison, Form, Meaning, meanings};

use crate::builtin::types;
use crate::upper::Reason;

/// `INTERNALlanguageId` of `catalog/pg_language_d.h`
const INTERNAL_LANGUAGE: u32 = 12;
/// `AGGKIND_NORMAL` of `catalog/pg_aggregate_d.h`
const NORMAL_AGGREGATE: std::ffi::c_char = b'n' as std::ffi::c_char;

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
                raw = (*raw.cast::<pg_sys::RelabelType>()).arg.cast();
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

    /// Its kind. Variables of the relation `rti` are described; with any other variable it is
    /// [`Kind::Other`].
    pub fn kind(self, rti: i32) -> Kind<'a> {
        let node = self.without_relabel();
        let raw = node.raw;
        // SAFETY: casts follow the node's tag; lists are lists of expressions.
        unsafe {
            match (*raw).type_ {
                pg_sys::NodeTag::T_Var => {
                    let var = &*raw.cast::<pg_sys::Var>();
                    match usize::try_from(i32::from(var.varattno) - 1) {
                        _ if var.varno != rti || var.varlevelsup != 0 => {
                            Kind::Other(Reason::Expression)
                        }
                        Ok(attribute) => Kind::Variable(Variable {
                            attribute,
                            type_oid: var.vartype,
                            collation: var.varcollid,
                        }),
                        Err(_) => Kind::Other(Reason::SystemColumn),
                    }
                }
                pg_sys::NodeTag::T_Aggref => aggregate(&*raw.cast::<pg_sys::Aggref>()),
                _ if node.is_operand() => Kind::Operand,
                pg_sys::NodeTag::T_FuncExpr => {
                    let call = &*raw.cast::<pg_sys::FuncExpr>();
                    match call.funcretset || call.funcvariadic {
                        true => Kind::Other(Reason::ForeignFunction(call.funcid)),
                        false => built_in(call.funcid, call.args, call.inputcollid)
                            .map_or_else(Kind::Other, Kind::Call),
                    }
                }
                pg_sys::NodeTag::T_OpExpr => {
                    let call = &*raw.cast::<pg_sys::OpExpr>();
                    let function = pg_sys::get_opcode(call.opno);
                    built_in(function, call.args, call.inputcollid)
                        .map_or_else(Kind::Other, Kind::Call)
                }
                pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                    let call = &*raw.cast::<pg_sys::ScalarArrayOpExpr>();
                    let function = pg_sys::get_opcode(call.opno);
                    match built_in(function, call.args, call.inputcollid) {
                        Ok(of) if of.arguments.len() == 2 => Kind::AnyAll {
                            call: of,
                            all: !call.useOr,
                        },
                        Ok(_) => Kind::Other(Reason::Expression),
                        Err(reason) => Kind::Other(reason),
                    }
                }
                pg_sys::NodeTag::T_BoolExpr => {
                    let logic = &*raw.cast::<pg_sys::BoolExpr>();
                    let arguments = nodes(logic.args);
                    match logic.boolop {
                        pg_sys::BoolExprType::AND_EXPR => Kind::And(arguments),
                        pg_sys::BoolExprType::OR_EXPR => Kind::Or(arguments),
                        _ => (arguments.first())
                            .map_or(Kind::Other(Reason::Expression), |&one| Kind::Not(one)),
                    }
                }
                pg_sys::NodeTag::T_NullTest => {
                    let test = &*raw.cast::<pg_sys::NullTest>();
                    let argument = Node::of(test.arg.cast());
                    match test.nulltesttype {
                        _ if test.argisrow => Kind::Other(Reason::Expression),
                        pg_sys::NullTestType::IS_NULL => Kind::IsNull(argument),
                        _ => Kind::IsNotNull(argument),
                    }
                }
                pg_sys::NodeTag::T_BooleanTest => {
                    let test = &*raw.cast::<pg_sys::BooleanTest>();
                    Kind::Is(Node::of(test.arg.cast()), truth(test.booltesttype))
                }
                pg_sys::NodeTag::T_CoerceViaIO => {
                    let cast = &*raw.cast::<pg_sys::CoerceViaIO>();
                    let argument = Node::of(cast.arg.cast());
                    match text_input(argument.type_oid(), cast.resulttype) {
                        Some(function) => Kind::Call(Call {
                            function: function.to_owned(),
                            arguments: vec![argument],
                            collation: cast.resultcollid,
                            is_stable: false,
                        }),
                        None => Kind::Other(Reason::Expression),
                    }
                }
                _ => Kind::Other(Reason::Expression),
            }
        }
    }
}

/// The `prosrc` of the input function by which a text is cast to a type. The output functions of
/// text and varchar return its bytes, and these input functions depend on no setting.
fn text_input(from: pg_sys::Oid, to: pg_sys::Oid) -> Option<&'static str> {
    if !matches!(types::base(from), types::TEXT | types::VARCHAR) {
        return None;
    }
    Some(match to {
        types::BOOL => "boolin",
        types::INT2 => "int2in",
        types::INT4 => "int4in",
        types::INT8 => "int8in",
        types::FLOAT4 => "float4in",
        types::FLOAT8 => "float8in",
        types::NUMERIC => "numeric_in",
        _ => return None,
    })
}

fn truth(test: pg_sys::BoolTestType::Type) -> Truth {
    use pg_sys::BoolTestType::{IS_FALSE, IS_NOT_FALSE, IS_NOT_TRUE, IS_NOT_UNKNOWN, IS_TRUE};
    match test {
        IS_TRUE => Truth::True,
        IS_NOT_TRUE => Truth::NotTrue,
        IS_FALSE => Truth::False,
        IS_NOT_FALSE => Truth::NotFalse,
        IS_NOT_UNKNOWN => Truth::NotUnknown,
        _ => Truth::Unknown,
    }
}

/// A call of a function that is built in, strict and not volatile.
///
/// # Safety
/// `arguments` is a list of expressions that outlives the result.
unsafe fn built_in<'a>(
    function: pg_sys::Oid,
    arguments: *mut pg_sys::List,
    collation: pg_sys::Oid,
) -> Result<Call<'a>, Reason> {
    let foreign = Reason::ForeignFunction(function);
    if function.to_u32() >= pg_sys::FirstGenbkiObjectId {
        return Err(foreign);
    }
    // SAFETY: a lookup in the system cache, released below; `prosrc` is read while it is held.
    unsafe {
        let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(function));
        if tuple.is_null() {
            return Err(foreign);
        }
        let form = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>();
        let internal = (*form).prolang.to_u32() == INTERNAL_LANGUAGE
            && (*form).proisstrict
            && !(*form).proretset
            && (*form).provolatile != pg_sys::PROVOLATILE_VOLATILE as std::ffi::c_char;
        let is_stable = (*form).provolatile == pg_sys::PROVOLATILE_STABLE as std::ffi::c_char;
        let mut null = true;
        let source =
            pg_sys::SysCacheGetAttr(cache, tuple, pg_sys::Anum_pg_proc_prosrc as i16, &mut null);
        let name = (internal && !null).then(|| {
            let text = pg_sys::text_to_cstring(source.cast_mut_ptr());
            let name = CStr::from_ptr(text).to_string_lossy().into_owned();
            pg_sys::pfree(text.cast());
            name
        });
        pg_sys::ReleaseSysCache(tuple);
        Ok(Call {
            function: name.ok_or(foreign)?,
            arguments: nodes(arguments),
            collation,
            is_stable,
        })
    }
}

/// The name of a type, for messages.
pub(super) fn name_of_type(oid: pg_sys::Oid) -> String {
    // SAFETY: a catalog lookup, which names unknown types too; the text is a copy.
    unsafe { CStr::from_ptr(pg_sys::format_type_be(oid)) }
        .to_string_lossy()
        .into_owned()
}

/// How an argument's type is spelled in an aggregate's name.
fn type_name(oid: pg_sys::Oid) -> Option<&'static str> {
    Some(match oid {
        pg_sys::BOOLOID => "bool",
        pg_sys::INT2OID => "int2",
        pg_sys::INT4OID => "int4",
        pg_sys::INT8OID => "int8",
        pg_sys::FLOAT4OID => "float4",
        pg_sys::FLOAT8OID => "float8",
        pg_sys::NUMERICOID => "numeric",
        pg_sys::DATEOID => "date",
        pg_sys::TIMEOID => "time",
        pg_sys::TIMESTAMPOID => "timestamp",
        pg_sys::TIMESTAMPTZOID => "timestamptz",
        pg_sys::TEXTOID => "text",
        pg_sys::BYTEAOID => "bytea",
        pg_sys::UUIDOID => "uuid",
        pg_sys::ANYOID => "any",
        _ => return None,
    })
}

/// # Safety
/// The aggregate outlives the result.
unsafe fn aggregate<'a>(call: &pg_sys::Aggref) -> Kind<'a> {
    let foreign = |how| Kind::Other(Reason::ForeignAggregate(call.aggfnoid, how));
    let unlike = [
        (
            call.aggfnoid.to_u32() >= pg_sys::FirstGenbkiObjectId,
            "is not built in",
        ),
        (
            call.aggkind != NORMAL_AGGREGATE || !call.aggdirectargs.is_null(),
            "is of an ordered set",
        ),
        (!call.aggdistinct.is_null(), "has DISTINCT"),
        (!call.aggorder.is_null(), "has ORDER BY"),
        (call.aggvariadic, "is variadic"),
        (call.agglevelsup != 0, "belongs to an outer query"),
        (
            call.aggsplit != pg_sys::AggSplit::AGGSPLIT_SIMPLE,
            "is computed in parts",
        ),
    ];
    if let Some((_, how)) = unlike.into_iter().find(|(is_so, _)| *is_so) {
        return foreign(how);
    }
    // SAFETY: lists of target entries; a function's declared argument types lie in the syscache.
    unsafe {
        let arguments: Vec<_> = PgList::<pg_sys::TargetEntry>::from_pg(call.args)
            .iter_ptr()
            .map(|entry| Node::of((*entry).expr.cast()))
            .collect();
        let (mut declared, mut count) = (std::ptr::null_mut(), 0);
        pg_sys::get_func_signature(call.aggfnoid, &mut declared, &mut count);
        if arguments.len() > 1 {
            return foreign("has several arguments");
        }
        let declared = (0..count as usize).map(|i| *declared.add(i));
        let mut types = Vec::new();
        for oid in declared {
            let Some(name) = type_name(oid) else {
                return Kind::Other(Reason::AggregateOf(call.aggfnoid, oid));
            };
            types.push(name);
        }
        let name = pg_sys::get_func_name(call.aggfnoid);
        if name.is_null() {
            return foreign("is gone");
        }
        let name = CStr::from_ptr(name).to_string_lossy();
        Kind::Aggregate(Aggregate {
            name: format!("{name}({})", types.join(",")),
            argument: arguments.first().copied(),
            filter: (!call.aggfilter.is_null()).then(|| Node::of(call.aggfilter.cast())),
            collation: call.inputcollid,
        })
    }
}
