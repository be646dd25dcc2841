//! Reading long values: ranges from pinned pages, and whole runs of pieces by a read stream.
//!
//! ```text
//!   offset ──/ PIECE_BYTES──> piece (id, seq), skip ──map──> block
//!   block ──pin, key, checks──> bytes copied out
//!       └─ another key there ──> index ──> map learns
//! ```
//!
//! The pieces of a value mostly lie on consecutive pages, so the block of one gives the blocks of
//! all others. A [`PieceMap`] remembers where runs of them begin. It is a hint, from the directory
//! entry or from earlier reads: the key is compared on the page, and where another key or none is
//! found (after VACUUM FULL of the TOAST relation, or where two writers took pages by turns) the
//! index is searched, once for each run.
//!
//! Every byte that is returned was verified on the page it was copied from, under the pin under
//! which it was copied: see [`super::piece`]; except that whole chunks may be copied first and
//! verified by another thread, against the checks that were copied with them
//! ([`super::unverified`]), or be copied and verified by that thread, while this one keeps the
//! pages pinned ([`super::lent`]). Where the cluster has data checksums a map remembers what was
//! verified, and all sessions together do ([`super::verified_notes`]): a page that was evicted and
//! comes back is verified by PostgreSQL. Pages are
//! share-locked one at a time, while their tuples are searched; a reader keeps the last one pinned,
//! because a row often needs several ranges of one page. Pins are the resource owner's: an ERROR
//! releases them. All of this also works on a standby: pieces and hints arrive by WAL.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::OnceLock;

use pgrx::pg_sys;

use crate::relation::{has_block, main_fork_blocks};

use super::lent::{Lender, LentRun, Loans};
use super::lookup::{Found, find};
use super::page::{HeldPiece, PinnedPage};
use super::piece::{Fault, PIECE_BYTES, Piece, Verified};
use super::piece_map::PieceMap;
use super::read::KeyScan;
use super::recent;
use super::stream::BlockStream;
use super::unverified::Unverified;
use super::verified_notes;
use super::{ColdStore, StoreError};
use super::{file_copy, file_reads};

/// Fewer pieces are read page by page.
const STREAMED_PIECES: i32 = 4;
/// Of a run, the piece that is prefetched while one is looked for.
const TOUCHED_AHEAD: i32 = 6;

/// Reads ranges of one long value. Holds a pin until it is dropped, so it may live for a row, not
/// for a scan.
pub struct ValueReader<'a> {
    store: &'a ColdStore<'a>,
    id: u32,
    map: &'a RefCell<PieceMap>,
    /// The piece that was read last.
    held: RefCell<Option<Held>>,
    /// Whether bytes that were verified once need not be verified again.
    remembers: bool,
    /// Whether the memory of what is read was requested before: the reads of a row, between which
    /// nothing else is done.
    was_requested: Cell<bool>,
    /// Whether a pin was taken since where its memory had been requested.
    has_pinned: Cell<bool>,
}

struct Held {
    seq: i32,
    piece: HeldPiece,
    verified: Verified,
}

/// What is done with a range of a piece.
type Look<'l> = &'l mut dyn FnMut(&mut Shown<'_>, Range<usize>) -> Result<(), (Fault, usize)>;

/// A piece that is being read, and which kilobytes of it were verified.
struct Shown<'a> {
    piece: Piece<'a>,
    verified: &'a mut Verified,
}

impl<'a> Shown<'a> {
    /// A range of the piece, verified; or the fault, and how many bytes there should be.
    fn verified(&mut self, range: Range<usize>) -> Result<&'a [u8], (Fault, usize)> {
        let end = range.end;
        let bytes = self.piece.verified(range, self.verified);
        bytes.map_err(|fault| (fault, end))
    }
}

/// Whether PostgreSQL verifies every page that it reads from disk. If so, bytes that were verified
/// in memory cannot be damaged on disk and read again unnoticed.
pub(super) fn pages_are_checked() -> bool {
    static HAVE_CHECKSUMS: OnceLock<bool> = OnceLock::new();
    // SAFETY: reads the control file's copy in memory, and a setting.
    unsafe {
        *HAVE_CHECKSUMS.get_or_init(|| pg_sys::DataChecksumsEnabled())
            && !pg_sys::ignore_checksum_failure
    }
}

/// The piece that a byte of a value lies in, and its position there.
fn place_of(offset: u64) -> (i32, usize) {
    let seq = i32::try_from(offset / PIECE_BYTES as u64).unwrap_or(i32::MAX);
    (seq, (offset % PIECE_BYTES as u64) as usize)
}

impl ColdStore<'_> {
    /// A reader of the value; `map` tells where its pieces are, and is updated.
    pub fn value<'a>(&'a self, id: u32, map: &'a RefCell<PieceMap>) -> ValueReader<'a> {
        ValueReader {
            store: self,
            id,
            map,
            held: RefCell::new(None),
            remembers: pages_are_checked(),
            was_requested: Cell::new(false),
            has_pinned: Cell::new(false),
        }
    }

    /// Fills `out` with the bytes `[offset, offset + out.len())` of the long value `id`.
    ///
    /// # Errors
    /// As for [`ValueReader::read`].
    pub fn read_value(&self, id: u32, offset: u64, out: &mut [u8]) -> Result<(), StoreError> {
        let map = RefCell::default();
        let mut done = 0;
        self.value(id, &map)
            .read_run(offset, out.len() as u64, &mut |bytes| {
                out[done..done + bytes.len()].copy_from_slice(bytes);
                done += bytes.len();
            })
    }
}

impl ValueReader<'_> {
    /// Fills `into` with the bytes from `offset` on.
    ///
    /// # Errors
    /// A piece that is missing, damaged or of the wrong length.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let (seq, skip) = place_of(offset);
        let len = into.len();
        match self.known(seq, skip, len, |bytes| into.copy_from_slice(bytes)) {
            true => Ok(()),
            false => self.read_anew(offset, into),
        }
    }

    /// As [`ValueReader::read`], of bytes that are not known to be sound in a known buffer.
    #[inline(never)]
    fn read_anew(&self, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let (seq, skip) = place_of(offset);
        if self.read_file(seq, skip, into) {
            return Ok(());
        }
        let mut done = 0;
        while done < into.len() {
            let (seq, skip) = place_of(offset + done as u64);
            let take = (PIECE_BYTES - skip).min(into.len() - done);
            let target = &mut into[done..done + take];
            self.show(seq, skip..skip + take, &mut |bytes| {
                target.copy_from_slice(bytes);
            })?;
            done += take;
        }
        Ok(())
    }

    /// Shows `len` bytes from `offset` on where they lie, under a pin, if they are in one piece,
    /// which is the one that was read last or in a known buffer, and are known to be sound there;
    /// `false` if not. `look` must not raise an ERROR, nor read this value.
    pub fn show_known(&self, offset: u64, len: usize, look: &mut dyn FnMut(&[u8])) -> bool {
        let (seq, skip) = place_of(offset);
        self.known(seq, skip, len, look)
    }

    /// As [`ValueReader::show_known`], of bytes of a piece. Most reads end here.
    #[inline]
    fn known(&self, seq: i32, skip: usize, len: usize, look: impl FnOnce(&[u8])) -> bool {
        let mut held = self.held.borrow_mut();
        if held.as_ref().is_none_or(|held| held.seq != seq) {
            *held = None;
            let Some(piece) = self.hold_recent(seq, skip..skip + len) else {
                return false;
            };
            *held = Some(self.held(seq, piece));
        }
        let bytes = held.as_ref().and_then(|held| {
            let piece = Piece::of((self.id, seq), held.piece.payload()).ok()?;
            piece.known(skip, len, held.verified)
        });
        bytes.map(look).is_some()
    }

    /// Fills `into` from the file of the page, if all of it lies in one piece that is in no shared
    /// buffer and need not be.
    fn read_file(&self, seq: i32, skip: usize, into: &mut [u8]) -> bool {
        if self.held.borrow().is_some() || skip + into.len() > PIECE_BYTES {
            return false;
        }
        let Some(block) = self.map.borrow().guess(seq) else {
            return false;
        };
        let (toast, range) = (self.store.toast, skip..skip + into.len());
        // SAFETY: `toast` is open and locked.
        unsafe {
            has_block(toast, block) && file_copy::copy(toast, block, (self.id, seq), range, into)
        }
    }

    #[inline]
    fn held(&self, seq: i32, piece: HeldPiece) -> Held {
        let verified = match self.remembers {
            true => self.map.borrow().verified(seq),
            false => Verified::default(),
        };
        Held {
            seq,
            piece,
            verified,
        }
    }

    /// Passes `len` bytes from `offset` on to `sink`, piece by piece: for whole chunks.
    ///
    /// # Errors
    /// As for [`ValueReader::read`]; the sink may have got bytes before.
    pub fn read_run(
        &self,
        offset: u64,
        len: u64,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<(), StoreError> {
        self.run(offset, len, &mut |piece, range| {
            sink(piece.verified(range)?);
            Ok(())
        })
    }

    /// As [`ValueReader::read_run`], for bytes that another thread verifies: those that the result
    /// names must not be interpreted before [`Unverified::verify`] has succeeded.
    ///
    /// # Errors
    /// As for [`ValueReader::read`]; the sink may have got bytes before.
    pub fn copy_run(
        &self,
        offset: u64,
        len: u64,
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Unverified, StoreError> {
        let mut unverified = Unverified::of(self.store.id().toast, len);
        let mut copied = 0;
        self.run(offset, len, &mut |shown, range| {
            let end = range.end;
            let later = |place: Range<usize>, proof| {
                unverified.add(copied + place.start..copied + place.end, proof);
            };
            let bytes = shown.piece.partly_verified(range, later);
            let bytes = bytes.map_err(|fault| (fault, end))?;
            copied += bytes.len();
            sink(bytes);
            Ok(())
        })?;
        Ok(unverified)
    }

    /// Lends the pages that hold `len` bytes from `offset` on to a thread that copies them. `None`
    /// if that is not allowed, if they are more than this process should pin at a time, or of a
    /// temporary table.
    ///
    /// # Errors
    /// As for [`ValueReader::read`].
    pub fn lend_run(
        &self,
        offset: u64,
        len: u64,
        loans: &Loans,
    ) -> Result<Option<LentRun>, StoreError> {
        let end = offset + len;
        let count = (len / PIECE_BYTES as u64 + 2) as usize;
        // SAFETY: reads counters of this process.
        let most = || unsafe { pg_sys::GetAdditionalPinLimit() };
        if !loans.is_allowed() || count > most() as usize || self.store.toast().is_temporary() {
            return Ok(None);
        }
        let mut lender = Lender::with_capacity(count);
        let mut pieces = Pieces::until(self, end);
        let mut at = offset;
        while at < end {
            let (seq, skip) = place_of(at);
            let take = (PIECE_BYTES - skip).min((end - at) as usize);
            lender.add((self.id, seq), pieces.get(seq)?, skip..skip + take);
            at += take as u64;
        }
        crate::check_for_interrupts!();
        let (pages, run) = lender.lend(self.store.id().toast);
        loans.add(pages);
        Ok(Some(run))
    }

    /// Shows ranges of piece after piece that together are `len` bytes from `offset` on.
    fn run(&self, offset: u64, len: u64, look: Look<'_>) -> Result<(), StoreError> {
        let end = offset + len;
        let mut pieces = Pieces::until(self, end);
        let mut at = offset;
        while at < end {
            let (seq, skip) = place_of(at);
            let take = (PIECE_BYTES - skip).min((end - at) as usize);
            let look = |piece: &mut Shown<'_>| look(piece, skip..skip + take);
            if at == offset {
                self.with_piece(seq, skip..skip + take, look)?;
            } else {
                let piece = pieces.get(seq)?;
                self.look_at(seq, &piece, &mut Verified::default(), look)?;
            }
            at += take as u64;
            if seq % 64 == 0 {
                crate::check_for_interrupts!();
            }
        }
        crate::check_for_interrupts!();
        Ok(())
    }

    /// Requests the pages of these ranges that are not in shared buffers, all at once; waits for
    /// none. Worth it where [`file_reads::are_slow`].
    pub fn prefetch(&self, ranges: &[Range<u64>]) {
        let map = self.map.borrow();
        let fork = pg_sys::ForkNumber::MAIN_FORKNUM;
        let toast = self.store.toast;
        let (mut last, mut requested) = (None, 0);
        for range in ranges.iter().filter(|range| !range.is_empty()) {
            let (first, last_seq) = (place_of(range.start).0, place_of(range.end - 1).0);
            for block in (first..=last_seq).filter_map(|seq| map.guess(seq)) {
                // SAFETY: `toast` is open; a block past the end is not requested.
                unsafe {
                    if last != Some(block) && has_block(toast, block) {
                        let found = pg_sys::PrefetchBuffer(toast, fork, block);
                        requested += u32::from(found.initiated_io);
                    }
                }
                last = Some(block);
            }
        }
        if requested > 0 {
            file_reads::requested();
            pgrx::debug2!("requested {requested} pages of cold rows");
        }
    }

    /// Prefetches the beginnings of these ranges into the processor's cache, where their buffers
    /// are known, so that reading one after the other does not wait for memory each time.
    pub fn touch(&self, ranges: &[Range<u64>]) {
        let mut map = self.map.borrow_mut();
        // Those of another row. A row's places are read before what lies there is requested.
        if !self.was_requested.replace(true) {
            map.forget_requested();
        }
        let mut touch = |known: recent::Known<'_>| {
            for range in ranges {
                let (seq, skip) = place_of(range.start);
                let bytes = skip..skip + (range.end - range.start) as usize;
                let Some(block) = map.guess(seq) else {
                    continue;
                };
                let hint = known.buffer_of(block);
                if let Some(hint) = hint {
                    recent::touch(hint.buffer, bytes.clone());
                    map.note_requested(seq, block, hint);
                }
                if hint.is_none_or(recent::Hint::is_guess) {
                    // SAFETY: `toast` is open.
                    unsafe { file_copy::touch(self.store.toast, block, bytes) };
                }
            }
        };
        // SAFETY: `toast` is open.
        unsafe { recent::with_known(self.store.toast, &mut touch) };
    }

    fn show(
        &self,
        seq: i32,
        range: Range<usize>,
        look: &mut dyn FnMut(&[u8]),
    ) -> Result<(), StoreError> {
        self.with_piece(seq, range.clone(), |piece| {
            look(piece.verified(range)?);
            Ok(())
        })
    }

    /// Reads a range of a piece, which stays pinned.
    fn with_piece(
        &self,
        seq: i32,
        range: Range<usize>,
        look: impl FnOnce(&mut Shown<'_>) -> Result<(), (Fault, usize)>,
    ) -> Result<(), StoreError> {
        let mut held = self.held.borrow_mut();
        if held.as_ref().is_none_or(|held| held.seq != seq) {
            // One pin at a time.
            *held = None;
            let piece = self.hold(seq, range.clone())?;
            *held = Some(self.held(seq, piece));
        }
        let Some(held) = held.as_mut() else {
            return Err(self.missing(seq));
        };
        if !self.remembers {
            return self.look_at(seq, &held.piece, &mut held.verified, look);
        }
        let before = held.verified;
        let (rel, at, key) = (self.store.toast, held.piece.place(), (self.id, seq));
        // SAFETY: `toast` is open, and the piece is held.
        let noted = unsafe { verified_notes::recall(rel, at, key) };
        held.verified = before.with(noted);
        self.look_at(seq, &held.piece, &mut held.verified, look)?;
        if held.verified != before {
            self.map.borrow_mut().note_verified(seq, held.verified);
        }
        // What this process alone remembers was not verified just now.
        let sound = noted.with(held.verified.without(before));
        if sound != noted {
            // SAFETY: `toast` is open, and the piece is held.
            unsafe { verified_notes::note(rel, at, key, sound) };
        }
        Ok(())
    }

    fn look_at(
        &self,
        seq: i32,
        piece: &HeldPiece,
        verified: &mut Verified,
        look: impl FnOnce(&mut Shown<'_>) -> Result<(), (Fault, usize)>,
    ) -> Result<(), StoreError> {
        let piece = Piece::of((self.id, seq), piece.payload());
        let shown = piece.map_err(|fault| (fault, 0));
        let looked = shown.and_then(|piece| look(&mut Shown { piece, verified }));
        looked.map_err(|(fault, expected_bytes)| self.fault(seq, fault, expected_bytes))
    }

    /// Finds a piece at the block where it should be, or else by the index.
    fn hold(&self, seq: i32, range: Range<usize>) -> Result<HeldPiece, StoreError> {
        let (toast, key) = (self.store.toast(), (self.id, seq));
        if let Some(piece) = self.hold_recent(seq, range) {
            return Ok(piece);
        }
        let guess = self.map.borrow().guess(seq);
        let guess = guess.filter(|&block| toast.has_block(block));
        if let Some(block) = guess
            && let Some(piece) = PinnedPage::read(toast, block).hold(toast, key)
        {
            return Ok(piece);
        }
        let block = self.find(seq)?;
        self.map.borrow_mut().learn(seq, block);
        let piece = PinnedPage::read(toast, block).hold(toast, key);
        piece.ok_or_else(|| self.missing(seq))
    }

    /// Prefetches what finding a piece on its page will read.
    fn touch_piece(&self, seq: i32) {
        if let Some(block) = self.map.borrow().guess(seq) {
            // SAFETY: `toast` is open.
            if let Some(hint) = unsafe { recent::buffer_of(self.store.toast, block) } {
                recent::touch(hint.buffer, 0..1);
            }
        }
    }

    /// Finds a piece in the buffer where its page was seen before. No other piece of the value is
    /// held.
    #[inline(always)]
    fn hold_recent(&self, seq: i32, range: Range<usize>) -> Option<HeldPiece> {
        if !self.was_requested.get() {
            return self.hold_beside(seq, Some(range));
        }
        let Some((block, hint)) = self.map.borrow_mut().find_requested(seq) else {
            return self.hold_beside(seq, None);
        };
        let (toast, has_room) = (self.store.toast(), self.has_pinned.get());
        // SAFETY: the reads of a row pin nothing but one piece at a time, and the last one was
        // released.
        let page = unsafe { PinnedPage::in_buffer(toast, block, hint, has_room) }?;
        self.has_pinned.set(true);
        page.hold(toast, (self.id, seq))
    }

    /// As [`Self::hold_recent`], where others may be held as well. The memory of the range is
    /// requested, if there is one.
    #[inline(never)]
    fn hold_beside(&self, seq: i32, range: Option<Range<usize>>) -> Option<HeldPiece> {
        let (toast, block) = (self.store.toast(), self.map.borrow().guess(seq)?);
        PinnedPage::recent(toast, block, range)?.hold(toast, (self.id, seq))
    }

    /// A stream of the pages of the pieces from `seq` to `last`, as far as these should lie on
    /// consecutive blocks; `None` if they are few.
    fn stream(&self, seq: i32, last: i32) -> Option<BlockStream> {
        let (guess, run) = {
            let map = self.map.borrow();
            (map.guess(seq), map.run_from(seq))
        };
        let count = run.min(last - seq + 1);
        let first_block = guess.filter(|_| count >= STREAMED_PIECES)?;
        // SAFETY: `toast` is open.
        let blocks = unsafe { main_fork_blocks(self.store.toast) };
        let count = (count as u32).min(blocks.saturating_sub(first_block));
        Some(BlockStream::begin(
            self.store.toast(),
            first_block..first_block + count,
        ))
    }

    /// The block of a piece, by the index.
    fn find(&self, seq: i32) -> Result<pg_sys::BlockNumber, StoreError> {
        let (store, key) = (self.store, (self.id, seq));
        let holds = |tid: &pg_sys::ItemPointerData| {
            let page = PinnedPage::read(store.toast(), crate::tid::block_of(tid));
            page.has(store.toast(), key).then_some(page.block)
        };
        // SAFETY: both relations are open.
        let found = match unsafe { find(store.valid_index(), store.toast, key) } {
            Found::Nothing => None,
            Found::Entries(entries) => entries.tids().iter().find_map(holds),
            Found::Unsure => {
                let mut scan = KeyScan::begin(store, self.id, seq..=seq, false);
                std::iter::from_fn(|| scan.next()).find_map(|keyed| holds(&keyed.tid))
            }
        };
        found.ok_or_else(|| self.missing(seq))
    }

    fn missing(&self, seq: i32) -> StoreError {
        let (toast, id) = (self.store.id().toast, self.id);
        StoreError::MissingPiece { toast, id, seq }
    }

    fn fault(&self, seq: i32, fault: Fault, expected_bytes: usize) -> StoreError {
        fault.into_error(self.store.id().toast, (self.id, seq), expected_bytes)
    }
}

/// Pieces one after the other: in the buffers where their pages were seen before, else by a stream
/// for as long as they lie on consecutive blocks.
struct Pieces<'r, 'a> {
    reader: &'r ValueReader<'a>,
    /// The last piece that will be requested.
    last: i32,
    stream: Option<BlockStream>,
}

impl<'r, 'a> Pieces<'r, 'a> {
    /// Pieces up to the one before the end of a range of bytes.
    fn until(reader: &'r ValueReader<'a>, end: u64) -> Pieces<'r, 'a> {
        Pieces {
            reader,
            last: place_of(end.saturating_sub(1)).0,
            stream: None,
        }
    }

    /// A piece; those that are requested follow each other.
    fn get(&mut self, seq: i32) -> Result<HeldPiece, StoreError> {
        let reader = self.reader;
        if self.stream.is_none() {
            reader.touch_piece(seq.saturating_add(TOUCHED_AHEAD).min(self.last));
            let touched = (!reader.was_requested.get()).then_some(0..1);
            if let Some(piece) = reader.hold_beside(seq, touched) {
                return Ok(piece);
            }
            self.stream = reader.stream(seq, self.last);
        }
        let streamed = self.stream.as_mut().and_then(BlockStream::next);
        match streamed.and_then(|page| page.hold(reader.store.toast(), (reader.id, seq))) {
            Some(piece) => Ok(piece),
            None => {
                // Here the run ends.
                self.stream = None;
                reader.hold(seq, 0..1)
            }
        }
    }
}
