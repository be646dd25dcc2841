//! The tables that a relation of a query stands for: itself, or its partitions and inheritance
//! children.
//!
//! ```text
//!   parent ── append_rel_list ─▶ children, theirs, …: each has its RelOptInfo and a map
//! ```
//!
//! The engine's description of a query uses attribute numbers of the relation in the query. A child
//! may have the attributes under other numbers: [`AttributeMap`]. Types and collations are the
//! same, as PostgreSQL requires of children.
//!
//! Partitions that the planner has pruned are not in the list, and those that it has excluded are
//! dummies. The node applies the executor's initial pruning, and that by parameters of the run
//! ([`pruning`](super::pruning)).

use pgrx::{PgList, pg_sys};

use super::reason::Reason;
use crate::custom_node::contains;
use crate::scan::others;
use crate::table::Table as OpenTable;

/// The positions in a table of the attributes of the relation in the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeMap {
    Same,
    /// For each attribute of the relation its index in the table; `None` if it was dropped.
    Other(Vec<Option<usize>>),
}

impl AttributeMap {
    /// The table's index of an attribute.
    pub fn of(&self, attribute: usize) -> Option<usize> {
        match self {
            Self::Same => Some(attribute),
            Self::Other(indexes) => *indexes.get(attribute)?,
        }
    }

    /// The composition of this map after another one.
    fn after(&self, first: &AttributeMap) -> AttributeMap {
        match (first, self) {
            (Self::Same, second) => second.clone(),
            (first, Self::Same) => first.clone(),
            (Self::Other(first), second) => {
                let through = |index: &Option<usize>| index.and_then(|index| second.of(index));
                Self::Other(first.iter().map(through).collect())
            }
        }
    }

    /// The map from a parent to its child.
    ///
    /// # Safety
    /// All pointers are the planner's, of the query level that is being planned.
    unsafe fn of_child(child: &pg_sys::AppendRelInfo) -> AttributeMap {
        // SAFETY: a list of expressions with NULL for dropped attributes.
        let indexes: Vec<Option<usize>> = unsafe {
            PgList::<pg_sys::Node>::from_pg(child.translated_vars)
                .iter_ptr()
                .map(|node| {
                    if node.is_null() || (*node).type_ != pg_sys::NodeTag::T_Var {
                        return None;
                    }
                    usize::try_from(i32::from((*node.cast::<pg_sys::Var>()).varattno) - 1).ok()
                })
                .collect()
        };
        let is_same = |(i, index): (usize, &Option<usize>)| *index == Some(i);
        match indexes.iter().enumerate().all(is_same) {
            true => Self::Same,
            false => Self::Other(indexes),
        }
    }
}

/// A table that is read.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its index in the range table of its query level.
    pub rti: i32,
    pub attributes: AttributeMap,
}

/// A table as the planner knows it.
pub struct QueriedTable {
    pub table: Table,
    pub oid: pg_sys::Oid,
    /// Valid while the planner runs, which is as long as references to this exist.
    rel: *mut pg_sys::RelOptInfo,
}

impl QueriedTable {
    /// For estimates.
    pub fn rel(&self) -> *mut pg_sys::RelOptInfo {
        self.rel
    }

    /// Rows of the table, and those of them that are expected to pass the filter.
    pub fn tuples_and_rows(&self) -> (f64, f64) {
        // SAFETY: a planner structure.
        unsafe { ((*self.rel).tuples, (*self.rel).rows) }
    }

    /// What it costs to read a page after its neighbour.
    pub fn sequential_page_cost(&self) -> f64 {
        let (mut random_page, mut sequential_page) = (0.0, 0.0);
        // SAFETY: a planner structure.
        unsafe {
            let tablespace = (*self.rel).reltablespace;
            pg_sys::get_tablespace_page_costs(tablespace, &mut random_page, &mut sequential_page);
        }
        sequential_page
    }

    /// What it costs to read all of its pages.
    pub fn cost_of_pages(&self) -> f64 {
        // SAFETY: a planner structure.
        let pages = unsafe { (*self.rel).pages };
        f64::from(pages) * self.sequential_page_cost()
    }
}

/// The tables of the relation that a query scans, and whether parameters of the run choose among
/// them.
///
/// # Safety
/// Planner structures; `input` is a base relation.
pub(super) unsafe fn tables_of(
    root: *mut pg_sys::PlannerInfo,
    input: *mut pg_sys::RelOptInfo,
) -> Result<(Vec<QueriedTable>, bool), Reason> {
    // SAFETY: planner structures; indexes of relations are within the arrays.
    unsafe {
        let rti = (*input).relid;
        let rte = *(*root).simple_rte_array.add(rti as usize);
        if !(*rte).inh {
            if others::supply_rows(input) {
                return Err(Reason::SuppliedElsewhere((*rte).relid));
            }
            let table = QueriedTable {
                table: Table {
                    rti: rti as i32,
                    attributes: AttributeMap::Same,
                },
                oid: (*rte).relid,
                rel: input,
            };
            return Ok((vec![table], false));
        }
        let mut is_pruned = is_pruned_in_the_run(input);
        // Parents come before their children. For each relation its map; `None` if it is not one of
        // our parents.
        let mut parents = vec![None; (*root).simple_rel_array_size as usize];
        parents[rti as usize] = Some(AttributeMap::Same);
        let mut tables = Vec::new();
        for child in PgList::<pg_sys::AppendRelInfo>::from_pg((*root).append_rel_list).iter_ptr() {
            let (parent, index) = (
                (*child).parent_relid as usize,
                (*child).child_relid as usize,
            );
            let Some(Some(above)) = parents.get(parent) else {
                continue;
            };
            let rel = *(*root).simple_rel_array.add(index);
            let rte = *(*root).simple_rte_array.add(index);
            if rel.is_null() || (*rte).rtekind != pg_sys::RTEKind::RTE_RELATION {
                return Err(Reason::NotATable);
            }
            if pg_sys::is_dummy_rel(rel) {
                continue;
            }
            let attributes = AttributeMap::of_child(&*child).after(above);
            if (*rte).inh {
                is_pruned |= is_pruned_in_the_run(rel);
                parents[index] = Some(attributes);
                continue;
            }
            if !matches!((*rte).relkind as u8, b'r' | b'm') {
                return Err(Reason::Child((*rte).relid));
            }
            if others::supply_rows(rel) {
                return Err(Reason::SuppliedElsewhere((*rte).relid));
            }
            tables.push(QueriedTable {
                table: Table {
                    rti: index as i32,
                    attributes,
                },
                oid: (*rte).relid,
                rel,
            });
        }
        Ok((tables, is_pruned))
    }
}

/// Whether an Append over the relation prunes partitions by parameters that nested loops, or
/// subplans, set.
///
/// # Safety
/// All pointers are the planner's, of the query level that is being planned.
unsafe fn is_pruned_in_the_run(rel: *mut pg_sys::RelOptInfo) -> bool {
    // SAFETY: planner structures; a partitioned relation has as many lists of key expressions as
    // keys.
    unsafe {
        if (*rel).part_scheme.is_null() || !pg_sys::enable_partition_pruning {
            return false;
        }
        let clauses = PgList::<pg_sys::RestrictInfo>::from_pg((*rel).baserestrictinfo);
        let with_parameters: Vec<_> = clauses
            .iter_ptr()
            .map(|clause| (*clause).clause.cast::<pg_sys::Node>())
            .filter(|&clause| contains(clause, is_run_time_parameter))
            .collect();
        if with_parameters.is_empty() {
            return false;
        }
        let rti = (*rel).relid;
        let mut keys = std::ptr::null_mut();
        for i in 0..(*(*rel).part_scheme).partnatts as usize {
            pg_sys::pull_varattnos((*(*rel).partexprs.add(i)).cast(), rti, &mut keys);
        }
        with_parameters.into_iter().any(|clause| {
            let mut named = std::ptr::null_mut();
            pg_sys::pull_varattnos(clause, rti, &mut named);
            pg_sys::bms_overlap(named, keys)
        })
    }
}

/// Whether the node is a parameter that the executor sets.
///
/// # Safety
/// A node of an expression.
unsafe fn is_run_time_parameter(node: *mut pg_sys::Node) -> bool {
    // SAFETY: the cast follows the node's tag.
    unsafe {
        (*node).type_ == pg_sys::NodeTag::T_Param
            && (*node.cast::<pg_sys::Param>()).paramkind == pg_sys::ParamKind::PARAM_EXEC
    }
}

/// Whether a table is heap.
pub fn is_heap(table: OpenTable<'_>) -> bool {
    // SAFETY: the relation is open; the routine is a constant.
    unsafe { std::ptr::eq((*table.raw()).rd_tableam, pg_sys::GetHeapamTableAmRoutine()) }
}

/// Encodes tables as lists of integers, for the private part of a plan: the range table index, then
/// attribute numbers, 0 where there is none.
pub(super) fn list_of(tables: &[QueriedTable]) -> *mut pg_sys::List {
    let mut lists = PgList::<pg_sys::List>::new();
    for QueriedTable { table, .. } in tables {
        let mut integers = vec![table.rti];
        if let AttributeMap::Other(indexes) = &table.attributes {
            let number = |index: &Option<usize>| index.map_or(0, |index| index as i32 + 1);
            integers.extend(indexes.iter().map(number));
        }
        lists.push(super::plan::integers(&integers));
    }
    lists.into_pg()
}

/// The tables that [`list_of`] wrote.
///
/// # Safety
/// Such a list, or a copy of one.
pub(super) unsafe fn of_list(list: *mut pg_sys::List) -> Vec<Table> {
    // SAFETY: as for this function: each element is a list of integers.
    unsafe {
        PgList::<pg_sys::List>::from_pg(list)
            .iter_ptr()
            .map(|integers| {
                let len = (*integers).length as usize;
                let number = |i: usize| (*(*integers).elements.add(i)).int_value;
                let index = |i: usize| usize::try_from(number(i) - 1).ok();
                Table {
                    rti: number(0),
                    attributes: match len {
                        1 => AttributeMap::Same,
                        _ => AttributeMap::Other((1..len).map(index).collect()),
                    },
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::AttributeMap::{Other, Same};

    #[test]
    fn maps_are_followed_level_by_level() {
        let first = Other(vec![Some(2), None, Some(0)]);
        let second = Other(vec![Some(5), Some(6), None]);
        let both = second.after(&first);
        assert_eq!(both, Other(vec![None, None, Some(5)]));
        assert_eq!(first.after(&Same), first);
        assert_eq!(Same.after(&first), first);
        assert_eq!((both.of(2), both.of(0), both.of(9)), (Some(5), None, None));
        assert_eq!(Same.of(7), Some(7));
    }
}
