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

use howdah_bridge::slot::Slot;
use howdah_bridge::store::ColdStore;
use howdah_bridge::table::{LockMode, Table};
use howdah_bridge::tid::{RowNumber, block_of};
use pgrx::{pg_guard, pg_sys};

use super::heap;
use super::scan::ours;
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

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.scan_analyze_next_block = Some(scan_analyze_next_block);
    am.scan_analyze_next_tuple = Some(scan_analyze_next_tuple);
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
        stream: *mut pg_sys::ReadStream,
        groups: Vec<LiveGroup>,
    },
    Feeding(Feed),
}

/// The sample on its way to analyze.c.
struct Feed {
    hot: std::vec::IntoIter<pg_sys::HeapTuple>,
    cold: ColdFeed,
}

#[pg_guard]
unsafe extern "C-unwind" fn scan_analyze_next_block(
    scan: pg_sys::TableScanDesc,
    stream: *mut pg_sys::ReadStream,
) -> bool {
    // SAFETY: the scan is ours; the stream outlives the sampling.
    unsafe {
        let scan = ours(scan);
        let table = scan.base.rs_rd;
        if let Phase::Start = scan.state().analyze.0 {
            let groups = live_groups(table);
            if !groups.is_empty() {
                scan.state().analyze.0 = Phase::Both { stream, groups };
                return true;
            }
            scan.state().analyze.0 = Phase::HotOnly;
        }
        match scan.state().analyze.0 {
            Phase::HotOnly => {
                (heap().scan_analyze_next_block.unwrap_unchecked())(scan.heap(), stream)
            }
            _ => false,
        }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn scan_analyze_next_tuple(
    scan: pg_sys::TableScanDesc,
    oldest_xmin: pg_sys::TransactionId,
    live_rows: *mut f64,
    dead_rows: *mut f64,
    slot: *mut pg_sys::TupleTableSlot,
) -> bool {
    // SAFETY: the scan is ours and a block was announced.
    unsafe {
        let scan = ours(scan);
        let table = scan.base.rs_rd;
        let heap_scan = scan.heap();
        let state = &mut scan.state().analyze.0;
        if let Phase::HotOnly = state {
            return (heap().scan_analyze_next_tuple.unwrap_unchecked())(
                heap_scan,
                oldest_xmin,
                live_rows,
                dead_rows,
                slot,
            );
        }
        if let Phase::Both { stream, groups } = state {
            let hot = HotSample::draw(heap_scan, *stream, oldest_xmin, live_rows, dead_rows, slot);
            let groups = std::mem::take(groups);
            *state = Phase::Feeding(prepare(table, hot, &groups, live_rows));
        }
        let Phase::Feeding(feed) = state else {
            return false;
        };
        if let Some(tuple) = feed.hot.next() {
            pg_sys::ExecForceStoreHeapTuple(tuple, slot, true);
            return true;
        }
        feed.cold.next(table, slot)
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
///
/// # Safety
/// The table is open and locked.
unsafe fn live_groups(table: pg_sys::Relation) -> Vec<LiveGroup> {
    // SAFETY: the table is open and locked.
    unsafe {
        let table = Table::from_raw(table);
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
}

/// Size of the sample that analyze.c will request: 300 rows per unit of statistics target.
///
/// # Safety
/// The table is open.
unsafe fn sample_rows_wanted(table: pg_sys::Relation) -> usize {
    // SAFETY: the table is open; each catalog tuple is released after use.
    unsafe {
        let desc = (*table).rd_att;
        let mut target = pg_sys::default_statistics_target;
        for attno in 1..=(*desc).natts as i16 {
            let cache = pg_sys::SysCacheIdentifier::ATTNUM as i32;
            let (relid, attno) = ((*table).rd_id.into(), pg_sys::Datum::from(attno));
            let tuple = pg_sys::SearchSysCache2(cache, relid, attno);
            if tuple.is_null() {
                continue;
            }
            let mut is_null = false;
            let number = pg_sys::Anum_pg_attribute_attstattarget as i16;
            let own = pg_sys::SysCacheGetAttr(cache, tuple, number, &mut is_null);
            if !is_null {
                target = target.max(i32::from(own.value() as i16));
            }
            pg_sys::ReleaseSysCache(tuple);
        }
        300 * target.max(1) as usize
    }
}

/// A number in `0..bound`.
fn random_below(bound: u64) -> u64 {
    // SAFETY: the server's own generator, used by the main thread only.
    unsafe { pg_sys::pg_prng_uint64_range(&raw mut pg_sys::pg_global_prng_state, 0, bound - 1) }
}

/// A random sample of the live rows in the sampled hot blocks.
struct HotSample {
    rows: Vec<pg_sys::HeapTuple>,
    /// Live rows in the sampled blocks.
    live_rows: f64,
    sampled_blocks: u32,
    all_blocks: u32,
}

impl HotSample {
    /// # Safety
    /// Scan and stream are those of one ANALYZE, begun and not ended; the slot is a buffer slot of
    /// the table; the counts may be written.
    unsafe fn draw(
        scan: pg_sys::TableScanDesc,
        stream: *mut pg_sys::ReadStream,
        oldest_xmin: pg_sys::TransactionId,
        live_rows: *mut f64,
        dead_rows: *mut f64,
        slot: *mut pg_sys::TupleTableSlot,
    ) -> HotSample {
        // SAFETY: heap's callbacks on heap's descriptor, in the order of analyze.c.
        unsafe {
            let next_block = heap().scan_analyze_next_block.unwrap_unchecked();
            let next_tuple = heap().scan_analyze_next_tuple.unwrap_unchecked();
            let wanted = sample_rows_wanted((*scan).rs_rd);
            let mut rows: Vec<pg_sys::HeapTuple> = Vec::new();
            let (mut seen, mut sampled_blocks) = (0, 0);
            while next_block(scan, stream) {
                sampled_blocks += 1;
                pg_sys::vacuum_delay_point(true);
                while next_tuple(scan, oldest_xmin, live_rows, dead_rows, slot) {
                    seen += 1;
                    if rows.len() < wanted {
                        rows.push(pg_sys::ExecCopySlotHeapTuple(slot));
                        continue;
                    }
                    let place = random_below(seen) as usize;
                    if let Some(row) = rows.get_mut(place) {
                        pg_sys::heap_freetuple(*row);
                        *row = pg_sys::ExecCopySlotHeapTuple(slot);
                    }
                }
                pg_sys::pgstat_progress_update_param(
                    pg_sys::PROGRESS_ANALYZE_BLOCKS_DONE as i32,
                    i64::from(sampled_blocks),
                );
            }
            HotSample {
                rows,
                live_rows: *live_rows,
                sampled_blocks,
                all_blocks: (*scan.cast::<pg_sys::HeapScanDescData>()).rs_nblocks,
            }
        }
    }

    /// Hot rows in the whole table, estimated.
    fn table_rows(&self) -> f64 {
        match self.sampled_blocks {
            0 => 0.0,
            sampled => self.live_rows / f64::from(sampled) * f64::from(self.all_blocks),
        }
    }
}

/// Cuts both parts of the sample to proportion and sets `live_rows` for both.
///
/// # Safety
/// The table is open and locked; `live_rows` may be written.
unsafe fn prepare(
    table: pg_sys::Relation,
    mut hot: HotSample,
    groups: &[LiveGroup],
    live_rows: *mut f64,
) -> Feed {
    // SAFETY: as for scan_analyze_next_tuple.
    unsafe {
        let cold_rows: u64 = groups.iter().map(LiveGroup::live_rows).sum();
        let hot_rows = hot.table_rows();
        let all_rows = hot_rows + cold_rows as f64;
        let mut share = (sample_rows_wanted(table) as f64 / all_rows).min(1.0);
        if hot_rows > 0.0 {
            share = share.min(hot.rows.len() as f64 / hot_rows);
        }
        let hot_share = ((hot_rows * share).round() as usize).min(hot.rows.len());
        let chosen = choose_groups(groups);
        let readable: u64 = chosen.iter().map(LiveGroup::live_rows).sum();
        let cold_share = ((cold_rows as f64 * share).round() as u64).min(readable);
        if hot.all_blocks > 0 {
            *live_rows +=
                cold_rows as f64 * f64::from(hot.sampled_blocks) / f64::from(hot.all_blocks);
        }
        for i in 0..hot_share {
            let other = i + random_below((hot.rows.len() - i) as u64) as usize;
            hot.rows.swap(i, other);
        }
        for row in hot.rows.drain(hot_share..) {
            pg_sys::heap_freetuple(row);
        }
        hot.rows.sort_by_key(|&row| {
            let tid = &(*row).t_self;
            (block_of(tid), tid.ip_posid)
        });
        Feed {
            hot: hot.rows.into_iter(),
            cold: ColdFeed::new(chosen, cold_share),
        }
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

    /// # Safety
    /// The table is open and locked; the slot is one of its slots.
    unsafe fn next(&mut self, table: pg_sys::Relation, slot: *mut pg_sys::TupleTableSlot) -> bool {
        let Some(position) = self.next_live() else {
            // SAFETY: the slot belongs to the caller.
            unsafe { pg_sys::ExecClearTuple(slot) };
            return false;
        };
        // SAFETY: the table is open; datums live in the row memory until the slot copied them.
        unsafe {
            let table = Table::from_raw(table);
            let oid = table.oid();
            if self.loaded.is_none() {
                pg_sys::vacuum_delay_point(true);
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
            self.writer.write(
                Slot::from_raw(slot),
                tid,
                oid,
                rows.origin,
                |layout, desc, datums| {
                    rows.fill(position, layout, desc, &Wanted::All, datums);
                },
            );
            true
        }
    }
}
