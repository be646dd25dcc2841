//! What a backend remembers, bounded: one map for all rooms that remember something by a key.
//!
//! ```text
//!   insert ──▶ weight above the bound? ──▶ evict the least recently used, until an eighth is free
//!   get, nearest ──▶ used now
//! ```
//!
//! The bound is a number of entries, or of bytes that the entries say they take. An eighth more is
//! evicted than necessary, so that ages are compared only once in a while. The entry that was used
//! last is never evicted: it is in use.
//!
//! A cache knows nothing of what makes an entry void: its room checks that when it finds one.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::ops::RangeInclusive;

use rustc_hash::FxHashMap;

/// Entries that are found by their key.
pub type HashCache<K, V> = BoundedCache<K, V, FxHashMap<K, Slot<V>>>;
/// Entries that are found by their key, or as the nearest one below a key.
pub type OrderedCache<K, V> = BoundedCache<K, V, BTreeMap<K, Slot<V>>>;

/// A value with what eviction must know of it.
pub struct Slot<V> {
    value: V,
    weight: usize,
    /// The time of its last use.
    used: u64,
}

/// A map that a cache may be made of.
pub trait Slots<K, V> {
    fn slot(&mut self, key: &K) -> Option<&mut Slot<V>>;
    fn put(&mut self, key: K, slot: Slot<V>) -> Option<Slot<V>>;
    fn take(&mut self, key: &K) -> Option<Slot<V>>;
    fn all<'a>(&'a mut self) -> impl Iterator<Item = (&'a K, &'a mut Slot<V>)>
    where
        K: 'a,
        V: 'a;
    fn keep(&mut self, is_kept: impl FnMut(&K, &mut Slot<V>) -> bool);
}

/// The maps have these methods in common, but no trait.
macro_rules! slots_of {
    ($map:ty, $key:ident: $($bound:tt)+) => {
        impl<$key: $($bound)+, V> Slots<$key, V> for $map {
            fn slot(&mut self, key: &$key) -> Option<&mut Slot<V>> {
                self.get_mut(key)
            }

            fn put(&mut self, key: $key, slot: Slot<V>) -> Option<Slot<V>> {
                self.insert(key, slot)
            }

            fn take(&mut self, key: &$key) -> Option<Slot<V>> {
                self.remove(key)
            }

            fn all<'a>(&'a mut self) -> impl Iterator<Item = (&'a $key, &'a mut Slot<V>)>
            where
                $key: 'a,
                V: 'a,
            {
                self.iter_mut()
            }

            fn keep(&mut self, is_kept: impl FnMut(&$key, &mut Slot<V>) -> bool) {
                self.retain(is_kept);
            }
        }
    };
}

slots_of!(FxHashMap<K, Slot<V>>, K: Eq + Hash);
slots_of!(BTreeMap<K, Slot<V>>, K: Ord);

/// A map with a bound on the sum of its entries' weights.
pub struct BoundedCache<K, V, M> {
    slots: M,
    bound: usize,
    weigh: fn(&K, &V) -> usize,
    /// Of all entries, as of when each was weighed last.
    weight: usize,
    clock: u64,
}

impl<K, V, M: Default> BoundedCache<K, V, M> {
    /// A cache of at most so many entries.
    pub fn of_entries(bound: usize) -> BoundedCache<K, V, M> {
        BoundedCache::of_bytes(bound, |_, _| 1)
    }

    /// A cache of entries that take so many bytes together; `weigh` says how many one takes.
    pub fn of_bytes(bound: usize, weigh: fn(&K, &V) -> usize) -> BoundedCache<K, V, M> {
        BoundedCache {
            slots: M::default(),
            bound,
            weigh,
            weight: 0,
            clock: 0,
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.slots = M::default();
        self.weight = 0;
    }
}

impl<K: Clone, V, M: Slots<K, V>> BoundedCache<K, V, M> {
    /// The value of a key, which is used now.
    #[inline]
    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        let slot = self.slots.slot(key)?;
        self.clock += 1;
        slot.used = self.clock;
        Some(&mut slot.value)
    }

    /// Remembers a value in place of the key's present one. Others may be evicted for it.
    pub fn insert(&mut self, key: K, value: V) {
        self.clock += 1;
        let weight = (self.weigh)(&key, &value);
        let slot = Slot {
            value,
            weight,
            used: self.clock,
        };
        self.weight += weight;
        if let Some(old) = self.slots.put(key, slot) {
            self.weight -= old.weight;
        }
        self.evict();
    }

    /// Forgets a key.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let slot = self.slots.take(key)?;
        self.weight -= slot.weight;
        Some(slot.value)
    }

    /// Forgets the entries for which `is_kept` does not hold.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&K, &V) -> bool) {
        let weight = &mut self.weight;
        self.slots.keep(|key, slot| {
            let keep = is_kept(key, &slot.value);
            if !keep {
                *weight -= slot.weight;
            }
            keep
        });
    }

    /// The weight of all entries, as of when each was inserted or weighed last.
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Sets the bound, which a setting may have changed. Nothing is evicted yet.
    pub fn set_bound(&mut self, bound: usize) {
        self.bound = bound;
    }

    /// Weighs all entries anew, since they may have grown. If they are too heavy, `shrink` makes
    /// them lighter, the least recently used first, until an eighth is free; if that is not enough,
    /// entries are evicted in the same order, but not the newest one.
    pub fn reweigh(&mut self, mut shrink: impl FnMut(&mut V)) {
        self.weight = 0;
        for (key, slot) in self.slots.all() {
            slot.weight = (self.weigh)(key, &slot.value);
            self.weight += slot.weight;
        }
        if self.weight <= self.bound {
            return;
        }
        let by_age = self.by_age();
        for key in &by_age {
            if self.weight <= self.goal() {
                return;
            }
            if let Some(slot) = self.slots.slot(key) {
                shrink(&mut slot.value);
                self.weight -= slot.weight;
                slot.weight = (self.weigh)(key, &slot.value);
                self.weight += slot.weight;
            }
        }
        self.evict_until_goal(by_age);
    }

    /// Evicts the least recently used entries if the cache is too heavy, but not the newest one.
    fn evict(&mut self) {
        if self.weight > self.bound {
            let by_age = self.by_age();
            self.evict_until_goal(by_age);
        }
    }

    fn evict_until_goal(&mut self, mut by_age: Vec<K>) {
        by_age.pop();
        for key in by_age {
            if self.weight <= self.goal() {
                return;
            }
            self.remove(&key);
        }
    }

    /// The weight that is left by an eviction.
    fn goal(&self) -> usize {
        self.bound - self.bound / 8
    }

    /// All keys, the one that was used last at the end.
    fn by_age(&mut self) -> Vec<K> {
        let ages = self.slots.all().map(|(key, slot)| (slot.used, key.clone()));
        let mut by_age: Vec<(u64, K)> = ages.collect();
        by_age.sort_unstable_by_key(|(used, _)| *used);
        by_age.into_iter().map(|(_, key)| key).collect()
    }
}

impl<K: Ord, V> OrderedCache<K, V> {
    /// The entry with the greatest key among `keys`, which is used now.
    #[inline]
    pub fn nearest(&mut self, keys: RangeInclusive<K>) -> Option<(&K, &mut V)> {
        let (key, slot) = self.slots.range_mut(keys).next_back()?;
        self.clock += 1;
        slot.used = self.clock;
        Some((key, &mut slot.value))
    }
}

#[cfg(test)]
mod tests {
    use super::{HashCache, OrderedCache};

    fn keys(cache: &mut OrderedCache<u32, u32>, of: u32) -> Vec<u32> {
        let known = (0..of).filter(|key| cache.slots.contains_key(key));
        known.collect()
    }

    #[test]
    fn the_least_recently_used_go_until_an_eighth_is_free() {
        let mut cache = OrderedCache::of_entries(16);
        (0..16).for_each(|key| cache.insert(key, key * 10));
        assert_eq!(keys(&mut cache, 100), (0..16).collect::<Vec<_>>());
        assert_eq!(cache.get(&0), Some(&mut 0));
        assert_eq!(
            cache.nearest(0..=1).map(|(key, value)| (*key, *value)),
            Some((1, 10))
        );
        cache.insert(16, 160);
        // 17 entries, of which 14 may stay: 2, 3 and 4 are the oldest.
        let left: Vec<u32> = [0, 1].into_iter().chain(5..17).collect();
        assert_eq!(keys(&mut cache, 100), left);
        assert_eq!(cache.weight(), 14);
    }

    #[test]
    fn a_replaced_or_forgotten_entry_weighs_nothing() {
        let mut cache = HashCache::<u32, Vec<u8>>::of_bytes(1_000, |_, bytes| bytes.len());
        cache.insert(1, vec![0; 400]);
        cache.insert(1, vec![0; 300]);
        cache.insert(2, vec![0; 200]);
        assert_eq!(cache.weight(), 500);
        assert_eq!(cache.remove(&2).map(|bytes| bytes.len()), Some(200));
        assert_eq!((cache.remove(&2), cache.weight()), (None, 300));
        cache.insert(3, vec![0; 100]);
        cache.retain(|key, _| *key != 1);
        assert_eq!((cache.get(&1).cloned(), cache.weight()), (None, 100));
        cache.clear();
        assert_eq!((cache.get(&3).cloned(), cache.weight()), (None, 0));
    }

    #[test]
    fn entries_that_have_grown_are_weighed_anew() {
        let mut cache = HashCache::<u32, Vec<u8>>::of_bytes(800, |_, bytes| bytes.len());
        (0..4).for_each(|key| cache.insert(key, vec![0; 100]));
        if let Some(bytes) = cache.get(&1) {
            bytes.resize(600, 0);
        }
        assert_eq!(cache.weight(), 400, "not noticed yet");
        let mut asked = 0;
        cache.reweigh(|_| asked += 1);
        assert_eq!(asked, 4, "none became lighter");
        // 0 and 2 are the oldest of 900 bytes, of which 700 may stay.
        assert_eq!(cache.weight(), 700);
        assert!(cache.get(&0).is_none() && cache.get(&2).is_none());
        assert!(cache.get(&3).is_some());
    }

    #[test]
    fn entries_become_lighter_before_any_is_evicted() {
        let mut cache = HashCache::<u32, Vec<u8>>::of_bytes(800, |_, bytes| bytes.len());
        (0..4).for_each(|key| cache.insert(key, vec![0; 100]));
        for key in 0..4 {
            cache.get(&key).expect("an entry").resize(250, 0);
        }
        cache.reweigh(|bytes| bytes.truncate(100));
        // 1,000 bytes, of which 700 may stay: 0 and 1 give 150 each.
        let lengths = (0..4).map(|key| cache.get(&key).map_or(0, |bytes| bytes.len()));
        assert_eq!(lengths.collect::<Vec<_>>(), [100, 100, 250, 250]);
        assert_eq!(cache.weight(), 700);
        // Where all are as light as they can be, the oldest go; so that the next time is not soon.
        cache.set_bound(450);
        cache.reweigh(|bytes| bytes.truncate(100));
        assert_eq!(cache.weight(), 300);
        assert!(cache.get(&0).is_none() && cache.get(&1).is_some());
    }

    #[test]
    fn the_newest_entry_stays_even_if_it_is_too_large() {
        let mut cache = HashCache::<u32, Vec<u8>>::of_bytes(800, |_, bytes| bytes.len());
        cache.insert(1, vec![0; 100]);
        cache.insert(2, vec![0; 900]);
        assert!(cache.get(&1).is_none());
        cache.reweigh(|bytes| bytes.truncate(500));
        assert_eq!(cache.weight(), 500);
        cache.set_bound(400);
        cache.reweigh(|_| {});
        assert_eq!(cache.weight(), 500);
    }

    #[test]
    fn the_nearest_entry_is_the_greatest_in_the_range() {
        let mut cache = OrderedCache::of_entries(8);
        for key in [(1, 5), (1, 9), (2, 3)] {
            cache.insert(key, ());
        }
        let mut nearest = |file, block| {
            let found = cache.nearest((file, 0)..=(file, block));
            found.map(|(key, ())| *key)
        };
        assert_eq!(nearest(1, 8), Some((1, 5)));
        assert_eq!(nearest(1, 100), Some((1, 9)));
        assert_eq!(nearest(1, 4), None);
        assert_eq!(nearest(2, 2), None, "of another file");
    }
}
