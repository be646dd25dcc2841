//! Why levels of a statement were not vectorized, kept from planning for `EXPLAIN (VERBOSE)`.
//!
//! ```text
//!   planner_hook ─▶ frame { level: reasons, … } ◀─ the hook for upper paths
//!        └─ end of planning ─▶ the last statements, by text and place ─▶ explain_per_plan_hook
//! ```
//!
//! A plan has no place for notes of an extension. So reasons are found again by what both the
//! planner and EXPLAIN know: the text of the query, and the statement's position in it. EXPLAIN of
//! a prepared statement finds those of its last planning. Only levels that read a table of the
//! engine are noted.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int};
use std::hash::{DefaultHasher, Hash, Hasher};

use pgrx::{PgList, pg_guard, pg_sys};

use super::own_plan::only_child;
use super::reason::Reason;
use super::{Engine, jit, plan};
use crate::ffi::passing;
use crate::names;
use crate::xid::current_subtransaction;

/// The number of statements that are remembered.
const MOST: usize = 64;

/// A level of a statement.
struct Level {
    /// Distinguishes levels while they are planned; never dereferenced.
    root: *mut pg_sys::PlannerInfo,
    was_offered: bool,
    /// The relations of the level that the engine could read; `None` until they are first looked
    /// up.
    names: Option<String>,
    reasons: Vec<Reason>,
}

/// The notes of a statement: relations and reason.
type Note = (String, Reason);

thread_local! {
    /// One entry per planning in progress: a function may be planned while another statement is.
    static FRAMES: RefCell<Vec<Frame>> = const { RefCell::new(Vec::new()) };
    static LAST: RefCell<VecDeque<(u64, Vec<Note>)>> = const { RefCell::new(VecDeque::new()) };
}

static mut PREVIOUS_PLANNER: pg_sys::planner_hook_type = None;
static mut PREVIOUS_EXPLAIN: pg_sys::explain_per_plan_hook_type = None;

/// Chains the hooks.
///
/// # Safety
/// Called once, while the library is loaded.
pub(super) unsafe fn install() {
    // SAFETY: nothing else runs in the process yet.
    unsafe {
        PREVIOUS_PLANNER = pg_sys::planner_hook;
        pg_sys::planner_hook = Some(plan_statement);
        PREVIOUS_EXPLAIN = pg_sys::explain_per_plan_hook;
        pg_sys::explain_per_plan_hook = Some(explain_plan);
    }
}

/// A planning in progress. One that an ERROR has ended stays until it is noticed.
///
/// Two rules tell it from the planning that goes on. A planning that still runs lies further up the
/// stack than one that begins. And an ERROR within a planning that goes on, such as one of a
/// function that the planner evaluates, was caught by a subtransaction that began after it.
struct Frame {
    /// Where the planning has its place on the stack, which grows downwards.
    address: usize,
    subtransaction: pg_sys::SubTransactionId,
    levels: Vec<Level>,
}

/// Begins a planning; those that have ended are taken away.
fn push_frame(address: usize) {
    let subtransaction = current_subtransaction();
    FRAMES.with_borrow_mut(|frames| {
        while frames.last().is_some_and(|last| last.address <= address) {
            frames.pop();
        }
        frames.push(Frame {
            address,
            subtransaction,
            levels: Vec::new(),
        });
    });
}

/// Ends the planning with this place on the stack.
fn pop_frame(address: usize) -> Vec<Level> {
    FRAMES.with_borrow_mut(|frames| {
        // Frames further down are those of plannings that an ERROR has ended.
        while let Some(last) = frames.pop() {
            if last.address >= address {
                return last.levels;
            }
        }
        Vec::new()
    })
}

/// An ERROR passes over this frame as it is: its CONTEXT is the user's.
#[pg_guard]
unsafe extern "C-unwind" fn plan_statement(
    query: *mut pg_sys::Query,
    text: *const c_char,
    options: c_int,
    parameters: pg_sys::ParamListInfo,
) -> *mut pg_sys::PlannedStmt {
    let here = 0u8;
    let address = (&raw const here).addr();
    push_frame(address);
    // SAFETY: arguments come from the core and are handed on as they are. Nothing is held that an
    // ERROR would leave behind, but the frame, which is noticed later.
    unsafe {
        let planned = match PREVIOUS_PLANNER {
            Some(previous) => previous(query, text, options, parameters),
            None => passing::standard_planner(query, text, options, parameters),
        };
        jit::settle(planned);
        keep(key(text, planned), pop_frame(address));
        planned
    }
}

/// Identifies a statement.
///
/// # Safety
/// `text` is a C string or NULL, `planned` a finished plan.
unsafe fn key(text: *const c_char, planned: *const pg_sys::PlannedStmt) -> u64 {
    let mut hasher = DefaultHasher::new();
    // SAFETY: the text is a C string or NULL; the plan is a finished one.
    unsafe {
        if !text.is_null() {
            CStr::from_ptr(text).hash(&mut hasher);
        }
        ((*planned).stmt_location, (*planned).stmt_len).hash(&mut hasher);
    }
    hasher.finish()
}

fn keep(key: u64, levels: Vec<Level>) {
    let mut notes: Vec<Note> = Vec::new();
    for level in levels {
        let Some(names) = level.names else {
            continue;
        };
        for reason in level.reasons {
            let note = (names.clone(), reason);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    LAST.with_borrow_mut(|last| {
        last.retain(|(known, _)| *known != key);
        if notes.is_empty() {
            return;
        }
        if last.len() >= MOST {
            last.pop_front();
        }
        last.push_back((key, notes));
    });
}

/// Calls a function with the notes of a level; does nothing outside of a planning.
fn with_level(root: *mut pg_sys::PlannerInfo, work: impl FnOnce(&mut Level)) {
    let subtransaction = current_subtransaction();
    FRAMES.with_borrow_mut(|frames| {
        while frames
            .last()
            .is_some_and(|last| last.subtransaction != subtransaction)
        {
            frames.pop();
        }
        let Some(Frame { levels, .. }) = frames.last_mut() else {
            return;
        };
        let at = levels.iter().position(|level| level.root == root);
        let at = at.unwrap_or_else(|| {
            levels.push(Level {
                root,
                was_offered: false,
                names: None,
                reasons: Vec::new(),
            });
            levels.len() - 1
        });
        work(&mut levels[at]);
    });
}

/// Notes that a path was offered.
pub(super) fn offered(root: *mut pg_sys::PlannerInfo) {
    with_level(root, |level| level.was_offered = true);
}

/// Notes why no path was offered.
///
/// # Safety
/// Planner structures.
pub(super) unsafe fn declined(engine: &dyn Engine, root: *mut pg_sys::PlannerInfo, reason: Reason) {
    // SAFETY: as for this function. Asked before anything is borrowed: the catalog may raise an
    // ERROR.
    let names = unsafe { names_of(engine, root) };
    if names.is_empty() {
        return;
    }
    with_level(root, |level| {
        level.names = Some(names);
        // A sort of rows that were grouped before does not keep a level from the engine.
        let is_minor = reason == Reason::SortWithoutLimit;
        if !is_minor || level.reasons.is_empty() && !level.was_offered {
            level.reasons.push(reason);
        }
    });
}

/// Notes, at the end of a level, why no offered path is used, or that the engine was not asked for
/// one.
///
/// # Safety
/// Planner structures; all paths of the level are in `output`.
pub(super) unsafe fn finish(
    engine: &dyn Engine,
    root: *mut pg_sys::PlannerInfo,
    output: *mut pg_sys::RelOptInfo,
) {
    let (mut was_offered, mut has_reasons) = (false, false);
    with_level(root, |level| {
        was_offered = level.was_offered;
        has_reasons = !level.reasons.is_empty();
    });
    // SAFETY: as for this function.
    unsafe {
        let is_select = (*(*root).parse).commandType == pg_sys::CmdType::CMD_SELECT;
        if !was_offered && !has_reasons && is_select {
            let reason = match (*(*root).parse).hasWindowFuncs {
                true => Reason::WindowFunctions,
                false => Reason::PlainRows,
            };
            declined(engine, root, reason);
        } else if was_offered && !is_taken(output) {
            declined(engine, root, Reason::Cost);
        }
    }
}

/// Whether the cheapest path goes through one of ours.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
unsafe fn is_taken(output: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: planner structures.
    unsafe {
        let cheapest = PgList::<pg_sys::Path>::from_pg((*output).pathlist)
            .iter_ptr()
            .min_by(|&a, &b| {
                let key = |path: *mut pg_sys::Path| ((*path).disabled_nodes, (*path).total_cost);
                let (a, b) = (key(a), key(b));
                a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
            });
        let mut next = cheapest;
        while let Some(path) = next {
            if plan::is_ours(path) {
                return true;
            }
            next = only_child(path);
        }
        false
    }
}

/// The relations of a level that the engine could read, or whose partitions it could, by their
/// names in the query.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
unsafe fn names_of(engine: &dyn Engine, root: *mut pg_sys::PlannerInfo) -> String {
    // SAFETY: planner structures; indexes are within the arrays, whose first entry is not used.
    unsafe {
        let mut tops: Vec<usize> = Vec::new();
        for at in 1..(*root).simple_rel_array_size as usize {
            let rte = *(*root).simple_rte_array.add(at);
            if rte.is_null()
                || (*rte).rtekind != pg_sys::RTEKind::RTE_RELATION
                || !matches!((*rte).relkind as u8, b'r' | b'm')
            {
                continue;
            }
            let mut top = at;
            while !(*root).append_rel_array.is_null() {
                let above = *(*root).append_rel_array.add(top);
                if above.is_null() {
                    break;
                }
                top = (*above).parent_relid as usize;
            }
            if !tops.contains(&top) && engine.owns((*rte).relid) {
                tops.push(top);
            }
        }
        let names = tops.into_iter().map(|top| {
            let rte = *(*root).simple_rte_array.add(top);
            names::shown((*(*rte).eref).aliasname)
        });
        names.collect::<Vec<_>>().join(", ")
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn explain_plan(
    planned: *mut pg_sys::PlannedStmt,
    into: *mut pg_sys::IntoClause,
    es: *mut pg_sys::ExplainState,
    text: *const c_char,
    parameters: pg_sys::ParamListInfo,
    environment: *mut pg_sys::QueryEnvironment,
) {
    // SAFETY: arguments come from EXPLAIN; the previous hook gets what we got.
    unsafe {
        if let Some(previous) = PREVIOUS_EXPLAIN {
            pg_sys::ffi::pg_guard_ffi_boundary(|| {
                previous(planned, into, es, text, parameters, environment);
            });
        }
        if !(*es).verbose {
            return;
        }
        let key = key(text, planned);
        let notes = LAST.with_borrow(|last| {
            let found = last.iter().find(|(known, _)| *known == key);
            found.map(|(_, notes)| notes.clone()).unwrap_or_default()
        });
        let mut texts = PgList::<c_char>::new();
        for (names, reason) in notes {
            let text = format!("{names}: {}", reason.describe()).replace('\0', "");
            let text = std::ffi::CString::new(text).unwrap_or_default();
            texts.push(pg_sys::pstrdup(text.as_ptr()));
        }
        if !texts.is_empty() {
            pg_sys::ExplainPropertyList(c"Not Vectorized".as_ptr(), texts.into_pg(), es);
        }
    }
}
