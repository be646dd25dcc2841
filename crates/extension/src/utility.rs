//! What utility statements need done after them.
//!
//! - COPY calls `finish_bulk_insert` only when it inserts in batches; what a row-by-row COPY left
//!   pending is written when it ends.
//! - A howdah table always has a TOAST relation: it is the cold store. CREATE TABLE asks the access
//!   method and gets one; ALTER TABLE … SET ACCESS METHOD howdah asks the *old* access
//!   method and creates none for a table that never needed one. It is created right after.
//!   Until then such a table is all hot, so nothing is lost if the statement fails.
//!
//! The hook itself is a plain frame, see [`howdah_bridge::ffi::unguarded`]; what it does on its own
//! account stands in guarded functions before and after.

use howdah_bridge::ffi;
use howdah_bridge::relation::OpenRelation;
use pgrx::{pg_guard, pg_sys};

use crate::am::is_howdah;
use crate::load;

static mut PREVIOUS_PROCESS_UTILITY: pg_sys::ProcessUtility_hook_type = None;

/// Installs the hook. Call once, from `_PG_init`.
pub fn register() {
    // SAFETY: called while the library loads, before any statement runs.
    unsafe {
        PREVIOUS_PROCESS_UTILITY = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(process_utility);
    }
}

#[allow(clippy::too_many_arguments)] // PostgreSQL's signature
unsafe extern "C-unwind" fn process_utility(
    statement: *mut pg_sys::PlannedStmt,
    query_string: *const std::ffi::c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
    destination: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: arguments are handed on as they came, to exactly one successor. The statement is
    // looked at before: a transaction that it ends may take its tree along. Nothing here
    // wants to be dropped when an ERROR jumps over this frame.
    unsafe {
        let node = (*statement).utilityStmt;
        let is_copy = (*node).type_ == pg_sys::NodeTag::T_CopyStmt;
        let pending_before = load::serial_now();
        let altered = table_with_new_access_method(node);
        let next = match PREVIOUS_PROCESS_UTILITY {
            Some(previous) => previous,
            None => ffi::unguarded::standard_ProcessUtility,
        };
        next(
            statement,
            query_string,
            read_only_tree,
            context,
            params,
            environment,
            destination,
            completion,
        );
        if is_copy {
            end_copy(pending_before);
        }
        if altered != pg_sys::InvalidOid {
            ensure_cold_store(altered);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn end_copy(pending_before: u64) {
    load::flush_since(pending_before);
}

/// The table of an ALTER TABLE … SET ACCESS METHOD, else an invalid OID.
#[pg_guard]
unsafe extern "C-unwind" fn table_with_new_access_method(node: *mut pg_sys::Node) -> pg_sys::Oid {
    // SAFETY: the node's tag says what it is; lists hold the nodes their field promises. Looking
    // the name up without a lock is enough: the statement itself locks and checks.
    unsafe {
        if (*node).type_ != pg_sys::NodeTag::T_AlterTableStmt {
            return pg_sys::InvalidOid;
        }
        let alter = node.cast::<pg_sys::AlterTableStmt>();
        let commands = (*alter).cmds;
        let sets_method = (0..pg_sys::list_length(commands)).any(|i| {
            let command = pg_sys::list_nth(commands, i).cast::<pg_sys::AlterTableCmd>();
            (*command).subtype == pg_sys::AlterTableType::AT_SetAccessMethod
        });
        if !sets_method {
            return pg_sys::InvalidOid;
        }
        pg_sys::RangeVarGetRelidExtended(
            (*alter).relation,
            pg_sys::NoLock as i32,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        )
    }
}

/// Gives a howdah table that has no TOAST relation one.
#[pg_guard]
unsafe extern "C-unwind" fn ensure_cold_store(oid: pg_sys::Oid) {
    // SAFETY: ALTER TABLE holds its lock on the table to the end of the transaction.
    unsafe {
        pg_sys::CommandCounterIncrement();
        let lacks_one = OpenRelation::try_open(oid, pg_sys::AccessShareLock).is_some_and(|table| {
            let form = (*table.raw()).rd_rel;
            (*form).relkind != pg_sys::RELKIND_PARTITIONED_TABLE as i8
                && is_howdah(table.raw())
                && (*form).reltoastrelid == pg_sys::InvalidOid
        });
        if lacks_one {
            let no_options = pg_sys::Datum::from(0);
            let lock = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;
            ffi::AlterTableCreateToastTable(oid, no_options, lock);
            pg_sys::CommandCounterIncrement();
        }
    }
}
