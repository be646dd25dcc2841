//! The cold side of one node.

use std::rc::Rc;

use howdah_bridge::expr::Node;
use howdah_bridge::scan::{
    self, Attributes, Begun, ColdRows, Explanation, Operand, OperandNode, SharedWords,
};
use howdah_bridge::slot::Slot;
use howdah_bridge::snapshot::Snapshot;
use howdah_bridge::table::Table;

use super::batch::Batch;
use super::counts::Counts;
use super::current_group::{ColumnCondition, Question};
use super::operand::{self, Bound};
use super::pushdown::{ColumnTest, condition_of};
use super::reader::Reader;
use super::replan;
use super::units::SharedUnits;
use crate::errors::or_raise;
use crate::load;
use crate::scan_stats::{self, ScanCounts};
use crate::store::cache::emptied_tables;
use crate::store::view::{ColdGroup, ColdView};
use crate::store::visibility::{moved, moved_changes};
use crate::types::TableLayout;
use crate::types::arena::Arena;

/// What a node knows of its cold rows.
pub struct ColdScan<'q> {
    table: Table<'q>,
    snapshot: Snapshot<'q>,
    rti: i32,
    layout: Rc<TableLayout>,
    attributes: Attributes,
    is_scrolled: bool,
    reader: Option<Reader<'q>>,
    /// Created early for parallel scans.
    view: Option<ColdView<'q>>,
    /// The values of the last batch, by attribute.
    arenas: Vec<Arena>,
    /// The pushed clauses.
    tests: Vec<ColumnTest>,
    question: Question,
    /// The counts of readers that were closed.
    finished: Counts,
    /// The part that was already added to the shared counts.
    published: Counts,
    /// The counts of all participants, once they are known.
    totals: Option<Counts>,
}

impl<'q> ColdScan<'q> {
    pub fn begin(begun: Begun<'q>) -> ColdScan<'q> {
        let layout = Rc::new(TableLayout::of(begun.table.descriptor()));
        let mut arenas = Vec::new();
        arenas.resize_with(layout.attributes.len(), Arena::default);
        ColdScan {
            table: begun.table,
            snapshot: begun.snapshot,
            rti: begun.rti,
            layout,
            attributes: begun.attributes,
            is_scrolled: begun.is_scrolled,
            reader: None,
            view: None,
            arenas,
            tests: Vec::new(),
            question: Question::default(),
            finished: Counts::default(),
            published: Counts::default(),
            totals: None,
        }
    }

    fn view(&self) -> ColdView<'q> {
        ColdView::of(self.table, self.snapshot)
    }

    /// The counts of this participant.
    fn counts(&self) -> Counts {
        let reader = self.reader.as_ref().map(|r| r.counts).unwrap_or_default();
        self.finished.plus(reader)
    }

    /// Whether the table is known to have no cold row that the snapshot sees.
    fn is_emptied(&self) -> bool {
        emptied_tables::is_known(self.table, self.snapshot)
    }
}

impl ColdRows for ColdScan<'_> {
    fn follows_hot_rows(&self) -> bool {
        moved_changes::may_hide(self.snapshot)
    }

    fn hides(&self, row: Slot<'_>) -> bool {
        moved::hides_hot(self.table, row, self.snapshot)
    }

    fn open(&mut self) -> bool {
        if self.reader.is_none() {
            let view = self.view.take().unwrap_or_else(|| self.view());
            let (layout, attributes) = (self.layout.clone(), self.attributes.clone());
            let reader = Reader::new(view, layout, attributes, self.is_scrolled);
            self.reader = Some(reader);
        }
        self.reader
            .as_ref()
            .is_some_and(|reader| !reader.is_empty())
    }

    fn operands<'a>(&mut self, pushed: &[Node<'a>]) -> Vec<OperandNode<'a>> {
        let mut operands = Vec::new();
        self.tests.clear();
        for clause in pushed {
            if let Some(pushed) = condition_of(*clause, self.rti, &self.layout) {
                self.tests.push(pushed.tested);
                operands.extend(pushed.operands);
            }
        }
        operands
    }

    fn ask(&mut self, operands: &[Option<Operand<'_>>]) {
        let mut operands = operands.iter().copied();
        let mut question = Question {
            conditions: Vec::new(),
            exact: true,
        };
        for &ColumnTest {
            attribute,
            ref test,
        } in &self.tests
        {
            let column = self.layout.attributes[attribute].column_type;
            let Bound { conditions, exact } = operand::bind(test, &mut operands, column);
            question.exact &= exact;
            let of_column = |condition| ColumnCondition {
                attribute,
                condition,
            };
            (question.conditions).extend(conditions.into_iter().map(of_column));
        }
        self.question = question;
    }

    fn next(&mut self, shared: Option<&SharedWords>, batch: &mut scan::Batch) -> bool {
        let Some(reader) = &mut self.reader else {
            return false;
        };
        let mut batch = Batch::of(batch, &mut self.arenas);
        let units = shared.map(SharedUnits::of);
        let next = reader.next_batch(self.table, units, &self.question, &mut batch);
        let more = or_raise(self.table.oid(), next);
        (self.table).count_rows_read(std::mem::take(&mut reader.rows_read));
        more
    }

    fn previous(&mut self, batch: &mut scan::Batch) -> bool {
        let Some(reader) = &mut self.reader else {
            return false;
        };
        let mut batch = Batch::of(batch, &mut self.arenas);
        let previous = reader.previous_batch(self.table, &self.question, &mut batch);
        or_raise(self.table.oid(), previous)
    }

    fn rewind(&mut self) {
        if let Some(reader) = &mut self.reader {
            reader.rewind();
        }
    }

    fn close(&mut self) {
        self.finished = self.counts();
        self.reader = None;
        self.view = None;
    }

    fn end(&mut self, is_leader: bool) {
        let found_nothing = self.reader.as_ref().is_some_and(Reader::is_empty);
        if is_leader && found_nothing && self.is_emptied() {
            replan::without_cold_side(self.table);
        } else if is_leader {
            replan::with_hot_side(self.table);
        }
        self.close();
        let counts = self.finished;
        scan_stats::count(
            self.table.oid(),
            ScanCounts {
                columnar_scans: i64::from(counts.groups > 0 && is_leader),
                groups_read: (counts.groups - counts.groups_skipped) as i64,
                groups_skipped: counts.groups_skipped as i64,
                zones_read: (counts.zones - counts.zones_skipped) as i64,
                zones_skipped: counts.zones_skipped as i64,
                groups_read_by_row: 0,
            },
        );
        self.arenas = Vec::new();
    }

    fn count_removed(&mut self, rows: u64) {
        self.finished.rows_removed += rows;
    }

    fn share(&mut self, participants: usize) -> SharedWords {
        load::flush_for_readers(self.table.oid());
        let view = self.view();
        let is_stored = |group: &&ColdGroup| matches!(group, ColdGroup::Stored(_));
        let stored = view.groups.iter().filter(is_stored).count();
        self.view = Some(view);
        SharedUnits::make(stored, participants, self.totals.unwrap_or_default())
    }

    fn share_again(&self, shared: &SharedWords) {
        SharedUnits::of(shared).rewind();
    }

    fn publish(&mut self, shared: &SharedWords) {
        let counts = self.counts();
        SharedUnits::of(shared).publish(counts, self.published);
        self.published = counts;
    }

    fn collect(&mut self, shared: &SharedWords) {
        self.totals = Some(SharedUnits::of(shared).totals());
    }

    fn explain(&self, has_pushed: bool, to: &mut Explanation) {
        let counts = self.totals.unwrap_or_else(|| self.counts());
        counts.explain(has_pushed, to);
    }
}
