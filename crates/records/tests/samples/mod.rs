//! One or more records of every kind, with the values that they were made from.

use howdah_records::{
    BlockDeletions, CleanedGaps, DeletionVector, EditedVector, Forward, ForwardTable, GroupEntry,
    GroupFlags, GroupState, HighWater, Kind, Order, Place, ROW_NUMBER_LIMIT, RecentInserts,
    RecordError, RewriteNote, RowFate, RowMark, RowSet, StoredTable, UpdateLinks,
    UpdateLinksBuilder,
};

/// The group whose records the samples are.
pub const GROUP: u32 = 0x0102_0304;

/// A record and what it holds.
pub struct Sample {
    /// Of the golden file: unique.
    pub name: &'static str,
    pub kind: Kind,
    /// The bytes that today's writer makes.
    pub bytes: Vec<u8>,
    /// Reads bytes as a record of this kind; tells whether they hold the values of this sample.
    pub holds: fn(&[u8]) -> Result<bool, RecordError>,
}

fn entry(state: GroupState) -> GroupEntry {
    GroupEntry {
        state,
        flags: GroupFlags::ROW_MARKS.union(GroupFlags::MOVED_ROWS),
        first_row: u64::from(GROUP) << 8,
        capacity_rows: 131_072,
        row_count: 130_001,
        value_id: 0x1121_3141,
        first_block: 0x5161_7181,
        footer_bytes: 0x1222_3242,
        body_bytes: 0x5262_7282_9212_3456,
    }
}

fn reserved() -> GroupEntry {
    GroupEntry {
        flags: GroupFlags::default(),
        row_count: 0,
        value_id: 0,
        first_block: u32::MAX,
        footer_bytes: 0,
        body_bytes: 0,
        ..entry(GroupState::Loading)
    }
}

const CLEANED: CleanedGaps = CleanedGaps {
    row_numbers: 0x0102_0304_0506_0708,
    fingerprint: 0x1112_1314_1516_1718,
};

const UPDATED: RowFate = RowFate::Updated {
    to: Place {
        block: 0x8102_0304,
        offset: 256,
    },
    keeps_key: false,
};

const UPDATED_KEY_KEPT: RowFate = RowFate::Updated {
    to: Place {
        block: 0x0102_0304,
        offset: 291,
    },
    keeps_key: true,
};

const IN_ORDER: Forward = Forward {
    order: Order::Kept,
    first_row: 0x7102_0304 << 8,
    table: None,
};

const SCATTERED: Forward = Forward {
    order: Order::Scattered,
    first_row: 512,
    table: Some(StoredTable {
        value_id: 0x1121_3141,
        value_bytes: 524_294,
    }),
};

const HIDDEN: [u32; 5] = [0, 7, 8, 1_000, 16_383];
const CLEANED_ROWS: [u32; 3] = [7, 1_000, 16_382];

fn vector() -> EditedVector {
    let mut vector = EditedVector::empty();
    HIDDEN.iter().for_each(|&at| vector.hide(at));
    CLEANED_ROWS
        .iter()
        .for_each(|&at| vector.note_as_cleaned(at));
    vector
}

fn vector_holds(bytes: &[u8]) -> Result<bool, RecordError> {
    let vector = DeletionVector::open(bytes)?;
    Ok(vector.hidden().iter().eq(HIDDEN)
        && vector.cleaned().iter().eq(CLEANED_ROWS)
        && (0..16_384).all(|at| vector.hides(at) == HIDDEN.contains(&at)))
}

fn links() -> Vec<(u32, RowFate)> {
    let updated = |block, offset, keeps_key| RowFate::Updated {
        to: Place { block, offset },
        keeps_key,
    };
    vec![
        (3, updated(7, 1, true)),
        (4, updated(7, 2, true)),
        (5, updated(7, 3, false)),
        (16_000, RowFate::MovedPartitions),
        (16_001, RowFate::MovedPartitions),
        (131_071, updated(0x8102_0304, 256, false)),
    ]
}

fn links_hold(bytes: &[u8]) -> Result<bool, RecordError> {
    let (list, expected) = (UpdateLinks::open(bytes)?, links());
    let fate_of = |position| expected.iter().find(|(at, _)| *at == position);
    Ok(list.group() == GROUP
        && (0..131_072).all(|at| list.fate_of(at) == fate_of(at).map(|(_, fate)| *fate)))
}

const RUNS: [u32; 5] = [32_768, 32_769, 32_800, 65_534, 65_535];

fn odd() -> Vec<u32> {
    (98_305..131_072).step_by(2).collect()
}

fn recent_hold(bytes: &[u8], expected: &[u32]) -> Result<bool, RecordError> {
    let list = RecentInserts::open(GROUP, bytes)?;
    let mut rows = RowSet::with_bound(131_072);
    list.add_to(&mut rows, 131_072);
    Ok(rows.iter().eq(expected.iter().copied()))
}

fn dropped() -> RowSet {
    let mut rows = RowSet::with_bound(1_000);
    for position in [0, 63, 64, 999] {
        rows.insert(position);
    }
    rows
}

const DELETED: [u8; 5] = [3, 4, 63, 64, 255];

const PLACES: [u32; 4] = [3, 0, ForwardTable::DROPPED, 131_071];

fn sample(
    name: &'static str,
    kind: Kind,
    bytes: &[u8],
    holds: fn(&[u8]) -> Result<bool, RecordError>,
) -> Sample {
    Sample {
        name,
        kind,
        bytes: bytes.to_vec(),
        holds,
    }
}

/// Records of all kinds.
pub fn samples() -> Vec<Sample> {
    vec![
        sample(
            "group-entry-stored",
            Kind::GroupEntry,
            &entry(GroupState::Stored).encode(),
            |bytes| Ok(GroupEntry::decode(GROUP, bytes)? == entry(GroupState::Stored)),
        ),
        sample(
            "group-entry-loading",
            Kind::GroupEntry,
            &reserved().encode(),
            |bytes| Ok(GroupEntry::decode(GROUP, bytes)? == reserved()),
        ),
        sample(
            "high-water",
            Kind::HighWater,
            &HighWater(ROW_NUMBER_LIMIT - 0x0102_0304).encode(),
            |bytes| Ok(HighWater::decode(bytes)?.0 == ROW_NUMBER_LIMIT - 0x0102_0304),
        ),
        sample(
            "cleaned-gaps",
            Kind::CleanedGaps,
            &CLEANED.encode(),
            |bytes| Ok(CleanedGaps::decode(bytes)? == CLEANED),
        ),
        sample(
            "deletion-vector",
            Kind::DeletionVector,
            &vector().seal(),
            vector_holds,
        ),
        sample(
            "forward-in-order",
            Kind::Forward,
            &IN_ORDER.encode(),
            |bytes| Ok(Forward::decode(bytes)? == IN_ORDER),
        ),
        sample(
            "forward-scattered",
            Kind::Forward,
            &SCATTERED.encode(),
            |bytes| Ok(Forward::decode(bytes)? == SCATTERED),
        ),
        sample(
            "forward-table-dropped",
            Kind::ForwardTable,
            &ForwardTable::encode_dropped(&dropped()),
            |bytes| {
                let table = ForwardTable::decode(Order::Kept, bytes)?;
                Ok(table == ForwardTable::Dropped(dropped()))
            },
        ),
        sample(
            "forward-table-places",
            Kind::ForwardTable,
            &ForwardTable::encode_places(&PLACES),
            |bytes| {
                let table = ForwardTable::decode(Order::Scattered, bytes)?;
                Ok(table == ForwardTable::Places(PLACES.to_vec()))
            },
        ),
        sample(
            "update-links",
            Kind::UpdateLinks,
            &encode_links(),
            links_hold,
        ),
        sample(
            "recent-inserts-runs",
            Kind::RecentInserts,
            &RecentInserts::encode(GROUP, &RUNS),
            |bytes| recent_hold(bytes, &RUNS),
        ),
        sample(
            "recent-inserts-bits",
            Kind::RecentInserts,
            &RecentInserts::encode(GROUP, &odd()),
            |bytes| recent_hold(bytes, &odd()),
        ),
        sample(
            "rewrite-note",
            Kind::RewriteNote,
            &RewriteNote.encode(),
            |bytes| Ok(RewriteNote::decode(bytes)? == RewriteNote),
        ),
        sample(
            "block-deletions",
            Kind::BlockDeletions,
            &BlockDeletions::of(&DELETED).encode(),
            |bytes| {
                Ok(BlockDeletions::decode(DELETED[0], bytes)?
                    .places()
                    .eq(DELETED))
            },
        ),
        sample(
            "row-mark-deleted",
            Kind::RowMark,
            &RowMark(RowFate::Deleted).encode(),
            |bytes| Ok(RowMark::decode(bytes)?.0 == RowFate::Deleted),
        ),
        sample(
            "row-mark-updated",
            Kind::RowMark,
            &RowMark(UPDATED).encode(),
            |bytes| Ok(RowMark::decode(bytes)?.0 == UPDATED),
        ),
        sample(
            "row-mark-updated-key-kept",
            Kind::RowMark,
            &RowMark(UPDATED_KEY_KEPT).encode(),
            |bytes| Ok(RowMark::decode(bytes)?.0 == UPDATED_KEY_KEPT),
        ),
        sample(
            "row-mark-moved-partitions",
            Kind::RowMark,
            &RowMark(RowFate::MovedPartitions).encode(),
            |bytes| Ok(RowMark::decode(bytes)?.0 == RowFate::MovedPartitions),
        ),
    ]
}

fn encode_links() -> Vec<u8> {
    let mut list = UpdateLinksBuilder::of_group(GROUP);
    for (position, fate) in links() {
        assert!(list.push(position, fate), "there is room");
    }
    list.encode()
}
