//! Files that version 1 wrote stay readable for ever, and today's encoder still lays out
//! its footers as docs/format.md says.
//!
//! The rows of a golden file come from a seeded generator, so the files hold bytes only.
//! `HOWDAH_WRITE_GOLDEN=1` writes files that do not exist yet; it never replaces one.

mod generate;

use std::path::PathBuf;

use generate::{NULLS, Nulls, Random, SHAPES, Shape, TYPES, column, open, row_group, same};
use howdah_columnar::{ColumnType, Effort, FORMAT_VERSION, Footer, OwnedValue, RowGroupBuilder};

type Columns = Vec<(ColumnType, Vec<Option<OwnedValue>>)>;

/// Every type in every shape. The generator must never change for existing seeds.
fn golden_columns(effort: Effort) -> Columns {
    let random = &mut Random(2026 + effort as u64);
    let mut columns = Vec::new();
    for (at, ty) in TYPES.into_iter().enumerate() {
        for (nth, shape) in SHAPES.into_iter().enumerate() {
            let nulls = NULLS[(at + nth) % NULLS.len()];
            columns.push((ty, column(ty, shape, nulls, 1_000, random)));
        }
    }
    columns
}

fn path(effort: Effort) -> PathBuf {
    let name = format!("version1-{effort:?}.rowgroup").to_lowercase();
    // Relative to the crate, where tests run: a build may be shared by several checkouts.
    PathBuf::from("tests/golden").join(name)
}

fn check(builder: &RowGroupBuilder, bytes: &[u8]) {
    let footer_len = Footer::encoded_len(bytes).expect("header");
    let footer = Footer::parse(bytes).expect("parses");
    let body = &bytes[footer_len..];
    assert_eq!(footer.body_len(), body.len() as u64);
    for at in 0..footer.column_count() {
        let chunk = open(&footer, body, at);
        let decoded = chunk.decode().expect("decodes");
        for row in 0..footer.row_count() {
            assert!(
                same(decoded.value(row), builder.value(at, row)),
                "column {at} row {row}"
            );
        }
    }
}

#[test]
fn golden_files_of_version_1_are_readable() {
    for effort in [Effort::Fast, Effort::Default, Effort::Best] {
        let builder = row_group(&golden_columns(effort));
        let path = path(effort);
        if !path.exists() && std::env::var_os("HOWDAH_WRITE_GOLDEN").is_some() {
            let encoded = builder.encode(effort).expect("encodes");
            std::fs::write(&path, [encoded.footer, encoded.body].concat()).expect("writes");
        }
        check(
            &builder,
            &std::fs::read(&path).expect("the golden file is there"),
        );
    }
}

#[test]
fn the_footer_is_laid_out_as_specified() {
    let rows = column(
        ColumnType::Int32,
        Shape::Rising,
        Nulls::Never,
        9_000,
        &mut Random(1),
    );
    let nothing = column(
        ColumnType::Fixed { len: 5 },
        Shape::Rising,
        Nulls::Always,
        9_000,
        &mut Random(1),
    );
    let builder = row_group(&[
        (ColumnType::Int32, rows),
        (ColumnType::Fixed { len: 5 }, nothing),
    ]);
    let encoded = builder.encode(Effort::Default).expect("encodes");
    let footer = &encoded.footer;
    let u16_at = |at: usize| u16::from_le_bytes(footer[at..at + 2].try_into().expect("2 bytes"));
    let u32_at = |at: usize| u32::from_le_bytes(footer[at..at + 4].try_into().expect("4 bytes"));
    let u64_at = |at: usize| u64::from_le_bytes(footer[at..at + 8].try_into().expect("8 bytes"));

    assert_eq!(&footer[..8], b"HOWDAHRG");
    assert_eq!((u32_at(8), FORMAT_VERSION), (1, 1));
    assert_eq!((u32_at(12), u32_at(16)), (2, 9_000));
    assert_eq!(u32_at(20) as usize, footer.len());
    assert_eq!(u64_at(24) as usize, encoded.body.len());
    assert_eq!(footer[40..64], [0; 24]);

    // The entry of column 0.
    assert_eq!((footer[64], footer[65]), (3, 1));
    assert_eq!((u64_at(72), u64_at(80) as usize), (0, encoded.body.len()));
    assert_eq!(u64_at(88), xxhash_rust::xxh3::xxh3_64(&encoded.body));
    assert_eq!(u32_at(120), 64 + 2 * 64);

    // The entry of column 1: fixed(5), all null, no bytes.
    assert_eq!((footer[128], footer[129], u16_at(130)), (10, 0, 5));
    assert_eq!(u64_at(144), 0);
    assert_eq!(u32_at(160), 9_000);
    assert_eq!(u32_at(184), u32_at(120) + u32_at(124));
    assert_eq!((u32_at(184) + u32_at(188)) as usize, footer.len());
}
