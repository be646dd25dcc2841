//! The heap side of a table, many rows at a time.
//!
//! ```text
//!   one guard: { next row ─▶ deform ─▶ words, and copies of what is passed by reference } × 1,024
//! ```
//!
//! A guard around every row costs more than the row. So the rows of a batch are fetched under one:
//! what runs below it owns nothing and does not panic, so that an ERROR may jump over it. Heap's
//! own callback is called once per page: in page mode it notes which rows of the page are visible
//! and keeps the page pinned, so the others are taken from these notes, and rows of which no
//! attribute is read are only counted ([`page_rows`](super::page_rows)). Values
//! that are passed by reference are copied, because only the page of the last row stays pinned.
//! Values that are compressed or stored out of line are copied as they are. The caller expands
//! them, so a batch ends when its values are [`MOST_EXPANDED_BYTES`] then.

use pgrx::pg_sys;

use super::page_rows::PageRows;
use crate::ffi::quiet::{slot_getsomeattrs_int, toast_raw_datum_size};
use crate::ffi::unguarded::heap_getnextslot;
use crate::heap_am::callbacks;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::table::Table;

/// The most rows in a batch.
const BATCH_ROWS: usize = 1_024;
/// Memory for copied values of a batch, in words of eight bytes.
const COPY_WORDS: usize = 1 << 15;
/// A batch gets no more rows if its expanded values take as many bytes.
const MOST_EXPANDED_BYTES: usize = 4 << 20;

/// An attribute that is read.
struct Wanted {
    index: usize,
    /// `attlen`
    len: i16,
    by_value: bool,
    /// Its values are only counted.
    is_counted: bool,
}

impl Wanted {
    /// Whether its values are copied from the page.
    fn is_copied(&self) -> bool {
        !self.by_value && !self.is_counted
    }
}

/// The memory of a batch, which one scan passes on to the next.
#[derive(Default)]
pub struct BatchMemory {
    /// Column by column, [`BATCH_ROWS`] places each.
    values: Vec<pg_sys::Datum>,
    nulls: Vec<bool>,
    /// What values of the batch point to.
    copies: Vec<u64>,
}

impl BatchMemory {
    fn grow(&mut self, wanted: &[Wanted]) {
        let places = wanted.len() * BATCH_ROWS;
        if self.values.len() < places {
            self.values.resize(places, pg_sys::Datum::from(0));
            self.nulls.resize(places, true);
        }
        if self.copies.is_empty() && wanted.iter().any(Wanted::is_copied) {
            self.copies = vec![0; COPY_WORDS];
        }
    }
}

/// A scan of the hot rows that a snapshot sees.
pub struct HotRows<'a> {
    scan: pg_sys::TableScanDesc,
    /// Of the page that the scan is on.
    page: PageRows,
    slot: *mut pg_sys::TupleTableSlot,
    wanted: Vec<Wanted>,
    /// The number of attributes that are deformed of each row: the first ones.
    deformed: i32,
    batch: BatchMemory,
    row_count: usize,
    /// The bytes of the batch's values that are passed by reference, when they are expanded.
    expanded_bytes: usize,
    /// The slot holds a row that did not fit into the last batch.
    is_held: bool,
    has_ended: bool,
    table: Table<'a>,
}

impl<'a> HotRows<'a> {
    /// Begins a scan of the table, which is locked, that reads these attributes of each row into
    /// the memory. Where `is_counted` is true, of the attribute at the same place, a value that is
    /// not NULL is an arbitrary word, and is neither deformed nor copied.
    pub fn begin(
        table: Table<'a>,
        snapshot: Snapshot<'a>,
        attributes: &[usize],
        is_counted: &[bool],
        mut batch: BatchMemory,
    ) -> Self {
        let described = table.descriptor().attributes();
        let wanted: Vec<Wanted> = (attributes.iter().zip(is_counted))
            .map(|(&index, &is_counted)| Wanted {
                index,
                len: described[index].attlen,
                by_value: described[index].attbyval,
                is_counted,
            })
            .collect();
        let read = wanted.iter().filter(|attribute| !attribute.is_counted);
        let deformed = read.map(|attribute| attribute.index as i32 + 1);
        let deformed = deformed.max().unwrap_or(0);
        batch.grow(&wanted);
        let (rel, snapshot) = (table.raw(), snapshot.raw());
        let flags = pg_sys::ScanOptions::SO_TYPE_SEQSCAN
            | pg_sys::ScanOptions::SO_ALLOW_STRAT
            | pg_sys::ScanOptions::SO_ALLOW_SYNC
            | pg_sys::ScanOptions::SO_ALLOW_PAGEMODE;
        // SAFETY: both are valid as long as this is. Heap's own callback is called on its own
        // terms; an ERROR is caught at the boundary.
        unsafe {
            let begin = callbacks().scan_begin;
            let nothing = std::ptr::null_mut();
            let scan = pg_sys::ffi::pg_guard_ffi_boundary(|| {
                begin(rel, snapshot, 0, std::ptr::null_mut(), nothing, flags)
            });
            let operations = &raw const pg_sys::TTSOpsBufferHeapTuple;
            let slot = pg_sys::MakeSingleTupleTableSlot((*rel).rd_att, operations);
            HotRows {
                scan,
                page: PageRows::of(scan),
                slot,
                wanted,
                deformed,
                batch,
                row_count: 0,
                expanded_bytes: 0,
                is_held: false,
                has_ended: false,
                table,
            }
        }
    }

    /// Replaces the batch by the next rows, at most `most`; returns how many there are, 0 at the
    /// end.
    pub fn fetch(&mut self, most: usize) -> usize {
        let most = most.min(BATCH_ROWS);
        self.row_count = 0;
        self.expanded_bytes = 0;
        // SAFETY: scan and slot were made by `begin`. `fill` owns nothing that an ERROR would leak,
        // and does not panic; the ERROR is caught at the boundary.
        unsafe { pg_sys::ffi::pg_guard_ffi_boundary(|| self.fill(most)) };
        self.page.count_rows(self.table);
        self.row_count
    }

    /// Fills the batch.
    ///
    /// # Safety
    /// Scan and slot are open. Errors jump over this function.
    unsafe fn fill(&mut self, most: usize) {
        let forward = pg_sys::ScanDirection::ForwardScanDirection;
        let mut used = 0;
        // SAFETY: as for this function. The page of the row stays pinned by the slot.
        unsafe {
            while self.row_count < most
                && self.expanded_bytes < MOST_EXPANDED_BYTES
                && !self.has_ended
            {
                if self.wanted.is_empty() && most > 1 {
                    // No value is read, and the caller does not look at the slot.
                    self.row_count += self.page.skip(most - self.row_count);
                    if self.row_count == most {
                        break;
                    }
                }
                if !self.is_held
                    && !self.page.next(self.slot)
                    && !heap_getnextslot(self.scan, forward, self.slot)
                {
                    self.has_ended = true;
                    break;
                }
                self.is_held = true;
                if !self.wanted.is_empty() {
                    if i32::from((*self.slot).tts_nvalid) < self.deformed {
                        slot_getsomeattrs_int(self.slot, self.deformed);
                    }
                    match self.store(used) {
                        Some(now) => used = now,
                        // It is the first row of the next batch.
                        None if self.row_count > 0 => break,
                        None => {
                            self.point();
                            self.is_held = false;
                            self.row_count = 1;
                            break;
                        }
                    }
                }
                self.is_held = false;
                self.row_count += 1;
            }
        }
    }

    /// Stores the row of the slot as the batch's next one. `used` words of the copies are taken;
    /// returns how many are then, `None` if there is no room.
    ///
    /// # Safety
    /// The slot holds a row, of which the wanted attributes are deformed.
    unsafe fn store(&mut self, mut used: usize) -> Option<usize> {
        // SAFETY: as for this function. Each column has BATCH_ROWS places, more than there are
        // rows; copies end before the end of their memory.
        unsafe {
            for (place, attribute) in self.wanted.iter().enumerate() {
                let at = place * BATCH_ROWS + self.row_count;
                if attribute.is_counted {
                    *self.batch.nulls.as_mut_ptr().add(at) = self.is_null(attribute.index);
                    continue;
                }
                let is_null = *(*self.slot).tts_isnull.add(attribute.index);
                let mut datum = *(*self.slot).tts_values.add(attribute.index);
                *self.batch.nulls.as_mut_ptr().add(at) = is_null;
                if !is_null && !attribute.by_value {
                    let from = datum.cast_mut_ptr::<u8>();
                    let size_bytes = size_of_value(from, attribute.len);
                    let words = size_bytes.div_ceil(8);
                    if words > self.batch.copies.len().saturating_sub(used) {
                        return None;
                    }
                    let to = self.batch.copies.as_mut_ptr().add(used).cast::<u8>();
                    std::ptr::copy_nonoverlapping(from, to, size_bytes);
                    datum = pg_sys::Datum::from(to);
                    used = used.wrapping_add(words);
                    let expanded = match attribute.len == -1 && is_toasted(from) {
                        true => toast_raw_datum_size(datum),
                        false => size_bytes,
                    };
                    self.expanded_bytes = self.expanded_bytes.saturating_add(expanded);
                }
                *self.batch.values.as_mut_ptr().add(at) = datum;
            }
        }
        Some(used)
    }

    /// Whether an attribute of the slot's row is NULL, which its header tells unless the attribute
    /// was added later.
    ///
    /// # Safety
    /// The slot holds a row.
    unsafe fn is_null(&self, index: usize) -> bool {
        // SAFETY: as for this function. The header has a bit for each attribute that the row has,
        // if one of them is NULL.
        unsafe {
            let tuple = (*self.slot.cast::<pg_sys::HeapTupleTableSlot>()).tuple;
            let header = (*tuple).t_data;
            let count = u32::from((*header).t_infomask2) & pg_sys::HEAP_NATTS_MASK;
            if index >= count as usize {
                let wanted = index as i32 + 1;
                if i32::from((*self.slot).tts_nvalid) < wanted {
                    slot_getsomeattrs_int(self.slot, wanted);
                }
                return *(*self.slot).tts_isnull.add(index);
            }
            let has_nulls = u32::from((*header).t_infomask) & pg_sys::HEAP_HASNULL != 0;
            let bits = (&raw const (*header).t_bits).cast::<u8>();
            has_nulls && *bits.add(index / 8) & (1 << (index % 8)) == 0
        }
    }

    /// Makes the row of the slot the only one of the batch; its values stay on its page, which the
    /// slot keeps pinned until the next row is fetched.
    ///
    /// # Safety
    /// As for [`Self::store`].
    unsafe fn point(&mut self) {
        // SAFETY: as for this function.
        unsafe {
            for (place, attribute) in self.wanted.iter().enumerate() {
                let at = place * BATCH_ROWS;
                if attribute.is_counted {
                    *self.batch.nulls.as_mut_ptr().add(at) = self.is_null(attribute.index);
                    continue;
                }
                *self.batch.nulls.as_mut_ptr().add(at) =
                    *(*self.slot).tts_isnull.add(attribute.index);
                *self.batch.values.as_mut_ptr().add(at) =
                    *(*self.slot).tts_values.add(attribute.index);
            }
        }
    }

    /// Ends the scan; returns the memory for the next one.
    pub fn end(mut self) -> BatchMemory {
        std::mem::take(&mut self.batch)
    }

    /// The slot, which holds the last row of the batch if the batch was fetched with `most` = 1.
    pub fn slot(&self) -> Slot<'_> {
        // SAFETY: it was made by `begin`, and lives as long as the scan.
        unsafe { Slot::from_raw(self.slot) }
    }

    /// The batch's values of one of the attributes, by its place among them; `None` is NULL. They
    /// are valid until the next call of [`Self::fetch`].
    ///
    /// # Panics
    ///
    /// Panics when there is no such place.
    pub fn column(&self, place: usize) -> impl Iterator<Item = Option<pg_sys::Datum>> {
        let rows = place * BATCH_ROWS..place * BATCH_ROWS + self.row_count;
        let (values, nulls) = (&self.batch.values[rows.clone()], &self.batch.nulls[rows]);
        (values.iter().zip(nulls)).map(|(&value, &is_null)| (!is_null).then_some(value))
    }
}

/// Whether a value of a type of variable length is compressed, or stored out of line.
///
/// # Safety
/// It is a value of a heap tuple.
unsafe fn is_toasted(value: *const u8) -> bool {
    // SAFETY: as for this function.
    unsafe { pgrx::varatt_is_1b_e(value.cast()) || pgrx::varatt_is_4b_c(value.cast()) }
}

/// The bytes of a value of a heap tuple that is passed by reference, with its header.
///
/// # Safety
/// It is a value of a type of this length.
unsafe fn size_of_value(value: *const u8, len: i16) -> usize {
    /// Header and tag of a value that is stored out of line.
    const EXTERNAL_BYTES: usize = pg_sys::VARHDRSZ_EXTERNAL + size_of::<pg_sys::varatt_external>();
    // SAFETY: as for this function. A tuple on a page points to values that are stored out of line
    // in one way only.
    unsafe {
        match len {
            -1 if pgrx::varatt_is_1b_e(value.cast()) => EXTERNAL_BYTES,
            -1 => pgrx::varsize_any(value.cast()),
            -2 => libc::strlen(value.cast()).wrapping_add(1),
            len => len as usize,
        }
    }
}

impl Drop for HotRows<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // The resource owner releases the pins, the memory goes with the query's.
            return;
        }
        // SAFETY: both were made by `begin` and are ended once; an ERROR is caught at the boundary.
        unsafe {
            pg_sys::ExecDropSingleTupleTableSlot(self.slot);
            let end = callbacks().scan_end;
            let scan = self.scan;
            pg_sys::ffi::pg_guard_ffi_boundary(|| end(scan));
        }
    }
}
