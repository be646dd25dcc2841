//! What utility statements need done after them.
//!
//! A howdah table always has a TOAST relation: it is the cold store. CREATE TABLE asks the access
//! method and gets one; ALTER TABLE … SET ACCESS METHOD howdah asks the *old* access
//! method and creates none for a table that never needed one. It is created here, right after.
//! Until then such a table is all hot, so nothing is lost if the statement fails.
//! A table that leaves howdah by the same command loses its options.

use pgrx::{pg_guard, pg_sys};

use howdah_bridge::ffi::{self, unguarded};
use howdah_bridge::relation::OpenRelation;

use crate::am::is_howdah;
use crate::load;
use crate::options;
use crate::store::marks::unmarked;

static mut PREVIOUS_PROCESS_UTILITY: pg_sys::ProcessUtility_hook_type = None;

/// Installs the hook. Call once, from `_PG_init`.
pub fn register() {
    // SAFETY: called while the library loads, before any statement runs.
    unsafe {
        PREVIOUS_PROCESS_UTILITY = pg_sys::ProcessUtility_hook;
        pg_sys::ProcessUtility_hook = Some(process_utility);
    }
}

/// What must be remembered over the run of a statement.
struct Before {
    altered: pg_sys::Oid,
    is_copy: bool,
    load_serial: u64,
}

/// Not guarded as a whole, see [`howdah_bridge::ffi::unguarded`].
unsafe extern "C-unwind" fn process_utility(
    statement: *mut pg_sys::PlannedStmt,
    query_string: *const std::ffi::c_char,
    read_only_tree: bool,
    context: pg_sys::ProcessUtilityContext::Type,
    params: pg_sys::ParamListInfo,
    query_env: *mut pg_sys::QueryEnvironment,
    dest: *mut pg_sys::DestReceiver,
    completion: *mut pg_sys::QueryCompletion,
) {
    // SAFETY: arguments are handed on as they came, to exactly one successor. The statement's tree
    // is looked at before: a transaction that the statement ends may take it along.
    unsafe {
        let next = PREVIOUS_PROCESS_UTILITY.unwrap_or(unguarded::standard_ProcessUtility);
        if is_transaction_statement(statement) {
            return next(
                statement,
                query_string,
                read_only_tree,
                context,
                params,
                query_env,
                dest,
                completion,
            );
        }
        let mut noted = Before {
            altered: pg_sys::InvalidOid,
            is_copy: false,
            load_serial: 0,
        };
        before(statement, &mut noted);
        next(
            statement,
            query_string,
            read_only_tree,
            context,
            params,
            query_env,
            dest,
            completion,
        );
        after(&noted);
    }
}

/// Whether there is nothing to do before or after a statement: BEGIN, COMMIT and the like, of which there are many.
unsafe fn is_transaction_statement(statement: *mut pg_sys::PlannedStmt) -> bool {
    // SAFETY: as for process_utility.
    unsafe { (*(*statement).utilityStmt).type_ == pg_sys::NodeTag::T_TransactionStmt }
}

#[pg_guard]
unsafe extern "C-unwind" fn before(statement: *mut pg_sys::PlannedStmt, noted: *mut Before) {
    // SAFETY: as for process_utility.
    unsafe {
        let node = (*statement).utilityStmt;
        (*noted).altered = table_with_new_access_method(node).unwrap_or(pg_sys::InvalidOid);
        (*noted).is_copy = (*node).type_ == pg_sys::NodeTag::T_CopyStmt;
        (*noted).load_serial = load::before_utility();
        if (*node).type_ == pg_sys::NodeTag::T_CreatedbStmt {
            // A template's files may come under names that were in use before.
            unmarked::forget();
        }
        if (*node).type_ == pg_sys::NodeTag::T_SecLabelStmt {
            options::provider::before_security_label(node.cast());
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn after(noted: *const Before) {
    // SAFETY: `noted` is the hook's own.
    unsafe {
        load::after_utility((*noted).is_copy, (*noted).load_serial);
        if (*noted).altered != pg_sys::InvalidOid {
            after_new_access_method((*noted).altered);
        }
    }
}

/// The table of an ALTER TABLE … SET ACCESS METHOD.
unsafe fn table_with_new_access_method(node: *mut pg_sys::Node) -> Option<pg_sys::Oid> {
    // SAFETY: the node's tag says what it is; lists hold the nodes their field promises. Looking
    // the name up without a lock is enough: the statement itself locks and checks.
    unsafe {
        if node.is_null() || (*node).type_ != pg_sys::NodeTag::T_AlterTableStmt {
            return None;
        }
        let alter = node.cast::<pg_sys::AlterTableStmt>();
        let commands = (*alter).cmds;
        let sets_method = (0..pg_sys::list_length(commands)).any(|i| {
            let command = pg_sys::list_nth(commands, i).cast::<pg_sys::AlterTableCmd>();
            (*command).subtype == pg_sys::AlterTableType::AT_SetAccessMethod
        });
        if !sets_method {
            return None;
        }
        let oid = pg_sys::RangeVarGetRelidExtended(
            (*alter).relation,
            pg_sys::NoLock as i32,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        );
        (oid != pg_sys::InvalidOid).then_some(oid)
    }
}

/// Gives a howdah table that has no TOAST relation one, and a table of another access method no
/// options.
unsafe fn after_new_access_method(oid: pg_sys::Oid) {
    // SAFETY: ALTER TABLE holds its lock on the table to the end of the transaction.
    unsafe {
        pg_sys::CommandCounterIncrement();
        let Some(table) = OpenRelation::try_open(oid, pg_sys::AccessShareLock) else {
            return;
        };
        let form = (*table.raw()).rd_rel;
        let ours = is_howdah(table.raw());
        let lacks_store = (*form).relkind != pg_sys::RELKIND_PARTITIONED_TABLE as i8
            && ours
            && (*form).reltoastrelid == pg_sys::InvalidOid;
        drop(table);
        if !ours {
            options::catalog::forget(oid);
        }
        if lacks_store {
            let no_options = pg_sys::Datum::from(0);
            let lock = pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE;
            ffi::AlterTableCreateToastTable(oid, no_options, lock);
            pg_sys::CommandCounterIncrement();
        }
    }
}
