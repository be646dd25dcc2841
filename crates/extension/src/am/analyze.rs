//! ANALYZE: one sample of both sides.
//!
//! ```text
//!   analyze.c                       here
//!   next_block  (first)   ──>  any cold rows? no: only heap's callbacks from now on
//!   next_tuple  (first)   ──>  drain the blocks into a private sample of hot rows,
//!                              draw cold rows, both in proportion
//!   next_tuple  …         ──>  hot rows in TID order, then cold rows in TID order
//!   next_block  (second)  ──>  no more
//! ```
//!
//! The sampler of analyze.c knows hot blocks only. It computes `totalrows = liverows / sampled
//! blocks × blocks`, and this module sets `liverows`: adding `cold rows × sampled blocks / blocks`
//! makes the total equal to hot plus cold rows. The sizes of the two parts of the sample are in the
//! proportion of all hot to all cold rows, so that whatever is computed from the sample holds for
//! the whole table. For a table without hot blocks the total would be zero; therefore a table with
//! cold rows keeps one page.
//!
//! Cold rows are drawn at random from every group, or, where that would read more than
//! [`READ_LIMIT_BYTES`], from groups drawn at random from equal parts of the table. analyze.c keeps
//! the rows of the sample, of heap with pointers to long values, of the cold side with the values
//! themselves: so fewer are drawn where they would take more than [`SAMPLE_LIMIT_BYTES`].

use std::collections::BTreeSet;

use howdah_bridge::column_statistics::largest_target;
use howdah_bridge::hot::sample::{
    self, HotBlocks, HotSample, SampleCounts, SampledRows, random_below,
};
use howdah_bridge::io_cost::analyze_delay_point;
use howdah_bridge::slot::Slot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::table_am::scans::AnalyzeScans;
use howdah_bridge::tid::RowNumber;

use super::scan::{Scan, TwoSides};
use crate::errors::or_raise;
use crate::slot_writer::SlotWriter;
use crate::store::decoded_size::DecodedSize;
use crate::store::directory::GroupEntry;
use crate::store::marks;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, GroupRows, Wanted};
use crate::store::visibility::group_status;
use crate::types::TableLayout;

/// Approximate limit on the encoded bytes of cold rows that one ANALYZE reads.
const READ_LIMIT_BYTES: u64 = 512 << 20;
/// Approximate limit on the bytes of cold rows in the sample.
const SAMPLE_LIMIT_BYTES: u64 = 256 << 20;
/// The fewest rows that are drawn, however long they are.
const FEWEST_ROWS: f64 = 16.0;
/// Groups by which the length of a row is estimated.
const ESTIMATED_GROUPS: usize = 16;
/// The fewest groups that are sampled, however large they are.
const FEWEST_GROUPS: usize = 64;

/// The state of an ANALYZE scan between callbacks.
#[derive(Default)]
pub(super) struct AnalyzeState<'a>(Phase<'a>);

// There is one per ANALYZE, so the difference in size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Default)]
enum Phase<'a> {
    #[default]
    Start,
    HotOnly,
    /// The cold groups are known, and no row has been drawn yet.
    Both {
        blocks: HotBlocks<'a>,
        groups: Vec<LiveGroup>,
    },
    Feeding(Feed),
}

/// The sample on its way to analyze.c.
struct Feed {
    hot: SampledRows,
    cold: ColdFeed,
}

impl AnalyzeScans for TwoSides {
    fn next_sample_block<'a>(scan: &mut Scan<'a>, blocks: HotBlocks<'a>) -> bool {
        if let Phase::Start = scan.state().analyze.0 {
            let groups = live_groups(scan.table());
            if !groups.is_empty() {
                scan.state().analyze.0 = Phase::Both { blocks, groups };
                return true;
            }
            scan.state().analyze.0 = Phase::HotOnly;
        }
        match scan.state().analyze.0 {
            Phase::HotOnly => sample::next_block(&mut scan.hot(), blocks),
            _ => false,
        }
    }

    fn next_sample_row(scan: &mut Scan<'_>, counts: &mut SampleCounts<'_>, slot: Slot<'_>) -> bool {
        let (table, mut hot) = (scan.table(), scan.hot());
        let phase = &mut scan.state().analyze.0;
        if let Phase::HotOnly = phase {
            return sample::next_row(&mut hot, counts, slot);
        }
        if let Phase::Both { blocks, groups } = phase {
            let wanted = sample_rows_wanted(table);
            let drawn = HotSample::draw(&mut hot, *blocks, wanted, counts, slot);
            let groups = std::mem::take(groups);
            *phase = Phase::Feeding(prepare(table, drawn, &groups, wanted, counts));
        }
        let Phase::Feeding(feed) = phase else {
            return false;
        };
        feed.hot.next_into(slot) || feed.cold.next(table, slot)
    }
}

/// A group whose rows count as live, except some.
#[derive(Clone)]
struct LiveGroup {
    entry: GroupEntry,
    hidden: Option<RowSet>,
}

impl LiveGroup {
    fn live_rows(&self) -> u64 {
        let hidden = self.hidden.as_ref().map_or(0, RowSet::len);
        u64::from(self.entry.row_count.saturating_sub(hidden))
    }
}

/// The groups whose rows count as live. The table is locked.
fn live_groups(table: Table<'_>) -> Vec<LiveGroup> {
    let Some(store) = ColdStore::open(table, LockMode::AccessShare) else {
        return Vec::new();
    };
    if store.toast().main_fork_blocks() == 0 {
        return Vec::new();
    }
    let horizon = group_status::horizon(&store);
    or_raise(table.oid(), group_status::entries_not_dead(&store, horizon))
        .into_iter()
        .filter(|e| e.has_stored_rows() && e.status.counts_as_live())
        .map(|e| LiveGroup {
            entry: e.placed.entry,
            hidden: or_raise(table.oid(), marks::hidden_now(&store, &e.placed.entry)),
        })
        .collect()
}

/// Size of the sample that analyze.c will request: 300 rows per unit of statistics target.
fn sample_rows_wanted(table: Table<'_>) -> usize {
    300 * largest_target(table).max(1) as usize
}

/// Cuts both parts of the sample to proportion and counts the live rows of both.
fn prepare(
    table: Table<'_>,
    hot: HotSample,
    groups: &[LiveGroup],
    wanted: usize,
    counts: &mut SampleCounts<'_>,
) -> Feed {
    let cold_rows: u64 = groups.iter().map(LiveGroup::live_rows).sum();
    let hot_rows = hot.table_rows();
    let all_rows = hot_rows + cold_rows as f64;
    let mut share = (wanted as f64 / all_rows).min(1.0);
    if hot_rows > 0.0 {
        share = share.min(hot.row_count() as f64 / hot_rows);
    }
    let most_rows = SAMPLE_LIMIT_BYTES as f64 / row_bytes(table, groups).max(1.0);
    share = share.min(most_rows.max(FEWEST_ROWS) / cold_rows.max(1) as f64);
    let hot_share = (hot_rows * share).round() as usize;
    let chosen = choose_groups(groups);
    let readable: u64 = chosen.iter().map(LiveGroup::live_rows).sum();
    let cold_share = ((cold_rows as f64 * share).round() as u64).min(readable);
    if hot.all_blocks > 0 {
        *counts.live_rows +=
            cold_rows as f64 * f64::from(hot.sampled_blocks) / f64::from(hot.all_blocks);
    }
    Feed {
        hot: hot.into_rows(hot_share),
        cold: ColdFeed::new(chosen, cold_share),
    }
}

/// Bytes of a decoded row, on the average of some groups.
fn row_bytes(table: Table<'_>, groups: &[LiveGroup]) -> f64 {
    let Some(store) = ColdStore::open(table, LockMode::AccessShare) else {
        return 0.0;
    };
    let layout = TableLayout::of(table.descriptor());
    let forms = (&layout, table.descriptor());
    let (mut bytes, mut rows) = (0, 0);
    let stride = groups.len().div_ceil(ESTIMATED_GROUPS).max(1);
    for LiveGroup { entry, .. } in groups.iter().step_by(stride) {
        let size = or_raise(
            table.oid(),
            DecodedSize::of(&store, entry, entry.row_count, forms),
        );
        bytes += size.all();
        rows += u64::from(entry.row_count);
    }
    bytes as f64 / rows.max(1) as f64
}

/// All groups; or, if that would be too much to read, one group from each of equal parts of the
/// table.
fn choose_groups(groups: &[LiveGroup]) -> Vec<LiveGroup> {
    let total: u64 = groups.iter().map(|g| g.entry.body_bytes).sum();
    let affordable = match total.checked_div(groups.len() as u64) {
        None | Some(0) => groups.len(),
        Some(average) => (READ_LIMIT_BYTES / average) as usize,
    };
    let count = affordable.max(FEWEST_GROUPS).min(groups.len());
    (0..count)
        .map(|k| {
            let start = k * groups.len() / count;
            let end = (k + 1) * groups.len() / count;
            groups[start + random_below((end - start) as u64) as usize].clone()
        })
        .collect()
}

/// The cold part of the sample, decoded group by group.
struct ColdFeed {
    groups: Vec<LiveGroup>,
    /// Positions among the rows of all `groups`, ascending.
    picks: std::collections::btree_set::IntoIter<u64>,
    /// The current group, and the position of its first row among those of all groups.
    group: usize,
    group_start: u64,
    loaded: Option<GroupRows>,
    writer: SlotWriter,
}

impl ColdFeed {
    /// Draws about `live_count` live rows of the groups: hidden rows are picked too, and skipped.
    fn new(groups: Vec<LiveGroup>, live_count: u64) -> ColdFeed {
        let rows: u64 = groups.iter().map(|g| u64::from(g.entry.row_count)).sum();
        let live: u64 = groups.iter().map(LiveGroup::live_rows).sum();
        let count = (live_count * rows).checked_div(live).unwrap_or(0);
        // Floyd's algorithm: draws `count` different numbers, every subset equally likely.
        let mut picks = BTreeSet::new();
        for bound in rows - count.min(rows)..rows {
            let pick = random_below(bound + 1);
            if !picks.insert(pick) {
                picks.insert(bound);
            }
        }
        ColdFeed {
            picks: picks.into_iter(),
            group: 0,
            group_start: 0,
            loaded: None,
            writer: SlotWriter::new(),
            groups,
        }
    }

    /// The position in its group of the next picked row that is live; moves to its group.
    fn next_live(&mut self) -> Option<u32> {
        loop {
            let pick = self.picks.next()?;
            let row_count = |group: usize| u64::from(self.groups[group].entry.row_count);
            while pick >= self.group_start + row_count(self.group) {
                self.group_start += row_count(self.group);
                self.group += 1;
                self.loaded = None;
            }
            let position = (pick - self.group_start) as u32;
            let hidden = &self.groups[self.group].hidden;
            if !hidden.as_ref().is_some_and(|h| h.contains(position)) {
                return Some(position);
            }
        }
    }

    /// Stores the next row in the slot, which is one of the table's; `false` if there is none.
    fn next(&mut self, table: Table<'_>, slot: Slot<'_>) -> bool {
        let Some(position) = self.next_live() else {
            slot.clear();
            return false;
        };
        let oid = table.oid();
        if self.loaded.is_none() {
            analyze_delay_point();
            let Some(store) = ColdStore::open(table, LockMode::AccessShare) else {
                return false;
            };
            let group = ColdGroup::Stored(self.groups[self.group].entry);
            self.loaded = Some(or_raise(oid, GroupRows::load(&store, &group, &Wanted::All)));
        }
        let Some(rows) = &self.loaded else {
            return false;
        };
        let tid = RowNumber(rows.first_row.0 + u64::from(position)).tid();
        let origin = rows.origin;
        self.writer
            .write(slot, tid, oid, origin, |layout, desc, datums| {
                rows.fill(position, layout, desc, &Wanted::All, datums);
            });
        true
    }
}
