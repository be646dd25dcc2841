//! Damaged bytes give an error or a value, never a panic that escapes and never memory
//! without bound.

mod generate;

use generate::{ALL_SHAPES, NULLS, Nulls, Random, Shape, TYPES, column, row_group};
use howdah_columnar::{
    Chunk, ChunkBuffer, CompareOp, Effort, EncodeOptions, EncodedRowGroup, Footer, GroupLayout,
    Predicate, RowState,
};

/// The most that the process may grow while it reads damaged groups of under a megabyte.
const MOST_GROWTH_BYTES: u64 = 256 << 20;

fn groups() -> Vec<EncodedRowGroup> {
    let random = &mut Random(11);
    let mut groups = Vec::new();
    for effort in [Effort::Fast, Effort::Default, Effort::Best] {
        for shape in ALL_SHAPES {
            for nulls in [Nulls::Never, NULLS[random.below(5) as usize]] {
                let columns: Vec<_> = TYPES
                    .into_iter()
                    .map(|ty| (ty, column(ty, shape, nulls, 1_500, random)))
                    .collect();
                let rows = row_group(&columns);
                groups.push(rows.encode(effort).expect("encodes"));
                let grouped = EncodeOptions {
                    effort,
                    grouped: (0..TYPES.len()).collect(),
                };
                groups.push(rows.encode(grouped).expect("encodes"));
            }
        }
    }
    groups
}

fn mutate(bytes: &mut [u8], random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        let at = random.below(bytes.len() as u64) as usize;
        // The last bytes hold the tree of arrays: hit them more often.
        let at = match random.below(2) {
            0 => bytes.len() - 1 - at.min(random.below(200) as usize),
            _ => at,
        };
        bytes[at] = match random.below(4) {
            0 => bytes[at] ^ 1 << random.below(8),
            1 => 0,
            2 => 255,
            _ => random.next() as u8,
        };
    }
}

/// Reads a chunk in every way; errors are fine.
fn read(chunk: &Chunk, row_count: usize) {
    let _ = chunk.decode_range(row_count / 3..row_count / 2);
    let _ = chunk.decode_selection(&[0, row_count as u32 - 1]);
    if let Ok(column) = chunk.decode() {
        assert_eq!(column.len(), row_count);
        for row in 0..row_count {
            let _ = column.value(row);
        }
        if let Some(value) = (0..row_count).find_map(|row| column.value(row)) {
            let predicate = Predicate::Compare {
                op: CompareOp::Ge,
                value: value.into(),
            };
            let _ = chunk.filter(&predicate, 0..row_count);
            let value = (0..row_count).rev().find_map(|row| column.value(row));
            let list = value.map(Into::into).into_iter().collect();
            let _ = chunk.filter(&Predicate::In(list), 0..row_count);
        }
    }
    let _ = chunk.filter(&Predicate::IsNull, 0..row_count);
}

fn quietly(run: impl FnOnce()) {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
    std::panic::set_hook(hook);
    if let Err(payload) = result {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        eprintln!("{}", text.unwrap_or("a panic without text"));
        std::panic::resume_unwind(payload);
    }
}

#[test]
fn damaged_bytes_are_errors_or_values_but_never_panics() {
    let groups = groups();
    let random = &mut Random(2);
    let before = peak_bytes();
    quietly(|| {
        damage_footers(&groups, random);
        damage_chunks(&groups, random);
        damage_rows(&groups, random);
    });
    let growth = peak_bytes() - before;
    assert!(growth <= MOST_GROWTH_BYTES, "grew by {growth} bytes");
}

/// The greatest size that the process ever had; 0 where the system does not tell.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1_024
}

fn damage_footers(groups: &[EncodedRowGroup], random: &mut Random) {
    for round in 0..3_000 {
        let mut footer = groups[round % groups.len()].footer.clone();
        match random.below(3) {
            0 => footer.truncate(random.below(footer.len() as u64) as usize),
            _ => mutate(&mut footer, random),
        }
        if let Ok(footer) = Footer::parse(&footer) {
            read_footer(&footer);
        }
    }
}

fn read_footer(footer: &Footer) {
    for at in 0..footer.column_count() {
        let meta = footer.column(at);
        assert!(meta.byte_range.end <= footer.body_len() + footer.layout().footer_len() as u64);
        let _ = meta.chunk_verdict(&Predicate::IsNull);
        if let Some(value) = &meta.stats.min {
            let _ = meta.chunk_verdict(&Predicate::In(vec![value.clone()]));
        }
    }
    assert!(footer.memory_bytes() < 1 << 20);
}

fn damage_chunks(groups: &[EncodedRowGroup], random: &mut Random) {
    let mut outcomes = [0usize; 2];
    for round in 0..6_000 {
        let group = &groups[round % groups.len()];
        let footer = Footer::parse(&group.footer).expect("parses");
        let at = random.below(TYPES.len() as u64) as usize;
        let meta = footer.column(at);
        let range = generate::chunk_range(&footer, at);
        if range.is_empty() {
            continue;
        }
        let mut bytes = group.body[range].to_vec();
        mutate(&mut bytes, random);
        match Chunk::open(
            meta,
            footer.row_count(),
            ChunkBuffer::from(bytes.as_slice()),
        ) {
            Ok(chunk) => {
                outcomes[0] += 1;
                read(&chunk, footer.row_count());
            }
            Err(_) => outcomes[1] += 1,
        }
    }
    assert!(
        outcomes.iter().all(|&count| count > 100),
        "both outcomes happen: {outcomes:?}"
    );
}

/// Row access to whole stored groups of which any byte may be damaged.
fn damage_rows(groups: &[EncodedRowGroup], random: &mut Random) {
    let mut outcomes = [0usize; 2];
    for round in 0..6_000 {
        let group = &groups[round % groups.len()];
        let footer_len = group.footer.len();
        let at = random.below(TYPES.len() as u64) as usize;
        let intact = Footer::parse(&group.footer).expect("parses");
        let chunk = generate::chunk_range(&intact, at);
        let mut bytes = [group.footer.as_slice(), &group.body].concat();
        match random.below(3) {
            0 => mutate(&mut bytes[..footer_len], random),
            _ if chunk.is_empty() => continue,
            _ => mutate(
                &mut bytes[footer_len + chunk.start..footer_len + chunk.end],
                random,
            ),
        }
        let bytes = bytes.as_slice();
        let Ok(layout) = GroupLayout::read(bytes) else {
            continue;
        };
        if at >= layout.column_count() {
            continue;
        }
        let Ok(access) = layout.row_access(at, bytes) else {
            continue;
        };
        let mut state = RowState::default();
        let mut ranges = Vec::new();
        for row in (0..1_500).step_by(7).chain([1, 1_499, 1_498, 1_497]) {
            access.ranges(row, &mut ranges);
            access.likely_ranges(row, &mut ranges);
            let mut rounds = 0..;
            let mut more = |round| access.needs(row, round, bytes, &mut state, &mut ranges);
            while rounds.next().is_some_and(&mut more) {}
            ranges.clear();
            let outcome = access.value(row, bytes, &mut state).is_err();
            outcomes[usize::from(outcome)] += 1;
        }
        assert!(access.memory_bytes() < 8 << 20);
    }
    assert!(
        outcomes.iter().all(|&count| count > 1_000),
        "both outcomes happen: {outcomes:?}"
    );
}

#[test]
fn a_chunk_of_another_column_or_length_is_refused() {
    let random = &mut Random(1);
    let columns: Vec<_> = TYPES
        .into_iter()
        .map(|ty| (ty, column(ty, Shape::Anything, Nulls::Never, 100, random)))
        .collect();
    let group = row_group(&columns)
        .encode(Effort::Default)
        .expect("encodes");
    let footer = Footer::parse(&group.footer).expect("parses");
    let bytes = |at: usize| ChunkBuffer::from(&group.body[generate::chunk_range(&footer, at)]);
    assert!(Chunk::open(footer.column(2), 100, bytes(3)).is_err());
    assert!(Chunk::open(footer.column(2), 99, bytes(2)).is_err());
    assert!(Chunk::open(footer.column(2), 100, ChunkBuffer::with_len(0)).is_err());
    assert!(Chunk::open(footer.column(2), 100, bytes(2)).is_ok());
}
