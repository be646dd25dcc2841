//! `howdah.set_options`, `howdah.reset_options`, and the function behind the view `howdah.options`.

use howdah_bridge::process::prevent_if_read_only;
use howdah_bridge::relation::OpenRelation;
use howdah_bridge::table::{LockMode, RelationKind, Table};
use howdah_bridge::{Oid, names};
use howdah_columnar::MAX_GROUPED;
use pgrx::datum::Interval;
use pgrx::iter::TableIterator;
use pgrx::{PgSqlErrorCode, name, pg_extern};

use super::{open_owned, required};
use crate::am;
use crate::errors::refuse;
use crate::options::label::{NAMES, effort, effort_name};
use crate::options::{Period, TableOptions, catalog};
use crate::written_databases;

/// `ATTRIBUTE_GENERATED_VIRTUAL`
const VIRTUAL: u8 = b'v';
/// The maximal number of columns in a sort key: PostgreSQL's limit for an index.
const LONGEST_SORT_KEY: usize = 32;

/// Sets the options that are given (not null) and leaves the others as they are.
#[pg_extern(sql = false)]
fn set_options(
    relation: Option<Oid>,
    sort_key: Option<Vec<Option<String>>>,
    compression_effort: Option<String>,
    compact_after: Option<Interval>,
    compact_min_rows: Option<i64>,
    compaction: Option<bool>,
    grouped_columns: Option<Vec<Option<String>>>,
) {
    prevent_if_read_only(c"howdah.set_options()");
    let rel = open_howdah_table(required(relation, "relation"));
    let table = rel.table().oid();
    let mut options = catalog::read(table);
    if let Some(names) = sort_key {
        options.sort_key = checked_sort_key(rel.table(), names);
    }
    if let Some(name) = compression_effort {
        let known = effort(&name);
        if known.is_none() {
            invalid(
                format!("invalid value for option \"compression_effort\": \"{name}\""),
                "Valid values are \"fast\", \"default\" and \"best\".",
            );
        }
        options.effort = known;
    }
    if let Some(after) = compact_after {
        options.compact_after = Some(checked_period(&after));
    }
    if let Some(rows) = compact_min_rows {
        if rows < 0 {
            invalid(
                format!("invalid value for option \"compact_min_rows\": {rows}"),
                "The number of rows must be zero or greater.",
            );
        }
        options.compact_min_rows = Some(rows);
    }
    options.compaction = compaction.or(options.compaction);
    if let Some(names) = grouped_columns {
        options.grouped_columns = checked_group(rel.table(), names);
    }
    write(table, &options);
}

/// Resets one option of a table, or all of them.
#[pg_extern(sql = false)]
fn reset_options(relation: Option<Oid>, option: Option<String>) {
    prevent_if_read_only(c"howdah.reset_options()");
    let rel = open_owned(
        required(relation, "relation"),
        LockMode::ShareUpdateExclusive,
    );
    let table = rel.table().oid();
    let mut options = catalog::read(table);
    match option.as_deref() {
        None => options = TableOptions::default(),
        Some("sort_key") => options.sort_key.clear(),
        Some("compression_effort") => options.effort = None,
        Some("compact_after") => options.compact_after = None,
        Some("compact_min_rows") => options.compact_min_rows = None,
        Some("compaction") => options.compaction = None,
        Some("grouped_columns") => options.grouped_columns.clear(),
        Some(name) => refuse(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("unrecognized option \"{name}\""),
            Some(format!("Options are: {}.", NAMES.join(", "))),
        ),
    }
    write(table, &options);
}

/// One row: the options of a table that are set; no row where none is.
#[pg_extern(sql = false)]
#[allow(clippy::type_complexity)]
fn table_options(
    relation: Oid,
) -> TableIterator<
    'static,
    (
        name!(sort_key, Option<Vec<String>>),
        name!(compression_effort, Option<&'static str>),
        name!(compact_after, Option<Interval>),
        name!(compact_min_rows, Option<i64>),
        name!(compaction, Option<bool>),
        name!(grouped_columns, Option<Vec<String>>),
    ),
> {
    let options = catalog::read(relation);
    if options == TableOptions::default() {
        return TableIterator::empty();
    }
    let names = |columns: &[i16]| {
        let name = |&column: &i16| names::column(relation, column);
        let names: Vec<String> = columns.iter().filter_map(name).collect();
        (!names.is_empty()).then_some(names)
    };
    let interval = |p: Period| Interval::new(p.months, p.days, p.microseconds).ok();
    TableIterator::once((
        names(&options.sort_key),
        options.effort.map(effort_name),
        options.compact_after.and_then(interval),
        options.compact_min_rows,
        options.compaction,
        names(&options.grouped_columns),
    ))
}

/// Rows that were to stay hot may be due now, so a worker is to visit the table.
fn write(table: Oid, options: &TableOptions) {
    catalog::write(table, options);
    written_databases::note_write();
}

fn checked_period(after: &Interval) -> Period {
    let infinite = after.months() == i32::MAX || after.months() == i32::MIN;
    let total = after.as_micros();
    let parts = Period {
        months: after.months(),
        days: after.days(),
        microseconds: after.micros(),
    };
    let all_positive = parts.months >= 0 && parts.days >= 0 && parts.microseconds >= 0;
    match i64::try_from(total) {
        _ if infinite || total < 0 => invalid(
            "option \"compact_after\" must be a finite interval, zero or longer".into(),
            "To keep a table's rows hot, set compaction => false.",
        ),
        _ if all_positive => parts,
        // Parts of both signs, as in '1 month -1 day'.
        Ok(microseconds) => Period {
            microseconds,
            ..Period::default()
        },
        Err(_) => invalid(
            "option \"compact_after\" is out of range".into(),
            "To keep a table's rows hot, set compaction => false.",
        ),
    }
}

/// A table that may have options, locked against concurrent changes of them.
fn open_howdah_table(oid: Oid) -> OpenRelation {
    let rel = open_owned(oid, LockMode::ShareUpdateExclusive);
    let table = rel.table();
    if table.kind() == RelationKind::PartitionedTable {
        refuse(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{}\" is a partitioned table", table.name()),
            Some("Set the options of its partitions.".into()),
        );
    }
    if !am::is_ours(table) {
        refuse(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{}\" does not use access method howdah", table.name()),
            Some("Make it a howdah table with howdah.adopt() first.".into()),
        );
    }
    rel
}

fn invalid(message: String, hint: &str) -> ! {
    refuse(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        message,
        Some(hint.into()),
    )
}

/// The attribute numbers of the columns of a sort key.
fn checked_sort_key(table: Table<'_>, names: Vec<Option<String>>) -> Vec<i16> {
    if names.len() > LONGEST_SORT_KEY {
        refuse(
            PgSqlErrorCode::ERRCODE_TOO_MANY_COLUMNS,
            format!("a sort key cannot have more than {LONGEST_SORT_KEY} columns"),
            None,
        );
    }
    checked_columns(table, names, "the sort key", |name, at| {
        let attribute = table.descriptor().attribute(at);
        if attribute.attgenerated as u8 == VIRTUAL {
            refuse_virtual(name, "A sort key has stored columns only.");
        }
        if !names::is_ordered(attribute.atttypid) {
            let type_name = names::type_of(attribute.atttypid);
            refuse(
                PgSqlErrorCode::ERRCODE_UNDEFINED_FUNCTION,
                format!("could not identify an ordering operator for type {type_name}"),
                Some(format!("Column \"{name}\" cannot be part of a sort key.")),
            );
        }
    })
}

/// The attribute numbers of columns to be grouped.
fn checked_group(table: Table<'_>, names: Vec<Option<String>>) -> Vec<i16> {
    if names.len() > MAX_GROUPED {
        refuse(
            PgSqlErrorCode::ERRCODE_TOO_MANY_COLUMNS,
            format!("a group cannot have more than {MAX_GROUPED} columns"),
            None,
        );
    }
    let mut columns = checked_columns(table, names, "the group", |name, at| {
        let attribute = table.descriptor().attribute(at);
        if attribute.attgenerated as u8 == VIRTUAL {
            refuse_virtual(name, "Only stored columns can be grouped.");
        }
    });
    columns.sort_unstable();
    columns
}

fn refuse_virtual(name: &str, hint: &str) -> ! {
    refuse(
        PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
        format!("column \"{name}\" is a virtual generated column"),
        Some(hint.to_owned()),
    )
}

/// The attribute numbers of columns with these names, none of which `check` refuses.
fn checked_columns(
    table: Table<'_>,
    names: Vec<Option<String>>,
    list: &str,
    check: impl Fn(&str, usize),
) -> Vec<i16> {
    let mut checked: Vec<i16> = Vec::with_capacity(names.len());
    for name in names {
        let name = required(name, &format!("a column of {list}"));
        let Some(number) = names::column_number(table.oid(), &name) else {
            refuse(
                PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                format!(
                    "column \"{name}\" of relation \"{}\" does not exist",
                    table.name()
                ),
                None,
            )
        };
        check(&name, number as usize - 1);
        if checked.contains(&number) {
            refuse(
                PgSqlErrorCode::ERRCODE_DUPLICATE_COLUMN,
                format!("column \"{name}\" appears twice in {list}"),
                None,
            );
        }
        checked.push(number);
    }
    checked
}
