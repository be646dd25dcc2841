//! VACUUM FULL and CLUSTER.
//!
//! ```text
//!   old table                     new table
//!   hot versions ──hot.rs───────> hot: recently dead or locked versions      VACUUM FULL
//!        │ rows
//!        └─────────order.rs ────> new groups, new numbers, behind those of the old groups
//!   row groups   ──cold.rs──────> the same groups, numbers and ids
//!
//!   hot versions ──hot.rs───────> hot: recently dead or locked versions      CLUSTER by a btree,
//!        │ rows                                                              if any cold row
//!        └───────┐                                                           is living
//!               order.rs ───────> new groups, new numbers: every living row, in index order
//!        ┌───────┘
//!        │ rows
//!   row groups   ──cold.rs──────> old groups that hold recently dead rows
//!
//!   hot versions ──hot.rs───────> hot versions                         CLUSTER if no cold row is
//!   row groups   ──cold.rs──────> the same groups, numbers and ids     living, or by another index
//!
//!   high-water mark, gaps ────────> high-water mark, note that no index has entries for the gaps
//! ```
//!
//! VACUUM FULL is run to shrink a table. It leaves hot rows hot if the table has no living cold row
//! and no more hot rows than a load would leave hot (`howdah.load_threshold`, `howdah.bulk_load`):
//! such a table continues to behave as heap.
//!
//! Heap's callback cannot be called: it would open its scan through our routine.
//!
//! Invariants
//! - *No row is lost or seen twice, and every snapshot sees what it saw before.* A living row that
//!   is not yet visible to some snapshot is a recent insert of its new group. A recently dead row
//!   stays where it is: a hot version with its transactions, a cold row in its old group with its
//!   mark, under its old number. Rows that were sorted out of such a group are hidden there from
//!   all snapshots.
//! - *One order.* A snapshot taken after CLUSTER sees the rows of a table with cold rows in the
//!   order of a btree index: all are in new groups. Exceptions are values too large to be cold,
//!   rows that the clustering transaction itself has locked, and those of more than a few
//!   transactions that some snapshot does not see yet: they stay hot and come first, in order. A
//!   table without living cold rows is clustered as a heap. With an index of another kind the hot
//!   rows are sorted, and groups keep their order.
//! - *Links.* No other transaction in progress still uses a TID from before, because CLUSTER has
//!   waited for every transaction that has read or changed the table. Only an older snapshot can
//!   reach a row that was changed since. Among hot versions the server's rewrite keeps links. All
//!   other links are lost: a hot version whose successor is cold counts as deleted, and a mark no
//!   longer tells where the new version is. A transaction that reaches such a row with an older
//!   snapshot gets 40001, even if it only wants to share the key, which heap might allow: its lock
//!   could not conflict with a transaction that deletes the successor.
//! - *Ids.* The cold part is written to the new table's own TOAST relation, whose contents the
//!   server then swaps in, so value ids stay valid; out-of-line values of hot rows keep their ids
//!   likewise. So a new id must not be in use in the old TOAST relation.
//!
//! BRIN indexes have no entries for rows that VACUUM FULL makes cold. Unlike the first move by
//! compaction, VACUUM FULL need not wait for other lockers: a statement whose plan uses such an
//! index has held a lock on the table since it was planned.
//!
//! Standbys. The new table omits what only snapshots before the horizon would see. A session on a
//! standby that has read the table conflicts with the exclusive lock; one that has such a snapshot
//! and has not read the table would find rows missing, or rows that are too young. So the horizon
//! is logged as a snapshot conflict ([`howdah_bridge::recovery_conflict`]) before the commit swaps
//! the files in. PostgreSQL's own rewrite of a heap does not log it, nor does this one for a table
//! without a cold side.
//!
//! Locks: the server holds both tables exclusively. An ERROR or a crash leaves files that no
//! catalog refers to: only the commit swaps them in.

mod cold;
mod hot;
mod order;
mod rewriting;

use howdah_bridge::hot::page::HotReader;
use howdah_bridge::indexes::is_btree;
use howdah_bridge::memory::maintenance_memory_kb;
use howdah_bridge::recovery_conflict;
use howdah_bridge::rewrite::forbid_key_share;
use howdah_bridge::spare_memory::{self, LEAST_BYTES};
use howdah_bridge::table::Table;
use howdah_bridge::table_am::{self, RewriteCounts, RewriteRequest, RewriteTable, Routine};
use howdah_bridge::tuple_sort::TupleSort;
use howdah_bridge::xid::Xid;
use pgrx::PgSqlErrorCode;

use crate::errors::{or_raise, refuse};
use crate::load;
use crate::settings;
use crate::store::visibility::moved_changes;
use cold::ColdCopy;
use hot::HotCopy;
use order::ColdOrder;
use rewriting::{Counts, Rewriting};

pub(super) fn install(am: &mut Routine) {
    table_am::set_rewrite::<BothSides>(am);
}

struct BothSides;

impl RewriteTable for BothSides {
    fn rewrite(request: RewriteRequest<'_>) -> RewriteCounts {
        let (old_table, index) = (request.old_table, request.index);
        let oid = old_table.oid();
        if moved_changes::depends_on_links(oid) {
            refuse(
                PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                "could not serialize access due to concurrent update".into(),
                Some("Rows that this transaction has changed were moved by compaction after it took its snapshot. Try again.".into()),
            );
        }
        load::finish_inserts(old_table);
        spare_memory::set_aside(LEAST_BYTES);
        let work = Rewriting {
            old_heap: old_table,
            new_heap: request.new_table,
            oldest_xmin: request.oldest_xmin,
            horizon: older_than_all(request.oldest_xmin, request.freeze_xid),
        };
        let mut counts = Counts::default();
        let cold = or_raise(oid, ColdCopy::open(&work));
        if cold.is_some() {
            recovery_conflict::log_before(old_table, work.horizon);
        }
        let memory_kb = maintenance_memory_kb();
        let mut order = None;
        if let Some(cold) = &cold {
            let is_mixed = or_raise(oid, cold.has_living_rows());
            match index {
                None if is_mixed || would_load_cold(old_table) => {
                    let first_row = cold.first_free_row();
                    order = Some(ColdOrder::as_they_come(&work, cold.target(), first_row));
                }
                Some(index) if is_mixed && is_btree(index) => {
                    order = Some(ColdOrder::by(&work, index, memory_kb / 2));
                }
                _ => {}
            }
        }
        let sort_kb = match &order {
            Some(order) if order.takes_cold_rows() => Some(memory_kb / 2),
            Some(_) => None,
            None => request.sorts.then_some(memory_kb),
        };
        let sort = sort_kb
            .zip(index)
            .map(|(memory_kb, index)| TupleSort::by_index(old_table, index, memory_kb));
        let along = index.filter(|_| sort.is_none());
        let has_cold_rows = order.is_some() || cold.as_ref().is_some_and(ColdCopy::was_used);
        HotCopy::begin(&work, &request).copy(along, sort, order.as_mut(), &mut counts);
        if let Some(cold) = &cold {
            if has_cold_rows && counts.recently_dead > 0.0 {
                forbid_key_share(request.new_table);
            }
            or_raise(oid, cold.copy(order, &mut counts));
        }
        RewriteCounts {
            kept: counts.kept,
            removed: counts.removed,
            recently_dead: counts.recently_dead,
        }
    }
}

/// Whether the hot side has more rows, dead ones included, than a load leaves hot. Reads no more
/// pages than it needs to count that many.
fn would_load_cold(table: Table<'_>) -> bool {
    if settings::force_cold() {
        return true;
    }
    if !settings::bulk_load() {
        return false;
    }
    let (mut reader, blocks) = (HotReader::begin(table), table.main_fork_blocks());
    let mut rows = 0;
    (0..blocks).any(|block| {
        howdah_bridge::check_for_interrupts!();
        rows += u64::from(reader.look(block).rows);
        rows > settings::load_threshold()
    })
}

/// The horizon before which every transaction is finished for all snapshots in this database. The
/// new table's `relfrozenxid` will be `xid_cutoff`, which is `oldest_xmin`, or the old table's own
/// `relfrozenxid` if that is younger: in that case a transaction of another database holds back
/// this transaction's snapshot, and with it the horizon, but an earlier VACUUM of the table found
/// that no snapshot here needs anything older. The cold store may be less frozen than the table.
fn older_than_all(oldest_xmin: Xid, xid_cutoff: Xid) -> Xid {
    oldest_xmin.younger(xid_cutoff)
}
