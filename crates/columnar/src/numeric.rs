//! Decoded numerics: unscaled integers, their scale, and the few values that are images.

use arrow_buffer::{NullBuffer, ScalarBuffer};

use crate::error::ColumnarError;
use crate::value::Numeric;

/// The unscaled values of a numeric column; 0 where a row is null or an image.
#[derive(Clone, Debug)]
pub enum NumericDigits {
    /// All fit 64 bits.
    Narrow(ScalarBuffer<i64>),
    /// Some need 128 bits.
    Wide(ScalarBuffer<i128>),
}

/// The display scales of a numeric column.
#[derive(Clone, Debug)]
pub enum NumericScales {
    /// Every row has this one.
    Constant(u16),
    /// One per row; meaningless where a row is null or an image.
    PerRow(ScalarBuffer<u16>),
}

/// Rows of a numeric column, decoded.
#[derive(Clone, Debug)]
pub struct NumericColumn {
    digits: NumericDigits,
    scales: NumericScales,
    /// Rows whose value is an image, ascending, and their images.
    image_rows: Vec<u32>,
    images: Option<arrow_array::BinaryViewArray>,
    nulls: Option<NullBuffer>,
    row_count: usize,
}

impl NumericColumn {
    /// Puts parts together: `image_rows` are the rows whose value is an image, ascending, and
    /// `images` are those, none of them null.
    ///
    /// # Errors
    ///
    /// [`ColumnarError::Corrupt`] when the parts do not agree.
    pub fn new(
        digits: NumericDigits,
        scales: NumericScales,
        image_rows: Vec<u32>,
        images: Option<arrow_array::BinaryViewArray>,
        nulls: Option<NullBuffer>,
    ) -> Result<Self, ColumnarError> {
        let row_count = match &digits {
            NumericDigits::Narrow(rows) => rows.len(),
            NumericDigits::Wide(rows) => rows.len(),
        };
        let agree = image_rows.len() == images.as_ref().map_or(0, arrow_array::Array::len)
            && image_rows.is_sorted_by(|a, b| a < b)
            && image_rows
                .last()
                .is_none_or(|&row| (row as usize) < row_count)
            && images
                .as_ref()
                .is_none_or(|images| arrow_array::Array::null_count(images) == 0)
            && nulls.as_ref().is_none_or(|nulls| nulls.len() == row_count)
            && match &scales {
                NumericScales::Constant(_) => true,
                NumericScales::PerRow(rows) => rows.len() == row_count,
            };
        if !agree {
            return Err(ColumnarError::corrupt("parts of a numeric chunk disagree"));
        }
        Ok(Self {
            digits,
            scales,
            image_rows,
            images,
            nulls,
            row_count,
        })
    }

    pub(crate) fn all_null(row_count: usize) -> Self {
        Self {
            digits: NumericDigits::Narrow(vec![0; row_count].into()),
            scales: NumericScales::Constant(0),
            image_rows: Vec::new(),
            images: None,
            nulls: Some(NullBuffer::new_null(row_count)),
            row_count,
        }
    }

    /// Rows in the column.
    pub fn len(&self) -> usize {
        self.row_count
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.row_count == 0
    }

    /// Which rows are valid; `None` when all are.
    pub fn nulls(&self) -> Option<&NullBuffer> {
        self.nulls.as_ref()
    }

    /// Rows that are null.
    pub fn null_count(&self) -> usize {
        self.nulls.as_ref().map_or(0, NullBuffer::null_count)
    }

    /// The unscaled values.
    pub fn digits(&self) -> &NumericDigits {
        &self.digits
    }

    /// The scales.
    pub fn scales(&self) -> &NumericScales {
        &self.scales
    }

    /// The rows whose value is an image, ascending.
    pub fn image_rows(&self) -> &[u32] {
        &self.image_rows
    }

    /// The images of [`image_rows`](Self::image_rows).
    pub(crate) fn images(&self) -> Option<&arrow_array::BinaryViewArray> {
        self.images.as_ref()
    }

    /// The whole column as 64-bit integers of one scale, when it is that.
    pub fn as_narrow(&self) -> Option<(&ScalarBuffer<i64>, u16)> {
        match (&self.digits, &self.scales) {
            (NumericDigits::Narrow(rows), NumericScales::Constant(scale))
                if self.image_rows.is_empty() =>
            {
                Some((rows, *scale))
            }
            _ => None,
        }
    }

    /// The value of a row; `None` is NULL.
    ///
    /// # Panics
    ///
    /// Panics when there is no such row.
    pub fn value(&self, row: usize) -> Option<Numeric<'_>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        if let Some(images) = &self.images
            && let Ok(index) = self.image_rows.binary_search(&(row as u32))
        {
            return Some(Numeric::Image(images.value(index)));
        }
        let unscaled = match &self.digits {
            NumericDigits::Narrow(rows) => rows[row].into(),
            NumericDigits::Wide(rows) => rows[row],
        };
        let scale = match &self.scales {
            NumericScales::Constant(scale) => *scale,
            NumericScales::PerRow(rows) => rows[row],
        };
        Some(Numeric::Small { unscaled, scale })
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        let digits = match &self.digits {
            NumericDigits::Narrow(rows) => rows.inner().capacity(),
            NumericDigits::Wide(rows) => rows.inner().capacity(),
        };
        let scales = match &self.scales {
            NumericScales::Constant(_) => 0,
            NumericScales::PerRow(rows) => rows.inner().capacity(),
        };
        let images = self
            .images
            .as_ref()
            .map_or(0, arrow_array::Array::get_array_memory_size);
        let nulls = self
            .nulls
            .as_ref()
            .map_or(0, |nulls| nulls.len().div_ceil(8));
        size_of::<Self>() + digits + scales + images + nulls + self.image_rows.capacity() * 4
    }
}

/// A signed 128-bit integer from its halves.
#[inline]
pub(crate) fn join(low: i64, high: i64) -> i128 {
    (i128::from(high) << 64) | i128::from(low as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_extreme_integers_join_again() {
        for value in [0, 1, -1, i128::MAX, i128::MIN, i64::MIN.into(), 1 << 64] {
            assert_eq!(join(value as i64, (value >> 64) as i64), value);
        }
    }
}
