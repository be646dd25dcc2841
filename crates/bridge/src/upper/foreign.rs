//! Expressions that PostgreSQL evaluates for the engine, a batch of rows at a time.
//!
//! ```text
//!   Run::compile_foreign ─▶ ForeignExpressions: ExecInitExpr of each, a slot of the relation's
//!     │                     descriptor, an expression context of the node's executor; no JIT
//!     └─ evaluate ─▶ datums of a row into the slot ─▶ ExecEvalExpr ─▶ results, up to 256 rows
//!                    ─▶ the caller copies them ─▶ the context's memory is reset
//! ```
//!
//! Invariants
//! - Expressions are evaluated on the thread that compiled them, and only while the run lasts: they
//!   are registered under a number, for this thread alone, until [`ForeignExpressions`] is dropped.
//! - An ERROR reaches the user as it was raised. The guard that turns it into a panic, so that the
//!   engine's threads end before the executor's frames are left, would lose its CONTEXT and the
//!   names of its objects. So a copy is made while the ERROR is being raised, by a callback for its
//!   context, which is called after all callbacks of the functions below. The node raises this copy
//!   when the run has unwound ([`Raised`]).
//! - Nothing registered here is borrowed while an expression is evaluated: it may run queries whose
//!   own nodes register theirs.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::rc::Rc;

use pgrx::pg_sys;

use super::Run;
use super::expr::Node;
use super::node::inner;
use crate::datum::{Datum, TypedDatum};
use crate::ffi::{pg_guard_ffi_boundary, unguarded};
use crate::row_expr::{evaluator, interrupts};

/// The maximal number of rows whose results are kept at a time.
pub const CHUNK_ROWS: usize = 256;
/// No more rows are evaluated before results are copied if their memory is larger, in bytes.
const MOST_KEPT_BYTES: usize = 1 << 20;

thread_local! {
    /// The expressions of each run in progress.
    static COMPILED: RefCell<Vec<(u64, Rc<Compiled>)>> = const { RefCell::new(Vec::new()) };
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// The ERROR that ended a run, as it was raised; NULL if there is none. In the query's memory.
pub(super) type Raised = *mut pg_sys::ErrorData;

/// The expressions of one run.
pub struct ForeignExpressions<'a> {
    number: u64,
    run: PhantomData<&'a ()>,
}

/// Names the expressions of one run. Usable on the thread that compiled them; elsewhere, and when
/// the run is over, nothing is found under it.
#[derive(Clone, Copy, Debug)]
pub struct ForeignRun(u64);

/// Rows for which an expression is evaluated.
pub struct Arguments<'a> {
    /// The attributes of the relation that are given.
    pub attributes: &'a [usize],
    /// Row after row, a datum of each of these attributes.
    pub values: &'a [Datum],
    /// Which of them are NULL.
    pub nulls: &'a [bool],
}

struct Compiled {
    states: Vec<State>,
    context: *mut pg_sys::ExprContext,
    slot: *mut pg_sys::TupleTableSlot,
    /// Holds states and slot.
    memory: pg_sys::MemoryContext,
    raised: *mut Raised,
    query_memory: pg_sys::MemoryContext,
}

struct State {
    expression: *mut pg_sys::ExprState,
    len: i16,
    by_value: bool,
}

impl Run<'_> {
    /// Compiles expressions over attributes of the relation.
    pub fn compile_foreign(&self, expressions: &[Node<'_>]) -> ForeignExpressions<'_> {
        let number = NEXT.replace(NEXT.get() + 1);
        if !expressions.is_empty() {
            let (node, raised, desc) = (self.node(), self.raised(), self.relation().descriptor());
            // SAFETY: the executor's node was begun. What is made lies in a context below the
            // query's memory, until it is deleted in `drop`; after an ERROR the query's memory is
            // deleted as a whole. The expressions were planned for this relation.
            let compiled = unsafe {
                let estate = (*node).ss.ps.state;
                let query_memory = (*estate).es_query_cxt;
                let memory = pg_sys::AllocSetContextCreateInternal(
                    query_memory,
                    c"howdah foreign expressions".as_ptr(),
                    0,
                    8 << 10,
                    8 << 20,
                );
                let context = pg_sys::CreateExprContext(estate);
                let old = pg_sys::MemoryContextSwitchTo(memory);
                let desc = pg_sys::CreateTupleDescCopy(desc.raw());
                let slot = pg_sys::MakeSingleTupleTableSlot(desc, &raw const pg_sys::TTSOpsVirtual);
                pg_sys::ExecStoreAllNullTuple(slot);
                (*context).ecxt_scantuple = slot;
                // Without JIT: each run would compile them again, and what it made would be kept
                // until the statement ends. After an ERROR the executor's state is not used again.
                let jit_flags = std::mem::take(&mut (*estate).es_jit_flags);
                let states = expressions.iter().map(|expression| {
                    let copy = pg_sys::copyObjectImpl(expression.raw().cast());
                    pg_sys::fix_opfuncids(copy.cast());
                    let (mut len, mut by_value) = (0, false);
                    pg_sys::get_typlenbyval(expression.type_oid(), &mut len, &mut by_value);
                    State {
                        expression: pg_sys::ExecInitExpr(copy.cast(), &raw mut (*node).ss.ps),
                        len,
                        by_value,
                    }
                });
                let states = inner(node).role.run(|| states.collect());
                (*estate).es_jit_flags = jit_flags;
                pg_sys::MemoryContextSwitchTo(old);
                Compiled {
                    states,
                    context,
                    slot,
                    memory,
                    raised,
                    query_memory,
                }
            };
            COMPILED.with_borrow_mut(|all| all.push((number, Rc::new(compiled))));
        }
        ForeignExpressions {
            number,
            run: PhantomData,
        }
    }
}

impl ForeignExpressions<'_> {
    /// By which they are found on this thread.
    pub fn run(&self) -> ForeignRun {
        ForeignRun(self.number)
    }
}

impl Drop for ForeignExpressions<'_> {
    fn drop(&mut self) {
        let compiled = COMPILED.with_borrow_mut(|all| {
            let at = all.iter().position(|(number, _)| *number == self.number)?;
            Some(all.swap_remove(at).1)
        });
        let Some(compiled) = compiled else {
            return;
        };
        // An ERROR deletes the query's memory as a whole, and calls no callbacks.
        if !std::thread::panicking() {
            // SAFETY: the executor's node lives; nothing uses context and memory from here on.
            unsafe {
                pg_sys::FreeExprContext(compiled.context, true);
                pg_sys::MemoryContextDelete(compiled.memory);
            }
        }
    }
}

impl ForeignRun {
    /// Evaluates an expression, given by its place among those that were compiled, for rows of
    /// which at most [`CHUNK_ROWS`] are given. It hands the values of the first of them over, in
    /// their order, `None` for NULL, and returns how many these were, at least one. `None` if
    /// nothing is found under this name.
    ///
    /// # Panics
    ///
    /// With the ERROR that is raised for a row, and if arguments are missing.
    pub fn evaluate(
        self,
        place: usize,
        row_count: usize,
        arguments: &Arguments<'_>,
        mut take: impl FnMut(Option<TypedDatum<'_>>),
    ) -> Option<usize> {
        let compiled = COMPILED.with_borrow(|all| {
            let found = all.iter().find(|(number, _)| *number == self.0);
            found.map(|(_, compiled)| compiled.clone())
        })?;
        let state = compiled.states.get(place)?;
        crate::check_for_interrupts!();
        let mut results = [(Datum::from(0), true); CHUNK_ROWS];
        let done = compiled.chunk(state, arguments, row_count, &mut results);
        for (value, is_null) in &results[..done] {
            // SAFETY: a result of the expression, in its context's memory, which is reset below, or
            // one of the arguments, which live as long.
            let value =
                (!is_null).then(|| unsafe { TypedDatum::of(*value, state.len, state.by_value) });
            take(value);
        }
        // SAFETY: nothing points into the memory any more.
        unsafe { pg_sys::MemoryContextReset((*compiled.context).ecxt_per_tuple_memory) };
        Some(done)
    }
}

impl Compiled {
    /// Evaluates an expression for up to `count` rows, at least one; returns how many.
    fn chunk(
        &self,
        state: &State,
        given: &Arguments<'_>,
        count: usize,
        results: &mut [(Datum, bool); CHUNK_ROWS],
    ) -> usize {
        let width = given.attributes.len();
        // SAFETY: the slot's descriptor lives as long as the slot.
        let attribute_count = unsafe { (*(*self.slot).tts_tupleDescriptor).natts as usize };
        assert!(
            count <= CHUNK_ROWS
                && given.values.len() >= count * width
                && given.nulls.len() >= count * width
                && given.attributes.iter().all(|&at| at < attribute_count),
            "arguments of each row"
        );
        let copy = Copying::begin(self);
        // SAFETY: the function was compiled for the slot's descriptor. The closure and what it
        // calls hold nothing that has a destructor, and do not panic.
        let done = unsafe {
            let (values, nulls) = (given.values.as_ptr(), given.nulls.as_ptr());
            let (attributes, results) = (given.attributes.as_ptr(), results.as_mut_ptr());
            let (expression, context, slot) = (state.expression, self.context, self.slot);
            pg_guard_ffi_boundary(|| {
                let memory = (*context).ecxt_per_tuple_memory;
                let old = pg_sys::CurrentMemoryContext;
                pg_sys::CurrentMemoryContext = memory;
                let mut row = 0;
                while row < count {
                    let mut i = 0;
                    while i < width {
                        let attribute = *attributes.add(i);
                        *(*slot).tts_values.add(attribute) = *values.add(row * width + i);
                        *(*slot).tts_isnull.add(attribute) = *nulls.add(row * width + i);
                        i += 1;
                    }
                    let function = evaluator(expression);
                    let mut is_null = true;
                    let value = function(expression, context, &raw mut is_null);
                    *results.add(row) = (value, is_null);
                    row += 1;
                    interrupts();
                    if (*memory).mem_allocated > MOST_KEPT_BYTES {
                        break;
                    }
                }
                pg_sys::CurrentMemoryContext = old;
                row
            })
        };
        drop(copy);
        done
    }
}

/// Copies ERRORs while it lives.
struct Copying<'a> {
    compiled: &'a Compiled,
    /// What the callback uses; its address stays.
    callback: Box<Callback>,
}

struct Callback {
    link: pg_sys::ErrorContextCallback,
    memory: pg_sys::MemoryContext,
    copy: *mut pg_sys::ErrorData,
}

impl<'a> Copying<'a> {
    fn begin(compiled: &'a Compiled) -> Copying<'a> {
        let mut callback = Box::new(Callback {
            link: pg_sys::ErrorContextCallback::default(),
            memory: compiled.query_memory,
            copy: std::ptr::null_mut(),
        });
        // SAFETY: the callback is taken off the stack before it is dropped.
        unsafe {
            callback.link.previous = pg_sys::error_context_stack;
            callback.link.callback = Some(copy_error);
            callback.link.arg = (&raw mut *callback).cast();
            pg_sys::error_context_stack = &raw mut callback.link;
        }
        Copying { compiled, callback }
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        // SAFETY: callbacks above this one are gone. The copy, if any, is of an ERROR that a
        // function caught, or of the one that is unwinding; `raised` belongs to the node.
        unsafe {
            pg_sys::error_context_stack = self.callback.link.previous;
            if std::thread::panicking() {
                *self.compiled.raised = self.callback.copy;
            } else if !self.callback.copy.is_null() {
                unguarded::FreeErrorData(self.callback.copy);
            }
        }
    }
}

/// Called while an ERROR is raised, after the callbacks of the functions that it came from.
///
/// # Safety
/// `callback` is a [`Callback`] on the stack of error contexts, and an error is being reported.
unsafe extern "C-unwind" fn copy_error(callback: *mut std::ffi::c_void) {
    // SAFETY: `begin` gave its own callback, which is on the stack as long as it lives. In a
    // callback there is an error to copy.
    unsafe {
        let callback = callback.cast::<Callback>();
        let old = pg_sys::CurrentMemoryContext;
        pg_sys::CurrentMemoryContext = (*callback).memory;
        let copy = unguarded::CopyErrorData();
        if (*copy).elevel < pg_sys::PGERROR as i32 {
            unguarded::FreeErrorData(copy);
        } else {
            if !(*callback).copy.is_null() {
                unguarded::FreeErrorData((*callback).copy);
            }
            (*callback).copy = copy;
        }
        pg_sys::CurrentMemoryContext = old;
    }
}
