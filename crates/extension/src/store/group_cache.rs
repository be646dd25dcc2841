//! What a backend keeps of row groups between reads of single rows: layouts, plans, decoded blocks.
//!
//! Groups are immutable and identified by (TOAST relation, its file, group, value id). So a cached
//! group is never stale, unless the file is truncated in place and the id is used again. The cache
//! is a [`BoundedCache`](crate::bounded_cache) of `howdah.cache_size`. The memory of the groups is
//! counted as it grows, so that they are weighed anew only when the bound may be exceeded.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use howdah_bridge::store::{ColdStore, StoreId};

use super::directory::GroupEntry;
use super::group_access::GroupAccess;
use super::group_name::GroupValueName;
use crate::bounded_cache::HashCache;
use crate::errors::ColdError;
use crate::settings::cache_size_bytes;

struct GroupCache {
    groups: HashCache<GroupValueName, Rc<GroupAccess>>,
    /// The group that was used last: a reader of single rows mostly asks for it again.
    latest: Option<(GroupValueName, Rc<GroupAccess>)>,
}

thread_local! {
    static CACHE: RefCell<GroupCache> = RefCell::new(GroupCache::empty());
    /// What all groups weighed when the cache was weighed last, and what groups have grown by
    /// since. Growth of groups that have left the cache counts until then, too.
    static CACHED_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// The memory that a group holds.
#[derive(Default)]
pub(super) struct Memory {
    bytes: Cell<usize>,
}

impl Memory {
    /// Counts memory of a group that is being opened.
    pub fn add(&self, bytes: usize) {
        self.bytes.set(self.bytes.get() + bytes);
    }

    /// Notes that a part of the group has changed its size.
    pub fn replace(&self, before: usize, after: usize) {
        if before != after {
            self.bytes.set(self.bytes.get() + after - before);
            CACHED_BYTES.set((CACHED_BYTES.get() + after).saturating_sub(before));
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes.get()
    }
}

/// Opens a group through the backend's cache.
pub fn cached(store: &ColdStore, entry: GroupEntry) -> Result<Rc<GroupAccess>, ColdError> {
    let name = GroupValueName::of(store.id(), &entry);
    if let Some(group) = CACHE.with_borrow_mut(|cache| cache.recall(name)) {
        return Ok(group);
    }
    let group = Rc::new(GroupAccess::open(store, &entry)?);
    CACHE.with_borrow_mut(|cache| cache.take_in(name, &group));
    Ok(group)
}

/// The group, if it is cached.
pub fn recall(file: StoreId, entry: &GroupEntry) -> Option<Rc<GroupAccess>> {
    CACHE.with_borrow_mut(|cache| cache.recall(GroupValueName::of(file, entry)))
}

/// To be called after rows were read: the kept data may have grown past the bound.
pub(super) fn trim() {
    if CACHED_BYTES.get() > cache_size_bytes() {
        CACHE.with_borrow_mut(GroupCache::trim);
    }
}

/// Discards the groups of a file that is truncated in place. An id is not used again before all
/// others were.
pub(super) fn forget_file(file: StoreId) {
    CACHE.with_borrow_mut(|cache| cache.forget_file(file));
}

impl GroupCache {
    fn empty() -> GroupCache {
        let weigh = |_: &GroupValueName, group: &Rc<GroupAccess>| group.memory().bytes();
        GroupCache {
            groups: HashCache::of_bytes(cache_size_bytes(), weigh),
            latest: None,
        }
    }

    fn recall(&mut self, name: GroupValueName) -> Option<Rc<GroupAccess>> {
        if let Some((latest, group)) = &self.latest
            && *latest == name
        {
            return Some(Rc::clone(group));
        }
        let group = self.groups.get(&name)?;
        self.latest = Some((name, Rc::clone(group)));
        Some(Rc::clone(group))
    }

    fn take_in(&mut self, name: GroupValueName, group: &Rc<GroupAccess>) {
        self.groups.insert(name, Rc::clone(group));
        self.latest = Some((name, Rc::clone(group)));
        CACHED_BYTES.set(CACHED_BYTES.get() + group.memory().bytes());
        if CACHED_BYTES.get() > cache_size_bytes() {
            self.trim();
        }
    }

    fn forget_file(&mut self, file: StoreId) {
        let is_kept = |name: &GroupValueName| name.store != file;
        self.latest.take_if(|(name, _)| !is_kept(name));
        self.groups.retain(|name, _| is_kept(name));
        self.trim();
    }

    /// Weighs the groups. If they are too heavy, those that were used longest ago lose the blocks
    /// that they have decoded, which are soon decoded again; then groups are evicted, with which
    /// goes what is known to be sound of their bytes.
    fn trim(&mut self) {
        self.groups.set_bound(cache_size_bytes());
        self.groups.reweigh(|group| group.drop_blocks());
        CACHED_BYTES.set(self.groups.weight());
    }
}
