//! Row access gives what decoding gives, whatever the data, and reads little for it.

mod generate;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use generate::recorder::{Recorder, stored};
use generate::{
    ALL_SHAPES, NULLS, Nulls, Random, Shape, TYPES, column, expected_around, row_group, same,
};
use howdah_columnar::{
    ByteSource, Chunk, ChunkBuffer, ColumnType, ColumnarError, Effort, EncodeOptions, GroupLayout,
    MAX_ROWS, OwnedValue, ReadUnit, RowAccess, RowState,
};
use proptest::prelude::*;

fn check_row(
    access: &RowAccess,
    row: usize,
    source: &(impl ByteSource<Error = ColumnarError> + ?Sized),
    state: &mut RowState,
    rows: &[Option<OwnedValue>],
    what: &str,
) {
    let value = access.value(row as u32, source, state);
    let value = value.unwrap_or_else(|error| panic!("row {row} of {what}: {error}"));
    let expected = rows[row].as_ref().map(OwnedValue::as_value);
    assert!(
        same(value, expected),
        "row {row} of {what}: {value:?}, not {expected:?}"
    );
}

fn check(ty: ColumnType, rows: &[Option<OwnedValue>], effort: Effort, random: &mut Random) {
    let bytes = stored(ty, rows, effort);
    check_column(&bytes, 0, ty, rows, random);
    if effort != Effort::Best {
        let layout = GroupLayout::read(bytes.as_slice()).expect("reads");
        let encoding = layout.column(0, bytes.as_slice()).expect("reads").encoding;
        let access = layout.row_access(0, bytes.as_slice()).expect("plans");
        assert_ne!(access.unit(), ReadUnit::Chunk, "{ty:?} as {encoding}");
        let mut names = encoding.split(|c: char| !c.is_alphanumeric());
        assert!(
            !names.any(|name| ["pco", "chunked"].contains(&name)),
            "{encoding}"
        );
    }
}

fn check_column(
    bytes: &[u8],
    column: usize,
    ty: ColumnType,
    rows: &[Option<OwnedValue>],
    random: &mut Random,
) {
    let layout = GroupLayout::read(bytes).expect("reads");
    let meta = layout.column(column, bytes).expect("reads");
    let what = format!("{ty:?} as {}", meta.encoding);
    let access = layout.row_access(column, bytes).expect("plans");
    assert_eq!(access.column_type(), ty);

    // In order, in one state.
    let mut state = RowState::default();
    for row in 0..rows.len() {
        check_row(&access, row, bytes, &mut state, rows, &what);
    }
    among_neighbours(&access, bytes, rows, &what, random);
    // Some of them located before, in any order of both.
    let mut next = Vec::new();
    for _ in 0..20 {
        let mut any = || random.below(rows.len() as u64) as usize;
        let (row, other) = (any(), any());
        let located = access.locate(row as u32, bytes, &mut state, &mut next);
        located.unwrap_or_else(|error| panic!("row {row} of {what}: {error}"));
        for row in [other, row, row] {
            check_row(&access, row, bytes, &mut state, rows, &what);
        }
    }
    let is_within =
        |range: &Range<u64>| range.start <= range.end && range.end <= bytes.len() as u64;
    assert!(next.iter().all(is_within));
    // Anywhere. From nothing but the bytes that it needs: row_needs.rs.
    for _ in 0..20 {
        let row = random.below(rows.len() as u64) as usize;
        check_row(&access, row, bytes, &mut state, rows, &what);

        // With a new plan and state.
        let access = layout.row_access(column, bytes).expect("plans");
        let mut named = Vec::new();
        access.ranges(row as u32, &mut named);
        access.likely_ranges(row as u32, &mut named);
        let fresh = &mut RowState::default();
        check_row(&access, row, bytes, fresh, rows, &what);
        assert!(named.iter().all(is_within));
    }
    let beyond = rows.len() as u32;
    assert!(matches!(
        access.value(beyond, bytes, &mut state),
        Err(ColumnarError::OutOfRange { .. })
    ));
    let located = access.locate(beyond, bytes, &mut state, &mut next);
    assert!(located.is_ok() || matches!(located, Err(ColumnarError::OutOfRange { .. })));
}

/// Rows with their neighbours: onwards, back, and from anywhere some steps in either direction.
fn among_neighbours(
    access: &RowAccess,
    bytes: &[u8],
    rows: &[Option<OwnedValue>],
    what: &str,
    random: &mut Random,
) {
    let mut state = RowState::default();
    let at_first = access.kept(0, &mut state);
    assert!(at_first.is_none(), "nothing is kept of {what} at first");
    let mut kept = 0;
    let mut check = |row: usize| {
        let expected = rows[row].as_ref().map(OwnedValue::as_value);
        if let Some(value) = access.kept(row as u32, &mut state) {
            assert!(same(value, expected), "row {row} of {what}, kept");
            kept += 1;
        }
        let value = access.value_among(row as u32, bytes, &mut state);
        let value = value.unwrap_or_else(|error| panic!("row {row} of {what}: {error}"));
        assert!(same(value, expected), "row {row} of {what} among others");
    };
    (0..rows.len()).for_each(&mut check);
    (0..rows.len()).rev().for_each(&mut check);
    for _ in 0..20 {
        let row = random.below(rows.len() as u64) as usize;
        let other = random.below(rows.len() as u64) as usize;
        let steps = random.below(100) as usize;
        (row..(row + steps).min(rows.len())).for_each(&mut check);
        (other.saturating_sub(steps)..other)
            .rev()
            .step_by(1 + steps % 7)
            .for_each(&mut check);
    }
    match access.reads_ahead() {
        true => assert!(kept > 0 || rows.len() < 10, "nothing was kept of {what}"),
        false => assert_eq!(kept, 0, "{what} is read row by row"),
    }
}

/// Of strings of similar length, the bytes of a row lie where they are expected.
#[test]
fn strings_of_similar_lengths_lie_where_they_are_expected() {
    let random = &mut Random(11);
    for spread in [2, 4, 20] {
        let rows: Vec<_> = (0..60_000)
            .map(|_| {
                let len = 100 + random.below(spread) as usize;
                let digits =
                    (0..len).map(|_| char::from(b"0123456789abcdef"[random.below(16) as usize]));
                Some(OwnedValue::Text(digits.collect()))
            })
            .collect();
        let bytes = stored(ColumnType::Text, &rows, Effort::Default);
        let layout = GroupLayout::read(bytes.as_slice()).expect("reads");
        let access = layout.row_access(0, bytes.as_slice()).expect("plans");
        let (mut likely, mut next) = (Vec::new(), Vec::new());
        let mut state = RowState::default();
        for row in [0, 1, 777, 30_000, 45_678, 59_999] {
            likely.clear();
            next.clear();
            access.likely_ranges(row, &mut likely);
            let located = access.locate(row, bytes.as_slice(), &mut state, &mut next);
            located.expect("locates");
            let [range] = &next[..] else {
                panic!("row {row} is at {next:?}");
            };
            let holds = |place: &Range<u64>| place.start <= range.start && range.end <= place.end;
            assert!(
                likely.iter().any(holds),
                "row {row} at {range:?}, not {likely:?}"
            );
            assert!(likely.iter().all(|place| place.end - place.start < 7_000));
        }
        likely.clear();
        access.likely_ranges(60_000, &mut likely);
        assert_eq!(likely, [], "there is no such row");
    }
}

/// Rows of the same part of a column, but not beside each other, cost no more than rows far apart.
#[test]
fn neighbours_that_are_not_asked_for_are_not_read() {
    let random = &mut Random(13);
    let digits = |_| char::from(b"0123456789abcdef"[random.below(16) as usize]);
    let text: String = (0..5_000 * 100).map(digits).collect();
    for lengths in 1..=2 {
        let len = |row: usize| 100 - row % lengths;
        let rows: Vec<_> = (0..5_000)
            .map(|row| Some(OwnedValue::Text(text[row * 100..][..len(row)].to_owned())))
            .collect();
        check_neighbours(&rows);
    }
}

fn check_neighbours(rows: &[Option<OwnedValue>]) {
    let bytes = stored(ColumnType::Text, rows, Effort::Default);
    let recorder = Recorder::new(&bytes);
    let layout = GroupLayout::read(&recorder).expect("reads");
    let access = layout.row_access(0, &recorder).expect("plans");
    let lengths = |step: u32| {
        let mut state = RowState::default();
        let mut lengths = Vec::new();
        for row in (0..100).map(|nth| nth * step) {
            let value = access.value_among(row, &recorder, &mut state);
            let expected = rows[row as usize].as_ref().map(OwnedValue::as_value);
            assert!(same(value.expect("reads"), expected), "row {row}");
            let reads = recorder.take();
            lengths.push(reads.iter().map(|read| read.end - read.start).sum::<u64>());
        }
        lengths.sort_unstable();
        lengths
    };
    let (beside, apart) = (lengths(1), lengths(12));
    assert_eq!(beside[50], 0, "most rows have been read along with others");
    // Some read a block of offsets, too.
    assert!(apart[80] < 300, "{} bytes for a row", apart[80]);
    // Nor are those of a state's first row, or of one that is read again.
    let mut state = RowState::default();
    access.value(700, &recorder, &mut state).expect("reads");
    let by_itself = recorder.take();
    let mut state = RowState::default();
    for _ in 0..2 {
        access
            .value_among(700, &recorder, &mut state)
            .expect("reads");
        assert_eq!(recorder.take(), by_itself);
    }
}

const EFFORTS: [Effort; 3] = [Effort::Fast, Effort::Default, Effort::Best];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn row_access_agrees_with_the_rows_written(
        seed in any::<u64>(),
        row_count in prop_oneof![1usize..4, 1usize..300, 300usize..5_000],
        ty in prop::sample::select(&TYPES[..]),
        shape in prop::sample::select(&ALL_SHAPES[..]),
        nulls in prop::sample::select(&NULLS[..]),
        effort in prop::sample::select(&EFFORTS[..]),
    ) {
        let random = &mut Random(seed);
        let rows = column(ty, shape, nulls, row_count, random);
        check(ty, &rows, effort, random);
    }
}

/// Columns side by side: each by itself, and all of them by one read of what a row has.
#[test]
fn grouped_columns_are_read_by_row() {
    let random = &mut Random(78);
    let (mut met, mut grouped) = (BTreeSet::new(), BTreeSet::new());
    for shape in ALL_SHAPES {
        for nulls in NULLS {
            for effort in EFFORTS {
                let types = TYPES.into_iter().chain([ColumnType::Text]);
                let columns: Vec<_> = types
                    .map(|ty| (ty, column(ty, shape, nulls, 1_500, random)))
                    .collect();
                let encoded = row_group(&columns).encode(EncodeOptions {
                    effort,
                    grouped: (0..columns.len()).collect(),
                });
                let encoded = encoded.expect("encodes");
                let bytes = [encoded.footer, encoded.body].concat();
                let layout = GroupLayout::read(&bytes[..]).expect("reads");
                for (at, (ty, rows)) in columns.iter().enumerate() {
                    check_column(&bytes, at, *ty, rows, random);
                    grouped.extend(layout.first_of_group(at).map(|_| at));
                }
                met.extend(check_together(&bytes, &columns, random));
            }
        }
    }
    assert!(met.len() > 3, "{met:?}");
    assert!(
        (0..=TYPES.len()).all(|at| grouped.contains(&at)),
        "{grouped:?}"
    );
}

/// The encodings of groups that were met.
fn check_together(
    bytes: &[u8],
    columns: &[(ColumnType, Vec<Option<OwnedValue>>)],
    random: &mut Random,
) -> Option<String> {
    let recorder = Recorder::new(bytes);
    let layout = GroupLayout::read(bytes).expect("reads");
    let (members, first): (Vec<usize>, Vec<usize>) = (0..columns.len())
        .filter_map(|at| Some((at, layout.first_of_group(at)?)))
        .unzip();
    let first = *first.first()?;
    let access = |at: usize| layout.row_access(at, bytes).expect("plans");
    let accesses: Vec<RowAccess> = members.iter().map(|&at| access(at)).collect();
    let owner = access(first);
    let mut state = RowState::default();
    for _ in 0..30 {
        let row = random.below(columns[0].1.len() as u64) as usize;
        let is_near = random.below(2) == 0;
        let asked_for = expected_around(row as u32, random);
        for (nth, (&at, access)) in members.iter().zip(&accesses).enumerate() {
            let stored = match is_near {
                true => owner.stored_among(row as u32, &asked_for, &recorder, &mut state),
                false => owner.stored(row as u32, &recorder, &mut state),
            };
            let value = access.of_stored(stored.expect("reads")).expect("is right");
            let expected = columns[at].1[row].as_ref().map(OwnedValue::as_value);
            assert!(same(value, expected), "row {row} of column {at}");
            let read = recorder.take();
            assert!(nth == 0 || read.is_empty(), "{read:?} for column {at}");
        }
    }
    let meta = layout.column(first, bytes).expect("reads");
    Some(meta.encoding)
}

#[test]
fn every_type_shape_and_null_pattern_is_read_by_row() {
    let random = &mut Random(77);
    for ty in TYPES {
        for shape in ALL_SHAPES {
            for nulls in NULLS {
                for effort in EFFORTS {
                    let rows = column(ty, shape, nulls, 1_500, random);
                    check(ty, &rows, effort, random);
                }
            }
        }
    }
}

/// A stored row group of which one read in some unwinds, as an ERROR of the server's does.
struct Unwinding<'a> {
    bytes: &'a [u8],
    random: RefCell<Random>,
}

impl ByteSource for Unwinding<'_> {
    type Error = ColumnarError;

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), ColumnarError> {
        if self.random.borrow_mut().below(6) == 0 {
            // No message, unlike a panic.
            resume_unwind(Box::new("cancelled"));
        }
        self.bytes.read(offset, into)
    }
}

/// Rows here and there and their neighbours, of which the reads of some are broken off; how many.
fn broken_off(ty: ColumnType, rows: &[Option<OwnedValue>], random: &mut Random) -> usize {
    let bytes = stored(ty, rows, Effort::Default);
    let layout = GroupLayout::read(&*bytes).expect("reads");
    let access = layout.row_access(0, &*bytes).expect("plans");
    let source = Unwinding {
        bytes: &bytes,
        random: RefCell::new(Random(random.next())),
    };
    let (mut state, mut broken) = (RowState::default(), 0);
    for _ in 0..30 {
        let first = random.below(rows.len() as u64) as usize;
        let last = (first + random.below(80) as usize).min(rows.len());
        for (row, written) in rows.iter().enumerate().take(last).skip(first) {
            let read = catch_unwind(AssertUnwindSafe(|| {
                let written = written.as_ref().map(OwnedValue::as_value);
                let kept = access.kept(row as u32, &mut state);
                if kept.is_some_and(|kept| !same(kept, written)) {
                    return false;
                }
                let value = match row % 9 {
                    0 => access.value(row as u32, &source, &mut state),
                    _ => access.value_among(row as u32, &source, &mut state),
                };
                let value = value.unwrap_or_else(|error| panic!("row {row}: {error}"));
                same(value, written)
            }));
            match read {
                Ok(is_same) => {
                    assert!(is_same, "row {row} of {ty:?} after {broken} that broke off")
                }
                Err(_) => broken += 1,
            }
        }
    }
    broken
}

/// A read that breaks off leaves no state behind that gives another row's value later.
#[test]
fn reads_that_break_off_leave_nothing_wrong_behind() {
    let random = &mut Random(41);
    let mut broken = 0;
    for ty in TYPES {
        for shape in ALL_SHAPES {
            for nulls in [Nulls::Never, Nulls::Often] {
                let rows = column(ty, shape, nulls, 3_000, random);
                broken += broken_off(ty, &rows, random);
            }
        }
    }
    assert!(broken > 1_000, "{broken} reads broke off");
}

/// What is damaged is met by the rows that it belongs to, whether neighbours are read along with
/// them or not. Which exceptions a search finds that do not ascend depends on where it begins: a
/// scan, which looks at all of them, refuses such a chunk.
#[test]
fn damage_is_met_by_the_same_rows_alone_and_among_neighbours() {
    let random = &mut Random(2_026);
    let mut met = 0;
    for ty in TYPES {
        for shape in [Shape::Anything, Shape::Rising, Shape::Extremes] {
            for nulls in [Nulls::Never, Nulls::Often] {
                for effort in EFFORTS {
                    let rows = column(ty, shape, nulls, 300, random);
                    let bytes = stored(ty, &rows, effort);
                    met += damaged_somewhere(&bytes, rows.len() as u32, random);
                }
            }
        }
    }
    assert!(met > 0, "no row has met any damage");
}

/// Whether the first column can be decoded as a whole.
fn decodes(layout: &GroupLayout, stored: &[u8]) -> bool {
    let decode = || {
        let meta = layout.column(0, stored).ok()?;
        let range = meta.byte_range.start as usize..meta.byte_range.end as usize;
        let bytes = ChunkBuffer::from(stored.get(range)?);
        let chunk = Chunk::open(&meta, layout.row_count(), bytes).ok()?;
        chunk.decode().ok()
    };
    decode().is_some()
}

/// The rows that damage was met by.
fn damaged_somewhere(bytes: &[u8], row_count: u32, random: &mut Random) -> usize {
    let mut met = 0;
    for _ in 0..6 {
        let mut damaged = bytes.to_vec();
        let at = random.below(bytes.len() as u64) as usize;
        damaged[at] ^= 1 << random.below(8);
        let Ok(layout) = GroupLayout::read(damaged.as_slice()) else {
            continue;
        };
        if layout.column_count() == 0 {
            continue;
        }
        let Ok(access) = layout.row_access(0, damaged.as_slice()) else {
            continue;
        };
        let (mut alone, mut among) = (RowState::default(), RowState::default());
        for row in (0..row_count).chain((0..row_count).rev()) {
            let one = access.value(row, damaged.as_slice(), &mut alone);
            let other = access.value_among(row, damaged.as_slice(), &mut among);
            match (one, other) {
                (Ok(one), Ok(other)) if same(one, other) => {}
                (Ok(one), Ok(other)) => {
                    let is_refused = !decodes(&layout, &damaged);
                    assert!(is_refused, "row {row}, byte {at}: {one:?}, {other:?}");
                    met += 1;
                }
                (Err(_), Err(_)) => met += 1,
                (one, other) => panic!("row {row}, byte {at}: {one:?} and {other:?}"),
            }
        }
    }
    met
}

/// The most bytes that values of a full row group may cost.
struct Costs {
    /// The first one: nothing is known yet but the plan.
    first: u64,
    /// Any later one.
    each: u64,
    /// Half of the later ones.
    half: u64,
}

/// By how an encoding begins: the first that fits. Twentieths above what was measured.
#[rustfmt::skip]
const COSTS: [(&str, Costs); 14] = [
    // Exceptions are all looked at before the first, and words of numbers of many digits are long.
    ("decimal(zigzag(", Costs { first: 57_000, each: 39_500, half: 4_600 }),
    ("decimal(dict(runend(", Costs { first: 8_700, each: 8_900, half: 2_600 }),
    ("decimal(dict(bitpacked); zigzag(", Costs { first: 4_500, each: 4_500, half: 150 }),
    ("decimal(primitive;", Costs { first: 4_400, each: 4_400, half: 160 }),
    ("decimal(", Costs { first: 90, each: 145, half: 10 }),
    ("dict(runend(", Costs { first: 5_100, each: 5_000, half: 2_450 }),
    ("dict(", Costs { first: 4_500, each: 2_500, half: 170 }),
    ("runend(", Costs { first: 2_600, each: 3_300, half: 275 }),
    ("alp(dict(", Costs { first: 4_400, each: 6_200, half: 140 }),
    ("alprd(", Costs { first: 4_500, each: 4_600, half: 280 }),
    ("fsst(", Costs { first: 2_100, each: 300, half: 150 }),
    // All words.
    ("onpair(", Costs { first: 41_000, each: 420, half: 155 }),
    ("varbin(", Costs { first: 760, each: 320, half: 160 }),
    ("", Costs { first: 145, each: 145, half: 140 }),
];

#[test]
fn a_row_of_a_full_row_group_costs_few_bytes() {
    let random = &mut Random(4);
    for ty in TYPES {
        for shape in ALL_SHAPES {
            for nulls in [Nulls::Never, Nulls::Rarely, Nulls::Often] {
                let rows = column(ty, shape, nulls, MAX_ROWS, random);
                let bytes = stored(ty, &rows, Effort::Default);
                bounded(ty, shape, &rows, &bytes, random);
            }
        }
    }
}

fn bounded(
    ty: ColumnType,
    shape: Shape,
    rows: &[Option<OwnedValue>],
    bytes: &[u8],
    random: &mut Random,
) {
    let recorder = Recorder::new(bytes);
    let layout = GroupLayout::read(&recorder).expect("reads");
    let encoding = layout.column(0, bytes).expect("reads").encoding;
    let what = format!("{ty:?} {shape:?} as {encoding}");
    let of_encoding = COSTS.iter().find(|(name, _)| encoding.starts_with(name));
    let (_, most) = of_encoding.expect("the last one fits all");
    let access = layout.row_access(0, &recorder).expect("plans");
    let mut state = RowState::default();
    let mut later = Vec::new();
    for nth in 0..50 {
        recorder.take();
        let row = random.below(MAX_ROWS as u64) as usize;
        check_row(&access, row, &recorder, &mut state, rows, &what);
        let reads = recorder.take();
        let read: u64 = reads.iter().map(|r| r.end - r.start).sum();
        let most = if nth == 0 { most.first } else { most.each };
        assert!(
            read <= most,
            "{read} bytes for row {row} of {what}: {reads:?}"
        );
        later.extend((nth > 0).then_some(read));
    }
    later.sort_unstable();
    let half = later[later.len() / 2];
    assert!(half <= most.half, "{half} bytes for most rows of {what}");
    assert!(
        access.memory_bytes() + state.memory_bytes() <= 88 << 10,
        "{what}"
    );
}

/// Frames save some bytes of each of ascending addresses, and a single row would cost a frame.
#[test]
fn short_strings_are_not_framed_and_long_ones_are() {
    let unit = |of_row: &dyn Fn(u32) -> Vec<u8>| {
        let rows: Vec<_> = (0..20_000)
            .map(|row| Some(OwnedValue::Bytes(of_row(row))))
            .collect();
        let bytes = stored(ColumnType::Bytes, &rows, Effort::Default);
        let layout = GroupLayout::read(bytes.as_slice()).expect("reads");
        let access = layout.row_access(0, bytes.as_slice()).expect("plans");
        access.unit()
    };
    let address = |row: u32| [&[2, 32][..], &((10 << 24) + row * 31).to_be_bytes()].concat();
    let document = |row: u32| {
        let (name, price) = (row % 100, row * 7 % 1_000);
        format!("{{\"id\": {row}, \"name\": \"customer {name}\", \"price\": {price}}}").repeat(4)
    };
    assert_eq!(unit(&address), ReadUnit::Value);
    assert_eq!(unit(&|row| document(row).into_bytes()), ReadUnit::Frame);
}
