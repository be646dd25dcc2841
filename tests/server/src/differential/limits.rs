//! The known limits: differences from heap that docs/limits.md names, or that are due to the test
//! itself, each distinguished from a fault as narrowly as possible.

use super::play::{Block, Ended, Player};
use super::session::{Outcome, Refusal};
use crate::cluster::query;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// Several sessions that are woken at once race for the same rows, on heap as well.
    Raced,
    WaysLost,
    GroupLocked,
    StoreReindexed,
    StoreRead,
    ReindexGaveWay,
    PlanMadeAnew,
    CoarseReads,
    HeapWaits,
    HeapQueues,
    OtherPlan,
    /// An index returns rows with equal keys in the order of their TIDs.
    OtherPlaces,
    /// PostgreSQL checks the foreign key of a changed row again if the transaction has written the
    /// row itself, as it does with all rows where it rewrites the table: from howdah to heap.
    RowsMoved,
    /// A fault of PostgreSQL 18.6, not of howdah: a heap loses rows that were inserted and updated
    /// by the transaction that clusters their table, if it has rolled back to a savepoint before
    /// the update.
    HeapLoses,
}

impl Limit {
    pub fn told(self) -> &'static str {
        match self {
            Limit::Raced => "several waited and went on in another order, each time it was played",
            Limit::WaysLost => "40001: the table was rewritten after the snapshot was taken",
            Limit::GroupLocked => "a row group was locked as a whole",
            Limit::StoreReindexed => "REINDEX TABLE kept a reader from the cold rows",
            Limit::StoreRead => "REINDEX TABLE waits for who has read cold rows",
            Limit::ReindexGaveWay => "REINDEX CONCURRENTLY gave way at another step",
            Limit::PlanMadeAnew => "workers compacted a table: PL/pgSQL made its plan anew",
            Limit::CoarseReads => {
                "40001: SERIALIZABLE is coarser with cold rows and in checks for conflicting ones"
            }
            Limit::HeapWaits => {
                "FOR KEY SHARE, told not to wait: heap waits for a later version's changer"
            }
            Limit::HeapQueues => {
                "FOR SHARE: heap queues behind a waiter because of a stronger locker that is gone"
            }
            Limit::OtherPlan => "a cursor's plan used an index in one world only",
            Limit::OtherPlaces => "heap does the same with its rows at other places",
            Limit::RowsMoved => {
                "55006: SET ACCESS METHOD has written the rows in one world, so that a trigger waits"
            }
            Limit::HeapLoses => "heap loses rows: CLUSTER behind ROLLBACK TO",
        }
    }
}

/// A statement of one of several sessions.
pub(super) struct Situation<'s> {
    pub session: usize,
    pub text: &'s str,
    /// How many sessions waited before it.
    pub waiting_count: usize,
    /// The processes that had locked whole row groups before it.
    pub group_holders: &'s [i32],
}

impl Player<'_> {
    /// The limit that the only session reached, if the difference is a known one.
    pub(super) fn limit_met_alone(
        &mut self,
        text: &str,
        ours: &Ended,
        heaps: &Ended,
    ) -> anyhow::Result<Option<Limit>> {
        if self.meets_moved_rows(ours, heaps) {
            return Ok(Some(Limit::RowsMoved));
        }
        // Both statements wait for a prepared transaction.
        if self.meets_group_lock(text, &[], ours, heaps)? {
            return Ok(Some(Limit::GroupLocked));
        }
        let (refused, on_heap) = (has_failed(ours, "55P03"), has_failed(heaps, "55P03"));
        if refused && !on_heap && self.is_store_reindexed()? {
            return Ok(Some(Limit::StoreReindexed));
        }
        let reindexes = text.starts_with("REINDEX") && refused && !on_heap;
        Ok((reindexes && self.has_prepared_reader()?).then_some(Limit::StoreRead))
    }

    /// The limit because of which a statement of one of several sessions ended differently than on
    /// heap, if the difference is a known one.
    pub(super) fn limit_met(
        &mut self,
        situation: &Situation<'_>,
        ours: &Ended,
        heaps: &Ended,
    ) -> anyhow::Result<Option<Limit>> {
        let &Situation {
            session,
            text,
            waiting_count,
            group_holders,
        } = situation;
        Ok(if self.meets_moved_rows(ours, heaps) {
            Some(Limit::RowsMoved)
        } else if self.meets_lost_way(ours, heaps) {
            Some(Limit::WaysLost)
        } else if self.meets_group_lock(text, group_holders, ours, heaps)? {
            Some(Limit::GroupLocked)
        } else if (self.arbiter_asked || self.has_compacted)
            && self.serialization_fails(ours, heaps)
        {
            Some(Limit::CoarseReads)
        } else if self.only_heap_waits(text, session, heaps) {
            Some(Limit::HeapWaits)
        } else if self.only_heap_queues(text, session) {
            Some(Limit::HeapQueues)
        } else if self.has_compacted && needs_new_plan(heaps) && !needs_new_plan(ours) {
            Some(Limit::PlanMadeAnew)
        } else if waiting_count >= 2 && has_woken(session, ours, heaps) {
            Some(Limit::Raced)
        } else {
            None
        })
    }

    /// Whether triggers are still to run, for which a statement was refused, because rows were
    /// written anew; on heap they are not.
    fn meets_moved_rows(&self, ours: &Ended, heaps: &Ended) -> bool {
        self.has_moved && has_pending_events(ours) && !has_pending_events(heaps)
    }

    /// Whether a session with an old snapshot failed on a row whose link was lost since, and did
    /// not fail on heap.
    fn meets_lost_way(&self, ours: &Ended, heaps: &Ended) -> bool {
        ours.iter().any(|(session, outcome)| {
            let lost = matches!(
                self.blocks[*session],
                Block::OldSnapshot {
                    ways_lost: true,
                    ..
                }
            );
            let heaps = heaps.iter().find(|(number, _)| number == session);
            lost && outcome.has_code("40001")
                && heaps.is_none_or(|(_, outcome)| !outcome.has_code("40001"))
        })
    }

    pub(super) fn is_serializable(&self, session: usize) -> bool {
        matches!(
            self.blocks[session],
            Block::OldSnapshot {
                is_serializable: true,
                ..
            }
        )
    }

    /// Whether a serializable session failed with 40001 that did not on heap.
    fn serialization_fails(&self, ours: &Ended, heaps: &Ended) -> bool {
        ours.iter().any(|(session, outcome)| {
            let heaps = heaps.iter().find(|(number, _)| number == session);
            self.is_serializable(*session)
                && outcome.has_code("40001")
                && heaps.is_none_or(|(_, outcome)| !outcome.has_code("40001"))
        })
    }

    /// Whether heap has followed a row to a version whose key is being changed, and waits there
    /// even under NOWAIT or SKIP LOCKED (`heap_lock_updated_tuple_rec`), maybe in a deadlock. The
    /// newer versions of a cold row are locked under the policy of the statement.
    fn only_heap_waits(&self, text: &str, session: usize, heaps: &Ended) -> bool {
        ["FOR KEY SHARE NOWAIT", "FOR KEY SHARE SKIP LOCKED"]
            .iter()
            .any(|locking| text.contains(locking))
            && (self.heap.waiting().contains(&session) || has_failed(heaps, "40P01"))
            && !self.howdah.waiting().contains(&session)
    }

    /// Whether a session that wants FOR SHARE waits on heap (or would wait, but for NOWAIT or SKIP
    /// LOCKED) behind another session that waits for the same row, although no lock on the row
    /// conflicts with it: the row's multixact has a stronger locker that has ended, and heap checks
    /// only the status of the strongest member (`heap_lock_tuple`). Locks of cold rows keep no such
    /// members.
    fn only_heap_queues(&mut self, text: &str, session: usize) -> bool {
        let waits = self.heap.waiting().contains(&session);
        let told_not_to = ["FOR SHARE NOWAIT", "FOR SHARE SKIP LOCKED"]
            .iter()
            .any(|locking| text.contains(locking));
        if !text.contains("FOR SHARE")
            || self.howdah.waiting().contains(&session)
            || !(waits || told_not_to)
        {
            return false;
        }
        let waiter = if waits {
            let pid = self.heap.sessions[session].pid;
            format!(
                "AND EXISTS (SELECT FROM pg_locks own WHERE own.pid = {pid} AND NOT own.granted
                             AND (own.relation, own.page, own.tuple) = (queue.relation, queue.page, queue.tuple))"
            )
        } else {
            String::new()
        };
        let traces = format!(
            "SELECT count(*) FROM pg_locks queue,
                    LATERAL pgrowlocks(queue.relation::regclass::text) locked,
                    LATERAL unnest(locked.xids, locked.modes) member (xid, mode)
             WHERE queue.locktype = 'tuple' AND queue.granted
               AND queue.database = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND locked.locked_row = format('(%s,%s)', queue.page, queue.tuple)::tid
               AND member.mode LIKE '%Update' AND pg_xact_status(member.xid::text::xid8) <> 'in progress' {waiter}"
        );
        // This query fails while another session waits to lock the whole table.
        query(&mut self.heap.control, &traces).is_ok_and(|count| count != "0")
    }

    /// Whether one session has locked a whole row group, and another session waits for it, would
    /// have had to wait for it, or has skipped rows of it that are not locked on heap.
    fn meets_group_lock(
        &mut self,
        text: &str,
        before: &[i32],
        ours: &Ended,
        heaps: &Ended,
    ) -> anyhow::Result<bool> {
        let mut holders = self.group_holders()?;
        holders.extend(before);
        let held_by_other = |session: usize| {
            let pid = self.howdah.sessions[session].pid;
            holders.iter().any(|holder| *holder != pid)
        };
        let waits_for_group = self
            .howdah
            .waiting()
            .iter()
            .any(|session| !self.heap.waiting().contains(session) && held_by_other(*session));
        let refused = ours.iter().any(|(session, outcome)| {
            let on_heap = heaps.iter().find(|(number, _)| number == session);
            let on_heap = on_heap.map(|(_, outcome)| outcome);
            held_by_other(*session)
                && match outcome {
                    Outcome::Error(Refusal { sqlstate, .. }) => {
                        ["55P03", "40P01"].contains(&sqlstate.as_str())
                            && on_heap.is_none_or(|heaps| !heaps.has_code(sqlstate))
                    }
                    // Rows of the group are skipped; the rows that are taken in their place are
                    // compared where rows are locked one by one.
                    Outcome::Done { .. } => text.contains("SKIP LOCKED"),
                    Outcome::Lost(_) => false,
                }
        });
        // A session that waits for the group at its first row holds no other rows, for which other
        // sessions would wait.
        let heap_deadlocks = heaps.iter().any(|(session, outcome)| {
            let ours = ours.iter().find(|(number, _)| number == session);
            !holders.is_empty()
                && outcome.has_code("40P01")
                && ours.is_none_or(|(_, outcome)| !outcome.has_code("40P01"))
        });
        // Nor do sessions that come after it find rows locked by it.
        let waits_on_heap_only = {
            let ours = self.howdah.waiting();
            self.heap.waiting().iter().any(|one| !ours.contains(one))
        };
        let finds_more = self.waits_for_group()?
            && (waits_on_heap_only
                || heaps.iter().any(|(session, on_heap)| {
                    let ours = ours.iter().find(|(number, _)| number == session);
                    match (ours.map(|(_, outcome)| outcome), on_heap) {
                        (Some(Outcome::Done { rows, .. }), Outcome::Done { rows: heaps, .. }) => {
                            text.contains("SKIP LOCKED") && rows != heaps
                        }
                        (ours, on_heap) => {
                            on_heap.has_code("55P03") && ours.is_some_and(|o| !o.has_code("55P03"))
                        }
                    }
                }));
        Ok(waits_for_group || refused || heap_deadlocks || finds_more)
    }

    /// Whether any session waits for a row group that other sessions work on, or have locked as a
    /// whole.
    fn waits_for_group(&mut self) -> anyhow::Result<bool> {
        const WAITING: &str = "SELECT count(*) FROM pg_locks
            WHERE locktype = 'page' AND NOT granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        Ok(query(&mut self.howdah.control, WAITING)? != "0")
    }

    /// The processes that have locked whole row groups; 0 stands for prepared transactions.
    pub(super) fn group_holders(&mut self) -> anyhow::Result<Vec<i32>> {
        const LOCKED: &str = "SELECT coalesce(pid, 0) FROM pg_locks
            WHERE locktype = 'page' AND mode IN ('ShareLock', 'ExclusiveLock') AND granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        Ok(query(&mut self.howdah.control, LOCKED)?
            .lines()
            .filter_map(|pid| pid.parse().ok())
            .collect())
    }

    /// Whether a prepared transaction has read a cold store by its index, which is to be rebuilt;
    /// on heap the same holds for a transaction that has read toasted values, or a table with an
    /// index.
    fn has_prepared_reader(&mut self) -> anyhow::Result<bool> {
        const READ: &str = "SELECT count(*) FROM pg_locks JOIN pg_index ON indexrelid = relation
            JOIN pg_class store ON store.oid = indrelid AND store.relkind = 't'
            WHERE pid IS NULL AND granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        Ok(query(&mut self.howdah.control, READ)? != "0")
    }

    /// Whether a REINDEX CONCURRENTLY that was cancelled has left other indexes than on heap. It
    /// also rebuilds the store's index, and so waits earlier for a transaction that has locked a
    /// cold row; for transactions that use the table it waits in the end anyway.
    pub(super) fn leaves_other_indexes(&mut self) -> anyhow::Result<bool> {
        const LEFT: &str = "SELECT relname FROM pg_index JOIN pg_class ON oid = indexrelid
            WHERE NOT indisvalid AND relnamespace = to_regnamespace('w') ORDER BY 1";
        Ok(query(&mut self.howdah.control, LEFT)? != query(&mut self.heap.control, LEFT)?)
    }

    /// Whether an open transaction has rebuilt the index of a cold store, for which readers of the
    /// cold rows wait; on heap readers of toasted values wait.
    pub(super) fn is_store_reindexed(&mut self) -> anyhow::Result<bool> {
        const LOCKED: &str = "SELECT count(*) FROM pg_locks JOIN pg_index ON indexrelid = relation
            JOIN pg_class store ON store.oid = indrelid AND store.relkind = 't'
            WHERE mode = 'AccessExclusiveLock' AND granted
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        Ok(query(&mut self.howdah.control, LOCKED)? != "0")
    }
}

/// Whether a cursor of the same session uses an index that was to be rebuilt or dropped; the
/// planner decides which indexes it uses.
pub(super) fn is_index_in_use(text: &str, ended: &Ended) -> bool {
    (text.starts_with("REINDEX") || text.starts_with("DROP INDEX"))
        && matches!(&ended[..], [(_, outcome)] if outcome.has_code("55006"))
}

/// Whether a trigger found that a column's type was changed since its plan was made; it does not
/// find this where the plan is made anew for another reason.
fn needs_new_plan(ended: &Ended) -> bool {
    ended.iter().any(|(_, outcome)| {
        matches!(outcome, Outcome::Error(refusal)
            if refusal.sqlstate == "42804" && refusal.tells("when preparing the plan"))
    })
}

/// Whether a statement was refused because triggers of the table are still to run.
fn has_pending_events(ended: &Ended) -> bool {
    ended.iter().any(|(_, outcome)| {
        matches!(outcome, Outcome::Error(refusal)
            if refusal.sqlstate == "55006" && refusal.tells("pending trigger events"))
    })
}

/// Whether a session continued because of another session's statement, in either world.
fn has_woken(acting: usize, ours: &Ended, heaps: &Ended) -> bool {
    let mut ended = ours.iter().chain(heaps);
    ended.any(|(session, _)| *session != acting)
}

fn has_failed(ended: &Ended, code: &str) -> bool {
    ended.iter().any(|(_, outcome)| outcome.has_code(code))
}
