//! COPY of a table to the client or a file, as COPY of a query.
//!
//! `COPY table TO …` reads its table row by row, as heap tuples, without a plan. Where the table
//! has cold rows it becomes `COPY (SELECT columns FROM ONLY table) TO …`, as PostgreSQL itself does
//! for tables with row-level security (`DoCopy` of `commands/copy.c`): the planner then
//! may read by column. Of the default format, the receiver writes the lines as well.
//!
//! Everything else stays as it was for PostgreSQL to do, or to refuse: tables that do not exist,
//! columns that do not exist or are generated, tables with row-level security.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};

use pgrx::{PgList, pg_guard, pg_sys};

use crate::relation::OpenRelation;
use crate::statement_settings;
use crate::table::{RelationKind, Table};
use crate::utility::has_cold_rows;

thread_local! {
    /// The source text of the COPY that is about to run, if it writes the default format; NULL
    /// otherwise. It is compared by its address with that of the query that runs: planning the
    /// query of one COPY may run another one, which may fail, so it must be known which is meant.
    static PLAIN: Cell<*const c_char> = const { Cell::new(std::ptr::null()) };
}

/// Whether a query that is about to run for COPY, known by its source text, is to be written in the
/// default format. True once for each COPY.
pub(super) fn take_plain(source: *const c_char) -> bool {
    !source.is_null() && PLAIN.replace(std::ptr::null()) == source
}

/// Prepares a COPY statement; the statement to be run instead, or the same one. `source` is its
/// text. `settings` becomes the nesting level of settings that are to be restored, if there are
/// any ([`statement_settings::restore`]).
///
/// # Safety
/// A utility statement that the server is about to run; `settings` is the hook's own.
#[pg_guard]
pub(crate) unsafe extern "C-unwind" fn prepare(
    statement: *mut pg_sys::PlannedStmt,
    source: *const c_char,
    settings: *mut c_int,
) -> *mut pg_sys::PlannedStmt {
    // SAFETY: as for this function. What is changed is a copy, in the current memory context, as
    // PostgreSQL makes one of a tree that it must not change.
    unsafe {
        let copy = (*statement).utilityStmt.cast::<pg_sys::CopyStmt>();
        let writes = !(*copy).is_from && !(*copy).is_program;
        PLAIN.set(match writes && (*copy).options.is_null() {
            true => source,
            false => std::ptr::null(),
        });
        if !writes || (*copy).relation.is_null() || names_columns((*copy).options) {
            return statement;
        }
        let Some(query) = query_of(&*copy) else {
            return statement;
        };
        let changed = pg_sys::copyObjectImpl(statement.cast()).cast::<pg_sys::PlannedStmt>();
        let copy = (*changed).utilityStmt.cast::<pg_sys::CopyStmt>();
        (*copy).relation = std::ptr::null_mut();
        (*copy).attlist = std::ptr::null_mut();
        (*copy).query = query.cast();
        *settings = without_workers();
        changed
    }
}

/// Plans use no parallel workers from now on, which would send rows in any order: COPY of a table
/// sends them as they are stored, so that dumps of the same rows are the same. The level at which
/// the setting was changed; an abort restores it as well.
///
/// # Safety
/// In a transaction.
unsafe fn without_workers() -> c_int {
    // SAFETY: a known setting, which each user may change, and a valid value.
    unsafe { statement_settings::change(c"max_parallel_workers_per_gather", c"0") }
}

/// Whether some option of COPY may name columns of the table, or is not known here.
///
/// # Safety
/// The options of a parsed COPY.
unsafe fn names_columns(options: *mut pg_sys::List) -> bool {
    // SAFETY: as for this function; an option's name ends with a zero byte.
    unsafe {
        let options = PgList::<pg_sys::DefElem>::from_pg(options);
        (options.iter_ptr()).any(|option| {
            let name = CStr::from_ptr((*option).defname).to_bytes();
            !WITHOUT_COLUMNS.contains(&name)
        })
    }
}

/// The options of COPY that say nothing of single columns.
const WITHOUT_COLUMNS: [&[u8]; 7] = [
    b"format",
    b"delimiter",
    b"null",
    b"header",
    b"quote",
    b"escape",
    b"encoding",
];

/// The query for a table and its columns; `None` leaves the statement as it is.
///
/// # Safety
/// A COPY of a relation.
unsafe fn query_of(copy: &pg_sys::CopyStmt) -> Option<*mut pg_sys::SelectStmt> {
    // SAFETY: a parsed statement. The relation is locked as COPY does, before its rights are
    // checked, and stays open while it is looked at.
    unsafe {
        let oid = pg_sys::RangeVarGetRelidExtended(
            copy.relation,
            pg_sys::AccessShareLock as i32,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        );
        if oid == pg_sys::InvalidOid {
            return None;
        }
        let open = OpenRelation::try_open_locked(oid)?;
        let table = open.table();
        if table.kind() != RelationKind::Table
            || !pg_sys::ActiveSnapshotSet()
            || pg_sys::check_enable_rls(oid, pg_sys::InvalidOid, true)
                == pg_sys::CheckEnableRlsResult::RLS_ENABLED as i32
            || !has_cold_rows(table)
        {
            return None;
        }
        let columns = columns_of(table, copy.attlist)?;
        let targets = columns.into_iter().map(|name| target(name));
        let mut target_list = PgList::<pg_sys::ResTarget>::new();
        targets.for_each(|target| target_list.push(target));
        let class = &*(*table.raw()).rd_rel;
        let from = pg_sys::makeRangeVar(
            pg_sys::get_namespace_name(class.relnamespace),
            pg_sys::pstrdup(class.relname.data.as_ptr()),
            -1,
        );
        (*from).inh = false;
        let mut from_list = PgList::<pg_sys::RangeVar>::new();
        from_list.push(from);
        let select: *mut pg_sys::SelectStmt = node(pg_sys::NodeTag::T_SelectStmt);
        (*select).targetList = target_list.into_pg();
        (*select).fromClause = from_list.into_pg();
        Some(select)
    }
}

/// The names of the columns that COPY sends: those listed, or all that are not generated. `None` if
/// COPY raises an ERROR, or there are none.
///
/// # Safety
/// `listed` is a list of names, or NULL.
unsafe fn columns_of<'t>(table: Table<'t>, listed: *mut pg_sys::List) -> Option<Vec<&'t CStr>> {
    let attributes = table.descriptor().attributes().iter();
    let own: Vec<&CStr> = attributes
        .filter(|attribute| !attribute.attisdropped && attribute.attgenerated == 0)
        // SAFETY: a name ends with a zero byte.
        .map(|attribute| unsafe { CStr::from_ptr(attribute.attname.data.as_ptr()) })
        .collect();
    if listed.is_null() {
        return (!own.is_empty()).then_some(own);
    }
    let mut columns: Vec<&CStr> = Vec::new();
    // SAFETY: as for this function.
    let names = unsafe { PgList::<pg_sys::String>::from_pg(listed) };
    for name in names.iter_ptr() {
        // SAFETY: as for this function; the parser's strings end with a zero byte.
        let name = unsafe { CStr::from_ptr((*name).sval) };
        let column = own.iter().copied().find(|&column| column == name)?;
        if columns.contains(&column) {
            return None;
        }
        columns.push(column);
    }
    Some(columns)
}

/// A column of the query.
///
/// # Safety
/// Allocates in the current memory context.
unsafe fn target(name: &CStr) -> *mut pg_sys::ResTarget {
    // SAFETY: new nodes, as the parser makes them.
    unsafe {
        let mut fields = PgList::<pg_sys::String>::new();
        fields.push(pg_sys::makeString(pg_sys::pstrdup(name.as_ptr())));
        let column: *mut pg_sys::ColumnRef = node(pg_sys::NodeTag::T_ColumnRef);
        (*column).fields = fields.into_pg();
        (*column).location = -1;
        let target: *mut pg_sys::ResTarget = node(pg_sys::NodeTag::T_ResTarget);
        (*target).val = column.cast();
        (*target).location = -1;
        target
    }
}

/// `makeNode`
///
/// # Safety
/// `T` is the node with this tag.
unsafe fn node<T>(tag: pg_sys::NodeTag) -> *mut T {
    // SAFETY: as for this function; every node begins with its tag, and may be zero otherwise.
    unsafe {
        let node = pg_sys::palloc0(size_of::<T>());
        *node.cast::<pg_sys::NodeTag>() = tag;
        node.cast()
    }
}
