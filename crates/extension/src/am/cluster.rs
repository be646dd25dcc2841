//! VACUUM FULL and CLUSTER.
//!
//! ```text
//!   old table                      new table
//!   hot rows   ──heap's rewrite──> hot rows, in index order if asked
//!   cold groups ──piece by piece─> the same groups, same row numbers and value ids
//!   mark, gaps ──────────────────> mark, note that no index knows the gaps
//! ```
//!
//! Heap's callback cannot be called: it would open its scan through our routine. The hot part
//! mirrors `heapam_relation_copy_for_cluster` over heap's own scan and the rewrite machinery of
//! the server, which keeps recently dead versions and their update chains. A hot row
//! that was moved to a cold one keeps its deletion, but not the link: a writer that still waits for it
//! finds it deleted, as after any VACUUM FULL.
//!
//! The cold part goes into the new table's own TOAST relation, whose contents the server then
//! swaps in, so value ids stay valid; out-of-line values of hot rows keep their ids likewise.
//! Groups that everybody sees are written frozen. Others keep the transaction fields
//! of their entry, on every piece too, so that what is dead later can be removed whole. Groups dead to
//! everyone are left out. Nobody else can see the new table before we commit.
//!
//! A group is encoded anew in three cases: it lacks columns that were added with a default (the
//! server forgets such defaults after a rewrite), it holds a dropped column, or marks hide some
//! of its rows from everybody and no row from some. Else marks are carried over with it.
//!
//! The order of cold rows is not changed here; that is what a sort key is for.

use howdah_bridge::ffi;
use howdah_bridge::relation::{ensure_first_page, main_fork_blocks, name_of};
use howdah_bridge::store::{ColdStore, CopiedAs};
use howdah_bridge::tid::is_cold;
use howdah_columnar::RowGroupBuilder;
use pgrx::{pg_guard, pg_sys};

use super::scan;
use crate::errors::{ColdError, or_raise};
use crate::load;
use crate::settings;
use crate::slot_writer::RowMemory;
use crate::store::directory::{self, GroupEntry, GroupFlags};
use crate::store::fate::{self, Fate, FatedEntry};
use crate::store::gaps::Gaps;
use crate::store::marks;
use crate::store::open_group::OpenGroup;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, GroupRows, RowDatums, Wanted};
use crate::types::{TableLayout, push_datum};

pub(super) fn install(am: &mut pg_sys::TableAmRoutine) {
    am.relation_copy_for_cluster = Some(relation_copy_for_cluster);
}

/// Row versions met, as CLUSTER reports them.
#[derive(Default)]
struct Counts {
    kept: f64,
    removed: f64,
    recently_dead: f64,
}

#[pg_guard]
unsafe extern "C-unwind" fn relation_copy_for_cluster(
    old_table: pg_sys::Relation,
    new_table: pg_sys::Relation,
    old_index: pg_sys::Relation,
    use_sort: bool,
    oldest_xmin: pg_sys::TransactionId,
    xid_cutoff: *mut pg_sys::TransactionId,
    multi_cutoff: *mut pg_sys::MultiXactId,
    num_tuples: *mut f64,
    tups_vacuumed: *mut f64,
    tups_recently_dead: *mut f64,
) {
    // SAFETY: arguments come from CLUSTER, which holds both tables open and exclusively locked.
    unsafe {
        load::flush_relation((*old_table).rd_id);
        let mut counts = Counts::default();
        let mut hot = HotCopy {
            old_table,
            new_table,
            oldest_xmin,
            rewrite: ffi::begin_heap_rewrite(
                old_table,
                new_table,
                oldest_xmin,
                *xid_cutoff,
                *multi_cutoff,
            ),
            values: RowDatums::new((*(*new_table).rd_att).natts as usize),
        };
        hot.copy(old_index, use_sort, &mut counts);
        ffi::end_heap_rewrite(hot.rewrite);
        let horizon = older_than_all(oldest_xmin, *xid_cutoff);
        copy_cold(old_table, new_table, horizon, &mut counts);
        *num_tuples += counts.kept;
        *tups_vacuumed += counts.removed;
        *tups_recently_dead += counts.recently_dead;
    }
}

/// What everybody in this database sees as finished. The new table's `relfrozenxid` will be `xid_cutoff`,
/// which is `oldest_xmin` or the old table's own `relfrozenxid` if that is younger: then a transaction of
/// another database holds back our snapshot, and with it the horizon, but an earlier VACUUM of the table
/// knew already that nobody here needs what is older. The cold store may be less frozen than the table.
fn older_than_all(
    oldest_xmin: pg_sys::TransactionId,
    xid_cutoff: pg_sys::TransactionId,
) -> pg_sys::TransactionId {
    // SAFETY: a comparison of two transaction ids.
    if unsafe { pg_sys::TransactionIdPrecedes(oldest_xmin, xid_cutoff) } {
        xid_cutoff
    } else {
        oldest_xmin
    }
}

struct HotCopy {
    old_table: pg_sys::Relation,
    new_table: pg_sys::Relation,
    oldest_xmin: pg_sys::TransactionId,
    rewrite: ffi::RewriteState,
    values: RowDatums,
}

/// Where the old hot rows come from.
enum Source {
    Index(pg_sys::IndexScanDesc),
    Heap {
        ours: pg_sys::TableScanDesc,
        inner: pg_sys::HeapScanDesc,
    },
}

impl Source {
    unsafe fn begin(table: pg_sys::Relation, index: Option<pg_sys::Relation>) -> Source {
        // SAFETY: table and index are open. SnapshotAny: recently dead rows must be seen.
        unsafe {
            let any = &raw mut pg_sys::SnapshotAnyData;
            if let Some(index) = index {
                report(
                    pg_sys::PROGRESS_CLUSTER_PHASE,
                    i64::from(pg_sys::PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP),
                );
                let index_oid = i64::from((*index).rd_id.to_u32());
                report(pg_sys::PROGRESS_CLUSTER_INDEX_RELID, index_oid);
                let none = std::ptr::null_mut();
                let scan = pg_sys::index_beginscan(table, index, any, none, 0, 0);
                pg_sys::index_rescan(scan, std::ptr::null_mut(), 0, std::ptr::null_mut(), 0);
                return Source::Index(scan);
            }
            report(
                pg_sys::PROGRESS_CLUSTER_PHASE,
                i64::from(pg_sys::PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP),
            );
            let ours = pg_sys::table_beginscan(table, any, 0, std::ptr::null_mut());
            let inner = scan::ours(ours).heap().cast::<pg_sys::HeapScanDescData>();
            report(
                pg_sys::PROGRESS_CLUSTER_TOTAL_HEAP_BLKS,
                i64::from((*inner).rs_nblocks),
            );
            Source::Heap { ours, inner }
        }
    }

    /// The next hot row version.
    unsafe fn next(&self, slot: *mut pg_sys::TupleTableSlot) -> bool {
        let forward = pg_sys::ScanDirection::ForwardScanDirection;
        // SAFETY: the scan is open, the slot a buffer slot.
        unsafe {
            match *self {
                Source::Heap { inner, .. } => {
                    let found = pg_sys::heap_getnextslot(inner.cast(), forward, slot);
                    report(
                        pg_sys::PROGRESS_CLUSTER_HEAP_BLKS_SCANNED,
                        i64::from(blocks_scanned(inner, found)),
                    );
                    found
                }
                Source::Index(scan) => loop {
                    if !(*scan).xs_heap_continue {
                        let tid = pg_sys::index_getnext_tid(scan, forward);
                        if tid.is_null() {
                            return false;
                        }
                        if is_cold(&*tid) {
                            continue;
                        }
                    }
                    if pg_sys::index_fetch_heap(scan, slot) {
                        if (*scan).xs_recheck {
                            pgrx::error!("CLUSTER does not support lossy index conditions");
                        }
                        return true;
                    }
                },
            }
        }
    }

    unsafe fn end(self) {
        // SAFETY: begun by `begin`, ended once.
        unsafe {
            match self {
                Source::Index(scan) => pg_sys::index_endscan(scan),
                Source::Heap { ours, .. } => pg_sys::table_endscan(ours),
            }
        }
    }
}

/// A synchronized scan may start in the middle and wrap around.
unsafe fn blocks_scanned(scan: pg_sys::HeapScanDesc, found: bool) -> pg_sys::BlockNumber {
    // SAFETY: the scan is open.
    unsafe {
        let blocks = (*scan).rs_nblocks;
        if !found {
            return blocks;
        }
        let from_start =
            u64::from((*scan).rs_cblock) + u64::from(blocks) - u64::from((*scan).rs_startblock);
        (from_start % u64::from(blocks.max(1))) as u32 + 1
    }
}

impl HotCopy {
    unsafe fn copy(&mut self, old_index: pg_sys::Relation, use_sort: bool, counts: &mut Counts) {
        // SAFETY: both tables and the index are open and exclusively locked.
        unsafe {
            let by_index = (!old_index.is_null() && !use_sort).then_some(old_index);
            let sort = if use_sort {
                let none = pg_sys::TUPLESORT_NONE as i32;
                pg_sys::tuplesort_begin_cluster(
                    (*self.old_table).rd_att,
                    old_index,
                    pg_sys::maintenance_work_mem,
                    std::ptr::null_mut(),
                    none,
                )
            } else {
                std::ptr::null_mut()
            };
            let source = Source::begin(self.old_table, by_index);
            let slot = pg_sys::table_slot_create(self.old_table, std::ptr::null_mut());
            while source.next(slot) {
                pgrx::check_for_interrupts!();
                let tuple = pg_sys::ExecFetchSlotHeapTuple(slot, false, std::ptr::null_mut());
                let buffer = (*slot.cast::<pg_sys::BufferHeapTupleTableSlot>()).buffer;
                if !self.must_copy(tuple, buffer, counts) {
                    continue;
                }
                counts.kept += 1.0;
                let rows = counts.kept as i64;
                report(pg_sys::PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED, rows);
                if sort.is_null() {
                    self.write(tuple);
                    report(pg_sys::PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, rows);
                } else {
                    pg_sys::tuplesort_putheaptuple(sort, tuple);
                }
            }
            source.end();
            pg_sys::ExecDropSingleTupleTableSlot(slot);
            if !sort.is_null() {
                self.write_sorted(sort);
            }
        }
    }

    /// Whether anybody may still see the version; counts it if not live.
    unsafe fn must_copy(
        &self,
        tuple: pg_sys::HeapTuple,
        buffer: pg_sys::Buffer,
        counts: &mut Counts,
    ) -> bool {
        use pg_sys::HTSV_Result::*;
        // SAFETY: the slot holds the buffer's pin.
        unsafe {
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_SHARE as i32);
            let state = pg_sys::HeapTupleSatisfiesVacuum(tuple, self.oldest_xmin, buffer);
            let header = (*tuple).t_data;
            let foreign = match state {
                HEAPTUPLE_INSERT_IN_PROGRESS => {
                    Some(("insert", howdah_bridge::hot::xmin_of(header)))
                }
                HEAPTUPLE_DELETE_IN_PROGRESS => {
                    Some(("delete", pg_sys::HeapTupleHeaderGetUpdateXid(header)))
                }
                _ => None,
            };
            pg_sys::LockBuffer(buffer, pg_sys::BUFFER_LOCK_UNLOCK as i32);
            if let Some((what, xid)) = foreign
                && !pg_sys::TransactionIdIsCurrentTransactionId(xid)
            {
                let table = name_of(self.old_table);
                pgrx::warning!("concurrent {what} in progress within table \"{table}\"");
            }
            match state {
                HEAPTUPLE_DEAD => {
                    counts.removed += 1.0;
                    if ffi::rewrite_heap_dead_tuple(self.rewrite, tuple) {
                        // An earlier recently dead version turned out to be dead.
                        counts.removed += 1.0;
                        counts.recently_dead -= 1.0;
                    }
                    false
                }
                HEAPTUPLE_RECENTLY_DEAD | HEAPTUPLE_DELETE_IN_PROGRESS => {
                    counts.recently_dead += 1.0;
                    true
                }
                _ => true,
            }
        }
    }

    /// Mirrors `reform_and_rewrite_tuple`: dropped columns become NULL.
    unsafe fn write(&mut self, tuple: pg_sys::HeapTuple) {
        // SAFETY: the tuple is valid; the arrays have an entry per attribute.
        unsafe {
            let new_desc = (*self.new_table).rd_att;
            let (values, nulls) = (
                self.values.values.as_mut_ptr(),
                self.values.nulls.as_mut_ptr(),
            );
            pg_sys::heap_deform_tuple(tuple, (*self.old_table).rd_att, values, nulls);
            for i in 0..(*new_desc).natts {
                if (*pg_sys::TupleDescAttr(new_desc, i)).attisdropped {
                    *nulls.add(i as usize) = true;
                }
            }
            let copy = pg_sys::heap_form_tuple(new_desc, values, nulls);
            ffi::rewrite_heap_tuple(self.rewrite, tuple, copy);
            pg_sys::heap_freetuple(copy);
        }
    }

    unsafe fn write_sorted(&mut self, sort: *mut pg_sys::Tuplesortstate) {
        // SAFETY: the sort was begun by `copy`; its tuples live until the next is asked for.
        unsafe {
            report(
                pg_sys::PROGRESS_CLUSTER_PHASE,
                i64::from(pg_sys::PROGRESS_CLUSTER_PHASE_SORT_TUPLES),
            );
            pg_sys::tuplesort_performsort(sort);
            report(
                pg_sys::PROGRESS_CLUSTER_PHASE,
                i64::from(pg_sys::PROGRESS_CLUSTER_PHASE_WRITE_NEW_HEAP),
            );
            let mut written = 0;
            loop {
                pgrx::check_for_interrupts!();
                let tuple = pg_sys::tuplesort_getheaptuple(sort, true);
                if tuple.is_null() {
                    break;
                }
                self.write(tuple);
                written += 1;
                report(pg_sys::PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN, written);
            }
            pg_sys::tuplesort_end(sort);
        }
    }
}

unsafe fn copy_cold(
    old_table: pg_sys::Relation,
    new_table: pg_sys::Relation,
    oldest_xmin: pg_sys::TransactionId,
    counts: &mut Counts,
) {
    // SAFETY: both tables are open and exclusively locked.
    unsafe {
        let oid = (*old_table).rd_id;
        let Some(old) = ColdStore::open(old_table, pg_sys::AccessShareLock) else {
            return;
        };
        if main_fork_blocks(old.toast()) == 0 {
            return;
        }
        let Some((_, mark)) = or_raise(oid, directory::high_water(&old)) else {
            return;
        };
        let Some(new) = ColdStore::open(new_table, pg_sys::RowExclusiveLock) else {
            return;
        };
        or_raise(oid, directory::start_high_water_at(&new, mark));
        let mut copy = ColdCopy {
            old_table,
            old,
            new,
            oldest_xmin,
            cid: pg_sys::GetCurrentCommandId(true),
            layout: TableLayout::of((*old_table).rd_att),
            defaults: columns_with_missing_value((*old_table).rd_att),
        };
        let mut entries = or_raise(oid, fate::entries_not_dead(&copy.old, oldest_xmin));
        entries.retain(FatedEntry::has_stored_rows);
        let mut carried = Vec::new();
        for entry in &entries {
            let kept = or_raise(oid, copy.group(entry));
            if kept > 0 {
                carried.push(*entry);
            }
            counts.kept += f64::from(kept);
            counts.removed += f64::from(entry.placed.entry.row_count - kept);
            if matches!(entry.fate, Fate::RecentlyDead | Fate::Leaving(_)) {
                counts.recently_dead += f64::from(entry.placed.entry.row_count);
            }
            report(
                pg_sys::PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN,
                counts.kept as i64,
            );
        }
        // The indexes are about to be built from what was carried over.
        Gaps::between(&carried, mark).note_as_cleaned(&copy.new);
        ensure_first_page(new_table);
    }
}

/// For each attribute, whether rows that lack it have a value for it.
unsafe fn columns_with_missing_value(desc: pg_sys::TupleDesc) -> Vec<bool> {
    // SAFETY: the descriptor belongs to an open relation.
    unsafe {
        (0..(*desc).natts)
            .map(|i| (*pg_sys::TupleDescAttr(desc, i)).atthasmissing)
            .collect()
    }
}

struct ColdCopy {
    old_table: pg_sys::Relation,
    old: ColdStore,
    new: ColdStore,
    oldest_xmin: pg_sys::TransactionId,
    cid: pg_sys::CommandId,
    layout: TableLayout,
    defaults: Vec<bool>,
}

impl ColdCopy {
    /// Carries a group over; the answer is how many rows were kept.
    unsafe fn group(&mut self, fated: &FatedEntry) -> Result<u32, ColdError> {
        let settled = fated.fate == Fate::Live && fated.stamp.is_settled(self.oldest_xmin);
        let copied_as = if settled {
            CopiedAs::Frozen
        } else {
            CopiedAs::Stamped(fated.stamp, self.oldest_xmin)
        };
        let entry = fated.placed.entry;
        let open = OpenGroup::open(&self.old, entry)?;
        let mut gone = None;
        if !entry.flags.are_clear() {
            let fates = marks::fates(&self.old, &entry, self.oldest_xmin)?;
            if settled
                && fates.leaving.is_empty()
                && fates.dead.iter().all(|p| fates.gone.contains(p))
            {
                gone = (!fates.gone.is_empty()).then_some(fates.gone);
            } else {
                let (old, new) = (&self.old, &self.new);
                marks::copy(old, new, &entry, self.cid, self.oldest_xmin);
            }
        }
        let entry = if gone
            .as_ref()
            .is_some_and(|gone| gone.len() == entry.row_count)
        {
            return Ok(0);
        } else if gone.is_some() || self.needs_encoding(&open) {
            // SAFETY: as for copy_cold.
            unsafe { self.encode_anew(entry, gone.as_ref(), copied_as)? }
        } else {
            let len = u64::from(entry.footer_bytes) + entry.body_bytes;
            self.new
                .copy_value(&self.old, entry.value_id, len, self.cid, copied_as)?;
            entry
        };
        directory::insert_copy(&self.new, &entry, self.cid, copied_as);
        Ok(entry.row_count)
    }

    fn needs_encoding(&self, open: &OpenGroup) -> bool {
        let stored = open.column_count();
        let lacks_default = self.defaults.iter().skip(stored).any(|&has| has);
        let holds_dropped = self
            .layout
            .attributes
            .iter()
            .take(stored)
            .enumerate()
            .any(|(i, a)| {
                a.dropped && open.footer.column(i).stats.null_count < open.row_count() as usize
            });
        lacks_default || holds_dropped
    }

    /// Decodes the group and writes it with the table's columns of today, under its old id, and
    /// without some rows if that is wanted.
    unsafe fn encode_anew(
        &self,
        entry: GroupEntry,
        without: Option<&RowSet>,
        copied_as: CopiedAs,
    ) -> Result<GroupEntry, ColdError> {
        // SAFETY: the table is open; datums live in the row memory until the builder copied them.
        unsafe {
            let desc = (*self.old_table).rd_att;
            let rows = GroupRows::load(&self.old, &ColdGroup::Stored(entry), &Wanted::All)?;
            let mut builder = RowGroupBuilder::new(&self.layout.column_types());
            let mut datums = RowDatums::new(self.layout.attributes.len());
            let memory = RowMemory::new();
            let dropped = |row: u32| without.is_some_and(|rows| rows.contains(row));
            for row in (0..entry.row_count).filter(|&row| !dropped(row)) {
                memory.with(|| {
                    rows.fill(row, &self.layout, desc, &Wanted::All, &mut datums);
                    for (i, attribute) in self.layout.attributes.iter().enumerate() {
                        let (value, is_null) = (datums.values[i], datums.nulls[i]);
                        push_datum(builder.column_mut(i), attribute, value, is_null);
                    }
                });
                builder.finish_row();
            }
            memory.delete();
            let encoded = builder.encode(settings::effort_of((*self.old_table).rd_id))?;
            pgrx::check_for_interrupts!();
            let parts = [encoded.footer.as_slice(), encoded.body.as_slice()];
            self.new
                .write_copy(entry.value_id, &parts, self.cid, copied_as);
            Ok(GroupEntry {
                footer_bytes: encoded.footer.len() as u32,
                body_bytes: encoded.body.len() as u64,
                row_count: builder.row_count() as u32,
                flags: match without {
                    Some(_) => GroupFlags::default(),
                    None => entry.flags,
                },
                ..entry
            })
        }
    }
}

fn report(parameter: u32, value: i64) {
    // SAFETY: writes to the backend's own status entry.
    unsafe { pg_sys::pgstat_progress_update_param(parameter as i32, value) }
}
