//! Evaluating a compiled expression.

use arrow_buffer::BooleanBuffer;
use howdah_columnar::{Column, ColumnType, OwnedValue};

use super::Input;
use super::compile::Node;
use super::subset::Subset;
use super::truths::{Truths, scattered};
use crate::error::VectorError;
use crate::functions::kernel::{mismatch, nulls_of};
use crate::functions::{Function, Kernel, Operand};
use crate::plan::Truth;

/// If fewer rows than one in this many are left, only those are evaluated.
const SPARSE: usize = 8;

impl Node {
    /// A value for each row.
    pub(super) fn column(&self, input: &dyn Input) -> Result<Column, VectorError> {
        match self {
            Self::Column(index, ty) => {
                let column = input.column(*index)?;
                if column.column_type() != *ty || column.len() != input.row_count() {
                    return Err(mismatch());
                }
                Ok(column)
            }
            Self::Constant(ty, value) => repeated(*ty, value.as_ref(), input),
            Self::Null { ty, arguments } => {
                for argument in arguments {
                    argument.evaluate_for_errors(input)?;
                }
                repeated(*ty, None, input)
            }
            Self::Call {
                function,
                arguments,
            } => match function.kernel {
                Kernel::Unary(kernel) => match arguments.as_slice() {
                    [argument] => kernel(&argument.column(input)?),
                    _ => Err(mismatch()),
                },
                Kernel::Binary(kernel) => with_operands(arguments, input, kernel),
                Kernel::Compare { .. } | Kernel::Like { .. } => self.boolean_column(input),
                Kernel::Zoned(_) => Err(mismatch()),
            },
            Self::Zoned {
                function,
                zone,
                arguments,
            } => match (function.kernel, arguments.as_slice()) {
                (Kernel::Zoned(kernel), [argument]) => {
                    kernel(zone, &[Operand::Rows(&argument.column(input)?)])
                }
                (Kernel::Zoned(kernel), _) => {
                    with_operands(arguments, input, |left, right| kernel(zone, &[left, right]))
                }
                _ => Err(mismatch()),
            },
            Self::Foreign(foreign) => {
                if let &[(index, _)] = foreign.columns.as_slice()
                    && let Some(coded) = input.coded(index)
                    && let Some(values) = foreign.evaluate_coded(&coded)?
                {
                    return Ok(values);
                }
                let columns = foreign.columns.iter().map(|&(at, _)| input.column(at));
                let columns = columns.collect::<Result<_, _>>()?;
                foreign.evaluate(columns, input.row_count())
            }
            _ => self.boolean_column(input),
        }
    }

    fn boolean_column(&self, input: &dyn Input) -> Result<Column, VectorError> {
        Ok(Column::Bool(self.truths(input)?.into_array()))
    }

    /// Evaluates what may raise an error.
    pub(super) fn evaluate_for_errors(&self, input: &dyn Input) -> Result<(), VectorError> {
        match self.can_fail() {
            true => self.column(input).map(|_| ()),
            false => Ok(()),
        }
    }

    /// The truth of each row.
    pub(super) fn truths(&self, input: &dyn Input) -> Result<Truths, VectorError> {
        let row_count = input.row_count();
        match self {
            Self::Constant(ColumnType::Bool, None) => Ok(Truths::all(None, row_count)),
            Self::Constant(_, Some(OwnedValue::Bool(value))) => {
                Ok(Truths::all(Some(*value), row_count))
            }
            Self::Call {
                function,
                arguments,
            } => match function.kernel {
                Kernel::Compare { op, compare, .. } => {
                    with_operands(arguments, input, |left, right| {
                        let nulls = nulls_of(left, right);
                        Ok(Truths::new(compare(op, left, right)?, nulls.as_ref()))
                    })
                }
                _ => self.truths_of_column(input),
            },
            Self::Like {
                text,
                like,
                negated,
            } => {
                let text = text.column(input)?;
                let found = like.matches(&text)?;
                let found = if *negated { !&found } else { found };
                Ok(Truths::new(found, text.nulls()))
            }
            Self::AnyAll(any_all) => any_all.truths(input),
            Self::And(parts) => all_of(parts, input),
            Self::Or(parts) => any_of(parts, input),
            Self::Not(of) => Ok(of.truths(input)?.not()),
            Self::Is(of, truth) => Ok(Truths::new(is(of, *truth, input)?, None)),
            Self::IsNull { of, negated } => {
                let is_null = of.is_null(input)?;
                let found = if *negated { !&is_null } else { is_null };
                Ok(Truths::new(found, None))
            }
            _ => self.truths_of_column(input),
        }
    }

    fn truths_of_column(&self, input: &dyn Input) -> Result<Truths, VectorError> {
        match self.column(input)? {
            Column::Bool(array) => Ok(Truths::of_array(&array)),
            _ => Err(mismatch()),
        }
    }

    fn is_null(&self, input: &dyn Input) -> Result<BooleanBuffer, VectorError> {
        let none = || BooleanBuffer::new_unset(input.row_count());
        if self.column_type() == ColumnType::Bool {
            return Ok(self.truths(input)?.is_null.unwrap_or_else(none));
        }
        let column = self.column(input)?;
        Ok(column.nulls().map_or_else(none, |nulls| !nulls.inner()))
    }

    /// Where it is true.
    pub(super) fn select(&self, input: &dyn Input) -> Result<BooleanBuffer, VectorError> {
        match self {
            Self::And(parts) if !parts.iter().skip(1).any(Self::can_fail) => {
                select_all(parts, input)
            }
            Self::Or(parts) => select_any(parts, input),
            Self::Not(of) => Ok(of.truths(input)?.is_false()),
            _ => Ok(self.truths(input)?.is_true),
        }
    }

    /// Whether evaluating it for all rows costs less than choosing rows.
    fn is_cheap(&self) -> bool {
        let is_plain = |node: &Self| matches!(node, Self::Column(..) | Self::Constant(..));
        match self {
            Self::Call {
                function,
                arguments,
            } => {
                matches!(function.kernel, Kernel::Compare { .. })
                    && !matches!(
                        function.arguments,
                        [ColumnType::Text | ColumnType::Bytes, ..]
                    )
                    && arguments.iter().all(is_plain)
            }
            Self::IsNull { of, .. } | Self::Is(of, _) => is_plain(of),
            node => is_plain(node),
        }
    }
}

fn repeated(
    ty: ColumnType,
    value: Option<&OwnedValue>,
    input: &dyn Input,
) -> Result<Column, VectorError> {
    let value = value.map(OwnedValue::as_value);
    Ok(Column::repeat(ty, value, input.row_count())?)
}

/// Calls a kernel of two arguments, constants as such unless both are.
fn with_operands<R>(
    arguments: &[Node],
    input: &dyn Input,
    kernel: impl FnOnce(Operand<'_>, Operand<'_>) -> Result<R, VectorError>,
) -> Result<R, VectorError> {
    match arguments {
        [left, Node::Constant(_, Some(right))] => {
            let left = left.column(input)?;
            kernel(Operand::Rows(&left), Operand::Same(right.as_value()))
        }
        [Node::Constant(_, Some(left)), right] => {
            let right = right.column(input)?;
            kernel(Operand::Same(left.as_value()), Operand::Rows(&right))
        }
        [left, right] => {
            let (left, right) = (left.column(input)?, right.column(input)?);
            kernel(Operand::Rows(&left), Operand::Rows(&right))
        }
        _ => Err(mismatch()),
    }
}

/// The bits of a boolean function of rows and one value; anything where a row is null.
pub(super) fn bits_with(
    function: &Function,
    rows: &Column,
    value: &OwnedValue,
) -> Result<BooleanBuffer, VectorError> {
    let (left, right) = (Operand::Rows(rows), Operand::Same(value.as_value()));
    match function.kernel {
        Kernel::Compare { op, compare, .. } => compare(op, left, right),
        Kernel::Binary(kernel) => match kernel(left, right)? {
            Column::Bool(array) => Ok(array.values().clone()),
            _ => Err(mismatch()),
        },
        Kernel::Unary(_) | Kernel::Like { .. } | Kernel::Zoned(_) => Err(mismatch()),
    }
}

fn is(of: &Node, truth: Truth, input: &dyn Input) -> Result<BooleanBuffer, VectorError> {
    Ok(match truth {
        Truth::True => of.select(input)?,
        Truth::NotTrue => !&of.select(input)?,
        Truth::False => of.truths(input)?.is_false(),
        Truth::NotFalse => of.truths(input)?.not_false(),
        Truth::Unknown => of.is_null(input)?,
        Truth::NotUnknown => !&of.is_null(input)?,
    })
}

/// The truth of a part for some of the rows; false for the others.
fn truths_of(part: &Node, rows: &BooleanBuffer, input: &dyn Input) -> Result<Truths, VectorError> {
    Ok(part.truths(&Subset::new(input, rows))?.scattered(rows))
}

fn all_of(parts: &[Node], input: &dyn Input) -> Result<Truths, VectorError> {
    let row_count = input.row_count();
    let mut all = Truths::all(Some(true), row_count);
    for (at, part) in parts.iter().enumerate() {
        if at == 0 {
            all = part.truths(input)?;
            continue;
        }
        let undecided = all.not_false();
        let count = undecided.count_set_bits();
        if count == 0 {
            break;
        }
        let is_worth_it = part.can_fail() || count * SPARSE < row_count && !part.is_cheap();
        all = match is_worth_it && count < row_count {
            true => all.and(&truths_of(part, &undecided, input)?),
            false => all.and(&part.truths(input)?),
        };
    }
    Ok(all)
}

fn any_of(parts: &[Node], input: &dyn Input) -> Result<Truths, VectorError> {
    let row_count = input.row_count();
    let mut any = Truths::all(Some(false), row_count);
    for (at, part) in parts.iter().enumerate() {
        if at == 0 {
            any = part.truths(input)?;
            continue;
        }
        let undecided = !&any.is_true;
        let count = undecided.count_set_bits();
        if count == 0 {
            break;
        }
        let is_worth_it = part.can_fail() || count * SPARSE < row_count && !part.is_cheap();
        any = match is_worth_it && count < row_count {
            true => any.or(&truths_of(part, &undecided, input)?),
            false => any.or(&part.truths(input)?),
        };
    }
    Ok(any)
}

/// Where all parts are true. Only the first may fail: which rows are false and which NULL is not
/// known of the parts before another one.
fn select_all(parts: &[Node], input: &dyn Input) -> Result<BooleanBuffer, VectorError> {
    let row_count = input.row_count();
    let mut selected = BooleanBuffer::new_set(row_count);
    for (at, part) in parts.iter().enumerate() {
        if at == 0 {
            selected = part.select(input)?;
            continue;
        }
        let count = selected.count_set_bits();
        if count == 0 {
            break;
        }
        selected = match count * SPARSE < row_count && !part.is_cheap() {
            true => {
                let found = part.select(&Subset::new(input, &selected))?;
                scattered(&found, &selected)
            }
            false => &selected & &part.select(input)?,
        };
    }
    Ok(selected)
}

/// Where any part is true.
fn select_any(parts: &[Node], input: &dyn Input) -> Result<BooleanBuffer, VectorError> {
    let row_count = input.row_count();
    let mut selected = BooleanBuffer::new_unset(row_count);
    for (at, part) in parts.iter().enumerate() {
        if at == 0 {
            selected = part.select(input)?;
            continue;
        }
        let undecided = !&selected;
        let count = undecided.count_set_bits();
        if count == 0 {
            break;
        }
        let is_worth_it = part.can_fail() || count * SPARSE < row_count && !part.is_cheap();
        selected = match is_worth_it && count < row_count {
            true => {
                let found = part.select(&Subset::new(input, &undecided))?;
                &selected | &scattered(&found, &undecided)
            }
            false => &selected | &part.select(input)?,
        };
    }
    Ok(selected)
}
