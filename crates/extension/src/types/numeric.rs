//! PostgreSQL's numeric, as it is stored on disk, and the decimals of row groups.
//!
//! On disk (`utils/adt/numeric.c`): a 16-bit header, for long forms a 16-bit weight, then
//! base-10000 digits. Short: `10 s dddddd wwwwwww` (sign, display scale, weight with sign);
//! long: `0s` sign bits, 14 bits of display scale; special: `11..` NaN and infinities.
//! Only canonical images (no zero digit at either end, short where short fits) of at most 38 digits
//! become [`Numeric::Small`], so that the reverse conversion gives the same bytes; any other value
//! keeps its image.

use howdah_columnar::Numeric;

const SIGN_MASK: u16 = 0xC000;
const NEGATIVE: u16 = 0x4000;
const SHORT: u16 = 0x8000;
const SPECIAL: u16 = 0xC000;
const LONG_SCALE_MASK: u16 = 0x3FFF;
const SHORT_NEGATIVE: u16 = 0x2000;
const SHORT_SCALE_SHIFT: u16 = 7;
const SHORT_SCALE_MAX: u16 = 63;
const SHORT_WEIGHT_SIGN: u16 = 0x0040;
const SHORT_WEIGHT_MASK: u16 = 0x003F;
const BASE: i128 = 10_000;
/// The largest number of base-10000 digits considered: 38 decimal digits and their alignment.
const MAX_DIGITS: usize = 12;
const LIMIT: i128 = 10_i128.pow(38) - 1;

/// The decimal that an on-disk image (without its varlena header) represents.
pub fn decode(image: &[u8]) -> Numeric<'_> {
    small(image).unwrap_or(Numeric::Image(image))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn small(image: &[u8]) -> Option<Numeric<'_>> {
    let header = half(image, 0)?;
    let (negative, scale, weight, digits) = match header & SIGN_MASK {
        SPECIAL => return None,
        SHORT => {
            let low = (header & SHORT_WEIGHT_MASK) as i32;
            let weight = if header & SHORT_WEIGHT_SIGN != 0 {
                low - 64
            } else {
                low
            };
            let scale = (header & !SIGN_MASK & !SHORT_NEGATIVE) >> SHORT_SCALE_SHIFT;
            (header & SHORT_NEGATIVE != 0, scale, weight, &image[2..])
        }
        sign => {
            let weight = i32::from(half(image, 2)? as i16);
            (
                sign == NEGATIVE,
                header & LONG_SCALE_MASK,
                weight,
                &image[4..],
            )
        }
    };
    let count = digits.len() / 2;
    if count > MAX_DIGITS || digits.len() % 2 != 0 || scale > 38 {
        return None;
    }
    let mut magnitude: i128 = 0;
    for i in 0..count {
        magnitude = magnitude
            .checked_mul(BASE)?
            .checked_add(i128::from(half(digits, i * 2)?))?;
    }
    // The last digit stands for 10000^(weight - count + 1); bring that to 10^-scale.
    let exponent = (weight - count as i32 + 1) * 4 + i32::from(scale);
    if magnitude != 0 {
        if exponent >= 0 {
            magnitude =
                magnitude.checked_mul(10_i128.checked_pow(u32::try_from(exponent).ok()?)?)?;
        } else {
            let divisor = 10_i128.checked_pow(exponent.unsigned_abs())?;
            if magnitude % divisor != 0 {
                return None;
            }
            magnitude /= divisor;
        }
    }
    if magnitude > LIMIT {
        return None;
    }
    let value = Numeric::Small {
        unscaled: if negative { -magnitude } else { magnitude },
        scale,
    };
    let same = with_image(value, |back| back == image);
    same.then_some(value)
}

/// Cuts a magnitude into digits of base 10,000, the lowest first; their number. The lowest decimal
/// digits, of which `padding` are missing, are split off first: the magnitude times 10^`padding`
/// may exceed its type.
macro_rules! cut {
    ($int:ty, $magnitude:expr, $padding:expr, $digits:expr) => {{
        let (mut rest, mut count): ($int, usize) = ($magnitude, 0);
        if $padding > 0 {
            let low: $int = LOW_POWERS[$padding as usize].into();
            $digits[count] = (rest % low) as u16 * LOW_POWERS[4 - $padding as usize];
            rest /= low;
            count += 1;
        }
        while rest != 0 {
            $digits[count] = (rest % BASE as $int) as u16;
            rest /= BASE as $int;
            count += 1;
        }
        count
    }};
}

/// 10^(4 - i)
const LOW_POWERS: [u16; 5] = [10_000, 1_000, 100, 10, 1];

/// Calls `f` with the on-disk image of a decimal.
pub fn with_image<R>(value: Numeric<'_>, f: impl FnOnce(&[u8]) -> R) -> R {
    let (unscaled, scale) = match value {
        Numeric::Image(image) => return f(image),
        Numeric::Small { unscaled, scale } => (unscaled, scale),
    };
    // Align the decimal point to a base-10000 digit, then cut digits from the right.
    let magnitude = unscaled.unsigned_abs();
    let fraction_digits = scale.div_ceil(4);
    let padding = u32::from(fraction_digits * 4 - scale);
    let mut digits = [0_u16; MAX_DIGITS + 1];
    // Most fit 64 bits, which are divided many times faster.
    let count = match u64::try_from(magnitude) {
        Ok(magnitude) => cut!(u64, magnitude, padding, digits),
        Err(_) => cut!(u128, magnitude, padding, digits),
    };
    let mut weight = count as i32 - 1 - i32::from(fraction_digits);
    let lowest = digits[..count]
        .iter()
        .position(|&d| d != 0)
        .unwrap_or(count);
    let digits = &digits[lowest..count];
    let leading = digits.iter().rev().take_while(|&&d| d == 0).count();
    let digits = &digits[..digits.len() - leading];
    weight -= leading as i32;
    let negative = unscaled < 0;
    if digits.is_empty() {
        weight = 0;
    }
    let mut image = [0_u8; 4 + 2 * (MAX_DIGITS + 1)];
    let mut len;
    if scale <= SHORT_SCALE_MAX && (-64..=63).contains(&weight) {
        let header = SHORT
            | if negative { SHORT_NEGATIVE } else { 0 }
            | (scale << SHORT_SCALE_SHIFT)
            | if weight < 0 { SHORT_WEIGHT_SIGN } else { 0 }
            | (weight as u16 & SHORT_WEIGHT_MASK);
        image[..2].copy_from_slice(&header.to_ne_bytes());
        len = 2;
    } else {
        let header = if negative { NEGATIVE } else { 0 } | (scale & LONG_SCALE_MASK);
        image[..2].copy_from_slice(&header.to_ne_bytes());
        image[2..4].copy_from_slice(&(weight as i16).to_ne_bytes());
        len = 4;
    }
    for digit in digits.iter().rev() {
        image[len..len + 2].copy_from_slice(&digit.to_ne_bytes());
        len += 2;
    }
    f(&image[..len])
}

/// Digits of base 10,000 that an image may have in [`view_of`]: three before the decimal point, one
/// behind it; and the bits of each.
const VIEW_DIGITS: u32 = 4;
const DIGIT_BITS: u32 = 16;

/// The on-disk image that [`with_image`] makes of a decimal of at most four decimal places and
/// twelve digits before them, as most are, made without a loop; `None` of any other. It is a view
/// that holds its bytes itself: their number in the lowest 32 bits, the bytes above.
#[inline]
pub fn view_of(unscaled: i64, scale: u16) -> Option<u128> {
    let magnitude = unscaled.unsigned_abs();
    let (whole, fraction) = match scale {
        0 => (magnitude, 0),
        1 => (magnitude / 10, magnitude % 10 * 1_000),
        2 => (magnitude / 100, magnitude % 100 * 100),
        3 => (magnitude / 1_000, magnitude % 1_000 * 10),
        4 => (magnitude / 10_000, magnitude % 10_000),
        _ => return None,
    };
    if whole >= 1_000_000_000_000 {
        return None;
    }
    // The highest digit in the lowest bits, as it is the first in memory.
    let middle = (whole / 10_000 % 10_000) << DIGIT_BITS;
    let low = (whole % 10_000) << (2 * DIGIT_BITS);
    let digits = (whole / 100_000_000) | middle | low | (fraction << (3 * DIGIT_BITS));
    let (leading, digits) = match digits {
        // As if it had one digit before the decimal point: its weight is 0.
        0 => (VIEW_DIGITS - 2, 0),
        _ => {
            let leading = digits.trailing_zeros() / DIGIT_BITS;
            (leading, digits >> (leading * DIGIT_BITS))
        }
    };
    let count = VIEW_DIGITS - digits.leading_zeros() / DIGIT_BITS;
    let weight = VIEW_DIGITS as i16 - 2 - leading as i16;
    let sign = if unscaled < 0 { SHORT_NEGATIVE } else { 0 };
    let weight_sign = if weight < 0 { SHORT_WEIGHT_SIGN } else { 0 };
    let weight = weight as u16 & SHORT_WEIGHT_MASK;
    let header = SHORT | sign | (scale << SHORT_SCALE_SHIFT) | weight_sign | weight;
    let len = 2 + 2 * count;
    Some(u128::from(len) | (u128::from(header) << 32) | (u128::from(digits) << 48))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(halves: &[u16]) -> Vec<u8> {
        halves.iter().flat_map(|half| half.to_ne_bytes()).collect()
    }

    fn short(negative: bool, scale: u16, weight: i16, digits: &[u16]) -> Vec<u8> {
        let sign = if negative { SHORT_NEGATIVE } else { 0 };
        let low = weight as u16 & (SHORT_WEIGHT_SIGN | SHORT_WEIGHT_MASK);
        let mut halves = vec![SHORT | sign | (scale << SHORT_SCALE_SHIFT) | low];
        halves.extend(digits);
        image(&halves)
    }

    #[test]
    fn images_that_postgresql_writes_are_decimals() {
        for (image, unscaled, scale) in [
            (short(false, 0, 0, &[]), 0, 0),
            (short(false, 2, 0, &[]), 0, 2),
            (short(false, 2, 0, &[1, 5000]), 150, 2),
            (short(true, 2, 0, &[1, 5000]), -150, 2),
            (short(false, 0, 1, &[1]), 10_000, 0),
            (short(false, 3, 1, &[1]), 10_000_000, 3),
            (short(false, 4, -1, &[1]), 1, 4),
            (short(false, 5, -2, &[1000]), 1, 5),
            (short(false, 1, 0, &[9999, 9000]), 99_999, 1),
        ] {
            assert_eq!(decode(&image), Numeric::Small { unscaled, scale });
            with_image(Numeric::Small { unscaled, scale }, |back| {
                assert_eq!(back, image, "{unscaled} of scale {scale}");
            });
        }
    }

    #[test]
    fn an_image_that_would_not_come_back_the_same_is_kept() {
        let long_form_of_one = image(&[0, 0, 1]);
        for image in [
            image(&[0xC000]),
            image(&[0xD000]),
            image(&[0xF000]),
            short(false, 0, 1, &[0, 1]),
            short(false, 4, 0, &[1, 0]),
            // More decimals than the display scale shows.
            short(false, 1, 0, &[1, 5500]),
            // A negative zero; a scale, and a number of digits, that decimals do not have.
            short(true, 0, 0, &[]),
            short(false, 39, 0, &[1]),
            short(false, 0, 10, &[1]),
            long_form_of_one,
            vec![],
            vec![0x80],
            vec![0x80, 0x80, 1],
        ] {
            assert_eq!(decode(&image), Numeric::Image(&image));
        }
    }

    #[test]
    fn every_decimal_comes_back_from_its_image() {
        let (mut state, mut next) = (1_u64, 0_i128);
        for round in 0..20_000_u32 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            next = (next << 64) ^ (i128::from(state >> 8) * i128::from(state >> 3));
            let scale = (round % 39) as u16;
            let limit = 10_i128.pow(1 + (state >> 40) as u32 % 38);
            for unscaled in [next % limit, limit - 1, 1 - limit, limit / 10] {
                let value = Numeric::Small { unscaled, scale };
                with_image(value, |image| match decode(image) {
                    // Its digits, aligned to groups of four, exceed 38.
                    Numeric::Image(kept) => {
                        assert!(unscaled.unsigned_abs() >= 10_u128.pow(34));
                        assert_eq!(kept, image);
                    }
                    decimal => assert_eq!(decimal, value, "{image:x?}"),
                });
            }
        }
    }

    #[test]
    fn views_of_decimals_are_their_images() {
        let mut state = 7_u64;
        let check = |unscaled: i64, scale: u16| {
            let view = view_of(unscaled, scale);
            let whole = unscaled.unsigned_abs() / 10_u64.pow(u32::from(scale));
            assert_eq!(view.is_some(), scale <= 4 && whole < 10_u64.pow(12));
            let Some(view) = view else {
                return;
            };
            let unscaled = unscaled.into();
            with_image(Numeric::Small { unscaled, scale }, |image| {
                let bytes = view.to_le_bytes();
                assert_eq!(view as u32 as usize, image.len(), "{unscaled}, {scale}");
                assert_eq!(&bytes[4..4 + image.len()], image, "{unscaled}, {scale}");
                assert!(bytes[4 + image.len()..].iter().all(|&byte| byte == 0));
            });
        };
        for scale in 0..=6 {
            for exponent in 0..=18 {
                let power = 10_i64.pow(exponent);
                for near in [power - 1, power, power + 1, 5 * power.min(10_i64.pow(17))] {
                    check(near, scale);
                    check(-near, scale);
                }
            }
            for extreme in [0, i64::MIN, i64::MAX] {
                check(extreme, scale);
            }
            for _ in 0..20_000 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let digits = 10_i64.pow((state >> 59) as u32 % 19);
                check(((state as i64) >> 3) % digits, scale);
            }
        }
    }
}
