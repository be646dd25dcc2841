//! What compaction keeps in shared memory.
//!
//! ```text
//!   samples     (time, end of WAL): how old a page's last change is ([`wal_samples`])
//!   failures    tables whose compaction failed, and until when they are left alone
//!   progress    one slot per running compaction
//!   places      how far the survey of a large table has come
//! ```
//!
//! Locks: none, only atomics. Each field has one writer at a time: the launcher for samples, the
//! compacting process for its progress slot, the worker of the database for a failure or a place. A
//! reader that sees a part of an update acts a little early or late. If two tables share a place,
//! one of them loses it, and its survey starts from the beginning.
//!
//! [`wal_samples`]: super::wal_samples

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering};

use howdah_bridge::Oid;
use howdah_bridge::shared_memory::{Area, Shareable};
use howdah_bridge::xid::current_database;

use super::wal_samples::WalSamples;

const PROGRESS_SLOTS: usize = 64;
const FAILURES: usize = 64;
const PLACES: usize = 256;
/// For this long a table is left alone after its compaction failed. The pause doubles with each
/// further failure, up to the second constant.
const FIRST_FAILURE_PAUSE_MS: i64 = 60_000;
const LONGEST_FAILURE_PAUSE_MS: i64 = 3_600_000;

/// Progress of one compaction; free while `pid` is 0.
#[repr(C)]
pub struct ProgressSlot {
    pub pid: AtomicI32,
    pub database: AtomicU32,
    pub relation: AtomicU32,
    pub phase: AtomicU32,
    pub hot_blocks: AtomicU32,
    pub hot_blocks_done: AtomicU32,
    pub rows_moved: AtomicU64,
    pub groups_moved: AtomicU64,
    pub groups_merged: AtomicU64,
}

/// A table whose compaction failed; free while `table` is 0.
#[repr(C)]
struct Failure {
    /// The OIDs of database and table.
    table: AtomicU64,
    pause_ms: AtomicI64,
    until_ms: AtomicI64,
}

/// How far the survey of one large table has come.
#[repr(C)]
pub struct Place {
    /// The OIDs of database and table; 0: of none.
    table: AtomicU64,
    /// The next block of the scan of all-visible pages.
    pub visible_from: AtomicU32,
    /// The next block of the scan of every page.
    pub from: AtomicU32,
    /// Rows that the scan of every page has counted since the first block.
    pub rows: AtomicU64,
}

#[repr(C)]
pub struct Shared {
    /// Workers that are running.
    worker_count: AtomicU32,
    samples: WalSamples,
    progress: [ProgressSlot; PROGRESS_SLOTS],
    failures: [Failure; FAILURES],
    places: [Place; PLACES],
}

// SAFETY: consists of atomics.
unsafe impl Shareable for Shared {}

pub static SHARED: Area<Shared> = Area::new(c"howdah compaction");

fn shared() -> Option<&'static Shared> {
    SHARED.get()
}

/// Remembers the present end of WAL.
pub fn add_sample(at_ms: i64, lsn: u64) {
    if let Some(shared) = shared() {
        shared.samples.add(at_ms, lsn);
    }
}

/// The end of WAL at some time not after `before_ms`; `None` if none is remembered.
pub fn lsn_before(before_ms: i64) -> Option<u64> {
    shared()?.samples.lsn_before(before_ms)
}

/// All progress slots.
pub fn progress_slots() -> &'static [ProgressSlot] {
    shared().map_or(&[], |shared| &shared.progress)
}

fn failures() -> &'static [Failure] {
    shared().map_or(&[], |shared| &shared.failures)
}

/// Tells workers how many of them share the budget of I/O.
pub fn set_worker_count(count: usize) {
    if let Some(shared) = shared() {
        shared.worker_count.store(count as u32, Ordering::Relaxed);
    }
}

pub fn worker_count() -> u32 {
    shared().map_or(1, |shared| {
        shared.worker_count.load(Ordering::Relaxed).max(1)
    })
}

/// The place of a table of this database, at its start unless it was kept; `None` without shared
/// memory.
pub fn place(table: Oid) -> Option<&'static Place> {
    let name = name_of(table);
    let at = (name.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize % PLACES;
    let place = &shared()?.places[at];
    if place.table.swap(name, Ordering::Relaxed) != name {
        place.visible_from.store(0, Ordering::Relaxed);
        place.from.store(0, Ordering::Relaxed);
        place.rows.store(0, Ordering::Relaxed);
    }
    Some(place)
}

/// The name of a table of this database.
fn name_of(table: Oid) -> u64 {
    u64::from(current_database().to_u32()) << 32 | u64::from(table.to_u32())
}

fn failure_of(table: Oid) -> Option<&'static Failure> {
    let name = name_of(table);
    failures()
        .iter()
        .find(|f| f.table.load(Ordering::Relaxed) == name)
}

/// Whether background workers leave the table alone for now, because its compaction failed.
pub fn is_left_alone(table: Oid, now_ms: i64) -> bool {
    failure_of(table).is_some_and(|f| f.until_ms.load(Ordering::Relaxed) > now_ms)
}

/// Notes that the compaction of a table of this database failed. Returns for how long it is left
/// alone.
pub fn note_failure(table: Oid, now_ms: i64) -> i64 {
    let Some(failure) = failure_of(table).or_else(|| take_failure(table)) else {
        return 0;
    };
    let pause_ms = (failure.pause_ms.load(Ordering::Relaxed) * 2)
        .clamp(FIRST_FAILURE_PAUSE_MS, LONGEST_FAILURE_PAUSE_MS);
    failure.pause_ms.store(pause_ms, Ordering::Relaxed);
    failure.until_ms.store(now_ms + pause_ms, Ordering::Relaxed);
    pause_ms
}

/// Takes a free slot, or else the slot of the table whose pause ends first.
fn take_failure(table: Oid) -> Option<&'static Failure> {
    let failures = failures();
    let free = failures
        .iter()
        .find(|f| f.table.load(Ordering::Relaxed) == 0);
    let until = |f: &&Failure| f.until_ms.load(Ordering::Relaxed);
    let failure = free.or_else(|| failures.iter().min_by_key(until))?;
    failure.pause_ms.store(0, Ordering::Relaxed);
    failure.table.store(name_of(table), Ordering::Relaxed);
    Some(failure)
}

/// Notes that a table of this database can be compacted.
pub fn forget_failure(table: Oid) {
    if let Some(failure) = failure_of(table) {
        failure.until_ms.store(0, Ordering::Relaxed);
        failure.table.store(0, Ordering::Relaxed);
    }
}
