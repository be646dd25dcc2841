//! Looking at a table's hot side before deciding to compact it.

use std::rc::Rc;

use howdah_bridge::hot::page::HotReader;
use howdah_bridge::relation::main_fork_blocks;
use pgrx::pg_sys;

/// A set of block numbers.
#[derive(Debug, Default)]
pub struct BlockSet {
    words: Vec<u64>,
    len: u32,
}

impl BlockSet {
    pub fn insert(&mut self, block: pg_sys::BlockNumber) {
        let (word, bit) = (block as usize / 64, block % 64);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.len += u32::from(self.words[word] >> bit & 1 == 0);
        self.words[word] |= 1 << bit;
    }

    pub fn contains(&self, block: pg_sys::BlockNumber) -> bool {
        self.words
            .get(block as usize / 64)
            .is_some_and(|word| word >> (block % 64) & 1 == 1)
    }

    pub fn len(&self) -> u32 {
        self.len
    }
}

/// What a look at every hot page found.
#[derive(Debug, Default)]
pub struct Survey {
    /// Pages with rows that have not changed for long enough.
    pub quiet: Rc<BlockSet>,
    /// At most so many rows are on them.
    pub quiet_rows: u64,
    /// How many of them are not all-visible yet.
    pub invisible: u32,
    /// At most so many rows are on the hot side in all.
    pub rows: u64,
}

/// Looks at every page.
///
/// # Safety
/// `table` is open and locked against VACUUM and DDL.
pub unsafe fn survey(table: pg_sys::Relation, quiet_since: pg_sys::XLogRecPtr) -> Survey {
    let (mut found, mut quiet) = (Survey::default(), BlockSet::default());
    // SAFETY: as for this function.
    let (mut reader, blocks) = unsafe { (HotReader::begin(table), main_fork_blocks(table)) };
    for block in 0..blocks {
        pgrx::check_for_interrupts!();
        let page = reader.look(block);
        found.rows += u64::from(page.rows);
        if page.rows > 0 && page.lsn <= quiet_since {
            quiet.insert(block);
            found.quiet_rows += u64::from(page.rows);
            found.invisible += u32::from(!page.all_visible);
        }
    }
    found.quiet = Rc::new(quiet);
    found
}
