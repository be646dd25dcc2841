//! `howdah.set_options`, `howdah.reset_options` and the trigger on `howdah.options`.

use howdah_bridge::relation::OpenRelation;
use pgrx::datum::Interval;
use pgrx::{IntoDatum, PgSqlErrorCode, pg_extern, pg_guard, pg_sys};

use super::{name_of, open_owned, required};
use crate::am;
use crate::errors::refuse;
use crate::options::catalog::{self, Field, OptionsRow, OptionsTable};
use crate::options::{attribute_number, effort};

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
    let rel = open_howdah_table(required(relation, "relation"));
    let (options, mut row) = row_of(&rel);
    if let Some(names) = sort_key {
        row.set_sort_key(&checked_sort_key(&rel, names));
    }
    if let Some(name) = compression_effort {
        if effort(&name).is_none() {
            invalid(
                format!("invalid value for option \"compression_effort\": \"{name}\""),
                "Valid values are \"fast\", \"default\" and \"best\".",
            );
        }
        row.set(Field::CompressionEffort, name.into_datum());
    }
    if let Some(after) = compact_after {
        let infinite = after.months() == i32::MAX || after.months() == i32::MIN;
        if infinite || after.as_micros() < 0 {
            invalid(
                "option \"compact_after\" must be a finite interval, zero or longer".into(),
                "To keep a table's rows hot, set compaction => false.",
            );
        }
        row.set(Field::CompactAfter, after.into_datum());
    }
    if let Some(rows) = compact_min_rows {
        if rows < 0 {
            invalid(
                format!("invalid value for option \"compact_min_rows\": {rows}"),
                "The number of rows must be zero or greater.",
            );
        }
        row.set(Field::CompactMinRows, rows.into_datum());
    }
    if let Some(on) = compaction {
        row.set(Field::Compaction, on.into_datum());
    }
    // SAFETY: `rel` is open.
    options.put(unsafe { (*rel.raw()).rd_id }, &mut row);
}

/// Resets one option of a table, or all of them.
#[pg_extern(sql = false)]
fn reset_options(relation: Option<pg_sys::Oid>, option: Option<String>) {
    let rel = open_owned(
        required(relation, "relation"),
        pg_sys::ShareUpdateExclusiveLock,
    );
    let (options, mut row) = row_of(&rel);
    for (name, field) in Field::OPTIONS {
        if option.as_deref().is_none_or(|wanted| wanted == name) {
            row.set(field, None);
        }
    }
    if let Some(name) = option
        && Field::OPTIONS.iter().all(|(known, _)| *known != name)
    {
        let known = Field::OPTIONS.map(|(name, _)| name).join(", ");
        refuse(
            PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("unrecognized option \"{name}\""),
            Some(format!("Options are: {known}.")),
        );
    }
    // SAFETY: `rel` is open.
    options.put(unsafe { (*rel.raw()).rd_id }, &mut row);
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

fn row_of(rel: &OpenRelation) -> (OptionsTable, OptionsRow) {
    // SAFETY: `rel` is open.
    let oid = unsafe { (*rel.raw()).rd_id };
    let Some(options) = OptionsTable::open(pg_sys::RowExclusiveLock) else {
        refuse(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            "table howdah.options is missing".into(),
            Some("Create extension howdah in this database.".into()),
        )
    };
    let row = options.find(oid).unwrap_or_else(|| OptionsRow::new(oid));
    (options, row)
}

fn invalid(message: String, hint: &str) -> ! {
    refuse(
        PgSqlErrorCode::ERRCODE_INVALID_PARAMETER_VALUE,
        message,
        Some(hint.into()),
    )
}

fn checked_sort_key(rel: &OpenRelation, names: Vec<Option<String>>) -> Vec<String> {
    if names.len() > LONGEST_SORT_KEY {
        refuse(
            PgSqlErrorCode::ERRCODE_TOO_MANY_COLUMNS,
            format!("a sort key cannot have more than {LONGEST_SORT_KEY} columns"),
            None,
        );
    }
    let mut checked: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let name = required(name, "a column of the sort key");
        if checked.contains(&name) {
            refuse(
                PgSqlErrorCode::ERRCODE_DUPLICATE_COLUMN,
                format!("column \"{name}\" appears twice in the sort key"),
                None,
            );
        }
        check_sort_column(rel, &name);
        checked.push(name);
    }
    checked
}

fn check_sort_column(rel: &OpenRelation, name: &str) {
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
    }
}

/// Row trigger on `howdah.options`: whatever way a row changed, its table's options are read anew.
#[pg_guard]
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn howdah_options_changed(
    fcinfo: pg_sys::FunctionCallInfo,
) -> pg_sys::Datum {
    // SAFETY: checked to be called as a trigger; the tuples belong to the trigger's relation,
    // whose first column is the regclass.
    unsafe {
        let context = (*fcinfo).context;
        if context.is_null() || (*context).type_ != pg_sys::NodeTag::T_TriggerData {
            refuse(
                PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "howdah.options_changed() is a trigger function".into(),
                None,
            );
        }
        let data = &*context.cast::<pg_sys::TriggerData>();
        for tuple in [data.tg_trigtuple, data.tg_newtuple] {
            if tuple.is_null() {
                continue;
            }
            let mut is_null = false;
            let desc = (*data.tg_relation).rd_att;
            let table = pg_sys::heap_getattr(tuple, 1, desc, &mut is_null);
            if !is_null {
                catalog::invalidate(pg_sys::Oid::from(table.value() as u32));
            }
        }
        pg_sys::Datum::from(data.tg_trigtuple)
    }
}

#[unsafe(no_mangle)]
extern "C" fn pg_finfo_howdah_options_changed() -> *const pg_sys::Pg_finfo_record {
    static INFO: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &INFO
}
