//! Records that version 1 wrote stay readable for ever, and today's writer makes the same bytes.
//!
//! A golden file is named after its sample and the version of its kind. `HOWDAH_WRITE_GOLDEN=1`
//! writes files that do not exist yet; it never replaces one. A new version of a kind adds files
//! beside the old ones, which keep their test.

mod samples;

use std::collections::BTreeSet;
use std::path::PathBuf;

use howdah_records::Kind;
use samples::{Sample, samples};

fn path(sample: &Sample, version: u8) -> PathBuf {
    // Relative to the crate, where tests run: a build may be shared by several checkouts.
    PathBuf::from("tests/golden").join(format!("{}-v{version}.record", sample.name))
}

#[test]
fn there_is_a_sample_of_every_kind() {
    let sampled: Vec<Kind> = samples().iter().map(|sample| sample.kind).collect();
    for kind in Kind::ALL {
        assert!(sampled.contains(&kind), "no sample of {kind:?}");
    }
}

#[test]
fn golden_files_of_every_version_are_readable() {
    for sample in samples() {
        let newest = path(&sample, sample.kind.version());
        if !newest.exists() && std::env::var_os("HOWDAH_WRITE_GOLDEN").is_some() {
            std::fs::write(&newest, &sample.bytes).expect("writes");
        }
        for version in 1..=sample.kind.version() {
            let bytes = std::fs::read(path(&sample, version)).expect("the golden file is there");
            assert_eq!(bytes[1], version);
            assert_eq!((sample.holds)(&bytes), Ok(true), "{}", sample.name);
        }
    }
}

#[test]
fn the_writer_makes_the_bytes_of_the_newest_golden_files() {
    for sample in samples() {
        let path = path(&sample, sample.kind.version());
        let golden = std::fs::read(path).expect("the golden file is there");
        assert_eq!(sample.bytes, golden, "{}", sample.name);
    }
}

#[test]
fn no_golden_file_is_without_its_test() {
    let tested: BTreeSet<PathBuf> = samples()
        .iter()
        .flat_map(|sample| (1..=sample.kind.version()).map(|version| path(sample, version)))
        .collect();
    let entries = std::fs::read_dir("tests/golden").expect("the golden files");
    let found: BTreeSet<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(found, tested);
}

/// The bytes of docs/format.md, spelled out.
#[test]
fn a_row_mark_is_laid_out_as_specified() {
    let samples = samples();
    let bytes = |name| {
        let sample = samples.iter().find(|sample| sample.name == name);
        &sample.expect("a sample").bytes
    };
    assert_eq!(
        bytes("row-mark-updated-key-kept")[..8],
        [16, 1, 4, 3, 2, 1, 0x23, 0x81]
    );
    assert_eq!(bytes("row-mark-deleted")[..8], [16, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes("row-mark-updated").len(), 12);
    assert_eq!(bytes("block-deletions").len(), 38);
    assert_eq!(bytes("block-deletions")[..4], [10, 1, 0b1_1000, 0]);
    assert_eq!(bytes("group-entry-stored").len(), 48);
    assert_eq!(bytes("group-entry-stored")[..8], [1, 1, 1, 0, 9, 0, 0, 0]);
    assert_eq!(bytes("high-water").len(), 14);
    assert_eq!(bytes("cleaned-gaps").len(), 22);
    assert_eq!(bytes("deletion-vector").len(), 4_102);
    assert_eq!(bytes("forward-in-order").len(), 23);
    assert_eq!(bytes("rewrite-note").len(), 6);
}
