//! How many rows a transaction has locked or changed, in each group and in all.
//!
//! What a subtransaction has counted is discarded when it is rolled back, as its locks and marks
//! are, and counts as its parent's when it commits.

use howdah_bridge::Oid;
use howdah_bridge::tid::GroupId;
use howdah_bridge::xid::SubTransactionId;
use rustc_hash::FxHashMap;

/// A table and a group of it.
pub(super) type Group = (Oid, GroupId);

/// The transaction itself.
const TOP: SubTransactionId = 1;

/// Rows that were counted in a group.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    /// Rows that were locked or changed.
    rows: u32,
    /// Those whose locks are held.
    held: u32,
}

#[derive(Debug, Default)]
pub(super) struct CountedRows {
    /// Rows that were locked or changed, whether or not their locks are still held.
    by_group: FxHashMap<Group, u32>,
    /// Locks that are held.
    in_all: u32,
    /// What subtransactions have counted, ascending. It is part of the other counts.
    within: Vec<(SubTransactionId, FxHashMap<Group, Count>)>,
}

impl CountedRows {
    /// Whether a row of the group was ever to be locked.
    pub fn knows(&self, group: Group) -> bool {
        self.by_group.contains_key(&group)
    }

    /// A row of the group is to be locked: the rows of it, this one among them, and the locks held.
    pub fn next(&mut self, group: Group) -> (u32, u32) {
        (*self.by_group.entry(group).or_default() + 1, self.in_all)
    }

    /// The row was locked.
    pub fn add(&mut self, group: Group, subtransaction: SubTransactionId) {
        self.in_all += 1;
        *self.by_group.entry(group).or_default() += 1;
        if subtransaction != TOP {
            let count = self.of(subtransaction).entry(group).or_default();
            count.rows += 1;
            count.held += 1;
        }
    }

    /// A lock was given back; its row counts still.
    pub fn give_back(&mut self, group: Group) {
        self.in_all = self.in_all.saturating_sub(1);
        let mut counts = self.within.iter_mut().rev();
        let held = counts.find_map(|(_, groups)| groups.get_mut(&group).filter(|it| it.held > 0));
        if let Some(count) = held {
            count.held -= 1;
        }
    }

    pub fn holds_locks(&self) -> bool {
        self.in_all > 0
    }

    pub fn groups(&self) -> impl Iterator<Item = Group> {
        self.by_group.keys().copied()
    }

    pub fn subtransaction_commits(&mut self, child: SubTransactionId, parent: SubTransactionId) {
        let Some((_, groups)) = self.within.pop_if(|(id, _)| *id >= child) else {
            return;
        };
        if parent != TOP {
            let of_parent = self.of(parent);
            for (group, count) in groups {
                let sum = of_parent.entry(group).or_default();
                sum.rows += count.rows;
                sum.held += count.held;
            }
        }
    }

    pub fn subtransaction_aborts(&mut self, id: SubTransactionId) {
        while let Some((_, groups)) = self.within.pop_if(|(of, _)| *of >= id) {
            for (group, count) in groups {
                self.in_all = self.in_all.saturating_sub(count.held);
                if let Some(rows) = self.by_group.get_mut(&group) {
                    *rows = rows.saturating_sub(count.rows);
                }
            }
        }
    }

    /// Discards everything; the memory too, if it is that of more groups.
    pub fn clear(&mut self, most_groups: usize) {
        self.in_all = 0;
        self.within.clear();
        match self.by_group.len() > most_groups {
            true => self.by_group = FxHashMap::default(),
            false => self.by_group.clear(),
        }
    }

    /// What a subtransaction, the innermost one, has counted.
    fn of(&mut self, id: SubTransactionId) -> &mut FxHashMap<Group, Count> {
        if self.within.last().is_none_or(|(last, _)| *last != id) {
            self.within.push((id, FxHashMap::default()));
        }
        let last = self.within.len() - 1;
        &mut self.within[last].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(nth: u64) -> Group {
        (
            Oid::from(16_384),
            howdah_bridge::tid::GroupId::of_block(nth as u32 * 512),
        )
    }

    #[test]
    fn what_is_rolled_back_does_not_count() {
        let mut counted = CountedRows::default();
        counted.add(group(0), TOP);
        for _ in 0..5 {
            counted.add(group(0), 2);
            counted.add(group(1), 3);
        }
        counted.give_back(group(1));
        assert_eq!(counted.next(group(0)), (7, 10));
        assert_eq!(counted.next(group(1)), (6, 10));
        // The third is within the second.
        counted.subtransaction_commits(3, 2);
        assert_eq!(counted.next(group(1)), (6, 10));
        counted.add(group(1), 4);
        counted.subtransaction_aborts(4);
        assert_eq!(counted.next(group(1)), (6, 10));
        counted.subtransaction_aborts(2);
        assert_eq!(counted.next(group(0)), (2, 1));
        assert_eq!(counted.next(group(1)), (1, 1));
        assert!(counted.knows(group(1)), "its group may be locked still");
    }

    #[test]
    fn what_is_committed_counts_to_the_end() {
        let mut counted = CountedRows::default();
        for id in 2..100 {
            counted.add(group(0), id);
            counted.subtransaction_commits(id, TOP);
        }
        assert_eq!(counted.next(group(0)), (99, 98));
        assert!(counted.within.is_empty());
        counted.subtransaction_aborts(2);
        assert!(counted.holds_locks());
        counted.clear(0);
        assert!(!counted.holds_locks() && !counted.knows(group(0)));
    }
}
