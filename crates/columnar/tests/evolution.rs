//! What later versions may add, as docs/format.md says under "Versions": readers of this version
//! report it, only for the column that has it, and never misread it.

mod generate;
mod stored;

use std::collections::BTreeSet;

use generate::{Nulls, Random, Shape, column, row_group, same};
use howdah_columnar::{
    Chunk, ChunkBuffer, ColumnType, ColumnarError, Effort, EncodeOptions, Footer, GroupLayout,
    OwnedValue, Predicate, RowState, Verdict,
};
use stored::{
    ENTRY_LEN, HEADER_LEN, Node, Parts, changed, nodes, record_of, records, section, take_varint,
    varint,
};

/// Two zones.
const ROWS: usize = 9_000;

type Columns = Vec<(ColumnType, Vec<Option<OwnedValue>>)>;

/// Both columns have nulls, and zones.
fn two_columns() -> (Columns, Parts) {
    let random = &mut Random(7);
    let types = [
        (ColumnType::Int32, Shape::Narrow),
        (ColumnType::Text, Shape::Rising),
    ];
    let columns: Columns = types
        .map(|(ty, shape)| (ty, column(ty, shape, Nulls::Rarely, ROWS, random)))
        .into();
    let encoded = row_group(&columns)
        .encode(Effort::Default)
        .expect("encodes");
    let stored = [encoded.footer, encoded.body].concat();
    let parts = Parts::of(&stored);
    assert_eq!(parts.stored(), stored, "nothing is lost");
    (columns, parts)
}

fn layout(stored: &[u8]) -> GroupLayout {
    GroupLayout::read(stored).expect("the table is readable")
}

fn check_rows(stored: &[u8], column: usize, rows: &[Option<OwnedValue>]) {
    let access = layout(stored).row_access(column, stored).expect("plans");
    let mut state = RowState::default();
    for (row, expected) in rows.iter().enumerate() {
        let value = access
            .value(row as u32, stored, &mut state)
            .expect("is readable");
        assert!(
            same(value, expected.as_ref().map(OwnedValue::as_value)),
            "column {column} row {row}"
        );
    }
}

fn check_statistics(stored: &[u8], column: usize, rows: &[Option<OwnedValue>]) {
    let statistics = layout(stored).statistics(column, stored).expect("readable");
    let null_count = rows.iter().filter(|row| row.is_none()).count();
    assert!(null_count > 0);
    assert_eq!(statistics.chunk.null_count, null_count);
    assert_eq!(statistics.zone_count(), 2);
    let value = rows.iter().flatten().next().expect("a value").clone();
    let beyond = match value {
        OwnedValue::Int32(_) => OwnedValue::Int32(-1),
        _ => OwnedValue::Text("a".into()),
    };
    for (value, verdict) in [(value, Verdict::Some), (beyond, Verdict::None)] {
        assert_eq!(
            statistics.zone_verdict(0, &Predicate::In(vec![value])),
            verdict
        );
    }
}

fn check_chunk(stored: &[u8], column: usize, rows: &[Option<OwnedValue>]) {
    let layout = layout(stored);
    let meta = layout.column(column, stored).expect("readable");
    let range = meta.byte_range.start as usize..meta.byte_range.end as usize;
    let buffer = ChunkBuffer::from(&stored[range]);
    let chunk = Chunk::open(&meta, layout.row_count(), buffer).expect("opens");
    let decoded = chunk.decode().expect("decodes");
    for (row, expected) in rows.iter().enumerate() {
        assert!(same(
            decoded.value(row),
            expected.as_ref().map(OwnedValue::as_value)
        ));
    }
}

/// That a column is readable in every way.
fn check_column(stored: &[u8], column: usize, (ty, rows): &(ColumnType, Vec<Option<OwnedValue>>)) {
    assert_eq!(layout(stored).column_type(column).expect("known"), *ty);
    check_rows(stored, column, rows);
    check_statistics(stored, column, rows);
    check_chunk(stored, column, rows);
}

#[track_caller]
fn assert_newer<T>(result: Result<T, ColumnarError>, what: &str, number: u64) {
    match result {
        Err(ColumnarError::Newer {
            what: found,
            number: found_number,
        }) => assert_eq!((found, found_number), (what, number)),
        Err(other) => panic!("not newer: {other:?}"),
        Ok(_) => panic!("{what} {number} was read"),
    }
}

#[track_caller]
fn assert_corrupt<T>(result: Result<T, ColumnarError>) {
    match result {
        Err(ColumnarError::Corrupt { .. }) => {}
        Err(other) => panic!("not damage: {other:?}"),
        Ok(_) => panic!("damage was read"),
    }
}

#[test]
fn another_version_is_reported() {
    let (columns, mut parts) = two_columns();
    for version in [0, 1, 3, u32::MAX] {
        parts.header[8..12].copy_from_slice(&version.to_le_bytes());
        let stored = parts.stored();
        let is_found = |error: Option<ColumnarError>| match error {
            Some(ColumnarError::UnsupportedVersion { version: found }) => found == version,
            _ => false,
        };
        assert!(is_found(GroupLayout::read(stored.as_slice()).err()));
        assert!(is_found(Footer::parse(&stored).err()));
        assert!(is_found(Footer::encoded_len(&stored).err()));
    }
    parts.header[8..12].copy_from_slice(&2u32.to_le_bytes());
    check_column(&parts.stored(), 1, &columns[1]);
}

#[test]
fn a_newer_type_layout_or_flag_concerns_its_column_alone() {
    let (columns, parts) = two_columns();
    // Where in the entry, what is written there, what the error names.
    let additions: [(usize, &[u8], &str, u64); 8] = [
        (0, &[0], "column type", 0),
        (0, &[11], "column type", 11),
        (0, &[255], "column type", 255),
        (1, &[4], "chunk layout", 4),
        (1, &[255], "chunk layout", 255),
        (4, &[32, 0], "column flags", 32),
        (4, &[1, 128], "column flags", 0x8001),
        // The parameter and the reserved bytes may have a meaning with it.
        (1, &[4, 9, 9, 0, 0, 9, 9], "chunk layout", 4),
    ];
    for (at, bytes, what, number) in additions {
        for column in [0, 1] {
            let stored = parts.with(column, |entry| {
                entry.fields[at..at + bytes.len()].copy_from_slice(bytes);
            });
            let layout = layout(&stored);
            assert_newer(layout.column_type(column), what, number);
            assert_newer(layout.row_access(column, &*stored), what, number);
            assert_newer(layout.statistics(column, &*stored), what, number);
            assert_newer(layout.column(column, &*stored), what, number);
            assert_eq!(layout.first_of_group(column), None);
            assert_newer(Footer::parse(&stored), what, number);
            let other = 1 - column;
            check_column(&stored, other, &columns[other]);
        }
    }
}

#[test]
fn damage_of_the_column_table_is_no_newer_version() {
    let (columns, parts) = two_columns();
    let with = |at: usize, bytes: &[u8]| {
        let mut stored = parts.stored();
        let at = HEADER_LEN + ENTRY_LEN + at;
        stored[at..at + bytes.len()].copy_from_slice(bytes);
        GroupLayout::read(stored.as_slice())
    };
    // Bytes that are zero, a parameter of a type without one, a flag of another type.
    for (at, bytes) in [(6, [1, 0]), (2, [3, 0]), (4, [1, 0]), (4, [8, 0])] {
        assert_corrupt(with(at, &bytes));
    }
    // A layout that is known, but not of this type.
    assert_corrupt(with(1, &[2]));
    // Places, whether the type is known or not.
    for ty in [8, 99] {
        for at in [8, 16, 20, 24, 28] {
            let mut entry = parts.stored()[HEADER_LEN + ENTRY_LEN..][..ENTRY_LEN].to_vec();
            entry[0] = ty;
            entry[at..at + 4].copy_from_slice(&[255; 4]);
            assert_corrupt(with(0, &entry));
        }
    }
    check_column(&parts.stored(), 1, &columns[1]);
}

#[test]
fn columns_that_lie_beside_a_newer_one_are_readable() {
    let random = &mut Random(8);
    let columns: Columns = [ColumnType::Text, ColumnType::Bytes, ColumnType::Text]
        .map(|ty| (ty, column(ty, Shape::Anything, Nulls::Rarely, ROWS, random)))
        .into();
    let options = EncodeOptions {
        effort: Effort::Fast,
        grouped: vec![0, 1, 2],
    };
    let encoded = row_group(&columns).encode(options).expect("encodes");
    let parts = Parts::of(&[encoded.footer, encoded.body].concat());
    let intact = layout(&parts.stored());
    let firsts: Vec<_> = (0..3).map(|at| intact.first_of_group(at)).collect();
    assert_eq!(firsts, [Some(0); 3]);
    let stored = parts.with(0, |entry| entry.fields[4] |= 64);
    let layout = layout(&stored);
    let firsts: Vec<_> = (0..3).map(|at| layout.first_of_group(at)).collect();
    assert_eq!(firsts, [None, Some(1), Some(1)]);
    assert_newer(layout.row_access(0, &*stored), "column flags", 64);
    for at in [1, 2] {
        check_rows(&stored, at, &columns[at].1);
        check_chunk(&stored, at, &columns[at].1);
    }
    // What is stored of a row is found by way of one of them for the other.
    let [by, of] = [1, 2].map(|at| layout.row_access(at, &*stored).expect("plans"));
    let mut state = RowState::default();
    for row in (0..ROWS).step_by(97) {
        let expected = columns[2].1[row].as_ref().map(OwnedValue::as_value);
        let found = by.stored(row as u32, &*stored, &mut state).expect("reads");
        assert!(same(of.of_stored(found).expect("reads"), expected));
    }
}

#[test]
fn a_newer_encoding_concerns_the_rows_of_its_column() {
    let (columns, parts) = two_columns();
    for (column, number) in [(0, 21), (1, 21), (0, 255)] {
        let node_count = nodes(&records(&parts.columns[column].nodes)[0].1).len();
        assert!(node_count > 1, "a node that is no root");
        for at in 0..node_count {
            let stored = parts.with(column, |entry| {
                entry.nodes = changed(&entry.nodes, 1, |record| {
                    let mut nodes = nodes(record);
                    nodes[at].encoding = number;
                    *record = record_of(&nodes);
                });
            });
            let layout = layout(&stored);
            assert_newer(
                layout.row_access(column, &*stored),
                "encoding",
                number.into(),
            );
            assert_newer(layout.column(column, &*stored), "encoding", number.into());
            check_statistics(&stored, column, &columns[column].1);
            check_column(&stored, 1 - column, &columns[1 - column]);
        }
    }
}

#[test]
fn a_newer_form_of_zone_bounds_concerns_the_statistics_of_its_column() {
    let (columns, parts) = two_columns();
    for (column, form) in [(0, 5), (1, 5), (0, 0), (1, 255)] {
        let stored = parts.with(column, |entry| {
            entry.statistics = changed(&entry.statistics, 5, |bounds| bounds[2] = form);
        });
        let layout = layout(&stored);
        let (what, number) = ("form of zone bounds", form.into());
        assert_newer(layout.statistics(column, &*stored), what, number);
        assert_newer(layout.column(column, &*stored), what, number);
        check_rows(&stored, column, &columns[column].1);
        check_column(&stored, 1 - column, &columns[1 - column]);
    }
}

#[test]
fn records_below_128_are_refused_and_others_skipped() {
    let (columns, parts) = two_columns();
    let insert = |section: &[u8], at: usize, kind: u8| {
        let mut records = records(section);
        records.insert(at.min(records.len()), (kind, b"something new".to_vec()));
        self::section(&records)
    };
    let what = "column record";
    for at in [0, 1, 99] {
        for kind in [0, 6, 127] {
            let stored = parts.with(0, |entry| {
                entry.statistics = insert(&entry.statistics, at, kind);
            });
            assert_newer(layout(&stored).statistics(0, &*stored), what, kind.into());
            assert_newer(layout(&stored).column(0, &*stored), what, kind.into());
            check_rows(&stored, 0, &columns[0].1);
            check_column(&stored, 1, &columns[1]);
        }
        for kind in [0, 5, 127] {
            let stored = parts.with(1, |entry| entry.nodes = insert(&entry.nodes, at, kind));
            assert_newer(layout(&stored).row_access(1, &*stored), what, kind.into());
            assert_newer(layout(&stored).column(1, &*stored), what, kind.into());
            check_statistics(&stored, 1, &columns[1].1);
            check_column(&stored, 0, &columns[0]);
        }
        for kind in [128, 255] {
            let stored = parts.with(0, |entry| {
                entry.statistics = insert(&entry.statistics, at, kind);
                entry.nodes = insert(&entry.nodes, at, kind);
            });
            check_column(&stored, 0, &columns[0]);
            check_column(&stored, 1, &columns[1]);
        }
    }
}

#[test]
fn a_record_that_is_known_ends_after_its_fields() {
    let (_, parts) = two_columns();
    for kind in 1..=5 {
        let stored = parts.with(0, |entry| {
            let kinds: Vec<_> = records(&entry.statistics).iter().map(|it| it.0).collect();
            assert_eq!(kinds, [1, 2, 3, 4, 5]);
            entry.statistics = changed(&entry.statistics, kind, |content| content.push(0));
        });
        assert_corrupt(layout(&stored).statistics(0, &*stored));
    }
    let stored = parts.with(0, |entry| {
        entry.nodes = changed(&entry.nodes, 1, |content| content.push(0));
    });
    assert_corrupt(layout(&stored).row_access(0, &*stored));
}

/// A field of a protobuf message that holds a number.
fn number_field(field: u8, number: u8) -> [u8; 2] {
    [field << 3, number]
}

/// A field of a protobuf message that holds a message.
fn message_field(field: u8, message: &[u8]) -> Vec<u8> {
    [&[field << 3 | 2, message.len() as u8], message].concat()
}

/// Bytes behind the metadata of a node, or behind its inline value, and what the error names.
struct Addition {
    bytes: Vec<u8>,
    is_of_value: bool,
    what: &'static str,
    number: u64,
}

/// Every node of every golden file, with something in its metadata that is not known.
#[test]
fn newer_metadata_of_any_node_is_refused() {
    const OURS: [u8; 2] = [17, 20];
    let mut found = [0; 21];
    let files = std::fs::read_dir("tests/golden").expect("golden files");
    let mut files: Vec<_> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    for file in files {
        let stored = std::fs::read(file).expect("is readable");
        let parts = Parts::of(&stored);
        for (at, entry) in parts.columns.iter().enumerate() {
            let Some((_, record)) = records(&entry.nodes).into_iter().find(|it| it.0 == 1) else {
                continue;
            };
            let all = nodes(&record);
            assert_eq!(record_of(&all), record, "nothing is lost");
            for (nth, node) in all.iter().enumerate() {
                // Many nodes are alike.
                found[usize::from(node.encoding)] += 1;
                if found[usize::from(node.encoding)] > 40 {
                    continue;
                }
                let with = |change: &dyn Fn(&mut Node)| {
                    let mut nodes = all.clone();
                    change(&mut nodes[nth]);
                    let changed = self::changed(&entry.nodes, 1, |it| *it = record_of(&nodes));
                    let mut alone = parts.clone();
                    alone.columns[at].nodes = changed;
                    alone.stored()
                };
                if OURS.contains(&node.encoding) {
                    let stored = with(&|node| node.metadata.push(0));
                    let layout = layout(&stored);
                    assert_corrupt(layout.row_access(at, &*stored));
                    let meta = layout.column(at, &*stored).expect("is described");
                    let range = meta.byte_range.start as usize..meta.byte_range.end as usize;
                    let bytes = ChunkBuffer::from(&stored[range]);
                    assert_corrupt(Chunk::open(&meta, layout.row_count(), bytes));
                    continue;
                }
                for addition in additions(node) {
                    let stored = with(&|node| match &mut node.inline {
                        Some(value) if addition.is_of_value => value.extend(&addition.bytes),
                        _ => node.metadata.extend(&addition.bytes),
                    });
                    let layout = layout(&stored);
                    let (what, number) = (addition.what, addition.number);
                    assert_newer(layout.row_access(at, &*stored), what, number);
                    assert_newer(layout.column(at, &*stored), what, number);
                }
            }
        }
    }
    let missing: Vec<_> = (0..21).filter(|&number| found[number] == 0).collect();
    assert_eq!(missing, [0; 0], "no golden file has these encodings");
}

fn additions(node: &Node) -> Vec<Addition> {
    let mut additions = Vec::new();
    let mut add = |is_of_value, what, number, bytes: &[u8]| {
        additions.push(Addition {
            bytes: bytes.to_vec(),
            is_of_value,
            what,
            number,
        });
    };
    const FIELD: &str = "a field of metadata";
    const TYPE: &str = "a type in metadata";
    add(false, FIELD, 15, &number_field(15, 1));
    // The message about exceptions: its fields, and the types of two of its children.
    let exceptions = match node.encoding {
        8 | 18 => Some(3),
        9 => Some(5),
        15 => Some(1),
        _ => None,
    };
    if let Some(field) = exceptions {
        add(false, FIELD, 7, &message_field(field, &number_field(7, 1)));
        for ty in [3, 5] {
            let message = message_field(field, &number_field(ty, 11));
            add(false, TYPE, 11, &message);
        }
    }
    // Types of children: of offsets, codes, ends.
    let types: &[u8] = match node.encoding {
        2 | 13 => &[1],
        5 => &[2],
        9 => &[4],
        10 => &[1, 2],
        11 => &[1, 5, 6, 7],
        _ => &[],
    };
    for &ty in types {
        add(false, TYPE, 11, &number_field(ty, 11));
    }
    // The chunks of pco, and their pages.
    if node.encoding == 12 {
        let newer = number_field(2, 1);
        add(false, FIELD, 2, &message_field(2, &newer));
        let page = message_field(1, &newer);
        add(false, FIELD, 2, &message_field(2, &page));
    }
    // The first value and the step of sequences.
    if node.encoding == 14 {
        for field in [1, 2] {
            let value = message_field(field, &number_field(13, 1));
            add(false, FIELD, 13, &value);
        }
    }
    if node.inline.is_some() {
        add(true, FIELD, 13, &number_field(13, 1));
    }
    additions
}

/// A value that is too long to be inline has its fields checked where it is read.
#[test]
fn a_newer_field_of_a_long_value_is_refused() {
    let long = OwnedValue::Text("long ".repeat(400));
    let columns: Columns = vec![(ColumnType::Text, vec![Some(long); 100])];
    let encoded = row_group(&columns)
        .encode(Effort::Default)
        .expect("encodes");
    let parts = Parts::of(&[encoded.footer, encoded.body].concat());
    check_rows(&parts.stored(), 0, &columns[0].1);
    check_chunk(&parts.stored(), 0, &columns[0].1);
    let all = nodes(&records(&parts.columns[0].nodes)[0].1);
    assert_eq!((all.len(), all[0].encoding), (1, 4), "a constant");
    let (_, len) = all[0].parts[0];
    assert!(all[0].inline.is_none() && len > 2_000 && len == parts.body.len());
    let mut newer = parts.clone();
    newer.body.extend(number_field(9, 1));
    let grown = varint(newer.body.len());
    newer.columns[0].fields[16..20].copy_from_slice(&(newer.body.len() as u32).to_le_bytes());
    newer.header[24..32].copy_from_slice(&(newer.body.len() as u64).to_le_bytes());
    newer.columns[0].nodes = changed(&newer.columns[0].nodes, 1, |record| {
        let mut nodes = nodes(record);
        nodes[0].parts[0].1 = take_varint(&mut grown.as_slice());
        *record = record_of(&nodes);
    });
    let stored = newer.stored();
    let access = layout(&stored).row_access(0, &*stored).expect("plans");
    let value = access
        .value(5, &*stored, &mut RowState::default())
        .map(|_| ());
    assert_newer(value, "a field of metadata", 9);
    let footer = Footer::parse(&stored).expect("parses");
    let meta = footer.column(0);
    let body = ChunkBuffer::from(newer.body.as_slice());
    let opened = Chunk::open(meta, footer.row_count(), body);
    assert_newer(opened, "a field of metadata", 9);
}

/// Only single values are inline parts: else parts would have other numbers than readers expect.
#[test]
fn an_inline_part_of_another_encoding_is_no_part_of_it() {
    let (_, parts) = two_columns();
    let mut tried = BTreeSet::new();
    for (at, entry) in parts.columns.iter().enumerate() {
        for nth in 0..nodes(&records(&entry.nodes)[0].1).len() {
            let stored = parts.with(at, |entry| {
                entry.nodes = changed(&entry.nodes, 1, |record| {
                    let mut nodes = nodes(record);
                    tried.insert(nodes[nth].encoding);
                    nodes[nth].inline = Some(number_field(4, 1).to_vec());
                    *record = record_of(&nodes);
                });
            });
            assert_corrupt(layout(&stored).row_access(at, &*stored));
            assert_corrupt(layout(&stored).column(at, &*stored));
        }
    }
    assert!(tried.len() > 3, "{tried:?}");
}
