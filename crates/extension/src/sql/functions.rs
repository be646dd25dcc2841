//! The function behind the view `howdah.functions`: the registries of the vectorized engine.

use howdah_columnar::ColumnType;
use howdah_vector::aggregates::{self, Argument};
use howdah_vector::functions::{self, Exactness};
use pgrx::iter::TableIterator;
use pgrx::{name, pg_extern};

/// One row for each function and aggregate that Vectorized plans compute themselves.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn vectorized_functions() -> TableIterator<
    'static,
    (
        name!(name, String),
        name!(kind, String),
        name!(stored_arguments, Vec<String>),
        name!(can_fail, bool),
        name!(exact, String),
    ),
> {
    let functions = functions::all().map(|function| {
        let arguments = function.arguments.iter().map(|&ty| stored_as(ty));
        let exact = match function.exactness {
            Exactness::Always => "always",
            Exactness::Where(condition) => condition,
        };
        (
            function.prosrc.to_owned(),
            "function".to_owned(),
            arguments.collect(),
            function.can_fail,
            exact.to_owned(),
        )
    });
    let aggregates = aggregates::all().map(|aggregate| {
        let arguments = match aggregate.argument {
            Argument::Nothing => Vec::new(),
            Argument::Anything => vec!["any".to_owned()],
            Argument::One(ty) => vec![stored_as(ty)],
        };
        let can_fail = aggregate.name.starts_with("sum");
        (
            aggregate.name.to_owned(),
            "aggregate".to_owned(),
            arguments,
            can_fail,
            aggregate.exactness.to_owned(),
        )
    });
    TableIterator::new(functions.chain(aggregates).collect::<Vec<_>>())
}

/// How values of a type are stored, in the terms of the format.
fn stored_as(ty: ColumnType) -> String {
    match ty {
        ColumnType::Bool => "bool",
        ColumnType::Int16 => "int16",
        ColumnType::Int32 => "int32",
        ColumnType::Int64 => "int64",
        ColumnType::Float32 => "float32",
        ColumnType::Float64 => "float64",
        ColumnType::Numeric => "numeric",
        ColumnType::Text => "text",
        ColumnType::Bytes => "bytes",
        ColumnType::Fixed { .. } => "fixed",
    }
    .to_owned()
}
