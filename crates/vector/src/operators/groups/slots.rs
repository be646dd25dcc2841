//! An open-addressing hash table of group numbers. Keys lie elsewhere.
//!
//! A table that grows large is split by hash into shards, which grow one by one. So no insertion
//! takes long, and a thread that is to stop notices it soon.

/// An entry: a tag of the key, and its group plus one; 0 is an empty slot.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slot {
    tag: u64,
    group: u32,
}

impl Slot {
    /// A slot as it would be in a table with this group, or without one.
    #[inline(always)]
    pub(super) fn of(tag: u64, group: Option<u32>) -> Self {
        let group = group.map_or(0, |group| group + 1);
        Self { tag, group }
    }

    /// The group, if it is one of this tag.
    #[inline(always)]
    pub(super) fn group_of(self, tag: u64) -> Option<u32> {
        (self.tag == tag && self.group != 0).then(|| self.group - 1)
    }
}

/// The slots of keys whose hash begins with the same bits.
#[derive(Debug, Default)]
struct Shard {
    slots: Vec<Slot>,
    used: usize,
}

/// Group numbers by tag. The caller distinguishes groups with the same tag.
#[derive(Debug)]
pub(super) struct Slots {
    /// One, or [`SHARDS`].
    shards: Vec<Shard>,
    /// The bits of tags and hashes that are used: all of them, except in tests.
    mask: u64,
}

const SHARD_BITS: u32 = 6;
const SHARDS: usize = 1 << SHARD_BITS;

/// A table of more slots is split.
const MOST_UNSPLIT: usize = 1 << 16;

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Spreads tags, which may be plain integers.
#[inline(always)]
pub(super) fn mixed(tag: u64) -> u64 {
    (tag ^ (tag >> 32)).wrapping_mul(MULTIPLIER)
}

impl Shard {
    fn with_len(len: usize) -> Self {
        Self {
            slots: vec![Slot::default(); len],
            used: 0,
        }
    }

    /// Where to look first: by the bits of the hash behind those that choose the shard.
    #[inline(always)]
    fn place(&self, mixed: u64) -> usize {
        mixed
            .unbounded_shl(SHARD_BITS)
            .unbounded_shr(64 - self.slots.len().trailing_zeros()) as usize
    }

    fn insert(&mut self, slot: Slot, mixed: u64) {
        let mask = self.slots.len() - 1;
        let mut at = self.place(mixed);
        while self.slots[at & mask].group != 0 {
            at += 1;
        }
        self.slots[at & mask] = slot;
        self.used += 1;
    }
}

impl Slots {
    /// `hash_bits`: how many bits of tags and hashes are used.
    pub(super) fn new(hash_bits: u32) -> Self {
        Self {
            shards: vec![Shard::default()],
            mask: u64::MAX.unbounded_shl(64 - hash_bits),
        }
    }

    /// What a tag that does not tell its key is shortened to.
    #[inline(always)]
    pub(super) fn shortened(&self, tag: u64) -> u64 {
        tag & self.mask
    }

    /// Makes room for this many groups, while there are none.
    pub(super) fn reserve(&mut self, group_count: usize) {
        let len = (group_count * 2 + 1).next_power_of_two().max(64);
        self.shards = match len > MOST_UNSPLIT {
            true => (0..SHARDS)
                .map(|_| Shard::with_len(len / SHARDS * 2))
                .collect(),
            false => vec![Shard::with_len(len)],
        };
    }

    #[inline(always)]
    fn mixed(&self, tag: u64) -> u64 {
        mixed(tag) & self.mask
    }

    #[inline(always)]
    fn shard(&self, mixed: u64) -> usize {
        (mixed >> (64 - SHARD_BITS)) as usize & (self.shards.len() - 1)
    }

    /// The shard of a hash, which has room for one more.
    #[inline(always)]
    fn room(&mut self, mixed: u64) -> usize {
        let at = self.shard(mixed);
        if self.shards[at].used * 2 < self.shards[at].slots.len() {
            return at;
        }
        self.grow(at);
        self.shard(mixed)
    }

    /// The group with this tag of which `is_same` is true, or `next`, which is entered, and whether
    /// it was.
    #[inline(always)]
    pub(super) fn find_or_insert(
        &mut self,
        tag: u64,
        next: u32,
        is_same: impl Fn(u32) -> bool,
    ) -> (u32, bool) {
        let mixed = self.mixed(tag);
        let at = self.room(mixed);
        let shard = &mut self.shards[at];
        let mask = shard.slots.len() - 1;
        let mut at = shard.place(mixed);
        loop {
            let slot = &mut shard.slots[at & mask];
            if slot.group == 0 {
                *slot = Slot {
                    tag,
                    group: next + 1,
                };
                shard.used += 1;
                return (next, true);
            }
            if slot.tag == tag && is_same(slot.group - 1) {
                return (slot.group - 1, false);
            }
            at += 1;
        }
    }

    /// The group with this tag of which `is_same` is true.
    #[inline(always)]
    pub(super) fn find(&self, tag: u64, is_same: impl Fn(u32) -> bool) -> Option<u32> {
        let mixed = self.mixed(tag);
        let shard = &self.shards[self.shard(mixed)];
        let mask = shard.slots.len().checked_sub(1)?;
        let mut at = shard.place(mixed);
        loop {
            let slot = shard.slots[at & mask];
            match slot.group_of(tag) {
                _ if slot.group == 0 => return None,
                Some(group) if is_same(group) => return Some(group),
                _ => at += 1,
            }
        }
    }

    /// The contents of the first slot of this tag: a tag, which may be another one, and a group
    /// plus one. If several tags are read before any result is tested, the memory accesses overlap;
    /// a branch on each result would prevent that.
    #[inline(always)]
    pub(super) fn glance(&self, tag: u64) -> Slot {
        let mixed = self.mixed(tag);
        let shard = &self.shards[self.shard(mixed)];
        let slot = shard.slots.get(shard.place(mixed));
        slot.copied().unwrap_or_default()
    }

    /// Splits the table, or doubles a shard. Of a split table one shard may get most of the groups,
    /// and must grow then while it gets them.
    #[cold]
    fn grow(&mut self, at: usize) {
        let len = (self.shards[at].slots.len() * 2).max(64);
        let old = std::mem::take(&mut self.shards[at]);
        if self.shards.len() == 1 && len > MOST_UNSPLIT {
            self.shards = (0..SHARDS)
                .map(|_| Shard::with_len(len / SHARDS * 2))
                .collect();
        } else {
            self.shards[at] = Shard::with_len(len);
        }
        for slot in old.slots.into_iter().filter(|slot| slot.group != 0) {
            let mixed = self.mixed(slot.tag);
            let at = self.room(mixed);
            self.shards[at].insert(slot, mixed);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let slots = self.shards.iter().map(|shard| shard.slots.capacity());
        slots.sum::<usize>() * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tag with a hash.
    fn tag_of(hash: u64) -> u64 {
        let inverse = (0..6).fold(MULTIPLIER, |inverse: u64, _| {
            inverse.wrapping_mul(2u64.wrapping_sub(MULTIPLIER.wrapping_mul(inverse)))
        });
        let folded = hash.wrapping_mul(inverse);
        folded ^ (folded >> 32)
    }

    #[test]
    fn tags_whose_hashes_lie_in_one_shard_are_found() {
        let mut slots = Slots::new(u64::BITS);
        // Enough for a split, each in a place of its own.
        let tags: Vec<u64> = (0..60_000).map(|at| tag_of(at << 42)).collect();
        assert_eq!(mixed(tags[77]), 77 << 42);
        for (group, &tag) in (0u32..).zip(&tags) {
            assert_eq!(slots.find_or_insert(tag, group, |_| true), (group, true));
        }
        assert_eq!(slots.shards.len(), SHARDS);
        for (group, &tag) in (0u32..).zip(&tags) {
            assert_eq!(slots.find(tag, |_| true), Some(group));
        }
    }

    #[test]
    fn tags_of_short_hashes_are_found() {
        for hash_bits in [0, 1, 5, 12] {
            let mut slots = Slots::new(hash_bits);
            for group in 0..3_000 {
                let found = slots.find_or_insert(u64::from(group) << 32, group, |_| true);
                assert_eq!(found, (group, true));
            }
            for group in 0..3_000 {
                let tag = u64::from(group) << 32;
                assert_eq!(slots.find(tag, |_| true), Some(group));
                assert_eq!(slots.find(tag + 1, |_| true), None);
            }
        }
    }
}
