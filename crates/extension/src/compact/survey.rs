//! Survey of a table's hot side, before the decision to compact it.
//!
//! A table of no more pages than the budget of I/O allows in [`SURVEYED_SECONDS`] is examined as a
//! whole. A larger one is examined in windows of as many pages, a few at each visit, beginning
//! where the last visit stopped ([`super::shared::Place`]):
//!
//! ```text
//!   1  windows with all-visible pages   found by the visibility map, a page of it per 32,000;
//!                                       only these pages are read: they can be moved at once
//!   2  one window of every page         if 1 found nothing: is a vacuum worthwhile, and how many
//!                                       rows are there in all?
//! ```
//!
//! So each page is read once in a round over the table, however often the table is visited.

use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use howdah_bridge::hot::page::HotReader;
use howdah_bridge::relation::PAGE_BYTES;
use howdah_bridge::table::Table;
use howdah_bridge::tid::BlockNumber;

use super::shared::Place;
use super::{policy, throttle};

/// The time that it takes to read a window at the limit of I/O.
const SURVEYED_SECONDS: u64 = 1;
/// Pages of a window if there is no limit.
const UNLIMITED_WINDOW: u32 = 16_384;
const SMALLEST_WINDOW: u32 = 64;
/// Windows with all-visible pages that one visit examines.
const WINDOWS_PER_VISIT: u32 = 4;

/// A set of block numbers.
#[derive(Debug, Default)]
pub struct BlockSet {
    words: Vec<u64>,
    len: u32,
}

impl BlockSet {
    pub fn insert(&mut self, block: BlockNumber) {
        let (word, bit) = (block as usize / 64, block % 64);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.len += u32::from(self.words[word] >> bit & 1 == 0);
        self.words[word] |= 1 << bit;
    }

    pub fn contains(&self, block: BlockNumber) -> bool {
        self.words
            .get(block as usize / 64)
            .is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    pub fn len(&self) -> u32 {
        self.len
    }
}

/// The findings of a survey of hot pages.
#[derive(Debug, Default)]
pub struct Survey {
    /// Pages with rows that have not changed for long enough.
    pub quiet: Rc<BlockSet>,
    /// The number of rows on them, at most.
    pub quiet_rows: u64,
    /// How many of them are not all-visible yet.
    pub invisible: u32,
    /// Pages that were examined and are not all-visible, quiet or not.
    pub all_invisible: u32,
    /// The number of rows on the hot side, at most; `None` if not all of it was examined yet.
    pub rows: Option<u64>,
    /// Whether the table is examined in windows.
    pub is_partial: bool,
}

/// Which pages are read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    AllVisible,
    Every,
}

/// A survey in progress.
struct Look<'a> {
    table: Table<'a>,
    reader: HotReader<'a>,
    /// The end of WAL at the time since which a quiet page has not changed.
    quiet_since: u64,
    quiet: BlockSet,
    found: Survey,
    rows: u64,
}

impl Look<'_> {
    fn read(&mut self, blocks: Range<BlockNumber>, wanted: Wanted) {
        for block in blocks {
            howdah_bridge::check_for_interrupts!();
            if wanted == Wanted::AllVisible && !self.reader.is_all_visible(block) {
                continue;
            }
            let page = self.reader.look(block);
            self.rows += u64::from(page.rows);
            self.found.all_invisible += u32::from(!page.all_visible);
            if page.rows > 0 && page.lsn <= self.quiet_since {
                self.quiet.insert(block);
                self.found.quiet_rows += u64::from(page.rows);
                self.found.invisible += u32::from(!page.all_visible);
            }
            throttle::pay(self.table);
        }
    }

    fn finish(self) -> Survey {
        Survey {
            quiet: Rc::new(self.quiet),
            ..self.found
        }
    }
}

/// Looks at the table, or on from its place in it; at enough of it for a row group of `min_rows`,
/// if there is one. Pages are quiet that did not change since WAL ended at `quiet_since`.
pub fn survey(table: Table<'_>, quiet_since: u64, place: Option<&Place>, min_rows: u32) -> Survey {
    let (reader, blocks) = (HotReader::begin(table), table.main_fork_blocks());
    let mut look = Look {
        table,
        reader,
        quiet_since,
        quiet: BlockSet::default(),
        found: Survey::default(),
        rows: 0,
    };
    let window = window_pages();
    let Some(place) = place.filter(|_| blocks > window) else {
        look.read(0..blocks, Wanted::Every);
        look.found.rows = Some(look.rows);
        return look.finish();
    };
    look.found.is_partial = true;
    look_at_visible(&mut look, place, blocks, window, min_rows);
    if look.found.quiet_rows < u64::from(min_rows) {
        look_at_every(&mut look, place, blocks, window);
    }
    look.finish()
}

/// Pages of a window.
fn window_pages() -> u32 {
    match policy::io_limit_bytes() {
        0 => UNLIMITED_WINDOW,
        bytes => {
            let pages = bytes * SURVEYED_SECONDS / u64::from(PAGE_BYTES);
            u32::try_from(pages)
                .unwrap_or(u32::MAX)
                .max(SMALLEST_WINDOW)
        }
    }
}

/// Reads the all-visible pages of the next windows that have any, until there is enough.
fn look_at_visible(look: &mut Look<'_>, place: &Place, blocks: u32, window: u32, min_rows: u32) {
    let (mut from, mut passed, mut windows) = (place.visible_from.load(Relaxed), 0, 0);
    while passed < blocks
        && windows < WINDOWS_PER_VISIT
        && look.found.quiet_rows < u64::from(min_rows)
    {
        from = if from < blocks { from } else { 0 };
        let end = from.saturating_add(window).min(blocks);
        if (from..end).any(|block| look.reader.is_all_visible(block)) {
            look.read(from..end, Wanted::AllVisible);
            windows += 1;
        }
        passed += end - from;
        from = end;
    }
    place.visible_from.store(from, Relaxed);
}

/// Reads every page of the next window. Counts all rows from the first block to the last, over as
/// many visits as that takes.
fn look_at_every(look: &mut Look<'_>, place: &Place, blocks: u32, window: u32) {
    let from = match place.from.load(Relaxed) {
        from if from < blocks => from,
        _ => 0,
    };
    let end = from.saturating_add(window).min(blocks);
    let before = look.rows;
    look.read(from..end, Wanted::Every);
    let earlier = match from {
        0 => 0,
        _ => place.rows.load(Relaxed),
    };
    let rows = earlier + (look.rows - before);
    look.found.rows = (end == blocks).then_some(rows);
    place.rows.store(rows, Relaxed);
    place
        .from
        .store(if end == blocks { 0 } else { end }, Relaxed);
}

#[cfg(test)]
mod tests {
    use super::BlockSet;

    #[test]
    fn a_set_of_blocks_counts_each_once() {
        let mut set = BlockSet::default();
        for block in [0, 63, 64, 64, 200, 0, 128] {
            set.insert(block);
        }
        assert_eq!(set.len(), 5);
        let found: Vec<u32> = (0..300).filter(|&block| set.contains(block)).collect();
        assert_eq!(found, [0, 63, 64, 128, 200]);
        assert!(!set.contains(u32::MAX - 1));
    }
}
