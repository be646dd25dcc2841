//! Speed of row groups: encode (bytes/s), decode and filter (values/s), open, and reads of single
//! rows. Every measured read is checked against the rows written before it is measured.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use howdah_columnar::{
    Chunk, ChunkBuffer, ColumnType, CompareOp, Effort, EncodedRowGroup, Footer, GroupLayout,
    MAX_ROWS, Numeric, OwnedValue, Predicate, RowGroupBuilder, RowState, Value,
};

/// A column, and a comparison that about one row in a hundred passes.
struct Case {
    name: &'static str,
    rows: RowGroupBuilder,
    predicate: Predicate,
}

impl Case {
    fn new(name: &'static str, ty: ColumnType, op: CompareOp, value: OwnedValue) -> Self {
        Self {
            name,
            rows: RowGroupBuilder::new(&[ty]),
            predicate: Predicate::Compare { op, value },
        }
    }

    fn fill(mut self, value: impl Fn(u64, &mut RowGroupBuilder)) -> Self {
        for row in 0..MAX_ROWS as u64 {
            value(row, &mut self.rows);
            self.rows.finish_row();
        }
        self
    }

    fn encode(&self, effort: Effort) -> (EncodedRowGroup, Footer) {
        let encoded = self.rows.encode(effort).expect("encodes");
        let footer = Footer::parse(&encoded.footer).expect("parses");
        (encoded, footer)
    }

    fn open(&self) -> Chunk {
        let (encoded, footer) = self.encode(Effort::Default);
        let chunk = Chunk::open(
            footer.column(0),
            footer.row_count(),
            ChunkBuffer::from(encoded.body.as_slice()),
        )
        .expect("opens");
        self.check(&chunk);
        chunk
    }

    fn check(&self, chunk: &Chunk) {
        let decoded = chunk.decode().expect("decodes");
        let found = chunk.filter(&self.predicate, 0..MAX_ROWS).expect("filters");
        for row in 0..MAX_ROWS {
            let expected = self.rows.value(0, row);
            assert_eq!(format!("{:?}", decoded.value(row)), format!("{expected:?}"));
            assert_eq!(Some(found.value(row)), self.predicate.matches(expected));
        }
    }
}

fn scattered(row: u64) -> u64 {
    row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

fn cases() -> Vec<Case> {
    use CompareOp::{Eq, Ge, Lt};
    vec![
        Case::new(
            "int32 below 1000",
            ColumnType::Int32,
            Lt,
            OwnedValue::Int32(10),
        )
        .fill(|row, to| to.column_mut(0).push_i32((scattered(row) % 1_000) as i32)),
        Case::new(
            "int64 unique",
            ColumnType::Int64,
            Lt,
            OwnedValue::Int64(1 << 37),
        )
        .fill(|row, to| to.column_mut(0).push_i64(scattered(row) as i64)),
        Case::new(
            "timestamp rising",
            ColumnType::Int64,
            Ge,
            OwnedValue::Int64(1_700_000_000_000_000 + 129_761 * 1_000_003),
        )
        .fill(|row, to| {
            let jitter = scattered(row) % 1_000_000;
            to.column_mut(0)
                .push_i64((1_700_000_000_000_000 + row * 1_000_003 + jitter) as i64);
        }),
        Case::new(
            "float64 two decimals",
            ColumnType::Float64,
            Lt,
            OwnedValue::Float64(100.0),
        )
        .fill(|row, to| {
            to.column_mut(0)
                .push_f64((scattered(row) % 1_000_000) as f64 / 100.0);
        }),
        Case::new("numeric(12,2)", ColumnType::Numeric, Lt, numeric(1_000_000)).fill(|row, to| {
            to.column_mut(0).push_numeric(Numeric::Small {
                unscaled: (scattered(row) % 100_000_000).into(),
                scale: 2,
            });
        }),
        Case::new(
            "text of 100 words",
            ColumnType::Text,
            Eq,
            text("carrier-number-7"),
        )
        .fill(|row, to| {
            let word = format!("carrier-number-{}", scattered(row) % 100);
            to.column_mut(0).push_text(&word);
        }),
        Case::new(
            "text unique",
            ColumnType::Text,
            Lt,
            text("https://example.org/page/1000"),
        )
        .fill(|row, to| {
            let url = format!(
                "https://example.org/page/{}?id={row}",
                scattered(row) % 100_000
            );
            to.column_mut(0).push_text(&url);
        }),
        Case::new("documents", ColumnType::Bytes, Lt, bytes("{\"id\": 1000")).fill(|row, to| {
            let (a, b) = (scattered(row), scattered(row + 1));
            let document = format!(
                "{{\"id\": {row}, \"user\": \"user{}\", \"score\": {}, \"tags\": [\"t{}\"]}}",
                a % 1_000,
                b % 100_000,
                a % 13,
            );
            to.column_mut(0).push_bytes(document.as_bytes());
        }),
    ]
}

fn numeric(unscaled: i128) -> OwnedValue {
    OwnedValue::from(Value::Numeric(Numeric::Small { unscaled, scale: 2 }))
}

fn text(value: &str) -> OwnedValue {
    OwnedValue::Text(value.to_owned())
}

fn bytes(value: &str) -> OwnedValue {
    OwnedValue::Bytes(value.as_bytes().to_vec())
}

fn encode(c: &mut Criterion) {
    let mut group = c.benchmark_group("encode");
    group.sample_size(10);
    for case in cases() {
        group.throughput(Throughput::Bytes(case.rows.raw_bytes() as u64));
        for effort in [Effort::Fast, Effort::Default, Effort::Best] {
            let (encoded, footer) = case.encode(effort);
            println!(
                "{} {effort:?}: {} bytes as {}, from {}",
                case.name,
                encoded.body.len(),
                footer.column(0).encoding,
                case.rows.raw_bytes()
            );
            group.bench_function(BenchmarkId::new(case.name, format!("{effort:?}")), |b| {
                b.iter(|| black_box(&case.rows).encode(effort).expect("encodes"));
            });
        }
    }
}

fn decode(c: &mut Criterion) {
    let mut group = c.benchmark_group("decode");
    group.sample_size(20);
    group.throughput(Throughput::Elements(MAX_ROWS as u64));
    for case in cases() {
        let chunk = case.open();
        group.bench_function(case.name, |b| b.iter(|| chunk.decode().expect("decodes")));
    }
}

fn filter(c: &mut Criterion) {
    let mut group = c.benchmark_group("filter");
    group.sample_size(20);
    group.throughput(Throughput::Elements(MAX_ROWS as u64));
    for case in cases() {
        let chunk = case.open();
        group.bench_function(case.name, |b| {
            b.iter(|| chunk.filter(&case.predicate, 0..MAX_ROWS).expect("filters"));
        });
    }
}

/// One value by row, anywhere and in order, of bytes in memory.
fn rows(c: &mut Criterion) {
    for (name, step) in [("random row", 7_919), ("next row", 1)] {
        let mut group = c.benchmark_group(name);
        for case in cases() {
            let (encoded, _) = case.encode(Effort::Default);
            let bytes = [encoded.footer, encoded.body].concat();
            let bytes = bytes.as_slice();
            let layout = GroupLayout::read(bytes).expect("reads");
            let access = layout.row_access(0, bytes).expect("plans");
            let (mut state, mut row) = (RowState::default(), 0);
            group.bench_function(case.name, |b| {
                b.iter(|| {
                    row = (row + step) % MAX_ROWS as u32;
                    let value = access.value(row, bytes, &mut state);
                    black_box(value.expect("reads"));
                });
            });
        }
    }
}

/// The first row of a group of which nothing is known yet.
fn first_row(c: &mut Criterion) {
    let mut group = c.benchmark_group("first row");
    for case in cases() {
        let (encoded, _) = case.encode(Effort::Default);
        let bytes = [encoded.footer, encoded.body].concat();
        let bytes = bytes.as_slice();
        group.bench_function(case.name, |b| {
            b.iter(|| {
                let layout = GroupLayout::read(bytes).expect("reads");
                let access = layout.row_access(0, bytes).expect("plans");
                let mut state = RowState::default();
                let value = access.value(black_box(99_999), bytes, &mut state);
                black_box(value.expect("reads"));
            });
        });
    }
}

fn select(c: &mut Criterion) {
    let mut group = c.benchmark_group("select 100 rows");
    let rows: Vec<u32> = (0..100).map(|at| at * 1_300 + 7).collect();
    for case in cases() {
        let chunk = case.open();
        group.bench_function(case.name, |b| {
            b.iter(|| chunk.decode_selection(black_box(&rows)).expect("decodes"));
        });
    }
}

fn open(c: &mut Criterion) {
    let mut group = c.benchmark_group("open");
    for case in cases() {
        let (encoded, footer) = case.encode(Effort::Default);
        group.throughput(Throughput::Bytes(encoded.body.len() as u64));
        group.bench_function(case.name, |b| {
            b.iter_batched(
                || ChunkBuffer::from(encoded.body.as_slice()),
                |buffer| Chunk::open(footer.column(0), MAX_ROWS, buffer).expect("opens"),
                criterion::BatchSize::SmallInput,
            );
        });
    }
    let (encoded, _) = cases()[0].encode(Effort::Default);
    group.throughput(Throughput::Bytes(encoded.footer.len() as u64));
    group.bench_function("footer of one column", |b| {
        b.iter(|| Footer::parse(black_box(&encoded.footer)).expect("parses"));
    });
}

criterion_group!(
    benches, encode, decode, filter, rows, first_row, select, open
);
criterion_main!(benches);
