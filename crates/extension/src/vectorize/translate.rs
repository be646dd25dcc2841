//! Translates expression trees into the engine's description.
//!
//! The same trees are translated twice: by the planner, to learn whether the engine accepts them
//! and which operands they have; and by the executor, with the values of the operands in their
//! places. A subexpression that the engine does not know becomes *foreign* as a whole.
//!
//! Invariant: both visit operands in the same order. Those of foreign expressions have no number,
//! so the planner alone decides which expressions are foreign, in each place where one is met: of
//! two equal ones, one may be foreign and the other not. The executor follows its decisions, and
//! compares the types of operands before it looks at their values.
//!
//! ```text
//!   conjunct, key, argument, part of AND or OR ── expr ─┬─ known in all its parts: Expr
//!                                                       └─ otherwise: Expr::Foreign, or declined
//! ```
//!
//! Of AND and OR the known parts stay known, so that the others are evaluated for fewer rows. In
//! any other expression nothing is gained: converting values in between costs more than a call.

use std::sync::Arc;

use howdah_bridge::upper::expr::{Call, Kind, Truth};
use howdah_bridge::upper::{Datum, Node, Oid, Operand, Reason, Shape, Stage};
use howdah_columnar::{ColumnType, OwnedValue};
use howdah_vector::foreign::{Exchange, Foreign};
use howdah_vector::functions::{self, Function};
use howdah_vector::plan::{self, AggregateCall, Expr, GroupOrder, OrderBy, Output, Query};
use howdah_vector::zone::Zone;
use howdah_vector::{Declined, expr};

use super::{semantics, zone};
use crate::settings;
use crate::types::{AttributeLayout, TableLayout, array_values, owned_value, padded};

/// The deepest nesting of expressions that the engine is given. Its threads walk through them by
/// recursion, with small stacks and without PostgreSQL's check of the depth; expressions that are
/// nested deeper are evaluated by PostgreSQL.
const MOST_LEVELS: usize = 256;

/// The most different expressions that are foreign. Each is compared with all before it, and costs
/// a call for each row; an AND or OR of more such parts is foreign as a whole.
const MOST_FOREIGN: usize = 256;

/// A query in the engine's description.
pub struct Translated<'a> {
    pub query: Query,
    /// The attribute that each column of the query corresponds to.
    pub attributes: Vec<usize>,
    /// The operands, in the order in which they were met.
    pub operands: Vec<Node<'a>>,
    /// The foreign expressions, in the order in which they are numbered.
    pub foreign: Vec<ForeignPart<'a>>,
    /// Of each expression that may be foreign, in the order in which they were met, whether it is.
    pub decisions: Vec<bool>,
}

/// A part of the query that PostgreSQL evaluates.
pub struct ForeignPart<'a> {
    pub node: Node<'a>,
    /// The attributes that it reads.
    pub attributes: Vec<usize>,
    /// The conjunct of the filter that it is part of; `None` if it is evaluated for rows that have
    /// passed the filter.
    pub conjunct: Option<usize>,
}

/// What the executor knows of a query that was planned.
pub struct Bound<'b> {
    /// The operands and their values.
    pub operands: &'b [Operand],
    /// What the planner decided: see [`Translated::decisions`].
    pub decisions: &'b [bool],
}

/// Translates a query, or returns the reason why it cannot. `bound` is given by the executor;
/// `exchange` is that of the run.
///
/// # Safety
/// Values are valid datums of the types that the operands have.
pub unsafe fn translate<'a>(
    shape: &Shape<'a>,
    layout: &TableLayout,
    bound: Option<&Bound<'_>>,
    exchange: Arc<Exchange>,
) -> Result<Translated<'a>, Reason> {
    let mut translator = Translator {
        rti: shape.rti,
        layout,
        attributes: Vec::new(),
        operands: Vec::new(),
        foreign: Vec::new(),
        decisions: Vec::new(),
        conjunct: None,
        may_be_skipped: false,
        levels: 0,
        bound,
        exchange,
    };
    let mut filter = Vec::with_capacity(shape.filter.len());
    for (i, &conjunct) in shape.filter.iter().enumerate() {
        translator.conjunct = Some(i);
        filter.push(translator.expr(conjunct)?);
    }
    translator.conjunct = None;
    let output = match shape.stage {
        Stage::Group => {
            for &key in &shape.keys {
                semantics::groups_as_stored(key, translator.padded_to(key).is_some())?;
            }
            let keys = translator.all(&shape.keys)?;
            let is_constant = |key: &Expr| matches!(key, Expr::Constant(..));
            if keys.iter().any(is_constant) {
                return Err(Reason::ConstantKey);
            }
            let aggregates = (shape.aggregates.iter())
                .map(|&node| translator.aggregate(node))
                .collect::<Result<Vec<_>, _>>()?;
            let first = (shape.order.iter())
                .map(|order| {
                    semantics::orders_as_stored(order.node)?;
                    let mut returned = shape.keys.iter().chain(&shape.aggregates);
                    let column = returned.position(|known| known.equals(order.node));
                    Ok(GroupOrder {
                        column: column.ok_or(Reason::Expression)?,
                        descending: order.descending,
                        nulls_first: order.nulls_first,
                    })
                })
                .collect::<Result<Vec<_>, Reason>>()?;
            match first.is_empty() {
                true => Output::Aggregate { keys, aggregates },
                false => Output::FirstGroups {
                    keys,
                    aggregates,
                    order: first,
                    limit: usize::try_from(shape.limit).map_err(|_| Reason::Limit)?,
                },
            }
        }
        Stage::First => {
            let columns = (shape.columns.iter())
                .map(|&node| translator.column(node))
                .collect::<Result<Vec<_>, _>>()?;
            let order = (shape.order.iter())
                .map(|order| {
                    semantics::orders_as_stored(order.node)?;
                    Ok(OrderBy {
                        expr: translator.expr(order.node)?,
                        descending: order.descending,
                        nulls_first: order.nulls_first,
                    })
                })
                .collect::<Result<Vec<_>, _>>()?;
            Output::First {
                columns,
                order,
                limit: usize::try_from(shape.limit).map_err(|_| Reason::Limit)?,
            }
        }
    };
    let of_attribute = |&attribute: &usize| layout.attributes[attribute].column_type;
    Ok(Translated {
        query: Query {
            columns: translator.attributes.iter().map(of_attribute).collect(),
            filter,
            output,
        },
        attributes: translator.attributes,
        operands: translator.operands,
        foreign: translator.foreign,
        decisions: translator.decisions,
    })
}

struct Translator<'t, 'a> {
    rti: i32,
    layout: &'t TableLayout,
    attributes: Vec<usize>,
    operands: Vec<Node<'a>>,
    foreign: Vec<ForeignPart<'a>>,
    decisions: Vec<bool>,
    /// The conjunct that is being translated.
    conjunct: Option<usize>,
    /// Whether PostgreSQL evaluates what is being translated only for rows that other parts of the
    /// same expression leave. Operands are evaluated before any row is read, so that one which may
    /// fail is no operand there.
    may_be_skipped: bool,
    /// The levels of expressions above the one that is being translated.
    levels: usize,
    exchange: Arc<Exchange>,
    bound: Option<&'t Bound<'t>>,
}

impl<'a> Translator<'_, 'a> {
    fn all(&mut self, nodes: &[Node<'a>]) -> Result<Vec<Expr>, Reason> {
        nodes.iter().map(|&node| self.expr(node)).collect()
    }

    /// A column of the table, whatever its type.
    fn column(&mut self, node: Node<'a>) -> Result<Expr, Reason> {
        match node.kind(self.rti) {
            Kind::Variable(variable) => self.place_of(variable.attribute).map(Expr::Column),
            Kind::Other(reason) => Err(reason),
            _ => Err(Reason::Expression),
        }
    }

    /// The place of an attribute among the query's columns.
    fn place_of(&mut self, attribute: usize) -> Result<usize, Reason> {
        let known = self.layout.attributes.get(attribute);
        if known.is_none_or(|known| known.dropped) {
            return Err(Reason::Expression);
        }
        let place = self.attributes.iter().position(|&known| known == attribute);
        let place = place.unwrap_or_else(|| {
            self.attributes.push(attribute);
            self.attributes.len() - 1
        });
        Ok(place)
    }

    /// An expression, known or foreign.
    fn expr(&mut self, node: Node<'a>) -> Result<Expr, Reason> {
        howdah_bridge::check_for_interrupts!();
        let place = self.decisions.len();
        if let Some(bound) = self.bound {
            let is_foreign = *bound.decisions.get(place).ok_or(Reason::Expression)?;
            self.decisions.push(is_foreign);
            return match is_foreign {
                true => self.foreign(node),
                false => self.known(node),
            };
        }
        self.decisions.push(false);
        let before = (
            self.attributes.len(),
            self.operands.len(),
            self.foreign.len(),
        );
        let known = self.known(node).and_then(|known| {
            let types: Vec<ColumnType> = (self.attributes.iter())
                .map(|&attribute| self.layout.attributes[attribute].column_type)
                .collect();
            let compiled = expr::Compiled::compile(&known, &types);
            compiled.map(|_| known).map_err(reason_of)
        });
        known.or_else(|reason| {
            self.attributes.truncate(before.0);
            self.operands.truncate(before.1);
            self.foreign.truncate(before.2);
            self.decisions.truncate(place);
            self.decisions.push(true);
            self.foreign(node).map_err(|why_not| match why_not {
                Reason::Expression => reason,
                why_not => why_not,
            })
        })
    }

    /// An expression that PostgreSQL evaluates, if it can.
    fn foreign(&mut self, node: Node<'a>) -> Result<Expr, Reason> {
        let attributes = node.foreign_attributes(self.rti)?;
        let columns = attributes.iter().map(|&attribute| {
            let place = self.place_of(attribute)?;
            Ok((place, self.layout.attributes[attribute].column_type))
        });
        let columns = columns.collect::<Result<_, Reason>>()?;
        let mut known = self.foreign.iter();
        let place = match known.position(|known| known.node.equals(node)) {
            Some(place) => place,
            None if self.foreign.len() == MOST_FOREIGN => return Err(Reason::Expression),
            None => {
                self.foreign.push(ForeignPart {
                    node,
                    attributes,
                    conjunct: self.conjunct,
                });
                self.foreign.len() - 1
            }
        };
        Ok(Expr::Foreign(Foreign {
            place,
            column_type: AttributeLayout::of_type(node.type_oid()).column_type,
            columns,
            exchange: self.exchange.clone(),
        }))
    }

    /// Parts of AND or OR: one of them at least must be known.
    fn parts(&mut self, nodes: &[Node<'a>]) -> Result<Vec<Expr>, Reason> {
        let mut parts = Vec::with_capacity(nodes.len());
        for (i, &node) in nodes.iter().enumerate() {
            // The first part decides whether the others are evaluated.
            let part = self.skipped(i > 0, |translator| translator.expr(node));
            parts.push(part?);
        }
        match parts.iter().all(|part| matches!(part, Expr::Foreign(_))) {
            true => Err(Reason::Expression),
            false => Ok(parts),
        }
    }

    /// Translates a part that PostgreSQL may evaluate for fewer rows than the whole.
    fn skipped<T>(&mut self, may_be: bool, translate: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.may_be_skipped;
        self.may_be_skipped |= may_be;
        let translated = translate(self);
        self.may_be_skipped = before;
        translated
    }

    /// An expression that is known but for parts of AND and OR.
    fn known(&mut self, node: Node<'a>) -> Result<Expr, Reason> {
        if self.levels == MOST_LEVELS {
            return Err(Reason::Expression);
        }
        self.levels += 1;
        let known = self.known_at_this_level(node);
        self.levels -= 1;
        known
    }

    fn known_at_this_level(&mut self, node: Node<'a>) -> Result<Expr, Reason> {
        Ok(match node.kind(self.rti) {
            Kind::Variable(variable) => Expr::Column(self.place_of(variable.attribute)?),
            Kind::Operand => self.operand(node)?,
            Kind::Call(call) => self.call(&call)?,
            Kind::AnyAll { call, all } => self.any_all(&call, all)?,
            Kind::And(nodes) => Expr::And(self.parts(&nodes)?),
            Kind::Or(nodes) => Expr::Or(self.parts(&nodes)?),
            Kind::Not(node) => Expr::Not(Box::new(self.known(node)?)),
            Kind::IsNull(node) => Expr::IsNull(Box::new(self.known(node)?)),
            Kind::IsNotNull(node) => Expr::IsNotNull(Box::new(self.known(node)?)),
            Kind::Is(node, truth) => Expr::Is(Box::new(self.known(node)?), truth_of(truth)),
            Kind::Aggregate(_) => return Err(Reason::Expression),
            Kind::Other(reason) => return Err(reason),
        })
    }

    /// The value of the next operand; NULL while it is unknown.
    fn next_value(&mut self, node: Node<'a>) -> Result<Option<Datum>, Reason> {
        if self.may_be_skipped && node.may_fail() {
            return Err(Reason::Expression);
        }
        let at = self.operands.len();
        self.operands.push(node);
        let Some(bound) = self.bound else {
            return Ok(None);
        };
        let planned = bound.operands.get(at).ok_or(Reason::Expression)?;
        match planned.type_oid == node.type_oid() {
            true => Ok(planned.value),
            false => Err(Reason::Expression),
        }
    }

    fn operand(&mut self, node: Node<'a>) -> Result<Expr, Reason> {
        known(AttributeLayout::of_type(node.type_oid()).type_oid)?;
        self.constant(node, Stored::Known)
    }

    /// The value of an operand of any type.
    fn constant(&mut self, node: Node<'a>, stored: Stored) -> Result<Expr, Reason> {
        let layout = AttributeLayout::of_type(node.type_oid());
        let value = self.next_value(node)?;
        // SAFETY: by the contract of `translate`, a datum of this type.
        let value = value.map(|datum| unsafe { owned_value(datum, &layout) });
        let value = value.map(|value| value.ok_or(Reason::Expression));
        let value = value.transpose()?.map(|value| stored.form_of(value));
        Ok(Expr::Constant(layout.column_type, value))
    }

    /// The characters of the values, if the expression is a column of `char(n)`.
    fn padded_to(&self, node: Node<'a>) -> Option<u32> {
        match node.kind(self.rti) {
            Kind::Variable(variable) => {
                let attribute = self.layout.attributes.get(variable.attribute)?;
                (attribute.padded_to).filter(|_| attribute.column_type == ColumnType::Text)
            }
            _ => None,
        }
    }

    /// How values are made comparable with the expression by their stored form, if they are.
    fn comparable(&self, node: Node<'a>) -> Result<Stored, Reason> {
        let type_oid = AttributeLayout::of_type(node.type_oid()).type_oid;
        match self.padded_to(node) {
            Some(characters) => Ok(Stored::Padded(characters)),
            None if semantics::is_equal_as_stored(type_oid) => Ok(Stored::AsIs),
            None => Err(Reason::Type(type_oid)),
        }
    }

    /// A test for equality, as one of stored values: columns with columns that are stored alike,
    /// or with operands.
    fn equality(&mut self, call: &Call<'a>, function: &str) -> Result<Expr, Reason> {
        self.exact_equality(call, function)?;
        let rti = self.rti;
        let is_column = |node: &Node<'a>| matches!(node.kind(rti), Kind::Variable(_));
        let mut columns = call.arguments.iter().filter(|node| is_column(node));
        let column = *columns.next().ok_or(Reason::Expression)?;
        let stored = self.comparable(column)?;
        for &other in columns {
            if self.comparable(other)? != stored {
                return Err(Reason::Type(other.type_oid()));
            }
        }
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for &node in &call.arguments {
            arguments.push(match node.kind(self.rti) {
                Kind::Variable(_) => self.known(node)?,
                Kind::Operand => self.constant(node, stored)?,
                _ => return Err(Reason::Expression),
            });
        }
        Ok(Expr::Call {
            function: function.to_owned(),
            arguments,
        })
    }

    /// Declines a test for equality that is disabled, or not that of stored values.
    fn exact_equality(&self, call: &Call<'a>, function: &str) -> Result<(), Reason> {
        enabled(&call.function)?;
        match function {
            "texteq" | "textne" => semantics::exact_of_text(function, call.collation),
            _ => Ok(()),
        }
    }

    fn call(&mut self, call: &Call<'a>) -> Result<Expr, Reason> {
        if let Some(function) = semantics::equality_as_stored(&call.function) {
            return self.equality(call, function);
        }
        self.exact(call)?;
        let function = call.function.clone();
        let arguments = (call.arguments.iter())
            .map(|&argument| self.known(argument))
            .collect::<Result<_, _>>()?;
        Ok(match needs_zone(&function) {
            true => Expr::Zoned {
                function,
                // Plans outlive settings of the session: the zone is that of the run.
                zone: match self.bound {
                    Some(_) => zone::of_session(),
                    None => Arc::new(Zone::utc()),
                },
                arguments,
            },
            false => Expr::Call {
                function,
                arguments,
            },
        })
    }

    fn any_all(&mut self, call: &Call<'a>, all: bool) -> Result<Expr, Reason> {
        let &[left, array] = call.arguments.as_slice() else {
            return Err(Reason::Expression);
        };
        let (function, stored) = match semantics::equality_as_stored(&call.function) {
            Some(function) => {
                self.exact_equality(call, function)?;
                (function.to_owned(), self.comparable(left)?)
            }
            None => {
                self.exact(call)?;
                (call.function.clone(), Stored::Known)
            }
        };
        let left = Box::new(self.known(left)?);
        if !matches!(array.kind(self.rti), Kind::Operand) {
            return Err(Reason::Expression);
        }
        let element = array.element_type().ok_or(Reason::Type(array.type_oid()))?;
        let layout = AttributeLayout::of_type(element);
        if stored == Stored::Known {
            known(layout.type_oid)?;
        }
        let is_bound = self.bound.is_some();
        let values = match self.next_value(array)? {
            // SAFETY: by the contract of `translate`, an array of such elements.
            Some(datum) => unsafe { array_values(datum, &layout) }.ok_or(Reason::Expression)?,
            // `op ANY (NULL)` is NULL, as with an array of one NULL.
            None if is_bound => vec![None],
            None => Vec::new(),
        };
        let values = values.into_iter();
        let values = values.map(|value| Some(stored.form_of(value?)));
        Ok(Expr::AnyAll {
            function,
            left,
            element: layout.column_type,
            values: values.collect(),
            all,
        })
    }

    /// Declines a function that is disabled, that depends on other settings than the time zone, or
    /// that gives another result on stored text.
    fn exact(&self, call: &Call<'a>) -> Result<(), Reason> {
        enabled(&call.function)?;
        if call.is_stable && !needs_zone(&call.function) {
            return Err(Reason::Function(call.function.clone()));
        }
        let stored_as_text = |node: &Node<'a>| {
            let type_oid = node.element_type().unwrap_or(node.type_oid());
            AttributeLayout::of_type(type_oid).column_type == ColumnType::Text
        };
        match call.arguments.iter().any(stored_as_text) {
            true => semantics::exact_of_text(&call.function, call.collation),
            false => semantics::stores_text_of(&call.function),
        }
    }

    fn aggregate(&mut self, node: Node<'a>) -> Result<AggregateCall, Reason> {
        let aggregate = match node.kind(self.rti) {
            Kind::Aggregate(aggregate) => aggregate,
            Kind::Other(reason) => return Err(reason),
            _ => return Err(Reason::Expression),
        };
        enabled(&aggregate.name)?;
        semantics::exact_aggregate(&aggregate.name, aggregate.collation)?;
        let argument = self.skipped(aggregate.filter.is_some(), |translator| {
            Ok(match aggregate.argument {
                // Counting tests only whether there is a value.
                Some(node) if aggregate.name == "count(any)" => {
                    Some(translator.column(node).or_else(|_| translator.expr(node))?)
                }
                Some(node) => Some(translator.expr(node)?),
                None => None,
            })
        })?;
        let filter = match aggregate.filter {
            Some(node) => Some(self.expr(node)?),
            None => None,
        };
        Ok(AggregateCall {
            name: aggregate.name,
            argument,
            filter,
        })
    }
}

/// What makes operands comparable with a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    /// Nothing: the engine knows their type.
    Known,
    /// Nothing: their equality is that of their stored form.
    AsIs,
    /// Blanks up to so many characters.
    Padded(u32),
}

impl Stored {
    fn form_of(self, value: OwnedValue) -> OwnedValue {
        match self {
            Stored::Padded(characters) => padded::as_stored(value, characters),
            Stored::Known | Stored::AsIs => value,
        }
    }
}

fn enabled(name: &str) -> Result<(), Reason> {
    match settings::is_disabled_function(name) {
        true => Err(Reason::Disabled(name.to_owned())),
        false => Ok(()),
    }
}

fn needs_zone(function: &str) -> bool {
    functions::find(function).is_some_and(Function::needs_zone)
}

fn known(type_oid: Oid) -> Result<(), Reason> {
    match semantics::is_known(type_oid) {
        true => Ok(()),
        false => Err(Reason::Type(type_oid)),
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

/// Why the engine declines a query.
pub fn reason_of(declined: Declined) -> Reason {
    match declined {
        Declined::Function { name } => Reason::Function(name),
        Declined::Aggregate { name } => Reason::Aggregate(name),
        Declined::Types { name } => Reason::Arguments(name),
        _ => Reason::Expression,
    }
}
