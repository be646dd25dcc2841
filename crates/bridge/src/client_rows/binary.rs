//! Values as the send functions of their types write them, for clients that ask for binary columns.
//!
//! As in [`super::text`] a column's form is chosen by the function, and values that a form does not
//! cover are left to it.

use pgrx::pg_sys;

use super::buffer::Buffer;
use super::numeric::Decimal;
use super::text::{Column, Form, plain_bytes};
use crate::ffi::unguarded;

/// The longest value of a form with bounded length.
const LONGEST_BYTES: usize = 16;

/// The form of values that this function writes.
pub(super) fn form_of(send_function: pg_sys::Oid) -> Form {
    match send_function.to_u32() {
        pg_sys::F_INT2SEND => Form::Int2,
        pg_sys::F_INT4SEND => Form::Int4,
        pg_sys::F_INT8SEND => Form::Int8,
        pg_sys::F_BOOLSEND => Form::Bool,
        pg_sys::F_FLOAT4SEND => Form::Float4,
        pg_sys::F_FLOAT8SEND => Form::Float8,
        pg_sys::F_DATE_SEND => Form::Date,
        pg_sys::F_TIMESTAMP_SEND | pg_sys::F_TIMESTAMPTZ_SEND => Form::Timestamp,
        pg_sys::F_UUID_SEND => Form::Uuid,
        pg_sys::F_TEXTSEND
        | pg_sys::F_VARCHARSEND
        | pg_sys::F_BPCHARSEND
        | pg_sys::F_JSON_SEND
        | pg_sys::F_BYTEASEND => Form::Text,
        pg_sys::F_NUMERIC_SEND => Form::Numeric,
        _ => Form::Other,
    }
}

/// Appends a value. `scratch` is for what the send function allocates.
///
/// # Safety
/// `column` is valid, binary, and of the value's type; the value is not NULL. No frame up to the
/// executor holds anything that must be dropped.
#[inline(always)]
pub(super) unsafe fn push_value(
    out: Buffer,
    column: *mut Column,
    value: pg_sys::Datum,
    scratch: pg_sys::MemoryContext,
) {
    // SAFETY: as for this function. A varlena has the bytes that its header tells.
    unsafe {
        match (*column).form {
            Form::Text => {
                if let Some((bytes, len)) = plain_bytes(value) {
                    out.push(bytes, len);
                    return;
                }
            }
            Form::Numeric => {
                if let Some((bytes, len)) = plain_bytes(value)
                    && let Some(decimal) = Decimal::of(std::slice::from_raw_parts(bytes, len))
                {
                    let len = decimal.binary_bytes();
                    decimal.write_binary(std::slice::from_raw_parts_mut(out.room(len), len));
                    out.advance(len);
                    return;
                }
            }
            form => {
                if let Some(len) = write_bounded(form, value, out.room(LONGEST_BYTES)) {
                    out.advance(len);
                    return;
                }
            }
        }
        push_sent(out, column, value, scratch);
    }
}

/// Appends a value as the send function writes it.
///
/// # Safety
/// As for [`push_value`].
#[inline(never)]
unsafe fn push_sent(
    out: Buffer,
    column: *mut Column,
    value: pg_sys::Datum,
    scratch: pg_sys::MemoryContext,
) {
    // SAFETY: as for this function; a send function returns a bytea with a long header, in the
    // scratch memory.
    unsafe {
        let old = pg_sys::CurrentMemoryContext;
        pg_sys::CurrentMemoryContext = scratch;
        let sent = unguarded::SendFunctionCall(&raw mut (*column).output, value);
        pg_sys::CurrentMemoryContext = old;
        let sent = pg_sys::Datum::from(sent);
        if let Some((bytes, len)) = plain_bytes(sent) {
            out.push(bytes, len);
        }
    }
}

/// Writes a value to `target`, which has room for [`LONGEST_BYTES`]; its length, or `None` if that
/// is left to the send function.
///
/// # Safety
/// A value of the form's type.
#[inline(always)]
unsafe fn write_bounded(form: Form, value: pg_sys::Datum, target: *mut u8) -> Option<usize> {
    let bits = value.value() as u64;
    // SAFETY: as for this function.
    unsafe {
        match form {
            Form::Bool => Some(write(target, [u8::from(bits as u8 != 0)])),
            Form::Int2 => Some(write(target, (bits as u16).to_be_bytes())),
            Form::Int4 | Form::Float4 | Form::Date => {
                Some(write(target, (bits as u32).to_be_bytes()))
            }
            Form::Int8 | Form::Float8 | Form::Timestamp => Some(write(target, bits.to_be_bytes())),
            Form::Uuid => Some(write(target, *value.cast_mut_ptr::<[u8; 16]>())),
            Form::Text | Form::Numeric | Form::Other => None,
        }
    }
}

/// Writes bytes; how many.
///
/// # Safety
/// There is room for them.
#[inline(always)]
unsafe fn write<const N: usize>(target: *mut u8, bytes: [u8; N]) -> usize {
    // SAFETY: as for this function.
    unsafe { target.cast::<[u8; N]>().write_unaligned(bytes) }
    N
}
