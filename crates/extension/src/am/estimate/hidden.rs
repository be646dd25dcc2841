//! What is hidden of each row group, counted so seldom that planning does not notice.
//!
//! Groups without marks and deletion vectors cost nothing, small ones are counted exactly each
//! time. Of the others some are counted at each planning, and what was found is used again for a
//! time in proportion to what it took to find: a session spends about one part in
//! `KEPT_PER_SPENT` of its time on this, more only if a table has hundreds of such groups. A group
//! that was not counted is taken to be like those that were. The size of the whole table is used
//! again for some milliseconds, until this backend has hidden some dozens of rows or the directory
//! changes, so that planning need not read the directory each time either; the rows that this
//! backend hides meanwhile are taken off ([`super::settled_sizes`]).
//!
//! What is remembered is this backend's own and only ever an estimate: nothing makes it void before
//! its time, a rollback neither.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::store::ColdStore;

use crate::bounded_cache::HashCache;
use crate::errors::ColdError;
use crate::store::directory::GroupEntry;
use crate::store::group_name::GroupName;
use crate::store::visibility;

/// Rows of a group whose marks are read each time, to find out whether any of them is left.
const SMALL_GROUP_ROWS: u32 = 128;
/// Larger groups that are counted in one planning.
const MOST_COUNTED: usize = 16;
/// For so many times the time that counting took, what was found is used again, but not for longer
/// than a second, which a table with many marked groups may reach.
const KEPT_PER_SPENT: u32 = 1_000;
const MOST_KEPT: Duration = Duration::from_secs(1);
/// Counting a group takes no longer than this; a backend that seems to have counted longer had to
/// wait for a processor.
const MOST_SPENT: Duration = Duration::from_micros(250);
/// Groups that are remembered.
const MOST_REMEMBERED: usize = 4_096;

#[derive(Clone, Copy)]
struct Counted {
    hidden: u32,
    until: Instant,
}

thread_local! {
    static COUNTED: RefCell<HashCache<GroupName, Counted>> =
        RefCell::new(HashCache::of_entries(MOST_REMEMBERED));
}

/// For so many times the time that finding it out took, the size of a table is used again, but not
/// for longer than this: for the next statements of a transaction, and of short transactions.
const SIZE_KEPT_PER_SPENT: u32 = 1_000;
const MOST_SIZE_KEPT: Duration = Duration::from_millis(50);

/// How long the size of a table may be used again that took so long to find out.
pub(super) fn kept_after(spent: Duration) -> Duration {
    spent
        .saturating_mul(SIZE_KEPT_PER_SPENT)
        .min(MOST_SIZE_KEPT)
}

/// Whether none of these groups is one whose marks are read each time.
pub(super) fn may_be_kept(entries: &[&GroupEntry]) -> bool {
    let is_small = |entry: &&GroupEntry| entry.row_count <= SMALL_GROUP_ROWS;
    !entries
        .iter()
        .any(|entry| is_small(entry) && !entry.flags.are_clear())
}

/// How many rows of each group the snapshot does not see, about; all of them only if that is
/// certain. `snapshot` is an MVCC one.
pub(super) fn counts(
    store: &ColdStore,
    entries: &[&GroupEntry],
    snapshot: Snapshot<'_>,
) -> Vec<u32> {
    let known = |entry: &&GroupEntry| known(store, entry, snapshot);
    let mut counts: Vec<Option<u32>> = entries.iter().map(known).collect();
    let open: Vec<usize> = (0..counts.len()).filter(|&i| counts[i].is_none()).collect();
    if !open.is_empty() {
        // From all parts of the table.
        let count = open.len().min(MOST_COUNTED);
        let marked = entries.iter().filter(|entry| !entry.flags.are_clear());
        let kept_per_spent = KEPT_PER_SPENT * marked.count() as u32;
        for i in (0..count).map(|nth| open[nth * open.len() / count]) {
            counts[i] = Some(count_anew(store, entries[i], snapshot, kept_per_spent));
        }
    }
    let (mut rows, mut hidden) = (0, 0);
    for (entry, count) in entries.iter().zip(&counts) {
        if let (false, Some(count)) = (entry.flags.are_clear(), count) {
            rows += u64::from(entry.row_count);
            hidden += u64::from(*count);
        }
    }
    let share = hidden as f64 / rows.max(1) as f64;
    let guess = |entry: &GroupEntry| {
        let guess = (f64::from(entry.row_count) * share) as u32;
        guess.min(entry.row_count.saturating_sub(1))
    };
    entries
        .iter()
        .zip(counts)
        .map(|(entry, count)| {
            count
                .or_else(|| recall(store, entry).map(|counted| counted.hidden))
                .unwrap_or_else(|| guess(entry))
        })
        .collect()
}

/// What is known of a group, or soon found out. Planning raises no error for a damaged record: a
/// reader of the group raises it.
fn known(store: &ColdStore, entry: &GroupEntry, snapshot: Snapshot<'_>) -> Option<u32> {
    if entry.flags.are_clear() {
        return Some(0);
    }
    if visibility::is_all_hidden(store, entry.group(), snapshot) {
        return Some(entry.row_count);
    }
    if entry.row_count <= SMALL_GROUP_ROWS {
        let hidden = visibility::hidden_rows(store, entry, snapshot)
            .ok()
            .flatten();
        return Some(hidden.map_or(0, |rows| rows.len().min(entry.row_count)));
    }
    let counted = recall(store, entry)?;
    (Instant::now() < counted.until).then_some(counted.hidden)
}

/// What was found when the group was counted last.
fn recall(store: &ColdStore, entry: &GroupEntry) -> Option<Counted> {
    let name = GroupName::of(store, entry);
    let counted = COUNTED.with_borrow_mut(|counted| counted.get(&name).copied())?;
    Some(Counted {
        hidden: counted.hidden.min(entry.row_count),
        ..counted
    })
}

fn count_anew(
    store: &ColdStore,
    entry: &GroupEntry,
    snapshot: Snapshot<'_>,
    kept_per_spent: u32,
) -> u32 {
    let began = Instant::now();
    let hidden: Result<u32, ColdError> = visibility::count_hidden(store, entry, snapshot);
    let hidden = hidden.unwrap_or(0);
    let now = Instant::now();
    let counted = Counted {
        hidden,
        until: now + kept_for(now - began, kept_per_spent),
    };
    COUNTED.with_borrow_mut(|all| all.insert(GroupName::of(store, entry), counted));
    hidden
}

/// How long the count of a group may be used again that took so long.
fn kept_for(spent: Duration, kept_per_spent: u32) -> Duration {
    let kept = spent.min(MOST_SPENT).saturating_mul(kept_per_spent);
    kept.min(MOST_KEPT)
}

#[cfg(test)]
mod tests {
    use howdah_bridge::slot::Origin;
    use howdah_bridge::tid::RowNumber;
    use howdah_records::{GroupFlags, GroupState};

    use super::*;

    fn entry(row_count: u32, flags: GroupFlags) -> GroupEntry {
        GroupEntry {
            state: GroupState::Stored,
            first_row: RowNumber(0),
            capacity_rows: 131_072,
            row_count,
            value_id: 20_000,
            first_block: 0,
            footer_bytes: 90,
            body_bytes: 1 << 20,
            origin: Origin::FROZEN,
            flags,
        }
    }

    #[test]
    fn a_size_is_kept_in_proportion_to_its_cost_but_not_for_long() {
        assert_eq!(
            kept_after(Duration::from_micros(7)),
            Duration::from_millis(7)
        );
        assert_eq!(kept_after(Duration::from_secs(1)), MOST_SIZE_KEPT);
        assert_eq!(kept_after(Duration::MAX), MOST_SIZE_KEPT);
    }

    #[test]
    fn waiting_for_a_processor_does_not_keep_a_count_longer() {
        let one_group = |micros| kept_for(Duration::from_micros(micros), KEPT_PER_SPENT);
        assert_eq!(one_group(40), Duration::from_millis(40));
        assert_eq!(one_group(20_000), Duration::from_millis(250));
        let many = kept_for(Duration::from_micros(40), 1_000 * KEPT_PER_SPENT);
        assert_eq!(many, MOST_KEPT);
    }

    #[test]
    fn only_small_groups_with_marks_are_read_each_time() {
        let marked = GroupFlags::ROW_MARKS;
        let large = entry(SMALL_GROUP_ROWS + 1, marked);
        let small = entry(SMALL_GROUP_ROWS, marked);
        let clear = entry(1, GroupFlags::default());
        assert!(may_be_kept(&[]));
        assert!(may_be_kept(&[&large, &clear]));
        assert!(!may_be_kept(&[&large, &small, &clear]));
    }
}
