//! ANALYZE: one sample of both sides.
//!
//! ```text
//!   analyze.c                       here
//!   next_block  (first)   ──>  any cold rows? no: only heap's callbacks from now on
//!   next_tuple  (first)   ──>  drain the block stream into a private reservoir of hot rows,
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
//! [`READ_LIMIT_BYTES`], from groups drawn at random from equal parts of the table.

use std::collections::BTreeSet;

use howdah_bridge::index_build::OuterScan;
use howdah_bridge::slot::Slot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::table_am::{
    self, HotSample, Routine, SampleRequest, SampleRows, SampleStream, SampledRows, delay_point,
    random_below, sample_size,
};
use howdah_bridge::tid::RowNumber;

use super::scan::{inner_of, ours};
use crate::errors::or_raise;
use crate::slot_writer::SlotWriter;
use crate::store::directory::GroupEntry;
use crate::store::marks;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, GroupRows, Wanted};
use crate::store::visibility::group_status;

/// Approximate limit on the encoded bytes of cold rows that one ANALYZE reads.
const READ_LIMIT_BYTES: u64 = 512 << 20;
/// The fewest groups that are sampled, however large they are.
const FEWEST_GROUPS: usize = 64;

pub(super) fn install(am: &mut Routine) {
    table_am::set_sample_rows::<BothSides>(am);
}

/// The state of an ANALYZE scan between callbacks.
#[derive(Default)]
pub struct AnalyzeState(Phase);

// There is one per ANALYZE, so the difference in size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Default)]
enum Phase {
    #[default]
    Start,
    HotOnly,
    /// The cold groups are known, and no row has been drawn yet.
    Both {
        stream: SampleStream,
        groups: Vec<LiveGroup>,
    },
    Feeding(Feed),
}

/// The sample on its way to analyze.c.
struct Feed {
    hot: SampledRows,
    cold: ColdFeed,
}

struct BothSides;

impl SampleRows for BothSides {
    fn next_block(scan: OuterScan<'_>, stream: SampleStream) -> bool {
        let table = scan.table();
        // SAFETY: the scan is ours and open, and its state is used by this callback alone.
        let state = unsafe { &mut ours(scan.raw()).state().analyze.0 };
        if let Phase::Start = state {
            let groups = live_groups(table);
            if !groups.is_empty() {
                *state = Phase::Both { stream, groups };
                return true;
            }
            *state = Phase::HotOnly;
        }
        match state {
            Phase::HotOnly => table_am::heap_next_block(&inner_of(scan), stream),
            _ => false,
        }
    }

    fn next_row(scan: OuterScan<'_>, request: &mut SampleRequest<'_>) -> bool {
        let (table, inner) = (scan.table(), inner_of(scan));
        // SAFETY: the scan is ours and open, and its state is used by this callback alone.
        let state = unsafe { &mut ours(scan.raw()).state().analyze.0 };
        if let Phase::HotOnly = state {
            return table_am::heap_next_row(&inner, request);
        }
        if let Phase::Both { stream, groups } = state {
            let wanted = sample_size(table);
            let hot = HotSample::draw(&inner, *stream, request, wanted);
            let groups = std::mem::take(groups);
            *state = Phase::Feeding(prepare(hot, wanted, &groups, request.live_rows));
        }
        let Phase::Feeding(feed) = state else {
            return false;
        };
        feed.hot.store_next(request.slot) || feed.cold.next(table, request.slot)
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

/// The groups whose rows count as live.
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

/// Cuts both parts of the sample, of so many rows in all, to proportion, and sets `live_rows` for
/// both.
fn prepare(hot: HotSample, wanted: usize, groups: &[LiveGroup], live_rows: &mut f64) -> Feed {
    let cold_rows: u64 = groups.iter().map(LiveGroup::live_rows).sum();
    let hot_rows = hot.table_rows();
    let all_rows = hot_rows + cold_rows as f64;
    let mut share = (wanted as f64 / all_rows).min(1.0);
    if hot_rows > 0.0 {
        share = share.min(hot.len() as f64 / hot_rows);
    }
    let hot_share = (hot_rows * share).round() as usize;
    let chosen = choose_groups(groups);
    let readable: u64 = chosen.iter().map(LiveGroup::live_rows).sum();
    let cold_share = ((cold_rows as f64 * share).round() as u64).min(readable);
    *live_rows += hot.in_sample(cold_rows as f64);
    Feed {
        hot: hot.take(hot_share),
        cold: ColdFeed::new(chosen, cold_share),
    }
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

    /// Stores the next live row in the slot, which is one of the table's.
    fn next(&mut self, table: Table<'_>, slot: Slot<'_>) -> bool {
        let Some(position) = self.next_live() else {
            slot.clear();
            return false;
        };
        let oid = table.oid();
        if self.loaded.is_none() {
            delay_point();
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
