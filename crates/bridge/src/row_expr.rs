//! A plan node's qual and projection, for nodes that return row after row.
//!
//! These mirror `ExecQual`, `ExecProject` and CHECK_FOR_INTERRUPTS, which are inline in PostgreSQL
//! too. They hold nothing that has a destructor and are not guarded: an ERROR in an expression
//! jumps over them, and over their callers, which must not hold anything either.

use pgrx::{pg_guard, pg_sys};

/// `ExecQual` of the row in a slot, after a reset of the per-tuple memory. An absent qual is true.
///
/// # Safety
/// An initialised qual of the node whose context it is; no frame up to the executor holds anything
/// that must be dropped.
#[inline(always)]
pub unsafe fn passes(
    qual: *mut pg_sys::ExprState,
    context: *mut pg_sys::ExprContext,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: as for this function.
    unsafe {
        if qual.is_null() {
            return true;
        }
        reset(context);
        (*context).ecxt_scantuple = slot;
        evaluate(qual, context).value() != 0
    }
}

/// `ExecProject` of the row in a slot.
///
/// # Safety
/// As for [`passes`].
pub unsafe fn project(
    projection: *mut pg_sys::ProjectionInfo,
    context: *mut pg_sys::ExprContext,
    slot: *mut pg_sys::TupleTableSlot,
) -> *mut pg_sys::TupleTableSlot {
    // SAFETY: as for this function.
    unsafe {
        let state = &raw mut (*projection).pi_state;
        let result = (*state).resultslot;
        reset(context);
        (*context).ecxt_scantuple = slot;
        crate::slot::clear(result);
        evaluate(state, context);
        (*result).tts_flags &= !(pg_sys::TTS_FLAG_EMPTY as u16);
        (*result).tts_nvalid = (*(*result).tts_tupleDescriptor).natts as i16;
        result
    }
}

/// The function that evaluates an expression.
///
/// # Safety
/// `state` was initialised.
#[inline(always)]
pub(crate) unsafe fn evaluator(state: *mut pg_sys::ExprState) -> Evaluator {
    // SAFETY: `ExecReadyExpr` has set it, without which `ExecInitExpr` does not return. The
    // executor calls it without a check, too. It is read each time, because the first evaluation
    // replaces it.
    unsafe { (*state).evalfunc.unwrap_unchecked() }
}

/// A function that evaluates an expression: `ExprStateEvalFunc`.
type Evaluator = unsafe extern "C-unwind" fn(
    *mut pg_sys::ExprState,
    *mut pg_sys::ExprContext,
    *mut bool,
) -> pg_sys::Datum;

/// # Safety
/// As for [`passes`].
#[inline(always)]
unsafe fn evaluate(
    state: *mut pg_sys::ExprState,
    context: *mut pg_sys::ExprContext,
) -> pg_sys::Datum {
    // SAFETY: as for `passes`.
    unsafe {
        let mut null = false;
        let old = pg_sys::CurrentMemoryContext;
        pg_sys::CurrentMemoryContext = (*context).ecxt_per_tuple_memory;
        let value = evaluator(state)(state, context, &mut null);
        pg_sys::CurrentMemoryContext = old;
        value
    }
}

/// # Safety
/// As for [`passes`].
#[inline(always)]
unsafe fn reset(context: *mut pg_sys::ExprContext) {
    // SAFETY: as for `passes`; most expressions allocate nothing.
    unsafe {
        let memory = (*context).ecxt_per_tuple_memory;
        if !(*memory).isReset || !(*memory).firstchild.is_null() {
            empty(memory);
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn empty(memory: pg_sys::MemoryContext) {
    // SAFETY: the node's per-tuple memory.
    unsafe { pg_sys::MemoryContextReset(memory) }
}

/// CHECK_FOR_INTERRUPTS.
///
/// # Safety
/// No lock is held; for the rest as for [`passes`].
#[inline(always)]
pub unsafe fn interrupts() {
    // SAFETY: a flag that signal handlers set.
    unsafe {
        if std::ptr::read_volatile(&raw const pg_sys::InterruptPending) != 0 {
            serve_interrupts();
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn serve_interrupts() {
    // SAFETY: as for `interrupts`.
    unsafe { pg_sys::ProcessInterrupts() }
}

/// Evaluates an expression in the node's per-tuple memory, guarded: an ERROR becomes a panic.
/// `None` is NULL.
///
/// # Safety
/// An initialised expression of the node whose context it is.
pub unsafe fn value_of(
    state: *mut pg_sys::ExprState,
    context: *mut pg_sys::ExprContext,
) -> Option<pg_sys::Datum> {
    let mut null = true;
    // SAFETY: as for this function; nothing with a destructor lives inside the boundary.
    let value = unsafe {
        let old = pg_sys::MemoryContextSwitchTo((*context).ecxt_per_tuple_memory);
        let run = evaluator(state);
        let value = pg_sys::ffi::pg_guard_ffi_boundary(|| run(state, context, &raw mut null));
        pg_sys::MemoryContextSwitchTo(old);
        value
    };
    (!null).then_some(value)
}
