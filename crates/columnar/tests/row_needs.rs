//! What a row needs is named before it is read: a reader that has nothing but the named bytes gets
//! the value.

mod generate;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use generate::{ALL_SHAPES, NULLS, Random, Shape, TYPES, column, row_group, same};
use howdah_columnar::{
    ByteSource, ColumnType, ColumnarError, Effort, EncodeOptions, GroupLayout, MAX_ROWS,
    OwnedValue, RowAccess, RowState,
};

type Rows = Vec<Option<OwnedValue>>;

const EFFORTS: [Effort; 3] = [Effort::Fast, Effort::Default, Effort::Best];

/// A stored row group of which only named ranges can be read.
struct Named<'a> {
    bytes: &'a [u8],
    /// Ascending, and neither overlapping nor adjacent.
    named: RefCell<Vec<Range<u64>>>,
    /// Reads of other bytes, which fail.
    refused: RefCell<Vec<Range<u64>>>,
    /// Reads of named bytes.
    given: RefCell<Vec<Range<u64>>>,
}

impl<'a> Named<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            named: RefCell::default(),
            refused: RefCell::default(),
            given: RefCell::default(),
        }
    }

    fn forget(&self) {
        self.named.borrow_mut().clear();
        self.refused.borrow_mut().clear();
        self.given.borrow_mut().clear();
    }

    fn name(&self, ranges: Vec<Range<u64>>) {
        let mut named = self.named.borrow_mut();
        named.extend(ranges.into_iter().filter(|range| !range.is_empty()));
        named.sort_unstable_by_key(|range| range.start);
        let mut joined: Vec<Range<u64>> = Vec::new();
        for range in named.drain(..) {
            match joined.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => joined.push(range),
            }
        }
        *named = joined;
    }
}

impl ByteSource for Named<'_> {
    type Error = ColumnarError;

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ColumnarError> {
        let range = offset..offset + into.len() as u64;
        let holds = |named: &Range<u64>| named.start <= range.start && range.end <= named.end;
        if !into.is_empty() && !self.named.borrow().iter().any(holds) {
            self.refused.borrow_mut().push(range);
            return Err(ColumnarError::Corrupt {
                detail: "these bytes were not named".to_owned(),
            });
        }
        self.bytes.read(offset, into)?;
        self.given.borrow_mut().push(range);
        Ok(())
    }
}

/// Reads rows after their rounds, each of which reads no more than those before it have named;
/// returns how many of them have named anything.
fn read_named(
    access: &RowAccess,
    rows: &[usize],
    source: &Named<'_>,
    state: &mut RowState,
    expected: &Rows,
    what: &str,
) -> usize {
    source.forget();
    let mut waits = 0;
    for round in 0.. {
        let (mut next, mut is_last) = (Vec::new(), true);
        for &row in rows {
            is_last &= !access.needs(row as u32, round, source, state, &mut next);
        }
        let refused = source.refused.borrow();
        assert!(
            refused.is_empty(),
            "round {round} of rows {rows:?} of {what} reads {refused:?}"
        );
        let end = source.bytes.len() as u64;
        assert!(
            next.iter().all(|range| range.end <= end),
            "{next:?} of {what}"
        );
        waits += usize::from(!next.is_empty());
        source.name(next);
        if is_last {
            break;
        }
    }
    for &row in rows {
        let value = access.value(row as u32, source, state);
        let named = source.named.borrow();
        let refused = source.refused.borrow();
        let value = value.unwrap_or_else(|error| {
            panic!("row {row} of {what}: {error}: {refused:?} not in {named:?}")
        });
        let expected = expected[row].as_ref().map(OwnedValue::as_value);
        assert!(same(value, expected), "row {row} of {what}");
        assert!(refused.is_empty(), "row {row} of {what}: {refused:?}");
    }
    waits
}

fn encoded(columns: &[(ColumnType, Rows)], options: impl Into<EncodeOptions>) -> Vec<u8> {
    let encoded = row_group(columns).encode(options).expect("encodes");
    [encoded.footer, encoded.body].concat()
}

/// The single encodings of a column.
fn names(encoding: &str) -> impl Iterator<Item = String> {
    let names = encoding.split(|c: char| !c.is_alphanumeric());
    names.filter(|name| !name.is_empty()).map(str::to_owned)
}

/// The encoding of a column, and how to call it.
fn encoding_of(layout: &GroupLayout, at: usize, bytes: &[u8], rows: &Rows) -> (String, String) {
    let encoding = layout.column(at, bytes).expect("reads").encoding;
    let what = format!("{} rows of {encoding}", rows.len());
    (encoding, what)
}

/// Some rows of one column, each by an access and a state that know nothing, and two of them
/// at once; whether a row takes fewer rounds when another one was read before.
fn check_unknown(bytes: &[u8], at: usize, rows: &Rows, random: &mut Random) -> bool {
    let layout = GroupLayout::read(bytes).expect("reads");
    let (_, what) = encoding_of(&layout, at, bytes, rows);
    let source = Named::new(bytes);
    let access = || layout.row_access(at, bytes).expect("plans");
    let mut any = || random.below(rows.len() as u64) as usize;
    let last = rows.len() - 1;
    let some = [0, any(), any(), last.min(1_024), any(), last];
    let mut are_fewer = false;
    for row in some {
        let access = access();
        let read = |row| {
            let state = &mut RowState::default();
            read_named(&access, &[row], &source, state, rows, &what)
        };
        are_fewer |= read(row) > read(row);
    }
    for two in some.windows(2) {
        let state = &mut RowState::default();
        read_named(&access(), two, &source, state, rows, &what);
    }
    are_fewer
}

/// Rows of one column by an access and a state that know nothing, and one after the other by those
/// that know what the rows before have left.
fn check(bytes: &[u8], at: usize, rows: &Rows, random: &mut Random) -> String {
    check_unknown(bytes, at, rows, random);
    let layout = GroupLayout::read(bytes).expect("reads");
    let (encoding, what) = encoding_of(&layout, at, bytes, rows);
    let source = Named::new(bytes);
    let mut any = || random.below(rows.len() as u64) as usize;
    let access = layout.row_access(at, bytes).expect("plans");
    let mut state = RowState::default();
    for _ in 0..8 {
        let row = any();
        let unknown = &mut RowState::default();
        read_named(&access, &[row], &source, unknown, rows, &what);
        // Some near it, forward and back, until blocks are decoded.
        let step = 1 + any() % 40;
        let (near, far) = (row, any());
        for row in [
            row,
            far,
            near + step,
            near,
            near + 2 * step,
            near + 1,
            near + 3 * step,
        ] {
            let row = row % rows.len();
            read_named(&access, &[row], &source, &mut state, rows, &what);
        }
    }
    encoding
}

/// What the encoder writes.
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
fn all_that_a_row_needs_is_named_whatever_its_encoding() {
    let random = &mut Random(91);
    let mut met = BTreeSet::new();
    for row_count in [1_000, 6_000] {
        for effort in EFFORTS {
            for (ty, rows) in columns(row_count, random) {
                let bytes = encoded(&[(ty, rows.clone())], effort);
                met.extend(names(&check(&bytes, 0, &rows, random)));
            }
            met.extend(check_grouped(effort, row_count, random));
        }
    }
    let missing: Vec<_> = WRITTEN
        .iter()
        .filter(|&&name| !met.contains(name))
        .collect();
    assert!(missing.is_empty(), "{missing:?} not in {met:?}");
}

/// Where there are more blocks than one to be searched, and as many as a row group has.
#[test]
fn all_that_a_row_of_many_needs_is_named_when_nothing_is_known() {
    let random = &mut Random(92);
    let mut fenced = BTreeSet::new();
    let mut read = |ty, rows: Rows, effort, random: &mut Random| {
        let bytes = encoded(&[(ty, rows.clone())], effort);
        if check_unknown(&bytes, 0, &rows, random) {
            let layout = GroupLayout::read(&bytes[..]).expect("reads");
            fenced.insert(encoding_of(&layout, 0, &bytes, &rows).0);
        }
    };
    let mut kinds = NULLS.into_iter().zip(EFFORTS.into_iter().cycle()).cycle();
    for row_count in [20_000, MAX_ROWS] {
        for ty in TYPES {
            for shape in [Shape::Runs, Shape::Rising, Shape::Anything] {
                let (nulls, effort) = kinds.next().expect("without end");
                let rows = column(ty, shape, nulls, row_count, random);
                read(ty, rows, effort, random);
            }
        }
        for (at, (ty, rows)) in special_columns(row_count, random).into_iter().enumerate() {
            read(ty, rows.clone(), EFFORTS[at % 2], random);
            if row_count < MAX_ROWS {
                read(ty, rows, Effort::Best, random);
            }
        }
    }
    // Nothing is left out of the rounds that begin among unknown fences.
    for name in ["runend", "sparse", "alp", "bitpacked"] {
        let are_named = |encoding: &String| names(encoding).any(|it| it == name);
        assert!(fenced.iter().any(are_named), "{name} not in {fenced:?}");
    }
}

/// Columns of every type, shape and null pattern, and some for encodings that these hardly have.
fn columns(row_count: usize, random: &mut Random) -> Vec<(ColumnType, Rows)> {
    let mut columns = Vec::new();
    for ty in TYPES {
        for shape in ALL_SHAPES {
            for nulls in NULLS {
                columns.push((ty, column(ty, shape, nulls, row_count, random)));
            }
        }
    }
    columns.extend(special_columns(row_count, random));
    columns
}

/// Columns for encodings that others hardly have.
fn special_columns(row_count: usize, random: &mut Random) -> Vec<(ColumnType, Rows)> {
    let mut columns = Vec::new();
    let mut made = |ty, value: &dyn Fn(u64, &mut Random) -> Option<OwnedValue>| {
        let rows = (0..row_count as u64)
            .map(|row| value(row, random))
            .collect();
        columns.push((ty, rows));
    };
    // Floats whose digits do not end, and some that have few.
    made(ColumnType::Float64, &|row, random| {
        let float = (1.0 + random.below(1 << 50) as f64).sqrt() / (1 << 25) as f64;
        Some(OwnedValue::Float64(if row % 50 == 7 {
            1e200
        } else {
            float
        }))
    });
    made(ColumnType::Float64, &|_, random| {
        let float = random.below(100_000) as f64 / 100.0;
        let irrational = random.below(40) == 0;
        Some(OwnedValue::Float64(if irrational {
            float.sqrt()
        } else {
            float
        }))
    });
    // Exceptions among small integers.
    for seldom in [3, 60, 700] {
        made(ColumnType::Int32, &|_, random| {
            let is_large = random.below(seldom) == 0;
            Some(OwnedValue::Int32(
                random.below(if is_large { 1 << 30 } else { 50 }) as i32,
            ))
        });
        made(ColumnType::Int64, &|_, random| {
            let is_other = random.below(seldom) == 0;
            Some(OwnedValue::Int64(if is_other {
                random.next() as i64
            } else {
                5
            }))
        });
        // Texts and their lack.
        made(ColumnType::Text, &|row, random| {
            let is_other = random.below(seldom) == 0;
            is_other.then(|| OwnedValue::Text(format!("{}/{row}/{}", "x".repeat(20), row % 7)))
        });
    }
    // Words of dictionaries, long ones and more than are kept.
    let word_count = 1 + row_count as u64 / 3;
    made(ColumnType::Text, &|_, random| {
        let word = random.below(word_count);
        Some(OwnedValue::Text(format!(
            "word {word} {}",
            "of many ".repeat(word as usize % 9)
        )))
    });
    made(ColumnType::Int64, &|_, random| {
        let word = random.below(word_count);
        Some(OwnedValue::Int64(
            word.wrapping_mul(0x9E37_79B9_7F4A_7C15) as i64
        ))
    });
    // Runs of texts, and documents in frames and words.
    made(ColumnType::Text, &|row, _| {
        Some(OwnedValue::Text(format!(
            "run {} {}",
            row / 9,
            "and on ".repeat(5)
        )))
    });
    made(ColumnType::Bytes, &|_, random| {
        let (id, name) = (random.below(100_000), random.below(500));
        let document = format!("{{\"id\": {id}, \"customer\": \"name {name}\"}}");
        Some(OwnedValue::Bytes(document.into_bytes()))
    });
    made(ColumnType::Text, &|row, random| {
        let name = random.below(50);
        let item = format!("{{\"name\": \"customer {name}\", \"number\": {row}, \"is\": true}} ");
        (row % 11 > 0).then(|| OwnedValue::Text(item.repeat(1 + row as usize % 5)))
    });
    columns
}

/// Columns side by side, by the access of each.
fn check_grouped(effort: Effort, row_count: usize, random: &mut Random) -> BTreeSet<String> {
    let (mut met, mut grouped) = (BTreeSet::new(), BTreeSet::new());
    for shape in ALL_SHAPES {
        for nulls in NULLS {
            let columns = TYPES.map(|ty| (ty, column(ty, shape, nulls, row_count, random)));
            let options = EncodeOptions {
                effort,
                grouped: (0..columns.len()).collect(),
            };
            let bytes = encoded(&columns, options);
            for (at, (_, rows)) in columns.iter().enumerate() {
                let encoding = check(&bytes, at, rows, random);
                if encoding.starts_with("grouped") {
                    grouped.insert(at);
                }
                met.extend(names(&encoding));
            }
        }
    }
    assert!(
        (0..TYPES.len()).all(|at| grouped.contains(&at)),
        "{grouped:?}"
    );
    met
}
