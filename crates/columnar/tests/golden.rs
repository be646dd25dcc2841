//! Files that version 2 wrote stay readable for ever, whole and row by row, with their statistics,
//! and today's encoder still lays out its footers as docs/format.md says.
//!
//! The rows of a golden file come from a seeded generator, so the files hold bytes only.
//! `HOWDAH_WRITE_GOLDEN=1` writes files that do not exist yet; it never replaces one.

mod expected;
mod generate;
mod stored;

use std::collections::BTreeSet;
use std::path::PathBuf;

use generate::{
    ALL_SHAPES, NULLS, Nulls, Random, SHAPES, Shape, TYPES, column, open, row_group, same, zones,
};
use howdah_columnar::{
    Chunk, ColumnMeta, ColumnStatistics, ColumnType, ColumnarError, CompareOp, Effort,
    EncodeOptions, FORMAT_VERSION, Footer, OwnedValue, Predicate, RowState, Verdict,
};
use stored::{Parts, nodes, records};

/// The golden file that is put together by hand.
const CHUNKED: &str = "chunked";

type Rows = Vec<Option<OwnedValue>>;
type Columns = Vec<(ColumnType, Rows)>;

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

fn made(random: &mut Random, value: fn(&mut Random) -> OwnedValue) -> Rows {
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

/// Columns of an encoding that nothing writes.
fn columns_of_pieces() -> Columns {
    let random = &mut Random(2060);
    let columns = [
        (ColumnType::Int32, Shape::Narrow, Nulls::Rarely),
        (ColumnType::Int64, Shape::Anything, Nulls::Never),
        (ColumnType::Float64, Shape::Rising, Nulls::Often),
        (ColumnType::Bool, Shape::Anything, Nulls::Never),
        (ColumnType::Text, Shape::Anything, Nulls::Often),
        (ColumnType::Bytes, Shape::SmallDomain, Nulls::Never),
    ];
    columns
        .map(|(ty, shape, nulls)| (ty, column(ty, shape, nulls, 1_000, random)))
        .into()
}

/// The rows in pieces of another encoding.
fn in_pieces(columns: &Columns) -> Vec<u8> {
    let encoded = |rows: std::ops::Range<usize>| {
        let some = |(ty, all): &(ColumnType, Rows)| (*ty, all[rows.clone()].to_vec());
        let columns: Columns = columns.iter().map(some).collect();
        let group = row_group(&columns).encode(Effort::Fast).expect("encodes");
        Parts::of(&[group.footer, group.body].concat())
    };
    let pieces = [encoded(0..130), encoded(130..131), encoded(131..1_000)];
    stored::chunked(&encoded(0..1_000), &pieces)
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
    files.push((CHUNKED.to_owned(), columns_of_pieces(), Effort::Fast));
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
    let columns = golden_columns(Effort::Default);
    let grouped = EncodeOptions {
        effort: Effort::Default,
        grouped: (0..columns.len()).collect(),
    };
    let again = columns_of_groups(Effort::Fast);
    let all_of_them = (0..again.len()).collect();
    files.push(("grouped-numbers".to_owned(), columns, grouped));
    // What columns have in common is stored once.
    let grouped = EncodeOptions {
        effort: Effort::Default,
        grouped: all_of_them,
    };
    files.push(("grouped-once".to_owned(), again, grouped));
    for effort in efforts {
        let (columns, grouped) = zones::columns(effort);
        let name = format!("zones-{effort:?}").to_lowercase();
        files.push((name, columns, EncodeOptions { effort, grouped }));
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

fn check(name: &str, columns: &Columns, bytes: &[u8]) {
    let footer = Footer::parse(bytes).expect("parses");
    let footer_len = Footer::encoded_len(bytes).expect("header");
    assert_eq!(footer_len, footer.layout().footer_len());
    let body = &bytes[footer_len..];
    assert_eq!(footer.body_len(), body.len() as u64);
    assert_eq!(footer.column_count(), columns.len());
    for (at, (ty, rows)) in columns.iter().enumerate() {
        let of = format!("{name} column {at}");
        assert_eq!(footer.row_count(), rows.len(), "{of}");
        let (meta, layout) = (footer.column(at), footer.layout());
        assert_eq!(
            (meta.ty, layout.column_type(at).expect("known")),
            (*ty, *ty)
        );
        let chunk = open(&footer, body, at);
        check_rows(&footer, bytes, at, rows, &chunk, &of);
        let statistics = layout.statistics(at, bytes).expect("readable");
        check_statistics(meta, &statistics, rows, &of);
        for (nth, predicate) in expected::predicates(rows).iter().enumerate() {
            let truth: Vec<_> = (rows.iter())
                .map(|row| expected::holds(predicate, row))
                .collect();
            check_verdicts(meta, &statistics, rows, (predicate, &truth), &of);
            // In each column others.
            check_filter(&chunk, rows, (predicate, &truth), at + nth, &of);
        }
    }
}

/// The rows as a whole, one by one in their order, and in any other.
fn check_rows(footer: &Footer, bytes: &[u8], at: usize, rows: &Rows, chunk: &Chunk, of: &str) {
    let decoded = chunk.decode().expect("decodes");
    let access = footer.layout().row_access(at, bytes).expect("plans");
    let expected = |row: usize| rows[row].as_ref().map(OwnedValue::as_value);
    let mut state = RowState::default();
    for row in 0..rows.len() {
        assert!(same(decoded.value(row), expected(row)), "{of} row {row}");
        let value = access.value(row as u32, bytes, &mut state);
        let value = value.expect("reads");
        assert!(same(value, expected(row)), "{of} row {row}");
    }
    let (mut state, random) = (RowState::default(), &mut Random(at as u64));
    // Of a row group of zones that takes long: some blocks, or a frame, are decoded for each.
    for _ in 0..rows.len().min(1_000) {
        let row = random.below(rows.len() as u64) as usize;
        let value = access.value(row as u32, bytes, &mut state);
        let value = value.expect("reads");
        assert!(same(value, expected(row)), "{of} row {row}, at random");
    }
}

fn check_statistics(meta: &ColumnMeta, statistics: &ColumnStatistics, rows: &Rows, of: &str) {
    expected::check_chunk(&meta.stats, rows, of);
    expected::check_chunk(&statistics.chunk, rows, of);
    let zones: Vec<_> = expected::zones(rows).collect();
    assert_eq!(statistics.zone_count(), zones.len());
    assert_eq!(meta.zones().len(), zones.len());
    for (nth, (zone, rows)) in meta.zones().zip(zones).enumerate() {
        let of = format!("{of} zone {nth}");
        expected::check_zone(&zone, rows, &of);
        // What is known is made use of.
        let outside = [
            (CompareOp::Lt, CompareOp::Ge, zone.min),
            (CompareOp::Gt, CompareOp::Le, zone.max),
        ];
        for (never, always, bound) in outside {
            let Some(value) = bound.map(|bound| bound.value) else {
                continue;
            };
            let verdict = |op| {
                let value = value.clone();
                statistics.zone_verdict(nth, &Predicate::Compare { op, value })
            };
            assert_eq!(verdict(never), Verdict::None, "{of}");
            let of_all = match zone.null_count {
                0 => Verdict::All,
                _ => Verdict::Some,
            };
            assert_eq!(verdict(always), of_all, "{of}");
        }
    }
}

/// A predicate, and of each row whether it is true; `None` where that has no answer.
type Asked<'a> = (&'a Predicate, &'a [Option<bool>]);

/// Verdicts by statistics agree with what is true of each row.
fn check_verdicts(
    meta: &ColumnMeta,
    statistics: &ColumnStatistics,
    rows: &Rows,
    (predicate, truth): Asked<'_>,
    of: &str,
) {
    let of = format!("{of}: {predicate:?}");
    for verdict in [
        meta.chunk_verdict(predicate),
        statistics.chunk_verdict(predicate),
    ] {
        expected::check_verdict(verdict, truth, &of);
    }
    for (zone, truth) in truth.chunks(howdah_columnar::ZONE_ROWS).enumerate() {
        let verdicts = [
            meta.zone_verdict(zone, predicate),
            statistics.zone_verdict(zone, predicate),
        ];
        for verdict in verdicts {
            expected::check_verdict(verdict, truth, &of);
        }
        let null_count = rows[meta.zone_rows(zone)]
            .iter()
            .filter(|row| row.is_none());
        let known = match (predicate, null_count.count()) {
            (Predicate::IsNull, 0) => Some(Verdict::None),
            (Predicate::IsNull, count) if count == truth.len() => Some(Verdict::All),
            (Predicate::IsNotNull, 0) => Some(Verdict::All),
            (Predicate::IsNotNull, count) if count == truth.len() => Some(Verdict::None),
            _ => None,
        };
        if let Some(known) = known {
            assert_eq!(verdicts, [known; 2], "{of} zone {zone}");
        }
    }
}

/// Filters agree with what is true of each row: of all rows, and of a part of them; of many rows,
/// some of the predicates in turn.
fn check_filter(chunk: &Chunk, rows: &Rows, (predicate, truth): Asked<'_>, nth: usize, of: &str) {
    let of = format!("{of}: {predicate:?}");
    let last = rows.len();
    let ranges = [0..last, last / 3..last - 1, 0..0];
    let asked = match (last, nth % 5) {
        (..=1_000, _) => 0..3,
        (_, 0) => 0..1,
        (_, 2) => 1..2,
        _ => 0..0,
    };
    for range in ranges[asked].iter().cloned() {
        match chunk.filter(predicate, range.clone()) {
            Ok(found) => {
                assert_eq!(found.len(), range.len());
                for (found, row) in found.iter().zip(range) {
                    assert_eq!(Some(found), truth[row], "{of} row {row}");
                }
            }
            Err(ColumnarError::NotComparable) => {
                let is_of_nulls = matches!(predicate, Predicate::IsNull | Predicate::IsNotNull);
                assert!(!is_of_nulls && expected::has_images(rows), "{of}");
            }
            Err(error) => panic!("{of}: {error}"),
        }
    }
}

/// All encodings of the format, and columns that lie side by side.
const ENCODINGS: [&str; 21] = [
    "alp",
    "alprd",
    "bitpacked",
    "bool",
    "chunked",
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
    let mut found = BTreeSet::new();
    for (name, ..) in golden_files() {
        let bytes = std::fs::read(path(&name)).expect("the golden file is there");
        let footer = Footer::parse(&bytes).expect("parses");
        for at in 0..footer.column_count() {
            let encoding = &footer.column(at).encoding;
            let names = encoding.split(|c: char| !c.is_alphanumeric());
            found.extend(names.map(str::to_owned));
        }
    }
    let missing: Vec<_> = ENCODINGS
        .iter()
        .filter(|&&name| !found.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?} not in {found:?}");
}

#[test]
fn golden_files_hold_every_record_of_nodes() {
    let mut found = BTreeSet::new();
    for (name, ..) in golden_files() {
        let bytes = std::fs::read(path(&name)).expect("the golden file is there");
        for column in Parts::of(&bytes).columns {
            found.extend(records(&column.nodes).into_iter().map(|(kind, _)| kind));
        }
    }
    assert_eq!(found, BTreeSet::from([1, 2, 3, 4]));
}

#[test]
fn golden_files_of_version_2_are_readable() {
    let read = |(name, columns, options): (String, Columns, EncodeOptions)| {
        let path = path(&name);
        if !path.exists() && std::env::var_os("HOWDAH_WRITE_GOLDEN").is_some() {
            let bytes = if name == CHUNKED {
                in_pieces(&columns)
            } else {
                let encoded = row_group(&columns).encode(options).expect("encodes");
                [encoded.footer, encoded.body].concat()
            };
            std::fs::write(&path, bytes).expect("writes");
        }
        let bytes = std::fs::read(&path).expect("the golden file is there");
        check(&name, &columns, &bytes);
    };
    std::thread::scope(|scope| {
        for file in golden_files() {
            scope.spawn(move || read(file));
        }
    });
}

#[test]
fn no_golden_file_is_without_its_rows() {
    let known = golden_files().into_iter().map(|(name, ..)| path(&name));
    let known: BTreeSet<_> = known.collect();
    let stored = std::fs::read_dir("tests/golden").expect("golden files");
    let stored: BTreeSet<_> = stored.map(|file| file.expect("a file").path()).collect();
    assert_eq!(known, stored);
}

/// A number in a protobuf message, by the fields that lead to it; all numbers are below 2^32.
fn number_in(mut message: &[u8], path: &[u8]) -> Option<usize> {
    let mut found = None;
    while !message.is_empty() {
        let key = stored::take_varint(&mut message);
        let value = stored::take_varint(&mut message);
        let content = match key & 7 {
            0 => &[][..],
            2 => stored::take(&mut message, value),
            _ => panic!("a field of another kind"),
        };
        if key >> 3 == usize::from(path[0]) {
            found = match path {
                [_] => Some(value),
                _ => number_in(content, &path[1..]),
            };
        }
    }
    found
}

/// What makes readers search over blocks of positions, and what only groups of several zones have.
fn features(stored: &[u8]) -> BTreeSet<String> {
    let mut features = BTreeSet::new();
    for column in Parts::of(stored).columns {
        if column.fields[1] == 3 {
            features.insert("grouped columns".to_owned());
        }
        let of_nodes = records(&column.nodes).into_iter().filter(|it| it.0 == 1);
        for (_, content) in of_nodes {
            for node in nodes(&content) {
                let (what, path): (_, &[u8]) = match node.encoding {
                    5 => ("words", &[1]),
                    8 => ("exceptions of alp", &[3, 1]),
                    9 => ("exceptions of alprd", &[5, 1]),
                    13 => ("runs", &[2]),
                    15 => ("exceptions of sparse", &[1, 1]),
                    18 => ("exceptions of bitpacked", &[3, 1]),
                    _ => continue,
                };
                if number_in(&node.metadata, path) > Some(1_024) {
                    features.insert(format!("more than 1,024 {what}"));
                }
            }
        }
        for (kind, content) in records(&column.statistics) {
            match kind {
                4 => {
                    features.insert("nulls of zones".to_owned());
                }
                5 => {
                    let zones = content[0];
                    if zones.count_ones() > 1 {
                        features.insert(format!("form {} of several zones", content[2]));
                    }
                    if zones != 7 {
                        features.insert("a zone without bounds".to_owned());
                    }
                }
                _ => {}
            }
        }
    }
    features
}

#[test]
fn golden_files_of_zones_hold_what_small_ones_cannot() {
    const WANTED: [&str; 12] = [
        "a zone without bounds",
        "form 1 of several zones",
        "form 2 of several zones",
        "form 3 of several zones",
        "form 4 of several zones",
        "grouped columns",
        "more than 1,024 exceptions of alp",
        "more than 1,024 exceptions of bitpacked",
        "more than 1,024 exceptions of sparse",
        "more than 1,024 runs",
        "more than 1,024 words",
        "nulls of zones",
    ];
    let mut found = BTreeSet::new();
    for effort in ["fast", "default", "best"] {
        let stored = std::fs::read(path(&format!("zones-{effort}"))).expect("a golden file");
        assert!(stored.len() < 900_000, "{effort}: {} bytes", stored.len());
        let features = features(&stored);
        println!("{effort}: {} bytes, {features:?}", stored.len());
        found.extend(features);
    }
    let missing: Vec<_> = WANTED.iter().filter(|&&it| !found.contains(it)).collect();
    assert!(missing.is_empty(), "{missing:?} not in {found:?}");
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
