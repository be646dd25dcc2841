//! What the fuzz targets do with their input: one target for footers, one for the chunks of
//! each column type, whole and row by row, one for row access under changed node tables, and one
//! for columns of the golden files. Every input must give an error or a value; a panic that escapes, an
//! out-of-bounds read or an allocation without bound is a bug.
//!
//! Random bytes would fail the first checks and test nothing else. So the first bytes of the
//! input choose a valid row group, the others say which of its bytes to change.

// The tests' generator of columns; a target uses a part of it.
#[path = "../../crates/columnar/tests/generate/mod.rs"]
pub mod generate;

use generate::{ALL_SHAPES, NULLS, Random, column, row_group};
use howdah_columnar::{
    Chunk, ChunkBuffer, ColumnType, CompareOp, Effort, EncodedRowGroup, Footer, GroupLayout,
    Predicate, RowState,
};

/// Where the sections of the only column start, see docs/format.md.
const SECTIONS: usize = 64;

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
    rows(&bytes);
    let Ok(footer) = Footer::parse(&bytes) else {
        return;
    };
    if footer.column_count() == 0 {
        return;
    }
    let (row_count, meta) = (footer.row_count(), footer.column(0));
    let range = meta.byte_range.start as usize..meta.byte_range.end as usize;
    let Some(chunk) = bytes.get(range) else {
        return;
    };
    if let Ok(chunk) = Chunk::open(meta, row_count, ChunkBuffer::from(chunk)) {
        read(&chunk, row_count);
    }
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
    if let Some(sections) = footer.get_mut(SECTIONS..)
        && !sections.is_empty()
    {
        change(sections, changes);
    }
    rows(&[footer, group.body].concat());
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
        1 => SECTIONS..footer_len,
        _ => whole.start as usize..whole.end as usize,
    };
    if !range.is_empty() {
        change(&mut bytes[range], changes);
    }
    rows_of(&bytes, at);
    let Ok(footer) = Footer::parse(&bytes) else {
        return;
    };
    if at >= footer.column_count() {
        return;
    }
    let (row_count, meta) = (footer.row_count(), footer.column(at));
    let range = meta.byte_range.start as usize..meta.byte_range.end as usize;
    if let Some(chunk) = bytes.get(range)
        && let Ok(chunk) = Chunk::open(meta, row_count, ChunkBuffer::from(chunk))
    {
        read(&chunk, row_count);
    }
}

/// Reads rows of the first column of a stored row group.
fn rows(bytes: &[u8]) {
    rows_of(bytes, 0);
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

fn read(chunk: &Chunk, row_count: usize) {
    let _ = chunk.decode_range(row_count / 3..row_count / 2);
    let _ = chunk.decode_selection(&[row_count as u32 - 1]);
    let _ = chunk.filter(&Predicate::IsNotNull, 0..row_count);
    let Ok(column) = chunk.decode() else {
        return;
    };
    assert_eq!(column.len(), row_count);
    let mut some = None;
    for row in 0..row_count {
        some = column.value(row).or(some);
    }
    if let Some(value) = some {
        for op in [CompareOp::Eq, CompareOp::Lt] {
            let value = value.into();
            let _ = chunk.filter(&Predicate::Compare { op, value }, 0..row_count);
        }
        let _ = chunk.filter(&Predicate::In(vec![value.into()]), 0..row_count);
    }
}

/// A small row group of one column.
fn valid_group(ty: ColumnType, choice: &[u8; 4]) -> Option<EncodedRowGroup> {
    let effort = [Effort::Fast, Effort::Default, Effort::Best][usize::from(choice[0]) % 3];
    let shape = ALL_SHAPES[usize::from(choice[1]) % ALL_SHAPES.len()];
    let nulls = NULLS[usize::from(choice[2]) % NULLS.len()];
    let row_count = 1 + usize::from(choice[0] / 3) * 16;
    let random = &mut Random(u64::from(choice[3]));
    let rows = column(ty, shape, nulls, row_count, random);
    row_group(&[(ty, rows)]).encode(effort).ok()
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
