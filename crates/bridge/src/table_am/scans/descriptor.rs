//! A scan that the access method has begun: heap's scan inside of our own descriptor.
//!
//! ```text
//!   server ──▶ Descriptor { base, heap ──▶ heap's own descriptor, side, …, kept ──▶ Kept }
//! ```
//!
//! Heap's descriptor is never copied or moved (its read stream points at it); the server sees the
//! outer one. What the access method remembers is dropped with the scan or, after an ERROR, with
//! the memory context that the scan lives in.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

use pgrx::{PgMemoryContexts, pg_sys};

use super::TableScans;
use super::bitmap::BitmapState;
use super::parallel::shared_counter;
use crate::ffi::quiet;
use crate::hot::scan::HotScan;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::tid::Tid;

/// Which side a scan is reading.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Hot,
    Cold,
    /// Behind the last hot row, if no cold row follows.
    End,
}

/// The scan descriptor; the server knows `base` only.
#[repr(C)]
pub(crate) struct Descriptor {
    pub(super) base: pg_sys::TableScanDescData,
    pub(super) heap: pg_sys::TableScanDesc,
    /// `None` before the first row.
    pub(super) side: Option<Side>,
    /// Whether the scan is known to see no cold row.
    pub(super) nothing_cold: bool,
    /// See [`OpenScan::follows`].
    pub(super) follows: bool,
    /// A [`Kept`], made when it is first needed: a scan of hot rows alone needs none.
    pub(super) kept: *mut c_void,
}

impl Descriptor {
    /// Heap's descriptor, with the current snapshot: the server may have exchanged it.
    ///
    /// # Safety
    /// The scan was begun and not ended.
    #[inline]
    pub(super) unsafe fn heap(scan: *mut Descriptor) -> pg_sys::TableScanDesc {
        // SAFETY: heap's descriptor lives as long as ours.
        unsafe {
            (*(*scan).heap).rs_snapshot = (*scan).base.rs_snapshot;
            (*scan).heap
        }
    }
}

/// Heap's scan inside of one that the access method has begun.
///
/// # Safety
/// `scan` was begun by the callback of [`super::set_scans`], and is open for `'a`.
pub(crate) unsafe fn inner_of<'a>(scan: pg_sys::TableScanDesc) -> HotScan<'a> {
    // SAFETY: as for this function.
    unsafe { HotScan::from_raw(Descriptor::heap(scan.cast())) }
}

/// The rows of cold blocks to which a bitmap scan leads next; `None` before the first one and of
/// other scans.
///
/// # Safety
/// `scan` was begun by the callback of [`super::set_scans`], and is open for `'a`; nothing uses it
/// as long as the result is used.
pub(crate) unsafe fn upcoming_rows<'a>(
    scan: pg_sys::TableScanDesc,
) -> Option<impl Iterator<Item = Tid> + 'a> {
    // SAFETY: as for this function. What is kept begins with the bitmap, whatever type keeps it.
    unsafe {
        let scan = scan.cast::<Descriptor>().as_ref()?;
        Some(scan.kept.cast::<BitmapState>().as_ref()?.upcoming())
    }
}

/// What a scan remembers between callbacks.
#[repr(C)]
struct Kept<'a, A: TableScans> {
    bitmap: BitmapState,
    own: A::State<'a>,
}

impl<A: TableScans> Default for Kept<'_, A> {
    fn default() -> Self {
        Kept {
            bitmap: BitmapState::default(),
            own: A::State::default(),
        }
    }
}

/// A scan of `A` that was begun, and is not ended during `'a`.
pub struct OpenScan<'a, A: TableScans> {
    raw: NonNull<Descriptor>,
    /// Neither longer nor shorter than `'a`, because the state may be given what lives so long.
    open: PhantomData<fn(&'a A) -> &'a A>,
}

impl<'a, A: TableScans> OpenScan<'a, A> {
    /// # Safety
    /// `scan` was begun by the callback of [`super::set_scans`] for `A`, and is open for `'a`;
    /// nothing else uses it as long as the result is used.
    #[inline]
    pub(super) unsafe fn from_raw(scan: pg_sys::TableScanDesc) -> Self {
        OpenScan {
            // SAFETY: an open scan is not NULL.
            raw: unsafe { NonNull::new_unchecked(scan.cast()) },
            open: PhantomData,
        }
    }

    #[inline]
    pub(super) fn raw(&self) -> *mut Descriptor {
        self.raw.as_ptr()
    }

    #[inline]
    pub(super) fn base(&self) -> &pg_sys::TableScanDescData {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { &(*self.raw()).base }
    }

    /// The table that is scanned.
    #[inline]
    pub fn table(&self) -> Table<'a> {
        // SAFETY: the server holds the relation open until the scan is ended.
        unsafe { Table::from_raw(self.base().rs_rd) }
    }

    /// What it sees. ANALYZE scans without a snapshot, and judges each row itself: the same as if
    /// it saw every row.
    #[inline]
    pub fn snapshot(&self) -> Snapshot<'a> {
        // SAFETY: the snapshot of a scan is valid until the scan is ended.
        let snapshot = unsafe { Snapshot::from_nullable(self.base().rs_snapshot) };
        snapshot.unwrap_or_else(Snapshot::any)
    }

    /// Which side it is reading; `None` before the first row.
    #[inline]
    pub fn side(&self) -> Option<Side> {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { (*self.raw()).side }
    }

    /// Moves to a side.
    #[inline]
    pub fn set_side(&mut self, side: Side) {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { (*self.raw()).side = Some(side) }
    }

    /// Has the next row be the first one.
    pub fn reset_side(&mut self) {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { (*self.raw()).side = None }
    }

    /// Whether the scan is known to see no cold row.
    pub fn sees_nothing_cold(&self) -> bool {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { (*self.raw()).nothing_cold }
    }

    /// Remembers whether the scan sees no cold row.
    pub fn note_nothing_cold(&mut self, nothing_cold: bool) {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { (*self.raw()).nothing_cold = nothing_cold }
    }

    /// Whether hot rows that the snapshot sees must be looked at one by one: see
    /// [`TableScans::follows`]. Decided when the scan begins, and begins anew.
    #[inline]
    pub fn follows(&self) -> bool {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { (*self.raw()).follows }
    }

    /// Heap's own scan of the hot rows, with the snapshot that this one has now.
    #[inline]
    pub fn hot(&mut self) -> HotScan<'a> {
        // SAFETY: open by the contract of `from_raw`, and heap's scan inside of it.
        unsafe { HotScan::from_raw(Descriptor::heap(self.raw())) }
    }

    /// The number that the participants of a parallel scan share, 0 at its begin; `None` if there
    /// are no others.
    pub fn shared(&self) -> Option<&'a AtomicU32> {
        // SAFETY: the server keeps the shared descriptor, which is as long as `parallel` requested,
        // until the scan is ended.
        unsafe { shared_counter(self.base().rs_parallel) }
    }

    /// Runs `make` in the memory that lives as long as the scan.
    pub fn in_memory<R>(&self, make: impl FnOnce() -> R) -> R {
        // SAFETY: the descriptor was allocated in a context, which is alive. After an ERROR the
        // server sets the current context itself.
        unsafe {
            let context = quiet::GetMemoryChunkContext(self.raw().cast());
            let old = pg_sys::MemoryContextSwitchTo(context);
            let made = make();
            pg_sys::MemoryContextSwitchTo(old);
            made
        }
    }

    #[inline]
    fn kept(&mut self) -> &mut Kept<'a, A> {
        // SAFETY: made for `A` here, and alive as long as the memory of the descriptor; the server
        // runs one callback of a scan at a time, so that nothing else refers to it.
        unsafe {
            let scan = self.raw();
            if (*scan).kept.is_null() {
                let context = quiet::GetMemoryChunkContext(scan.cast());
                let mut memory = PgMemoryContexts::For(context);
                let kept = Kept::<'a, A>::default();
                (*scan).kept = memory.leak_and_drop_on_delete(kept).cast();
            }
            &mut *(*scan).kept.cast()
        }
    }

    /// What the access method remembers of the scan, made by the first call.
    #[inline]
    pub fn state(&mut self) -> &mut A::State<'a> {
        &mut self.kept().own
    }

    /// Whether there is such a state.
    pub fn has_state(&self) -> bool {
        // SAFETY: open by the contract of `from_raw`.
        unsafe { !(*self.raw()).kept.is_null() }
    }

    #[inline]
    pub(super) fn bitmap(&mut self) -> &mut BitmapState {
        &mut self.kept().bitmap
    }

    /// Forgets what was read so far, and releases its pins; returns the state, if there was one.
    pub(super) fn start_anew(&mut self) -> Option<A::State<'a>> {
        self.reset_side();
        if !self.has_state() {
            return None;
        }
        let Kept { mut bitmap, own } = std::mem::take(self.kept());
        bitmap.release();
        Some(own)
    }

    /// Whether the row in the slot satisfies the keys of the scan.
    pub fn satisfies_keys(&self, slot: Slot<'_>) -> bool {
        let base = self.base();
        // SAFETY: the server has passed `rs_nkeys` keys of columns of the table, which live as long
        // as the scan.
        (0..base.rs_nkeys as usize).all(|i| unsafe {
            let key = &mut *base.rs_key.add(i);
            if key.sk_flags & pg_sys::SK_ISNULL as i32 != 0 {
                return false;
            }
            slot.attribute(i32::from(key.sk_attno))
                .is_some_and(|value| {
                    let (collation, argument) = (key.sk_collation, key.sk_argument);
                    let held =
                        pg_sys::FunctionCall2Coll(&mut key.sk_func, collation, value, argument);
                    held.value() != 0
                })
        })
    }
}
