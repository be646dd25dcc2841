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
//!   mark, gaps ─────────────────> mark, note that no index has entries for the gaps
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
//!   order of a btree index: all are in new groups. Exceptions are values too large to be cold, and
//!   rows that the clustering transaction itself has locked: they stay hot and come first, in
//!   order. A table without living cold rows is clustered as a heap. With an index of another kind
//!   the hot rows are sorted, and groups keep their order.
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
use howdah_bridge::recovery_conflict;
use howdah_bridge::rewrite::bar_key_sharers;
use howdah_bridge::table::Table;
use howdah_bridge::tuple_sort::TupleSort;
use howdah_bridge::xid::Xid;
use pgrx::{PgSqlErrorCode, pg_guard, pg_sys};

use crate::errors::{or_raise, refuse};
use crate::load;
use crate::settings;
use crate::store::visibility::moved_changes;
use cold::ColdCopy;
use hot::HotCopy;
use order::ColdOrder;
use rewriting::{Counts, Rewriting};

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.relation_copy_for_cluster = Some(relation_copy_for_cluster);
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_copy_for_cluster(
    old_table: pg_sys::Relation,
    new_table: pg_sys::Relation,
    old_index: pg_sys::Relation,
    use_sort: bool,
    oldest_xmin: pg_sys::TransactionId,
    xid_cutoff: *mut pg_sys::TransactionId,
    multi_cutoff: *mut pg_sys::MultiXactId,
    num_tuples: *mut f64,
    tups_vacuumed: *mut f64,
    tups_recently_dead: *mut f64,
) {
    // SAFETY: arguments come from CLUSTER, which holds both tables open and exclusively locked, and
    // the index too.
    unsafe {
        let oid = (*old_table).rd_id;
        if moved_changes::needs_ways(oid) {
            refuse(
                PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                "could not serialize access due to concurrent update".into(),
                Some("Rows that this transaction has changed were moved by compaction after it took its snapshot. Try again.".into()),
            );
        }
        load::flush_relation(oid);
        let work = Rewriting {
            old_heap: Table::from_raw(old_table),
            new_heap: Table::from_raw(new_table),
            oldest_xmin: Xid::from_raw(oldest_xmin),
            horizon: older_than_all(Xid::from_raw(oldest_xmin), Xid::from_raw(*xid_cutoff)),
        };
        let mut counts = Counts::default();
        let cold = or_raise(oid, ColdCopy::open(&work));
        if cold.is_some() {
            recovery_conflict::log(old_table, recovery_conflict::before(work.horizon.raw()));
        }
        let mut order = None;
        if let Some(cold) = &cold {
            let is_mixed = or_raise(oid, cold.has_living_rows());
            if old_index.is_null() {
                if is_mixed || would_load_cold(old_table) {
                    let first_row = cold.first_free_row();
                    order = Some(ColdOrder::as_they_come(&work, cold.target(), first_row));
                }
            } else if is_mixed && is_btree(old_index) {
                let memory_kb = pg_sys::maintenance_work_mem / 2;
                order = Some(ColdOrder::by(&work, old_index, memory_kb));
            }
        }
        let sort = match &order {
            Some(order) if order.takes_cold_rows() => Some(pg_sys::maintenance_work_mem / 2),
            Some(_) => None,
            None => use_sort.then_some(pg_sys::maintenance_work_mem),
        };
        let sort =
            sort.map(|memory_kb| TupleSort::by_index((*old_table).rd_att, old_index, memory_kb));
        let along = (sort.is_none() && !old_index.is_null()).then_some(old_index);
        let has_cold_rows = order.is_some() || cold.as_ref().is_some_and(ColdCopy::was_used);
        HotCopy::begin(&work, *xid_cutoff, *multi_cutoff).copy(
            along,
            sort,
            order.as_mut(),
            &mut counts,
        );
        if let Some(cold) = &cold {
            if has_cold_rows && counts.recently_dead > 0.0 {
                bar_key_sharers(new_table);
            }
            or_raise(oid, cold.copy(order, &mut counts));
        }
        *num_tuples += counts.kept;
        *tups_vacuumed += counts.removed;
        *tups_recently_dead += counts.recently_dead;
    }
}

/// Whether the hot side has more rows, dead ones included, than a load leaves hot. Reads no more
/// pages than it needs to count that many.
///
/// # Safety
/// The table is open and locked.
unsafe fn would_load_cold(table: pg_sys::Relation) -> bool {
    if settings::force_cold() {
        return true;
    }
    if !settings::bulk_load() {
        return false;
    }
    // SAFETY: the table is open and locked.
    let table = unsafe { Table::from_raw(table) };
    let (mut reader, blocks) = (HotReader::begin(table), table.main_fork_blocks());
    let mut rows = 0;
    (0..blocks).any(|block| {
        pgrx::check_for_interrupts!();
        rows += u64::from(reader.look(block).rows);
        rows > settings::load_threshold()
    })
}

/// Whether PostgreSQL's sort can order rows by this index.
///
/// # Safety
/// The index is open.
unsafe fn is_btree(index: pg_sys::Relation) -> bool {
    // SAFETY: the index is open.
    unsafe { (*(*index).rd_rel).relam == pg_sys::BTREE_AM_OID }
}

/// The horizon before which every transaction is finished for all snapshots in this database. The
/// new table's `relfrozenxid` will be `xid_cutoff`, which is `oldest_xmin`, or the old table's own
/// `relfrozenxid` if that is younger: in that case a transaction of another database holds back
/// this transaction's snapshot, and with it the horizon, but an earlier VACUUM of the table found
/// that no snapshot here needs anything older. The cold store may be less frozen than the table.
fn older_than_all(oldest_xmin: Xid, xid_cutoff: Xid) -> Xid {
    oldest_xmin.younger(xid_cutoff)
}
