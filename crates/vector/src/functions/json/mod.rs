//! Functions of jsonb values, computed on their images.
//!
//! ```text
//!   image ──── the bytes of a value: containers, items         number ─ the numerics among them
//!   extract ── -> ->> #> #>>      path ── texts[], subscripts    write ── containers as text
//!   search ─── ? ?| ?& @> <@ jsonb_typeof jsonb_array_length
//!   cast ───── to numbers and booleans
//! ```
//!
//! Semantics are those of PostgreSQL's `utils/adt/jsonfuncs.c`, `jsonb_op.c`, `jsonb_util.c` and
//! `jsonb.c`. Keys and strings are compared by their bytes, whatever the collation.

mod cast;
mod extract;
mod image;
mod number;
mod path;
mod search;
mod write;

use howdah_columnar::ColumnType::{
    Bool, Bytes, Float32, Float64, Int16, Int32, Int64, Numeric, Text,
};
use howdah_columnar::{Column, ColumnType};

use super::Function;
use super::kernel::{Kernel, Operand};
use crate::error::VectorError;
use extract::{AsImage, AsText};

const UTF8: &str = "in a database encoded in UTF-8, where values are nested at most 100 deep";
const SHALLOW: &str = "where values are nested at most 100 deep";
const ARRAYS: &str = "where all values are arrays";
const CAST: &str = "where all values are numbers of at most 38 digits, or null";

type Binary = fn(Operand<'_>, Operand<'_>) -> Result<Column, VectorError>;
type Unary = fn(&Column) -> Result<Column, VectorError>;

const fn part(
    prosrc: &'static str,
    arguments: &'static [ColumnType],
    result: ColumnType,
    kernel: Binary,
) -> Function {
    let function = Function::new(prosrc, arguments, result, Kernel::Binary(kernel));
    match result {
        Text => function.exact_where(UTF8),
        _ => function,
    }
}

const fn test(prosrc: &'static str, arguments: &'static [ColumnType], kernel: Binary) -> Function {
    Function::new(prosrc, arguments, Bool, Kernel::Binary(kernel))
}

const fn of_one(prosrc: &'static str, result: ColumnType, kernel: Unary) -> Function {
    Function::new(prosrc, &[Bytes], result, Kernel::Unary(kernel))
}

const fn cast(prosrc: &'static str, result: ColumnType, kernel: Unary) -> Function {
    of_one(prosrc, result, kernel).failing().exact_where(CAST)
}

pub(super) static FUNCTIONS: &[&[Function]] = &[
    &[
        part(
            "jsonb_object_field",
            &[Bytes, Text],
            Bytes,
            extract::field::<AsImage>,
        ),
        part(
            "jsonb_object_field_text",
            &[Bytes, Text],
            Text,
            extract::field::<AsText>,
        ),
        part(
            "jsonb_array_element",
            &[Bytes, Int32],
            Bytes,
            extract::element::<AsImage>,
        ),
        part(
            "jsonb_array_element_text",
            &[Bytes, Int32],
            Text,
            extract::element::<AsText>,
        ),
        part(
            "jsonb_extract_path",
            &[Bytes, Bytes],
            Bytes,
            extract::path::<AsImage>,
        ),
        part(
            "jsonb_extract_path_text",
            &[Bytes, Bytes],
            Text,
            extract::path::<AsText>,
        ),
    ],
    &[
        test("jsonb_exists", &[Bytes, Text], search::exists),
        test("jsonb_exists_any", &[Bytes, Bytes], search::exists_any),
        test("jsonb_exists_all", &[Bytes, Bytes], search::exists_all),
        test("jsonb_contains", &[Bytes, Bytes], search::contains).exact_where(SHALLOW),
        test("jsonb_contained", &[Bytes, Bytes], search::contained).exact_where(SHALLOW),
    ],
    &[
        of_one("jsonb_typeof", Text, search::type_of).exact_where("in a database encoded in UTF-8"),
        of_one("jsonb_array_length", Int32, search::array_length)
            .failing()
            .exact_where(ARRAYS),
    ],
    &[
        cast("jsonb_bool", Bool, cast::to_bool)
            .exact_where("where all values are booleans, or null"),
        cast("jsonb_numeric", Numeric, cast::to_numeric),
        cast("jsonb_int2", Int16, cast::to_integer::<i16>),
        cast("jsonb_int4", Int32, cast::to_integer::<i32>),
        cast("jsonb_int8", Int64, cast::to_integer::<i64>),
        cast("jsonb_float4", Float32, cast::to_float32),
        cast("jsonb_float8", Float64, cast::to_float64),
    ],
];
