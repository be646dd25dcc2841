//! The layouts of the tables that this transaction loads.
//!
//! A layout is found by table and is valid while the table has the same descriptor and no relcache
//! entry was invalidated since: a descriptor that replaced the table's may have got the address of
//! the old one.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use howdah_bridge::Oid;
use howdah_bridge::invalidation::at_invalidation;
use howdah_bridge::table::Table;
use rustc_hash::FxHashMap;

use crate::types::TableLayout;

/// What shows that a layout is still valid.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// The descriptor's address.
    desc: usize,
    invalidations: u64,
}

impl Shape {
    /// The table's shape now.
    #[inline]
    pub(super) fn of(table: Table<'_>) -> Shape {
        Shape {
            desc: table.descriptor().address(),
            invalidations: INVALIDATIONS.get(),
        }
    }
}

thread_local! {
    static LAYOUTS: RefCell<FxHashMap<Oid, (Shape, Rc<TableLayout>)>> = RefCell::default();
    /// How many times relcache entries were invalidated.
    static INVALIDATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Watches relcache entries. Must be called once, from `_PG_init`.
pub fn register() {
    at_invalidation(|_| INVALIDATIONS.set(INVALIDATIONS.get().wrapping_add(1)));
}

/// The table's layout.
pub(super) fn layout_of(table: Table<'_>) -> Rc<TableLayout> {
    let (oid, shape) = (table.oid(), Shape::of(table));
    let known = LAYOUTS.with_borrow(|layouts| {
        let known = layouts.get(&oid).filter(|(of, _)| *of == shape);
        known.map(|(_, layout)| Rc::clone(layout))
    });
    known.unwrap_or_else(|| {
        let layout = Rc::new(TableLayout::of(table.descriptor()));
        let known = (shape, Rc::clone(&layout));
        LAYOUTS.with_borrow_mut(|layouts| layouts.insert(oid, known));
        layout
    })
}

/// Drops all layouts: the transaction has ended.
pub(super) fn reset() {
    LAYOUTS.with_borrow_mut(FxHashMap::clear);
}
