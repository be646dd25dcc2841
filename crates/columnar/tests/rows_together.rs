//! Rows that are read along with another one: the right ones, once, and no others.

mod generate;

use std::ops::Range;

use generate::recorder::{Recorder, stored};
use generate::{ALL_SHAPES, NULLS, Random, TYPES, column, row_group, same};
use howdah_columnar::{
    ColumnType, Effort, EncodeOptions, Expected, GroupLayout, OwnedNumeric, OwnedValue, ReadUnit,
    RowAccess, RowState,
};

/// Calls `look` with a column of each type, shape, null pattern and effort: its rows, and readers.
fn for_each_column(
    efforts: &[Effort],
    random: &mut Random,
    mut look: impl FnMut(&[Option<OwnedValue>], &RowAccess, &Recorder<'_>, &str, &mut Random),
) {
    for ty in TYPES {
        for shape in ALL_SHAPES {
            for nulls in NULLS {
                for &effort in efforts {
                    let rows = column(ty, shape, nulls, 3_000, random);
                    let bytes = stored(ty, &rows, effort);
                    let recorder = Recorder::new(&bytes);
                    let layout = GroupLayout::read(&recorder).expect("reads");
                    let access = layout.row_access(0, &recorder).expect("plans");
                    let what = format!("{ty:?}, {shape:?}, {nulls:?}, {effort:?}");
                    recorder.take();
                    look(&rows, &access, &recorder, &what, random);
                }
            }
        }
    }
}

/// Of rows beside each other, whatever they are, the second one is read along with those after it.
#[test]
fn neighbours_of_all_types_are_read_together() {
    let mut seen = 0;
    let efforts = [Effort::Fast, Effort::Default];
    for_each_column(
        &efforts,
        &mut Random(29),
        |rows, access, recorder, what, _| {
            // Frames are decompressed as a whole, and images of numerics read one by one.
            if access.unit() != ReadUnit::Value || access.column_type() == ColumnType::Numeric {
                return;
            }
            let mut state = RowState::default();
            let mut reads = Vec::new();
            for row in 1_500..1_505u32 {
                let value = access.value_among(row, recorder, &mut state);
                let expected = rows[row as usize].as_ref().map(OwnedValue::as_value);
                assert!(same(value.expect("reads"), expected), "row {row}");
                reads.push(recorder.take().len());
            }
            let rest = &reads[2..];
            assert_eq!(rest, [0, 0, 0], "{what}: {reads:?}");
            seen += usize::from(reads[1] > 0);
        },
    );
    assert!(seen > 100, "only {seen} columns were read at all");
}

/// Of rows that are expected the first one is read along with all others, and not one beyond.
#[test]
fn expected_rows_are_read_together_and_no_others() {
    let mut seen = 0;
    for_each_column(
        &[Effort::Default],
        &mut Random(31),
        |rows, access, recorder, what, _| {
            // Frames are decompressed as a whole, and images of numerics read one by one.
            if access.unit() != ReadUnit::Value || access.column_type() == ColumnType::Numeric {
                return;
            }
            let mut state = RowState::default();
            let reads = |asked: Vec<u32>, of: Range<u32>, state: &mut RowState| {
                let expected = Expected {
                    rows: of,
                    wanted: u32::MAX,
                };
                let read = |row: u32| {
                    let value = access.stored_among(row, &expected, recorder, state);
                    let wanted = rows[row as usize].as_ref().map(OwnedValue::as_value);
                    assert!(same(value.expect("reads"), wanted), "row {row}: {what}");
                    recorder.take().len()
                };
                asked.into_iter().map(read).collect::<Vec<_>>()
            };
            let forth = reads((1_500..1_507).collect(), 1_500..1_507, &mut state);
            assert_eq!(forth[1..], [0; 6], "{what}: {forth:?}");
            let back = reads((100..107).rev().collect(), 100..107, &mut state);
            assert_eq!(back[1..], [0; 6], "{what}: {back:?}");
            seen += usize::from(forth[0] > 0);
            assert!(access.kept(107, &mut state).is_none(), "{what}");
            assert!(access.kept(99, &mut state).is_none(), "{what}");
            // One that stands alone, beside the one before or not.
            for row in [107, 2_000] {
                reads(vec![row], row..row + 1, &mut state);
                assert!(access.kept(row + 1, &mut state).is_none(), "{what}");
            }
        },
    );
    assert!(seen > 50, "only {seen} columns were read at all");
}

/// Rows here and there are kept once they were read together, and nothing is read for them again.
#[test]
fn scattered_rows_are_read_once() {
    let (mut seen, mut numerics) = (0, 0);
    for_each_column(
        &[Effort::Default],
        &mut Random(37),
        |rows, access, recorder, what, random| {
            let mut state = RowState::default();
            let some: Vec<u32> = (0..10).map(|_| random.below(3_000) as u32).collect();
            access.read_scattered(&some, recorder, &mut state);
            if !access.reads_scattered() {
                assert!(recorder.take().is_empty());
                return;
            }
            seen += usize::from(!recorder.take().is_empty());
            // From an image on, each is read by itself.
            let is_image = |row: u32| {
                let image =
                    |it: &OwnedValue| matches!(it, OwnedValue::Numeric(OwnedNumeric::Image(_)));
                rows[row as usize].as_ref().is_some_and(image)
            };
            for &row in some.iter().take_while(|row| !is_image(**row)) {
                numerics += usize::from(access.column_type() == ColumnType::Numeric);
                assert!(access.holds_scattered(row, &state));
                let value = access.kept(row, &mut state);
                let wanted = rows[row as usize].as_ref().map(OwnedValue::as_value);
                let value = value.unwrap_or_else(|| panic!("row {row} of {what}"));
                assert!(same(value, wanted), "row {row} of {what}");
            }
            assert!(recorder.take().is_empty());
            // A row that does not exist is met by itself.
            access.read_scattered(&[1, 3_000], recorder, &mut state);
            assert!(access.kept(1, &mut state).is_none());
        },
    );
    assert!(
        seen > 50 && numerics > 100,
        "{seen} columns were read at all, {numerics} rows of numerics"
    );
}

/// Of columns that lie side by side, each finds its value in what was read for all of them.
#[test]
fn scattered_rows_of_groups_are_read_once() {
    let random = &mut Random(41);
    let (mut seen, mut kept) = (0, 0);
    for shape in ALL_SHAPES {
        for nulls in NULLS {
            let made = |ty| (ty, column(ty, shape, nulls, 3_000, random));
            let columns: Vec<_> = TYPES.map(made).into();
            let options = EncodeOptions {
                effort: Effort::Default,
                grouped: (0..columns.len()).collect(),
            };
            let group = row_group(&columns).encode(options).expect("encodes");
            let bytes = [group.footer, group.body].concat();
            let recorder = &Recorder::new(&bytes);
            let layout = GroupLayout::read(recorder).expect("reads");
            let grouped = (0..columns.len()).filter(|&it| layout.first_of_group(it).is_some());
            let grouped: Vec<usize> = grouped.collect();
            let plan = |&column: &usize| layout.row_access(column, recorder).expect("plans");
            let accesses: Vec<RowAccess> = grouped.iter().map(plan).collect();
            let Some(first) = accesses.first() else {
                continue;
            };
            let mut state = RowState::default();
            let some: Vec<u32> = (0..10).map(|_| random.below(3_000) as u32).collect();
            recorder.take();
            first.read_scattered(&some, recorder, &mut state);
            seen += usize::from(!recorder.take().is_empty());
            for &row in some.iter().filter(|_| first.reads_scattered()) {
                assert!(first.holds_scattered(row, &state));
                for (access, &column) in accesses.iter().zip(&grouped) {
                    let stored = first.stored(row, recorder, &mut state).expect("is kept");
                    let value = access.of_stored(stored).expect("is right");
                    let wanted = columns[column].1[row as usize].as_ref();
                    let what =
                        format!("row {row} of {:?}, {shape:?}, {nulls:?}", columns[column].0);
                    assert!(same(value, wanted.map(OwnedValue::as_value)), "{what}");
                    kept += 1;
                }
            }
            assert!(recorder.take().is_empty());
        }
    }
    assert!(seen > 10 && kept > 1_000, "{seen} groups, {kept} values");
}
