//! What a backend remembers of the footers of row groups: column tables, and statistics of the
//! columns that queries asked for. A query that statistics answer, or that skips most groups, would
//! spend most of its time on reading and parsing them again.
//!
//! Groups are immutable and identified by (TOAST relation, its file, group, value id), as in
//! [`group_cache`](super::group_cache): what is remembered is never stale, unless the file is
//! emptied in place and the id is used again. Only small tables are remembered: where the groups
//! are many, reading rows takes longer than reading footers, and footers would take much memory.

use std::cell::RefCell;
use std::rc::Rc;

use howdah_bridge::store::StoreId;
use howdah_columnar::{ColumnStatistics, GroupLayout};

use super::directory::GroupEntry;
use super::group_name::GroupValueName;
use crate::bounded_cache::{HashCache, Slot};

/// The most groups of a table that is remembered: some 30 million rows.
const MOST_GROUPS: usize = 256;
/// The memory of all groups that are remembered.
const MOST_BYTES: usize = 1 << 20;
/// Columns of a group whose statistics are remembered.
const MOST_COLUMNS: usize = 8;

struct Known {
    layout: GroupLayout,
    /// By column.
    statistics: Vec<(usize, Rc<ColumnStatistics>)>,
}

impl Known {
    fn weight_bytes(&self) -> usize {
        let of_columns = self
            .statistics
            .iter()
            .map(|(_, known)| known.memory_bytes());
        size_of::<Slot<Known>>() + self.layout.memory_bytes() + of_columns.sum::<usize>()
    }
}

thread_local! {
    static KNOWN: RefCell<Option<HashCache<GroupValueName, Known>>> = const { RefCell::new(None) };
}

/// A group that is remembered.
#[derive(Clone, Copy)]
pub struct Remembered(GroupValueName);

impl Remembered {
    /// A group of a table of so many groups; `None` if it is not remembered.
    pub fn of(store: StoreId, entry: &GroupEntry, group_count: usize) -> Option<Remembered> {
        let name = GroupValueName::of(store, entry);
        (group_count <= MOST_GROUPS).then_some(Remembered(name))
    }

    fn find<T>(self, look: impl FnOnce(&mut Known) -> Option<T>) -> Option<T> {
        KNOWN.with_borrow_mut(|known| look(known.as_mut()?.get(&self.0)?))
    }

    /// The group's header and column table, if known.
    pub fn layout(self) -> Option<GroupLayout> {
        self.find(|known| Some(known.layout.clone()))
    }

    /// Notes the group's header and column table.
    pub fn note_layout(self, layout: &GroupLayout) {
        let known = Known {
            layout: layout.clone(),
            statistics: Vec::new(),
        };
        KNOWN.with_borrow_mut(|all| {
            let weigh = |_: &GroupValueName, known: &Known| known.weight_bytes();
            let all = all.get_or_insert_with(|| HashCache::of_bytes(MOST_BYTES, weigh));
            all.insert(self.0, known);
        });
    }

    /// The statistics of a column, if known.
    pub fn statistics(self, column: usize) -> Option<Rc<ColumnStatistics>> {
        self.find(|known| {
            let found = known.statistics.iter().find(|(at, _)| *at == column);
            found.map(|(_, statistics)| Rc::clone(statistics))
        })
    }

    /// Notes the statistics of a column.
    pub fn note_statistics(self, column: usize, statistics: &Rc<ColumnStatistics>) {
        KNOWN.with_borrow_mut(|all| {
            let Some(all) = all.as_mut() else { return };
            let Some(mut known) = all.remove(&self.0) else {
                return;
            };
            if known.statistics.len() == MOST_COLUMNS {
                known.statistics.remove(0);
            }
            known.statistics.push((column, Rc::clone(statistics)));
            // Weighed anew.
            all.insert(self.0, known);
        });
    }
}

/// Forgets the groups of a file that is emptied in place.
pub(super) fn forget_file(file: StoreId) {
    KNOWN.with_borrow_mut(|known| {
        if let Some(known) = known {
            known.retain(|name, _| name.store != file);
        }
    });
}
