//! Records of the cold store: random fields in a sound frame, as random bytes would fail the check.

use howdah_records::{
    BlockDeletions, CleanedGaps, DeletionVector, Forward, ForwardTable, GroupEntry, HighWater,
    Kind, Order, RecentInserts, RewriteNote, RowMark, RowSet, UpdateLinks,
};
use xxhash_rust::xxh3::xxh3_64;

/// The rows that a group has at most.
const ROWS: u32 = howdah_records::MOST_GROUP_ROWS;

fn framed(kind: Kind, fields: &[u8]) -> Vec<u8> {
    let mut record = vec![kind as u8, kind.version()];
    record.extend(fields);
    let check = (xxh3_64(&record) >> 32) as u32;
    record.extend(check.to_le_bytes());
    record
}

/// Reads records of all kinds, in every way. The first byte chooses the kind whose fields follow.
pub fn records(input: &[u8]) {
    let Some((&choice, fields)) = input.split_first() else {
        return;
    };
    let kind = Kind::ALL[usize::from(choice) % Kind::ALL.len()];
    read(kind, fields);
    read(kind, &framed(kind, fields));
}

fn read(kind: Kind, record: &[u8]) {
    // Lists and entries name their group, which a reader knows.
    let group = |at: usize| {
        let bytes = record
            .get(at..at + 4)
            .and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    };
    match kind {
        Kind::GroupEntry => {
            // The group is the first row divided by 256.
            let _ = GroupEntry::decode(group(9), record);
        }
        Kind::HighWater => {
            let _ = HighWater::decode(record);
        }
        Kind::CleanedGaps => {
            let _ = CleanedGaps::decode(record);
        }
        Kind::DeletionVector => {
            if let Ok(vector) = DeletionVector::open(record) {
                assert_eq!(vector.edit().seal(), record);
            }
        }
        Kind::BlockDeletions => {
            for first in 0..=u8::MAX {
                if let Ok(deletions) = BlockDeletions::decode(first, record) {
                    assert_eq!(*deletions.encode(), *record);
                }
            }
        }
        Kind::Forward => {
            let _ = Forward::decode(record);
        }
        Kind::ForwardTable => {
            let _ = ForwardTable::decode(Order::Kept, record);
            let _ = ForwardTable::decode(Order::Scattered, record);
        }
        Kind::UpdateLinks => {
            if let Ok(links) = UpdateLinks::open(record) {
                (0..ROWS).step_by(31).for_each(|at| {
                    links.fate_of(at);
                });
                UpdateLinks::open(&links.without_places()).expect("a list of ours");
            }
        }
        Kind::RecentInserts => {
            if let Ok(list) = RecentInserts::open(group(3), record) {
                let mut rows = RowSet::with_bound(ROWS);
                list.add_to(&mut rows, ROWS);
                assert!((0..ROWS).all(|at| list.contains(at) == rows.contains(at)));
            }
        }
        Kind::RewriteNote => {
            let _ = RewriteNote::decode(record);
        }
        Kind::RowMark => {
            if let Ok(mark) = RowMark::decode(record) {
                assert_eq!(&*mark.encode(), record);
            }
        }
        _ => {}
    }
}
