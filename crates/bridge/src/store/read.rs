//! Reading entries.

use std::cell::OnceCell;
use std::ops::{ControlFlow, RangeInclusive};

use pgrx::pg_sys;

use crate::shown_tuple::ShownTuple;
use crate::slot::Origin;
use crate::tid::Tid;

use super::ColdStore;
use super::lookup::{Found, find};
use super::page::{LockedPage, fields};

/// Tuples that are looked up in the index before their pages are read: at first, and at most.
const FIRST_BATCH_TUPLES: usize = 32;
const BATCH_TUPLES: usize = 4_096;

/// Decides whether an entry's tuple is wanted, mostly by visibility.
pub type Judge<'a> = dyn FnMut(ShownTuple<'_>) -> bool + 'a;

/// One tuple found by a scan of entries; the payload is a copy.
#[derive(Debug)]
pub struct Entry {
    pub seq: i32,
    pub tid: Tid,
    pub payload: Vec<u8>,
    /// The transaction that inserted it.
    pub origin: Origin,
}

/// What is found at a remembered place.
pub enum EntryAt {
    There(Entry),
    /// The judge does not accept it.
    Refused,
    /// Something else or nothing: VACUUM has removed it, or it is damaged. The index tells.
    Gone,
}

/// The contents of an index entry: a key, and the TID of its tuple.
pub(super) struct Keyed {
    pub tid: pg_sys::ItemPointerData,
    id: u32,
    seq: i32,
}

/// Scan keys without arguments: built once, since building them is a good part of a short scan.
struct ScanKeys;

impl ScanKeys {
    const COUNT: usize = 4;
    const SEQ_EQUAL: usize = 3;

    /// One for the id (equal); three for the seq (from, to and equal).
    fn made() -> [pg_sys::ScanKeyData; ScanKeys::COUNT] {
        thread_local! {
            static MADE: OnceCell<[pg_sys::ScanKeyData; ScanKeys::COUNT]> = const { OnceCell::new() };
        }
        MADE.with(|made| *made.get_or_init(ScanKeys::make))
    }

    fn make() -> [pg_sys::ScanKeyData; ScanKeys::COUNT] {
        let mut keys: [pg_sys::ScanKeyData; ScanKeys::COUNT] = Default::default();
        let kinds = [
            (1, pg_sys::BTEqualStrategyNumber, pg_sys::F_OIDEQ),
            (2, pg_sys::BTGreaterEqualStrategyNumber, pg_sys::F_INT4GE),
            (2, pg_sys::BTLessEqualStrategyNumber, pg_sys::F_INT4LE),
            (2, pg_sys::BTEqualStrategyNumber, pg_sys::F_INT4EQ),
        ];
        // SAFETY: built-in functions, looked up into memory that lives as long as the backend.
        unsafe {
            let old = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
            for (key, (column, strategy, function)) in keys.iter_mut().zip(kinds) {
                let (strategy, function) = (strategy as u16, pg_sys::Oid::from(function));
                pg_sys::ScanKeyInit(key, column, strategy, function, pg_sys::Datum::null());
            }
            pg_sys::MemoryContextSwitchTo(old);
        }
        keys
    }
}

/// An index scan over `(id, low..=high)` that ends itself.
pub(super) struct KeyScan {
    scan: pg_sys::IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
}

impl KeyScan {
    pub fn begin(store: &ColdStore, id: u32, seqs: RangeInclusive<i32>, backward: bool) -> KeyScan {
        let mut keys = ScanKeys::made();
        keys[0].sk_argument = pg_sys::Datum::from(id);
        let mut count = 2;
        if seqs.start() == seqs.end() {
            keys[1] = keys[ScanKeys::SEQ_EQUAL];
            keys[1].sk_argument = pg_sys::Datum::from(*seqs.start());
        } else {
            keys[1].sk_argument = pg_sys::Datum::from(*seqs.start());
            keys[2].sk_argument = pg_sys::Datum::from(*seqs.end());
            count = 3;
        }
        // SAFETY: the keys are copied by index_rescan; both relations are open. SnapshotAny is
        // a static of the server; index scans do not write to it.
        unsafe {
            let scan = pg_sys::index_beginscan(
                store.toast,
                store.valid_index(),
                &raw mut pg_sys::SnapshotAnyData,
                std::ptr::null_mut(),
                count,
                0,
            );
            // The keys as the index has them, to be compared with those of the tuple.
            (*scan).xs_want_itup = true;
            pg_sys::index_rescan(scan, keys.as_mut_ptr(), count, std::ptr::null_mut(), 0);
            let direction = if backward {
                pg_sys::ScanDirection::BackwardScanDirection
            } else {
                pg_sys::ScanDirection::ForwardScanDirection
            };
            KeyScan { scan, direction }
        }
    }

    pub fn next(&mut self) -> Option<Keyed> {
        // SAFETY: the scan is open; the returned pointers lie inside it. An entry of the index
        // is its header followed by an oid and an int4, neither of which can be NULL.
        unsafe {
            let tid = pg_sys::index_getnext_tid(self.scan, self.direction);
            if tid.is_null() {
                return None;
            }
            let key = (*self.scan)
                .xs_itup
                .cast::<u8>()
                .add(size_of::<pg_sys::IndexTupleData>());
            Some(Keyed {
                tid: *tid,
                id: key.cast::<u32>().read_unaligned(),
                seq: key.add(4).cast::<i32>().read_unaligned(),
            })
        }
    }
}

impl Drop for KeyScan {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: opened by `begin`, ended once.
            unsafe { pg_sys::index_endscan(self.scan) }
        }
    }
}

/// A tuple as [`ColdStore::visit`] passes it on, its page pinned and share-locked.
pub struct Visited<'a> {
    pub seq: i32,
    pub tuple: ShownTuple<'a>,
    pub payload: &'a [u8],
}

impl ColdStore<'_> {
    /// Calls `look` for every tuple `(id, seqs)`, whether dead or live, in the order of `seq`,
    /// until `look` breaks. Nothing is copied: `look` must be short and may not access other pages.
    pub fn visit(
        &self,
        id: u32,
        seqs: RangeInclusive<i32>,
        look: &mut dyn FnMut(Visited<'_>) -> ControlFlow<()>,
    ) {
        if seqs.start() == seqs.end() {
            // SAFETY: both relations are open.
            let found = unsafe { find(self.valid_index(), self.toast, (id, *seqs.start())) };
            match found {
                Found::Nothing => return,
                Found::Entries(entries) => {
                    for &tid in entries.tids() {
                        let seq = *seqs.start();
                        if self.show_pinned(&Keyed { tid, id, seq }, look).is_break() {
                            return;
                        }
                    }
                    return;
                }
                Found::Unsure => {}
            }
        }
        self.visit_wanted(id, seqs, &mut |_| true, look);
    }

    /// As [`ColdStore::visit`], but omits the tuples whose `seq` is not wanted; no page is read for
    /// them.
    pub fn visit_wanted(
        &self,
        id: u32,
        seqs: RangeInclusive<i32>,
        is_wanted: &mut dyn FnMut(i32) -> bool,
        look: &mut dyn FnMut(Visited<'_>) -> ControlFlow<()>,
    ) {
        let mut scan = KeyScan::begin(self, id, seqs, false);
        while let Some(keyed) = scan.next() {
            if !is_wanted(keyed.seq) {
                continue;
            }
            if self.show_pinned(&keyed, look).is_break() {
                return;
            }
        }
    }

    /// Calls `name` for every `seq` that the index has for an id, of tuples dead or live; for some
    /// more than once.
    pub fn for_each_key(&self, id: u32, seqs: RangeInclusive<i32>, name: &mut dyn FnMut(i32)) {
        let mut scan = KeyScan::begin(self, id, seqs, false);
        let mut count = 0_usize;
        while let Some(keyed) = scan.next() {
            name(keyed.seq);
            count += 1;
            if count.is_multiple_of(BATCH_TUPLES) {
                crate::check_for_interrupts!();
            }
        }
    }

    /// As [`ColdStore::visit`], in any order: tuples that lie on one page are passed one after the
    /// other, which is faster where there are many. Some may be passed twice.
    pub fn visit_by_page(
        &self,
        id: u32,
        seqs: RangeInclusive<i32>,
        look: &mut dyn FnMut(Visited<'_>),
    ) {
        self.visit_wanted_by_page(id, seqs, &mut |_| true, &mut |shown| {
            look(shown);
            ControlFlow::Continue(())
        });
    }

    /// As [`ColdStore::visit_by_page`], but omits the tuples whose `seq` is not wanted, and ends
    /// when `look` breaks.
    ///
    /// The index scan has moved on when a page is read, so VACUUM may have given a tuple's line
    /// pointer to another one. A tuple that does not have its key is looked up once more, by an
    /// index scan.
    pub fn visit_wanted_by_page(
        &self,
        id: u32,
        seqs: RangeInclusive<i32>,
        is_wanted: &mut dyn FnMut(i32) -> bool,
        look: &mut dyn FnMut(Visited<'_>) -> ControlFlow<()>,
    ) {
        let mut scan = KeyScan::begin(self, id, seqs, false);
        let mut batch: Vec<Keyed> = Vec::new();
        let mut replaced = Vec::new();
        let (mut more, mut most) = (true, FIRST_BATCH_TUPLES);
        // A scan that has ended would begin anew if it were called again.
        while more {
            batch.clear();
            while more && batch.len() < most {
                match scan.next() {
                    None => more = false,
                    Some(keyed) if is_wanted(keyed.seq) => batch.push(keyed),
                    Some(_) => {}
                }
            }
            most = (most * 2).min(BATCH_TUPLES);
            crate::check_for_interrupts!();
            batch.sort_by_key(|keyed| (crate::tid::block_of(&keyed.tid), keyed.tid.ip_posid));
            for on_page in
                batch.chunk_by(|a, b| crate::tid::block_of(&a.tid) == crate::tid::block_of(&b.tid))
            {
                let page = LockedPage::read(self.toast(), crate::tid::block_of(&on_page[0].tid));
                for keyed in on_page {
                    if !page.has_key(self.toast(), keyed.tid, (keyed.id, keyed.seq)) {
                        replaced.push((keyed.id, keyed.seq));
                    } else if (self.show(&page, keyed, &mut *look)).is_some_and(|it| it.is_break())
                    {
                        return;
                    }
                }
            }
            for (id, seq) in replaced.drain(..) {
                let mut ended = false;
                self.visit(id, seq..=seq, &mut |shown| {
                    let flow = look(shown);
                    ended = flow.is_break();
                    flow
                });
                if ended {
                    return;
                }
            }
        }
    }

    /// Raises an ERROR if an index entry leads to no line pointer where there was none, or one to a
    /// tuple of another key: what is stored there is not taken for what never was. No page is
    /// locked.
    ///
    /// The leaf of the entry is pinned, so VACUUM has not freed the pointer. But on a standby
    /// replay may have, if the entry was deleted by itself before, and may have put another tuple
    /// there since. So the index is asked once more.
    fn refuse_replaced(&self, met: &Keyed) {
        let mut scan = KeyScan::begin(self, met.id, met.seq..=met.seq, false);
        let place = |tid: &pg_sys::ItemPointerData| (crate::tid::block_of(tid), tid.ip_posid);
        let (block, offset) = place(&met.tid);
        while let Some(keyed) = scan.next() {
            if place(&keyed.tid) == (block, offset) && !self.has_key(&keyed) {
                crate::damage::raise(format!(
                    "{}: record {} of kind {} is missing at ({block},{offset}) in TOAST relation {}",
                    self.could_not_read(),
                    met.seq,
                    met.id,
                    self.toast().oid().to_u32()
                ));
            }
        }
    }

    fn has_key(&self, keyed: &Keyed) -> bool {
        let page = LockedPage::read(self.toast(), crate::tid::block_of(&keyed.tid));
        page.has_key(self.toast(), keyed.tid, (keyed.id, keyed.seq))
    }

    /// Shows the tuple that an index entry, whose leaf is pinned, leads to.
    fn show_pinned(
        &self,
        keyed: &Keyed,
        look: &mut dyn FnMut(Visited<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let page = LockedPage::read(self.toast(), crate::tid::block_of(&keyed.tid));
        if !page.has_key(self.toast(), keyed.tid, (keyed.id, keyed.seq)) {
            drop(page);
            self.refuse_replaced(keyed);
            return ControlFlow::Continue(());
        }
        let shown = self.show(&page, keyed, look);
        shown.unwrap_or(ControlFlow::Continue(()))
    }

    /// Passes the tuple that an index entry leads to, if it is not dead, to `look`. `page` is the
    /// page that it lies on, where it has the entry's key.
    fn show<R>(
        &self,
        page: &LockedPage,
        keyed: &Keyed,
        look: impl FnOnce(Visited<'_>) -> R,
    ) -> Option<R> {
        let mut tuple = page.tuple(self.toast(), keyed.tid)?;
        // SAFETY: pin and lock are held by `page`.
        let (_, _, payload) = unsafe { fields(&tuple) }?;
        Some(look(Visited {
            seq: keyed.seq,
            // SAFETY: pin and lock are held by `page` until the tuple was looked at.
            tuple: unsafe { ShownTuple::new(&mut tuple, page.buffer) },
            payload,
        }))
    }

    /// Reads the payload of the tuple at `tid`, if there is one, under its page's share lock.
    pub fn peek<R>(&self, tid: Tid, look: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let page = LockedPage::read(self.toast(), tid.block());
        let tuple = page.tuple(self.toast(), tid.raw())?;
        // SAFETY: pin and lock are held by `page`.
        let (_, _, payload) = unsafe { fields(&tuple) }?;
        Some(look(payload))
    }

    /// What is stored at `tid`, where `(id, seq)` was seen before.
    pub fn entry_at(&self, tid: Tid, id: u32, seq: i32, judge: &mut Judge<'_>) -> EntryAt {
        let page = LockedPage::read(self.toast(), tid.block());
        let Some(mut tuple) = page.tuple(self.toast(), tid.raw()) else {
            return EntryAt::Gone;
        };
        // SAFETY: pin and lock are held by `page`.
        let payload = match unsafe { fields(&tuple) } {
            Some((tuple_id, tuple_seq, payload)) if (tuple_id, tuple_seq) == (id, seq) => payload,
            _ => return EntryAt::Gone,
        };
        // SAFETY: pin and lock are held by `page` during the call.
        if !judge(unsafe { ShownTuple::new(&mut tuple, page.buffer) }) {
            return EntryAt::Refused;
        }
        EntryAt::There(Entry {
            seq,
            tid,
            payload: payload.to_vec(),
            // SAFETY: pin and lock are held by `page`.
            origin: unsafe { Origin::of(tuple.t_data) },
        })
    }

    /// Calls `found` for each entry `(id, seqs)` whose tuple the judge accepts, in the order of
    /// `seq` (descending if `backward`), until `found` breaks.
    ///
    /// An index entry keeps its tuple's line pointer from being reused, so a tuple whose key or
    /// length differs from the index entry is damaged: XX001. But see `refuse_replaced`.
    pub fn scan_entries(
        &self,
        id: u32,
        seqs: RangeInclusive<i32>,
        backward: bool,
        judge: &mut Judge<'_>,
        mut found: impl FnMut(Entry) -> ControlFlow<()>,
    ) {
        let mut scan = KeyScan::begin(self, id, seqs, backward);
        while let Some(keyed) = scan.next() {
            let (tid, seq) = (keyed.tid, keyed.seq);
            let entry = {
                let page = LockedPage::read(self.toast(), crate::tid::block_of(&tid));
                if !page.has_key(self.toast(), tid, (keyed.id, keyed.seq)) {
                    drop(page);
                    self.refuse_replaced(&keyed);
                    continue;
                }
                let Some(mut tuple) = page.tuple(self.toast(), tid) else {
                    continue;
                };
                // SAFETY: pin and lock are held by `page`.
                let Some((_, _, payload)) = (unsafe { fields(&tuple) }) else {
                    continue;
                };
                let payload = payload.to_vec();
                // SAFETY: pin and lock are held by `page` during the call.
                if !judge(unsafe { ShownTuple::new(&mut tuple, page.buffer) }) {
                    continue;
                }
                // SAFETY: pin and lock are held by `page`.
                let origin = unsafe { Origin::of(tuple.t_data) };
                Entry {
                    seq,
                    tid: Tid::from_raw(tid),
                    payload,
                    origin,
                }
            };
            if found(entry).is_break() {
                return;
            }
        }
    }

    /// The first entry with exactly this key that the judge accepts.
    pub fn find_entry(&self, id: u32, seq: i32, judge: &mut Judge<'_>) -> Option<Entry> {
        let mut result = None;
        self.scan_entries(id, seq..=seq, false, judge, |entry| {
            result = Some(entry);
            ControlFlow::Break(())
        });
        result
    }
}
