//! Cold rows in bitmap heap scans: [`howdah_bridge::table_am::scans`] goes through the bitmap and
//! reads hot pages; here single cold rows are read.
//!
//! Participants of a parallel scan take blocks from one shared iterator. Blocks are small compared
//! with row groups, so all participants work on the same few groups; each decodes them for itself.

use howdah_bridge::slot::Slot;
use howdah_bridge::table_am::scans::BitmapScans;
use howdah_bridge::tid::Tid;

use super::last_row;
use super::point_reader::PointReader;
use super::scan::{self, Scan, TwoSides};

impl BitmapScans for TwoSides {
    fn hides_hot(scan: &Scan<'_>, slot: Slot<'_>) -> bool {
        scan::hides_hot(scan, slot)
    }

    fn fetch_cold(scan: &mut Scan<'_>, tid: Tid, slot: Slot<'_>, is_rechecked: bool) -> bool {
        let Some(row) = tid.row() else {
            return false;
        };
        let (table, snapshot) = (scan.table(), scan.snapshot());
        // Rows that are checked again have a reader of their own: it reads more columns.
        let reader = match &mut scan.state().readers[usize::from(is_rechecked)] {
            Some(reader) if reader.serves(slot) => reader,
            other => other.insert(PointReader::for_slot(slot, is_rechecked)),
        };
        let found = reader.fetch(table, row, snapshot, slot);
        if found && reader.reads_whole_rows() {
            last_row::remember(slot);
        }
        found
    }
}
