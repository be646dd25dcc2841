//! Values as the output functions of their types write them.
//!
//! A column's form is chosen by the output function, not by the type: domains have that of their
//! base type. Values that a form does not cover (toasted or compressed text, dates out of range,
//! other styles) are left to the output function, as are all other types.

use std::ffi::{CStr, c_char};

use pgrx::pg_sys;

use super::buffer::Buffer;
use super::calendar;
use super::escape::push_escaped;
use super::numeric::Decimal;
use crate::ffi::{quiet, unguarded};

/// The longest text of a value of a form with bounded length.
const LONGEST_BYTES: usize = 40;

/// How the values of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Int2,
    Int4,
    Int8,
    Bool,
    Float4,
    Float8,
    Date,
    Timestamp,
    Uuid,
    /// The bytes of a varlena.
    Text,
    Numeric,
    /// By the output function.
    Other,
}

impl Form {
    /// The form of values that this function writes.
    pub fn of_output(output_function: pg_sys::Oid) -> Form {
        match output_function.to_u32() {
            pg_sys::F_INT2OUT => Form::Int2,
            pg_sys::F_INT4OUT => Form::Int4,
            pg_sys::F_INT8OUT => Form::Int8,
            pg_sys::F_BOOLOUT => Form::Bool,
            pg_sys::F_FLOAT4OUT => Form::Float4,
            pg_sys::F_FLOAT8OUT => Form::Float8,
            pg_sys::F_DATE_OUT => Form::Date,
            pg_sys::F_TIMESTAMP_OUT => Form::Timestamp,
            pg_sys::F_UUID_OUT => Form::Uuid,
            pg_sys::F_TEXTOUT | pg_sys::F_VARCHAROUT | pg_sys::F_BPCHAROUT | pg_sys::F_JSON_OUT => {
                Form::Text
            }
            _ => Form::Other,
        }
    }
}

/// A column of the rows.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub type_oid: pg_sys::Oid,
    pub form: Form,
    /// Whether the client wants values as the send function writes them.
    pub is_binary: bool,
    /// The output or the send function.
    pub output: pg_sys::FmgrInfo,
}

/// Appends a value. `scratch` is for what the output function allocates.
///
/// # Safety
/// `column` is valid and of the value's type; the value is not NULL. No frame up to the executor
/// holds anything that must be dropped.
#[inline(always)]
pub(super) unsafe fn push_value<const ESCAPED: bool>(
    out: Buffer,
    column: *mut Column,
    value: pg_sys::Datum,
    scratch: pg_sys::MemoryContext,
) {
    // SAFETY: as for this function. A varlena is at least its header long, which tells its length.
    unsafe {
        if (*column).form == Form::Text {
            if let Some((bytes, len)) = plain_bytes(value) {
                match ESCAPED {
                    true => push_escaped(out, bytes, len),
                    false => out.push(bytes, len),
                }
                return;
            }
        } else if (*column).form == Form::Numeric {
            if push_numeric(out, value) {
                return;
            }
        } else {
            let target = out.room(LONGEST_BYTES);
            if let Some(len) = write_bounded((*column).form, value, target) {
                out.advance(len);
                return;
            }
        }
        push_other::<ESCAPED>(out, column, value, scratch);
    }
}

/// Appends a value as the output function writes it.
///
/// # Safety
/// As for [`push_value`].
#[inline(never)]
unsafe fn push_other<const ESCAPED: bool>(
    out: Buffer,
    column: *mut Column,
    value: pg_sys::Datum,
    scratch: pg_sys::MemoryContext,
) {
    // SAFETY: as for this function; an output function returns a C string, in the scratch memory.
    unsafe {
        let old = pg_sys::CurrentMemoryContext;
        pg_sys::CurrentMemoryContext = scratch;
        let text = unguarded::OutputFunctionCall(&raw mut (*column).output, value);
        pg_sys::CurrentMemoryContext = old;
        let len = CStr::from_ptr(text).count_bytes();
        match ESCAPED {
            true => push_escaped(out, text.cast(), len),
            false => out.push(text.cast(), len),
        }
    }
}

/// Appends a numeric; `false` leaves it to the output function.
///
/// # Safety
/// As for [`push_value`].
unsafe fn push_numeric(out: Buffer, value: pg_sys::Datum) -> bool {
    // SAFETY: as for this function. A varlena has the bytes that its header tells; there is room
    // for the longest text.
    unsafe {
        let Some((bytes, len)) = plain_bytes(value) else {
            return false;
        };
        let Some(decimal) = Decimal::of(std::slice::from_raw_parts(bytes, len)) else {
            return false;
        };
        let longest = decimal.longest();
        let target = std::slice::from_raw_parts_mut(out.room(longest), longest);
        out.advance(decimal.write(target));
        true
    }
}

/// The bytes of a varlena that is neither toasted nor compressed.
///
/// # Safety
/// A valid varlena.
#[inline(always)]
pub(super) unsafe fn plain_bytes(value: pg_sys::Datum) -> Option<(*const u8, usize)> {
    // SAFETY: as for this function.
    unsafe {
        let start = value.cast_mut_ptr::<u8>().cast_const();
        let first = *start;
        if first & 1 == 1 {
            // 1 alone is the header of a toasted value.
            return (first != 1).then(|| (start.add(1), usize::from(first >> 1) - 1));
        }
        let word = start.cast::<u32>().read_unaligned();
        (word & 3 == 0).then(|| (start.add(4), (word >> 2) as usize - 4))
    }
}

/// Writes a value to `target`, which has room for [`LONGEST_BYTES`]; its length, or `None` if that
/// is left to the output function.
///
/// # Safety
/// A value of the form's type.
#[inline(always)]
unsafe fn write_bounded(form: Form, value: pg_sys::Datum, target: *mut u8) -> Option<usize> {
    // SAFETY: as for this function; no text is longer than the room.
    unsafe {
        let bits = value.value() as u64;
        match form {
            Form::Int2 => Some(write_integer(target, i64::from(bits as i16))),
            Form::Int4 => Some(write_integer(target, i64::from(bits as i32))),
            Form::Int8 => Some(write_integer(target, bits as i64)),
            Form::Bool => {
                *target = if bits as u8 != 0 { b't' } else { b'f' };
                Some(1)
            }
            Form::Float4 if pg_sys::extra_float_digits > 0 => {
                let number = f32::from_bits(bits as u32);
                let len = quiet::float_to_shortest_decimal_buf(number, target.cast::<c_char>());
                Some(len as usize)
            }
            Form::Float8 if pg_sys::extra_float_digits > 0 => {
                let number = f64::from_bits(bits);
                let len = quiet::double_to_shortest_decimal_buf(number, target.cast::<c_char>());
                Some(len as usize)
            }
            Form::Date if is_iso() => calendar::write_date(&mut *target.cast(), bits as i32),
            Form::Timestamp if is_iso() => {
                calendar::write_timestamp(&mut *target.cast(), bits as i64)
            }
            Form::Uuid => {
                write_uuid(&mut *target.cast(), &*value.cast_mut_ptr::<[u8; 16]>());
                Some(UUID_BYTES)
            }
            _ => None,
        }
    }
}

/// Whether `DateStyle` is ISO.
#[inline(always)]
fn is_iso() -> bool {
    // SAFETY: reads a setting.
    unsafe { pg_sys::DateStyle == pg_sys::USE_ISO_DATES as i32 }
}

/// All numbers of two digits.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut i = 0;
    while i < 100 {
        pairs[i] = [b'0' + (i / 10) as u8, b'0' + (i % 10) as u8];
        i += 1;
    }
    pairs
};

/// The longest integer with its sign.
const INTEGER_BYTES: usize = 20;

/// Writes an integer; its length.
///
/// # Safety
/// There is room for [`INTEGER_BYTES`].
#[inline(always)]
unsafe fn write_integer(target: *mut u8, number: i64) -> usize {
    let mut digits = [0; INTEGER_BYTES];
    let start = integer(&mut digits, number);
    let len = INTEGER_BYTES - start;
    // SAFETY: as for this function.
    unsafe { std::ptr::copy_nonoverlapping(digits.as_ptr().add(start), target, len) };
    len
}

/// Writes an integer to the end of `digits`; where it starts.
#[inline(always)]
fn integer(digits: &mut [u8; INTEGER_BYTES], number: i64) -> usize {
    let mut at = INTEGER_BYTES;
    let mut rest = number.unsigned_abs();
    while rest > u64::from(u32::MAX) {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    let mut rest = rest as u32;
    while rest >= 100 {
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[(rest % 100) as usize]);
        rest /= 100;
    }
    let [tens, ones] = PAIRS[rest as usize];
    at -= 1;
    digits[at] = ones;
    if rest >= 10 {
        at -= 1;
        digits[at] = tens;
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    at
}

const UUID_BYTES: usize = 36;

fn write_uuid(target: &mut [u8; UUID_BYTES], uuid: &[u8; 16]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut at = 0;
    for (i, byte) in uuid.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            target[at] = b'-';
            at += 1;
        }
        target[at] = DIGITS[usize::from(byte >> 4)];
        target[at + 1] = DIGITS[usize::from(byte & 15)];
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_in_decimal() {
        let mut numbers = vec![0, i64::MIN, i64::MAX, -1, 4_294_967_295, 4_294_967_296];
        for exponent in 0..19 {
            let power = 10_i64.pow(exponent);
            numbers.extend([
                power - 1,
                power,
                power + 1,
                -power,
                1 - power,
                7 * (power / 8),
            ]);
        }
        for number in numbers {
            let mut digits = [0; INTEGER_BYTES];
            let start = integer(&mut digits, number);
            assert_eq!(digits[start..], *number.to_string().as_bytes());
        }
    }

    #[test]
    fn uuids_have_hyphens() {
        let mut text = [0; UUID_BYTES];
        write_uuid(&mut text, &std::array::from_fn(|i| 17 * i as u8));
        assert_eq!(&text, b"00112233-4455-6677-8899-aabbccddeeff");
    }
}
