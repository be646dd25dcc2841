//! Which clauses a row group can evaluate, and how.
//!
//! A clause is analyzed into a [`ColumnTest`] of one column, at plan time to decide whether to push
//! it, and again at run time to evaluate its operand. Only comparison operators of the btree
//! families of built-in types are recognized, by family, strategy and operand types, never by name,
//! and LIKE. Row groups keep the order of these families (see `howdah_columnar::value`) with three
//! exceptions, for which only equality is pushed: text under a collation other than C, `char(n)`,
//! oid, "char" and enum, which are stored as signed integers, and addresses of networks.

use howdah_bridge::Oid;
use howdah_bridge::builtin::{families, operators, types};
use howdah_bridge::collation::{is_deterministic, orders_bytewise};
use howdah_bridge::expr::{Comparison, Form, Node, Truth, meanings};
use howdah_bridge::scan::{Clause, OperandNode, PlannedTable};
use howdah_columnar::{ColumnType, CompareOp, OwnedValue, Predicate};

use super::operand::{OperandKind, Test};
use crate::types::{AttributeLayout, TableLayout};

/// A clause on one column.
pub struct ColumnTest {
    /// Index of the attribute.
    pub attribute: usize,
    pub test: Test,
}

/// An analyzed clause.
pub struct Pushed<'a> {
    pub tested: ColumnTest,
    /// The right-hand sides of the test: expressions without variables of the scanned table.
    pub operands: Vec<OperandNode<'a>>,
}

impl<'a> Pushed<'a> {
    fn fixed(attribute: usize, predicate: Predicate) -> Self {
        Pushed {
            tested: ColumnTest {
                attribute,
                test: Test::Fixed(predicate),
            },
            operands: Vec::new(),
        }
    }

    fn with_operand(attribute: usize, test: Test, operand: OperandNode<'a>) -> Self {
        Pushed {
            tested: ColumnTest { attribute, test },
            operands: vec![operand],
        }
    }
}

/// Which clauses row groups evaluate: those that they can evaluate, unless a clause that must run
/// before (one of a security barrier) would run after them.
pub fn pushed(
    planned: &PlannedTable<'_>,
    clauses: &[Clause<'_>],
    layout: &TableLayout,
) -> Vec<bool> {
    let is_pushed = |&clause: &Clause<'_>| recognised(planned, clause, layout).is_some();
    clauses.iter().map(is_pushed).collect()
}

/// The clause as row groups evaluate it, if they do.
pub fn recognised<'a>(
    planned: &PlannedTable<'_>,
    clause: Clause<'a>,
    layout: &TableLayout,
) -> Option<Pushed<'a>> {
    let may_be = !clause.is_pseudoconstant() && planned.may_run_first(clause);
    may_be
        .then(|| condition_of(clause.node(), planned.rti(), layout))
        .flatten()
}

/// The condition that a clause on the relation `rti` stands for, if row groups can evaluate it.
pub fn condition_of<'a>(clause: Node<'a>, rti: i32, layout: &TableLayout) -> Option<Pushed<'a>> {
    let table = Scanned { rti, layout };
    match clause.form() {
        Form::And(parts) => table.joined(&parts, Test::And),
        Form::Or(parts) => table.joined(&parts, Test::Or),
        Form::Variable => table.truth(clause, true),
        Form::Not(argument) => table.truth(argument, false),
        Form::Is(argument, Truth::True) => table.truth(argument, true),
        Form::Is(argument, Truth::False) => table.truth(argument, false),
        Form::Is(argument, Truth::Unknown) | Form::IsNull(argument) => {
            Some(Pushed::fixed(table.column(argument)?, Predicate::IsNull))
        }
        Form::Is(argument, Truth::NotUnknown) | Form::IsNotNull(argument) => {
            Some(Pushed::fixed(table.column(argument)?, Predicate::IsNotNull))
        }
        Form::Operator {
            operator,
            collation,
            left,
            right,
        } => (table.comparison(operator, collation, left, right))
            .or_else(|| table.like(operator, collation, left, right)),
        Form::ArrayOperator {
            operator,
            collation,
            left,
            array,
            all,
        } => table.membership(operator, collation, left, array, all),
        Form::Is(..) | Form::Other => None,
    }
}

/// The scanned table.
struct Scanned<'l> {
    rti: i32,
    layout: &'l TableLayout,
}

impl Scanned<'_> {
    /// The attribute index, if the expression is a live user column of the relation.
    fn column(&self, node: Node<'_>) -> Option<usize> {
        let index = node.column(self.rti)?;
        let attribute = self.layout.attributes.get(index)?;
        (!attribute.dropped).then_some(index)
    }

    /// Clauses on one column. Their operands are evaluated once, also those of parts to which
    /// PostgreSQL would not come: so none of them may fail.
    fn joined<'a>(
        &self,
        parts: &[Node<'a>],
        join: impl Fn(Vec<Test>) -> Test,
    ) -> Option<Pushed<'a>> {
        let parts = parts.iter();
        let parts: Option<Vec<_>> = parts
            .map(|&part| condition_of(part, self.rti, self.layout))
            .collect();
        let (tested, operands): (Vec<ColumnTest>, Vec<Vec<OperandNode<'a>>>) = parts?
            .into_iter()
            .map(|part| (part.tested, part.operands))
            .unzip();
        let operands = operands.concat();
        let attribute = tested.first()?.attribute;
        let cannot_fail = operands.iter().all(|operand| match operand {
            OperandNode::Value(node) | OperandNode::Array(node) => node.is_given(),
        });
        let is_one = tested.iter().all(|one| one.attribute == attribute);
        (cannot_fail && is_one).then(|| Pushed {
            tested: ColumnTest {
                attribute,
                test: join(tested.into_iter().map(|one| one.test).collect()),
            },
            operands,
        })
    }

    fn truth<'a>(&self, node: Node<'a>, wanted: bool) -> Option<Pushed<'a>> {
        let attribute = self.column(node)?;
        let predicate = Predicate::Compare {
            op: CompareOp::Eq,
            value: OwnedValue::Bool(wanted),
        };
        (self.layout.attributes[attribute].column_type == ColumnType::Bool)
            .then(|| Pushed::fixed(attribute, predicate))
    }

    fn comparison<'a>(
        &self,
        operator: Oid,
        collation: Oid,
        left: Node<'a>,
        right: Node<'a>,
    ) -> Option<Pushed<'a>> {
        let (attribute, operand, commuted) = match self.column(left) {
            Some(attribute) => (attribute, right, false),
            None => (self.column(right)?, left, true),
        };
        if !operand.is_fixed_in(self.rti) {
            return None;
        }
        let column = &self.layout.attributes[attribute];
        let (op, kind) = recognise(operator, collation, column, commuted)?;
        let test = Test::Compare { op, kind };
        let operand = OperandNode::Value(operand);
        Some(Pushed::with_operand(attribute, test, operand))
    }

    fn like<'a>(
        &self,
        operator: Oid,
        collation: Oid,
        left: Node<'a>,
        pattern: Node<'a>,
    ) -> Option<Pushed<'a>> {
        let negated = match operator.to_u32() {
            operators::TEXT_LIKE | operators::BPCHAR_LIKE => false,
            operators::TEXT_NOT_LIKE | operators::BPCHAR_NOT_LIKE => true,
            _ => return None,
        };
        let attribute = self.column(left)?;
        // Only in UTF-8 is text stored as text, which is compared byte by byte.
        let is_bytewise = self.layout.attributes[attribute].column_type == ColumnType::Text
            && is_deterministic(collation);
        let test = Test::Like { negated };
        let may_be = is_bytewise && pattern.is_fixed_in(self.rti);
        may_be.then(|| Pushed::with_operand(attribute, test, OperandNode::Value(pattern)))
    }

    fn membership<'a>(
        &self,
        operator: Oid,
        collation: Oid,
        left: Node<'a>,
        array: Node<'a>,
        all: bool,
    ) -> Option<Pushed<'a>> {
        let attribute = self.column(left)?;
        if !array.is_fixed_in(self.rti) {
            return None;
        }
        let column = &self.layout.attributes[attribute];
        let (op, kind) = recognise(operator, collation, column, false)?;
        let test = match (op, all) {
            (CompareOp::Eq, false) => Test::Any(kind),
            (CompareOp::Ne, true) => Test::NotAll(kind),
            _ => return None,
        };
        let operand = OperandNode::Array(array);
        Some(Pushed::with_operand(attribute, test, operand))
    }
}

/// The meaning of an operator for the column, with the column on the left.
fn recognise(
    operator: Oid,
    collation: Oid,
    column: &AttributeLayout,
    commuted: bool,
) -> Option<(CompareOp, OperandKind)> {
    meanings(operator).iter().find_map(|meaning| {
        let (op, left, right) = match commuted {
            false => (meaning.comparison, meaning.left, meaning.right),
            true => (meaning.comparison.commuted(), meaning.right, meaning.left),
        };
        let op = compare_op(op);
        let kind = operand_kind(meaning.family, left, right, column)?;
        let equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
        let allowed = match kind {
            OperandKind::Text if equality => is_deterministic(collation),
            OperandKind::Padded(_) => equality && is_deterministic(collation),
            OperandKind::Text => orders_bytewise(collation),
            OperandKind::OidBits | OperandKind::CharBits | OperandKind::ImageBytes => equality,
            _ => true,
        };
        allowed.then_some((op, kind))
    })
}

fn compare_op(comparison: Comparison) -> CompareOp {
    match comparison {
        Comparison::Less => CompareOp::Lt,
        Comparison::LessOrEqual => CompareOp::Le,
        Comparison::Equal => CompareOp::Eq,
        Comparison::GreaterOrEqual => CompareOp::Ge,
        Comparison::Greater => CompareOp::Gt,
        Comparison::NotEqual => CompareOp::Ne,
    }
}

/// How operands of type `right` are converted for the comparison with the column; `None` where the
/// conversion is not exact. `left` is the type that the operator takes the column for.
fn operand_kind(
    family: Oid,
    left: Oid,
    right: Oid,
    column: &AttributeLayout,
) -> Option<OperandKind> {
    let same = |oid: Oid| column.type_oid == oid && left == oid && right == oid;
    let integer = |oid: Oid| match oid {
        types::INT2 => Some(OperandKind::Int16),
        types::INT4 => Some(OperandKind::Int32),
        types::INT8 => Some(OperandKind::Int64),
        _ => None,
    };
    let float = |oid: Oid| match oid {
        types::FLOAT4 => Some(OperandKind::Float32),
        types::FLOAT8 => Some(OperandKind::Float64),
        _ => None,
    };
    match family.to_u32() {
        families::BOOL => same(types::BOOL).then_some(OperandKind::Bool),
        families::INTEGER => {
            integer(column.type_oid)?;
            (left == column.type_oid).then_some(integer(right)?)
        }
        families::TEXT => {
            let text = matches!(column.type_oid, types::TEXT | types::VARCHAR);
            (text && left == types::TEXT && right == types::TEXT).then_some(OperandKind::Text)
        }
        // In other encodings than UTF-8 characters are not counted here.
        families::BPCHAR if column.column_type == ColumnType::Text => {
            same(types::BPCHAR).then_some(OperandKind::Padded(column.padded_to?))
        }
        families::BYTEA => same(types::BYTEA).then_some(OperandKind::Bytes),
        families::OID => same(types::OID).then_some(OperandKind::OidBits),
        families::FLOAT => {
            float(column.type_oid)?;
            (left == column.type_oid).then_some(float(right)?)
        }
        families::DATETIME if left == column.type_oid => match (left, right) {
            (types::DATE, types::DATE) => Some(OperandKind::Int32),
            (types::TIMESTAMP, types::TIMESTAMP) | (types::TIMESTAMPTZ, types::TIMESTAMPTZ) => {
                Some(OperandKind::Int64)
            }
            (types::TIMESTAMP, types::DATE) => Some(OperandKind::DateAsTimestamp),
            (types::DATE, types::TIMESTAMP) => Some(OperandKind::TimestampAsDate),
            // Comparing dates with timestamptz depends on the session's time zone.
            _ => None,
        },
        families::TIME => same(types::TIME).then_some(OperandKind::Int64),
        families::UUID => same(types::UUID).then_some(OperandKind::Uuid),
        families::NUMERIC => same(types::NUMERIC).then_some(OperandKind::Numeric),
        families::CHAR => same(types::CHAR).then_some(OperandKind::CharBits),
        families::NETWORK => {
            let network = matches!(column.type_oid, types::INET | types::CIDR);
            (network && left == types::INET && right == types::INET)
                .then_some(OperandKind::ImageBytes)
        }
        families::ENUM => (column.column_type == ColumnType::Int32 && column.len == 4)
            .then_some(OperandKind::OidBits),
        _ => None,
    }
}
