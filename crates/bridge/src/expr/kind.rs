//! What an expression is.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::aggregate::aggregate;
use super::{Call, Kind, Node, Truth, Variable, nodes};
use crate::builtin::types;
use crate::upper::Reason;

/// `INTERNALlanguageId` of `catalog/pg_language_d.h`
const INTERNAL_LANGUAGE: u32 = 12;

impl<'a> Node<'a> {
    /// Its kind. Variables of the relation `rti` are described; with any other variable it is
    /// [`Kind::Other`].
    pub fn kind(self, rti: i32) -> Kind<'a> {
        let node = self.without_relabel();
        let raw = node.raw;
        // SAFETY: casts follow the node's tag; lists are lists of expressions.
        unsafe {
            match (*raw).type_ {
                pg_sys::NodeTag::T_Var => variable(&*raw.cast::<pg_sys::Var>(), rti)
                    .map_or_else(Kind::Other, Kind::Variable),
                pg_sys::NodeTag::T_Aggref => aggregate(&*raw.cast::<pg_sys::Aggref>()),
                _ if node.is_operand() => Kind::Operand,
                pg_sys::NodeTag::T_FuncExpr => {
                    let pg_sys::FuncExpr {
                        funcid: function,
                        funcretset: returns_set,
                        funcvariadic: is_variadic,
                        inputcollid: collation,
                        args: arguments,
                        // The function tells its type; what reads the result, the collation.
                        funcresulttype: _,
                        funccollid: _,
                        funcformat: _,
                        xpr: _,
                        location: _,
                    } = *raw.cast::<pg_sys::FuncExpr>();
                    match returns_set || is_variadic {
                        true => Kind::Other(Reason::ForeignFunction(function)),
                        false => built_in(function, arguments, collation)
                            .map_or_else(Kind::Other, Kind::Call),
                    }
                }
                pg_sys::NodeTag::T_OpExpr => {
                    let pg_sys::OpExpr {
                        opno: operator,
                        opretset: returns_set,
                        inputcollid: collation,
                        args: arguments,
                        // The operator's, if it is known already.
                        opfuncid: _,
                        // As for functions.
                        opresulttype: _,
                        opcollid: _,
                        xpr: _,
                        location: _,
                    } = *raw.cast::<pg_sys::OpExpr>();
                    let function = pg_sys::get_opcode(operator);
                    match returns_set {
                        true => Kind::Other(Reason::ForeignFunction(function)),
                        false => built_in(function, arguments, collation)
                            .map_or_else(Kind::Other, Kind::Call),
                    }
                }
                pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                    let pg_sys::ScalarArrayOpExpr {
                        opno: operator,
                        useOr: is_any,
                        inputcollid: collation,
                        args: arguments,
                        // How PostgreSQL's executor finds a value among many.
                        opfuncid: _,
                        hashfuncid: _,
                        negfuncid: _,
                        xpr: _,
                        location: _,
                    } = *raw.cast::<pg_sys::ScalarArrayOpExpr>();
                    match built_in(pg_sys::get_opcode(operator), arguments, collation) {
                        Ok(call) if call.arguments.len() == 2 => {
                            Kind::AnyAll { call, all: !is_any }
                        }
                        Ok(_) => Kind::Other(Reason::Expression),
                        Err(reason) => Kind::Other(reason),
                    }
                }
                pg_sys::NodeTag::T_BoolExpr => {
                    let pg_sys::BoolExpr {
                        boolop: operator,
                        args: arguments,
                        xpr: _,
                        location: _,
                    } = *raw.cast::<pg_sys::BoolExpr>();
                    match (operator, nodes(arguments)) {
                        (pg_sys::BoolExprType::AND_EXPR, all) => Kind::And(all),
                        (pg_sys::BoolExprType::OR_EXPR, all) => Kind::Or(all),
                        (pg_sys::BoolExprType::NOT_EXPR, one) if one.len() == 1 => {
                            Kind::Not(one[0])
                        }
                        _ => Kind::Other(Reason::Expression),
                    }
                }
                pg_sys::NodeTag::T_NullTest => {
                    let pg_sys::NullTest {
                        arg: argument,
                        nulltesttype: test,
                        argisrow: is_of_row,
                        xpr: _,
                        location: _,
                    } = *raw.cast::<pg_sys::NullTest>();
                    let argument = Node::of(argument.cast());
                    match test {
                        _ if is_of_row => Kind::Other(Reason::Expression),
                        pg_sys::NullTestType::IS_NULL => Kind::IsNull(argument),
                        pg_sys::NullTestType::IS_NOT_NULL => Kind::IsNotNull(argument),
                        _ => Kind::Other(Reason::Expression),
                    }
                }
                pg_sys::NodeTag::T_BooleanTest => {
                    let pg_sys::BooleanTest {
                        arg: argument,
                        booltesttype: test,
                        xpr: _,
                        location: _,
                    } = *raw.cast::<pg_sys::BooleanTest>();
                    truth(test).map_or(Kind::Other(Reason::Expression), |truth| {
                        Kind::Is(Node::of(argument.cast()), truth)
                    })
                }
                pg_sys::NodeTag::T_CoerceViaIO => {
                    let pg_sys::CoerceViaIO {
                        arg: argument,
                        resulttype: result,
                        resultcollid: collation,
                        coerceformat: _,
                        xpr: _,
                        location: _,
                    } = *raw.cast::<pg_sys::CoerceViaIO>();
                    let argument = Node::of(argument.cast());
                    match text_input(argument.type_oid(), result) {
                        Some(function) => Kind::Call(Call {
                            function: function.to_owned(),
                            arguments: vec![argument],
                            collation,
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

/// A variable of the relation `rti`, as it is in the table.
pub(super) fn variable(var: &pg_sys::Var, rti: i32) -> Result<Variable, Reason> {
    let pg_sys::Var {
        varno: relation,
        varattno: number,
        vartype: type_oid,
        varcollid: collation,
        varnullingrels: nulling_joins,
        varlevelsup: levels_up,
        varreturningtype: returning,
        // It says nothing of a value that is stored.
        vartypmod: _,
        // How it was written.
        varnosyn: _,
        varattnosyn: _,
        xpr: _,
        location: _,
    } = *var;
    let is_plain = relation == rti
        && levels_up == 0
        && nulling_joins.is_null()
        && returning == pg_sys::VarReturningType::VAR_RETURNING_DEFAULT;
    if !is_plain {
        return Err(Reason::Expression);
    }
    let attribute = usize::try_from(i32::from(number) - 1).map_err(|_| Reason::SystemColumn)?;
    Ok(Variable {
        attribute,
        type_oid,
        collation,
    })
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

pub(super) fn truth(test: pg_sys::BoolTestType::Type) -> Option<Truth> {
    use pg_sys::BoolTestType::{
        IS_FALSE, IS_NOT_FALSE, IS_NOT_TRUE, IS_NOT_UNKNOWN, IS_TRUE, IS_UNKNOWN,
    };
    Some(match test {
        IS_TRUE => Truth::True,
        IS_NOT_TRUE => Truth::NotTrue,
        IS_FALSE => Truth::False,
        IS_NOT_FALSE => Truth::NotFalse,
        IS_UNKNOWN => Truth::Unknown,
        IS_NOT_UNKNOWN => Truth::NotUnknown,
        _ => return None,
    })
}

/// Whether rights to a function were granted or revoked: PostgreSQL then checks whether it may be
/// called, when it prepares the expression.
pub(crate) fn is_restricted(function: pg_sys::Oid) -> bool {
    let cache = pg_sys::SysCacheIdentifier::PROCOID as i32;
    // SAFETY: a lookup in the system cache, released below.
    unsafe {
        let tuple = pg_sys::SearchSysCache1(cache, pg_sys::Datum::from(function));
        if tuple.is_null() {
            return true;
        }
        let mut has_default = false;
        let attribute = pg_sys::Anum_pg_proc_proacl as i16;
        pg_sys::SysCacheGetAttr(cache, tuple, attribute, &mut has_default);
        pg_sys::ReleaseSysCache(tuple);
        !has_default
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
        if is_restricted(function) {
            return Err(Reason::RestrictedFunction(function));
        }
        Ok(Call {
            function: name.ok_or(foreign)?,
            arguments: nodes(arguments),
            collation,
            is_stable,
        })
    }
}
