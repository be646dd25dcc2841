//! Which clauses a row group can evaluate, and how.
//!
//! A clause is taken apart into a [`Condition`] on one column, at plan time to decide whether
//! to push it and again at run time to evaluate its operand. Only comparison operators of the
//! btree families of built-in types count, recognised by family, strategy and operand types,
//! never by name, and LIKE. Row groups keep those families' order (see `howdah_columnar::value`) with
//! three exceptions, for which only equality is pushed: text under a collation other than C,
//! and oid, "char" and enum, which are stored as signed integers.

use std::ffi::c_int;

use howdah_columnar::{ColumnType, CompareOp, OwnedValue, Predicate};
use pgrx::{PgList, pg_sys};

use super::operand::OperandKind;
use crate::types::{AttributeLayout, TableLayout};

const DATETIME_FAMILY: u32 = 434;
const TIME_FAMILY: u32 = 1996;
const UUID_FAMILY: u32 = 2968;
const NUMERIC_FAMILY: u32 = 1988;
const FLOAT_FAMILY: u32 = 1970;
const CHAR_FAMILY: u32 = 429;
const ENUM_FAMILY: u32 = 3522;
const TEXT_NOT_LIKE: u32 = 1210;
const BPCHAR_NOT_LIKE: u32 = 1212;

/// What a clause asks of a column.
pub enum Test {
    /// Needs no operand.
    Fixed(Predicate),
    /// `column op operand`
    Compare { op: CompareOp, operand: Operand },
    /// `column = ANY (operand)`
    Any(Operand),
    /// `column <> ALL (operand)`
    NotAll(Operand),
    /// `column LIKE operand`, or NOT LIKE
    Like { operand: Operand, negated: bool },
}

/// The right-hand side of a test: an expression without variables of the scanned table.
#[derive(Clone, Copy)]
pub struct Operand {
    pub expr: *mut pg_sys::Expr,
    pub kind: OperandKind,
}

/// A clause on one column.
pub struct Condition {
    /// Index of the attribute.
    pub attribute: usize,
    pub test: Test,
}

/// The condition that a clause is, if row groups can evaluate it.
///
/// # Safety
/// `clause` is a clause on the relation `rti`, whose layout is given.
pub unsafe fn condition_of(
    clause: *mut pg_sys::Node,
    rti: c_int,
    layout: &TableLayout,
) -> Option<Condition> {
    // SAFETY: casts follow the node's tag.
    unsafe {
        match (*clause).type_ {
            pg_sys::NodeTag::T_Var => truth(clause, rti, layout, true),
            pg_sys::NodeTag::T_BoolExpr => {
                let not = clause.cast::<pg_sys::BoolExpr>();
                if (*not).boolop != pg_sys::BoolExprType::NOT_EXPR {
                    return None;
                }
                truth(first((*not).args)?, rti, layout, false)
            }
            pg_sys::NodeTag::T_BooleanTest => boolean_test(clause.cast(), rti, layout),
            pg_sys::NodeTag::T_NullTest => {
                let test = clause.cast::<pg_sys::NullTest>();
                if (*test).argisrow {
                    return None;
                }
                let predicate = match (*test).nulltesttype {
                    pg_sys::NullTestType::IS_NULL => Predicate::IsNull,
                    _ => Predicate::IsNotNull,
                };
                Some(Condition {
                    attribute: column_of((*test).arg.cast(), rti, layout)?,
                    test: Test::Fixed(predicate),
                })
            }
            pg_sys::NodeTag::T_OpExpr => {
                let clause = clause.cast();
                comparison(clause, rti, layout).or_else(|| like(clause, rti, layout))
            }
            pg_sys::NodeTag::T_ScalarArrayOpExpr => membership(clause.cast(), rti, layout),
            _ => None,
        }
    }
}

unsafe fn first(list: *mut pg_sys::List) -> Option<*mut pg_sys::Node> {
    // SAFETY: the caller passes a valid list of nodes.
    unsafe { PgList::<pg_sys::Node>::from_pg(list).get_ptr(0) }
}

unsafe fn without_relabel(mut node: *mut pg_sys::Node) -> *mut pg_sys::Node {
    // SAFETY: the caller passes an expression; a RelabelType always has an argument.
    unsafe {
        while (*node).type_ == pg_sys::NodeTag::T_RelabelType {
            node = (*node.cast::<pg_sys::RelabelType>()).arg.cast();
        }
    }
    node
}

/// The attribute index, if the expression is a live user column of the relation.
unsafe fn column_of(node: *mut pg_sys::Node, rti: c_int, layout: &TableLayout) -> Option<usize> {
    // SAFETY: the caller passes an expression.
    unsafe {
        let node = without_relabel(node);
        if (*node).type_ != pg_sys::NodeTag::T_Var {
            return None;
        }
        let var = &*node.cast::<pg_sys::Var>();
        let index = usize::try_from(i32::from(var.varattno) - 1).ok()?;
        (var.varno == rti
            && var.varlevelsup == 0
            && layout.attributes.get(index).is_some_and(|a| !a.dropped))
        .then_some(index)
    }
}

/// Whether the value of the expression is the same for every row of the scan.
unsafe fn is_operand(node: *mut pg_sys::Node, rti: c_int) -> bool {
    // SAFETY: the caller passes an expression. `pull_varnos` uses its root for placeholders
    // only, and scans meet none in an expression it accepts.
    unsafe {
        if pg_sys::contain_subplans(node) || pg_sys::contain_volatile_functions(node) {
            return false;
        }
        let vars = pg_sys::pull_var_clause(
            node,
            (pg_sys::PVC_RECURSE_AGGREGATES
                | pg_sys::PVC_RECURSE_WINDOWFUNCS
                | pg_sys::PVC_RECURSE_PLACEHOLDERS) as c_int,
        );
        PgList::<pg_sys::Var>::from_pg(vars)
            .iter_ptr()
            .all(|var| (*var).varno != rti)
    }
}

unsafe fn truth(
    node: *mut pg_sys::Node,
    rti: c_int,
    layout: &TableLayout,
    wanted: bool,
) -> Option<Condition> {
    // SAFETY: as for the caller.
    let attribute = unsafe { column_of(node, rti, layout)? };
    (layout.attributes[attribute].column_type == ColumnType::Bool).then_some(Condition {
        attribute,
        test: Test::Fixed(Predicate::Compare {
            op: CompareOp::Eq,
            value: OwnedValue::Bool(wanted),
        }),
    })
}

unsafe fn boolean_test(
    test: *mut pg_sys::BooleanTest,
    rti: c_int,
    layout: &TableLayout,
) -> Option<Condition> {
    use pg_sys::BoolTestType::{IS_FALSE, IS_NOT_UNKNOWN, IS_TRUE, IS_UNKNOWN};
    // SAFETY: as for the caller.
    unsafe {
        let argument: *mut pg_sys::Node = (*test).arg.cast();
        let null_test = |predicate| {
            Some(Condition {
                attribute: column_of(argument, rti, layout)?,
                test: Test::Fixed(predicate),
            })
        };
        match (*test).booltesttype {
            IS_TRUE => truth(argument, rti, layout, true),
            IS_FALSE => truth(argument, rti, layout, false),
            IS_UNKNOWN => null_test(Predicate::IsNull),
            IS_NOT_UNKNOWN => null_test(Predicate::IsNotNull),
            _ => None,
        }
    }
}

unsafe fn comparison(
    clause: *mut pg_sys::OpExpr,
    rti: c_int,
    layout: &TableLayout,
) -> Option<Condition> {
    // SAFETY: as for the caller.
    unsafe {
        let arguments = PgList::<pg_sys::Node>::from_pg((*clause).args);
        let (left, right) = (arguments.get_ptr(0)?, arguments.get_ptr(1)?);
        let (attribute, expr, commuted) = match column_of(left, rti, layout) {
            Some(attribute) => (attribute, right, false),
            None => (column_of(right, rti, layout)?, left, true),
        };
        if !is_operand(expr, rti) {
            return None;
        }
        let column = &layout.attributes[attribute];
        let (op, kind) = recognise((*clause).opno, (*clause).inputcollid, column, commuted)?;
        let expr = expr.cast();
        Some(Condition {
            attribute,
            test: Test::Compare {
                op,
                operand: Operand { expr, kind },
            },
        })
    }
}

unsafe fn like(clause: *mut pg_sys::OpExpr, rti: c_int, layout: &TableLayout) -> Option<Condition> {
    // SAFETY: as for the caller.
    unsafe {
        let negated = match (*clause).opno.to_u32() {
            pg_sys::OID_TEXT_LIKE_OP | pg_sys::OID_BPCHAR_LIKE_OP => false,
            TEXT_NOT_LIKE | BPCHAR_NOT_LIKE => true,
            _ => return None,
        };
        let arguments = PgList::<pg_sys::Node>::from_pg((*clause).args);
        let attribute = column_of(arguments.get_ptr(0)?, rti, layout)?;
        let (expr, collation) = (arguments.get_ptr(1)?, (*clause).inputcollid);
        // Text is stored as such in UTF-8 only, which is compared byte by byte.
        let is_bytewise = layout.attributes[attribute].column_type == ColumnType::Text
            && collation != pg_sys::InvalidOid
            && pg_sys::get_collation_isdeterministic(collation);
        (is_bytewise && is_operand(expr, rti)).then_some(Condition {
            attribute,
            test: Test::Like {
                operand: Operand {
                    expr: expr.cast(),
                    kind: OperandKind::Text,
                },
                negated,
            },
        })
    }
}

unsafe fn membership(
    clause: *mut pg_sys::ScalarArrayOpExpr,
    rti: c_int,
    layout: &TableLayout,
) -> Option<Condition> {
    // SAFETY: as for the caller.
    unsafe {
        let arguments = PgList::<pg_sys::Node>::from_pg((*clause).args);
        let attribute = column_of(arguments.get_ptr(0)?, rti, layout)?;
        let expr = arguments.get_ptr(1)?;
        if !is_operand(expr, rti) {
            return None;
        }
        let column = &layout.attributes[attribute];
        let (op, kind) = recognise((*clause).opno, (*clause).inputcollid, column, false)?;
        let expr = expr.cast();
        let operand = Operand { expr, kind };
        let test = match (op, (*clause).useOr) {
            (CompareOp::Eq, true) => Test::Any(operand),
            (CompareOp::Ne, false) => Test::NotAll(operand),
            _ => return None,
        };
        Some(Condition { attribute, test })
    }
}

/// What an operator is for the column, with the column on the left.
unsafe fn recognise(
    operator: pg_sys::Oid,
    collation: pg_sys::Oid,
    column: &AttributeLayout,
    commuted: bool,
) -> Option<(CompareOp, OperandKind)> {
    // SAFETY: catalog lookups; the list holds interpretations.
    unsafe {
        let meanings = PgList::<pg_sys::OpIndexInterpretation>::from_pg(
            pg_sys::get_op_index_interpretation(operator),
        );
        meanings.iter_ptr().find_map(|meaning| {
            let meaning = &*meaning;
            let op = compare_op(meaning.cmptype, commuted)?;
            let (left, right) = match commuted {
                false => (meaning.oplefttype, meaning.oprighttype),
                true => (meaning.oprighttype, meaning.oplefttype),
            };
            let kind = operand_kind(meaning.opfamily_id, left, right, column)?;
            let equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
            let allowed = match kind {
                OperandKind::Text if equality => {
                    collation != pg_sys::InvalidOid
                        && pg_sys::get_collation_isdeterministic(collation)
                }
                OperandKind::Text => howdah_bridge::collation::orders_bytewise(collation),
                OperandKind::OidBits | OperandKind::CharBits => equality,
                _ => true,
            };
            allowed.then_some((op, kind))
        })
    }
}

fn compare_op(meaning: pg_sys::CompareType::Type, commuted: bool) -> Option<CompareOp> {
    use pg_sys::CompareType::{
        COMPARE_EQ, COMPARE_GE, COMPARE_GT, COMPARE_LE, COMPARE_LT, COMPARE_NE,
    };
    Some(match (meaning, commuted) {
        (COMPARE_EQ, _) => CompareOp::Eq,
        (COMPARE_NE, _) => CompareOp::Ne,
        (COMPARE_LT, false) | (COMPARE_GT, true) => CompareOp::Lt,
        (COMPARE_LE, false) | (COMPARE_GE, true) => CompareOp::Le,
        (COMPARE_GT, false) | (COMPARE_LT, true) => CompareOp::Gt,
        (COMPARE_GE, false) | (COMPARE_LE, true) => CompareOp::Ge,
        _ => return None,
    })
}

/// How operands of type `right` become values to compare with the column; `None` where that is
/// not exact. `left` is the type that the operator takes the column for.
fn operand_kind(
    family: pg_sys::Oid,
    left: pg_sys::Oid,
    right: pg_sys::Oid,
    column: &AttributeLayout,
) -> Option<OperandKind> {
    let same = |oid: pg_sys::Oid| column.type_oid == oid && left == oid && right == oid;
    let integer = |oid: pg_sys::Oid| match oid {
        pg_sys::INT2OID => Some(OperandKind::Int16),
        pg_sys::INT4OID => Some(OperandKind::Int32),
        pg_sys::INT8OID => Some(OperandKind::Int64),
        _ => None,
    };
    let float = |oid: pg_sys::Oid| match oid {
        pg_sys::FLOAT4OID => Some(OperandKind::Float32),
        pg_sys::FLOAT8OID => Some(OperandKind::Float64),
        _ => None,
    };
    match family {
        pg_sys::BOOL_BTREE_FAM_OID => same(pg_sys::BOOLOID).then_some(OperandKind::Bool),
        pg_sys::INTEGER_BTREE_FAM_OID => {
            integer(column.type_oid)?;
            (left == column.type_oid).then_some(integer(right)?)
        }
        pg_sys::TEXT_BTREE_FAM_OID => {
            let text = matches!(column.type_oid, pg_sys::TEXTOID | pg_sys::VARCHAROID);
            (text && left == pg_sys::TEXTOID && right == pg_sys::TEXTOID)
                .then_some(OperandKind::Text)
        }
        pg_sys::BYTEA_BTREE_FAM_OID => same(pg_sys::BYTEAOID).then_some(OperandKind::Bytes),
        pg_sys::OID_BTREE_FAM_OID => same(pg_sys::OIDOID).then_some(OperandKind::OidBits),
        family => match family.to_u32() {
            FLOAT_FAMILY => {
                float(column.type_oid)?;
                (left == column.type_oid).then_some(float(right)?)
            }
            DATETIME_FAMILY if left == column.type_oid => match (left, right) {
                (pg_sys::DATEOID, pg_sys::DATEOID) => Some(OperandKind::Int32),
                (pg_sys::TIMESTAMPOID, pg_sys::TIMESTAMPOID)
                | (pg_sys::TIMESTAMPTZOID, pg_sys::TIMESTAMPTZOID) => Some(OperandKind::Int64),
                (pg_sys::TIMESTAMPOID, pg_sys::DATEOID) => Some(OperandKind::DateAsTimestamp),
                (pg_sys::DATEOID, pg_sys::TIMESTAMPOID) => Some(OperandKind::TimestampAsDate),
                // Between dates and timestamptz the session's time zone decides.
                _ => None,
            },
            TIME_FAMILY => same(pg_sys::TIMEOID).then_some(OperandKind::Int64),
            UUID_FAMILY => same(pg_sys::UUIDOID).then_some(OperandKind::Uuid),
            NUMERIC_FAMILY => same(pg_sys::NUMERICOID).then_some(OperandKind::Numeric),
            CHAR_FAMILY => same(pg_sys::CHAROID).then_some(OperandKind::CharBits),
            ENUM_FAMILY => (column.column_type == ColumnType::Int32 && column.len == 4)
                .then_some(OperandKind::OidBits),
            _ => None,
        },
    }
}
