//! Statements whose plan expects a bulk load.
//!
//! An INSERT is known by its table and command, which no other statement of the transaction has. A
//! statement that makes its table (CREATE TABLE AS) is not: the table has no OID yet when the plan
//! starts. Its rows are known by the way they are inserted, without a look for free space, into a
//! table where nothing learns their TIDs. An insertion by another statement that looks the same may
//! be taken for it, which does no harm: the estimate is wrong for it, as estimates may be.

use std::cell::{Cell, RefCell};

use howdah_bridge::heap_am::InsertRequest;
use howdah_bridge::insert_plan::PlannedInsert;
use howdah_bridge::table::Table;
use howdah_bridge::xid::CommandId;
use rustc_hash::FxHashMap;

use crate::settings;

/// A statement begins cold if it expects so many times the threshold.
const CLEARLY_MORE: f64 = 2.0;

/// A load that a plan expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    /// Whether anything learns the TIDs of its rows at once.
    pub shows_places: bool,
}

thread_local! {
    /// The latest one of each table, with its command.
    static INSERTS: RefCell<FxHashMap<u32, (CommandId, Expected)>> = RefCell::default();
    /// Whether the running utility statement expects to load a table that it makes.
    static MAKES_TABLE: Cell<bool> = const { Cell::new(false) };
}

/// Notes what a statement that has started is going to insert.
pub fn note(planned: &PlannedInsert) {
    let is_load = planned.row_count >= CLEARLY_MORE * settings::load_threshold() as f64;
    match planned.target {
        None => MAKES_TABLE.set(is_load),
        Some((table, command)) if is_load => {
            let expected = Expected {
                shows_places: planned.shows_places,
            };
            INSERTS.with_borrow_mut(|inserts| {
                inserts.insert(table.to_u32(), (command, expected));
            });
        }
        Some(_) => {}
    }
}

/// The load to which a row that is being inserted belongs, if one is expected.
pub(super) fn of(table: Table<'_>, request: InsertRequest<'_>) -> Option<Expected> {
    let command = request.command;
    let noted = INSERTS.with_borrow(|inserts| inserts.get(&table.oid().to_u32()).copied());
    if let Some((_, expected)) = noted.filter(|(noted, _)| *noted == command) {
        return Some(expected);
    }
    let fills_new_table = MAKES_TABLE.get() && request.skips_free_space() && !table.shows_places();
    fills_new_table.then_some(Expected {
        shows_places: false,
    })
}

/// A utility statement is over.
pub(super) fn utility_ends() {
    MAKES_TABLE.set(false);
}

/// The transaction has ended: its commands are counted anew.
pub(super) fn reset() {
    MAKES_TABLE.set(false);
    INSERTS.with_borrow_mut(FxHashMap::clear);
}
