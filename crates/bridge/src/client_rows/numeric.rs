//! Numerics as text and in binary (`numeric_out`, `get_str_from_var` and `numeric_send` of
//! `utils/adt/numeric.c`).
//!
//! ```text
//!   header, 16 bits:  10 sign scale(6) weight(7)   short
//!                     0s scale(14), then weight    long
//!                     11                           NaN, infinities: left to PostgreSQL
//!   digits, 16 bits each, base 10,000; the first one stands for 10,000 to the power of the weight
//! ```

/// A finite numeric on disk, without its varlena header.
pub(super) struct Decimal<'a> {
    is_negative: bool,
    /// Digits behind the decimal point.
    scale: usize,
    weight: i32,
    digits: &'a [[u8; 2]],
}

impl<'a> Decimal<'a> {
    /// Reads a header; `None` if this is not a finite number.
    pub fn of(image: &'a [u8]) -> Option<Decimal<'a>> {
        let (halves, _) = image.as_chunks::<2>();
        let (first, rest) = halves.split_first()?;
        let header = u16::from_ne_bytes(*first);
        match header >> 14 {
            0b11 => None,
            0b10 => Some(Decimal {
                is_negative: header & 0x2000 != 0,
                scale: usize::from(header >> 7 & 0x3F),
                weight: i32::from(header & 0x3F) - i32::from(header & 0x40),
                digits: rest,
            }),
            sign => {
                let (weight, digits) = rest.split_first()?;
                Some(Decimal {
                    is_negative: sign == 1,
                    scale: usize::from(header & 0x3FFF),
                    weight: i32::from(i16::from_ne_bytes(*weight)),
                    digits,
                })
            }
        }
    }

    /// The text is at most so long.
    pub fn longest(&self) -> usize {
        let groups = usize::try_from(self.weight + 1).unwrap_or(0);
        // Sign, zero, point, and a last group of which only a part is kept.
        4 * groups + self.scale + 8
    }

    /// The length in binary.
    pub fn binary_bytes(&self) -> usize {
        2 * (4 + self.digits.len())
    }

    /// Writes what `numeric_send` does, into so many bytes: the number of digits, the weight, the
    /// sign, the scale, and the digits, 16 bits each in network order.
    pub fn write_binary(&self, out: &mut [u8]) {
        let sign = if self.is_negative { SENT_NEGATIVE } else { 0 };
        let count = self.digits.len() as u16;
        let head = [count, self.weight as i16 as u16, sign, self.scale as u16];
        let digits = self.digits.iter().map(|digit| u16::from_ne_bytes(*digit));
        let (halves, _) = out.as_chunks_mut::<2>();
        for (half, number) in halves.iter_mut().zip(head.into_iter().chain(digits)) {
            *half = number.to_be_bytes();
        }
    }

    /// The digit that stands for 10,000 to this power.
    fn digit(&self, power: i32) -> u16 {
        let digit = usize::try_from(self.weight - power).ok();
        digit
            .and_then(|at| self.digits.get(at))
            .map_or(0, |&digit| u16::from_ne_bytes(digit))
    }

    /// Writes the text, for which there is room; its length.
    pub fn write(&self, out: &mut [u8]) -> usize {
        let mut end = 0;
        if self.is_negative {
            out[end] = b'-';
            end += 1;
        }
        if self.weight < 0 {
            out[end] = b'0';
            end += 1;
        } else {
            let group = four(self.digit(self.weight));
            let zeros = group[..3]
                .iter()
                .take_while(|&&digit| digit == b'0')
                .count();
            out[end..end + 4 - zeros].copy_from_slice(&group[zeros..]);
            end += 4 - zeros;
            for power in (0..self.weight).rev() {
                out[end..end + 4].copy_from_slice(&four(self.digit(power)));
                end += 4;
            }
        }
        if self.scale == 0 {
            return end;
        }
        out[end] = b'.';
        end += 1;
        for (group, power) in (0..self.scale.div_ceil(4)).zip((i32::MIN..0).rev()) {
            let at = end + 4 * group;
            out[at..at + 4].copy_from_slice(&four(self.digit(power)));
        }
        end + self.scale
    }
}

/// How `numeric_send` marks a negative number.
const SENT_NEGATIVE: u16 = 0x4000;

/// A digit in base 10,000 as four decimal ones.
fn four(digit: u16) -> [u8; 4] {
    let (high, low) = (digit / 100, digit % 100);
    [high / 10, high % 10, low / 10, low % 10].map(|digit| b'0' + digit as u8)
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    fn text(header: &[u16], digits: &[u16]) -> Option<String> {
        let halves = header.iter().chain(digits);
        let image: Vec<u8> = halves.flat_map(|half| half.to_ne_bytes()).collect();
        let decimal = Decimal::of(&image)?;
        let mut out = vec![0; decimal.longest()];
        let len = decimal.write(&mut out);
        Some(String::from_utf8_lossy(&out[..len]).into_owned())
    }

    fn short(is_negative: bool, scale: u16, weight: i16) -> [u16; 1] {
        let sign = if is_negative { 0x2000 } else { 0 };
        [0x8000 | sign | scale << 7 | weight as u16 & 0x7F]
    }

    #[test]
    fn in_binary_a_number_keeps_its_parts() {
        let image: Vec<u8> = [short(true, 2, -1)[0], 12, 3_400]
            .iter()
            .flat_map(|half| half.to_ne_bytes())
            .collect();
        let decimal = Decimal::of(&image).expect("a finite number");
        let mut out = vec![0; decimal.binary_bytes()];
        decimal.write_binary(&mut out);
        let parts = [2u16, 0xFFFF, 0x4000, 2, 12, 3_400];
        assert!(
            out.iter()
                .copied()
                .eq(parts.iter().flat_map(|part| part.to_be_bytes()))
        );
    }

    #[test]
    fn numbers_have_the_digits_of_their_scale() {
        let cases = [
            (text(&short(false, 0, 0), &[]), "0"),
            (text(&short(false, 3, 0), &[]), "0.000"),
            (text(&short(true, 2, 0), &[1, 5_000]), "-1.50"),
            (text(&short(false, 1, 0), &[1_234, 5_000]), "1234.5"),
            (text(&short(false, 0, 1), &[1]), "10000"),
            (text(&short(false, 0, 2), &[12, 0, 7]), "1200000007"),
            (text(&short(false, 6, -2), &[500]), "0.000005"),
            (text(&short(true, 9, -1), &[1, 2, 3_000]), "-0.000100023"),
            (text(&[0x4000 | 5, 0], &[3, 1_000]), "-3.10000"),
            (
                text(&[70, 1], &[1, 2]),
                &format!("10002.{}", "0".repeat(70)),
            ),
        ];
        for (found, expected) in cases {
            assert_eq!(found.as_deref(), Some(expected));
        }
    }

    #[test]
    fn numbers_that_are_not_finite_are_left() {
        for header in [0xC000, 0xD000, 0xF000] {
            assert_eq!(text(&[header], &[]), None);
        }
    }
}
