//! Copies row groups into the new table: as they are, or row by row into the sort.
//!
//! Groups that are visible to all are written frozen. Other groups keep the transaction fields of
//! their entry, on every piece too, so that a group that becomes dead later can be removed whole.
//! Dead groups are omitted.
//!
//! A group that is carried over is encoded anew in three cases: it lacks columns that were added
//! with a default (the server forgets such defaults after a rewrite), it holds a dropped column, or
//! marks hide some of its rows from all snapshots and no row from only some of them. Otherwise its
//! marks are carried over with it.

use howdah_bridge::rewrite::progress;
use howdah_bridge::row_memory::RowMemory;
use howdah_bridge::store::{ColdStore, CopiedAs};
use howdah_bridge::table::LockMode;
use howdah_bridge::transactions::writing_command;
use howdah_bridge::xid::CommandId;
use howdah_columnar::RowGroupBuilder;

use super::order::{ColdOrder, Target};
use super::rewriting::{Counts, Rewriting};
use crate::errors::ColdError;
use crate::settings;
use crate::stop_point;
use crate::store::directory::{self, GroupEntry, GroupFlags};
use crate::store::encode::encode;
use crate::store::gaps::Gaps;
use crate::store::marks::{self, RewriteCopy};
use crate::store::open_group::OpenGroup;
use crate::store::rewritten;
use crate::store::row_set::RowSet;
use crate::store::view::{ColdGroup, GroupRows, RowDatums, Wanted};
use crate::store::visibility::group_status::{self, GroupStatus, JudgedEntry};
use crate::store::visibility::{RowStatus, row_status};
use crate::types::{TableLayout, push_datum};

pub(super) struct ColdCopy<'a> {
    work: &'a Rewriting<'a>,
    old: ColdStore<'a>,
    new: ColdStore<'a>,
    /// The old table's high-water mark; `None` if it never had a cold row.
    high_water: Option<u64>,
    entries: Vec<JudgedEntry>,
    cid: CommandId,
    layout: TableLayout,
    /// For each attribute, whether rows that lack it have a value for it.
    defaults: Vec<bool>,
}

/// The status of a group's rows, as a rewrite distinguishes it.
struct Rows {
    /// Rows that are dead: hidden from all snapshots.
    dead: RowSet,
    /// Rows that no transaction has hidden.
    living: RowSet,
    /// Whether marks hide some rows from some snapshots only.
    are_fading: bool,
}

impl<'a> ColdCopy<'a> {
    /// `None` if the tables have no cold store. Both are locked exclusively.
    pub fn open(work: &'a Rewriting<'a>) -> Result<Option<ColdCopy<'a>>, ColdError> {
        let Some(old) = ColdStore::open(work.old_heap, LockMode::AccessShare) else {
            return Ok(None);
        };
        let high_water = match old.toast().main_fork_blocks() {
            0 => None,
            _ => directory::high_water(&old)?.map(|(_, number)| number),
        };
        let Some(new) = ColdStore::open(work.new_heap, LockMode::RowExclusive) else {
            return Ok(None);
        };
        let mut entries = match high_water {
            None => Vec::new(),
            Some(_) => group_status::entries_not_dead(&old, work.horizon)?,
        };
        entries.retain(JudgedEntry::has_stored_rows);
        let desc = work.old_heap.descriptor();
        Ok(Some(ColdCopy {
            work,
            old,
            new,
            high_water,
            entries,
            cid: writing_command(),
            layout: TableLayout::of(desc),
            defaults: desc.attributes().iter().map(|a| a.atthasmissing).collect(),
        }))
    }

    /// The stores and the command id with which new groups are written.
    pub fn target(&self) -> Target<'_> {
        Target {
            new: &self.new,
            old: &self.old,
            cid: self.cid,
        }
    }

    /// Whether the table ever had a cold row.
    pub fn was_used(&self) -> bool {
        self.high_water.is_some()
    }

    /// The lowest row number that none of the groups carried over can have.
    pub fn first_free_row(&self) -> u64 {
        match self.entries.is_empty() {
            true => 0,
            false => self.high_water.unwrap_or(0),
        }
    }

    /// Whether there is any cold row that is not deleted.
    pub fn has_living_rows(&self) -> Result<bool, ColdError> {
        for judged in self.entries.iter().filter(|e| e.status.counts_as_live()) {
            if !self.rows_of(&judged.placed.entry)?.living.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Carries everything over; living rows go through `order` if it takes them. Hot rows must have
    /// been copied before: they keep the ids of their out-of-line values.
    pub fn copy(
        &'a self,
        mut order: Option<ColdOrder<'a>>,
        counts: &mut Counts,
    ) -> Result<(), ColdError> {
        let mut groups = Vec::new();
        let is_sorted = order.as_ref().is_some_and(ColdOrder::takes_cold_rows);
        for judged in &self.entries {
            let order = order.as_mut().filter(|_| is_sorted);
            let carried = self.group(judged, order, counts)?;
            if let Some(entry) = &carried
                && !is_sorted
            {
                counts.written += u64::from(entry.row_count);
                progress::rows_written(counts.written);
            }
            groups.extend(carried);
            progress::rows_scanned(counts.kept as u64);
        }
        stop_point!("cluster_carried");
        let mut high_water = self.high_water;
        if let Some(order) = order {
            // Sorted rows are numbered from zero if no group was carried over. Groups that were
            // keep their numbers.
            let first_row = match groups.is_empty() {
                true => 0,
                false => self.high_water.unwrap_or(0),
            };
            let written = order.write(self.work, self.target(), first_row, counts)?;
            let behind = |last: &GroupEntry| last.first_row.0 + u64::from(last.capacity_rows);
            high_water = written
                .last()
                .map(behind)
                .or(self.high_water.map(|_| first_row));
            groups.extend(written);
        }
        let Some(high_water) = high_water else {
            // The table has never had cold rows, and has none now.
            return Ok(());
        };
        directory::start_high_water_at(&self.new, high_water)?;
        rewritten::note(&self.new, self.cid);
        // The indexes will be built from the groups that were carried over, so none has entries for
        // the gaps.
        Gaps::between(groups.iter(), high_water).note_as_cleaned(&self.new);
        self.work.new_heap.ensure_first_page();
        stop_point!("cluster_written");
        Ok(())
    }

    fn rows_of(&self, entry: &GroupEntry) -> Result<Rows, ColdError> {
        if entry.flags.are_clear() {
            return Ok(Rows {
                dead: RowSet::default(),
                living: RowSet::full(entry.row_count),
                are_fading: false,
            });
        }
        let RowStatus {
            dead,
            recently_dead,
            delete_in_progress,
            ..
        } = row_status(&self.old, entry, self.work.horizon)?;
        let mut living = RowSet::with_bound(entry.row_count);
        let mut are_fading = false;
        for row in (0..entry.row_count).filter(|&row| !dead.contains(row)) {
            if recently_dead.contains(row) || delete_in_progress.contains(row) {
                are_fading = true;
            } else {
                living.insert(row);
            }
        }
        Ok(Rows {
            dead,
            living,
            are_fading,
        })
    }

    /// Carries a group over, or passes its living rows to the sort; returns the entry that was
    /// carried over, if any.
    fn group(
        &self,
        judged: &JudgedEntry,
        order: Option<&mut ColdOrder<'_>>,
        counts: &mut Counts,
    ) -> Result<Option<GroupEntry>, ColdError> {
        let entry = judged.placed.entry;
        let rows = self.rows_of(&entry)?;
        let kept = entry.row_count - rows.dead.len();
        let is_there = matches!(
            judged.status,
            GroupStatus::Live | GroupStatus::InsertInProgress(_)
        ) && judged.status.foreign_transaction().is_none();
        let carried = match order {
            _ if kept == 0 => None,
            Some(order) if is_there && !rows.living.is_empty() => {
                self.sort_rows(&entry, &rows.living, order)?;
                match rows.are_fading {
                    true => Some(self.carry(judged, &rows, Some(&rows.living))?),
                    false => None,
                }
            }
            _ => match self.carry(judged, &rows, None) {
                // No snapshot needs the group. The tuples that were already copied of it are
                // dead, and VACUUM removes them.
                Err(error)
                    if judged.status == GroupStatus::RecentlyDead && error.is_missing_piece() =>
                {
                    counts.removed += f64::from(entry.row_count);
                    return Ok(None);
                }
                carried => Some(carried?),
            },
        };
        counts.kept += f64::from(kept);
        counts.removed += f64::from(rows.dead.len());
        counts.recently_dead += f64::from(match judged.status.counts_as_live() {
            true => kept - rows.living.len(),
            false => kept,
        });
        Ok(carried)
    }

    /// Passes some rows of a group to the sort.
    fn sort_rows(
        &self,
        entry: &GroupEntry,
        rows: &RowSet,
        order: &mut ColdOrder<'_>,
    ) -> Result<(), ColdError> {
        let recent = match entry.flags.contain(GroupFlags::RECENT_INSERTS) {
            true => marks::recent_inserts(&self.old, entry, self.work.horizon)?.origins(),
            false => Default::default(),
        };
        self.each_row(entry, rows, |row, datums| {
            let origin = recent.get(&row).copied().unwrap_or(entry.origin);
            // SAFETY: a row of the table, whose datums live until the sort has copied them.
            unsafe { order.put(datums, origin) }
        })
    }

    /// Carries a group over under its old id, with its marks. Rows that were passed to the sort are
    /// hidden in it from all snapshots.
    fn carry(
        &self,
        judged: &JudgedEntry,
        rows: &Rows,
        moved: Option<&RowSet>,
    ) -> Result<GroupEntry, ColdError> {
        let horizon = self.work.horizon;
        let is_settled = judged.status == GroupStatus::Live && judged.stamp.is_settled(horizon);
        let copied_as = if is_settled {
            CopiedAs::Frozen
        } else {
            CopiedAs::Stamped(judged.stamp, horizon)
        };
        let mut entry = judged.placed.entry;
        let open = OpenGroup::open(&self.old, entry)?;
        let mut remaining = None;
        if !entry.flags.are_clear() {
            if is_settled && !rows.are_fading && !self.has_recent_inserts(&entry)? {
                entry.flags = GroupFlags::default();
                remaining = (!rows.dead.is_empty()).then_some(&rows.living);
            } else {
                let copying = RewriteCopy {
                    from: &self.old,
                    to: &self.new,
                    cid: self.cid,
                    horizon,
                };
                match moved {
                    None => copying.marks(&entry)?,
                    Some(moved) => {
                        copying.marks_hiding(&entry, moved)?;
                        entry.flags = entry.flags.union(GroupFlags::DELETION_VECTORS);
                    }
                }
            }
        }
        let entry = if remaining.is_some() || self.needs_encoding(&open)? {
            self.encode_anew(entry, remaining, copied_as)?
        } else {
            let len = u64::from(entry.footer_bytes) + entry.body_bytes;
            let value = self
                .new
                .copy_value(&self.old, entry.value_id, len, self.cid, copied_as)?;
            entry.first_block = value.first_block;
            entry
        };
        directory::insert_copy(&self.new, &entry, self.cid, copied_as);
        Ok(entry)
    }

    fn has_recent_inserts(&self, entry: &GroupEntry) -> Result<bool, ColdError> {
        Ok(entry.flags.contain(GroupFlags::RECENT_INSERTS)
            && !marks::recent_inserts(&self.old, entry, self.work.horizon)?.is_empty())
    }

    fn needs_encoding(&self, open: &OpenGroup) -> Result<bool, ColdError> {
        let stored = open.column_count();
        let lacks_default = self.defaults.iter().skip(stored).any(|&has| has);
        for (i, attribute) in self.layout.attributes.iter().take(stored).enumerate() {
            let row_count = open.row_count() as usize;
            if attribute.dropped && open.column(&self.old, i)?.stats.null_count < row_count {
                return Ok(true);
            }
        }
        Ok(lacks_default)
    }

    /// Decodes the group and writes it with the table's current columns, under its old id; if
    /// `remaining` is given, with those of its rows only.
    fn encode_anew(
        &self,
        entry: GroupEntry,
        remaining: Option<&RowSet>,
        copied_as: CopiedAs,
    ) -> Result<GroupEntry, ColdError> {
        let mut builder = RowGroupBuilder::new(&self.layout.column_types());
        let all = RowSet::full(entry.row_count);
        self.each_row(&entry, remaining.unwrap_or(&all), |_, datums| {
            for (i, attribute) in self.layout.attributes.iter().enumerate() {
                let (value, is_null) = (datums.values[i], datums.nulls[i]);
                // SAFETY: a value of the attribute, in the row memory until the builder copied it.
                unsafe { push_datum(builder.column_mut(i), attribute, value, is_null) };
            }
            builder.finish_row();
            Ok(())
        })?;
        let encoded = encode(&builder, &settings::encoding_of(self.work.table()))?;
        let parts = [encoded.footer.as_slice(), encoded.body.as_slice()];
        let value = self
            .new
            .write_copy(entry.value_id, &parts, self.cid, copied_as);
        Ok(GroupEntry {
            first_block: value.first_block,
            footer_bytes: encoded.footer.len() as u32,
            body_bytes: encoded.body.len() as u64,
            row_count: builder.row_count() as u32,
            ..entry
        })
    }

    /// Decodes a group and passes some of its rows on, with the table's current columns. Datums
    /// live until the next row.
    fn each_row(
        &self,
        entry: &GroupEntry,
        rows: &RowSet,
        mut show: impl FnMut(u32, &mut RowDatums) -> Result<(), ColdError>,
    ) -> Result<(), ColdError> {
        let desc = self.work.old_heap.descriptor();
        let group = GroupRows::load(&self.old, &ColdGroup::Stored(*entry), &Wanted::All)?;
        let mut datums = RowDatums::new(self.layout.attributes.len());
        let memory = RowMemory::new();
        for row in rows.iter() {
            howdah_bridge::check_for_interrupts!();
            memory.with(|| {
                group.fill(row, &self.layout, desc, &Wanted::All, &mut datums);
                show(row, &mut datums)
            })?;
        }
        memory.delete();
        Ok(())
    }
}
