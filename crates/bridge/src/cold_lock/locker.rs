//! State of each backend that locks cold rows, which other backends read in shared memory.
//!
//! **Whether the backend will keep the lock.** A transaction that has locked a row reads the row's
//! marks under the lock, and releases the lock if the row has been changed. Other backends must not
//! wait for the whole transaction because of a lock that is held for microseconds. So the locker's
//! `tentative` word names the row for as long as it reads the marks, and a count in the same word
//! changes with every such check:
//!
//! ```text
//!   locker   word := (count + 1, row)   lock   check the row   [unlock]
//!            word := (count + 2, no row)
//!   other    read word   does the locker hold the lock?   read word again
//! ```
//!
//! If both reads return the same word and it does not name the row, the locker keeps the lock that
//! was seen: a check that began before would still be in the word, and a check that began or ended
//! in between has changed the count. The locks of the lock table order these accesses.
//!
//! **What to wait for.** A lock that was taken in a subtransaction is released if that
//! subtransaction rolls back. So the backend publishes the id of the innermost running
//! subtransaction that has locked rows (`newest`), if there is one. Whatever row lock a rollback
//! releases, it also ends this id, since the id belongs to that subtransaction or to one inside it.
//! The next id is published then, but not before the locks are gone. Hence a backend that reads an
//! id before it sees a lock knows that the lock is not released before that id has ended, unless
//! its subtransaction was released; in that case the backend waits for the whole transaction, as on
//! heap.
//!
//! The rows that the transaction itself has locked, outside of any subtransaction, are published as
//! well (`top`): as two bits under a hash of the row and the lock, set before `tentative` says that
//! the lock is kept, and cleared when the transaction ends. Not those that it changes: their marks
//! replace the locks at the end of the command at the latest. A backend that meets such a lock
//! while the command runs a subtransaction may wait for that one first, and then again. A backend
//! that waits for a lock that was published waits for the whole transaction, whatever
//! subtransaction is running by then. Where both bits were set for other rows, it waits for longer
//! than it should, which may even be a deadlock; with 1,000 rows locked that happens to three locks
//! in a thousand. A backend that hands locks on to a new version needs the exact id: it gets the id
//! of the subtransaction only if the lock can belong to no other one.
//!
//! **Rows that are being deleted.** A command that collects rows writes their marks later. Until
//! then a check of uniqueness finds no mark, and would take the rows to be there for good. So the
//! rows are published as well ([`Deleting`]), and such a check asks whether a holder of the row's
//! lock is deleting it, before it looks for a mark: either is there from the moment when the row is
//! collected.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use pgrx::pg_sys;

use super::RowLock;
use crate::ffi::quiet;
use crate::shared_memory::{PerBackend, Shareable};

/// One per backend.
pub static LOCKERS: PerBackend<Locker> = PerBackend::new(c"howdah lockers of cold rows");

/// Aligned so that no other data shares its cache lines.
#[repr(align(128))]
pub struct Locker {
    /// Count of checks and, in the lower half, the row that is being checked.
    tentative: AtomicU64,
    /// The local transaction id and, in the lower half, the newest id; 0 if that is the top one.
    newest: AtomicU64,
    /// Whether locks of subtransactions may belong to another one than the newest.
    is_mixed: AtomicBool,
    /// Rows that are being deleted, which have no mark yet.
    deleting: Deleting,
    /// Locks that were taken outside of subtransactions, as bits.
    top: [AtomicU64; TOP_WORDS],
}

/// Rows by their names. A reader that meets a change other than an addition takes any row to be
/// among them, and so does one if they are more than there is room for.
struct Deleting {
    /// Odd while they are changed.
    version: AtomicU32,
    count: AtomicU32,
    names: [AtomicU32; MOST_DELETING],
}

const MOST_DELETING: usize = 128;

const TOP_WORDS: usize = 1_024;
/// Words that are cleared one by one, rather than all.
const FEW_WORDS: usize = 64;

impl Deleting {
    /// Called by its own backend only, as is [`Deleting::add`].
    fn set(&self, rows: &mut dyn Iterator<Item = RowName>) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.count.store(0, Ordering::SeqCst);
        rows.for_each(|row| self.add(row));
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    fn add(&self, row: RowName) {
        let count = self.count.load(Ordering::Relaxed);
        if let Some(name) = self.names.get(count as usize) {
            name.store(row.0, Ordering::SeqCst);
        }
        self.count.store(count + 1, Ordering::SeqCst);
    }

    fn may_have(&self, row: RowName) -> bool {
        let version = self.version.load(Ordering::SeqCst);
        let count = self.count.load(Ordering::SeqCst) as usize;
        let mut names = self.names.iter().take(count);
        let is_among = names.any(|name| name.load(Ordering::SeqCst) == row.0);
        is_among
            || count > MOST_DELETING
            || version % 2 == 1
            || self.version.load(Ordering::SeqCst) != version
    }
}

// SAFETY: made of atomics; zeros are those of a backend that has locked nothing.
unsafe impl Shareable for Locker {}

/// The state of a locker as another backend has read it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    tentative: u64,
    newest: u64,
}

/// A hash of a row, never 0. If two rows have the same one, other backends check twice, no more.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct RowName(u32);

impl RowName {
    pub fn of(tag: &pg_sys::LOCKTAG) -> RowName {
        let parts = [
            tag.locktag_field1,
            tag.locktag_field2,
            tag.locktag_field3,
            u32::from(tag.locktag_field4),
        ];
        let mixed = parts.iter().fold(0u32, |mixed, part| {
            (mixed ^ part).wrapping_mul(0x9E37_79B1).rotate_left(15)
        });
        RowName(mixed.max(1))
    }

    /// Words and bits among [`Locker::top`].
    fn top_bits(self, lock: RowLock) -> [(usize, u64); 2] {
        let mixed = (u64::from(self.0) << 2 | lock as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        [mixed >> 48, mixed >> 32].map(|bit| ((bit >> 6) as usize % TOP_WORDS, 1 << (bit & 63)))
    }
}

impl Seen {
    pub fn looks_at(&self, row: RowName) -> bool {
        self.tentative as u32 == row.0
    }

    /// The id to wait for, if it is not that of the whole transaction.
    pub fn newest(&self, transaction: pg_sys::LocalTransactionId) -> Option<pg_sys::TransactionId> {
        let of_this_one = (self.newest >> 32) as u32 == transaction && self.newest as u32 != 0;
        of_this_one.then(|| pg_sys::TransactionId::from(self.newest as u32))
    }
}

impl Locker {
    fn seen(&self) -> Seen {
        Seen {
            tentative: self.tentative.load(Ordering::SeqCst),
            newest: self.newest.load(Ordering::SeqCst),
        }
    }

    /// Called by its own backend only.
    fn note_top(&self, row: RowName, lock: RowLock) {
        for (at, bit) in row.top_bits(lock) {
            let word = &self.top[at];
            let bits = word.load(Ordering::Relaxed);
            if bits == 0 {
                SET_WORDS.with_borrow_mut(|set| set.push(at as u16));
            }
            // Visible to every backend that sees that the lock is kept.
            word.store(bits | bit, Ordering::Release);
        }
    }

    /// Called by its own backend only, when it holds no row locks that it took outside of
    /// subtransactions, or when no other backend needs to know of them any more.
    fn forget(&self) {
        self.is_mixed.store(false, Ordering::SeqCst);
        if self.deleting.count.load(Ordering::Relaxed) > 0 {
            self.deleting.set(&mut std::iter::empty());
        }
        SET_WORDS.with_borrow_mut(|set| {
            if set.len() > FEW_WORDS {
                self.clear_top();
            }
            for at in set.drain(..) {
                self.top[usize::from(at)].store(0, Ordering::Relaxed);
            }
        });
    }

    fn clear_top(&self) {
        for word in &self.top {
            word.store(0, Ordering::Relaxed);
        }
    }

    fn may_be_top(&self, row: RowName, lock: RowLock) -> bool {
        let is_set = |(at, bit): (usize, u64)| self.top[at].load(Ordering::Acquire) & bit != 0;
        row.top_bits(lock).into_iter().all(is_set)
    }

    /// Called by its own backend only.
    fn set_tentative(&self, row: u32) {
        let count = self.tentative.load(Ordering::Relaxed) >> 32;
        let next = (count + 1) << 32 | u64::from(row);
        self.tentative.store(next, Ordering::SeqCst);
    }
}

/// Reads the state that a backend has published; the same value for all processes that are not
/// backends.
pub(super) fn seen(backend: pg_sys::ProcNumber) -> Seen {
    let nothing = Seen {
        tentative: 0,
        newest: 0,
    };
    LOCKERS.get(backend).map_or(nothing, Locker::seen)
}

/// Whether a backend may have taken a lock on the row that conflicts with `lock` outside of all
/// subtransactions. Must be called after the lock was seen.
pub(super) fn may_be_top(backend: pg_sys::ProcNumber, row: RowName, lock: RowLock) -> bool {
    let conflicting = RowLock::ALL
        .into_iter()
        .filter(|other| other.conflicts_with(lock));
    LOCKERS.get(backend).is_some_and(|locker| {
        conflicting
            .into_iter()
            .any(|other| locker.may_be_top(row, other))
    })
}

/// The subtransaction that a lock of this kind certainly belongs to. Must be called after the lock
/// was seen.
pub(super) fn subtransaction_of(
    holder: &pg_sys::VirtualTransactionId,
    row: RowName,
    lock: RowLock,
) -> Option<pg_sys::TransactionId> {
    let locker = LOCKERS.get(holder.procNumber)?;
    let before = locker.seen();
    let is_sure = !locker.may_be_top(row, lock) && !locker.is_mixed.load(Ordering::SeqCst);
    let newest = before.newest(holder.localTransactionId)?;
    (is_sure && locker.seen().newest == before.newest).then_some(newest)
}

thread_local! {
    /// Subtransactions under which rows were locked, outer ones first, and their ids.
    static IDS: RefCell<Vec<(pg_sys::SubTransactionId, pg_sys::TransactionId)>> = const { RefCell::new(Vec::new()) };
    /// Whether the newest id must be published once the locks of an aborted subtransaction are
    /// gone.
    static IS_STALE: Cell<bool> = const { Cell::new(false) };
    /// Whether this transaction has published a row, and whether this process has.
    static HAS_TOLD: Cell<bool> = const { Cell::new(false) };
    static HAS_EVER_TOLD: Cell<bool> = const { Cell::new(false) };
    /// Words of [`Locker::top`] that this transaction has set.
    static SET_WORDS: RefCell<Vec<u16>> = const { RefCell::new(Vec::new()) };
}

fn own_locker() -> Option<&'static Locker> {
    // SAFETY: plain read of a global.
    LOCKERS.get(unsafe { pg_sys::MyProcNumber })
}

fn is_in_subtransaction() -> bool {
    // SAFETY: a transaction is running.
    unsafe { quiet::GetCurrentTransactionNestLevel() > 1 }
}

/// Must be called before a row is locked: other backends do not wait for the lock until [`keep`] or
/// [`decided`] is called.
pub(super) fn look_at(row: RowName) {
    if let Some(locker) = own_locker() {
        if !HAS_TOLD.replace(true) && !HAS_EVER_TOLD.replace(true) {
            // A process that was terminated in the middle of a transaction has left its state here.
            locker.forget();
            locker.clear_top();
        }
        if is_in_subtransaction() {
            note_subtransaction();
        }
        locker.set_tentative(row.0);
    }
}

/// The last lock is kept to the end of the transaction, or of the subtransaction.
pub(super) fn keep(row: RowName, lock: RowLock) {
    if !is_in_subtransaction()
        && let Some(locker) = own_locker()
    {
        locker.note_top(row, lock);
    }
    decided();
}

/// A row whose lock is kept is deleted; its mark comes later, and then [`deleting`] without it.
pub(super) fn deletes(row: RowName) {
    if let Some(locker) = own_locker() {
        locker.deleting.add(row);
    }
}

/// These are the rows that are deleted and have no marks yet, and no others.
pub(super) fn deleting(rows: &mut dyn Iterator<Item = RowName>) {
    if let Some(locker) = own_locker() {
        locker.deleting.set(rows);
    }
}

/// Whether a backend is deleting a row that it has locked, as far as another one can tell.
pub(super) fn may_delete(backend: pg_sys::ProcNumber, row: RowName) -> bool {
    LOCKERS
        .get(backend)
        .is_some_and(|locker| locker.deleting.may_have(row))
}

/// The last lock is kept until the row is marked, or has been released.
pub fn decided() {
    set_tentative(0);
}

fn set_tentative(row: u32) {
    if let Some(locker) = own_locker() {
        locker.set_tentative(row);
    }
}

fn note_subtransaction() {
    // SAFETY: a transaction is running and may write.
    unsafe {
        let subtransaction = quiet::GetCurrentSubTransactionId();
        let known = IDS.with_borrow(|ids| ids.last().is_some_and(|last| last.0 == subtransaction));
        if !known {
            let id = pg_sys::GetCurrentTransactionId();
            let is_inner = IDS.with_borrow_mut(|ids| {
                ids.push((subtransaction, id));
                ids.len() > 1
            });
            if is_inner {
                mix();
            }
            publish_newest();
        }
    }
}

/// From now on a lock of a subtransaction may belong to another one than the newest.
fn mix() {
    if let Some(locker) = own_locker() {
        locker.is_mixed.store(true, Ordering::SeqCst);
    }
}

fn publish_newest() {
    IS_STALE.set(false);
    if let Some(locker) = own_locker() {
        let newest = IDS.with_borrow(|ids| ids.last().map_or(0, |last| last.1.into_inner()));
        // SAFETY: a backend has a process entry.
        let transaction = unsafe { (*pg_sys::MyProc).vxid.lxid };
        let told = u64::from(transaction) << 32 | u64::from(newest);
        locker.newest.store(told, Ordering::SeqCst);
    }
}

/// Call once, while the library loads.
pub fn register() {
    // SAFETY: called before any transaction runs.
    unsafe {
        pg_sys::RegisterResourceReleaseCallback(Some(at_resource_release), std::ptr::null_mut());
    }
}

/// Called for every resource owner that is released. Not guarded: it only reads and writes a few
/// atomics and cells.
///
/// # Safety
/// Called by the server while it releases a resource owner.
unsafe extern "C-unwind" fn at_resource_release(
    phase: pg_sys::ResourceReleasePhase::Type,
    _is_commit: bool,
    _is_top_level: bool,
    _arg: *mut std::ffi::c_void,
) {
    let locks_are_gone = phase == pg_sys::ResourceReleasePhase::RESOURCE_RELEASE_AFTER_LOCKS;
    if locks_are_gone && IS_STALE.get() {
        publish_newest();
    }
}

/// A subtransaction is being rolled back; its locks are still there.
pub fn subtransaction_aborts(subtransaction: pg_sys::SubTransactionId) {
    decided();
    if IDS.with_borrow_mut(|ids| drop_from(ids, subtransaction)) {
        IS_STALE.set(true);
    }
}

/// A subtransaction has committed, and its locks now belong to its parent. As on heap, other
/// backends wait for them as long as the transaction lasts, unless the parent has locked rows
/// itself.
pub fn subtransaction_commits(subtransaction: pg_sys::SubTransactionId) {
    if IDS.with_borrow_mut(|ids| drop_from(ids, subtransaction)) {
        mix();
        publish_newest();
    }
}

/// Drops the ids of a subtransaction and of those inside it; returns whether there were any.
fn drop_from(
    ids: &mut Vec<(pg_sys::SubTransactionId, pg_sys::TransactionId)>,
    subtransaction: pg_sys::SubTransactionId,
) -> bool {
    let outside = ids.partition_point(|(of, _)| *of < subtransaction);
    let any = outside < ids.len();
    ids.truncate(outside);
    any
}

/// The transaction is over.
pub fn transaction_ends() {
    decided();
    IS_STALE.set(false);
    let had_any = IDS.with_borrow_mut(|ids| {
        let had_any = !ids.is_empty();
        ids.clear();
        had_any
    });
    if had_any {
        publish_newest();
    }
    if HAS_TOLD.replace(false)
        && let Some(locker) = own_locker()
    {
        locker.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    use super::*;

    fn without_transaction() -> Locker {
        Locker {
            tentative: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            is_mixed: AtomicBool::new(false),
            deleting: nothing_deleted(),
            top: [const { AtomicU64::new(0) }; TOP_WORDS],
        }
    }

    fn nothing_deleted() -> Deleting {
        Deleting {
            version: AtomicU32::new(0),
            count: AtomicU32::new(0),
            names: [const { AtomicU32::new(0) }; MOST_DELETING],
        }
    }

    #[test]
    fn rows_that_are_deleted_are_told_until_they_are_marked() {
        let deleting = nothing_deleted();
        let row = RowName;
        deleting.add(row(5));
        deleting.add(row(6));
        assert_eq!(
            [4, 5, 6].map(|at| deleting.may_have(row(at))),
            [false, true, true]
        );
        deleting.set(&mut [row(6)].into_iter());
        assert_eq!(
            [4, 5, 6].map(|at| deleting.may_have(row(at))),
            [false, false, true]
        );
        deleting.version.fetch_add(1, Ordering::SeqCst);
        assert!(deleting.may_have(row(4)), "it is being changed");
        deleting.version.fetch_add(1, Ordering::SeqCst);
        let many = |count: u32| (1..=count).map(row);
        deleting.set(&mut many(MOST_DELETING as u32));
        assert!(!deleting.may_have(row(1_000)));
        deleting.set(&mut many(MOST_DELETING as u32 + 1));
        assert!(deleting.may_have(row(1_000)), "there was no room");
        deleting.set(&mut std::iter::empty());
        assert!(!deleting.may_have(row(1)));
    }

    fn tag(offset: u16) -> pg_sys::LOCKTAG {
        pg_sys::LOCKTAG {
            locktag_field1: 5,
            locktag_field2: 16_384,
            locktag_field3: 0x8000_0000,
            locktag_field4: offset,
            locktag_type: 0,
            locktag_lockmethodid: 1,
        }
    }

    fn id(number: u32) -> pg_sys::TransactionId {
        pg_sys::TransactionId::from(number)
    }

    #[test]
    fn a_rollback_drops_the_ids_of_all_that_is_inside() {
        let all = vec![(2, id(10)), (3, id(11)), (5, id(12))];
        let mut ids = all.clone();
        assert!(drop_from(&mut ids, 3));
        assert_eq!(ids, all[..1]);
        assert!(!drop_from(&mut ids, 3));
        assert!(drop_from(&mut ids, 1));
        assert!(ids.is_empty());
    }

    #[test]
    fn what_was_told_in_another_transaction_counts_for_nothing() {
        let seen = Seen {
            tentative: 7 << 32 | 99,
            newest: 4 << 32 | 812,
        };
        assert_eq!(seen.newest(4), Some(id(812)));
        assert_eq!(seen.newest(5), None);
        assert!(seen.looks_at(RowName(99)));
        assert!(!seen.looks_at(RowName(98)));
        let at_the_top = Seen {
            newest: 4 << 32,
            ..seen
        };
        assert_eq!(at_the_top.newest(4), None);
    }

    #[test]
    fn rows_locked_outside_of_subtransactions_are_told_by_lock() {
        let locker = without_transaction();
        let (row, other) = (RowName(7), RowName(8));
        locker.note_top(row, RowLock::KeyShare);
        assert!(locker.may_be_top(row, RowLock::KeyShare));
        assert!(!locker.may_be_top(row, RowLock::Update));
        assert!(!locker.may_be_top(other, RowLock::KeyShare));
        let set: u32 = locker
            .top
            .iter()
            .map(|word| word.load(Ordering::Relaxed).count_ones())
            .sum();
        assert_eq!(set, 2);
        for name in 1..=1_000 {
            locker.note_top(RowName::of(&tag(name)), RowLock::Share);
            assert!(locker.may_be_top(RowName::of(&tag(name)), RowLock::Share));
        }
        let mistaken = (1_001..=11_000)
            .filter(|name| locker.may_be_top(RowName::of(&tag(*name)), RowLock::Share));
        let mistaken = mistaken.count();
        assert!(mistaken < 50, "{mistaken} of 10000 after 1000 rows");
        locker.forget();
        assert!(!locker.may_be_top(row, RowLock::KeyShare));
        let is_clear = |word: &AtomicU64| word.load(Ordering::Relaxed) == 0;
        assert!(locker.top.iter().all(is_clear));
        locker.note_top(row, RowLock::KeyShare);
        locker.forget();
        assert!(locker.top.iter().all(is_clear));
    }

    #[test]
    fn locks_conflict_as_on_heap() {
        use RowLock::{KeyShare, NoKeyUpdate, Share, Update};
        let conflicts = [
            (KeyShare, Update),
            (Share, NoKeyUpdate),
            (Share, Update),
            (NoKeyUpdate, NoKeyUpdate),
            (NoKeyUpdate, Update),
            (Update, Update),
        ];
        for (at, a) in RowLock::ALL.into_iter().enumerate() {
            for b in RowLock::ALL.into_iter().skip(at) {
                assert_eq!(
                    a.conflicts_with(b),
                    conflicts.contains(&(a, b)),
                    "{a:?}, {b:?}"
                );
                assert_eq!(a.conflicts_with(b), b.conflicts_with(a));
            }
        }
    }

    /// The lock table is modelled by a mutex around whether the locker means to keep its lock,
    /// which other backends cannot see.
    #[test]
    fn a_lock_that_is_given_back_is_not_taken_for_one_that_is_kept() {
        const ROW: RowName = RowName(5);
        let locker = without_transaction();
        let lock: Mutex<Option<bool>> = Mutex::new(None);
        let is_over = AtomicBool::new(false);
        let (mut kept, mut looked_at, mut mistaken) = (0, 0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut i = 0u32;
                while !is_over.load(Ordering::SeqCst) {
                    i = i.wrapping_add(1);
                    let keeps = i.is_multiple_of(3);
                    let row = if i.is_multiple_of(7) { RowName(6) } else { ROW };
                    locker.set_tentative(row.0);
                    if row == ROW {
                        *lock.lock().unwrap() = Some(keeps);
                    }
                    if !keeps {
                        *lock.lock().unwrap() = None;
                    }
                    locker.set_tentative(0);
                    if keeps {
                        std::hint::spin_loop();
                        *lock.lock().unwrap() = None;
                    }
                }
            });
            let deadline = Instant::now() + Duration::from_secs(30);
            while (kept < 100 || looked_at < 100) && Instant::now() < deadline {
                let before = locker.seen();
                let held = *lock.lock().unwrap();
                let after = locker.seen();
                match held {
                    Some(keeps) if before == after && !after.looks_at(ROW) => {
                        kept += 1;
                        mistaken += i32::from(!keeps);
                    }
                    Some(_) => looked_at += 1,
                    None => {}
                }
            }
            is_over.store(true, Ordering::SeqCst);
        });
        assert_eq!(mistaken, 0);
        assert!(kept > 0 && looked_at > 0, "{kept}, {looked_at}");
    }
}
