//! Clauses on one column, and what their operators mean.

use std::cell::RefCell;
use std::ffi::c_int;
use std::rc::Rc;

use pgrx::{PgList, pg_sys};
use rustc_hash::FxHashMap;

use super::kind::truth;
use super::{Node, Truth, nodes};

/// A clause as the parser made it. No catalog is asked.
pub enum Form<'a> {
    /// A variable: see [`Node::column`].
    Variable,
    And(Vec<Node<'a>>),
    Or(Vec<Node<'a>>),
    Not(Node<'a>),
    Is(Node<'a>, Truth),
    IsNull(Node<'a>),
    IsNotNull(Node<'a>),
    /// `left operator right`
    Operator {
        operator: pg_sys::Oid,
        collation: pg_sys::Oid,
        left: Node<'a>,
        right: Node<'a>,
    },
    /// `left operator ANY (array)`, or ALL.
    ArrayOperator {
        operator: pg_sys::Oid,
        collation: pg_sys::Oid,
        left: Node<'a>,
        array: Node<'a>,
        all: bool,
    },
    Other,
}

/// How two values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
    NotEqual,
}

impl Comparison {
    /// The same with its sides exchanged.
    pub fn commuted(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            Comparison::Equal | Comparison::NotEqual => self,
        }
    }

    fn of(order: pg_sys::CompareType::Type) -> Option<Comparison> {
        use pg_sys::CompareType::{
            COMPARE_EQ, COMPARE_GE, COMPARE_GT, COMPARE_LE, COMPARE_LT, COMPARE_NE,
        };
        Some(match order {
            COMPARE_LT => Comparison::Less,
            COMPARE_LE => Comparison::LessOrEqual,
            COMPARE_EQ => Comparison::Equal,
            COMPARE_GE => Comparison::GreaterOrEqual,
            COMPARE_GT => Comparison::Greater,
            COMPARE_NE => Comparison::NotEqual,
            _ => return None,
        })
    }
}

/// What an operator is in one operator family.
#[derive(Clone, Copy, Debug)]
pub struct Meaning {
    pub family: pg_sys::Oid,
    pub left: pg_sys::Oid,
    pub right: pg_sys::Oid,
    pub comparison: Comparison,
}

thread_local! {
    /// What built-in operators are, as far as it was looked up.
    static KNOWN: RefCell<FxHashMap<u32, Rc<[Meaning]>>> = RefCell::default();
}

/// What an operator is in the families of ordering access methods (`get_op_index_interpretation`).
///
/// Of built-in operators it is remembered, because planning over partitions asks it for each of
/// them. Their places in built-in families are pinned: none can be dropped. One in a family that
/// was added later may be missing until the session ends.
pub fn meanings(operator: pg_sys::Oid) -> Rc<[Meaning]> {
    let number = operator.to_u32();
    if number >= pg_sys::FirstUnpinnedObjectId {
        return looked_up(operator).into();
    }
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&number).cloned()) {
        return known;
    }
    // Not borrowed meanwhile: a look-up may raise an ERROR.
    let found: Rc<[Meaning]> = looked_up(operator).into();
    KNOWN.with_borrow_mut(|known| known.insert(number, Rc::clone(&found)));
    found
}

fn looked_up(operator: pg_sys::Oid) -> Vec<Meaning> {
    // SAFETY: a catalog lookup; the list that it makes holds interpretations.
    unsafe {
        PgList::<pg_sys::OpIndexInterpretation>::from_pg(pg_sys::get_op_index_interpretation(
            operator,
        ))
        .iter_ptr()
        .filter_map(|meaning| {
            Some(Meaning {
                family: (*meaning).opfamily_id,
                left: (*meaning).oplefttype,
                right: (*meaning).oprighttype,
                comparison: Comparison::of((*meaning).cmptype)?,
            })
        })
        .collect()
    }
}

impl<'a> Node<'a> {
    /// The index of the attribute, if the expression is a user column of the relation `rti`,
    /// relabeled or not.
    pub fn column(self, rti: i32) -> Option<usize> {
        let raw = self.without_relabel().raw;
        // SAFETY: the cast follows the node's tag.
        unsafe {
            if (*raw).type_ != pg_sys::NodeTag::T_Var {
                return None;
            }
            let var = &*raw.cast::<pg_sys::Var>();
            let index = usize::try_from(i32::from(var.varattno) - 1).ok()?;
            (var.varno == rti && var.varlevelsup == 0).then_some(index)
        }
    }

    /// Whether the value is the same for every row of a scan of the relation `rti`: columns of
    /// other relations are parameters of the scan.
    pub fn is_fixed_in(self, rti: i32) -> bool {
        let flags = pg_sys::PVC_RECURSE_AGGREGATES
            | pg_sys::PVC_RECURSE_WINDOWFUNCS
            | pg_sys::PVC_RECURSE_PLACEHOLDERS;
        // SAFETY: a valid expression; all that `pull_var_clause` returns with these flags are
        // variables.
        unsafe {
            // Most operands, of which nothing has to be asked.
            if matches!(
                (*self.raw).type_,
                pg_sys::NodeTag::T_Const | pg_sys::NodeTag::T_Param
            ) {
                return true;
            }
            !pg_sys::contain_subplans(self.raw)
                && !pg_sys::contain_volatile_functions(self.raw)
                && PgList::<pg_sys::Var>::from_pg(pg_sys::pull_var_clause(self.raw, flags as c_int))
                    .iter_ptr()
                    .all(|var| (*var).varno != rti)
        }
    }

    /// Whether it is a constant or a parameter of the statement: evaluating it cannot fail.
    pub fn is_given(self) -> bool {
        // SAFETY: the cast follows the node's tag.
        unsafe {
            match (*self.raw).type_ {
                pg_sys::NodeTag::T_Const => true,
                pg_sys::NodeTag::T_Param => {
                    let parameter = &*self.raw.cast::<pg_sys::Param>();
                    parameter.paramkind == pg_sys::ParamKind::PARAM_EXTERN
                }
                _ => false,
            }
        }
    }

    /// What a clause looks like.
    pub fn form(self) -> Form<'a> {
        let raw = self.raw;
        // SAFETY: casts follow the node's tag; lists are lists of expressions.
        unsafe {
            match (*raw).type_ {
                pg_sys::NodeTag::T_Var => Form::Variable,
                pg_sys::NodeTag::T_BoolExpr => {
                    let logic = &*raw.cast::<pg_sys::BoolExpr>();
                    let arguments = nodes(logic.args);
                    match (logic.boolop, arguments.first()) {
                        (pg_sys::BoolExprType::AND_EXPR, _) => Form::And(arguments),
                        (pg_sys::BoolExprType::OR_EXPR, _) => Form::Or(arguments),
                        (_, Some(&argument)) => Form::Not(argument),
                        (_, None) => Form::Other,
                    }
                }
                pg_sys::NodeTag::T_BooleanTest => {
                    let test = &*raw.cast::<pg_sys::BooleanTest>();
                    truth(test.booltesttype).map_or(Form::Other, |truth| {
                        Form::Is(Node::of(test.arg.cast()), truth)
                    })
                }
                pg_sys::NodeTag::T_NullTest => {
                    let test = &*raw.cast::<pg_sys::NullTest>();
                    let argument = Node::of(test.arg.cast());
                    match test.nulltesttype {
                        _ if test.argisrow => Form::Other,
                        pg_sys::NullTestType::IS_NULL => Form::IsNull(argument),
                        _ => Form::IsNotNull(argument),
                    }
                }
                pg_sys::NodeTag::T_OpExpr => {
                    let call = &*raw.cast::<pg_sys::OpExpr>();
                    match nodes(call.args)[..] {
                        [left, right] => Form::Operator {
                            operator: call.opno,
                            collation: call.inputcollid,
                            left,
                            right,
                        },
                        _ => Form::Other,
                    }
                }
                pg_sys::NodeTag::T_ScalarArrayOpExpr => {
                    let call = &*raw.cast::<pg_sys::ScalarArrayOpExpr>();
                    match nodes(call.args)[..] {
                        [left, array] => Form::ArrayOperator {
                            operator: call.opno,
                            collation: call.inputcollid,
                            left,
                            array,
                            all: !call.useOr,
                        },
                        _ => Form::Other,
                    }
                }
                _ => Form::Other,
            }
        }
    }
}
