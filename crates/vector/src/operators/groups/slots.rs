//! An open-addressing hash table of group numbers. Keys lie elsewhere.

/// An entry: a tag of the key, and its group plus one; 0 is an empty slot.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    tag: u64,
    group: u32,
}

/// Group numbers by tag. Groups with the same tag are told apart by the caller.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    used: usize,
    /// Every key goes to the same place, for tests.
    collide: bool,
}

const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

impl Slots {
    pub(super) fn new(collide: bool) -> Self {
        Self {
            collide,
            ..Self::default()
        }
    }

    /// Spreads tags, which may be plain integers.
    #[inline(always)]
    fn place(&self, tag: u64) -> usize {
        if self.collide {
            return 0;
        }
        let mixed = (tag ^ (tag >> 32)).wrapping_mul(MULTIPLIER);
        (mixed >> (64 - self.slots.len().trailing_zeros())) as usize
    }

    /// The group with this tag of which `is_same` is true, or `next`, which is entered, and whether it was.
    #[inline(always)]
    pub(super) fn find_or_insert(
        &mut self,
        tag: u64,
        next: u32,
        is_same: impl Fn(u32) -> bool,
    ) -> (u32, bool) {
        if self.used * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        let mut at = self.place(tag);
        loop {
            let slot = &mut self.slots[at & mask];
            if slot.group == 0 {
                *slot = Slot {
                    tag,
                    group: next + 1,
                };
                self.used += 1;
                return (next, true);
            }
            if slot.tag == tag && is_same(slot.group - 1) {
                return (slot.group - 1, false);
            }
            at += 1;
        }
    }

    #[cold]
    fn grow(&mut self) {
        let len = (self.slots.len() * 2).max(64);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); len]);
        for slot in old.into_iter().filter(|slot| slot.group != 0) {
            let mut at = self.place(slot.tag);
            while self.slots[at & (len - 1)].group != 0 {
                at += 1;
            }
            self.slots[at & (len - 1)] = slot;
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Slot>()
    }
}
