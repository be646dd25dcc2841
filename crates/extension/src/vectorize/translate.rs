//! Expression trees as the engine's description.
//!
//! The same trees are translated twice: by the planner, to find out whether the engine takes them and which operands they
//! have; and by the executor, with the operands' values in their places. Both meet operands in the same order.

use howdah_bridge::upper::expr::{Call, Kind, Truth};
use howdah_bridge::upper::{Datum, Node, Shape, Stage};
use howdah_columnar::ColumnType;
use howdah_vector::plan::{self, AggregateCall, Expr, GroupOrder, OrderBy, Output, Query};

use super::semantics;
use crate::types::{AttributeLayout, TableLayout, array_values, owned_value};

/// A query as the engine wants it.
pub struct Translated<'a> {
    pub query: Query,
    /// The attribute that each column of the query is.
    pub attributes: Vec<usize>,
    /// The operands, in the order in which they were met.
    pub operands: Vec<Node<'a>>,
}

/// Translates a query; `None` if some part of it is unknown. `values` are the operands', if they are evaluated already.
///
/// # Safety
/// `values` are valid datums of the types of the operands that the same shape had before.
pub unsafe fn translate<'a>(
    shape: &Shape<'a>,
    layout: &TableLayout,
    values: Option<&[Option<Datum>]>,
) -> Option<Translated<'a>> {
    let mut translator = Translator {
        rti: shape.rti,
        layout,
        attributes: Vec::new(),
        operands: Vec::new(),
        values,
    };
    let filter = translator.all(&shape.filter)?;
    let output = match shape.stage {
        Stage::Group => {
            if !shape
                .keys
                .iter()
                .all(|&key| semantics::groups_as_stored(key))
            {
                return None;
            }
            let keys = translator.all(&shape.keys)?;
            let is_constant = |key: &Expr| matches!(key, Expr::Constant(..));
            if keys.iter().any(is_constant) {
                return None;
            }
            let aggregates = (shape.aggregates.iter())
                .map(|&node| translator.aggregate(node))
                .collect::<Option<Vec<_>>>()?;
            let first = (shape.order.iter())
                .map(|order| {
                    semantics::orders_as_stored(order.node).then_some(())?;
                    let mut returned = shape.keys.iter().chain(&shape.aggregates);
                    Some(GroupOrder {
                        column: returned.position(|known| known.equals(order.node))?,
                        descending: order.descending,
                        nulls_first: order.nulls_first,
                    })
                })
                .collect::<Option<Vec<_>>>()?;
            match first.is_empty() {
                true => Output::Aggregate { keys, aggregates },
                false => Output::FirstGroups {
                    keys,
                    aggregates,
                    order: first,
                    limit: usize::try_from(shape.limit).ok()?,
                },
            }
        }
        Stage::First => {
            let columns = (shape.columns.iter())
                .map(|&node| translator.column(node))
                .collect::<Option<Vec<_>>>()?;
            let order = (shape.order.iter())
                .map(|order| {
                    semantics::orders_as_stored(order.node).then_some(())?;
                    Some(OrderBy {
                        expr: translator.expr(order.node)?,
                        descending: order.descending,
                        nulls_first: order.nulls_first,
                    })
                })
                .collect::<Option<Vec<_>>>()?;
            Output::First {
                columns,
                order,
                limit: usize::try_from(shape.limit).ok()?,
            }
        }
    };
    let of_attribute = |&attribute: &usize| layout.attributes[attribute].column_type;
    Some(Translated {
        query: Query {
            columns: translator.attributes.iter().map(of_attribute).collect(),
            filter,
            output,
        },
        attributes: translator.attributes,
        operands: translator.operands,
    })
}

struct Translator<'t, 'a> {
    rti: i32,
    layout: &'t TableLayout,
    attributes: Vec<usize>,
    operands: Vec<Node<'a>>,
    values: Option<&'t [Option<Datum>]>,
}

impl<'a> Translator<'_, 'a> {
    fn all(&mut self, nodes: &[Node<'a>]) -> Option<Vec<Expr>> {
        nodes.iter().map(|&node| self.expr(node)).collect()
    }

    /// A column of the table, whatever its type.
    fn column(&mut self, node: Node<'a>) -> Option<Expr> {
        match node.kind(self.rti) {
            Kind::Variable(variable) => self.attribute(variable.attribute),
            _ => None,
        }
    }

    fn attribute(&mut self, attribute: usize) -> Option<Expr> {
        if self.layout.attributes.get(attribute)?.dropped {
            return None;
        }
        let place = self.attributes.iter().position(|&known| known == attribute);
        let place = place.unwrap_or_else(|| {
            self.attributes.push(attribute);
            self.attributes.len() - 1
        });
        Some(Expr::Column(place))
    }

    fn expr(&mut self, node: Node<'a>) -> Option<Expr> {
        Some(match node.kind(self.rti) {
            Kind::Variable(variable) => self.attribute(variable.attribute)?,
            Kind::Operand => self.operand(node)?,
            Kind::Call(call) => self.call(&call)?,
            Kind::AnyAll { call, all } => self.any_all(&call, all)?,
            Kind::And(nodes) => Expr::And(self.all(&nodes)?),
            Kind::Or(nodes) => Expr::Or(self.all(&nodes)?),
            Kind::Not(node) => Expr::Not(Box::new(self.expr(node)?)),
            Kind::IsNull(node) => Expr::IsNull(Box::new(self.expr(node)?)),
            Kind::IsNotNull(node) => Expr::IsNotNull(Box::new(self.expr(node)?)),
            Kind::Is(node, truth) => Expr::Is(Box::new(self.expr(node)?), truth_of(truth)),
            Kind::Aggregate(_) | Kind::Other => return None,
        })
    }

    /// The value of the next operand; NULL while it is not known.
    fn next_value(&mut self, node: Node<'a>) -> Option<Datum> {
        let at = self.operands.len();
        self.operands.push(node);
        self.values.and_then(|values| *values.get(at)?)
    }

    fn operand(&mut self, node: Node<'a>) -> Option<Expr> {
        let layout = AttributeLayout::of_type(node.type_oid());
        if !semantics::is_known(layout.type_oid) {
            return None;
        }
        let value = self.next_value(node);
        // SAFETY: by the contract of `translate`, a datum of this type.
        let value = value.map(|datum| unsafe { owned_value(datum, &layout) });
        Some(Expr::Constant(layout.column_type, value))
    }

    fn call(&mut self, call: &Call<'a>) -> Option<Expr> {
        self.is_exact(call).then_some(())?;
        Some(Expr::Call {
            function: call.function.clone(),
            arguments: self.all(&call.arguments)?,
        })
    }

    fn any_all(&mut self, call: &Call<'a>, all: bool) -> Option<Expr> {
        self.is_exact(call).then_some(())?;
        let &[left, array] = call.arguments.as_slice() else {
            return None;
        };
        let left = Box::new(self.expr(left)?);
        if !matches!(array.kind(self.rti), Kind::Operand) {
            return None;
        }
        let layout = AttributeLayout::of_type(array.element_type()?);
        if !semantics::is_known(layout.type_oid) {
            return None;
        }
        let is_bound = self.values.is_some();
        let values = match self.next_value(array) {
            // SAFETY: by the contract of `translate`, an array of such elements.
            Some(datum) => unsafe { array_values(datum, &layout)? },
            // `op ANY (NULL)` is NULL, as of an array of one NULL.
            None if is_bound => vec![None],
            None => Vec::new(),
        };
        Some(Expr::AnyAll {
            function: call.function.clone(),
            left,
            element: layout.column_type,
            values,
            all,
        })
    }

    /// Whether the function computes the same on stored text.
    fn is_exact(&self, call: &Call<'a>) -> bool {
        let stored_as_text = |node: &Node<'a>| {
            let type_oid = node.element_type().unwrap_or(node.type_oid());
            AttributeLayout::of_type(type_oid).column_type == ColumnType::Text
        };
        !call.arguments.iter().any(stored_as_text)
            || semantics::is_exact_of_text(&call.function, call.collation)
    }

    fn aggregate(&mut self, node: Node<'a>) -> Option<AggregateCall> {
        let Kind::Aggregate(aggregate) = node.kind(self.rti) else {
            return None;
        };
        semantics::is_exact_aggregate(&aggregate.name, aggregate.collation).then_some(())?;
        let argument = match aggregate.argument {
            // Counting asks only whether there is a value.
            Some(node) if aggregate.name == "count(any)" => {
                Some(self.column(node).or_else(|| self.expr(node))?)
            }
            Some(node) => Some(self.expr(node)?),
            None => None,
        };
        let filter = match aggregate.filter {
            Some(node) => Some(self.expr(node)?),
            None => None,
        };
        Some(AggregateCall {
            name: aggregate.name,
            argument,
            filter,
        })
    }
}

fn truth_of(truth: Truth) -> plan::Truth {
    match truth {
        Truth::True => plan::Truth::True,
        Truth::NotTrue => plan::Truth::NotTrue,
        Truth::False => plan::Truth::False,
        Truth::NotFalse => plan::Truth::NotFalse,
        Truth::Unknown => plan::Truth::Unknown,
        Truth::NotUnknown => plan::Truth::NotUnknown,
    }
}
