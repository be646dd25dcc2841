//! A table whose scan is being planned, and its clauses.

use std::marker::PhantomData;

use pgrx::{PgList, pg_sys};

use crate::expr::Node;
use crate::ffi::quiet;
use crate::relation::OpenRelation;
use crate::table::Table;

/// A base relation in the planner.
///
/// Invariant: as long as this lives, the planner runs, its structures are valid, and it holds a
/// lock on the table.
#[derive(Clone, Copy)]
pub struct PlannedTable<'a> {
    pub(super) root: *mut pg_sys::PlannerInfo,
    pub(super) rel: *mut pg_sys::RelOptInfo,
    /// Parameters of a lateral reference; NULL if there are none.
    pub(super) parameters: *mut pg_sys::ParamPathInfo,
    planner: PhantomData<&'a ()>,
}

/// A clause on the table.
#[derive(Clone, Copy)]
pub struct Clause<'a> {
    pub(super) raw: *mut pg_sys::RestrictInfo,
    planner: PhantomData<&'a ()>,
}

impl<'a> Clause<'a> {
    /// # Safety
    /// Of the planner, whose memory outlives the result.
    pub(super) unsafe fn of(raw: *mut pg_sys::RestrictInfo) -> Clause<'a> {
        Clause {
            raw,
            planner: PhantomData,
        }
    }

    /// Its expression.
    pub fn node(self) -> Node<'a> {
        // SAFETY: the clause is valid.
        unsafe { Node::of((*self.raw).clause.cast()) }
    }

    /// Whether it has no variables and is evaluated once, before the scan.
    pub fn is_pseudoconstant(self) -> bool {
        // SAFETY: the clause is valid.
        unsafe { (*self.raw).pseudoconstant }
    }
}

/// The cost of evaluating clauses.
#[derive(Clone, Copy, Debug, Default)]
pub struct QualCost {
    pub startup: f64,
    pub per_tuple: f64,
}

/// The attributes that a scan must return.
#[derive(Clone, Debug, Default)]
pub struct NamedAttributes {
    /// Indexes of user columns that are not dropped, ascending.
    pub columns: Vec<usize>,
    /// Whether there are system columns among them other than ctid and tableoid.
    pub other_system_columns: bool,
}

/// The members of a set from `pull_varattnos`.
///
/// # Safety
/// A valid set.
pub(super) unsafe fn named_in(
    numbers: *const pg_sys::Bitmapset,
    table: Table<'_>,
) -> NamedAttributes {
    let first = pg_sys::FirstLowInvalidHeapAttributeNumber;
    // SAFETY: as for this function.
    let contains = |number: i32| unsafe { quiet::bms_is_member(number - first, numbers) };
    let whole_row = contains(0);
    let descriptor = table.descriptor();
    NamedAttributes {
        columns: (0..descriptor.attribute_count())
            .filter(|&i| {
                (whole_row || contains(i as i32 + 1)) && !descriptor.attribute(i).attisdropped
            })
            .collect(),
        other_system_columns: (first + 1..0)
            .filter(|&number| {
                number != pg_sys::SelfItemPointerAttributeNumber
                    && number != pg_sys::TableOidAttributeNumber
            })
            .any(contains),
    }
}

impl<'a> PlannedTable<'a> {
    /// # Safety
    /// A plain table of a query that is being planned, which outlives the result.
    pub(crate) unsafe fn of(
        root: *mut pg_sys::PlannerInfo,
        rel: *mut pg_sys::RelOptInfo,
    ) -> PlannedTable<'a> {
        // SAFETY: as for this function.
        let parameters =
            unsafe { pg_sys::get_baserel_parampathinfo(root, rel, (*rel).lateral_relids) };
        PlannedTable {
            root,
            rel,
            parameters,
            planner: PhantomData,
        }
    }

    fn relation(&self) -> &'a pg_sys::RelOptInfo {
        // SAFETY: the invariant of the type; nothing is changed while the reference is used.
        unsafe { &*self.rel }
    }

    pub fn oid(&self) -> pg_sys::Oid {
        // SAFETY: every base relation has a range table entry.
        unsafe {
            (**(*self.root)
                .simple_rte_array
                .add(self.relation().relid as usize))
            .relid
        }
    }

    /// Its index in the range table, to which its variables refer.
    pub fn rti(&self) -> i32 {
        self.relation().relid as i32
    }

    /// Opens the table, on which the planner holds a lock.
    pub fn open(&self) -> OpenRelation {
        OpenRelation::open(self.oid(), pg_sys::NoLock)
    }

    /// Its clauses; those with its parameters come last.
    pub fn clauses(&self) -> Vec<Clause<'a>> {
        // SAFETY: both are lists of clauses.
        unsafe {
            let mut clauses = clauses_in(self.relation().baserestrictinfo);
            if !self.parameters.is_null() {
                clauses.extend(clauses_in((*self.parameters).ppi_clauses));
            }
            clauses
        }
    }

    /// Whether a clause may be evaluated before all others: it is leakproof, or no clause of a
    /// lower security level exists.
    pub fn may_run_first(&self, clause: Clause<'_>) -> bool {
        // SAFETY: the clause is valid.
        let clause = unsafe { &*clause.raw };
        clause.leakproof || clause.security_level <= self.relation().baserestrict_min_security
    }

    /// The attributes that occur in the relation's target and clauses.
    pub fn attributes(&self, table: Table<'_>) -> NamedAttributes {
        let (rti, mut numbers) = (self.relation().relid, std::ptr::null_mut());
        // SAFETY: planner structures; `pull_varattnos` does not look into RestrictInfos.
        unsafe {
            let target = (*self.relation().reltarget).exprs;
            pg_sys::pull_varattnos(target.cast(), rti, &mut numbers);
            for clause in self.clauses() {
                pg_sys::pull_varattnos((*clause.raw).clause.cast(), rti, &mut numbers);
            }
            named_in(numbers, table)
        }
    }

    /// Rows that the scan returns.
    pub fn rows(&self) -> f64 {
        match self.parameters.is_null() {
            true => self.relation().rows,
            // SAFETY: a valid planner structure.
            false => unsafe { (*self.parameters).ppi_rows },
        }
    }

    /// Rows of the table.
    pub fn tuples(&self) -> f64 {
        self.relation().tuples
    }

    /// The cost of computing the target.
    pub(super) fn target_cost(&self) -> QualCost {
        // SAFETY: a valid planner structure.
        let cost = unsafe { (*self.relation().reltarget).cost };
        QualCost {
            startup: cost.startup,
            per_tuple: cost.per_tuple,
        }
    }

    /// The cost of reading a page after its neighbour.
    pub fn sequential_page_cost(&self) -> f64 {
        let (mut random, mut sequential) = (0.0, 0.0);
        let tablespace = self.relation().reltablespace;
        // SAFETY: a lookup of the tablespace.
        unsafe { pg_sys::get_tablespace_page_costs(tablespace, &mut random, &mut sequential) };
        sequential
    }

    /// The cost of evaluating the clauses.
    pub fn qual_cost(&self, clauses: &[Clause<'_>]) -> QualCost {
        if clauses.is_empty() {
            return QualCost::default();
        }
        let mut cost = pg_sys::QualCost::default();
        // SAFETY: planner structures.
        unsafe { pg_sys::cost_qual_eval(&mut cost, list_of(clauses), self.root) };
        QualCost {
            startup: cost.startup,
            per_tuple: cost.per_tuple,
        }
    }

    /// The share of rows that pass the clauses.
    pub fn selectivity(&self, clauses: &[Clause<'_>]) -> f64 {
        if clauses.is_empty() {
            return 1.0;
        }
        // SAFETY: planner structures.
        unsafe {
            pg_sys::clauselist_selectivity(
                self.root,
                list_of(clauses),
                self.rti(),
                pg_sys::JoinType::JOIN_INNER,
                std::ptr::null_mut(),
            )
        }
    }

    /// The approximate number of elements in an array.
    pub fn array_length(&self, array: Node<'_>) -> f64 {
        // SAFETY: planner structures; an expression of the query.
        unsafe { pg_sys::estimate_array_length(self.root, array.raw()) }
    }
}

/// # Safety
/// A list of clauses of the planner's, which outlives the result.
unsafe fn clauses_in<'a>(list: *mut pg_sys::List) -> Vec<Clause<'a>> {
    // SAFETY: as for this function.
    unsafe {
        PgList::<pg_sys::RestrictInfo>::from_pg(list)
            .iter_ptr()
            .map(|raw| Clause::of(raw))
            .collect()
    }
}

fn list_of(clauses: &[Clause<'_>]) -> *mut pg_sys::List {
    let mut list = PgList::<pg_sys::RestrictInfo>::new();
    clauses.iter().for_each(|clause| list.push(clause.raw));
    list.into_pg()
}
