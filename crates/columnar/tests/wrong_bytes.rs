//! Row groups in which a few bytes are wrong in a way that no length or checked sum shows: each is
//! an error of whatever reads them, and of nothing else.

mod generate;
mod stored;

use generate::{Random, row_group, same};
use howdah_columnar::{
    Chunk, ChunkBuffer, ColumnType, ColumnarError, CompareOp, Effort, EncodeOptions, GroupLayout,
    OwnedNumeric, OwnedValue, Predicate, RowState, TextPattern,
};
use stored::{Parts, section, varint};

type Rows = Vec<Option<OwnedValue>>;

fn stored(columns: &[(ColumnType, Rows)], options: impl Into<EncodeOptions>) -> Vec<u8> {
    let group = row_group(columns).encode(options).expect("encodes");
    [group.footer, group.body].concat()
}

fn encoding(bytes: &[u8], column: usize) -> String {
    let layout = GroupLayout::read(bytes).expect("reads");
    layout.column(column, bytes).expect("reads").encoding
}

/// Where the chunk of a column lies.
fn chunk_start(bytes: &[u8], column: usize) -> usize {
    let layout = GroupLayout::read(bytes).expect("reads");
    layout
        .column(column, bytes)
        .expect("reads")
        .byte_range
        .start as usize
}

fn open(bytes: &[u8], column: usize) -> Result<Chunk, ColumnarError> {
    let layout = GroupLayout::read(bytes)?;
    let meta = layout.column(column, bytes)?;
    let range = meta.byte_range.start as usize..meta.byte_range.end as usize;
    Chunk::open(&meta, layout.row_count(), ChunkBuffer::from(&bytes[range]))
}

/// Whether row access reads what was written there; an error is neither.
fn read(bytes: &[u8], column: usize, row: usize, rows: &Rows) -> Result<bool, ColumnarError> {
    let layout = GroupLayout::read(bytes)?;
    let access = layout.row_access(column, bytes)?;
    let mut state = RowState::default();
    let value = access.value(row as u32, bytes, &mut state)?;
    let expected = rows[row].as_ref().map(OwnedValue::as_value);
    Ok(same(value, expected))
}

fn is_corrupt<T>(result: Result<T, ColumnarError>) -> bool {
    matches!(result, Err(ColumnarError::Corrupt { .. }))
}

fn text(text: String) -> Option<OwnedValue> {
    Some(OwnedValue::Text(text))
}

/// The only place of some bytes.
fn place_of(bytes: &[u8], wanted: &[u8]) -> usize {
    let mut places = bytes.windows(wanted.len()).enumerate();
    let mut found = places.by_ref().filter(|(_, window)| *window == wanted);
    let place = found.next().expect("is there").0;
    assert!(found.next().is_none(), "is there once");
    place
}

#[test]
fn letters_have_no_bits_behind_their_last_character() {
    let random = &mut Random(5);
    // Twelve bits, in two bytes.
    let rows: Rows = (0..2_000)
        .map(|_| text(format!("{:03x}", random.below(4_096))))
        .collect();
    let intact = stored(&[(ColumnType::Text, rows.clone())], Effort::Default);
    assert_eq!(encoding(&intact, 0), "letters");
    let equal = |row: usize| Predicate::Compare {
        op: CompareOp::Eq,
        value: rows[row].clone().expect("no row is null"),
    };
    let chunk = open(&intact, 0).expect("opens");
    assert!(chunk.filter(&equal(7), 0..2_000).expect("filters").value(7));
    for bit in 4..8 {
        let mut bytes = intact.clone();
        bytes[chunk_start(&intact, 0) + 2 * 7 + 1] |= 1 << bit;
        let chunk = open(&bytes, 0).expect("opens");
        assert!(is_corrupt(chunk.filter(&equal(7), 0..2_000)));
        assert!(is_corrupt(chunk.filter(&equal(8), 0..2_000)));
        assert!(chunk.filter(&equal(8), 8..2_000).expect("filters").value(0));
        assert!(is_corrupt(chunk.decode()));
        assert!(is_corrupt(chunk.decode_selection(&[6, 7])));
        assert!(chunk.decode_selection(&[6, 8]).is_ok());
        assert!(is_corrupt(read(&bytes, 0, 7, &rows)));
        assert!(read(&bytes, 0, 8, &rows).expect("is another row"));
    }
}

/// Two columns side by side, the lengths of whose strings have two digits.
fn grouped() -> (Vec<u8>, [Rows; 2]) {
    let random = &mut Random(6);
    let mut rows = || -> Rows {
        let mut string = || {
            let len = 130 + random.below(100);
            (0..len).map(|_| random.next() as u8).collect()
        };
        (0..300)
            .map(|_| Some(OwnedValue::Bytes(string())))
            .collect()
    };
    let rows = [rows(), rows()];
    let columns = rows.clone().map(|rows| (ColumnType::Bytes, rows));
    let options = EncodeOptions {
        effort: Effort::Fast,
        grouped: vec![0, 1],
    };
    (stored(&columns, options), rows)
}

fn number_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// Where the record begins that finds a grouped column in its rows: the last one of its nodes.
fn field_record(bytes: &[u8], column: usize) -> usize {
    let entry = 32 + 32 * column;
    let nodes = number_at(bytes, entry + 20) + number_at(bytes, entry + 24);
    let end = nodes + number_at(bytes, entry + 28);
    let is_last = |&at: &usize| bytes[at] == 3 && at + 2 + usize::from(bytes[at + 1]) == end;
    (nodes..end - 1).rfind(is_last).expect("there is one")
}

#[test]
fn digits_of_lengths_have_seven_bits() {
    let (intact, rows) = grouped();
    let Some(OwnedValue::Bytes(string)) = &rows[0][5] else {
        unreachable!("rows are bytes");
    };
    let digits = place_of(&intact, string) - 4;
    let stored_len = string.len() + 1;
    assert_eq!(usize::from(intact[digits]), stored_len & 0x7F);
    assert_eq!(usize::from(intact[digits + 1]), stored_len >> 7);
    // The same number, of digits that no writer writes.
    let mut bytes = intact.clone();
    bytes[digits] |= 0x80;
    bytes[digits + 1] -= 1;
    for (column, rows) in rows.iter().enumerate() {
        assert!(read(&intact, column, 5, rows).expect("reads"));
        assert!(is_corrupt(read(&bytes, column, 5, rows)));
        assert!(read(&bytes, column, 6, rows).expect("reads"));
        let chunk = open(&bytes, column).expect("opens");
        assert!(is_corrupt(chunk.decode()));
        assert!(is_corrupt(chunk.decode_selection(&[5])));
        assert!(is_corrupt(chunk.filter(&Predicate::IsNull, 0..300)));
    }
}

#[test]
fn columns_that_lie_side_by_side_agree_about_it() {
    let (once, rows) = grouped();
    let intact = Parts::of(&once).with_own_nodes().stored();
    for (column, rows) in rows.iter().enumerate() {
        assert!(read(&intact, column, 5, rows).expect("reads"));
    }
    for other_way in [false, true] {
        let (first, second) = if other_way { (1, 0) } else { (0, 1) };
        let check = |change: &dyn Fn(&mut [u8], usize)| {
            let mut bytes = intact.clone();
            let record = field_record(&bytes, 1);
            change(&mut bytes, record);
            let layout = GroupLayout::read(&bytes[..]).expect("reads");
            let one = layout.row_access(first, &bytes[..]);
            let two = layout.row_access(second, &bytes[..]);
            let columns = [first, second].map(|at| layout.column(at, &bytes[..]).is_ok());
            (one.is_ok(), two.is_ok(), columns)
        };
        assert_eq!(check(&|_, _| {}), (true, true, [true; 2]));
        // The second column reads the first one's strings.
        let swapped = check(&|bytes, record| bytes[record + 2] = 0);
        assert_eq!(swapped, (!other_way, other_way, [!other_way, other_way]));
        // It counts three digits for the first one.
        let digits = check(&|bytes, record| bytes[record + 5] += 1);
        assert_eq!(digits, (true, false, [true, false]));
    }
    // It has a chunk of its own.
    let mut bytes = intact.clone();
    bytes[32 + 32 + 16] ^= 1;
    assert!(is_corrupt(GroupLayout::read(&bytes[..])));
}

/// A node section of this record alone.
fn beside(index: usize, column: usize) -> Vec<u8> {
    section(&[(4, [varint(index), varint(column)].concat())])
}

#[test]
fn columns_name_the_one_that_has_the_nodes_of_their_group() {
    let (intact, rows) = grouped();
    let parts = Parts::of(&intact);
    assert_eq!(parts.columns[1].nodes, beside(1, 0));
    // The other way round: the first column names the second one.
    let mut other_way = parts.with_own_nodes();
    other_way.columns[0].nodes = beside(0, 1);
    let other_way = other_way.stored();
    for (column, rows) in rows.iter().enumerate() {
        assert!(read(&other_way, column, 5, rows).expect("reads"));
    }
    let own = parts.with_own_nodes().columns[1].nodes.clone();
    let newer = section(&[(5, vec![1])]);
    let optional = section(&[(128, vec![1])]);
    let check = |nodes: &[u8]| {
        let bytes = parts.with(1, |column| column.nodes = nodes.to_vec());
        let layout = GroupLayout::read(&bytes[..]).expect("reads");
        let first = layout.row_access(0, &bytes[..]);
        assert!(first.is_ok() && layout.column(0, &bytes[..]).is_ok());
        let error = layout.row_access(1, &bytes[..]).err();
        // Whatever was read before.
        for again in [layout, GroupLayout::read(&bytes[..]).expect("reads")] {
            let meta = again.column(1, &bytes[..]).err();
            assert_eq!(
                meta.map(|it| it.to_string()),
                error.as_ref().map(|it| it.to_string())
            );
        }
        error
    };
    assert!(check(&[beside(1, 0), optional.clone()].concat()).is_none());
    assert!(check(&[optional, beside(1, 0)].concat()).is_none());
    // The first column's place; none of the group's; itself; no column of the row group.
    for nodes in [
        beside(0, 0),
        beside(2, 0),
        beside(1, 1),
        beside(1, 2),
        beside(1, usize::MAX >> 1),
    ] {
        let error = check(&nodes);
        assert!(
            matches!(error, Some(ColumnarError::Corrupt { .. })),
            "{error:?}"
        );
    }
    // Nodes of its own besides, before or behind; the record twice, or with more than it has.
    let longer = section(&[(4, vec![1, 0, 0])]);
    let [before, behind] = [[&own[..], &beside(1, 0)], [&beside(1, 0), &own[..]]];
    let twice = beside(1, 0).repeat(2);
    for nodes in [before.concat(), behind.concat(), twice, longer] {
        let error = check(&nodes);
        assert!(
            matches!(error, Some(ColumnarError::Corrupt { .. })),
            "{error:?}"
        );
    }
    let error = check(&[beside(1, 0), newer].concat());
    assert!(
        matches!(error, Some(ColumnarError::Newer { number: 5, .. })),
        "{error:?}"
    );
}

#[test]
fn a_column_names_none_of_another_chunk() {
    let (_, rows) = grouped();
    let columns: Vec<_> = [0, 1, 0]
        .map(|at| (ColumnType::Bytes, rows[at].clone()))
        .into();
    let options = EncodeOptions {
        effort: Effort::Fast,
        grouped: vec![1, 2],
    };
    let parts = Parts::of(&stored(&columns, options));
    assert_eq!(parts.columns[2].nodes, beside(1, 1));
    for (column, nodes) in [(2, beside(1, 0)), (0, beside(0, 1))] {
        let bytes = parts.with(column, |entry| entry.nodes = nodes);
        let layout = GroupLayout::read(&bytes[..]).expect("reads");
        assert!(is_corrupt(layout.row_access(column, &bytes[..])));
        assert!(is_corrupt(layout.column(column, &bytes[..])));
        assert!(read(&bytes, 1, 5, &rows[1]).expect("reads"));
    }
}

#[test]
fn rows_of_numeric_images_ascend_within_the_chunk() {
    let image_rows = [5_u32, 700, 901];
    let mut rows: Rows = (0..1_000)
        .map(|row| OwnedNumeric::Small {
            unscaled: row * 7 % 1_000,
            scale: 2,
        })
        .map(|number| Some(OwnedValue::Numeric(number)))
        .collect();
    for row in image_rows {
        let image = OwnedNumeric::Image(format!("image {row}").into_bytes());
        rows[row as usize] = Some(OwnedValue::Numeric(image));
    }
    let intact = stored(&[(ColumnType::Numeric, rows.clone())], Effort::Fast);
    let bytes_of = |rows: [u32; 3]| rows.map(u32::to_le_bytes).concat();
    let place = place_of(&intact, &bytes_of(image_rows));
    for row in [4, 5, 6, 700, 901] {
        assert!(read(&intact, 0, row, &rows).expect("reads"));
    }
    for wrong in [[901, 700, 5], [5, 901, 700], [5, 5, 901], [5, 700, 1_000]] {
        let mut bytes = intact.clone();
        bytes[place..place + 12].copy_from_slice(&bytes_of(wrong));
        assert!(is_corrupt(open(&bytes, 0)), "{wrong:?}");
        // Whether a row is an image is not known of any.
        for row in [4, 5, 6, 700, 901] {
            assert!(is_corrupt(read(&bytes, 0, row, &rows)), "{wrong:?}");
        }
    }
}

/// Codes of five words, which rows that are null have or have not, made 7.
fn check_codes(ty: ColumnType, words: [OwnedValue; 5], predicates: &[Predicate]) {
    let random = &mut Random(8);
    let rows: Rows = (0..1_000)
        .map(|row| (row % 4 > 0).then(|| words[random.below(5) as usize].clone()))
        .collect();
    let intact = stored(&[(ty, rows.clone())], Effort::Default);
    let encoding = encoding(&intact, 0);
    assert!(encoding.starts_with("dict(bitpacked"), "{encoding}");
    let chunk = open(&intact, 0).expect("opens");
    for predicate in predicates {
        assert!(chunk.filter(predicate, 0..1_000).is_ok());
    }
    // Codes come first, each of three bits.
    let start = chunk_start(&intact, 0);
    let mut bytes = intact.clone();
    bytes[start..start + 384].fill(0xFF);
    let chunk = open(&bytes, 0).expect("opens");
    for predicate in predicates {
        let found = chunk.filter(predicate, 0..1_000);
        assert!(is_corrupt(found), "{predicate:?}");
    }
    assert!(is_corrupt(chunk.decode()));
    assert!(is_corrupt(chunk.view()));
    assert!(is_corrupt(read(&bytes, 0, 5, &rows)));
}

#[test]
fn codes_of_valid_rows_stand_for_words() {
    let like = TextPattern {
        prefix: b"al".to_vec(),
        ..TextPattern::default()
    };
    let texts = ["alpha", "beta", "gamma", "delta", "epsilon"];
    let texts = texts.map(|word| OwnedValue::Text(word.into()));
    let predicates = [
        Predicate::In(texts[..2].to_vec()),
        Predicate::Like(like.clone()),
        Predicate::NotLike(like),
    ];
    check_codes(ColumnType::Text, texts, &predicates);
    // Rows that are null have no code.
    let numbers = [3, 1 << 20, 1 << 33, 1 << 47, 1 << 60].map(OwnedValue::Int64);
    let predicates = [
        Predicate::In(numbers[..2].to_vec()),
        Predicate::In(vec![OwnedValue::Int64(77)]),
    ];
    check_codes(ColumnType::Int64, numbers, &predicates);
}

/// Texts of any characters of ASCII, of lengths from 3 to 40.
fn any_texts(row_count: usize) -> Vec<String> {
    let random = &mut Random(9);
    let mut string = |len: usize| -> String {
        let character = |_| char::from(0x20 + random.below(95) as u8);
        (0..len).map(character).collect()
    };
    (0..row_count).map(|at| string(3 + at * 13 % 38)).collect()
}

/// Texts stored end to end, after their offsets: the chunk of bytes that are not compressed, with
/// a text's footer.
fn end_to_end(texts: &[String]) -> Vec<u8> {
    let random = &mut Random(10);
    let any: Vec<Vec<u8>> = texts
        .iter()
        .map(|text| text.bytes().map(|_| random.next() as u8).collect())
        .collect();
    let rows = any.iter().cloned().map(|it| Some(OwnedValue::Bytes(it)));
    let bytes = stored(&[(ColumnType::Bytes, rows.collect())], Effort::Fast);
    let place = place_of(&Parts::of(&bytes).body, &any.concat());
    let rows = texts.iter().cloned().map(text);
    let footer = stored(&[(ColumnType::Text, rows.collect())], Effort::Fast);
    let (mut parts, footer) = (Parts::of(&bytes), Parts::of(&footer));
    let strings = texts.concat();
    parts.body[place..place + strings.len()].copy_from_slice(strings.as_bytes());
    let column = &mut parts.columns[0];
    column.fields[..8].copy_from_slice(&footer.columns[0].fields[..8]);
    column.statistics = footer.columns[0].statistics.clone();
    parts.stored()
}

/// Row groups of texts that lie in the chunk as they are, by encoding.
fn plain_texts() -> Vec<(&'static str, Vec<u8>, Rows)> {
    let texts = any_texts(1_000);
    let rows = |of_row: &dyn Fn(usize) -> usize, row_count: usize| -> Rows {
        let texts = (0..row_count).map(|row| texts[of_row(row)].clone());
        texts.map(text).collect()
    };
    let encoded = |rows: Rows| {
        (
            stored(&[(ColumnType::Text, rows.clone())], Effort::Fast),
            rows,
        )
    };
    let (few, words, runs) = (
        encoded(rows(&|row| row, 60)),
        encoded(rows(&|row| row * 17 % 5 + 7, 1_000)),
        encoded(rows(&|row| row / 20, 1_000)),
    );
    vec![
        ("varbin", end_to_end(&texts), rows(&|row| row, 1_000)),
        ("varbinview", few.0, few.1),
        ("dict(bitpacked, varbinview)", words.0, words.1),
        ("dict(runend, varbinview)", runs.0, runs.1),
    ]
}

fn is_of_text(row: usize, rows: &Rows) -> Predicate {
    Predicate::Compare {
        op: CompareOp::Eq,
        value: rows[row].clone().expect("no row is null"),
    }
}

/// Nothing is answered of such a chunk, whatever is asked, and no wrong text is shown of a row.
#[test]
fn texts_that_are_not_utf_8_are_refused() {
    for (name, intact, rows) in plain_texts() {
        let encoding = encoding(&intact, 0);
        assert!(encoding.starts_with(name), "{encoding}");
        let chunk = open(&intact, 0).expect("opens");
        let found = chunk.filter(&is_of_text(30, &rows), 0..rows.len());
        assert!(found.expect("filters").value(30));
        for row in [30, 59] {
            assert!(read(&intact, 0, row, &rows).expect("reads"));
        }
        let Some(OwnedValue::Text(wrong)) = &rows[30] else {
            unreachable!("rows are texts");
        };
        // Short ones lie with the long ones, too, but are read in their views.
        let mut bytes = intact.clone();
        for at in chunk_start(&intact, 0)..=intact.len() - wrong.len() {
            if intact[at..].starts_with(wrong.as_bytes()) {
                bytes[at + wrong.len() - 1] = 0xFF;
            }
        }
        assert!(is_corrupt(open(&bytes, 0)), "{encoding}");
        assert!(is_corrupt(read(&bytes, 0, 30, &rows)), "{encoding}");
        assert!(read(&bytes, 0, 59, &rows).expect("is another text"));
    }
}

/// Texts made of symbols are conditions' operands by their codes and bytes; those that are not
/// UTF-8 are never shown, and equal no text.
#[test]
fn texts_of_symbols_that_are_not_utf_8_are_refused() {
    let rows: Rows = any_texts(1_000).into_iter().map(text).collect();
    let intact = stored(&[(ColumnType::Text, rows.clone())], Effort::Fast);
    assert!(encoding(&intact, 0).starts_with("fsst("));
    let mut refused = 0;
    // The first bytes of some symbols, which the chunk begins with.
    for symbol in (0..60).step_by(3) {
        let mut bytes = intact.clone();
        bytes[chunk_start(&intact, 0) + 8 * symbol] = 0xFF;
        let chunk = open(&bytes, 0).expect("opens");
        let (mut right, mut wrong) = (Vec::new(), Vec::new());
        for row in 0..rows.len() {
            match read(&bytes, 0, row, &rows) {
                Ok(is_same) => {
                    assert!(is_same, "row {row} with another symbol {symbol}");
                    right.push(row as u32);
                }
                error => {
                    assert!(is_corrupt(error));
                    wrong.push(row as u32);
                }
            }
        }
        assert!(chunk.decode_selection(&right).is_ok());
        for &row in &wrong {
            assert!(is_corrupt(chunk.decode_selection(&[row])));
            let found = chunk.filter(&is_of_text(row as usize, &rows), 0..rows.len());
            assert!(!found.is_ok_and(|found| found.value(row as usize)));
        }
        assert_eq!(is_corrupt(chunk.decode()), !wrong.is_empty());
        refused += wrong.len();
    }
    assert!(refused > 50, "{refused} rows");
}
