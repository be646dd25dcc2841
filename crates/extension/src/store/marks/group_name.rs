//! Names of row groups in shared memory, where processes of all databases meet, and the time for
//! which they may be relied on.

use howdah_bridge::store::{ColdStore, StoreId};
use howdah_bridge::tid::{GroupId, RowNumber};

use crate::store::directory::GroupEntry;

pub(super) const MICROSECONDS: i64 = 1_000_000;
/// What is known under a name is not believed for longer: far less than it takes to use up all
/// names of files.
pub(super) const EXPIRES_AFTER: i64 = 3_600 * MICROSECONDS;

/// A group of a file of a database.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) file: u64,
    pub(super) place: u64,
}

impl Name {
    pub(super) fn of(store: &ColdStore, entry: &GroupEntry) -> Name {
        Name::in_file(store.id(), entry.group())
    }

    pub(super) fn in_file(store: StoreId, group: GroupId) -> Name {
        let database = howdah_bridge::xid::current_database().to_u32();
        Name {
            file: u64::from(store.toast.to_u32()) << 32 | u64::from(store.file),
            place: u64::from(database) << 32 | u64::from(group.first_block()),
        }
    }

    /// The first of the slots that it may have, of so many. Groups of a table lie at multiples of a
    /// power of two, so that one multiplication would leave them few slots. Factors: MurmurHash3's.
    pub(super) fn first_slot(&self, slots: usize) -> usize {
        let mut mixed = self.file.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.place;
        for factor in [0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53] {
            mixed = (mixed ^ mixed >> 33).wrapping_mul(factor);
        }
        (mixed >> 32) as usize % slots
    }
}

/// When the current statement began: precise enough, without a call for the time.
pub(super) fn now() -> i64 {
    howdah_bridge::xid::statement_start()
}

pub(super) fn position_of(entry: &GroupEntry, row: RowNumber) -> u32 {
    (row.0 - entry.first_row.0) as u32
}
