//! Recent inserts: rows that are younger than the group they are in.
//!
//! ```text
//!   id 7, seq b        a list of rows of a group; b is one of the group's cold blocks
//!     group u32, first u32, kind u32, reserved u32
//!     kind 0: run ...    position u32, length u32
//!     kind 1: bits       of the 32,768 positions from `first` on
//!     check u64
//! ```
//!
//! CLUSTER sorts rows of many transactions into one group, which every snapshot sees. A list
//! belongs to the transaction that inserted its rows, and inverts visibility: it is a frozen tuple
//! that this transaction has deleted. A snapshot that does not see the transaction sees the list,
//! and therefore not the rows; a snapshot that sees the transaction does not see the list. When
//! every snapshot is younger than the transaction, the list is a dead tuple like any other.
//!
//! Only MVCC snapshots need the lists, because the transaction has committed or is our own. A
//! rewrite writes lists into a store that no other backend can see yet; they are never changed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use howdah_bridge::shown_tuple::{ShownTuple, TupleStatus};
use howdah_bridge::slot::Origin;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::{ColdStore, CopiedAs, TupleStamp};
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::{CommandId, Xid};

use super::update_links::keys_of;
use crate::errors::ColdError;
use crate::store::directory::{GroupEntry, fnv1a};
use crate::store::row_set::RowSet;

pub(in crate::store) const RECENT_INSERTS_ID: u32 = 7;
const HEAD_BYTES: usize = 16;
const CHECK_BYTES: usize = 8;
const RUN_BYTES: usize = 8;
const POSITIONS_PER_LIST: u32 = 32_768;
const BITS_BYTES: usize = POSITIONS_PER_LIST as usize / 8;
const RUNS: u32 = 0;
const BITS: u32 = 1;

/// The recent inserts of one group: their inserters, and their positions, ascending.
#[derive(Default)]
pub struct RecentInserts(BTreeMap<(u32, CommandId), Vec<u32>>);

impl RecentInserts {
    /// # Panics
    /// In tests, if positions do not ascend.
    pub fn push(&mut self, origin: Origin, position: u32) {
        let key = (origin.xid.number(), origin.cid);
        let positions = self.0.entry(key).or_default();
        debug_assert!(positions.last().is_none_or(|&last| last < position));
        positions.push(position);
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn iter(&self) -> impl Iterator<Item = (Origin, &[u32])> {
        self.0.iter().map(|(&(xid, cid), positions)| {
            let xid = Xid::from_number(xid);
            (Origin { xid, cid }, positions.as_slice())
        })
    }

    /// Each late row's origin, by position.
    pub fn origins(&self) -> BTreeMap<u32, Origin> {
        self.iter()
            .flat_map(|(origin, rows)| rows.iter().map(move |&row| (row, origin)))
            .collect()
    }
}

/// Writes the lists of a group, in a store that no other backend can see yet.
pub fn insert_recent(
    store: &ColdStore,
    entry: &GroupEntry,
    late: &RecentInserts,
    horizon: Xid,
    cid: CommandId,
) {
    // Keys are used in turn, so that a later rewrite or mark never meets too many tuples with one
    // key.
    let mut keys = keys_of(entry).cycle();
    for (origin, positions) in late.iter() {
        let copied_as = CopiedAs::Stamped(TupleStamp::until(origin), horizon);
        let same_list = |a: &u32, b: &u32| a / POSITIONS_PER_LIST == b / POSITIONS_PER_LIST;
        for (positions, seq) in positions.chunk_by(same_list).zip(&mut keys) {
            let payload = seal(entry.group(), positions);
            store.insert_copy(RECENT_INSERTS_ID, seq, &payload, cid, copied_as, None);
            pgrx::check_for_interrupts!();
        }
    }
}

/// The recent inserts of a group that some snapshot may not see yet.
pub fn recent_inserts(
    store: &ColdStore,
    entry: &GroupEntry,
    horizon: Xid,
) -> Result<RecentInserts, ColdError> {
    let mut found: BTreeMap<(u32, CommandId), RowSet> = BTreeMap::new();
    visit(
        store,
        entry,
        &mut |tuple, rows| match tuple.status(horizon) {
            TupleStatus::RecentlyDead | TupleStatus::DeleteInProgress => {
                let (xid, own) = tuple.deleter();
                let set = found
                    .entry((xid.number(), own.unwrap_or(Origin::FROZEN.cid)))
                    .or_insert_with(|| RowSet::with_bound(entry.capacity_rows));
                rows.add_to(set);
            }
            TupleStatus::Live | TupleStatus::Dead | TupleStatus::InsertInProgress => {}
        },
    )?;
    let positions = found
        .into_iter()
        .map(|(key, set)| (key, set.iter().collect()));
    Ok(RecentInserts(positions.collect()))
}

/// Adds the rows that the MVCC snapshot does not see yet.
pub(in crate::store) fn add_unseen(
    store: &ColdStore,
    entry: &GroupEntry,
    snapshot: Snapshot<'_>,
    unseen: &mut RowSet,
) -> Result<(), ColdError> {
    visit(store, entry, &mut |tuple, rows| {
        if store.visible(tuple, snapshot) {
            rows.add_to(unseen);
        }
    })
}

/// Whether the MVCC snapshot does not see the row yet.
pub(in crate::store) fn is_unseen(
    store: &ColdStore,
    entry: &GroupEntry,
    row: RowNumber,
    snapshot: Snapshot<'_>,
) -> Result<bool, ColdError> {
    let position = (row.0 - entry.first_row.0) as u32;
    let mut unseen = false;
    visit(store, entry, &mut |tuple, rows| {
        unseen = unseen || rows.contains(position) && store.visible(tuple, snapshot);
    })?;
    Ok(unseen)
}

/// Takes a list's tuple and its rows.
type Look<'a> = dyn FnMut(ShownTuple<'_>, &List<'_>) + 'a;

/// Shows every list of the group, dead or alive.
fn visit(store: &ColdStore, entry: &GroupEntry, look: &mut Look<'_>) -> Result<(), ColdError> {
    let mut damage = None;
    store.visit(
        RECENT_INSERTS_ID,
        keys_of(entry),
        &mut |shown| match List::open(entry, shown.payload) {
            Ok(list) => {
                look(shown.tuple, &list);
                ControlFlow::Continue(())
            }
            Err(error) => {
                damage = Some(error);
                ControlFlow::Break(())
            }
        },
    );
    damage.map_or(Ok(()), Err)
}

/// A list whose bytes were checked.
struct List<'a> {
    /// The first position after the group.
    bound: u32,
    first: u32,
    body: Body<'a>,
}

enum Body<'a> {
    Runs(&'a [u8]),
    Bits(&'a [u8]),
}

impl<'a> List<'a> {
    fn open(entry: &GroupEntry, payload: &'a [u8]) -> Result<List<'a>, ColdError> {
        let group = entry.group();
        let damaged = ColdError::DamagedMark { group };
        let Some((bytes, check)) = payload.split_last_chunk::<CHECK_BYTES>() else {
            return Err(damaged);
        };
        if *check != fnv1a(bytes).to_le_bytes() || bytes.len() < HEAD_BYTES {
            return Err(damaged);
        }
        let (head, rest) = bytes.split_at(HEAD_BYTES);
        let body = match word(head, 8) {
            RUNS if rest.len().is_multiple_of(RUN_BYTES) => Body::Runs(rest),
            BITS if rest.len() == BITS_BYTES => Body::Bits(rest),
            _ => return Err(damaged),
        };
        if word(head, 0) != group {
            return Err(damaged);
        }
        Ok(List {
            bound: entry.capacity_rows,
            first: word(head, 4),
            body,
        })
    }

    fn contains(&self, position: u32) -> bool {
        match self.body {
            Body::Runs(bytes) => runs(bytes)
                .any(|(at, rows)| position.checked_sub(at).is_some_and(|behind| behind < rows)),
            Body::Bits(bytes) => position.checked_sub(self.first).is_some_and(|at| {
                let byte = bytes.get(at as usize / 8);
                byte.is_some_and(|byte| byte >> (at % 8) & 1 == 1)
            }),
        }
    }

    fn add_to(&self, rows: &mut RowSet) {
        let mut add = |position: u32| {
            if position < self.bound {
                rows.insert(position);
            }
        };
        match self.body {
            Body::Runs(bytes) => {
                for (at, rows) in runs(bytes) {
                    (at..at.saturating_add(rows).min(self.bound)).for_each(&mut add);
                }
            }
            Body::Bits(bytes) => RowSet::from_bytes(bytes)
                .iter()
                .for_each(|at| add(self.first.saturating_add(at))),
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|i| bytes[at + i]))
}

fn runs(bytes: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    bytes
        .chunks_exact(RUN_BYTES)
        .map(|run| (word(run, 0), word(run, 4)))
}

/// A list of positions that have a list in common, ascending and at least one.
fn seal(group: u32, positions: &[u32]) -> Vec<u8> {
    let first = positions[0] / POSITIONS_PER_LIST * POSITIONS_PER_LIST;
    let runs: Vec<&[u32]> = positions.chunk_by(|a, b| a + 1 == *b).collect();
    let kind = match runs.len() * RUN_BYTES <= BITS_BYTES {
        true => RUNS,
        false => BITS,
    };
    let mut out = Vec::new();
    for field in [group, first, kind, 0] {
        out.extend(field.to_le_bytes());
    }
    if kind == RUNS {
        for run in runs {
            out.extend(run[0].to_le_bytes());
            out.extend((run.len() as u32).to_le_bytes());
        }
    } else {
        let mut bits = RowSet::with_bound(POSITIONS_PER_LIST);
        for position in positions {
            bits.insert(position - first);
        }
        out.extend(bits.to_bytes());
    }
    let check = fnv1a(&out);
    out.extend(check.to_le_bytes());
    out
}

#[cfg(test)]
mod tests {
    use howdah_bridge::tid::INVALID_BLOCK;

    use super::*;
    use crate::store::directory::{GroupFlags, GroupState};

    fn entry(first_row: u64) -> GroupEntry {
        GroupEntry {
            state: GroupState::Stored,
            first_row: RowNumber(first_row),
            capacity_rows: 131_072,
            row_count: 131_072,
            value_id: 0,
            first_block: INVALID_BLOCK,
            footer_bytes: 0,
            body_bytes: 0,
            origin: Origin::FROZEN,
            flags: GroupFlags::RECENT_INSERTS,
        }
    }

    fn survives(positions: &[u32]) {
        let entry = entry(512);
        let payload = seal(entry.group(), positions);
        let list = List::open(&entry, &payload).unwrap();
        let mut rows = RowSet::with_bound(entry.capacity_rows);
        list.add_to(&mut rows);
        assert_eq!(rows.iter().collect::<Vec<_>>(), positions);
        for near in positions
            .iter()
            .flat_map(|&at| [at.saturating_sub(1), at, at + 1])
        {
            assert_eq!(list.contains(near), positions.contains(&near), "{near}");
        }
    }

    #[test]
    fn positions_are_found_again() {
        survives(&[0]);
        survives(&[131_071]);
        survives(&(32_768..65_536).collect::<Vec<_>>());
        survives(&(32_768..65_536).step_by(2).collect::<Vec<_>>());
        survives(&[98_304, 98_305, 98_400, 131_070]);
    }

    #[test]
    fn damage_is_noticed() {
        let entry = entry(0);
        let payload = seal(0, &[1, 2, 700]);
        for at in 0..payload.len() {
            let mut bytes = payload.clone();
            bytes[at] ^= 16;
            assert!(List::open(&entry, &bytes).is_err());
        }
        for len in 0..payload.len() {
            assert!(List::open(&entry, &payload[..len]).is_err());
        }
    }

    #[test]
    fn a_list_of_another_group_is_damage() {
        let payload = seal(1, &[5]);
        assert!(List::open(&entry(0), &payload).is_err());
    }
}
