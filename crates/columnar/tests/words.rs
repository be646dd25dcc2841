//! Strings in words that they share (OnPair), byte strings among them: slices, selections and rows
//! say what was written.

mod generate;

use generate::{Random, open, row_group, same};
use howdah_columnar::{ColumnType, Effort, Footer, OwnedValue, RowState};

/// Documents of some 40 to 400 bytes; every seventh null, if there are any.
fn documents(ty: ColumnType, row_count: usize, with_nulls: bool) -> Vec<Option<OwnedValue>> {
    let random = &mut Random(2040 + row_count as u64);
    let document = |random: &mut Random| {
        let items: Vec<String> = (0..random.below(9))
            .map(|_| {
                format!(
                    "{{\"item\": {}, \"count\": {}}}",
                    random.below(500),
                    random.below(9)
                )
            })
            .collect();
        let (name, items) = (random.below(300), items.join(", "));
        format!("{{\"customer\": \"name {name}\", \"lines\": [{items}]}}")
    };
    (0..row_count)
        .map(|row| {
            let text = document(random);
            let value = match ty {
                ColumnType::Text => OwnedValue::Text(text),
                _ => OwnedValue::Bytes(text.into_bytes()),
            };
            (!with_nulls || row % 7 != 3).then_some(value)
        })
        .collect()
}

fn check(ty: ColumnType, row_count: usize, with_nulls: bool) {
    let rows = documents(ty, row_count, with_nulls);
    let encoded = row_group(&[(ty, rows.clone())])
        .encode(Effort::Default)
        .expect("encodes");
    let footer = Footer::parse(&encoded.footer).expect("parses");
    let encoding = &footer.column(0).encoding;
    assert!(encoding.contains("onpair("), "{ty:?}: {encoding}");
    let chunk = open(&footer, &encoded.body, 0);
    let expected = |row: usize| rows[row].as_ref().map(OwnedValue::as_value);

    let random = &mut Random(7);
    let mut ranges = vec![0..row_count, 0..0, row_count..row_count, 0..1];
    ranges.extend((0..60).map(|_| {
        let start = random.below(row_count as u64) as usize;
        let len = random.below(2_500) as usize;
        start..(start + len).min(row_count)
    }));
    for range in ranges {
        let column = chunk.decode_range(range.clone()).expect("decodes");
        assert_eq!(column.len(), range.len());
        for (at, row) in range.enumerate() {
            assert!(same(column.value(at), expected(row)), "{ty:?} row {row}");
        }
    }

    for step in [1, 2, 5, 31, 33, 100, 4_999] {
        for first in [0, 3] {
            let selected: Vec<u32> = (first..row_count as u32).step_by(step).collect();
            let column = chunk.decode_selection(&selected).expect("decodes");
            assert_eq!(column.len(), selected.len());
            for (at, &row) in selected.iter().enumerate() {
                assert!(
                    same(column.value(at), expected(row as usize)),
                    "{ty:?} row {row}"
                );
            }
        }
    }

    let bytes = [encoded.footer.as_slice(), &encoded.body].concat();
    let access = footer.layout().row_access(0, &*bytes).expect("plans");
    let mut state = RowState::default();
    for row in 0..row_count {
        let value = access
            .value(row as u32, &*bytes, &mut state)
            .expect("reads");
        assert!(same(value, expected(row)), "{ty:?} row {row}");
    }
}

#[test]
fn slices_and_selections_of_words_say_what_was_written() {
    for ty in [ColumnType::Text, ColumnType::Bytes] {
        for with_nulls in [false, true] {
            check(ty, 6_000, with_nulls);
        }
    }
}
