//! What the fuzz targets do with their input: one target for footers, one for the chunks of
//! each column type, whole and row by row, one for row access under changed node tables, and one
//! for columns of the golden files. Every input must give an error or a value; a panic that escapes, an
//! out-of-bounds read or an allocation without bound is a bug. So is a way of reading that gives
//! another value than decoding does.
//!
//! Random bytes would fail the first checks and test nothing else. So the first bytes of the
//! input choose a valid row group, the others say which of its bytes to change.

// The tests' generator of columns; a target uses a part of it.
#[path = "../../crates/columnar/tests/generate/mod.rs"]
pub mod generate;

use generate::{ALL_SHAPES, NULLS, Random, Shape, agreement, column, row_group};
use howdah_columnar::{
    ColumnType, Effort, EncodeOptions, EncodedRowGroup, Footer, GroupLayout, Predicate, RowState,
};

/// Where the column table ends and the sections start in a footer of so many columns, see
/// docs/format.md.
fn sections(column_count: usize) -> usize {
    32 + 32 * column_count
}

/// libfuzzer-sys aborts in the panic hook, before anybody can catch anything. Decoders catch what
/// their libraries panic about and make an error of it; what escapes them still aborts.
fn let_decoders_catch() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

/// Parses a changed footer.
pub fn footer(input: &[u8]) {
    let_decoders_catch();
    // As they are, for the first checks.
    let _ = Footer::encoded_len(input);
    let _ = Footer::parse(input);
    let Some((choice, changes)) = input.split_first_chunk::<4>() else {
        return;
    };
    let types = generate::TYPES;
    let ty = types[usize::from(choice[3]) % types.len()];
    let Some(group) = valid_group(ty, choice) else {
        return;
    };
    let mut bytes = group.footer;
    change(&mut bytes, changes);
    if let Ok(footer) = Footer::parse(&bytes) {
        for at in 0..footer.column_count() {
            let meta = footer.column(at);
            let end = footer.layout().footer_len() as u64 + footer.body_len();
            assert!(meta.byte_range.end <= end);
            let _ = meta.chunk_verdict(&Predicate::IsNull);
            if let Some(value) = &meta.stats.max {
                let _ = meta.chunk_verdict(&Predicate::In(vec![value.clone()]));
            }
        }
    }
}

/// Opens and reads a changed chunk of one type, under a footer that may be changed too.
pub fn chunk(ty: ColumnType, input: &[u8]) {
    let_decoders_catch();
    let Some((choice, changes)) = input.split_first_chunk::<4>() else {
        return;
    };
    let Some(group) = valid_group(ty, choice) else {
        return;
    };
    let mut bytes = [group.footer, group.body].concat();
    change(&mut bytes, changes);
    read(&bytes, 0, choice);
}

/// Reads rows under a changed node table, whose parts are as they were.
pub fn nodes(input: &[u8]) {
    let_decoders_catch();
    let Some((choice, changes)) = input.split_first_chunk::<4>() else {
        return;
    };
    let types = generate::TYPES;
    let Some(group) = valid_group(types[usize::from(choice[3]) % types.len()], choice) else {
        return;
    };
    let mut footer = group.footer;
    let column_count = GroupLayout::read(&footer[..]).map_or(1, |layout| layout.column_count());
    if let Some(sections) = footer.get_mut(sections(column_count)..)
        && !sections.is_empty()
    {
        change(sections, changes);
    }
    read(&[footer, group.body].concat(), 0, choice);
}

/// Reads one column of a golden file, whole and row by row, with changed bytes: in its chunk, in
/// its sections of the footer, or anywhere.
pub fn golden(file: &[u8], input: &[u8]) {
    let_decoders_catch();
    let Some((choice, changes)) = input.split_first_chunk::<4>() else {
        return;
    };
    let (Ok(footer), Ok(footer_len)) = (Footer::parse(file), Footer::encoded_len(file)) else {
        return;
    };
    let mut bytes = file.to_vec();
    let at = usize::from(choice[0]) % footer.column_count();
    let whole = footer.column(at).byte_range.clone();
    let range = match choice[1] % 4 {
        0 => 0..bytes.len(),
        1 => sections(footer.column_count())..footer_len,
        _ => whole.start as usize..whole.end as usize,
    };
    if !range.is_empty() {
        change(&mut bytes[range], changes);
    }
    read(&bytes, at, choice);
}

/// Reads a column of a stored row group in every way, which must agree.
fn read(bytes: &[u8], column: usize, choice: &[u8; 4]) {
    rows_of(bytes, column);
    let seed = u32::from_le_bytes(*choice);
    let checked = agreement::check(bytes, column, &mut Random(seed.into()));
    if let Err(difference) = checked {
        panic!("{difference}");
    }
}

/// Reads rows of a column of a stored row group.
fn rows_of(bytes: &[u8], column: usize) {
    let Ok(layout) = GroupLayout::read(bytes) else {
        return;
    };
    if layout.column_count() <= column {
        return;
    }
    let _ = layout.statistics(column, bytes);
    let Ok(access) = layout.row_access(column, bytes) else {
        return;
    };
    let (mut state, mut ranges) = (RowState::default(), Vec::new());
    let mut among = RowState::default();
    let last = layout.row_count() as u32 - 1;
    for row in (0..=last.min(40)).chain([last / 2, last, last + 1]) {
        access.ranges(row, &mut ranges);
        let _ = access.locate(row, bytes, &mut state, &mut ranges);
        let _ = access.value(row, bytes, &mut state);
        let _ = access.value_among(row, bytes, &mut among);
    }
}

/// A small row group of one column, or of three of which two may lie side by side. One in sixteen
/// has more rows than a block of packed values, and than a zone.
fn valid_group(ty: ColumnType, choice: &[u8; 4]) -> Option<EncodedRowGroup> {
    let effort = [Effort::Fast, Effort::Default, Effort::Best][usize::from(choice[0]) % 3];
    let shape = ALL_SHAPES[usize::from(choice[1]) % ALL_SHAPES.len()];
    let nulls = NULLS[usize::from(choice[2]) % NULLS.len()];
    let row_count = match choice[2] / 16 {
        0 => 8_192 + 16 * usize::from(choice[0]),
        _ => 1 + usize::from(choice[0] / 3) * 16,
    };
    let random = &mut Random(u64::from(choice[3]));
    let mut columns = vec![(ty, column(ty, shape, nulls, row_count, random))];
    let mut grouped = Vec::new();
    if choice[1] >= 128 {
        for (ty, shape) in [
            (ColumnType::Text, Shape::Anything),
            (ColumnType::Int32, shape),
        ] {
            columns.push((ty, column(ty, shape, nulls, row_count, random)));
        }
        grouped = vec![0, 1];
    }
    let options = EncodeOptions { effort, grouped };
    row_group(&columns).encode(options).ok()
}

/// Each four bytes of `changes` change one byte: where (a fraction of the length), and how.
fn change(bytes: &mut [u8], changes: &[u8]) {
    for entry in changes.chunks_exact(4) {
        let at = (usize::from(u16::from_le_bytes([entry[0], entry[1]])) * bytes.len()) >> 16;
        bytes[at] = match entry[2] % 3 {
            0 => entry[3],
            1 => bytes[at] ^ entry[3],
            _ => bytes[at].wrapping_add(entry[3]),
        };
    }
}
