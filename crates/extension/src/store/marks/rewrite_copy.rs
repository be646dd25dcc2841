//! Copies of a group's marks into another store, for rewrites.
//!
//! A rewrite puts the new versions of updated rows at other places. So a mark that is copied tells
//! that the row was updated, but not where its new version is. Only snapshots from before the
//! rewrite still meet such a mark, and their transactions cannot follow it: they fail with 40001,
//! and cannot share the row's key, as with a row that went to another partition.

use std::ops::ControlFlow;

use howdah_bridge::shown_tuple::TupleStatus;
use howdah_bridge::slot::Origin;
use howdah_bridge::store::{ColdStore, CopiedAs, TupleStamp};
use howdah_bridge::xid::{CommandId, Xid};

use super::block_deletions::key_ranges_of;
use super::deletion_vector::{self, DELETION_VECTOR_ID, by_deletion_vector, deletion_vectors_of};
use super::mark_filter::note::forget_group;
use super::recent_inserts::RECENT_INSERTS_ID;
use super::row_mark::{self, MARK_KEYS};
use super::tuple_visibility::writer_of;
use super::update_links::{self, UPDATE_LINKS_ID};
use crate::errors::ColdError;
use crate::store::directory::{GroupEntry, GroupFlags};
use crate::store::row_set::RowSet;

/// From one store into another that no other backend can see yet.
pub struct RewriteCopy<'a> {
    pub from: &'a ColdStore<'a>,
    pub to: &'a ColdStore<'a>,
    pub cid: CommandId,
    /// Transactions older than this are finished for every snapshot.
    pub horizon: Xid,
}

/// A tuple that some snapshot may still see.
struct Kept {
    seq: i32,
    payload: Vec<u8>,
    stamp: TupleStamp,
    origin: Origin,
    /// Whether no transaction has replaced or deleted it.
    is_current: bool,
}

impl RewriteCopy<'_> {
    /// Copies a group's marks, deletion vectors and lists, except dead ones.
    pub fn marks(&self, entry: &GroupEntry) -> Result<(), ColdError> {
        self.all_but_deletion_vectors(entry)?;
        self.write(
            DELETION_VECTOR_ID,
            self.read(DELETION_VECTOR_ID, deletion_vectors_of(entry)),
        );
        forget_group(self.to, entry);
        Ok(())
    }

    /// The same, and in addition makes some rows dead: they are at another place now. The flag of
    /// the group's deletion vectors is set.
    pub fn marks_hiding(&self, entry: &GroupEntry, rows: &RowSet) -> Result<(), ColdError> {
        self.all_but_deletion_vectors(entry)?;
        let mut kept = self.read(DELETION_VECTOR_ID, deletion_vectors_of(entry));
        for (seq, places) in by_deletion_vector(entry, rows) {
            let mut versions = Vec::new();
            for bitmap in kept.iter_mut().filter(|bitmap| bitmap.seq == seq) {
                let known = Some(bitmap.payload.as_slice());
                bitmap.payload = deletion_vector::hiding_all(entry.group(), known, &places)?;
                versions.push(&*bitmap);
            }
            if let Some(copied_as) = self.before(&versions) {
                let payload = deletion_vector::hiding_all(entry.group(), None, &places)?;
                self.insert(DELETION_VECTOR_ID, seq, &payload, copied_as);
            }
        }
        self.write(DELETION_VECTOR_ID, kept);
        forget_group(self.to, entry);
        Ok(())
    }

    /// The visibility of a deletion vector for snapshots that see none of these versions; `None` if
    /// every snapshot sees one.
    fn before(&self, versions: &[&Kept]) -> Option<CopiedAs> {
        if versions.is_empty() {
            return Some(CopiedAs::Frozen);
        }
        if versions
            .iter()
            .any(|v| v.stamp.is_inserted_before(self.horizon))
        {
            return None;
        }
        let replaced = |v: &Kept| {
            let by = |other: &&Kept| !other.is_current && other.stamp.deleter() == v.origin.xid;
            versions.iter().any(by)
        };
        let is_own = |v: &Kept| v.origin.xid.is_own();
        // Other transactions have committed before this one could begin.
        let foreign = versions.iter().find(|v| !is_own(v) && !replaced(v));
        let first = foreign.or_else(|| versions.iter().min_by_key(|v| v.origin.cid))?;
        let stamp = TupleStamp::until(first.origin);
        Some(CopiedAs::Stamped(stamp, self.horizon))
    }

    fn all_but_deletion_vectors(&self, entry: &GroupEntry) -> Result<(), ColdError> {
        let group = entry.group();
        for (id, seqs) in MARK_KEYS.ranges(entry.first_row, entry.capacity_rows) {
            let mut kept = self.read(id, seqs);
            for mark in &mut kept {
                mark.payload = row_mark::without_place(group, &mark.payload)?;
            }
            self.write(id, kept);
        }
        if entry.flags.contain(GroupFlags::BLOCK_DELETIONS) {
            for (id, seqs) in key_ranges_of(entry.first_row, entry.capacity_rows) {
                self.write(id, self.read(id, seqs));
            }
        }
        let mut lists = self.read(UPDATE_LINKS_ID, update_links::keys_of(entry));
        for list in &mut lists {
            list.payload = update_links::without_places(group, &list.payload)?;
        }
        self.write(UPDATE_LINKS_ID, lists);
        if entry.flags.contain(GroupFlags::RECENT_INSERTS) {
            self.write(
                RECENT_INSERTS_ID,
                self.read(RECENT_INSERTS_ID, update_links::keys_of(entry)),
            );
        }
        Ok(())
    }

    fn read(&self, id: u32, seqs: std::ops::RangeInclusive<i32>) -> Vec<Kept> {
        let mut kept = Vec::new();
        self.from.visit(id, seqs, &mut |shown| {
            let status = shown.tuple.status(self.horizon);
            if status != TupleStatus::Dead {
                let (xid, own) = writer_of(&shown);
                kept.push(Kept {
                    seq: shown.seq,
                    payload: shown.payload.to_vec(),
                    stamp: shown.tuple.stamp(),
                    origin: Origin::of_insert(xid, own.unwrap_or(Origin::FROZEN.cid)),
                    is_current: matches!(status, TupleStatus::Live | TupleStatus::InsertInProgress),
                });
            }
            ControlFlow::Continue(())
        });
        kept
    }

    fn write(&self, id: u32, kept: Vec<Kept>) {
        for kept in kept {
            let copied_as = CopiedAs::Stamped(kept.stamp, self.horizon);
            self.insert(id, kept.seq, &kept.payload, copied_as);
        }
    }

    fn insert(&self, id: u32, seq: i32, payload: &[u8], copied_as: CopiedAs) {
        self.to
            .insert_copy(id, seq, payload, self.cid, copied_as, None);
        howdah_bridge::check_for_interrupts!();
    }
}
