//! Row numbers that no group covers, and the note of what VACUUM has cleaned.
//!
//! ```text
//!   0 ......................................................... high-water mark
//!   [ group ][ gap: aborted load ][ group ][ group ][ gap: merged away ][ load ]
//! ```
//!
//! A row number below the high-water mark is dead if it lies in no entry, or only in dead entries:
//! index entries for it may be removed. No other number is dead by its place. Since row numbers are
//! never used again, gaps only grow. So a note of (count of numbers in gaps, fingerprint of the
//! gaps) tells whether there is anything new to clean, without a list of what was cleaned.
//!
//! The high-water mark and the entries must be read together under the allocation lock. A load that
//! gives back the unused tail of its range moves both; if the tail were mistaken for a gap, its
//! numbers would be assigned again while index entries for them are being removed.
//!
//! The note is one frozen tuple that is changed in place, after the last index was cleaned. If it
//! is lost or wrong, the only consequence is a needless index scan.

use howdah_bridge::store::{Birth, ColdStore};
use howdah_bridge::tid::{RowNumber, Tid};
use howdah_bridge::xid::{FIRST_COMMAND, Xid};
use howdah_records::{CleanedGaps, Kind, fingerprint_of};

use super::directory::{self, GroupEntry, PlacedEntry};
use super::marks;
use super::row_set::RowSet;
use super::visibility::group_status::{self, JudgedEntry};
use super::visibility::row_status;
use crate::errors::ColdError;

const CLEANED_ID: u32 = Kind::CleanedGaps.id();

/// Half-open ranges of row numbers, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gaps {
    ranges: Vec<(u64, u64)>,
}

/// What VACUUM needs to know of a table's cold side.
pub struct Survey {
    entries: Vec<JudgedEntry>,
    pub gaps: Gaps,
    marked: Vec<MarkedGroup>,
    last_deleter: Xid,
}

/// A live group with marked rows.
pub struct MarkedGroup {
    pub placed: PlacedEntry,
    hidden_rows: u32,
    /// Dead rows for which indexes may still have entries.
    pub uncleaned: RowSet,
    last_hider: Xid,
}

impl Survey {
    /// Reads high-water mark and directory as of one moment; `None` if the table never had a cold
    /// row.
    pub fn take(store: &ColdStore) -> Result<Option<Survey>, ColdError> {
        let oldest_xmin = group_status::horizon(store);
        let read = store.with_allocation_lock(|| {
            let Some((_, high_water)) = directory::high_water(store)? else {
                return Ok::<_, ColdError>(None);
            };
            let entries = group_status::entries_and_last_deleter(store, oldest_xmin)?;
            Ok(Some((high_water, entries)))
        })?;
        let Some((high_water, (entries, last_deleter))) = read else {
            return Ok(None);
        };
        let marked = entries
            .iter()
            .filter(|e| !e.placed.entry.flags.are_clear() && e.status.counts_as_live())
            .map(|e| MarkedGroup::look(store, e.placed, oldest_xmin))
            .collect::<Result<_, _>>()?;
        Ok(Some(Survey {
            gaps: Gaps::between(entries.iter().map(|e| &e.placed.entry), high_water),
            entries,
            marked,
            last_deleter,
        }))
    }

    /// Rows of groups that count as live.
    pub fn live_rows(&self) -> u64 {
        let rows: u64 = self
            .live()
            .map(|e| u64::from(e.placed.entry.row_count))
            .sum();
        let hidden: u64 = self.marked.iter().map(|m| u64::from(m.hidden_rows)).sum();
        rows.saturating_sub(hidden)
    }

    /// Groups with dead rows for which indexes may still have entries.
    pub fn uncleaned(&self) -> impl Iterator<Item = &MarkedGroup> {
        self.marked.iter().filter(|m| !m.uncleaned.is_empty())
    }

    /// Whether an index entry for this row is dead.
    pub fn is_dead(&self, row: RowNumber) -> bool {
        let after = self
            .marked
            .partition_point(|m| m.placed.entry.first_row <= row);
        let marked = after.checked_sub(1).map(|i| &self.marked[i]);
        marked.is_some_and(|m| m.is_uncleaned(row)) || self.gaps.contain(row)
    }

    /// The latest transaction that made any of the rows dead for which [`is_dead`](Self::is_dead)
    /// holds. A snapshot that does not see it as finished may still need the row's index entries,
    /// and the mark that hides it.
    pub fn conflict_horizon(&self) -> Xid {
        let hiders = self.uncleaned().map(|marked| marked.last_hider);
        hiders.fold(self.last_deleter, Xid::younger)
    }

    /// Groups that count as live.
    pub fn live_groups(&self) -> usize {
        self.live().count()
    }

    fn live(&self) -> impl Iterator<Item = &JudgedEntry> {
        self.entries
            .iter()
            .filter(|e| e.has_stored_rows() && e.status.counts_as_live())
    }
}

impl MarkedGroup {
    fn look(
        store: &ColdStore,
        placed: PlacedEntry,
        oldest_xmin: Xid,
    ) -> Result<MarkedGroup, ColdError> {
        let status = row_status(store, &placed.entry, oldest_xmin)?;
        let cleaned = marks::cleaned(store, &placed.entry)?;
        let mut uncleaned = RowSet::with_bound(placed.entry.capacity_rows);
        for position in status.dead.iter().filter(|&p| !cleaned.contains(p)) {
            uncleaned.insert(position);
        }
        let recently_dead = status.recently_dead.iter();
        let recently_dead = recently_dead.filter(|&p| !status.dead.contains(p));
        Ok(MarkedGroup {
            placed,
            hidden_rows: status.dead.len() + recently_dead.count() as u32,
            uncleaned,
            last_hider: status.last_hider,
        })
    }

    fn is_uncleaned(&self, row: RowNumber) -> bool {
        let position = row.0 - self.placed.entry.first_row.0;
        position < u64::from(self.placed.entry.capacity_rows)
            && self.uncleaned.contains(position as u32)
    }
}

impl Gaps {
    /// The numbers below `high_water` that `entries`, ascending, do not cover.
    pub fn between<'a>(entries: impl Iterator<Item = &'a GroupEntry>, high_water: u64) -> Gaps {
        let mut ranges = Vec::new();
        let mut covered_to = 0;
        for entry in entries {
            let first = entry.first_row.0;
            if first > covered_to {
                ranges.push((covered_to, first.min(high_water)));
            }
            covered_to = covered_to.max(first + u64::from(entry.capacity_rows));
        }
        if covered_to < high_water {
            ranges.push((covered_to, high_water));
        }
        Gaps { ranges }
    }

    pub fn contain(&self, row: RowNumber) -> bool {
        let after = self.ranges.partition_point(|&(start, _)| start <= row.0);
        after > 0 && row.0 < self.ranges[after - 1].1
    }

    /// Row numbers in gaps.
    pub fn row_numbers(&self) -> u64 {
        self.ranges.iter().map(|(start, end)| end - start).sum()
    }

    fn fingerprint(&self) -> u64 {
        fingerprint_of(&self.ranges)
    }

    /// Row numbers in gaps that no VACUUM has cleaned yet.
    pub fn not_yet_cleaned(&self, store: &ColdStore) -> u64 {
        match read_note(store) {
            Some((_, note)) if note.fingerprint == self.fingerprint() => 0,
            Some((_, note)) => self.row_numbers().saturating_sub(note.row_numbers).max(1),
            None => self.row_numbers(),
        }
    }

    /// Notes that no index holds an entry for a number in these gaps.
    pub fn note_as_cleaned(&self, store: &ColdStore) {
        let note = CleanedGaps {
            row_numbers: self.row_numbers(),
            fingerprint: self.fingerprint(),
        };
        match read_note(store) {
            Some((_, known)) if known == note => {}
            Some((tid, _)) => store.update_in_place(tid, |payload| {
                // One of another length is no note, or one of a newer version: it is left alone.
                let record = note.encode();
                if payload.len() == record.len() {
                    payload.copy_from_slice(&record);
                }
            }),
            None => {
                let cid = FIRST_COMMAND;
                store.insert(CLEANED_ID, 0, &note.encode(), cid, Birth::Frozen, None);
            }
        }
    }
}

/// The note and its place; a damaged note counts as empty.
fn read_note(store: &ColdStore) -> Option<(Tid, CleanedGaps)> {
    let entry = store.find_entry(CLEANED_ID, 0, &mut |_| true)?;
    let empty = CleanedGaps {
        row_numbers: 0,
        fingerprint: 0,
    };
    let note = CleanedGaps::decode(&entry.payload).unwrap_or(empty);
    Some((entry.tid, note))
}

#[cfg(test)]
mod tests {
    use howdah_bridge::slot::Origin;

    use super::*;
    use crate::store::directory::{GroupFlags, GroupState};

    fn entry(first_block: u32, blocks: u32) -> GroupEntry {
        GroupEntry {
            state: GroupState::Stored,
            first_row: RowNumber(u64::from(first_block) * 256),
            capacity_rows: blocks * 256,
            row_count: blocks * 256,
            value_id: 0,
            first_block: 0,
            footer_bytes: 0,
            body_bytes: 0,
            origin: Origin::FROZEN,
            flags: GroupFlags::default(),
        }
    }

    #[test]
    fn gaps_are_the_numbers_below_the_mark_that_no_entry_covers() {
        // Some of the layouts have entries of the same range: an aborted reservation beside its
        // successor.
        let layouts: [&[(u32, u32)]; 6] = [
            &[],
            &[(0, 4)],
            &[(2, 1), (5, 2)],
            &[(0, 1), (1, 1), (4, 3)],
            &[(1, 4), (1, 2), (6, 1)],
            &[(0, 8), (2, 1)],
        ];
        for layout in layouts {
            for blocks_used in [0, 3, 7, 9] {
                let entries: Vec<GroupEntry> = layout
                    .iter()
                    .map(|&(at, blocks)| entry(at, blocks))
                    .collect();
                let high_water = blocks_used * 256;
                let below = |entry: &&GroupEntry| entry.first_row.0 < high_water;
                let gaps = Gaps::between(entries.iter().filter(below), high_water);
                let mut missing = 0;
                for row in (0..high_water + 512).map(RowNumber) {
                    let is_covered = entries.iter().any(|entry| entry.covers(row));
                    let is_gap = row.0 < high_water && !is_covered;
                    assert_eq!(
                        gaps.contain(row),
                        is_gap,
                        "{layout:?} to {high_water}: {row:?}"
                    );
                    missing += u64::from(is_gap);
                }
                assert_eq!(gaps.row_numbers(), missing, "{layout:?} to {high_water}");
            }
        }
    }

    #[test]
    fn other_gaps_have_another_fingerprint() {
        let of = |layout: &[(u32, u32)]| {
            let entries: Vec<GroupEntry> = layout.iter().map(|&(a, b)| entry(a, b)).collect();
            Gaps::between(entries.iter(), 8 * 256).fingerprint()
        };
        assert_ne!(
            of(&[(0, 1)]),
            of(&[(1, 1)]),
            "as many numbers, at another place"
        );
        assert_eq!(of(&[(0, 2)]), of(&[(0, 1), (1, 1)]), "the same numbers");
    }
}
