//! The directories of small tables, remembered by this backend.
//!
//! A scan of a whole table lists its row groups first. For a table of a few hundred rows, the index
//! scan of the directory costs as much as the rest of the statement. So the places of all directory
//! tuples, dead or alive, are remembered together with the high-water mark that was in force:
//!
//! ```text
//!   high-water mark as remembered, no gap below it ──> these are all places, each tuple is judged
//!   otherwise                                      ──> the index is scanned
//! ```
//!
//! A new entry always comes with a higher high-water mark, because its range begins at the old one.
//! The high-water mark goes back only by the unused tail of the last range. Therefore a listing is
//! kept only if the last entry ends at the high-water mark: then there is no such tail, and the
//! same high-water mark means the same entries. A transaction inserts its entry before it advances
//! the high-water mark, but no MVCC snapshot sees the entry before that transaction has committed.
//! Other kinds of snapshots do not use listings.

use std::cell::RefCell;

use howdah_bridge::lock_span::LockSpan;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::{ColdStore, EntryAt, StoreId};
use howdah_bridge::tid::{GroupId, Tid};
use howdah_bridge::xid::Xid;

use super::hidden_groups;
use crate::bounded_cache::HashCache;
use crate::errors::ColdError;
use crate::store::directory::{self, GroupState, PlacedEntry};

/// Listings that are remembered, and entries of each.
const MOST_LISTINGS: usize = 1_024;
const MOST_ENTRIES: usize = 8;
/// Scans after which a table that could not be listed is tried again.
const TRY_AGAIN: u32 = 64;

enum Known {
    /// Not to be listed during the next scans.
    No {
        scans_left: u32,
    },
    Places(Places),
}

#[derive(Clone)]
struct Places {
    high_water_tid: Tid,
    high_water: u64,
    /// Tuple and key of each entry.
    entries: Vec<(Tid, i32)>,
    /// When they were last seen inside the file.
    seen_in: LockSpan,
}

thread_local! {
    /// By file.
    static LISTINGS: RefCell<HashCache<StoreId, Known>> =
        RefCell::new(HashCache::of_entries(MOST_LISTINGS));
}

/// What is remembered of the directory, if it is complete.
fn all_places<R>(store: &ColdStore, ask: impl FnOnce(&Places) -> R) -> Option<R> {
    let file = store.id();
    let (known, answer) = LISTINGS.with_borrow_mut(|listings| {
        let Known::Places(places) = listings.get(&file)? else {
            return None;
        };
        let inside = places.lie_inside(store);
        inside.then(|| ((places.high_water_tid, places.high_water), ask(places)))
    })?;
    if directory::high_water_at(store, known.0) != Some(known.1) {
        forget_file(file);
        return None;
    }
    Some(answer)
}

/// The youngest transaction that hid a row, if the directory is remembered and each row group in it
/// is known to have no row left that the snapshot sees.
pub(in crate::store) fn all_hidden(store: &ColdStore, snapshot: Snapshot<'_>) -> Option<Xid> {
    if !snapshot.is_mvcc() {
        return None;
    }
    all_places(store, |places| {
        let mut hiders = places
            .entries
            .iter()
            .map(|&(_, seq)| hidden_groups::youngest(store, GroupId::of_key(seq), snapshot));
        hiders.try_fold(Xid::FROZEN, |youngest, hider| {
            Some(youngest.younger(hider?))
        })
    })?
}

/// The row groups whose entries the snapshot sees, ascending, if they are remembered.
pub(in crate::store) fn recall(
    store: &ColdStore,
    snapshot: Snapshot<'_>,
) -> Option<Result<Vec<PlacedEntry>, ColdError>> {
    let places = all_places(store, Places::clone)?;
    let mut judge = directory::visible_to(store, snapshot);
    let mut seen = Vec::with_capacity(places.entries.len());
    for &(tid, seq) in &places.entries {
        match directory::entry_at(store, tid, seq, &mut judge) {
            EntryAt::There(entry) => match directory::placed(&entry) {
                Ok(placed) => seen.push(placed),
                Err(error) => return Some(Err(error)),
            },
            EntryAt::Refused => {}
            EntryAt::Gone => {
                forget_file(store.id());
                return None;
            }
        }
    }
    Some(Ok(seen))
}

/// Remembers the directory if it is small and complete; `groups` are those that a snapshot sees.
pub(in crate::store) fn remember(
    store: &ColdStore,
    groups: &[PlacedEntry],
) -> Result<(), ColdError> {
    let file = store.id();
    if groups.len() > MOST_ENTRIES || !may_try(file) {
        return Ok(());
    }
    let known = match list(store)? {
        Some(places) => Known::Places(places),
        None => Known::No {
            scans_left: TRY_AGAIN,
        },
    };
    LISTINGS.with_borrow_mut(|listings| listings.insert(file, known));
    Ok(())
}

/// Discards what is known of a file.
pub(super) fn forget_file(file: StoreId) {
    LISTINGS.with_borrow_mut(|listings| listings.remove(&file));
}

fn may_try(file: StoreId) -> bool {
    LISTINGS.with_borrow_mut(|listings| match listings.get(&file) {
        Some(Known::No { scans_left }) if *scans_left > 0 => {
            *scans_left -= 1;
            false
        }
        _ => true,
    })
}

fn list(store: &ColdStore) -> Result<Option<Places>, ColdError> {
    // The high-water mark is read first: a range that is reserved later advances it.
    let Some((high_water_tid, high_water)) = directory::high_water(store)? else {
        return Ok(None);
    };
    let all = directory::groups_where(store, &mut |_| true)?;
    let is_complete = all.len() <= MOST_ENTRIES
        && all.iter().all(|p| p.entry.state == GroupState::Stored)
        && all.last().is_some_and(|p| {
            p.entry.row_count > 0
                && p.entry.first_row.0 + u64::from(p.entry.capacity_rows) == high_water
        });
    Ok(is_complete.then(|| Places {
        high_water_tid,
        high_water,
        entries: all.iter().map(|p| (p.tid, p.entry.group().key())).collect(),
        seen_in: LockSpan::current(),
    }))
}

impl Places {
    /// Whether the file, which VACUUM may have truncated while it was not locked, is still long
    /// enough.
    fn lie_inside(&mut self, store: &ColdStore) -> bool {
        if self.seen_in == LockSpan::current() {
            return true;
        }
        let tids = self.entries.iter().map(|(tid, _)| tid);
        let inside = tids
            .chain([&self.high_water_tid])
            .all(|tid| store.toast().has_block(tid.block()));
        if inside {
            self.seen_in = LockSpan::current();
        }
        inside
    }
}
