//! A table whose scan is planned, and its clauses.

use std::marker::PhantomData;

use pgrx::{PgList, pg_sys};

use crate::expr::Node;
use crate::relation::OpenRelation;
use crate::table::Table;

/// A base relation of the planner's.
///
/// Invariant: the planner runs, its structures are valid, and it holds a lock on the table as long as this lives.
#[derive(Clone, Copy)]
pub struct PlannedTable<'a> {
    pub(super) root: *mut pg_sys::PlannerInfo,
    pub(super) rel: *mut pg_sys::RelOptInfo,
    /// Parameters of a lateral reference; NULL if there are none.
    pub(super) parameters: *mut pg_sys::ParamPathInfo,
    planner: PhantomData<&'a ()>,
}

/// A clause of the table's.
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

/// What evaluating clauses costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct QualCost {
    pub startup: f64,
    pub per_tuple: f64,
}

/// The attributes that a scan is asked for.
#[derive(Clone, Debug, Default)]
pub struct NamedAttributes {
    /// Indexes of user columns that are not dropped, ascending.
    pub columns: Vec<usize>,
    /// Whether there are system columns among them that neither ctid nor tableoid is.
    pub other_system_columns: bool,
}

/// The members of a set that `pull_varattnos` has made.
///
/// # Safety
/// A valid set.
pub(super) unsafe fn named_in(
    numbers: *const pg_sys::Bitmapset,
    table: Table<'_>,
) -> NamedAttributes {
    let first = pg_sys::FirstLowInvalidHeapAttributeNumber;
    // SAFETY: as for this function.
    let contains = |number: i32| unsafe { pg_sys::bms_is_member(number - first, numbers) };
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

/// `add_path` takes costs that differ by less than one in a hundred for the same.
const SURELY_LESS: f64 = 1.02;

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

    /// Its place in the range table, which its variables carry.
    pub fn rti(&self) -> i32 {
        self.relation().relid as i32
    }

    /// Opens the table, on which the planner holds a lock.
    pub fn open(&self) -> OpenRelation {
        OpenRelation::open(self.oid(), pg_sys::NoLock)
    }

    /// Its clauses, those of its parameters last.
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

    /// Whether a clause may be evaluated before all others: it leaks nothing, or no clause of a lower security level
    /// exists.
    pub fn may_run_first(&self, clause: Clause<'_>) -> bool {
        // SAFETY: the clause is valid.
        let clause = unsafe { &*clause.raw };
        clause.leakproof || clause.security_level <= self.relation().baserestrict_min_security
    }

    /// The attributes that the relation's target and clauses name.
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

    /// Whether neither a path of ours that costs so much at least nor a sequential scan, the cost
    /// of which is yet to be corrected, is of any use: the cheapest path is an index's, which
    /// `add_path` prefers to both. Most statements that look for a few rows are planned so, and
    /// quickly.
    pub fn is_beaten(&self, least_cost: f64) -> bool {
        let rel = self.relation();
        // A path that is dearer may begin sooner.
        if rel.consider_startup {
            return false;
        }
        // Any plan with workers costs as much as to start them.
        let least_parallel = match rel.partial_pathlist.is_null() {
            true => f64::INFINITY,
            // SAFETY: plain read of a setting.
            false => unsafe { pg_sys::parallel_setup_cost },
        };
        // SAFETY: the planner's own paths, which are not changed meanwhile.
        let paths = unsafe { PgList::<pg_sys::Path>::from_pg(rel.pathlist) };
        // SAFETY: as before.
        let cheapest = (paths.iter_ptr().map(|path| unsafe { &*path }))
            .filter(|path| path.param_info.is_null() && path.disabled_nodes == 0)
            .min_by(|a, b| a.total_cost.total_cmp(&b.total_cost));
        cheapest.is_some_and(|cheapest| {
            cheapest.pathtype != pg_sys::NodeTag::T_SeqScan
                && cheapest.parallel_safe == rel.consider_parallel
                && cheapest.total_cost * SURELY_LESS < least_cost.min(least_parallel)
        })
    }

    /// Rows of the table.
    pub fn tuples(&self) -> f64 {
        self.relation().tuples
    }

    /// What computing the target costs.
    pub(super) fn target_cost(&self) -> QualCost {
        // SAFETY: a valid planner structure.
        let cost = unsafe { (*self.relation().reltarget).cost };
        QualCost {
            startup: cost.startup,
            per_tuple: cost.per_tuple,
        }
    }

    /// What a page costs that is read after its neighbour.
    pub fn sequential_page_cost(&self) -> f64 {
        let (mut random, mut sequential) = (0.0, 0.0);
        let tablespace = self.relation().reltablespace;
        // SAFETY: a lookup of the tablespace.
        unsafe { pg_sys::get_tablespace_page_costs(tablespace, &mut random, &mut sequential) };
        sequential
    }

    /// What evaluating the clauses costs.
    pub fn qual_cost(&self, clauses: &[Clause<'_>]) -> QualCost {
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

    /// How many elements an array has, about.
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
