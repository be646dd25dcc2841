//! BRIN indexes of tables with cold rows.
//!
//! A BRIN index describes ranges of heap blocks. Cold TIDs start at block 2³¹; an index build over
//! them would first summarize millions of empty ranges. So a BRIN index covers the hot side only,
//! and a query must not use it if the table has cold rows:
//!
//! - A table with a BRIN index that never had a cold row loads hot ([`crate::load`]), so its index
//!   stays complete.
//! - Once a table has (ever had) cold rows, the planner does not get to see its BRIN indexes. Zone
//!   maps serve the same purpose. "Ever" is decided by the high-water mark, which does not depend
//!   on a snapshot; TRUNCATE removes it together with the rows.
//! - The two cannot race: CREATE INDEX waits for every load in progress, and a load that starts
//!   later sees the index, valid or not.
//! - Index builds and validation omit cold rows. The insertion of a single cold TID needs no
//!   special case: its range is never summarized, and for such a range `brininsert` does nothing.
//!   (An index with `autosummarize` requests autovacuum to summarize the range before, which lies
//!   past the end of the table.)

use howdah_bridge::indexes;
use howdah_bridge::table::Table;

use super::is_ours;
use crate::store::directory::ever_cold;

/// Installs the planner hook. Must be called once, from `_PG_init`.
pub fn register() {
    indexes::hide_brin_from_planner(hides_brin);
}

/// Whether the planner must not see the BRIN indexes of a table.
fn hides_brin(table: Table<'_>) -> bool {
    is_ours(table) && ever_cold(table)
}
