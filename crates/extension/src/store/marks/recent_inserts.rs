//! Recent inserts: rows that are younger than the group they are in.
//!
//! ```text
//!   id 7, seq b        a list of rows of a group; b is one of the group's cold blocks
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
use howdah_records::{Kind, POSITIONS_PER_LIST, RecentInserts as List};

use super::update_links::keys_of;
use crate::errors::ColdError;
use crate::store::directory::GroupEntry;
use crate::store::row_set::RowSet;

pub(in crate::store) const RECENT_INSERTS_ID: u32 = Kind::RecentInserts.id();

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
            (Origin::of_insert(xid, cid), positions.as_slice())
        })
    }

    /// The origin of each recent insert, by position.
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
    recent: &RecentInserts,
    horizon: Xid,
    cid: CommandId,
) {
    // Keys are used in turn, so that a later rewrite or mark never meets too many tuples with one
    // key.
    let mut keys = keys_of(entry).cycle();
    for (origin, positions) in recent.iter() {
        let copied_as = CopiedAs::Stamped(TupleStamp::until(origin), horizon);
        let same_list = |a: &u32, b: &u32| a / POSITIONS_PER_LIST == b / POSITIONS_PER_LIST;
        for (positions, seq) in positions.chunk_by(same_list).zip(&mut keys) {
            let payload = List::encode(entry.group().first_block(), positions);
            store.insert_copy(RECENT_INSERTS_ID, seq, &payload, cid, copied_as, None);
            howdah_bridge::check_for_interrupts!();
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
                rows.add_to(set, entry.capacity_rows);
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
            rows.add_to(unseen, entry.capacity_rows);
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
        &mut |shown| match List::open(entry.group().first_block(), shown.payload) {
            Ok(list) => {
                look(shown.tuple, &list);
                ControlFlow::Continue(())
            }
            Err(error) => {
                damage = Some(ColdError::of_mark(entry.group(), error));
                ControlFlow::Break(())
            }
        },
    );
    damage.map_or(Ok(()), Err)
}
