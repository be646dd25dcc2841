//! What a column's values are made of: one tree of readers, or several for numerics.

use super::Planner;
use super::metadata::Native;
use super::reading::Reading;
use super::scalars::{Scalars, required};
use super::sorted::{Exceptions, Sorted};
use super::strings::Strings;
use crate::error::ColumnarError;
use crate::layout::{ChunkLayout, NumericLayout};
use crate::nodes::NodeTable;
use crate::numeric::join;
use crate::source::ByteSource;
use crate::types::ColumnType;
use crate::value::{Numeric, Value};

#[derive(Debug)]
pub(super) enum Root {
    AllNull,
    Scalars(Scalars),
    Strings(Strings),
    Numeric(Box<NumericRoot>),
}

#[derive(Debug)]
pub(super) struct NumericRoot {
    pub(super) low: Scalars,
    pub(super) high: Option<Scalars>,
    pub(super) scale: u16,
    pub(super) scales: Option<Scalars>,
    pub(super) images: Option<(Exceptions, Strings)>,
}

/// What a row of a numeric column has.
#[derive(Clone, Copy, Debug)]
pub(super) enum Digits {
    Null,
    Small {
        unscaled: i128,
        scale: u16,
    },
    /// The image of this number.
    Image(u32),
}

impl NumericRoot {
    pub(super) fn get<'a, S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
        bytes: &'a mut Vec<u8>,
    ) -> Result<Option<Value<'a>>, S::Error> {
        let number = match (self.digits(row, reading)?, &self.images) {
            (Digits::Null, _) => return Ok(None),
            (Digits::Small { unscaled, scale }, _) => Numeric::Small { unscaled, scale },
            (Digits::Image(at), Some((_, images))) if images.get(at, reading, bytes)? => {
                Numeric::Image(bytes)
            }
            (Digits::Image(_), _) => {
                return Err(ColumnarError::corrupt("a numeric image is missing").into());
            }
        };
        Ok(Some(Value::Numeric(number)))
    }

    /// What a row has, without reading its image.
    pub(super) fn digits<S: ByteSource + ?Sized>(
        &self,
        row: u32,
        reading: &mut Reading<'_, S>,
    ) -> Result<Digits, S::Error> {
        let Some(low) = self.low.get(row, reading)? else {
            return Ok(Digits::Null);
        };
        if let Some((rows, _)) = &self.images
            && let Some(at) = rows.find(row, reading)?
        {
            return Ok(Digits::Image(at));
        }
        let unscaled = match &self.high {
            None => (low as i64).into(),
            Some(high) => join(low as i64, required(high, row, reading)? as i64),
        };
        let scale = match &self.scales {
            None => self.scale,
            Some(scales) => required(scales, row, reading)? as u16,
        };
        Ok(Digits::Small { unscaled, scale })
    }
}

/// The type that a column's values have as bits; `None`: they are strings.
fn native_of(ty: ColumnType) -> Option<Native> {
    Some(match ty {
        ColumnType::Bool => Native::Bool,
        ColumnType::Int16 => Native::Signed(2),
        ColumnType::Int32 => Native::Signed(4),
        ColumnType::Int64 | ColumnType::Numeric => Native::Signed(8),
        ColumnType::Float32 => Native::Float(4),
        ColumnType::Float64 => Native::Float(8),
        ColumnType::Text | ColumnType::Bytes | ColumnType::Fixed { .. } => return None,
    })
}

impl Planner<'_> {
    pub(super) fn root(
        &mut self,
        ty: ColumnType,
        layout: ChunkLayout,
        row_count: usize,
        nodes: &NodeTable,
    ) -> Result<Root, ColumnarError> {
        let mut trees = nodes.roots();
        let mut next = || {
            let tree = trees.next();
            tree.ok_or_else(|| ColumnarError::corrupt("a tree of nodes is missing"))
        };
        Ok(match (layout, native_of(ty)) {
            (ChunkLayout::AllNull, _) => Root::AllNull,
            (ChunkLayout::Array, Some(native)) => {
                Root::Scalars(self.scalars(next()?, native, row_count)?)
            }
            (ChunkLayout::Grouped, Some(_)) => {
                return Err(ColumnarError::corrupt("a column of a group has no strings"));
            }
            (ChunkLayout::Array | ChunkLayout::Grouped, None) => {
                let is_text = ty == ColumnType::Text;
                Root::Strings(self.strings(next()?, is_text, row_count)?)
            }
            (
                ChunkLayout::Numeric(NumericLayout {
                    wide,
                    scale,
                    scales_per_row,
                    has_images,
                }),
                _,
            ) => {
                let long = Native::Signed(8);
                let low = self.scalars(next()?, long, row_count)?;
                let high = match wide {
                    true => Some(self.scalars(next()?, long, row_count)?),
                    false => None,
                };
                let scales = match scales_per_row {
                    true => Some(self.scalars(next()?, Native::Unsigned(2), row_count)?),
                    false => None,
                };
                let images = match has_images {
                    true => {
                        let count = nodes.image_count();
                        let rows = self.scalars(next()?, Native::Unsigned(4), count)?;
                        let images = self.strings(next()?, false, count)?;
                        // Digits of a row with an image have no meaning: it must be found.
                        let rows = Sorted::checked(rows, count as u32, row_count as u64);
                        Some((Exceptions { rows, offset: 0 }, images))
                    }
                    false => None,
                };
                Root::Numeric(Box::new(NumericRoot {
                    low,
                    high,
                    scale,
                    scales,
                    images,
                }))
            }
        })
    }
}
