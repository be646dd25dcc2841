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
use super::located::LocatedRow;
use super::locked_groups::{held_group, known_there};
use super::row_lock::{HeldRow, Request, hold, note_locked};
use super::standing::{Standing, arriving, moved_meanwhile};
use crate::am::last_row;
use crate::am::point_reader::{PointReader, fetch_placed};
use crate::errors::refuse;
use crate::stop_point;
use crate::store::directory::{GroupEntry, GroupState};
use crate::store::marks::RowFate;
use crate::store::view::Wanted;

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
            Ok(()) => {
                if let Some(row) = at.row() {
                    note_locked(table, row);
                }
                return answer(RowResult::Ok, RowFailure::default(), traversed);
            }
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
            Version::MovedPartitions => refuse(
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
fn meet_updater(held: &HeldRow<'_, '_>, lock: RowLock, own_xid: Xid) -> Option<Xid> {
    if lock != RowLock::KeyShare || !matches!(held.standing, Standing::There(_)) {
        return None;
    }
    let target = held.target;
    let mark = target.or_raise(arriving(target))?;
    let RowFate::Updated { to, .. } = mark.fate else {
        return Some(mark.xid);
    };
    // VACUUM does not remove a new version of a transaction in progress.
    let refused = add_key_share(target.table, to, &[own_xid]).err()?;
    Some(refused.by.unwrap_or(mark.xid))
}

/// What a locked row is read for.
enum Use {
    /// Rechecks of a scan, which read some columns.
    Recheck(Wanted),
    /// A change, which reads it once more.
    Change,
}

impl Use {
    fn of(request: LockRequest<'_>, slot: Slot<'_>) -> Use {
        // Only `LockRows` asks so.
        match request.flags.lock_update_in_progress() {
            true => Use::Recheck(Wanted::of_locked(slot)),
            false => Use::Change,
        }
    }

    fn wanted(&self) -> Wanted {
        match self {
            Use::Recheck(wanted) => wanted.clone(),
            Use::Change => Wanted::All,
        }
    }
}

/// Stores a row in the slot whose group this transaction has locked, or that this command has read
/// before; `store` is that of the table, if it is open.
fn fetch_known(
    store: Option<&ColdStore<'_>>,
    table: Table<'_>,
    row: RowNumber,
    entry: GroupEntry,
    used: &Use,
    slot: Slot<'_>,
) -> bool {
    if last_row::recall(table, row, slot) {
        return true;
    }
    let found = fetch_from(store, table, row, entry, &used.wanted(), slot);
    if found && matches!(used, Use::Change) {
        last_row::remember(slot);
    }
    found
}

fn fetch_from(
    store: Option<&ColdStore<'_>>,
    table: Table<'_>,
    row: RowNumber,
    entry: GroupEntry,
    wanted: &Wanted,
    slot: Slot<'_>,
) -> bool {
    let fetch = |store: &ColdStore<'_>| fetch_placed(store, table, row, entry, wanted, slot);
    match store {
        Some(store) => fetch(store),
        None => ColdStore::open(table, LockMode::AccessShare).is_some_and(|store| fetch(&store)),
    }
}

/// Stores a row in the slot, whatever its marks tell, if this transaction has locked its group.
pub fn fetch_held(table: Table<'_>, row: RowNumber, slot: Slot<'_>) -> bool {
    let found = held_group(table, row)
        .is_some_and(|entry| fetch_from(None, table, row, entry, &Wanted::All, slot));
    if found {
        last_row::remember(slot);
    }
    found
}

fn lock_cold(
    table: Table<'_>,
    row: RowNumber,
    slot: Slot<'_>,
    request: LockRequest<'_>,
) -> Result<(), Refusal> {
    let (command, lock) = (request.command, request.lock);
    let used = Use::of(request, slot);
    slot.clear();
    if let Some(entry) = known_there(table, row, lock, command)
        && fetch_known(None, table, row, entry, &used, slot)
    {
        return Ok(());
    }
    let target = LocatedRow::new(table, row);
    let mut held = hold_with_updater(&target, request)?;
    let report = match updated_to(&held, request) {
        // As on heap: the old version may be locked if the new ones can be locked along with it.
        // That may wait. The old one needs no lock of its own: its committed mark stays.
        Some(to) => {
            held.unlock();
            lock_new_version(table, to, slot, request)
        }
        None => held.standing.report(row.tid(), command).map(|_| ()),
    };
    if let Err(refusal) = report {
        held.let_go();
        return Err(refusal);
    }
    let HeldRow {
        standing, locked, ..
    } = held;
    // The lock is kept.
    drop(locked);
    stop_point!("lock_taken");
    slot.clear();
    let found = match &standing {
        Standing::There(placed) if placed.entry.state == GroupState::Stored => {
            fetch_known(Some(target.store()), table, row, placed.entry, &used, slot)
        }
        _ => {
            let mut reader = PointReader::of(used.wanted());
            reader.fetch_from(target.store(), table, row, Snapshot::any(), slot)
        }
    };
    match found {
        true => Ok(()),
        false => Err(Refusal {
            result: RowResult::Deleted,
            failure: RowFailure::default(),
        }),
    }
}

/// Holds a row that is to be locked. A transaction that shares its key shares that of new versions
/// as well, or waits for their updater.
fn hold_with_updater<'t, 'a>(
    target: &'t LocatedRow<'a>,
    request: LockRequest<'_>,
) -> Result<HeldRow<'t, 'a>, Refusal> {
    let (table, lock) = (target.table, request.lock);
    let wanted = Request {
        lock,
        wait: match request.wait {
            WaitPolicy::Block => Wait::Forever,
            WaitPolicy::Skip | WaitPolicy::Error => Wait::Not,
        },
        command: request.command,
        purpose: Purpose::Lock,
    };
    let own_xid = announce();
    loop {
        let attempt = hold(target, wanted);
        let met = attempt
            .as_ref()
            .and_then(|held| meet_updater(held, lock, own_xid));
        match (attempt, met) {
            (Some(mut held), None) => {
                if lock == RowLock::KeyShare {
                    // The updater may have committed since the row's standing was learnt, and then
                    // was not met.
                    held.look_again(request.command);
                }
                return Ok(held);
            }
            (Some(held), Some(updater)) if request.wait == WaitPolicy::Block => {
                // To wait with the lock held could be a deadlock that heap does not have.
                held.let_go();
                cold_lock::wait_for(updater, table, target.row, Purpose::Lock);
            }
            (attempt, met) => {
                if let Some(held) = attempt {
                    held.let_go();
                }
                if request.wait == WaitPolicy::Error {
                    log_failure(target, lock, met);
                    let name = table.name();
                    refuse(
                        PgSqlErrorCode::ERRCODE_LOCK_NOT_AVAILABLE,
                        format!("could not obtain lock on row in relation \"{name}\""),
                        None,
                    );
                }
                return Err(Refusal {
                    result: RowResult::WouldBlock,
                    failure: RowFailure::default(),
                });
            }
        }
    }
}

/// The new version of a row that another transaction has updated and left its key, if the old one
/// may be locked along with it.
fn updated_to(held: &HeldRow<'_, '_>, request: LockRequest<'_>) -> Option<Tid> {
    let Standing::Marked(mark) = &held.standing else {
        return None;
    };
    let may_lock = request.lock == RowLock::KeyShare && request.flags.lock_update_in_progress();
    match (mark.fate, mark.own) {
        (
            RowFate::Updated {
                to,
                keeps_key: true,
            },
            None,
        ) if may_lock => Some(to),
        _ => None,
    }
}

fn lock_new_version(
    table: Table<'_>,
    to: Tid,
    slot: Slot<'_>,
    request: LockRequest<'_>,
) -> Result<(), Refusal> {
    let alone = LockRequest {
        flags: request.flags.of_this_version(),
        snapshot: None,
        ..request
    };
    let LockedRow {
        result, failure, ..
    } = lock(table, to, slot, alone);
    match result {
        RowResult::Ok => Ok(()),
        result => Err(Refusal { result, failure }),
    }
}
