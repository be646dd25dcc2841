//! What custom scan nodes have in common, whatever they do: method tables, new nodes of each stage,
//! expressions as EXPLAIN shows them, and a search in expressions.
//!
//! ```text
//!   path (planner) ──> plan ──> state (executor) ──> EXPLAIN
//!   new_path          new_scan  new_state            Deparser
//! ```
//!
//! Nodes are zeroed memory of the current memory context, with what the core requires of each.

use std::ffi::{CStr, c_char, c_void};

use pgrx::{pg_guard, pg_sys};

/// Method tables, to which PostgreSQL keeps pointers for the life of the process.
pub(crate) struct Methods<T>(pub T);
// SAFETY: only made of function pointers and pointers to constants; never written.
unsafe impl<T> Sync for Methods<T> {}

/// Makes a plan of a path.
type PlanPath = unsafe extern "C-unwind" fn(
    *mut pg_sys::PlannerInfo,
    *mut pg_sys::RelOptInfo,
    *mut pg_sys::CustomPath,
    *mut pg_sys::List,
    *mut pg_sys::List,
    *mut pg_sys::List,
) -> *mut pg_sys::Plan;

/// The methods of a path; `name` is that of the node.
pub(crate) const fn path_methods(
    name: &'static CStr,
    plan: PlanPath,
) -> Methods<pg_sys::CustomPathMethods> {
    Methods(pg_sys::CustomPathMethods {
        CustomName: name.as_ptr(),
        PlanCustomPath: Some(plan),
        ReparameterizeCustomPathByChild: None,
    })
}

/// The methods of a plan; `create` makes the executor's node.
pub(crate) const fn scan_methods(
    name: &'static CStr,
    create: unsafe extern "C-unwind" fn(*mut pg_sys::CustomScan) -> *mut pg_sys::Node,
) -> Methods<pg_sys::CustomScanMethods> {
    Methods(pg_sys::CustomScanMethods {
        CustomName: name.as_ptr(),
        CreateCustomScanState: Some(create),
    })
}

/// The methods of the executor's node, without any but its name.
pub(crate) const fn no_exec_methods(name: &'static CStr) -> pg_sys::CustomExecMethods {
    pg_sys::CustomExecMethods {
        CustomName: name.as_ptr(),
        BeginCustomScan: None,
        ExecCustomScan: None,
        EndCustomScan: None,
        ReScanCustomScan: None,
        MarkPosCustomScan: None,
        RestrPosCustomScan: None,
        EstimateDSMCustomScan: None,
        InitializeDSMCustomScan: None,
        ReInitializeDSMCustomScan: None,
        InitializeWorkerCustomScan: None,
        ShutdownCustomScan: None,
        ExplainCustomScan: None,
    }
}

/// A node of zeroes.
fn zeroed<T>() -> *mut T {
    // SAFETY: plain allocation in the current memory context.
    unsafe { pg_sys::palloc0(size_of::<T>()).cast() }
}

/// A path for a relation.
///
/// # Safety
/// `parent` is a relation of the query that is being planned, in the current memory context.
pub(crate) unsafe fn new_path(
    methods: &'static Methods<pg_sys::CustomPathMethods>,
    parent: *mut pg_sys::RelOptInfo,
) -> *mut pg_sys::CustomPath {
    let custom = zeroed::<pg_sys::CustomPath>();
    // SAFETY: the node has just been made; it keeps the relation that the caller vouches for.
    unsafe {
        (*custom).path.type_ = pg_sys::NodeTag::T_CustomPath;
        (*custom).path.pathtype = pg_sys::NodeTag::T_CustomScan;
        (*custom).path.parent = parent;
        (*custom).methods = &raw const methods.0;
    }
    custom
}

/// A plan with this target list and qual.
///
/// # Safety
/// Both lists live as long as the current memory context.
pub(crate) unsafe fn new_scan(
    methods: &'static Methods<pg_sys::CustomScanMethods>,
    targets: *mut pg_sys::List,
    qual: *mut pg_sys::List,
) -> *mut pg_sys::CustomScan {
    let custom = zeroed::<pg_sys::CustomScan>();
    // SAFETY: the node has just been made; it keeps the lists that the caller vouches for.
    unsafe {
        (*custom).scan.plan.type_ = pg_sys::NodeTag::T_CustomScan;
        (*custom).scan.plan.targetlist = targets;
        (*custom).scan.plan.qual = qual;
        (*custom).methods = &raw const methods.0;
    }
    custom
}

/// A node of the executor.
///
/// # Safety
/// `T` begins with a [`pg_sys::CustomScanState`], and zeroes are a valid `T`.
pub(crate) unsafe fn new_state<T>(
    methods: &'static Methods<pg_sys::CustomExecMethods>,
) -> *mut pg_sys::Node {
    const { assert!(size_of::<T>() >= size_of::<pg_sys::CustomScanState>()) };
    let state = zeroed::<T>().cast::<pg_sys::CustomScanState>();
    // SAFETY: the node has just been made; the caller vouches for its first field.
    unsafe {
        (*state).ss.ps.type_ = pg_sys::NodeTag::T_CustomScanState;
        (*state).methods = &raw const methods.0;
    }
    state.cast()
}

/// Shows expressions of a plan in EXPLAIN.
pub(crate) struct Deparser {
    context: *mut pg_sys::List,
    verbose: bool,
}

impl Deparser {
    /// # Safety
    /// The arguments are those of the node's EXPLAIN callback, which outlives the result.
    pub unsafe fn of(
        plan: *mut pg_sys::CustomScan,
        ancestors: *mut pg_sys::List,
        es: *mut pg_sys::ExplainState,
    ) -> Deparser {
        // SAFETY: as for this function.
        unsafe {
            Deparser {
                context: pg_sys::set_deparse_context_plan(
                    (*es).deparse_cxt,
                    plan.cast(),
                    ancestors,
                ),
                verbose: (*es).verbose,
            }
        }
    }

    /// The text of an expression, in the current memory context.
    ///
    /// # Safety
    /// An expression of the plan; not used after the EXPLAIN callback.
    pub unsafe fn text(&self, expr: *mut pg_sys::Node) -> *mut c_char {
        // SAFETY: as for this function; `of` was given what the context is made of.
        unsafe { pg_sys::deparse_expression(expr, self.context, self.verbose, false) }
    }
}

/// Whether a node of an expression is wanted.
pub(crate) type IsWanted = unsafe fn(*mut pg_sys::Node) -> bool;

/// Whether any node of an expression, or of a list of them, is wanted.
///
/// # Safety
/// An expression, or NULL; `is_wanted` may be called for each of its nodes.
pub(crate) unsafe fn contains(expr: *mut pg_sys::Node, is_wanted: IsWanted) -> bool {
    let mut is_wanted = is_wanted;
    // SAFETY: as for this function; the walker reads the function that outlives the walk.
    unsafe { walk(expr, (&raw mut is_wanted).cast()) }
}

/// # Safety
/// A node or NULL; `context` points to an [`IsWanted`] that may be called for the node.
#[pg_guard]
unsafe extern "C-unwind" fn walk(node: *mut pg_sys::Node, context: *mut c_void) -> bool {
    // SAFETY: as for this function, for the nodes below as well.
    unsafe {
        if node.is_null() {
            return false;
        }
        let is_wanted = *context.cast::<IsWanted>();
        is_wanted(node) || pg_sys::expression_tree_walker_impl(node, Some(walk), context)
    }
}
