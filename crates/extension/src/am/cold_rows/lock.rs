//! Row locks on hot and cold rows.

use howdah_bridge::cold_lock::{self, RowLock, Wait, announce};
use howdah_bridge::heap_am::{self, LockedRow};
use howdah_bridge::hot::lock::{Meeting, Version, follow, meet};
use howdah_bridge::hot::share::add_key_share;
use howdah_bridge::row_request::{
    LockRequest, Purpose, Refusal, RowFailure, RowResult, WaitPolicy,
};
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{RowNumber, Tid};
use howdah_bridge::xid::Xid;
use pgrx::PgSqlErrorCode;

use super::blockers::log_failure;
use super::row_lock::{HeldRow, Standing, hold, known_there};
use crate::am::last_row;
use crate::am::modify::moved_meanwhile;
use crate::am::point_reader::{PointReader, fetch_placed};
use crate::errors::{or_raise, refuse};
use crate::stop_point;
use crate::store::directory::GroupState;
use crate::store::marks::{self, RowFate};

/// Locks a row, hot or cold, and stores it in the slot, as `table_tuple_lock` specifies.
///
/// The caller continues with the place that it has named, or with that of a later version; not with
/// a place that its snapshot may not see.
pub fn lock(table: Table<'_>, tid: Tid, slot: Slot<'_>, request: LockRequest<'_>) -> LockedRow {
    let (mut at, mut told) = (tid, tid);
    let mut traversed = false;
    loop {
        let refused = match at.row() {
            Some(row) => lock_cold(table, row, slot, request),
            None => match meet(table, at) {
                Meeting::Hot(_pin) => {
                    let mut locked = heap_am::lock(table, at, slot, request);
                    if !locked.failure.traversed {
                        locked.at = told;
                    }
                    locked.failure.traversed |= traversed;
                    return locked;
                }
                Meeting::Moved { ctid, xmax } => Err(Refusal {
                    result: RowResult::Updated,
                    failure: RowFailure::at(ctid, xmax),
                }),
            },
        };
        let answer = |result: RowResult, failure: RowFailure, traversed: bool| LockedRow {
            result,
            failure: RowFailure {
                traversed,
                ..failure
            },
            at: told,
        };
        let Refusal { result, failure } = match refused {
            Ok(()) => return answer(RowResult::Ok, RowFailure::default(), traversed),
            Err(refusal) => refusal,
        };
        if let Some(row) = moved_meanwhile(at, result, &failure) {
            at = row.tid();
            continue;
        }
        if result != RowResult::Updated || !request.flags.find_last_version() {
            return answer(result, failure, traversed);
        }
        traversed = true;
        let (next, xmax) = (failure.ctid, failure.xmax);
        match follow(table, next, xmax, request.command, request.wait) {
            Version::Live(next) => {
                at = next;
                told = next;
            }
            Version::Gone => return answer(RowResult::Deleted, failure, true),
            Version::WouldBlock => return answer(RowResult::WouldBlock, failure, true),
            Version::MovedAway => refuse(
                PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                "tuple to be locked was already moved to another partition due to concurrent update"
                    .into(),
                None,
            ),
            Version::OfThisCommand { xid, cmin } => {
                let own = RowFailure {
                    xmax: xid,
                    cmax: cmin,
                    ..failure
                };
                return answer(RowResult::SelfModified, own, true);
            }
        }
    }
}

/// A transaction that shares the key of a row that is being updated must share that of the new
/// versions as well. Where that is refused, returns the transaction to wait for: the one that is in
/// the way there, or the updater.
fn meet_updater(table: Table<'_>, held: &HeldRow<'_>, lock: RowLock, own_xid: Xid) -> Option<Xid> {
    let Standing::There(placed) = &held.standing else {
        return None;
    };
    if lock != RowLock::KeyShare {
        return None;
    }
    let arriving = marks::arriving(&held.store, &placed.entry, held.row);
    let mark = or_raise(table.oid(), arriving)?;
    let RowFate::Updated { to, .. } = mark.fate else {
        return Some(mark.xid);
    };
    // VACUUM does not remove a new version of a transaction in progress.
    let refused = add_key_share(table, to, &[own_xid]).err()?;
    Some(refused.by.unwrap_or(mark.xid))
}

fn lock_cold(
    table: Table<'_>,
    row: RowNumber,
    slot: Slot<'_>,
    request: LockRequest<'_>,
) -> Result<(), Refusal> {
    let (cid, lock_mode) = (request.command, request.lock);
    slot.clear();
    if let Some(entry) = known_there(table, row, lock_mode, cid) {
        let found = last_row::recall(table, row, slot)
            || ColdStore::open(table, LockMode::AccessShare)
                .is_some_and(|store| fetch_placed(&store, table, row, entry, slot));
        if found {
            return Ok(());
        }
    }
    let wait = match request.wait {
        WaitPolicy::Block => Wait::Forever,
        WaitPolicy::Skip | WaitPolicy::Error => Wait::Not,
    };
    let would_block = Refusal {
        result: RowResult::WouldBlock,
        failure: RowFailure::default(),
    };
    let own_xid = announce();
    let (held, locked) = loop {
        let attempt = hold(table, row, lock_mode, wait, cid, Purpose::Lock);
        let met = match &attempt {
            Some((held, _)) => meet_updater(table, held, lock_mode, own_xid),
            None => None,
        };
        match (attempt, met) {
            (Some((mut held, locked)), None) => {
                if lock_mode == RowLock::KeyShare {
                    // The updater may have committed since the row's standing was learnt, and then
                    // was not met.
                    held.look_again(cid, table);
                }
                break (held, locked);
            }
            (Some((_, locked)), Some(updater)) if request.wait == WaitPolicy::Block => {
                // To wait with the lock held could be a deadlock that heap does not have.
                if let Some(locked) = locked {
                    locked.give_back();
                }
                cold_lock::wait_for(updater, table, row, Purpose::Lock);
            }
            (attempt, met) => {
                if let Some((_, Some(locked))) = attempt {
                    locked.give_back();
                }
                if request.wait == WaitPolicy::Error {
                    log_failure(table, row, lock_mode, met);
                    let name = table.name();
                    refuse(
                        PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
                        format!("could not obtain lock on row in relation \"{name}\""),
                        None,
                    );
                }
                return Err(would_block);
            }
        }
    };
    let mut report = held.standing.report(row.tid(), cid);
    if lock_mode == RowLock::KeyShare
        && request.flags.lock_update_in_progress()
        && let Standing::Marked(mark) = &held.standing
        && let (
            RowFate::Updated {
                to,
                keeps_key: true,
            },
            None,
        ) = (mark.fate, mark.own)
    {
        // As on heap: the old version may be locked if the new ones can be locked along with it.
        let alone = LockRequest {
            flags: request.flags.of_this_version(),
            snapshot: None,
            ..request
        };
        let LockedRow {
            result, failure, ..
        } = lock(table, to, slot, alone);
        report = match result {
            RowResult::Ok => Ok(()),
            result => Err(Refusal { result, failure }),
        };
    }
    if let Err(refusal) = report {
        if let Some(locked) = locked {
            locked.give_back();
        }
        return Err(refusal);
    }
    drop(locked);
    stop_point!("lock_taken");
    slot.clear();
    let found = match &held.standing {
        Standing::There(placed) if placed.entry.state == GroupState::Stored => {
            last_row::recall(table, row, slot)
                || fetch_placed(&held.store, table, row, placed.entry, slot)
        }
        _ => PointReader::new().fetch_from(&held.store, table, row, Snapshot::any(), slot),
    };
    match found {
        true => Ok(()),
        false => Err(Refusal {
            result: RowResult::Deleted,
            failure: RowFailure::default(),
        }),
    }
}
