//! Open relations as guards.

use pgrx::pg_sys;

use crate::names;
use crate::table::Table;
use crate::table_counts;

/// Bytes of a page of any relation.
pub const PAGE_BYTES: u32 = pg_sys::BLCKSZ;

/// A relation opened with a lock; closed on drop, the lock kept to the end of the
/// transaction (PostgreSQL's habit for relations that were written).
pub struct OpenRelation {
    rel: pg_sys::Relation,
    release_lock: pg_sys::LOCKMODE,
}

impl OpenRelation {
    /// Opens a table, view or TOAST relation. Errors as `relation_open` does.
    pub fn open(oid: pg_sys::Oid, lockmode: u32) -> OpenRelation {
        // SAFETY: relation_open checks the OID and raises an ERROR for a bad one.
        let rel = unsafe { pg_sys::relation_open(oid, lockmode as pg_sys::LOCKMODE) };
        OpenRelation {
            rel,
            release_lock: pg_sys::NoLock as pg_sys::LOCKMODE,
        }
    }

    /// Opens a relation on which this backend holds a lock.
    pub fn open_locked(oid: pg_sys::Oid) -> OpenRelation {
        OpenRelation::open(oid, pg_sys::NoLock)
    }

    /// Opens a relation that may have been dropped meanwhile.
    pub fn try_open(oid: pg_sys::Oid, lockmode: u32) -> Option<OpenRelation> {
        // SAFETY: try_relation_open returns NULL for a relation that is gone.
        let rel = unsafe { pg_sys::try_relation_open(oid, lockmode as pg_sys::LOCKMODE) };
        // The guard is made only if there is a relation: a guard over NULL would crash when
        // dropped.
        (!rel.is_null()).then(|| OpenRelation {
            rel,
            release_lock: pg_sys::NoLock as pg_sys::LOCKMODE,
        })
    }

    /// Opens a relation that this transaction has locked; `None` if it has been dropped since.
    pub fn try_open_locked(oid: pg_sys::Oid) -> Option<OpenRelation> {
        OpenRelation::try_open(oid, pg_sys::NoLock)
    }

    /// The relation, as long as this guard holds it open.
    pub fn table(&self) -> Table<'_> {
        // SAFETY: opened by us, closed on drop.
        unsafe { Table::from_raw(self.rel) }
    }

    /// Releases the lock together with the relation on drop.
    pub fn releasing(mut self, lockmode: u32) -> OpenRelation {
        self.release_lock = lockmode as pg_sys::LOCKMODE;
        self
    }

    /// The relcache entry, valid as long as this guard.
    pub fn raw(&self) -> pg_sys::Relation {
        self.rel
    }
}

impl Drop for OpenRelation {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: `rel` was opened by us and is closed once.
            unsafe { pg_sys::relation_close(self.rel, self.release_lock) }
        }
    }
}

/// An attribute of a descriptor, by its number less one: `TupleDescAttr` of `access/tupdesc.h`,
/// which is inline there too.
///
/// # Safety
/// `desc` is a valid descriptor of more than `i` attributes, and outlives the result.
#[inline]
pub unsafe fn attribute<'a>(desc: pg_sys::TupleDesc, i: i32) -> &'a pg_sys::FormData_pg_attribute {
    // SAFETY: as for this function. The attributes follow an array of as many compact attributes.
    unsafe {
        let compact = (&raw const (*desc).compact_attrs).cast::<pg_sys::CompactAttribute>();
        let full = compact.add((*desc).natts as usize);
        &*full.cast::<pg_sys::FormData_pg_attribute>().add(i as usize)
    }
}

/// OID of a relation.
///
/// # Safety
/// `rel` is an open relation.
pub unsafe fn oid_of(rel: pg_sys::Relation) -> pg_sys::Oid {
    // SAFETY: the caller holds the relation open.
    unsafe { (*rel).rd_id }
}

/// Name of a relation, for messages.
///
/// # Safety
/// `rel` is an open relation.
pub unsafe fn name_of(rel: pg_sys::Relation) -> String {
    // SAFETY: the caller holds the relation open; relname is NUL-terminated.
    unsafe { names::shown((*(*rel).rd_rel).relname.data.as_ptr()) }
}

/// Counts rows that a scan has read, for `pg_stat_all_tables`.
///
/// # Safety
/// `rel` is an open relation.
pub unsafe fn count_rows_read(rel: pg_sys::Relation, rows: u64) {
    // SAFETY: the caller holds the relation open.
    unsafe {
        if let Some(counts) = statistics(rel) {
            counts.tuples_returned += rows as i64;
        }
    }
}

/// Counts rows that were fetched for an index, for `pg_stat_all_tables`.
///
/// # Safety
/// `rel` is an open relation.
pub unsafe fn count_rows_fetched(rel: pg_sys::Relation, rows: u64) {
    // SAFETY: the caller holds the relation open.
    unsafe {
        if let Some(counts) = statistics(rel) {
            counts.tuples_fetched += rows as i64;
        }
    }
}

/// Adds rows to the live rows that VACUUM has just reported for `pg_stat_all_tables`. The counts
/// that are still pending in this backend are part of VACUUM's count and are discarded.
///
/// # Safety
/// `rel` is an open relation.
pub unsafe fn add_to_reported_live_rows(rel: pg_sys::Relation, rows: u64) {
    // SAFETY: the caller holds the relation open.
    unsafe {
        if let Some(counts) = statistics(rel) {
            counts.delta_live_tuples = 0;
            table_counts::add((*rel).rd_id, rows as i64, 0);
        }
    }
}

/// The relation's pending counts; `None` if nothing is counted for it.
///
/// # Safety
/// The relation is open for longer than the result is used, and nothing else refers to its counts.
unsafe fn statistics<'a>(rel: pg_sys::Relation) -> Option<&'a mut pg_sys::PgStat_TableCounts> {
    // SAFETY: the caller holds the relation open; pgstat_assoc_relation fills `pgstat_info`.
    unsafe {
        if (*rel).pgstat_info.is_null() {
            if !(*rel).pgstat_enabled {
                return None;
            }
            pg_sys::pgstat_assoc_relation(rel);
        }
        Some(&mut (*(*rel).pgstat_info).counts)
    }
}

/// Blocks of the main fork.
///
/// # Safety
/// `rel` is an open relation with storage.
pub unsafe fn main_fork_blocks(rel: pg_sys::Relation) -> pg_sys::BlockNumber {
    // SAFETY: the caller holds the relation open.
    unsafe { pg_sys::RelationGetNumberOfBlocksInFork(rel, pg_sys::ForkNumber::MAIN_FORKNUM) }
}

/// Whether the main fork has the block. The remembered size of the file is good enough: a backend
/// that truncates a file locks its relation against all others, and sends them an invalidation
/// before it releases the lock.
///
/// # Safety
/// `rel` is an open and locked relation with storage.
pub unsafe fn has_block(rel: pg_sys::Relation, block: pg_sys::BlockNumber) -> bool {
    // SAFETY: the caller holds the relation open; the storage manager's entry, if there is one, is
    // pinned by it.
    unsafe {
        let file = (*rel).rd_smgr;
        if !file.is_null() {
            let known = (*file).smgr_cached_nblocks[pg_sys::ForkNumber::MAIN_FORKNUM as usize];
            if known != pg_sys::InvalidBlockNumber && block < known {
                return true;
            }
        }
        block < main_fork_blocks(rel)
    }
}

/// Adds one empty page to a table whose main fork is empty. ANALYZE samples nothing in a table
/// without pages, so a table with cold rows keeps one.
///
/// # Safety
/// `rel` is an open table with storage, locked for writing.
pub unsafe fn ensure_first_page(rel: pg_sys::Relation) {
    // SAFETY: the caller holds the relation open. The buffer comes back pinned and exclusively
    // locked; the page is initialized on a copy and logged whole. Two backends at the same time
    // add two pages, which does no harm.
    unsafe {
        if main_fork_blocks(rel) > 0 {
            return;
        }
        let target = pg_sys::BufferManagerRelation {
            rel,
            ..Default::default()
        };
        let buffer = pg_sys::ExtendBufferedRel(
            target,
            pg_sys::ForkNumber::MAIN_FORKNUM,
            std::ptr::null_mut(),
            pg_sys::ExtendBufferedFlags::EB_LOCK_FIRST,
        );
        let state = pg_sys::GenericXLogStart(rel);
        let whole = pg_sys::GENERIC_XLOG_FULL_IMAGE as i32;
        let page = pg_sys::GenericXLogRegisterBuffer(state, buffer, whole);
        pg_sys::PageInit(page, pg_sys::BLCKSZ as usize, 0);
        pg_sys::GenericXLogFinish(state);
        pg_sys::UnlockReleaseBuffer(buffer);
    }
}

/// The descriptor of a relation.
///
/// # Safety
/// `rel` is an open relation, and outlives the use of the descriptor.
pub unsafe fn descriptor(rel: pg_sys::Relation) -> pg_sys::TupleDesc {
    // SAFETY: as for this function.
    unsafe { (*rel).rd_att }
}

/// Bytes of the main fork and its maps.
pub fn hot_bytes(table: Table<'_>) -> u64 {
    use pg_sys::ForkNumber::{FSM_FORKNUM, MAIN_FORKNUM, VISIBILITYMAP_FORKNUM};
    // SAFETY: the relation is open; a fork that does not exist has no blocks.
    let blocks = |fork| unsafe {
        let smgr = pg_sys::RelationGetSmgr(table.raw());
        match pg_sys::smgrexists(smgr, fork) {
            true => pg_sys::smgrnblocks(smgr, fork),
            false => 0,
        }
    };
    let forks = [MAIN_FORKNUM, FSM_FORKNUM, VISIBILITYMAP_FORKNUM];
    forks
        .map(|fork| u64::from(blocks(fork)) * u64::from(PAGE_BYTES))
        .iter()
        .sum()
}

/// Raises an ERROR if a cursor or an outer statement still uses the table; the message contains
/// `command`.
pub fn check_not_in_use(table: Table<'_>, command: &std::ffi::CStr) {
    // SAFETY: the relation is open; the name is NUL-terminated.
    unsafe { pg_sys::CheckTableNotInUse(table.raw(), command.as_ptr()) }
}

/// Invalidates all plans for a table once the transaction commits.
pub fn forget_plans(table: Table<'_>) {
    // SAFETY: the relation is open.
    unsafe { pg_sys::CacheInvalidateRelcache(table.raw()) }
}

/// Invalidates this backend's plans for a table, as if the table had been altered.
pub fn forget_plans_here(table: Table<'_>) {
    // SAFETY: a message as another backend might have sent it; open relations are rebuilt in place.
    unsafe {
        let mut message = pg_sys::SharedInvalidationMessage {
            rc: pg_sys::SharedInvalRelcacheMsg {
                id: pg_sys::SHAREDINVALRELCACHE_ID as i8,
                dbId: pg_sys::MyDatabaseId,
                relId: table.oid(),
            },
        };
        pg_sys::LocalExecuteInvalidationMessage(&mut message);
    }
}
