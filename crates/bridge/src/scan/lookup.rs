//! A path that looks rows up by index for values of other rows: in one table, or in each of its
//! partitions.
//!
//! ```text
//!   IndexPath, BitmapHeapPath              in a table: the only leaf
//!   AppendPath ──> IndexPath, …  each      in a partition, or in a table that inherits
//! ```
//!
//! As long as all pages are in memory, a look-up of cold rows is worth less than PostgreSQL charges
//! for it ([`by_index`]). Partitions without cold rows keep their prices. Where the look-up says
//! what the partition key is equal to, all partitions but one are pruned for each of the other
//! rows, for which PostgreSQL's price makes no allowance.

use pgrx::{PgList, pg_sys};

use super::planned::PlannedTable;
use super::{by_index, scanner};

/// Finding out which partitions are not pruned, in units of `seq_page_cost`: 1 µs.
const PRUNING: f64 = 0.1;

/// What looks rows up. The paths are the planner's, which is running.
pub(super) struct Lookup {
    path: *mut pg_sys::Path,
    /// The paths of single tables that it consists of.
    leaves: Vec<*mut pg_sys::Path>,
}

/// What a look-up costs, in all and in each of its leaves.
pub(super) struct Price {
    pub(super) total: f64,
    leaves: Vec<f64>,
}

impl Price {
    /// Of a look-up in one table.
    pub(super) fn of_one(price: f64) -> Price {
        Price {
            total: price,
            leaves: vec![price],
        }
    }
}

impl Lookup {
    /// `None` for a path of another kind.
    ///
    /// # Safety
    /// A path of the planner's, which runs as long as the result lives.
    pub(super) unsafe fn of(path: *mut pg_sys::Path) -> Option<Lookup> {
        // SAFETY: as for this function; the tag tells the type.
        let leaves = unsafe {
            match (*path).type_ {
                pg_sys::NodeTag::T_AppendPath => {
                    let append = path.cast::<pg_sys::AppendPath>();
                    let parts = PgList::<pg_sys::Path>::from_pg((*append).subpaths);
                    parts.iter_ptr().collect()
                }
                _ => vec![path],
            }
        };
        // SAFETY: as for this function.
        let all = leaves.iter().all(|&leaf| unsafe { is_by_index(leaf) });
        (all && !leaves.is_empty()).then_some(Lookup { path, leaves })
    }

    pub(super) fn path(&self) -> *mut pg_sys::Path {
        self.path
    }

    /// PostgreSQL's price of one look-up.
    pub(super) fn cost(&self) -> f64 {
        // SAFETY: the invariant of the type.
        unsafe { (*self.path).total_cost }
    }

    /// Whether the rows would be looked up so many times, rather than scanned and looked for in a
    /// hash table, if they were heap's.
    ///
    /// # Safety
    /// `root` is the query level that is being planned.
    pub(super) unsafe fn is_for_heap(&self, root: *mut pg_sys::PlannerInfo, times: f64) -> bool {
        // SAFETY: the invariant of the type; the relation of a path by index is a table.
        unsafe {
            let table = |&leaf: &*mut pg_sys::Path| {
                let rel = (*leaf).parent;
                (rel.cast_const(), PlannedTable::of(root, rel).oid())
            };
            let tables: Vec<_> = self.leaves.iter().map(table).collect();
            by_index::is_for_heap(&tables, self.cost() * times, pg_sys::cpu_operator_cost)
        }
    }

    /// What one surely costs at most as long as all pages are in memory; `None` if there are no
    /// cold rows, or nothing is known.
    ///
    /// # Safety
    /// `root` is the query level that is being planned.
    pub(super) unsafe fn price_in_memory(&self, root: *mut pg_sys::PlannerInfo) -> Option<Price> {
        let (mut leaves, mut any_cold) = (Vec::with_capacity(self.leaves.len()), false);
        for &leaf in &self.leaves {
            // SAFETY: the invariant of the type; the relation of a path by index is a table.
            unsafe {
                let rel = (*leaf).parent;
                let mut price = (*leaf).total_cost;
                if scanner()?
                    .least_cost(&PlannedTable::of(root, rel))
                    .is_some()
                {
                    any_cold = true;
                    price = price.min(by_index::price_in_memory(rel, leaf)?);
                }
                leaves.push(price);
            }
        }
        let all: f64 = leaves.iter().sum();
        // SAFETY: the invariant of the type, and a plain read of a setting.
        let (is_pruned, unit) = unsafe { (is_pruned_to_one(self.path), pg_sys::seq_page_cost) };
        let total = match is_pruned {
            true => all / leaves.len() as f64 + PRUNING * unit,
            false => all,
        };
        any_cold.then_some(Price { total, leaves })
    }

    /// A copy at this price.
    pub(super) fn copy_at(&self, price: &Price) -> *mut pg_sys::Path {
        // SAFETY: the invariant of the type; copies in the planner's memory.
        unsafe {
            if (*self.path).type_ != pg_sys::NodeTag::T_AppendPath {
                return copy_leaf(self.path, price.total);
            }
            let copy = copy_of::<pg_sys::AppendPath>(self.path);
            let mut parts = PgList::<pg_sys::Path>::new();
            for (&leaf, &price) in self.leaves.iter().zip(&price.leaves) {
                parts.push(copy_leaf(leaf, price));
            }
            (*copy).subpaths = parts.into_pg();
            by_index::set_total(copy.cast(), price.total);
            copy.cast()
        }
    }
}

/// # Safety
/// A path of the planner's.
unsafe fn is_by_index(path: *mut pg_sys::Path) -> bool {
    // SAFETY: as for this function.
    unsafe {
        matches!(
            (*path).type_,
            pg_sys::NodeTag::T_IndexPath | pg_sys::NodeTag::T_BitmapHeapPath
        )
    }
}

/// # Safety
/// A path by index of the planner's, which is running.
unsafe fn copy_leaf(leaf: *mut pg_sys::Path, price: f64) -> *mut pg_sys::Path {
    // SAFETY: the tag tells the type; a copy in the planner's memory.
    unsafe {
        let copy = match (*leaf).type_ {
            pg_sys::NodeTag::T_IndexPath => copy_of::<pg_sys::IndexPath>(leaf).cast(),
            _ => copy_of::<pg_sys::BitmapHeapPath>(leaf).cast(),
        };
        by_index::set_total(copy, price);
        copy
    }
}

/// # Safety
/// A path of this type, of the planner's, which is running.
unsafe fn copy_of<T>(path: *mut pg_sys::Path) -> *mut T {
    // SAFETY: as for this function; a copy in the planner's memory.
    unsafe {
        let copy = pg_sys::palloc0(size_of::<T>()).cast::<T>();
        copy.copy_from_nonoverlapping(path.cast::<T>(), 1);
        copy
    }
}

/// Whether a path with parameters says what the partition key of its table is equal to, or the
/// first column of the key, so that mostly one partition is left.
///
/// # Safety
/// A path of the planner's, which is running.
unsafe fn is_pruned_to_one(path: *mut pg_sys::Path) -> bool {
    // SAFETY: planner structures; a partitioned table has an expression for each column of its key.
    unsafe {
        let rel = &*(*path).parent;
        let (Some(scheme), Some(parameters)) =
            (rel.part_scheme.as_ref(), (*path).param_info.as_ref())
        else {
            return false;
        };
        let is_hash = scheme.strategy as u8 == b'h';
        let equal = match is_hash {
            true => pg_sys::HTEqualStrategyNumber,
            false => pg_sys::BTEqualStrategyNumber,
        };
        let known = |column: usize| {
            let family = *scheme.partopfamily.add(column);
            let keys = PgList::<pg_sys::Node>::from_pg(*rel.partexprs.add(column));
            let clauses = [rel.baserestrictinfo, parameters.ppi_clauses];
            let mut clauses = clauses.into_iter().flat_map(|clauses| {
                let clauses = PgList::<pg_sys::RestrictInfo>::from_pg(clauses);
                clauses.iter_ptr().collect::<Vec<_>>()
            });
            clauses.any(|clause| {
                let clause = (*clause).clause.cast::<pg_sys::OpExpr>();
                if (*clause).xpr.type_ != pg_sys::NodeTag::T_OpExpr
                    || pg_sys::get_op_opfamily_strategy((*clause).opno, family) != equal as i32
                {
                    return false;
                }
                let operands = PgList::<pg_sys::Node>::from_pg((*clause).args);
                operands.iter_ptr().any(|operand| {
                    let operand = pg_sys::strip_implicit_coercions(operand);
                    keys.iter_ptr()
                        .any(|key| pg_sys::equal(key.cast(), operand.cast()))
                })
            })
        };
        let columns = if is_hash {
            scheme.partnatts as usize
        } else {
            1
        };
        pg_sys::enable_partition_pruning && (0..columns).all(known)
    }
}
