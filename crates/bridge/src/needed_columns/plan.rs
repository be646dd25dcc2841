//! Walks a started plan from its root to the scans, with the columns that parents read.
//!
//! A scan's target list alone is not enough: the planner often gives a scan all of its table's
//! columns, because that saves a projection, and its parent reads only a few of them. So for each
//! parent node the code below lists the outputs of its child that it reads. Node types that are not
//! named here read everything.

use std::rc::Rc;

use pgrx::pg_sys;

use super::row_marks::Marks;
use super::{Columns, columns_where};
use crate::table::Table;
use crate::wants::Wants;

/// Outputs of a node that its parent reads.
pub(super) enum Outputs {
    All,
    /// Members are positions in the target list, counted from 1, as `pull_varattnos` has them.
    Some(Attributes),
}

/// Numbers of attributes, or of positions in a target list.
///
/// Most of them are those of plain variables, which are read here: a call of the server for each
/// would cost more than the rest of the walk.
#[derive(Clone, Copy)]
pub(super) struct Attributes {
    /// The numbers of system columns and those up to 56, as the bits that `pull_varattnos` gives
    /// them.
    low: u64,
    /// What else there is, as `pull_varattnos` makes it.
    pulled: *mut pg_sys::Bitmapset,
}

/// The member of a set that stands for a number, as `pull_varattnos` has it.
fn member(number: i32) -> i32 {
    number - pg_sys::FirstLowInvalidHeapAttributeNumber
}

/// The bit of a number in [`Attributes::low`], if it has one.
fn low_bit(number: i32) -> Option<u64> {
    let member = member(number);
    (0..64).contains(&member).then(|| 1 << member)
}

impl Attributes {
    pub(super) fn none() -> Attributes {
        Attributes {
            low: 0,
            pulled: std::ptr::null_mut(),
        }
    }

    /// Adds the variables of a node or a list that carry the index `varno`.
    ///
    /// # Safety
    /// A finished expression, or NULL.
    pub(super) unsafe fn pull<T>(&mut self, expression: *mut T, varno: i32) {
        if expression.is_null() {
            return;
        }
        let node = expression.cast::<pg_sys::Node>();
        // SAFETY: as for this function; a node's tag tells its type. The set lives in the current
        // memory context.
        unsafe {
            if (*node).type_ == pg_sys::NodeTag::T_Var {
                let var = &*node.cast::<pg_sys::Var>();
                if var.varno != varno || var.varlevelsup != 0 {
                    return;
                }
                if let Some(bit) = low_bit(i32::from(var.varattno)) {
                    self.low |= bit;
                    return;
                }
            }
            pg_sys::pull_varattnos(node, varno as pg_sys::Index, &mut self.pulled);
        }
    }

    pub(super) fn add_all(&mut self, other: &Attributes) {
        self.low |= other.low;
        if !other.pulled.is_null() {
            // SAFETY: valid sets; the first one is given up for the result.
            self.pulled = unsafe { pg_sys::bms_add_members(self.pulled, other.pulled) };
        }
    }

    fn add(&mut self, number: i32) {
        if let Some(bit) = low_bit(number) {
            self.low |= bit;
            return;
        }
        // SAFETY: a valid set and a number that is not negative.
        self.pulled = unsafe { pg_sys::bms_add_member(self.pulled, member(number)) };
    }

    pub(super) fn contains(&self, number: i32) -> bool {
        if low_bit(number).is_some_and(|bit| self.low & bit != 0) {
            return true;
        }
        // SAFETY: a valid set.
        !self.pulled.is_null() && unsafe { pg_sys::bms_is_member(member(number), self.pulled) }
    }

    /// Whether a variable stands for the whole row.
    pub(super) fn has_whole_row(&self) -> bool {
        self.contains(0)
    }
}

impl Outputs {
    pub(super) fn contains(&self, position: i32) -> bool {
        match self {
            Outputs::All => true,
            Outputs::Some(positions) => positions.contains(position),
        }
    }
}

/// The members of a list of pointers, or of NIL: without a guarded call for each.
///
/// # Safety
/// A list of such members, or NIL, which does not change meanwhile.
pub(super) unsafe fn members<T>(list: *mut pg_sys::List) -> impl Iterator<Item = *mut T> {
    let count = match list.is_null() {
        true => 0,
        // SAFETY: as for this function.
        false => unsafe { (*list).length as usize },
    };
    // SAFETY: as for this function; the list has so many cells.
    (0..count).map(move |i| unsafe { (*(*list).elements.add(i)).ptr_value.cast() })
}

/// A scan that does not read all columns of its rows.
pub(super) struct Scan {
    pub(super) node: *mut pg_sys::ScanState,
    pub(super) wants: Wants,
    pub(super) slot: *mut pg_sys::TupleTableSlot,
    /// None at all if the scan does not look at the slot.
    pub(super) columns: Columns,
    /// Those that are read of a row whose conditions are checked again.
    pub(super) rechecked: Columns,
    /// Whether the slot's rows may be put together when they are read.
    pub(super) may_be_late: bool,
}

/// The scans of one plan.
pub(super) struct Scans {
    statement: *mut pg_sys::PlannedStmt,
    is_ours: fn(Table<'_>) -> bool,
    pub(super) scans: Vec<Scan>,
    pub(super) marks: Marks,
    /// Whether rows may be put together when they are read: the plan has no compiled code, and
    /// locks no rows, which would be read twice.
    pub(super) may_be_late: bool,
    /// What the nodes above the one that is visited want of its rows.
    wants: Wants,
}

impl Scans {
    /// No scans yet; `scans` is empty memory for them.
    pub(super) fn new(
        statement: *mut pg_sys::PlannedStmt,
        is_ours: fn(Table<'_>) -> bool,
        scans: Vec<Scan>,
    ) -> Scans {
        Scans {
            statement,
            is_ours,
            scans,
            marks: Marks::default(),
            may_be_late: false,
            wants: Wants::ALL,
        }
    }

    /// Finds the scans in a node and below it.
    ///
    /// # Safety
    /// A node of a plan that was started, or NULL.
    pub(super) unsafe fn visit(&mut self, node: *mut pg_sys::PlanState, outputs: &Outputs) {
        if node.is_null() {
            return;
        }
        let of_node = self.wants;
        // SAFETY: as for this function; a node's tag tells its type.
        unsafe {
            // Most of these ask for a row, or whether there is one.
            self.wants = Wants::ONE;
            for list in [(*node).initPlan, (*node).subPlan] {
                for sub in members::<pg_sys::SubPlanState>(list) {
                    self.visit((*sub).planstate, &Outputs::All);
                }
            }
            self.wants = of_node.of_children(node);
            self.marks.note_scan(node, outputs);
            match (*node).type_ {
                pg_sys::NodeTag::T_LockRowsState => self.marks.begin(node.cast(), self.is_ours),
                pg_sys::NodeTag::T_IndexScanState
                | pg_sys::NodeTag::T_IndexOnlyScanState
                | pg_sys::NodeTag::T_BitmapHeapScanState
                | pg_sys::NodeTag::T_SampleScanState => self.note_scan(node.cast(), outputs),
                pg_sys::NodeTag::T_AppendState => {
                    let append = node.cast::<pg_sys::AppendState>();
                    for i in 0..(*append).as_nplans as usize {
                        self.visit(*(*append).appendplans.add(i), outputs);
                    }
                }
                pg_sys::NodeTag::T_MergeAppendState => {
                    let append = node.cast::<pg_sys::MergeAppendState>();
                    for i in 0..(*append).ms_nplans as usize {
                        self.visit(*(*append).mergeplans.add(i), &Outputs::All);
                    }
                }
                pg_sys::NodeTag::T_SubqueryScanState => {
                    let scan = node.cast::<pg_sys::SubqueryScanState>();
                    self.visit((*scan).subplan, &Outputs::All);
                }
                pg_sys::NodeTag::T_CustomScanState => {
                    let children = (*node.cast::<pg_sys::CustomScanState>()).custom_ps;
                    for child in members::<pg_sys::PlanState>(children) {
                        self.visit(child, &Outputs::All);
                    }
                }
                _ => {}
            }
            let plan = (*node).plan;
            if !(*node).lefttree.is_null() {
                let read = read_of_child(plan, pg_sys::OUTER_VAR, outputs);
                self.visit((*node).lefttree, &read);
            }
            if !(*node).righttree.is_null() {
                let read = read_of_child(plan, pg_sys::INNER_VAR, outputs);
                self.wants = self.wants.of_inner(node);
                self.visit((*node).righttree, &read);
            }
            self.wants = of_node;
        }
    }

    /// Records a scan if it is one of a howdah table and does not read all columns.
    ///
    /// # Safety
    /// A started scan of a relation, which is open.
    unsafe fn note_scan(&mut self, scan: *mut pg_sys::ScanState, outputs: &Outputs) {
        // SAFETY: a started scan of a relation, which is open.
        unsafe {
            let table = (*scan).ss_currentRelation;
            if table.is_null() || !(self.is_ours)(Table::from_raw(table)) {
                return;
            }
            let plan = (*scan).ps.plan.cast::<pg_sys::Scan>();
            let rti = (*plan).scanrelid;
            if self.is_read_again(table, rti) {
                return;
            }
            let column_count = (*(*table).rd_att).natts as usize;
            let is_index_only = (*scan).ps.type_ == pg_sys::NodeTag::T_IndexOnlyScanState;
            if is_index_only {
                // The scan clears the slot as soon as it knows that the row is visible.
                let slot = (*scan.cast::<pg_sys::IndexOnlyScanState>()).ioss_TableSlot;
                let columns = columns_where(0, |_| false);
                let rechecked = Rc::clone(&columns);
                self.scans.push(Scan {
                    node: scan,
                    wants: self.wants,
                    slot,
                    columns,
                    rechecked,
                    may_be_late: false,
                });
                return;
            }
            let may_be_late = self.may_be_late && is_read_by_slot(plan);
            let read = read_of_row(scan, plan, rti as i32, outputs);
            let is_whole = read.has_whole_row();
            let is_read = |column: usize| is_whole || read.contains(column as i32 + 1);
            let columns = columns_where(column_count, is_read);
            let rechecked = match (*plan).plan.type_ {
                pg_sys::NodeTag::T_BitmapHeapScan => {
                    let mut rechecked = read;
                    let scan = plan.cast::<pg_sys::BitmapHeapScan>();
                    rechecked.pull((*scan).bitmapqualorig, rti as i32);
                    let is_whole = rechecked.has_whole_row();
                    let is_read = |column: usize| is_whole || rechecked.contains(column as i32 + 1);
                    columns_where(column_count, is_read)
                }
                _ => Rc::clone(&columns),
            };
            if may_be_late || columns.contains(&false) {
                self.scans.push(Scan {
                    node: scan,
                    wants: self.wants,
                    slot: (*scan).ss_ScanTupleSlot,
                    columns,
                    rechecked,
                    may_be_late,
                });
            }
        }
    }

    /// Whether the statement later reads whole rows of this scan, so that a row is better
    /// remembered whole: UPDATE and MERGE form new rows from old ones, and triggers read old rows.
    ///
    /// # Safety
    /// The relation is open.
    unsafe fn is_read_again(&self, table: pg_sys::Relation, rti: pg_sys::Index) -> bool {
        // SAFETY: a finished statement; the relation is open.
        unsafe {
            pg_sys::list_member_int((*self.statement).resultRelations, rti as i32)
                && ((*self.statement).commandType != pg_sys::CmdType::CMD_DELETE
                    || !(*table).trigdesc.is_null())
        }
    }
}

/// The columns of its table that a scan reads: for the outputs that its parent reads, and for
/// conditions that it checks on rows, beside those that a bitmap asks to be checked again.
///
/// # Safety
/// State and plan are those of one started scan.
unsafe fn read_of_row(
    state: *mut pg_sys::ScanState,
    plan: *mut pg_sys::Scan,
    rti: i32,
    outputs: &Outputs,
) -> Attributes {
    let mut read = Attributes::none();
    // SAFETY: a finished plan whose expressions carry the scan's index.
    unsafe {
        for target in members::<pg_sys::TargetEntry>((*plan).plan.targetlist) {
            if outputs.contains(i32::from((*target).resno)) {
                read.pull((*target).expr, rti);
            }
        }
        read.pull((*plan).plan.qual, rti);
        match (*plan).plan.type_ {
            // A btree never requests a recheck.
            pg_sys::NodeTag::T_IndexScan if is_scan_of_btree(state.cast()) => {}
            pg_sys::NodeTag::T_IndexScan => {
                let scan = plan.cast::<pg_sys::IndexScan>();
                read.pull((*scan).indexqualorig, rti);
                read.pull((*scan).indexorderbyorig, rti);
            }
            _ => {}
        }
    }
    read
}

/// Whether rows of such a scan are read by the callbacks of its slot alone. A scan in the order of
/// distances puts tuples that it has kept into its slot.
///
/// # Safety
/// A finished plan of a scan.
unsafe fn is_read_by_slot(plan: *mut pg_sys::Scan) -> bool {
    // SAFETY: a node's tag tells its type.
    unsafe {
        match (*plan).plan.type_ {
            pg_sys::NodeTag::T_IndexScan => {
                (*plan.cast::<pg_sys::IndexScan>()).indexorderby.is_null()
            }
            pg_sys::NodeTag::T_BitmapHeapScan => true,
            _ => false,
        }
    }
}

/// # Safety
/// A started index scan.
unsafe fn is_scan_of_btree(scan: *mut pg_sys::IndexScanState) -> bool {
    // SAFETY: the index is open, unless the plan is only explained.
    unsafe {
        let index = (*scan).iss_RelationDesc;
        !index.is_null() && (*(*index).rd_rel).relam == pg_sys::BTREE_AM_OID
    }
}

/// The outputs of its child that a node reads. `varno` says which child: OUTER_VAR or INNER_VAR.
///
/// # Safety
/// A finished plan.
unsafe fn read_of_child(plan: *mut pg_sys::Plan, varno: i32, outputs: &Outputs) -> Outputs {
    let mut read = Attributes::none();
    // SAFETY: a finished plan; its tag tells its type.
    unsafe {
        match (*plan).type_ {
            // These return their child's rows as they are, and read none of their columns. Limit
            // does: WITH TIES compares columns that its parent need not read.
            pg_sys::NodeTag::T_Material | pg_sys::NodeTag::T_Memoize => {
                return match outputs {
                    Outputs::All => Outputs::All,
                    Outputs::Some(positions) => Outputs::Some(*positions),
                };
            }
            pg_sys::NodeTag::T_NestLoop => {
                let join = plan.cast::<pg_sys::NestLoop>();
                read.pull((*join).join.joinqual, varno);
                for parameter in members::<pg_sys::NestLoopParam>((*join).nestParams) {
                    read.pull((*parameter).paramval, varno);
                }
            }
            pg_sys::NodeTag::T_MergeJoin => {
                let join = plan.cast::<pg_sys::MergeJoin>();
                read.pull((*join).join.joinqual, varno);
                read.pull((*join).mergeclauses, varno);
            }
            pg_sys::NodeTag::T_HashJoin => {
                let join = plan.cast::<pg_sys::HashJoin>();
                read.pull((*join).join.joinqual, varno);
                read.pull((*join).hashclauses, varno);
                read.pull((*join).hashkeys, varno);
            }
            pg_sys::NodeTag::T_Agg => {
                let agg = plan.cast::<pg_sys::Agg>();
                if !(*agg).chain.is_null() || !(*agg).groupingSets.is_null() {
                    return Outputs::All;
                }
                for i in 0..(*agg).numCols as usize {
                    read.add(i32::from(*(*agg).grpColIdx.add(i)));
                }
            }
            pg_sys::NodeTag::T_Result => {}
            _ => return Outputs::All,
        }
        read.pull((*plan).targetlist, varno);
        read.pull((*plan).qual, varno);
    }
    if read.has_whole_row() {
        return Outputs::All;
    }
    Outputs::Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_system_columns_and_up_to_56_have_a_bit_of_their_own() {
        assert_eq!(low_bit(0), Some(1 << 7), "the whole row");
        let ctid = pg_sys::SelfItemPointerAttributeNumber;
        assert_eq!(low_bit(ctid), Some(1 << 6));
        assert_eq!(low_bit(56), Some(1 << 63));
        assert_eq!([-8, 57, i32::from(i16::MAX)].map(low_bit), [None; 3]);
    }
}
