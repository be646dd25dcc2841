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
    /// Every key goes to the same place, for tests.
    collide: bool,
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
    pub(super) fn new(collide: bool) -> Self {
        Self {
            shards: vec![Shard::default()],
            collide,
        }
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
        if self.collide { 0 } else { mixed(tag) }
    }

    #[inline(always)]
    fn shard(&self, mixed: u64) -> usize {
        (mixed >> (64 - SHARD_BITS)) as usize & (self.shards.len() - 1)
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
        let mut at = self.shard(mixed);
        if self.shards[at].used * 2 >= self.shards[at].slots.len() {
            self.grow(at);
            at = self.shard(mixed);
        }
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
            let at = self.shard(mixed);
            self.shards[at].insert(slot, mixed);
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let slots = self.shards.iter().map(|shard| shard.slots.capacity());
        slots.sum::<usize>() * size_of::<Slot>()
    }
}
