//! Reading entries and the pieces of long values.

use std::cell::OnceCell;
use std::ops::{ControlFlow, RangeInclusive};

use pgrx::pg_sys;

use crate::ffi::quiet;
use crate::slot::Origin;

use super::lookup::{Found, find};
use super::{ColdStore, PAYLOAD_OFFSET, StoreError, VALUE_BYTES};

/// Tuples that are looked up in the index before their pages are read.
const BATCH_TUPLES: usize = 4_096;

/// Decides whether an entry's tuple is wanted; called with the buffer share-locked.
pub type Judge<'a> = dyn FnMut(pg_sys::HeapTuple, pg_sys::Buffer) -> bool + 'a;

/// One tuple found by a scan of entries; the payload is a copy.
#[derive(Debug)]
pub struct Entry {
    pub seq: i32,
    pub tid: pg_sys::ItemPointerData,
    pub payload: Vec<u8>,
    /// Who inserted it.
    pub origin: Origin,
}

/// What an index entry says: a key, and where its tuple is.
struct Keyed {
    tid: pg_sys::ItemPointerData,
    id: u32,
    seq: i32,
}

/// Scan keys without arguments: made once, since making them is a good part of a short scan.
struct ScanKeys;

impl ScanKeys {
    const COUNT: usize = 4;
    const SEQ_EQUAL: usize = 3;

    /// Of the id, equal; of the seq, from, to and equal.
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
struct KeyScan {
    scan: pg_sys::IndexScanDesc,
    direction: pg_sys::ScanDirection::Type,
}

impl KeyScan {
    fn begin(store: &ColdStore, id: u32, seqs: RangeInclusive<i32>, backward: bool) -> KeyScan {
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
            // The keys as the index has them, to be held against those of the tuple.
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

    fn next(&mut self) -> Option<Keyed> {
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

/// A pinned, share-locked page.
struct LockedPage {
    buffer: pg_sys::Buffer,
    page: pg_sys::Page,
}

impl LockedPage {
    fn read(rel: pg_sys::Relation, block: pg_sys::BlockNumber) -> LockedPage {
        // SAFETY: `rel` is open; a block past the end or a damaged page raises an ERROR before
        // anything is held.
        unsafe {
            let buffer = pg_sys::ReadBufferExtended(
                rel,
                pg_sys::ForkNumber::MAIN_FORKNUM,
                block,
                pg_sys::ReadBufferMode::RBM_NORMAL,
                std::ptr::null_mut(),
            );
            quiet::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            LockedPage {
                buffer,
                page: pg_sys::BufferGetPage(buffer),
            }
        }
    }

    /// The tuple at `offset`, if there is a normal one.
    fn tuple(
        &self,
        rel: pg_sys::Relation,
        tid: pg_sys::ItemPointerData,
    ) -> Option<pg_sys::HeapTupleData> {
        let offset = tid.ip_posid;
        // SAFETY: pin and share lock are held; the line pointer is checked before its item is
        // touched.
        unsafe {
            // What PageGetMaxOffsetNumber and PageGetItemId do, without a guard around each.
            let header = self.page.cast::<pg_sys::PageHeaderData>();
            let pointers = size_of::<pg_sys::PageHeaderData>()
                + usize::from(offset) * size_of::<pg_sys::ItemIdData>();
            if offset == 0 || pointers > usize::from((*header).pd_lower) {
                return None;
            }
            let item = (*header).pd_linp.as_ptr().add(usize::from(offset) - 1);
            if (*item).lp_flags() != pg_sys::LP_NORMAL {
                return None;
            }
            Some(pg_sys::HeapTupleData {
                t_len: (*item).lp_len(),
                t_self: tid,
                t_tableOid: (*rel).rd_id,
                t_data: self.page.cast::<u8>().add((*item).lp_off() as usize).cast(),
            })
        }
    }
}

impl LockedPage {
    /// Whether the tuple that an index entry leads to has its key, or is gone.
    fn has_key(&self, rel: pg_sys::Relation, keyed: &Keyed) -> bool {
        self.tuple(rel, keyed.tid).is_none_or(|tuple| {
            // SAFETY: pin and lock are held.
            let fields = unsafe { fields(&tuple) };
            fields.is_some_and(|(id, seq, _)| (id, seq) == (keyed.id, keyed.seq))
        })
    }
}

impl Drop for LockedPage {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: locked and pinned by `read`, released once.
            unsafe { quiet::UnlockReleaseBuffer(self.buffer) }
        }
    }
}

/// `(id, seq, payload)` of a TOAST tuple on a pinned page.
///
/// # Safety
/// The tuple lies on a page that stays pinned and locked while the slice is used.
unsafe fn fields<'a>(tuple: &pg_sys::HeapTupleData) -> Option<(u32, i32, &'a [u8])> {
    // SAFETY: t_len comes from a line pointer inside the page; everything is checked against it.
    unsafe {
        let hoff = (*tuple.t_data).t_hoff as usize;
        let len = tuple.t_len as usize;
        if len < hoff + PAYLOAD_OFFSET {
            return None;
        }
        let data = tuple.t_data.cast::<u8>().add(hoff);
        let id = data.cast::<u32>().read_unaligned();
        let seq = data.add(4).cast::<i32>().read_unaligned();
        let header = data.add(8).cast::<u32>().read_unaligned();
        let varlena_bytes = (header >> 2) as usize;
        if header & 3 != 0 || varlena_bytes < 4 || hoff + 8 + varlena_bytes > len {
            return None;
        }
        Some((
            id,
            seq,
            std::slice::from_raw_parts(data.add(PAYLOAD_OFFSET), varlena_bytes - 4),
        ))
    }
}

/// A tuple as [`ColdStore::visit`] shows it, its page pinned and share-locked.
pub struct Visited<'a> {
    pub seq: i32,
    pub tuple: pg_sys::HeapTuple,
    pub buffer: pg_sys::Buffer,
    /// Empty if the tuple is damaged.
    pub payload: &'a [u8],
}

impl ColdStore {
    /// Shows every tuple `(id, seqs)`, dead or alive, in the order of `seq`, until `look` breaks.
    /// Nothing is copied: `look` must be short and may not touch other pages.
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
                        let page = LockedPage::read(self.toast, crate::tid::block_of(&tid));
                        let keyed = Keyed { tid, id, seq };
                        if self
                            .show(&page, &keyed, &mut *look)
                            .is_some_and(|go_on| go_on.is_break())
                        {
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

    /// As [`ColdStore::visit`]; leaves out the tuples whose `seq` is not wanted, for which no page is read.
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
            let page = LockedPage::read(self.toast, crate::tid::block_of(&keyed.tid));
            if self
                .show(&page, &keyed, &mut *look)
                .is_some_and(|go_on| go_on.is_break())
            {
                return;
            }
        }
    }

    /// Names every `seq` that the index has of an id, of tuples dead or alive; some more than once.
    pub fn for_each_key(&self, id: u32, seqs: RangeInclusive<i32>, name: &mut dyn FnMut(i32)) {
        let mut scan = KeyScan::begin(self, id, seqs, false);
        let mut count = 0_usize;
        while let Some(keyed) = scan.next() {
            name(keyed.seq);
            count += 1;
            if count.is_multiple_of(BATCH_TUPLES) {
                pgrx::check_for_interrupts!();
            }
        }
    }

    /// As [`ColdStore::visit`], in any order: tuples that lie on one page are shown one after the other,
    /// which is faster where there are many. Some may be shown twice.
    ///
    /// The index scan has moved on when a page is read, so that VACUUM may have given a tuple's place
    /// to another one. A tuple without its key is looked up once more, the slow way.
    pub fn visit_by_page(
        &self,
        id: u32,
        seqs: RangeInclusive<i32>,
        look: &mut dyn FnMut(Visited<'_>),
    ) {
        let mut scan = KeyScan::begin(self, id, seqs, false);
        let mut batch: Vec<Keyed> = Vec::new();
        let mut replaced = Vec::new();
        let mut more = true;
        // A scan that has come to its end begins anew when it is asked again.
        while more {
            batch.clear();
            batch.extend(std::iter::from_fn(|| scan.next()).take(BATCH_TUPLES));
            more = batch.len() == BATCH_TUPLES;
            pgrx::check_for_interrupts!();
            batch.sort_by_key(|keyed| (crate::tid::block_of(&keyed.tid), keyed.tid.ip_posid));
            for on_page in
                batch.chunk_by(|a, b| crate::tid::block_of(&a.tid) == crate::tid::block_of(&b.tid))
            {
                let page = LockedPage::read(self.toast, crate::tid::block_of(&on_page[0].tid));
                for keyed in on_page {
                    if page.has_key(self.toast, keyed) {
                        self.show(&page, keyed, &mut *look);
                    } else {
                        replaced.push((keyed.id, keyed.seq));
                    }
                }
            }
            for (id, seq) in replaced.drain(..) {
                self.visit(id, seq..=seq, &mut |shown| {
                    look(shown);
                    ControlFlow::Continue(())
                });
            }
        }
    }

    /// Shows the tuple that an index entry leads to, if there is one. `page` is the one it lies on.
    fn show<R>(
        &self,
        page: &LockedPage,
        keyed: &Keyed,
        look: impl FnOnce(Visited<'_>) -> R,
    ) -> Option<R> {
        let mut tuple = page.tuple(self.toast, keyed.tid)?;
        // SAFETY: pin and lock are held by `page`.
        let payload = match unsafe { fields(&tuple) } {
            Some((id, seq, payload)) if (id, seq) == (keyed.id, keyed.seq) => payload,
            _ => &[],
        };
        Some(look(Visited {
            seq: keyed.seq,
            tuple: &mut tuple,
            buffer: page.buffer,
            payload,
        }))
    }

    /// Looks at the payload of the tuple at `tid`, if there is one, under its page's share lock.
    pub fn peek<R>(
        &self,
        tid: pg_sys::ItemPointerData,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let page = LockedPage::read(self.toast, crate::tid::block_of(&tid));
        let tuple = page.tuple(self.toast, tid)?;
        // SAFETY: pin and lock are held by `page`.
        let (_, _, payload) = unsafe { fields(&tuple) }?;
        Some(look(payload))
    }

    /// The entry at `tid`, if that is where `(id, seq)` is and the judge wants it.
    pub fn entry_at(
        &self,
        tid: pg_sys::ItemPointerData,
        id: u32,
        seq: i32,
        judge: &mut Judge<'_>,
    ) -> Option<Entry> {
        let page = LockedPage::read(self.toast, crate::tid::block_of(&tid));
        let mut tuple = page.tuple(self.toast, tid)?;
        // SAFETY: pin and lock are held by `page`.
        let (tuple_id, tuple_seq, payload) = unsafe { fields(&tuple) }?;
        if (tuple_id, tuple_seq) != (id, seq) || !judge(&mut tuple, page.buffer) {
            return None;
        }
        Some(Entry {
            seq,
            tid,
            payload: payload.to_vec(),
            // SAFETY: as above.
            origin: unsafe { Origin::of(tuple.t_data) },
        })
    }

    /// Calls `found` for each entry `(id, seqs)` whose tuple the judge wants, in the order of
    /// `seq` (descending if `backward`), until `found` breaks.
    ///
    /// An index entry keeps its tuple's place from being used again, so a tuple whose key or
    /// length is not what the index says is damaged. It is handed on without a payload, which no
    /// reader of entries takes for whole.
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
                let page = LockedPage::read(self.toast, crate::tid::block_of(&tid));
                let Some(mut tuple) = page.tuple(self.toast, tid) else {
                    continue;
                };
                // SAFETY: pin and lock are held by `page`.
                let payload = match unsafe { fields(&tuple) } {
                    Some((tuple_id, tuple_seq, payload))
                        if (tuple_id, tuple_seq) == (keyed.id, keyed.seq) =>
                    {
                        payload.to_vec()
                    }
                    _ => Vec::new(),
                };
                if !judge(&mut tuple, page.buffer) {
                    continue;
                }
                // SAFETY: as above.
                let origin = unsafe { Origin::of(tuple.t_data) };
                Entry {
                    seq,
                    tid,
                    payload,
                    origin,
                }
            };
            if found(entry).is_break() {
                return;
            }
        }
    }

    /// The first wanted entry with exactly this key.
    pub fn find_entry(&self, id: u32, seq: i32, judge: &mut Judge<'_>) -> Option<Entry> {
        let mut result = None;
        self.scan_entries(id, seq..=seq, false, judge, |entry| {
            result = Some(entry);
            ControlFlow::Break(())
        });
        result
    }

    /// Fills `out` with the bytes `[offset, offset + out.len())` of the long value `id`.
    ///
    /// # Errors
    /// A piece that is missing or of the wrong length.
    pub fn read_value(&self, id: u32, offset: u64, out: &mut [u8]) -> Result<(), StoreError> {
        let mut done = 0;
        let mut guess: Option<pg_sys::BlockNumber> = None;
        let blocks = if out.len() > VALUE_BYTES {
            // SAFETY: `toast` is open.
            unsafe { crate::relation::main_fork_blocks(self.toast) }
        } else {
            0
        };
        while done < out.len() {
            let at = offset + done as u64;
            let seq = i32::try_from(at / VALUE_BYTES as u64).unwrap_or(i32::MAX);
            let skip = (at % VALUE_BYTES as u64) as usize;
            let want = (VALUE_BYTES - skip).min(out.len() - done);
            let target = &mut out[done..done + want];
            let block = match guess {
                Some(block)
                    if block < blocks && self.copy_piece(block, 1, id, seq, skip, target)? =>
                {
                    block
                }
                _ => self.copy_piece_by_index(id, seq, skip, target)?,
            };
            guess = block.checked_add(1);
            done += want;
            if done % (64 * VALUE_BYTES) < VALUE_BYTES {
                pgrx::check_for_interrupts!();
            }
        }
        Ok(())
    }

    fn copy_piece_by_index(
        &self,
        id: u32,
        seq: i32,
        skip: usize,
        out: &mut [u8],
    ) -> Result<pg_sys::BlockNumber, StoreError> {
        let mut scan = KeyScan::begin(self, id, seq..=seq, false);
        while let Some(Keyed { tid, .. }) = scan.next() {
            let block = crate::tid::block_of(&tid);
            if self.copy_piece(block, tid.ip_posid, id, seq, skip, out)? {
                return Ok(block);
            }
        }
        Err(StoreError::MissingPiece {
            toast: self.identity().0,
            id,
            seq,
        })
    }

    /// Copies from the tuple at `(block, offset)` if it is the piece `(id, seq)`.
    fn copy_piece(
        &self,
        block: pg_sys::BlockNumber,
        offset: u16,
        id: u32,
        seq: i32,
        skip: usize,
        out: &mut [u8],
    ) -> Result<bool, StoreError> {
        let page = LockedPage::read(self.toast, block);
        let Some(tuple) = page.tuple(self.toast, crate::tid::tid_of(block, offset)) else {
            return Ok(false);
        };
        // SAFETY: pin and lock are held by `page`.
        let Some((tuple_id, tuple_seq, payload)) = (unsafe { fields(&tuple) }) else {
            return Ok(false);
        };
        if tuple_id != id || tuple_seq != seq {
            return Ok(false);
        }
        match payload.get(skip..skip + out.len()) {
            Some(bytes) => {
                out.copy_from_slice(bytes);
                Ok(true)
            }
            None => Err(StoreError::WrongLength {
                id,
                seq,
                actual_bytes: payload.len(),
                expected_bytes: skip + out.len(),
            }),
        }
    }
}
