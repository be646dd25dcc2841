//! What the plan of a statement tells of the rows that it will insert, before the first one.
//!
//! ```text
//!   INSERT … SELECT, VALUES lists     one table, known by its OID and the command
//!   CREATE TABLE AS, REFRESH          a table that is made when the statement runs
//! ```
//!
//! The number of rows is the planner's estimate. It may be wrong by any factor.
//!
//! Whether places are shown: the TID of an inserted row gets to an index, to the queue of AFTER
//! triggers (foreign keys among them), or to RETURNING, as soon as the row is inserted. Such a row
//! stays where it is.

use pgrx::pg_sys;

use crate::Oid;
use crate::table::Table;
use crate::xid::CommandId;

/// The rows that a statement is going to insert.
pub struct PlannedInsert {
    /// The table and the command that inserts; `None` for a table that the statement makes.
    pub target: Option<(Oid, CommandId)>,
    /// The planner's estimate.
    pub row_count: f64,
    /// Whether anything learns the TIDs of the rows.
    pub shows_places: bool,
}

/// The rows that a started INSERT is going to insert, if all of them go to one table.
///
/// # Safety
/// [`crate::plain_insert::is_candidate`] is true of the query, which has not run yet.
pub(crate) unsafe fn of_insert(query: *mut pg_sys::QueryDesc) -> Option<PlannedInsert> {
    // SAFETY: the nodes of a started query live until it ends, the table is open.
    unsafe {
        let state = &*(*query).planstate.cast::<pg_sys::ModifyTableState>();
        let result = &*state.resultRelInfo;
        let estate = &*(*query).estate;
        let is_one_table = state.mt_nrels == 1
            && std::ptr::eq(state.resultRelInfo, state.rootResultRelInfo)
            && state.mt_partition_tuple_routing.is_null()
            && (*state.ps.plan.cast::<pg_sys::ModifyTable>()).onConflictAction
                == pg_sys::OnConflictAction::ONCONFLICT_NONE;
        if !is_one_table {
            return None;
        }
        let table = Table::from_raw(result.ri_RelationDesc);
        let shows_places = table.shows_places()
            || !result.ri_projectReturning.is_null()
            // Another part of the statement (WITH) may insert into the table as well.
            || !estate.es_auxmodifytables.is_null();
        Some(PlannedInsert {
            target: Some((table.oid(), estate.es_output_cid)),
            row_count: (*(*state.ps.lefttree).plan).plan_rows,
            shows_places,
        })
    }
}

/// The rows that a started query is going to insert into a table that its receiver makes; `None`
/// for every other query.
///
/// # Safety
/// A query that `standard_ExecutorStart` has started with these flags.
#[inline]
pub(crate) unsafe fn of_new_table(
    query: *mut pg_sys::QueryDesc,
    flags: i32,
) -> Option<PlannedInsert> {
    // SAFETY: as for this function. A query has a receiver, or none.
    unsafe {
        let (receiver, state) = ((*query).dest, (*query).planstate);
        if receiver.is_null() || state.is_null() {
            return None;
        }
        let makes_table = matches!(
            (*receiver).mydest,
            pg_sys::CommandDest::DestIntoRel | pg_sys::CommandDest::DestTransientRel
        );
        if !makes_table || flags as u32 & pg_sys::EXEC_FLAG_EXPLAIN_ONLY != 0 {
            return None;
        }
        Some(PlannedInsert {
            target: None,
            row_count: (*(*state).plan).plan_rows,
            // Indexes of a materialized view are built afterwards.
            shows_places: false,
        })
    }
}
