//! Dead rows among those an index names when it needs room on a page.
//!
//! Called while that page is locked. Therefore not all marks of a group are read, nothing is waited
//! for but pages of the store, and the search is given up soon where it finds nothing. What is
//! found is remembered for all ([`DeadRows`]), and of some rows the marks of their neighbours are
//! read as well, so that most rows are known when an index asks about them.

use std::ops::{ControlFlow, Range};

use howdah_bridge::store::ColdStore;
use howdah_bridge::tid::RowNumber;
use howdah_bridge::xid::Xid;

use super::block_deletions::{key_ranges_of, rows_of};
use super::dead_rows::DeadRows;
use super::mark_filter::ask::may_be_marked;
use super::row_mark::{MARK_KEYS, decode};
use super::tuple_visibility::in_force;
use crate::store::directory::{GroupEntry, GroupFlags};

/// Rows at most this far from each other are looked up together.
const NEAR: u64 = 32;
/// Rows of a survey, all of whose marks are read.
const SURVEYED: u64 = 512;
/// Surveys of one search.
const MOST_SURVEYS: u32 = 8;
/// Marks that are examined in vain before the search is given up.
const FEW: u32 = 16;
/// Marks that are examined at most.
const MOST: u32 = 512;

/// A search for dead rows in the groups that one index page names.
pub struct DeadSearch<'a> {
    /// Whether a transaction is older than every snapshot.
    is_over: &'a dyn Fn(Xid) -> bool,
    /// Marks that were examined, and those of them that hide a row from every snapshot.
    looks: u32,
    dead: u32,
    surveys: u32,
}

impl<'a> DeadSearch<'a> {
    pub fn new(is_over: &'a dyn Fn(Xid) -> bool) -> Self {
        Self {
            is_over,
            looks: 0,
            dead: 0,
            surveys: 0,
        }
    }

    /// Calls `name` for those of `rows` whose marks make them dead, in any order, each with a
    /// transaction that is no earlier than the writer of its mark, and over. Rows of deletion
    /// vectors are not among them. `rows` ascend and are rows of the group.
    pub fn for_each_dead(
        &mut self,
        store: &ColdStore,
        entry: &GroupEntry,
        rows: &[RowNumber],
        name: &mut dyn FnMut(RowNumber, Xid),
    ) {
        let known = DeadRows::of(store, entry);
        let mut asked = Vec::new();
        for &row in rows {
            match known.hider(row) {
                Some(hider) => name(row, hider),
                None if may_be_marked(store, entry, row, false) => asked.push(row),
                None => {}
            }
        }
        let mut rest = asked.as_slice();
        while let Some(&first) = rest.first() {
            if self.is_enough() {
                return;
            }
            let is_survey = self.surveys < MOST_SURVEYS;
            let range = match is_survey {
                true => surveyed(entry, first),
                false => near(rest),
            };
            self.surveys += u32::from(is_survey);
            let (these, others) = rest.split_at(rest.partition_point(|row| row.0 < range.end));
            let is_asked = |row: RowNumber| these.binary_search(&row).is_ok();
            let mut is_wanted = |row: RowNumber| match is_survey {
                true => known.hider(row).is_none(),
                false => is_asked(row),
            };
            self.examine(store, entry, range, &mut is_wanted, &mut |row, writer| {
                known.note(row, writer);
                if is_asked(row) {
                    name(row, writer);
                }
            });
            rest = others;
        }
    }

    fn is_enough(&self) -> bool {
        self.looks >= MOST || (self.looks >= FEW && self.dead == 0)
    }

    /// Reads marks of rows in a range of the group that are wanted; calls `found` for rows that are
    /// dead, with the writers of the marks.
    fn examine(
        &mut self,
        store: &ColdStore,
        entry: &GroupEntry,
        range: Range<u64>,
        is_wanted: &mut dyn FnMut(RowNumber) -> bool,
        found: &mut dyn FnMut(RowNumber, Xid),
    ) {
        let count = (range.end - range.start) as u32;
        for (id, seqs) in MARK_KEYS.ranges(RowNumber(range.start), count) {
            let mut is_wanted = |seq| is_wanted(MARK_KEYS.row_of(id, seq));
            store.visit_wanted_by_page(id, seqs, &mut is_wanted, &mut |shown| {
                let writer = shown.tuple.xmin();
                self.looks += 1;
                // A damaged mark tells nothing here: a reader that follows the index entry raises
                // the error.
                let is_sound = decode(entry.group(), shown.payload).is_ok();
                if is_sound && (self.is_over)(writer) && in_force(&shown) {
                    self.dead += 1;
                    found(MARK_KEYS.row_of(id, shown.seq), writer);
                }
                self.go_on()
            });
        }
        if !entry.flags.contain(GroupFlags::BLOCK_DELETIONS) || self.is_enough() {
            return;
        }
        for (id, seqs) in key_ranges_of(RowNumber(range.start), count) {
            store.visit_wanted_by_page(id, seqs, &mut |_| true, &mut |shown| {
                let writer = shown.tuple.xmin();
                self.looks += 1;
                // As above.
                if let Ok(rows) = rows_of(entry.group(), id, &shown)
                    && (self.is_over)(writer)
                    && in_force(&shown)
                {
                    self.dead += 1;
                    rows.filter(|row| range.contains(&row.0) && is_wanted(*row))
                        .for_each(|row| found(row, writer));
                }
                self.go_on()
            });
        }
    }

    fn go_on(&self) -> ControlFlow<()> {
        match self.is_enough() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// The row numbers around a row that are looked at together with it.
fn surveyed(entry: &GroupEntry, row: RowNumber) -> Range<u64> {
    let first = entry.first_row.0;
    let start = first + (row.0 - first) / SURVEYED * SURVEYED;
    start..(start + SURVEYED).min(first + u64::from(entry.capacity_rows))
}

/// From the first of the rows to the last that is near the one before.
fn near(rows: &[RowNumber]) -> Range<u64> {
    let near = rows.chunk_by(|a, b| b.0 - a.0 <= NEAR).next();
    let (first, last) = near.map_or((0, 0), |near| (near[0].0, near[near.len() - 1].0));
    first..last + 1
}
