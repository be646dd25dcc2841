//! Why a requested compaction moved no rows.
//!
//! Rows are moved from all-visible pages only, so the other pages tell what keeps their rows: see
//! [`Obstacle`]. The most frequent reason is reported. A commit that was not flushed yet
//! (`synchronous_commit = off`) is no such reason, because compaction flushes WAL before it
//! vacuums.

use howdah_bridge::Oid;
use howdah_bridge::hot::obstacle::Obstacle;
use howdah_bridge::hot::page::HotReader;
use howdah_bridge::xid::Xid;

use super::task::open;
use crate::errors::notice;

/// Pages that are examined for the reason.
const MOST_LOOKED_AT: u32 = 1_000;

/// What stayed hot.
pub struct LeftBehind {
    table: String,
    /// Pages with rows.
    pages: u32,
    /// Pages that are not all-visible.
    invisible_pages: u32,
    /// Of the pages that were examined, those kept by writers in progress.
    unfinished: u32,
    /// Those kept by old snapshots.
    old: u32,
    /// Those that VACUUM has passed over.
    in_use: u32,
}

/// `None` if every page with rows is all-visible, or the table is gone. `horizon` is that of the
/// table's dead rows before the compaction: what held it back may have ended meanwhile.
pub fn left_behind(table: Oid, horizon: Xid) -> Option<LeftBehind> {
    let step = open(table, true)?;
    let table = step.table();
    let mut left = LeftBehind {
        table: table.name(),
        pages: 0,
        invisible_pages: 0,
        unfinished: 0,
        old: 0,
        in_use: 0,
    };
    let mut reader = HotReader::begin(table);
    for block in 0..table.main_fork_blocks() {
        howdah_bridge::check_for_interrupts!();
        let page = reader.look(block);
        left.pages += u32::from(page.rows > 0);
        if page.rows == 0 || page.all_visible {
            continue;
        }
        left.invisible_pages += 1;
        if left.invisible_pages <= MOST_LOOKED_AT {
            *match reader.obstacle(block, horizon) {
                Obstacle::Unfinished => &mut left.unfinished,
                Obstacle::OldSnapshot => &mut left.old,
                Obstacle::InUse => &mut left.in_use,
            } += 1;
        }
    }
    (left.invisible_pages > 0).then_some(left)
}

impl LeftBehind {
    pub fn tell(&self) {
        let (reason, hint) = self.reason();
        let message = format!(
            "no row of \"{}\" became cold: on {} of {} pages {reason}",
            self.table, self.invisible_pages, self.pages
        );
        notice(message, hint);
    }

    fn reason(&self) -> (&'static str, &'static str) {
        if self.unfinished >= self.old.max(self.in_use) {
            return (
                "rows were changed by transactions that are still running",
                "Compact again when they have ended. Prepared transactions count as running.",
            );
        }
        if self.old >= self.in_use {
            return (
                "not every transaction sees the same rows",
                "Old snapshots are held by long transactions, prepared transactions, replication slots and standbys. \
                 Compact again when they have gone on.",
            );
        }
        (
            "nothing could be vacuumed",
            "Other sessions were using these pages, for example by a cursor that stands on one. Compact again when \
             they have gone on.",
        )
    }
}
