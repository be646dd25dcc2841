//! Numerics under construction, as narrow as the values so far allow: `i64` digits with
//! one scale until a value needs more.

use super::validity::ValidityBuilder;
use crate::value::Numeric;

/// The digits of every row; 0 where the row is null or an image.
#[derive(Clone, Debug)]
pub(crate) enum Digits {
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
}

/// The scale of every row.
#[derive(Clone, Debug)]
pub(crate) enum Scales {
    /// One scale for all rows; `None` until the first small value.
    Constant(Option<u16>),
    PerRow(Vec<u16>),
}

/// Typed rows of a numeric column.
#[derive(Clone, Debug)]
pub struct NumericBuilder {
    pub(crate) digits: Digits,
    pub(crate) scales: Scales,
    /// Rows whose value is an image, ascending.
    pub(crate) image_rows: Vec<u32>,
    /// End of each image within `image_bytes`.
    pub(crate) image_ends: Vec<usize>,
    pub(crate) image_bytes: Vec<u8>,
    pub(crate) validity: ValidityBuilder,
}

impl Default for NumericBuilder {
    fn default() -> Self {
        Self {
            digits: Digits::Narrow(Vec::new()),
            scales: Scales::Constant(None),
            image_rows: Vec::new(),
            image_ends: Vec::new(),
            image_bytes: Vec::new(),
            validity: ValidityBuilder::default(),
        }
    }
}

impl NumericBuilder {
    #[inline]
    pub(crate) fn push(&mut self, value: Numeric<'_>) {
        match value {
            Numeric::Small { unscaled, scale } => {
                self.push_scale(scale);
                self.push_digits(unscaled);
            }
            Numeric::Image(image) => {
                self.image_rows.push(self.validity.len() as u32);
                self.image_bytes.extend_from_slice(image);
                self.image_ends.push(self.image_bytes.len());
                self.push_placeholder();
            }
        }
        self.validity.push_valid();
    }

    #[inline]
    pub(crate) fn push_null(&mut self) {
        self.push_placeholder();
        self.validity.push_null();
    }

    #[inline]
    fn push_digits(&mut self, unscaled: i128) {
        match &mut self.digits {
            Digits::Narrow(rows) => match i64::try_from(unscaled) {
                Ok(narrow) => rows.push(narrow),
                Err(_) => {
                    let mut wide: Vec<i128> = rows.iter().map(|&v| v.into()).collect();
                    wide.push(unscaled);
                    self.digits = Digits::Wide(wide);
                }
            },
            Digits::Wide(rows) => rows.push(unscaled),
        }
    }

    #[inline]
    fn push_scale(&mut self, scale: u16) {
        match &mut self.scales {
            Scales::Constant(Some(constant)) if *constant == scale => {}
            Scales::Constant(None) => self.scales = Scales::Constant(Some(scale)),
            Scales::Constant(Some(constant)) => {
                let mut rows = vec![*constant; self.validity.len()];
                rows.push(scale);
                self.scales = Scales::PerRow(rows);
            }
            Scales::PerRow(rows) => rows.push(scale),
        }
    }

    /// The entry in `digits` and `scales` of a null or an image.
    #[inline]
    fn push_placeholder(&mut self) {
        match &mut self.digits {
            Digits::Narrow(rows) => rows.push(0),
            Digits::Wide(rows) => rows.push(0),
        }
        if let Scales::PerRow(rows) = &mut self.scales {
            rows.push(rows.last().copied().unwrap_or(0));
        }
    }

    pub(crate) fn image(&self, index: usize) -> &[u8] {
        let start = if index == 0 {
            0
        } else {
            self.image_ends[index - 1]
        };
        &self.image_bytes[start..self.image_ends[index]]
    }

    pub(crate) fn value(&self, row: usize) -> Option<Numeric<'_>> {
        if !self.validity.is_valid(row) {
            return None;
        }
        if !self.image_rows.is_empty()
            && let Ok(index) = self.image_rows.binary_search(&(row as u32))
        {
            return Some(Numeric::Image(self.image(index)));
        }
        let unscaled = match &self.digits {
            Digits::Narrow(rows) => rows[row].into(),
            Digits::Wide(rows) => rows[row],
        };
        let scale = match &self.scales {
            Scales::Constant(scale) => scale.unwrap_or(0),
            Scales::PerRow(rows) => rows[row],
        };
        Some(Numeric::Small { unscaled, scale })
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        let digits = match &self.digits {
            Digits::Narrow(rows) => rows.len() * 8,
            Digits::Wide(rows) => rows.len() * 16,
        };
        let scales = match &self.scales {
            Scales::Constant(_) => 0,
            Scales::PerRow(rows) => rows.len() * 2,
        };
        digits
            + scales
            + self.image_rows.len() * 12
            + self.image_bytes.len()
            + self.validity.heap_bytes()
    }

    pub(crate) fn clear(&mut self) {
        match &mut self.digits {
            Digits::Narrow(rows) => rows.clear(),
            Digits::Wide(_) => self.digits = Digits::Narrow(Vec::new()),
        }
        self.scales = Scales::Constant(None);
        self.image_rows.clear();
        self.image_ends.clear();
        self.image_bytes.clear();
        self.validity.clear();
    }
}
