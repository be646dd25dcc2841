//! `howdah.set_options`, `howdah.reset_options`, and what the view `howdah.options` is made of.

use std::ffi::CStr;

use howdah_bridge::relation::OpenRelation;
use pgrx::datum::Interval;
use pgrx::iter::TableIterator;
use pgrx::{PgSqlErrorCode, name, pg_extern, pg_sys};

use super::{name_of, open_owned, required};
use crate::am;
use crate::compact;
use crate::errors::refuse;
use crate::options::label::{NAMES, effort, effort_name};
use crate::options::{Period, TableOptions, attribute_number, catalog};

/// Columns that a sort key may have: PostgreSQL's limit for an index.
const LONGEST_SORT_KEY: usize = 32;

/// Sets the options that are given (not null) and leaves the others as they are.
#[pg_extern(sql = false)]
fn set_options(
    relation: Option<pg_sys::Oid>,
    sort_key: Option<Vec<Option<String>>>,
    compression_effort: Option<String>,
    compact_after: Option<Interval>,
    compact_min_rows: Option<i64>,
    compaction: Option<bool>,
) {
    prevent_if_read_only(c"howdah.set_options()");
    let rel = open_howdah_table(required(relation, "relation"));
    let table = oid_of(&rel);
    let mut options = catalog::read(table);
    if let Some(names) = sort_key {
        options.sort_key = checked_sort_key(&rel, names);
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
    write(table, &options);
}

/// Resets one option of a table, or all of them.
#[pg_extern(sql = false)]
fn reset_options(relation: Option<pg_sys::Oid>, option: Option<String>) {
    prevent_if_read_only(c"howdah.reset_options()");
    let rel = open_owned(
        required(relation, "relation"),
        pg_sys::ShareUpdateExclusiveLock,
    );
    let table = oid_of(&rel);
    let mut options = catalog::read(table);
    match option.as_deref() {
        None => options = TableOptions::default(),
        Some("sort_key") => options.sort_key.clear(),
        Some("compression_effort") => options.effort = None,
        Some("compact_after") => options.compact_after = None,
        Some("compact_min_rows") => options.compact_min_rows = None,
        Some("compaction") => options.compaction = None,
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
    relation: pg_sys::Oid,
) -> TableIterator<
    'static,
    (
        name!(sort_key, Option<Vec<String>>),
        name!(compression_effort, Option<&'static str>),
        name!(compact_after, Option<Interval>),
        name!(compact_min_rows, Option<i64>),
        name!(compaction, Option<bool>),
    ),
> {
    let options = catalog::read(relation);
    if options == TableOptions::default() {
        return TableIterator::empty();
    }
    let names: Vec<String> = options
        .sort_key
        .iter()
        .filter_map(|&column| column_name(relation, column))
        .collect();
    let interval = |p: Period| Interval::new(p.months, p.days, p.microseconds).ok();
    TableIterator::once((
        (!names.is_empty()).then_some(names),
        options.effort.map(effort_name),
        options.compact_after.and_then(interval),
        options.compact_min_rows,
        options.compaction,
    ))
}

fn prevent_if_read_only(command: &CStr) {
    // SAFETY: raises an ERROR or does nothing; the name is NUL-terminated.
    unsafe { pg_sys::PreventCommandIfReadOnly(command.as_ptr()) }
}

/// Rows that were to stay hot may be due now: a worker looks.
fn write(table: pg_sys::Oid, options: &TableOptions) {
    catalog::write(table, options);
    compact::note_write();
}

fn oid_of(rel: &OpenRelation) -> pg_sys::Oid {
    // SAFETY: the guard holds the relation open.
    unsafe { howdah_bridge::relation::oid_of(rel.raw()) }
}

/// `None` for a column that was dropped meanwhile.
fn column_name(table: pg_sys::Oid, column: i16) -> Option<String> {
    // SAFETY: returns NULL or a palloc'd NUL-terminated string.
    unsafe {
        let name = pg_sys::get_attname(table, column, true);
        (!name.is_null()).then(|| super::owned(name))
    }
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

/// A table that may have options, locked against other changes of them.
fn open_howdah_table(oid: pg_sys::Oid) -> OpenRelation {
    let rel = open_owned(oid, pg_sys::ShareUpdateExclusiveLock);
    // SAFETY: `rel` is open.
    let (kind, ours) = unsafe { ((*(*rel.raw()).rd_rel).relkind, am::is_howdah(rel.raw())) };
    if kind as u8 == pg_sys::RELKIND_PARTITIONED_TABLE {
        refuse(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{}\" is a partitioned table", name_of(&rel)),
            Some("Set the options of its partitions.".into()),
        );
    }
    if !ours {
        refuse(
            PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
            format!("\"{}\" does not use access method howdah", name_of(&rel)),
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

/// The attribute numbers of the columns.
fn checked_sort_key(rel: &OpenRelation, names: Vec<Option<String>>) -> Vec<i16> {
    if names.len() > LONGEST_SORT_KEY {
        refuse(
            PgSqlErrorCode::ERRCODE_TOO_MANY_COLUMNS,
            format!("a sort key cannot have more than {LONGEST_SORT_KEY} columns"),
            None,
        );
    }
    let mut checked: Vec<i16> = Vec::with_capacity(names.len());
    for name in names {
        let name = required(name, "a column of the sort key");
        let column = checked_sort_column(rel, &name);
        if checked.contains(&column) {
            refuse(
                PgSqlErrorCode::ERRCODE_DUPLICATE_COLUMN,
                format!("column \"{name}\" appears twice in the sort key"),
                None,
            );
        }
        checked.push(column);
    }
    checked
}

fn checked_sort_column(rel: &OpenRelation, name: &str) -> i16 {
    // SAFETY: `rel` is open; attribute numbers come from its own catalog entry.
    unsafe {
        let Some(number) = attribute_number((*rel.raw()).rd_id, name) else {
            refuse(
                PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                format!(
                    "column \"{name}\" of relation \"{}\" does not exist",
                    name_of(rel)
                ),
                None,
            )
        };
        let attribute = &*pg_sys::TupleDescAttr((*rel.raw()).rd_att, i32::from(number) - 1);
        if attribute.attgenerated as u8 == pg_sys::ATTRIBUTE_GENERATED_VIRTUAL {
            refuse(
                PgSqlErrorCode::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("column \"{name}\" is a virtual generated column"),
                Some("A sort key has stored columns only.".into()),
            );
        }
        let entry = pg_sys::lookup_type_cache(attribute.atttypid, pg_sys::TYPECACHE_LT_OPR as i32);
        if (*entry).lt_opr == pg_sys::InvalidOid {
            let type_name = super::owned(pg_sys::format_type_be(attribute.atttypid));
            refuse(
                PgSqlErrorCode::ERRCODE_UNDEFINED_FUNCTION,
                format!("could not identify an ordering operator for type {type_name}"),
                Some(format!("Column \"{name}\" cannot be part of a sort key.")),
            );
        }
        number
    }
}
