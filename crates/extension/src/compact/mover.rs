//! Moves the rows of one row group. See the room's header for the order of steps.

use std::collections::HashSet;
use std::time::Duration;

use howdah_bridge::hot::page::HotPage;
use howdah_bridge::hot::stamp::{Refusal, Stamper};
use howdah_bridge::indexes::is_brin;
use howdah_bridge::maintained::MaintainedTable;
use howdah_bridge::new_entries::Indexes;
use howdah_bridge::store::{ColdStore, WrittenValue};
use howdah_bridge::table::LockMode;
use howdah_bridge::tid::{BlockNumber, ROWS_PER_COLD_BLOCK, RowNumber};
use howdah_bridge::transactions::writing_command;
use howdah_bridge::{predicate, process};
use howdah_columnar::EncodedRowGroup;

use super::born_hidden;
use super::first_move::Prepared;
use super::gather::{Batch, Pages, gather};
use super::key_order;
use super::progress::{Phase, Progress, must_yield};
use super::task::{Task, open};
use super::throttle;
use crate::errors::{ColdError, or_raise};
use crate::row_order;
use crate::stop_point;
use crate::store::directory::{self, GroupEntry, GroupFlags, GroupState, PlacedEntry};
use crate::store::encode::encode;
use crate::store::row_set::RowSet;
use crate::store::visibility::constraint_checks;
use crate::types::TableLayout;

/// Index entries between two checks for waiters.
const ROWS_BETWEEN_LOOKS: u32 = 4_096;
/// Pause before a busy page is tried again, and the pauses that one group may take: writers of
/// stamped rows wait meanwhile.
const BUSY_PAUSE: Duration = Duration::from_micros(500);
const BUSY_PAUSES_PER_GROUP: u32 = 60;
/// A group is given up if at least one row in this many cannot be moved: as many hidden rows would
/// have the group merged.
const REFUSED_SHARE: u32 = 5;

/// The result of a step, and what its transaction must do.
pub enum Step {
    /// A group was moved: commit.
    Moved {
        rows: u32,
        next_block: Option<BlockNumber>,
        /// Whether rows of a page were left for the next time.
        is_cut: bool,
    },
    /// These pages were refused, and they are many: roll back and try again without them.
    Refused(Vec<BlockNumber>),
    /// Another backend waits for the table: roll back.
    Yielded,
    /// The table was truncated since moves were prepared: roll back, and prepare them again.
    Unprepared,
    /// There was nothing to move: commit.
    Finished,
}

/// Moves one group, from the pages beginning at `from`.
pub fn move_group(
    task: &Task,
    prepared: Prepared,
    from: BlockNumber,
    except: &HashSet<BlockNumber>,
    progress: &Progress,
) -> Step {
    progress.phase(Phase::Reading);
    let Some(step) = open(task.table, task.patient) else {
        return Step::Finished;
    };
    let table = step.table();
    let layout = TableLayout::of(table.descriptor());
    let pages = Pages {
        from,
        except,
        only: task.quiet.as_deref(),
    };
    let mut batch = gather(table, &layout, &pages, progress);
    // A full group, be it of few long rows, is always worth it.
    let is_full = batch.next_block.is_some();
    if batch.row_count() == 0 || !is_full && batch.row_count() < task.policy.min_rows {
        return Step::Finished;
    }
    if must_yield(step.table()) {
        return Step::Yielded;
    }
    let Some(store) = ColdStore::open(table, LockMode::RowExclusive) else {
        return Step::Finished;
    };
    if !or_raise(task.table, prepared.allows(&store)) {
        return Step::Unprepared;
    }
    progress.phase(Phase::Encoding);
    let result =
        Move::of(task, &step, &store, &mut batch).and_then(|m| m.run(&mut batch, progress));
    or_raise(task.table, result)
}

/// A group that is being moved.
struct Move<'a> {
    table: &'a MaintainedTable,
    store: &'a ColdStore<'a>,
    /// Where row `i` of the batch goes; `None`: to position `i`.
    positions: Option<Vec<u32>>,
    encoded: EncodedRowGroup,
}

/// Pages that could not be stamped, and the positions of their rows in the group.
struct Left {
    blocks: Vec<BlockNumber>,
    rows: RowSet,
}

impl<'a> Move<'a> {
    /// Sorts the batch's rows, and encodes them.
    fn of(
        task: &'a Task,
        table: &'a MaintainedTable,
        store: &'a ColdStore<'a>,
        batch: &mut Batch,
    ) -> Result<Move<'a>, ColdError> {
        let order = key_order::order_of(task, table, store, &batch.rows)?;
        // Encoding takes most memory: no second copy of the rows is held meanwhile.
        if let Some(order) = &order {
            batch.rows = batch.rows.reordered(order);
        }
        let encoded = encode(&batch.rows, &task.policy.encoding)?;
        Ok(Move {
            table,
            store,
            positions: order.map(|order| row_order::positions(&order)),
            encoded,
        })
    }

    /// `batch` is the one that was encoded.
    fn run(self, batch: &mut Batch, progress: &Progress) -> Result<Step, ColdError> {
        stop_point!("reserve");
        progress.phase(Phase::Writing);
        let cid = writing_command();
        let mut placed = directory::reserve(self.store, batch.row_count(), cid)?;
        let value = self
            .store
            .write_value(&[&self.encoded.footer, &self.encoded.body], cid);
        stop_point!("index_insert");
        progress.phase(Phase::Indexing);
        let indexed = self.insert_index_entries(batch, &mut placed, value)?;
        let Some(indexed) = indexed else {
            return Ok(Step::Yielded);
        };
        stop_point!("stamp");
        progress.phase(Phase::Stamping);
        let mut stamper = Stamper::begin(self.table.table());
        let refusing = refusing_pages(&mut stamper, &batch.pages);
        let refusing_rows: usize = refusing.iter().map(|page| page.tuples.len()).sum();
        if is_too_much(refusing_rows as u32, batch.row_count()) {
            return Ok(Step::Refused(blocks_of(&refusing)));
        }
        if must_yield(self.table.table()) {
            return Ok(Step::Yielded);
        }
        stop_point!("checked");
        constraint_checks::announce_mover();
        stamper.clear_visibility(&batch.pages);
        let left = self.stamp_pages(&mut stamper, batch, placed.entry.first_row);
        let left_rows = left.rows.len();
        if is_too_much(left_rows, batch.row_count()) {
            return Ok(Step::Refused(left.blocks));
        }
        for page in &mut batch.pages {
            if !left.blocks.contains(&page.block) {
                stamper.delete_toasted(page);
            }
        }
        // All that leads to the new places is written now.
        predicate::transfer_locks(self.table.table(), placed.entry.group());
        stop_point!("directory");
        if !indexed {
            self.complete(&mut placed, value, batch.row_count(), true)?;
        }
        // They stay where they were.
        born_hidden::hide(self.store, &mut placed, &left.rows)?;
        stop_point!("commit");
        Ok(Step::Moved {
            rows: batch.row_count() - left_rows,
            next_block: batch.next_block,
            is_cut: batch.is_cut,
        })
    }

    fn row_number(&self, first: RowNumber, row: u32) -> RowNumber {
        let position = self
            .positions
            .as_ref()
            .map_or(row, |positions| positions[row as usize]);
        RowNumber(first.0 + u64::from(position))
    }

    /// Returns whether there was any index; `None` if another backend waits for the table. The
    /// group is completed first: checks of constraints that meet its rows in an index learn from
    /// its entry that they are moved. From then on the whole range stays reserved.
    fn insert_index_entries(
        &self,
        batch: &mut Batch,
        placed: &mut PlacedEntry,
        value: WrittenValue,
    ) -> Result<Option<bool>, ColdError> {
        let mut indexes = Indexes::open(self.table.table(), |index| !is_brin(index));
        if indexes.is_empty() {
            return Ok(Some(false));
        }
        self.complete(placed, value, batch.row_count(), false)?;
        let first = placed.entry.first_row;
        let mut row = 0;
        for page in &mut batch.pages {
            for index in 0..page.tuples.len() {
                indexes.insert_hot(page, index, self.row_number(first, row).tid());
                row += 1;
                if row % ROWS_BETWEEN_LOOKS == 0 {
                    howdah_bridge::check_for_interrupts!();
                    throttle::pay(self.table.table());
                    if must_yield(self.table.table()) {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(true))
    }

    /// Stamps the pages that let themselves be stamped; the others are left.
    fn stamp_pages(&self, stamper: &mut Stamper<'_>, batch: &Batch, first: RowNumber) -> Left {
        let mut pauses = BUSY_PAUSES_PER_GROUP;
        let mut left = Left {
            blocks: Vec::new(),
            rows: RowSet::with_bound(batch.row_count()),
        };
        let mut start = 0;
        for page in &batch.pages {
            let rows = start..start + page.tuples.len() as u32;
            let number = |row| self.row_number(first, row);
            let link = |index: usize| number(rows.start + index as u32).tid();
            loop {
                match stamper.stamp(page, link) {
                    Ok(()) => break,
                    Err(Refusal::Busy) if pauses > 0 => {
                        pauses -= 1;
                        process::sleep(BUSY_PAUSE);
                    }
                    Err(_) => {
                        left.blocks.push(page.block);
                        for row in rows.clone() {
                            left.rows.insert((number(row).0 - first.0) as u32);
                        }
                        break;
                    }
                }
            }
            start = rows.end;
        }
        left
    }

    fn complete(
        &self,
        placed: &mut PlacedEntry,
        value: WrittenValue,
        row_count: u32,
        may_return_tail: bool,
    ) -> Result<(), ColdError> {
        let mut entry = GroupEntry {
            state: GroupState::Stored,
            row_count,
            value_id: value.id,
            first_block: value.first_block,
            footer_bytes: self.encoded.footer.len() as u32,
            body_bytes: self.encoded.body.len() as u64,
            flags: GroupFlags::MOVED_ROWS,
            ..placed.entry
        };
        if may_return_tail {
            directory::complete(self.store, placed, entry)?;
        } else {
            entry.capacity_rows = row_count.next_multiple_of(ROWS_PER_COLD_BLOCK as u32);
            directory::complete_in_place(self.store, placed, entry);
        }
        placed.entry = entry;
        Ok(())
    }
}

/// Whether so many rows cannot be moved that the group is not worth its space.
fn is_too_much(refused: u32, row_count: u32) -> bool {
    refused >= row_count.div_ceil(REFUSED_SHARE)
}

fn blocks_of(pages: &[&HotPage]) -> Vec<BlockNumber> {
    pages.iter().map(|page| page.block).collect()
}

/// Pages that could not be stamped now.
fn refusing_pages<'p>(stamper: &mut Stamper<'_>, pages: &'p [HotPage]) -> Vec<&'p HotPage> {
    let refuses = |page: &&HotPage| stamper.check(page).is_err();
    pages.iter().filter(refuses).collect()
}
