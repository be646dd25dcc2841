//! Numbers of jsonb values: images of numerics, as `utils/adt/numeric.c` stores them.
//!
//! A 16-bit header, for long forms a 16-bit weight, then digits of base 10,000. Short:
//! `10 s dddddd wwwwwww` (sign, display scale, weight with sign); long: `0s`, 14 bits of display
//! scale; special: `11..`, NaN and infinities, which no jsonb value has.

use std::io::Write;

use super::image::DAMAGED;
use crate::error::VectorError;

/// A finite numeric.
pub(super) struct Number<'a> {
    is_negative: bool,
    scale: u16,
    weight: i32,
    digits: &'a [[u8; 2]],
}

/// Decimals have at most 38 digits, and so many after the point.
const LIMIT: i128 = 10_i128.pow(38);
const MOST_DECIMALS: u16 = 38;

/// Base-10,000 digits that may stand for fewer than 38 decimal ones and their alignment.
const MOST_DIGITS: usize = 12;

impl<'a> Number<'a> {
    pub(super) fn open(image: &'a [u8]) -> Result<Self, VectorError> {
        let (header, rest) = image.split_first_chunk::<2>().ok_or(DAMAGED)?;
        let header = u16::from_ne_bytes(*header);
        let number = match header >> 14 {
            0b11 => return Err(DAMAGED),
            0b10 => {
                let weight = i32::from(header & 0x3F);
                Self {
                    is_negative: header & 0x2000 != 0,
                    scale: (header & 0x1F80) >> 7,
                    weight: if header & 0x40 != 0 {
                        weight - 64
                    } else {
                        weight
                    },
                    digits: digits(rest)?,
                }
            }
            sign => {
                let (weight, rest) = rest.split_first_chunk::<2>().ok_or(DAMAGED)?;
                Self {
                    is_negative: sign == 0b01,
                    scale: header & 0x3FFF,
                    weight: i32::from(i16::from_ne_bytes(*weight)),
                    digits: digits(rest)?,
                }
            }
        };
        Ok(number)
    }

    /// The digit of 10,000^`exponent`.
    fn digit(&self, exponent: i32) -> u16 {
        let at = usize::try_from(self.weight - exponent).ok();
        let digit = at.and_then(|at| self.digits.get(at));
        digit.map_or(0, |digit| u16::from_ne_bytes(*digit))
    }

    /// Appends what `numeric_out` returns.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        if self.is_negative {
            out.push(b'-');
        }
        // Writing to memory does not fail.
        match self.weight {
            ..0 => out.push(b'0'),
            weight => {
                let _ = write!(out, "{}", self.digit(weight));
                for exponent in (0..weight).rev() {
                    out.extend_from_slice(&decimals(self.digit(exponent)));
                }
            }
        }
        if self.scale == 0 {
            return;
        }
        out.push(b'.');
        let end = out.len() + usize::from(self.scale);
        let mut exponent = -1;
        while out.len() < end {
            out.extend_from_slice(&decimals(self.digit(exponent)));
            exponent -= 1;
        }
        out.truncate(end);
    }

    /// The digits without the point, and how many follow it; `None` if these are too many.
    pub(super) fn decimal(&self) -> Option<(i128, u16)> {
        let count = (self.digits.iter().rposition(|digit| *digit != [0; 2])).map_or(0, |at| at + 1);
        if count > MOST_DIGITS || self.scale > MOST_DECIMALS {
            return None;
        }
        let mut magnitude: i128 = 0;
        if let Some((last, before)) = self.digits[..count].split_last() {
            for digit in before {
                let digit = u16::from_ne_bytes(*digit);
                magnitude = magnitude.checked_mul(10_000)?.checked_add(digit.into())?;
            }
            // The last digit stands for 10,000^(weight - count + 1): of its four decimal ones the
            // display scale may leave out zeros.
            let exponent = (self.weight - count as i32 + 1) * 4 + i32::from(self.scale);
            let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
            let last = i128::from(u16::from_ne_bytes(*last));
            magnitude = match exponent {
                0.. => {
                    let digits = magnitude.checked_mul(10_000)?.checked_add(last)?;
                    digits.checked_mul(power)?
                }
                -3.. if last % power == 0 => magnitude
                    .checked_mul(10_000 / power)?
                    .checked_add(last / power)?,
                _ => return None,
            };
        }
        let signed = if self.is_negative {
            -magnitude
        } else {
            magnitude
        };
        (magnitude < LIMIT).then_some((signed, self.scale))
    }

    /// Whether both are the same number, whatever their display scales.
    pub(super) fn equals(&self, other: &Self) -> bool {
        let (a, b) = (self.significant(), other.significant());
        a.1 == b.1 && (a.1.is_empty() || a.0 == b.0 && self.is_negative == other.is_negative)
    }

    /// The weight of the first digit that is not zero, and the digits from there to the last one
    /// that is not.
    fn significant(&self) -> (i32, &'a [[u8; 2]]) {
        let is_digit = |digit: &[u8; 2]| *digit != [0; 2];
        let first = self.digits.iter().position(is_digit);
        let last = self.digits.iter().rposition(is_digit);
        match (first, last) {
            (Some(first), Some(last)) => (self.weight - first as i32, &self.digits[first..=last]),
            _ => (0, &[]),
        }
    }
}

/// The decimal digits of one of base 10,000.
fn decimals(digit: u16) -> [u8; 4] {
    [1_000, 100, 10, 1].map(|power| b'0' + (digit / power % 10) as u8)
}

fn digits(bytes: &[u8]) -> Result<&[[u8; 2]], VectorError> {
    match bytes.as_chunks::<2>() {
        (digits, []) => Ok(digits),
        _ => Err(DAMAGED),
    }
}

/// A decimal without what follows its point, rounded half away from zero as `numeric_int8` does.
pub(super) fn rounded((unscaled, scale): (i128, u16)) -> i128 {
    // At most 10^38, which fits.
    let power = 10_i128.pow(u32::from(scale.min(MOST_DECIMALS)));
    let (whole, rest) = (unscaled / power, unscaled % power);
    match rest.unsigned_abs() >= power.unsigned_abs().div_ceil(2) && power > 1 {
        true => whole + unscaled.signum(),
        false => whole,
    }
}
