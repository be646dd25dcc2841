//! Row locks on hot and cold rows.

use howdah_bridge::cold_lock::{RowLock, Wait, announce};
use howdah_bridge::hot::lock::{Meeting, Version, follow, meet};
use howdah_bridge::hot::share::add_key_share;
use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use pgrx::{PgSqlErrorCode, pg_sys};

use super::grip::{Grip, Standing, grip, known_there};
use super::in_the_way::log_failure;
use crate::am::modify::moved_meanwhile;
use crate::am::point_reader::{PointReader, fetch_placed};
use crate::am::{heap, last_row};
use crate::errors::{or_raise, refuse};
use crate::stop_point;
use crate::store::directory::GroupState;
use crate::store::marks::{self, RowFate};

/// Locks a row, hot or cold, as `table_tuple_lock` says.
///
/// # Safety
/// Arguments are those of the executor's call.
pub unsafe fn lock(
    rel: pg_sys::Relation,
    tid: pg_sys::ItemPointer,
    snapshot: pg_sys::Snapshot,
    slot: *mut pg_sys::TupleTableSlot,
    cid: pg_sys::CommandId,
    mode: pg_sys::LockTupleMode::Type,
    wait_policy: pg_sys::LockWaitPolicy::Type,
    flags: u8,
    tmfd: *mut pg_sys::TM_FailureData,
) -> pg_sys::TM_Result::Type {
    use pg_sys::TM_Result::*;
    let to_the_last = u32::from(flags) & pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION != 0;
    let mut traversed = false;
    // SAFETY: as for this function.
    unsafe {
        // The caller goes on with the place that he has named, or with that of a later version; not with a place
        // that his snapshot may not see.
        let mut at = *tid;
        loop {
            let (result, failure) = match RowNumber::from_tid(&at) {
                Some(row) => {
                    let mut failure = pg_sys::TM_FailureData::default();
                    let result =
                        lock_cold(rel, row, slot, cid, mode, wait_policy, flags, &mut failure);
                    (result, failure)
                }
                None => match meet(rel, at) {
                    Meeting::Hot(_pin) => {
                        let result = (heap().tuple_lock.unwrap_unchecked())(
                            rel,
                            &mut at,
                            snapshot,
                            slot,
                            cid,
                            mode,
                            wait_policy,
                            flags,
                            tmfd,
                        );
                        if (*tmfd).traversed {
                            *tid = at;
                        }
                        (*tmfd).traversed |= traversed;
                        return result;
                    }
                    Meeting::Moved { ctid, xmax } => (
                        TM_Updated,
                        pg_sys::TM_FailureData {
                            ctid,
                            xmax,
                            cmax: pg_sys::InvalidCommandId,
                            traversed: false,
                        },
                    ),
                },
            };
            *tmfd = pg_sys::TM_FailureData {
                traversed,
                ..failure
            };
            if let Some(row) = moved_meanwhile(at, result, &failure) {
                at = row.tid();
                continue;
            }
            if result != TM_Updated || !to_the_last {
                return result;
            }
            traversed = true;
            (*tmfd).traversed = true;
            match follow(rel, failure.ctid, failure.xmax, cid, wait_policy) {
                Version::Live(next) => {
                    at = next;
                    *tid = next;
                }
                Version::Gone => return TM_Deleted,
                Version::WouldBlock => return TM_WouldBlock,
                Version::MovedAway => refuse(
                    PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
                    "tuple to be locked was already moved to another partition due to concurrent update"
                        .into(),
                    None,
                ),
                Version::OfThisCommand { xid, cmin } => {
                    (*tmfd).xmax = xid;
                    (*tmfd).cmax = cmin;
                    return TM_SelfModified;
                }
            }
        }
    }
}

/// Whoever shares the key of a row that is being updated shares that of the new versions as well.
/// Where that cannot be arranged, the answer is whom to wait for: who is in the way there, or the updater.
unsafe fn meet_updater(
    rel: pg_sys::Relation,
    grip: &Grip,
    lock: RowLock,
    own_xid: pg_sys::TransactionId,
) -> Option<pg_sys::TransactionId> {
    let Standing::There(placed) = &grip.standing else {
        return None;
    };
    if lock != RowLock::KeyShare {
        return None;
    }
    // SAFETY: the relation is open. A new version of a running transaction is not vacuumed away.
    unsafe {
        let oid = (*rel).rd_id;
        let mark = or_raise(oid, marks::arriving(&grip.store, &placed.entry, grip.row))?;
        let RowFate::Updated { to, .. } = mark.fate else {
            return Some(mark.xid);
        };
        let refused = add_key_share(rel, &to, &[own_xid]).err()?;
        Some(refused.by.unwrap_or(mark.xid))
    }
}

unsafe fn lock_cold(
    rel: pg_sys::Relation,
    row: RowNumber,
    slot: *mut pg_sys::TupleTableSlot,
    cid: pg_sys::CommandId,
    mode: pg_sys::LockTupleMode::Type,
    wait_policy: pg_sys::LockWaitPolicy::Type,
    flags: u8,
    failure: &mut pg_sys::TM_FailureData,
) -> pg_sys::TM_Result::Type {
    use pg_sys::LockWaitPolicy::{LockWaitBlock, LockWaitError};
    // SAFETY: as for `lock`.
    unsafe {
        howdah_bridge::slot::clear(slot);
        if let Some(entry) = known_there(rel, row, RowLock::of(mode), cid) {
            let found = last_row::recall(rel, row, slot)
                || ColdStore::open(rel, pg_sys::AccessShareLock)
                    .is_some_and(|store| fetch_placed(&store, rel, row, entry, slot));
            if found {
                return pg_sys::TM_Result::TM_Ok;
            }
        }
        let wait = if wait_policy == LockWaitBlock {
            Wait::Forever
        } else {
            Wait::Not
        };
        let own_xid = announce();
        let (grip, locked) = loop {
            let purpose = pg_sys::XLTW_Oper::XLTW_Lock;
            let gripped = grip(rel, row, RowLock::of(mode), wait, cid, purpose);
            let met = match &gripped {
                Some((grip, _)) => meet_updater(rel, grip, RowLock::of(mode), own_xid),
                None => None,
            };
            match (gripped, met) {
                (Some((mut grip, locked)), None) => {
                    if mode == pg_sys::LockTupleMode::LockTupleKeyShare {
                        // The updater that was not met may have committed since the row was looked at.
                        grip.look_again(cid, rel);
                    }
                    break (grip, locked);
                }
                (Some((_, locked)), Some(updater)) if wait_policy == LockWaitBlock => {
                    // Waiting with the lock held could be a deadlock that heap does not know.
                    if let Some(locked) = locked {
                        locked.give_back();
                    }
                    let oper = pg_sys::XLTW_Oper::XLTW_Lock;
                    pg_sys::XactLockTableWait(updater, rel, &mut row.tid(), oper);
                }
                (gripped, met) => {
                    if let Some((_, Some(locked))) = gripped {
                        locked.give_back();
                    }
                    if wait_policy == LockWaitError {
                        log_failure(rel, row, RowLock::of(mode), met);
                        let name = howdah_bridge::relation::name_of(rel);
                        refuse(
                            PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
                            format!("could not obtain lock on row in relation \"{name}\""),
                            None,
                        );
                    }
                    return pg_sys::TM_Result::TM_WouldBlock;
                }
            }
        };
        let mut result = grip.standing.report(row.tid(), cid, failure);
        if mode == pg_sys::LockTupleMode::LockTupleKeyShare
            && u32::from(flags) & pg_sys::TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS != 0
            && let Standing::Marked(mark) = &grip.standing
            && let (
                RowFate::Updated {
                    mut to,
                    keeps_key: true,
                },
                None,
            ) = (mark.fate, mark.own)
        {
            // As on heap: the old version may be had if the new ones can be locked along with it.
            let alone = flags & !(pg_sys::TUPLE_LOCK_FLAG_FIND_LAST_VERSION as u8);
            let snapshot = std::ptr::null_mut();
            result = lock(
                rel,
                &mut to,
                snapshot,
                slot,
                cid,
                mode,
                wait_policy,
                alone,
                failure,
            );
        }
        if result != pg_sys::TM_Result::TM_Ok {
            if let Some(locked) = locked {
                locked.give_back();
            }
            return result;
        }
        drop(locked);
        stop_point!("lock_taken");
        howdah_bridge::slot::clear(slot);
        let found = match &grip.standing {
            Standing::There(placed) if placed.entry.state == GroupState::Stored => {
                last_row::recall(rel, row, slot)
                    || fetch_placed(&grip.store, rel, row, placed.entry, slot)
            }
            _ => {
                let any = &raw mut pg_sys::SnapshotAnyData;
                PointReader::new().fetch_from(&grip.store, rel, row, any, slot)
            }
        };
        if found {
            result
        } else {
            pg_sys::TM_Result::TM_Deleted
        }
    }
}
