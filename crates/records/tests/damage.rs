//! Damaged records are errors: they neither panic nor give values that were never written.

mod samples;

use howdah_records::{
    BlockDeletions, CleanedGaps, DeletionVector, Forward, ForwardTable, GroupEntry, HighWater,
    Kind, Order, Place, RecentInserts, RecordError, RewriteNote, RowFate, RowMark, RowSet,
    UpdateLinks,
};
use proptest::prelude::*;
use samples::{GROUP, samples};
use xxhash_rust::xxh3::xxh3_64;

/// Frames fields as any version would: the check is that of docs/format.md, made here anew.
fn framed(kind: u8, version: u8, fields: &[u8]) -> Vec<u8> {
    let mut record = vec![kind, version];
    record.extend(fields);
    let check = (xxh3_64(&record) >> 32) as u32;
    record.extend(check.to_le_bytes());
    record
}

#[test]
fn every_flipped_byte_is_noticed() {
    for sample in samples() {
        for at in 0..sample.bytes.len() {
            for flipped in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
                let mut bytes = sample.bytes.clone();
                bytes[at] ^= flipped;
                let read = (sample.holds)(&bytes);
                assert!(
                    read.is_err(),
                    "{} byte {at} ^ {flipped}: {read:?}",
                    sample.name
                );
            }
        }
    }
}

#[test]
fn every_cut_is_noticed() {
    for sample in samples() {
        for len in 0..sample.bytes.len() {
            let read = (sample.holds)(&sample.bytes[..len]);
            assert!(read.is_err(), "{} cut to {len}: {read:?}", sample.name);
        }
        let longer = [sample.bytes.as_slice(), &[0]].concat();
        assert!((sample.holds)(&longer).is_err(), "{}", sample.name);
    }
}

#[test]
fn a_record_of_another_kind_is_refused() {
    for sample in samples() {
        for other in samples() {
            let is_same = sample.kind == other.kind;
            assert!(is_same || (sample.holds)(&other.bytes).is_err());
        }
    }
}

#[test]
fn a_newer_version_is_told_from_damage() {
    for sample in samples() {
        let (kind, version) = (sample.kind, sample.kind.version() + 1);
        let fields = &sample.bytes[2..sample.bytes.len() - 4];
        let newer = framed(kind as u8, version, fields);
        assert_eq!(
            (sample.holds)(&newer),
            Err(RecordError::Newer { kind, version })
        );
        let zero = framed(kind as u8, 0, fields);
        assert_eq!((sample.holds)(&zero), Err(RecordError::Damaged { kind }));
        let same = framed(kind as u8, kind.version(), fields);
        assert_eq!(same, sample.bytes, "the frame of {}", sample.name);
    }
}

#[test]
fn an_entry_with_a_flag_that_is_not_known_comes_from_a_newer_version() {
    let sample = samples().swap_remove(0);
    assert_eq!(sample.kind, Kind::GroupEntry);
    let mut fields = sample.bytes[2..sample.bytes.len() - 4].to_vec();
    fields[2] |= 32;
    let (kind, version) = (sample.kind, sample.kind.version());
    let read = (sample.holds)(&framed(kind as u8, version, &fields));
    assert_eq!(read, Err(RecordError::Newer { kind, version }));
}

/// Reads a record as what its kind says, in every way.
fn read_in_every_way(kind: Kind, bytes: &[u8]) -> Option<Vec<u8>> {
    match kind {
        Kind::GroupEntry => {
            let entry = GroupEntry::decode(GROUP, bytes).ok()?;
            assert!(entry.row_count <= entry.capacity_rows);
            Some(entry.encode().to_vec())
        }
        Kind::HighWater => Some(HighWater::decode(bytes).ok()?.encode().to_vec()),
        Kind::CleanedGaps => Some(CleanedGaps::decode(bytes).ok()?.encode().to_vec()),
        Kind::DeletionVector => Some(DeletionVector::open(bytes).ok()?.edit().seal()),
        Kind::Forward => Some(Forward::decode(bytes).ok()?.encode().to_vec()),
        Kind::RewriteNote => Some(RewriteNote::decode(bytes).ok()?.encode().to_vec()),
        Kind::BlockDeletions => {
            // Of a row that is deleted, whichever it is.
            let read = |first| BlockDeletions::decode(first, bytes).ok();
            let deletions = (0..=255).find_map(read)?;
            assert_eq!((0..=255).filter_map(read).count(), 1);
            Some(deletions.encode().to_vec())
        }
        Kind::RowMark => Some(RowMark::decode(bytes).ok()?.encode().to_vec()),
        Kind::ForwardTable => {
            let scattered = ForwardTable::decode(Order::Scattered, bytes).ok()?;
            if let Ok(ForwardTable::Dropped(rows)) = ForwardTable::decode(Order::Kept, bytes) {
                assert_eq!(ForwardTable::encode_dropped(&rows), bytes);
            }
            match scattered {
                ForwardTable::Places(places) => Some(ForwardTable::encode_places(&places)),
                ForwardTable::Dropped(_) => None,
            }
        }
        Kind::UpdateLinks => {
            let links = UpdateLinks::open(bytes).ok()?;
            (0..131_072).step_by(97).for_each(|at| {
                links.fate_of(at);
            });
            let away = links.without_places();
            let away = UpdateLinks::open(&away).expect("a list of ours");
            for at in (0..131_072).step_by(97) {
                let known = links.fate_of(at).map(|_| RowFate::MovedPartitions);
                assert_eq!(away.fate_of(at), known);
            }
            None
        }
        Kind::RecentInserts => {
            let list = RecentInserts::open(GROUP, bytes).ok()?;
            let mut rows = RowSet::with_bound(131_072);
            list.add_to(&mut rows, 131_072);
            for at in (0..131_072).step_by(97) {
                assert_eq!(list.contains(at), rows.contains(at));
            }
            None
        }
        _ => None,
    }
}

proptest! {
    /// Whatever fields a sound frame holds: an error, or what writes the same bytes again.
    #[test]
    fn any_fields_are_read_or_refused(
        nth in 0..Kind::ALL.len(),
        fields in prop::collection::vec(
            prop_oneof![Just(0_u8), Just(1), Just(255), any::<u8>()], 0..64),
        group_at in 0..4_usize,
    ) {
        let kind = Kind::ALL[nth];
        let mut fields = fields;
        // Many records name their group: otherwise hardly any would get past that.
        if group_at < 2 && fields.len() >= group_at + 4 {
            fields[group_at..group_at + 4].copy_from_slice(&GROUP.to_le_bytes());
        }
        let record = framed(kind as u8, kind.version(), &fields);
        if let Some(again) = read_in_every_way(kind, &record) {
            prop_assert_eq!(again, record);
        }
    }

    /// Fields of the right length for each kind of fixed length.
    #[test]
    fn fields_of_the_right_length_are_read_or_refused(
        at in 0..samples().len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let sample = samples().swap_remove(at);
        let mut fields = sample.bytes[2..sample.bytes.len() - 4].to_vec();
        for (index, byte) in changes {
            if !fields.is_empty() {
                let at = index.index(fields.len());
                fields[at] = byte;
            }
        }
        let record = framed(sample.kind as u8, sample.kind.version(), &fields);
        if let Some(again) = read_in_every_way(sample.kind, &record) {
            prop_assert_eq!(again, record);
        }
    }

    /// Bytes without a frame.
    #[test]
    fn noise_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for sample in samples() {
            prop_assert!((sample.holds)(&bytes).is_err());
        }
    }

    /// What is written is read again.
    #[test]
    fn marks_survive(block in any::<u32>(), offset in 0..1_u16 << 14, keeps_key in any::<bool>()) {
        let mark = RowMark(RowFate::Updated { to: Place { block, offset }, keeps_key });
        prop_assert_eq!(RowMark::decode(&mark.encode()), Ok(mark));
    }
}
