//! Notification of utility statements; COPY of a table with cold rows is changed on the way
//! ([`crate::client_rows`]), and the default access method for statements of other extensions
//! ([`default_method`]).

use std::ffi::CStr;
use std::sync::OnceLock;

use pgrx::{pg_guard, pg_sys};

use crate::client_rows;
use crate::default_method;
use crate::ffi::unguarded;
use crate::statement_settings;
use crate::table::Table;

/// A utility statement.
#[derive(Clone, Copy)]
pub enum Statement<'a> {
    Copy,
    CreateDatabase,
    SecurityLabel {
        /// By its name; `None` if the only one is meant.
        provider: Option<&'a CStr>,
    },
    /// ALTER TABLE … SET ACCESS METHOD, perhaps among other commands.
    SetAccessMethod,
    Other,
}

/// What is kept while a statement runs.
#[derive(Clone, Copy, Default)]
pub struct Noted {
    /// A number of the watcher's.
    pub note: u64,
    pub is_copy: bool,
    sets_method: bool,
    /// The table that got a new access method, known after the statement.
    pub altered: Option<pg_sys::Oid>,
}

/// Is called for all utility statements except those of transactions (BEGIN, COMMIT and the like).
pub trait Watcher: Sync {
    /// Called before a statement; returns a note for the end.
    fn before(&self, statement: Statement<'_>) -> u64;

    /// Called after a statement that raised no ERROR.
    fn after(&self, noted: &Noted);

    /// Whether a table has rows that a plan may read faster than a sequential scan does. A snapshot
    /// is active.
    fn has_cold_rows(&self, table: Table<'_>) -> bool;
}

static WATCHER: OnceLock<&'static dyn Watcher> = OnceLock::new();
static mut PREVIOUS_PROCESS_UTILITY: pg_sys::ProcessUtility_hook_type = None;

/// Installs the hook. Call once, from `_PG_init`.
pub fn register(watcher: &'static dyn Watcher) {
    if WATCHER.set(watcher).is_ok() {
        // SAFETY: called while the library loads, before any statement runs.
        unsafe {
            PREVIOUS_PROCESS_UTILITY = pg_sys::ProcessUtility_hook;
            pg_sys::ProcessUtility_hook = Some(process_utility);
        }
    }
}

/// Not guarded as a whole, see [`crate::ffi::unguarded`].
///
/// # Safety
/// Called by the server, with the arguments of its hook.
#[allow(clippy::too_many_arguments)] // the hook's
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
    // SAFETY: arguments are handed on as they came, but for a COPY, to exactly one successor. The
    // statement's tree is looked at before: a transaction that the statement ends may free
    // it.
    unsafe {
        let next = PREVIOUS_PROCESS_UTILITY.unwrap_or(unguarded::standard_ProcessUtility);
        let run = |statement| {
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
        };
        if is_transaction_statement(statement) {
            return run(statement);
        }
        let mut noted = Noted::default();
        before(statement, &mut noted);
        let mut settings = 0;
        let statement = match noted.is_copy {
            true => client_rows::prepare_copy(statement, query_string, &mut settings),
            false => {
                default_method::prepare(statement, &mut settings);
                statement
            }
        };
        run(statement);
        if settings > 0 {
            statement_settings::restore(settings);
        }
        after(statement, &mut noted);
    }
}

/// Whether there is nothing to do before or after a statement: BEGIN, COMMIT and the like, of which
/// there are many.
///
/// # Safety
/// The statement is one that the server is about to run.
unsafe fn is_transaction_statement(statement: *mut pg_sys::PlannedStmt) -> bool {
    // SAFETY: as for process_utility.
    unsafe { (*(*statement).utilityStmt).type_ == pg_sys::NodeTag::T_TransactionStmt }
}

#[pg_guard]
unsafe extern "C-unwind" fn before(statement: *mut pg_sys::PlannedStmt, noted: *mut Noted) {
    // SAFETY: as for process_utility; `noted` is the hook's own.
    unsafe {
        let noted = &mut *noted;
        let statement = statement_of((*statement).utilityStmt);
        match statement {
            Statement::Copy => noted.is_copy = true,
            Statement::SetAccessMethod => noted.sets_method = true,
            _ => {}
        }
        if let Some(watcher) = WATCHER.get() {
            noted.note = watcher.before(statement);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn after(statement: *mut pg_sys::PlannedStmt, noted: *mut Noted) {
    // SAFETY: `noted` is the hook's own. ALTER TABLE ends no transaction, so that its tree is still
    // there.
    let noted = unsafe {
        if (*noted).sets_method {
            (*noted).altered = altered_table((*statement).utilityStmt.cast());
        }
        &*noted
    };
    if let Some(watcher) = WATCHER.get() {
        watcher.after(noted);
    }
}

/// Whether a table has rows that a plan may read faster than a sequential scan does.
pub(crate) fn has_cold_rows(table: Table<'_>) -> bool {
    (WATCHER.get()).is_some_and(|watcher| watcher.has_cold_rows(table))
}

/// # Safety
/// A utility statement that outlives the result.
unsafe fn statement_of<'a>(node: *mut pg_sys::Node) -> Statement<'a> {
    // SAFETY: the node's tag says what it is; a provider's name is NULL or NUL-terminated.
    unsafe {
        match (*node).type_ {
            pg_sys::NodeTag::T_CopyStmt => Statement::Copy,
            pg_sys::NodeTag::T_CreatedbStmt => Statement::CreateDatabase,
            pg_sys::NodeTag::T_SecLabelStmt => {
                let provider = (*node.cast::<pg_sys::SecLabelStmt>()).provider;
                let provider = (!provider.is_null()).then(|| CStr::from_ptr(provider));
                Statement::SecurityLabel { provider }
            }
            pg_sys::NodeTag::T_AlterTableStmt if sets_access_method(node.cast()) => {
                Statement::SetAccessMethod
            }
            _ => Statement::Other,
        }
    }
}

/// # Safety
/// A statement that the parser has made.
unsafe fn sets_access_method(alter: *const pg_sys::AlterTableStmt) -> bool {
    // SAFETY: lists hold the nodes their field promises.
    unsafe {
        let commands = (*alter).cmds;
        (0..pg_sys::list_length(commands)).any(|i| {
            let command = pg_sys::list_nth(commands, i).cast::<pg_sys::AlterTableCmd>();
            (*command).subtype == pg_sys::AlterTableType::AT_SetAccessMethod
        })
    }
}

/// The table of an ALTER TABLE that has run: its lock keeps others from giving the name to another
/// table, as they might while the statement waits for it.
///
/// # Safety
/// A statement that the parser has made.
unsafe fn altered_table(alter: *const pg_sys::AlterTableStmt) -> Option<pg_sys::Oid> {
    // SAFETY: as for this function.
    let oid = unsafe {
        pg_sys::RangeVarGetRelidExtended(
            (*alter).relation,
            pg_sys::NoLock as i32,
            pg_sys::RVROption::RVR_MISSING_OK,
            None,
            std::ptr::null_mut(),
        )
    };
    (oid != pg_sys::InvalidOid).then_some(oid)
}
