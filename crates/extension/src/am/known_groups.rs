//! The row groups that one scan has used, under one snapshot.
//!
//! ```text
//!   row ──turn_to──▶ the group found last? ─▶ another known group?
//!       ─▶ none: the directory, then take_in
//! ```
//!
//! Under an MVCC snapshot, identified by its address and curcid, the directory does not change for
//! the scan: an entry that was seen covers its rows until the scan ends. For all groups but the
//! last one, only what takes little memory is kept.
//!
//! Bounded: at most [`MOST_GROUPS`] groups, all of which are forgotten at once, and [`MOST_SETS`]
//! sets of hidden rows. It is the scan's own and ends with it. No
//! [`BoundedCache`](crate::bounded_cache), which would count the age of a group for each row.

use std::ops::Range;
use std::rc::Rc;

use howdah_bridge::store::StoreId;
use howdah_bridge::tid::RowNumber;

use crate::store::directory::GroupEntry;
use crate::store::group_access::GroupAccess;
use crate::store::row_set::RowSet;
use crate::store::visibility::Hidden;

/// Identifies an MVCC snapshot: its address and curcid.
pub type Seen = (usize, u32);

/// A group that was found under a snapshot.
pub struct KnownGroup {
    pub entry: GroupEntry,
    /// Set only for the group that was found last: the others may leave the session's cache.
    pub open: Option<Rc<GroupAccess>>,
    /// The store's [id](ColdStore::id).
    pub file: StoreId,
    /// How many rows of the group were looked up; once they are many, `hidden` holds its hidden
    /// rows.
    pub asked: u32,
    pub hidden: Option<(RowSet, Hidden)>,
    /// What is known of some rows beside each other.
    pub among: Among,
}

/// Of some rows beside each other, which are hidden.
#[derive(Default)]
pub struct Among {
    /// The row that was asked about last, by itself or with others.
    asked: Option<u32>,
    positions: Range<u32>,
    /// Counted from the first of them.
    hidden: RowSet,
    by: Option<Hidden>,
}

/// Rows asked about that are so near to each other are asked about along with as many as the second
/// number says.
const NEAR_ROWS: u32 = 64;
const ROWS_AT_ONCE: u32 = 256;

impl Among {
    /// Notes that a row is asked about. If it is near the one before it: which rows are better
    /// asked about all at once, in the direction in which the two are, of a group of so many.
    pub fn ask(&mut self, position: u32, row_count: u32) -> Option<Range<u32>> {
        let before = self.asked.replace(position)?;
        if position.abs_diff(before) > NEAR_ROWS {
            return None;
        }
        let end = position.saturating_add(1);
        Some(match position >= before {
            true => {
                position
                    ..position
                        .saturating_add(ROWS_AT_ONCE)
                        .min(row_count.max(end))
            }
            false => end.saturating_sub(ROWS_AT_ONCE)..end,
        })
    }

    /// Notes what is hidden of some rows.
    pub fn note(&mut self, positions: Range<u32>, hidden: RowSet, by: Hidden) {
        // Whichever way the reader goes on, the next row asked about is near the end of what is
        // known.
        self.asked = match self.asked {
            Some(asked) if asked == positions.start => positions.end.checked_sub(1),
            _ => Some(positions.start),
        };
        (self.positions, self.hidden, self.by) = (positions, hidden, Some(by));
    }

    /// Whether a row is hidden, if that is known.
    fn hides(&self, position: u32) -> Option<Hidden> {
        let by = self.by?;
        if !self.positions.contains(&position) {
            return None;
        }
        match self.hidden.contains(position - self.positions.start) {
            true => Some(by),
            false => Some(Hidden::No),
        }
    }
}

impl KnownGroup {
    /// Whether a row of the group is hidden, if that is known.
    pub fn hides(&self, position: u32) -> Option<Hidden> {
        match &self.hidden {
            _ if self.entry.flags.are_clear() => Some(Hidden::No),
            Some((rows, by)) if rows.contains(position) => Some(*by),
            Some(_) => Some(Hidden::No),
            None => self.among.hides(position),
        }
    }
}

/// A scan that goes from one row to another that is so near probably goes on in that direction.
pub const STEP_ROWS: u64 = 16;
/// So many rows ahead are looked at for hidden ones then.
pub const ROWS_AHEAD: u32 = 64;

impl KnownGroup {
    /// Rows that are known not to be hidden: one that is not, and some that a scan that comes from
    /// the row `before` may fetch next.
    pub fn shown_ahead(&self, position: u32, before: RowNumber) -> Range<u32> {
        let end = self.entry.row_count;
        if self.entry.flags.are_clear() {
            return 0..end;
        }
        let row = self.entry.first_row.0 + u64::from(position);
        let next = position.saturating_add(1);
        if row.abs_diff(before.0) > STEP_ROWS {
            return position..next;
        }
        let is_shown = |at: &u32| self.hides(*at) == Some(Hidden::No);
        if row < before.0 {
            let ahead = (0..position).rev().take(ROWS_AHEAD as usize);
            return position - ahead.take_while(is_shown).count() as u32..next;
        }
        let ahead = (next..end).take(ROWS_AHEAD as usize);
        position..next + ahead.take_while(is_shown).count() as u32
    }
}

/// The groups that a scan has used, under one snapshot.
#[derive(Default)]
pub struct KnownGroups {
    /// Ascending by rows.
    groups: Vec<KnownGroup>,
    /// Which of them was found last, if there are any.
    at: usize,
    seen_by: Seen,
    /// How many of them hold their hidden rows, in up to 16 kB each.
    sets: usize,
    /// Rows among which the snapshot sees no group: index entries may lead to many of them, until
    /// VACUUM may remove what a merge has left.
    unseen: Range<u64>,
}

/// Groups of a scan that are remembered, and how many of them may hold their hidden rows.
const MOST_GROUPS: usize = 4_096;
const MOST_SETS: usize = 64;

impl KnownGroups {
    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.groups.clear();
        (self.at, self.sets) = (0, 0);
        self.unseen = 0..0;
    }

    /// Whether a row is known to be in no group that this snapshot sees.
    pub fn is_unseen(&self, row: RowNumber, seen_by: Seen) -> bool {
        self.seen_by == seen_by && self.unseen.contains(&row.0)
    }

    /// Notes rows that are in no group which this snapshot sees.
    pub fn note_unseen(&mut self, rows: Range<u64>, seen_by: Seen) {
        if self.seen_by != seen_by {
            self.clear();
            self.seen_by = seen_by;
        }
        self.unseen = rows;
    }

    /// The group that was found last, if this snapshot was asked for.
    pub fn found_last(&self, seen_by: Seen) -> Option<&KnownGroup> {
        self.groups.get(self.at).filter(|_| self.seen_by == seen_by)
    }

    /// The group that was found last.
    pub fn last(&mut self) -> Option<&mut KnownGroup> {
        self.groups.get_mut(self.at)
    }

    /// Stores the hidden rows of the group that was found last. If too many groups hold theirs, the
    /// others drop them.
    pub fn note_hidden(&mut self, rows: RowSet, by: Hidden) {
        if self.sets >= MOST_SETS {
            for known in &mut self.groups {
                (known.asked, known.hidden) = (0, None);
            }
            self.sets = 0;
        }
        if let Some(last) = self.last() {
            last.hidden = Some((rows, by));
            self.sets += 1;
        }
    }

    /// Makes the group that holds a row the last one, if it is known under this snapshot; returns
    /// the row's position in it.
    pub fn turn_to(&mut self, row: RowNumber, seen_by: Seen) -> Option<u32> {
        if self.seen_by != seen_by {
            return None;
        }
        if let Some(position) = self.groups.get(self.at)?.entry.position_of(row) {
            return Some(position);
        }
        let after = self
            .groups
            .partition_point(|known| known.entry.first_row.0 <= row.0);
        let at = after.checked_sub(1)?;
        let position = self.groups[at].entry.position_of(row)?;
        self.groups[self.at].open = None;
        self.at = at;
        Some(position)
    }

    /// Adds a group that [`turn_to`](Self::turn_to) has not found, and makes it the last one.
    pub fn take_in(&mut self, known: KnownGroup, seen_by: Seen) {
        if self.seen_by != seen_by || self.groups.len() >= MOST_GROUPS {
            self.clear();
            self.seen_by = seen_by;
        }
        if let Some(last) = self.last() {
            last.open = None;
        }
        let first = known.entry.first_row.0;
        self.at = self
            .groups
            .partition_point(|other| other.entry.first_row.0 < first);
        match self.groups.get_mut(self.at) {
            Some(other) if other.entry.first_row.0 == first => *other = known,
            _ => self.groups.insert(self.at, known),
        }
    }
}

#[cfg(test)]
mod tests {
    use howdah_bridge::Oid;
    use howdah_bridge::slot::Origin;

    use super::*;
    use crate::store::directory::{GroupFlags, GroupState};

    const SEEN: Seen = (4_096, 7);

    fn group(first_row: u64, row_count: u32) -> KnownGroup {
        KnownGroup {
            entry: GroupEntry {
                state: GroupState::Stored,
                first_row: RowNumber(first_row),
                capacity_rows: row_count.next_multiple_of(256),
                row_count,
                value_id: 20_000,
                first_block: 0,
                footer_bytes: 1,
                body_bytes: 1,
                origin: Origin::FROZEN,
                flags: GroupFlags::MOVED_ROWS,
            },
            open: None,
            file: StoreId {
                toast: Oid::from_u32(1),
                file: 1,
            },
            asked: 0,
            hidden: None,
            among: Among::default(),
        }
    }

    fn known() -> KnownGroups {
        let mut groups = KnownGroups::default();
        for (first, count) in [(512, 256), (0, 200), (2_048, 1_000)] {
            groups.take_in(group(first, count), SEEN);
        }
        groups
    }

    #[test]
    fn rows_of_all_groups_are_found_in_any_order() {
        let mut groups = known();
        for (row, position) in [
            (2_047 + 1_000, 999),
            (512, 0),
            (199, 199),
            (767, 255),
            (0, 0),
        ] {
            assert_eq!(
                groups.turn_to(RowNumber(row), SEEN),
                Some(position),
                "row {row}"
            );
            let entry = groups.last().map(|known| known.entry);
            assert_eq!(
                entry.and_then(|entry| entry.position_of(RowNumber(row))),
                Some(position)
            );
        }
    }

    #[test]
    fn rows_between_groups_and_of_other_snapshots_are_not_known() {
        let mut groups = known();
        for row in [200, 511, 768, 2_047, 3_048] {
            assert_eq!(groups.turn_to(RowNumber(row), SEEN), None, "row {row}");
        }
        assert_eq!(groups.turn_to(RowNumber(512), (4_096, 8)), None);
        groups.take_in(group(512, 256), (4_096, 8));
        assert_eq!(groups.turn_to(RowNumber(0), (4_096, 8)), None);
        assert_eq!(groups.turn_to(RowNumber(513), (4_096, 8)), Some(1));
    }

    #[test]
    fn rows_without_a_group_are_those_of_one_snapshot() {
        let mut groups = known();
        groups.note_unseen(768..2_048, SEEN);
        assert!(groups.is_unseen(RowNumber(768), SEEN) && groups.is_unseen(RowNumber(2_047), SEEN));
        assert!(
            !groups.is_unseen(RowNumber(767), SEEN) && !groups.is_unseen(RowNumber(2_048), SEEN)
        );
        assert!(!groups.is_unseen(RowNumber(768), (4_096, 8)));
        assert_eq!(
            groups.turn_to(RowNumber(512), SEEN),
            Some(0),
            "groups stay known"
        );
        groups.note_unseen(1_000..1_001, (4_096, 8));
        assert!(!groups.is_unseen(RowNumber(1_000), SEEN));
        assert_eq!(groups.turn_to(RowNumber(512), (4_096, 8)), None);
        groups.take_in(group(512, 256), SEEN);
        assert!(!groups.is_unseen(RowNumber(1_000), (4_096, 8)));
    }

    #[test]
    fn rows_beside_each_other_are_asked_about_together() {
        let mut group = group(0, 1_000);
        group.entry.flags = GroupFlags::ROW_MARKS;
        assert_eq!(group.among.ask(10, 1_000), None);
        assert_eq!(group.among.ask(700, 1_000), None, "far");
        assert_eq!(group.among.ask(690, 1_000), Some(435..691));
        assert_eq!(group.hides(690), None);
        let mut hidden = RowSet::with_bound(256);
        hidden.insert(255);
        group.among.note(435..691, hidden, Hidden::ForNow);
        assert_eq!(group.hides(690), Some(Hidden::ForNow));
        assert_eq!(group.hides(435), Some(Hidden::No));
        assert_eq!((group.hides(434), group.hides(691)), (None, None));
        // Going on.
        assert_eq!(group.among.ask(430, 1_000), Some(175..431));
        group
            .among
            .note(175..431, RowSet::with_bound(256), Hidden::No);
        assert_eq!(group.among.ask(900, 1_000), None);
        assert_eq!(group.among.ask(910, 1_000), Some(910..1_000));
        group
            .among
            .note(910..1_000, RowSet::with_bound(90), Hidden::No);
        assert_eq!(group.hides(999), Some(Hidden::No));
        assert_eq!(group.hides(175), None, "forgotten");
    }

    #[test]
    fn rows_ahead_are_shown_up_to_the_next_hidden_one() {
        let (far, below, above) = (RowNumber(0), RowNumber(499), RowNumber(501));
        let mut plain = group(0, 1_000);
        plain.entry.flags = GroupFlags::default();
        assert_eq!(plain.shown_ahead(700, far), 0..1_000);
        let mut marked = group(0, 1_000);
        marked.entry.flags = GroupFlags::ROW_MARKS;
        assert_eq!(marked.shown_ahead(500, below), 500..501, "nothing is known");
        let mut hidden = RowSet::with_bound(1_000);
        for at in [480, 510, 600] {
            hidden.insert(at);
        }
        marked.hidden = Some((hidden, Hidden::ForNow));
        assert_eq!(marked.shown_ahead(500, far), 500..501);
        assert_eq!(marked.shown_ahead(500, below), 500..510);
        assert_eq!(marked.shown_ahead(500, above), 481..501);
        let ahead = ROWS_AHEAD;
        assert_eq!(marked.shown_ahead(511, RowNumber(509)), 511..512 + ahead);
        assert_eq!(marked.shown_ahead(479, RowNumber(481)), 479 - ahead..480);
        assert_eq!(marked.shown_ahead(999, RowNumber(998)), 999..1_000);
        assert_eq!(marked.shown_ahead(0, RowNumber(1)), 0..1);
        marked.hidden = None;
        let mut hidden = RowSet::with_bound(100);
        hidden.insert(20);
        marked.among.note(490..590, hidden, Hidden::ForNow);
        assert_eq!(marked.shown_ahead(500, below), 500..510);
        assert_eq!(marked.shown_ahead(500, above), 490..501);
        let mut groups = KnownGroups::default();
        groups.take_in(marked, SEEN);
        assert!(groups.found_last(SEEN).is_some());
        assert!(groups.found_last((SEEN.0, SEEN.1 + 1)).is_none());
    }

    #[test]
    fn groups_that_know_what_is_hidden_of_them_are_bounded() {
        let mut groups = KnownGroups::default();
        for nth in 0..MOST_SETS as u64 {
            groups.take_in(group(nth * 256, 256), SEEN);
            groups.note_hidden(RowSet::default(), Hidden::No);
        }
        let sets = |groups: &KnownGroups| {
            let known = groups.groups.iter();
            known.filter(|known| known.hidden.is_some()).count()
        };
        assert_eq!(sets(&groups), MOST_SETS);
        groups.take_in(group(1 << 20, 256), SEEN);
        groups.note_hidden(RowSet::default(), Hidden::No);
        assert_eq!(sets(&groups), 1);
        assert_eq!(groups.turn_to(RowNumber(300), SEEN), Some(44));
    }
}
