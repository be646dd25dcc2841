//! What a backend keeps of row groups between reads of single rows: layouts, plans, decoded blocks.
//!
//! Groups are immutable and identified by (TOAST relation, its file, group, value id). So a cached
//! group is never stale, unless the file is truncated in place and the id is used again. The cache
//! is bounded by `howdah.cache_size`. When a new group makes it exceed the bound, the least
//! recently used groups are evicted, and an eighth more than necessary, so that ages are compared
//! only once in a while. The memory of the groups is counted as it grows.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use howdah_bridge::store::{ColdStore, StoreId};
use rustc_hash::FxHashMap;

use super::directory::GroupEntry;
use super::group_access::GroupAccess;
use crate::errors::ColdError;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct GroupName {
    store: StoreId,
    group: u32,
    value_id: u32,
}

#[derive(Default)]
struct GroupCache {
    /// With the time of last use.
    groups: FxHashMap<GroupName, (Rc<GroupAccess>, u64)>,
    clock: u64,
    /// The group that was used last: a reader of single rows mostly asks for it again.
    latest: Option<(GroupName, Rc<GroupAccess>)>,
}

thread_local! {
    static CACHE: RefCell<GroupCache> = RefCell::default();
    /// Of all groups in the cache.
    static CACHED_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// What is kept of a group.
#[derive(Default)]
pub(super) struct Memory {
    bytes: Cell<usize>,
    /// Whether its memory counts towards the cache.
    is_cached: Cell<bool>,
}

impl Memory {
    pub fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
        if self.is_cached.get() {
            CACHED_BYTES.set(CACHED_BYTES.get() + bytes);
        }
    }

    /// Notes that a part of the group has changed its size.
    pub fn replace(&self, before: usize, after: usize) {
        if before != after {
            self.bytes.set(self.bytes.get() + after - before);
            if self.is_cached.get() {
                CACHED_BYTES.set(CACHED_BYTES.get() + after - before);
            }
        }
    }

    fn join_cache(&self) {
        if !self.is_cached.replace(true) {
            CACHED_BYTES.set(CACHED_BYTES.get() + self.bytes.get());
        }
    }

    fn leave_cache(&self) {
        if self.is_cached.replace(false) {
            CACHED_BYTES.set(CACHED_BYTES.get() - self.bytes.get());
        }
    }
}

impl GroupName {
    fn of(file: StoreId, entry: &GroupEntry) -> GroupName {
        GroupName {
            store: file,
            group: entry.group(),
            value_id: entry.value_id,
        }
    }
}

/// Opens a group through the backend's cache.
pub fn cached(store: &ColdStore, entry: GroupEntry) -> Result<Rc<GroupAccess>, ColdError> {
    let name = GroupName::of(store.id(), &entry);
    if let Some(group) = CACHE.with_borrow_mut(|cache| cache.recall(name)) {
        return Ok(group);
    }
    let group = Rc::new(GroupAccess::open(store, &entry)?);
    group.memory().join_cache();
    CACHE.with_borrow_mut(|cache| cache.take_in(name, &group));
    Ok(group)
}

/// The group, if it is cached.
pub fn recall(file: StoreId, entry: &GroupEntry) -> Option<Rc<GroupAccess>> {
    CACHE.with_borrow_mut(|cache| cache.recall(GroupName::of(file, entry)))
}

/// To be called after rows were read: the kept data may have grown past the bound.
pub(super) fn trim() {
    if CACHED_BYTES.get() > crate::settings::cache_size_bytes() {
        CACHE.with_borrow_mut(|cache| cache.trim(crate::settings::cache_size_bytes()));
    }
}

/// Discards the groups of a file that is truncated in place. An id is not used again before all
/// others were.
pub(super) fn forget_file(file: StoreId) {
    CACHE.with_borrow_mut(|cache| cache.forget_file(file));
}

impl GroupCache {
    fn recall(&mut self, name: GroupName) -> Option<Rc<GroupAccess>> {
        if let Some((latest, group)) = &self.latest
            && *latest == name
        {
            return Some(Rc::clone(group));
        }
        self.clock += 1;
        let (group, used) = self.groups.get_mut(&name)?;
        *used = self.clock;
        self.latest = Some((name, Rc::clone(group)));
        Some(Rc::clone(group))
    }

    fn take_in(&mut self, name: GroupName, group: &Rc<GroupAccess>) {
        self.clock += 1;
        self.groups.insert(name, (Rc::clone(group), self.clock));
        self.latest = Some((name, Rc::clone(group)));
        self.trim(crate::settings::cache_size_bytes());
    }

    fn forget_file(&mut self, file: StoreId) {
        let is_kept = |name: &GroupName| name.store != file;
        self.latest.take_if(|(name, _)| !is_kept(name));
        self.groups.retain(|name, (group, _)| {
            if !is_kept(name) {
                group.memory().leave_cache();
            }
            is_kept(name)
        });
    }

    /// Evicts what was least recently used. Of the newest group, which is being read, it drops the
    /// blocks.
    fn trim(&mut self, limit_bytes: usize) {
        if CACHED_BYTES.get() <= limit_bytes {
            return;
        }
        let ages = self.groups.iter().map(|(name, (_, used))| (*used, *name));
        let mut by_age: Vec<(u64, GroupName)> = ages.collect();
        by_age.sort_unstable_by_key(|(used, _)| *used);
        let newest = by_age.pop();
        for (_, name) in by_age {
            if CACHED_BYTES.get() <= limit_bytes - limit_bytes / 8 {
                return;
            }
            if let Some((group, _)) = self.groups.remove(&name) {
                group.memory().leave_cache();
            }
        }
        if CACHED_BYTES.get() > limit_bytes
            && let Some((group, _)) = newest.and_then(|(_, name)| self.groups.get(&name))
        {
            group.drop_blocks();
        }
    }
}
