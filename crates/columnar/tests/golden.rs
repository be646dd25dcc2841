//! Files that version 2 wrote stay readable for ever, whole and row by row, and today's encoder
//! still lays out its footers as docs/format.md says.
//!
//! The rows of a golden file come from a seeded generator, so the files hold bytes only.
//! `HOWDAH_WRITE_GOLDEN=1` writes files that do not exist yet; it never replaces one.

mod generate;

use std::path::PathBuf;

use generate::{
    ALL_SHAPES, NULLS, Nulls, Random, SHAPES, Shape, TYPES, column, open, row_group, same,
};
use howdah_columnar::{
    ColumnType, Effort, EncodeOptions, FORMAT_VERSION, Footer, OwnedValue, RowGroupBuilder,
    RowState,
};

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
    columns.push((ColumnType::Float64, made(random, irrational)));
    columns.push((ColumnType::Int32, made(random, with_outliers)));
    columns.push((ColumnType::Bytes, made(random, document)));
    columns
}

fn made(random: &mut Random, value: fn(&mut Random) -> OwnedValue) -> Vec<Option<OwnedValue>> {
    (0..1_000).map(|_| Some(value(random))).collect()
}

/// Floats whose digits do not end.
fn irrational(random: &mut Random) -> OwnedValue {
    OwnedValue::Float64((1.0 + random.below(1 << 50) as f64).sqrt() / (1 << 25) as f64)
}

/// Small integers with a few large ones among them.
fn with_outliers(random: &mut Random) -> OwnedValue {
    let outlier = random.below(60) == 0;
    OwnedValue::Int32(random.below(if outlier { 1 << 30 } else { 50 }) as i32)
}

fn document(random: &mut Random) -> OwnedValue {
    let (id, name) = (random.below(100_000), random.below(500));
    OwnedValue::Bytes(format!("{{\"id\": {id}, \"customer\": \"name {name}\"}}").into_bytes())
}

/// Columns of an encoding that came after the other files.
fn columns_of_letters() -> Columns {
    let random = &mut Random(2030);
    let of_strings = |ty: &ColumnType| {
        matches!(
            ty,
            ColumnType::Text | ColumnType::Bytes | ColumnType::Fixed { .. }
        )
    };
    let types = TYPES.into_iter().filter(of_strings);
    types
        .flat_map(|ty| NULLS.map(|nulls| (ty, nulls)))
        .map(|(ty, nulls)| (ty, column(ty, Shape::Letters, nulls, 1_000, random)))
        .collect()
}

/// Byte strings in words that they share.
fn columns_of_words() -> Columns {
    let random = &mut Random(2040);
    let mut with_nulls = made(random, document);
    with_nulls.iter_mut().step_by(7).for_each(|row| *row = None);
    vec![
        (ColumnType::Bytes, made(random, document)),
        (ColumnType::Bytes, with_nulls),
    ]
}

/// The golden files: their name, their rows, and how these are encoded.
fn golden_files() -> Vec<(String, Columns, EncodeOptions)> {
    let efforts = [Effort::Fast, Effort::Default, Effort::Best];
    let of_effort = |effort| {
        let name = format!("{effort:?}").to_lowercase();
        (name, golden_columns(effort), effort)
    };
    let mut files: Vec<_> = efforts.into_iter().map(of_effort).collect();
    files.push(("letters".to_owned(), columns_of_letters(), Effort::Default));
    files.push(("words".to_owned(), columns_of_words(), Effort::Default));
    let files = files.into_iter();
    let mut files: Vec<_> = files
        .map(|(name, columns, effort)| (name, columns, effort.into()))
        .collect();
    for effort in efforts {
        let columns = columns_of_groups(effort);
        let grouped = EncodeOptions {
            effort,
            grouped: (0..columns.len()).collect(),
        };
        let name = format!("grouped-{effort:?}").to_lowercase();
        files.push((name, columns, grouped));
    }
    files
}

/// Columns of strings of every shape, which lie side by side where they can.
fn columns_of_groups(effort: Effort) -> Columns {
    let random = &mut Random(2031 + effort as u64);
    let mut columns = vec![(ColumnType::Int32, made(random, with_outliers))];
    for (nth, shape) in ALL_SHAPES.into_iter().enumerate() {
        let types = [
            ColumnType::Text,
            ColumnType::Bytes,
            ColumnType::Fixed { len: 16 },
        ];
        // Texts alone, and others among them.
        let ty = types[if effort == Effort::Default {
            0
        } else {
            nth % 3
        }];
        let nulls = NULLS[nth % 2];
        columns.push((ty, column(ty, shape, nulls, 1_000, random)));
    }
    columns
}

fn path(name: &str) -> PathBuf {
    let name = format!("version2-{name}.rowgroup");
    // Relative to the crate, where tests run: a build may be shared by several checkouts.
    PathBuf::from("tests/golden").join(name)
}

fn check(builder: &RowGroupBuilder, bytes: &[u8]) {
    let footer = Footer::parse(bytes).expect("parses");
    let footer_len = Footer::encoded_len(bytes).expect("header");
    assert_eq!(footer_len, footer.layout().footer_len());
    let body = &bytes[footer_len..];
    assert_eq!(footer.body_len(), body.len() as u64);
    for at in 0..footer.column_count() {
        let chunk = open(&footer, body, at);
        let decoded = chunk.decode().expect("decodes");
        let access = footer.layout().row_access(at, bytes).expect("plans");
        let mut state = RowState::default();
        for row in 0..footer.row_count() {
            let expected = builder.value(at, row);
            assert!(same(decoded.value(row), expected), "column {at} row {row}");
            let value = access.value(row as u32, bytes, &mut state).expect("reads");
            assert!(same(value, expected), "column {at} row {row}");
        }
    }
}

/// What the encoder writes today. The format knows `chunked`, too.
const WRITTEN: [&str; 20] = [
    "alp",
    "alprd",
    "bitpacked",
    "bool",
    "constant",
    "dict",
    "for",
    "frames",
    "fsst",
    "grouped",
    "letters",
    "masked",
    "onpair",
    "pco",
    "runend",
    "sequence",
    "sparse",
    "varbin",
    "varbinview",
    "zigzag",
];

#[test]
fn golden_files_hold_every_encoding() {
    let mut found = std::collections::BTreeSet::new();
    for (name, ..) in golden_files() {
        let bytes = std::fs::read(path(&name)).expect("the golden file is there");
        let footer = Footer::parse(&bytes).expect("parses");
        for at in 0..footer.column_count() {
            let encoding = &footer.column(at).encoding;
            let names = encoding.split(|c: char| !c.is_alphanumeric());
            found.extend(names.map(str::to_owned));
        }
    }
    let missing: Vec<_> = WRITTEN
        .iter()
        .filter(|&&name| !found.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?} not in {found:?}");
}

#[test]
fn golden_files_of_version_2_are_readable() {
    for (name, columns, options) in golden_files() {
        let builder = row_group(&columns);
        let path = path(&name);
        if !path.exists() && std::env::var_os("HOWDAH_WRITE_GOLDEN").is_some() {
            let encoded = builder.encode(options).expect("encodes");
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
    assert_eq!((u32_at(8), FORMAT_VERSION), (2, 2));
    assert_eq!((u32_at(12), u32_at(16)), (2, 9_000));
    assert_eq!(u32_at(20) as usize, footer.len());
    assert_eq!(u64_at(24) as usize, encoded.body.len());

    // The entry of column 0.
    assert_eq!((footer[32], footer[33]), (3, 1));
    assert_eq!((u64_at(40), u32_at(48) as usize), (0, encoded.body.len()));
    assert_eq!(u32_at(52), 32 + 2 * 32);

    // The entry of column 1: fixed(5), all null, no bytes.
    assert_eq!((footer[64], footer[65], u16_at(66)), (10, 0, 5));
    assert_eq!(u32_at(80), 0);
    assert_eq!(u32_at(84), u32_at(52) + u32_at(56) + u32_at(60));
    assert_eq!(
        (u32_at(84) + u32_at(88) + u32_at(92)) as usize,
        footer.len()
    );
    assert_eq!(u32_at(92), 0);

    // The first record of its statistics: 9,000 nulls.
    let section = u32_at(84) as usize;
    assert_eq!(
        footer[section..section + 4],
        [1, footer[section + 1], 0xa8, 0x46]
    );
}
