//! Speed of whole runs over encoded row groups with two threads, in rows per second. Each result's
//! row count and total are checked before it is measured.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use howdah_columnar::{
    ChunkBuffer, ColumnType, Effort, EncodedRowGroup, Footer, MAX_ROWS, OwnedValue, RowGroupBuilder,
};
use howdah_vector::operators::{Compiled, Look};
use howdah_vector::plan::{AggregateCall, Expr, OrderBy, Output, Query};
use howdah_vector::runtime::{Options, ResultSet, run};
use howdah_vector::source::{Morsel, MorselColumn};

/// Different row groups, which are read over and over.
const GROUPS: usize = 8;

/// Row groups in a run.
const MORSELS: usize = 160;

const TYPES: [ColumnType; 7] = [
    ColumnType::Int32,
    ColumnType::Float32,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::Text,
    ColumnType::Int32,
    ColumnType::Numeric,
];
const SMALL: usize = 0;
const FLOAT: usize = 1;
const BITS20: usize = 2;
const KEY: usize = 3;
const WORD: usize = 4;
const DAY: usize = 5;
const AMOUNT: usize = 6;

struct Group {
    encoded: EncodedRowGroup,
    footer: Footer,
    metas: Vec<Arc<howdah_columnar::ColumnMeta>>,
}

fn scattered(row: u64) -> u64 {
    let mut z = row.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 31)
}

fn groups() -> Vec<Group> {
    let build = |group: u64| {
        let mut rows = RowGroupBuilder::new(&TYPES);
        for row in 0..MAX_ROWS as u64 {
            let random = scattered(group * MAX_ROWS as u64 + row);
            rows.column_mut(SMALL).push_i32((random % 10) as i32);
            rows.column_mut(FLOAT)
                .push_f32((random >> 8) as u16 as f32 / 8.0);
            rows.column_mut(BITS20)
                .push_i32((random >> 20 & 0xf_ffff) as i32);
            rows.column_mut(KEY)
                .push_i64((random >> 16) as i64 % 500_000 * 1_000_003);
            rows.column_mut(WORD)
                .push_text(["AIR", "MAIL", "RAIL", "SHIP", "TRUCK"][(random >> 9) as usize % 5]);
            rows.column_mut(DAY)
                .push_i32(8_000 + (group * 16 + row / 8_192) as i32);
            rows.column_mut(AMOUNT)
                .push_numeric(howdah_columnar::Numeric::Small {
                    unscaled: (random >> 30 & 0xf_ffff).into(),
                    scale: 2,
                });
            rows.finish_row();
        }
        let encoded = rows.encode(Effort::Default).expect("encodes");
        let footer = Footer::parse(&encoded.footer).expect("parses");
        let metas = (0..TYPES.len())
            .map(|at| Arc::new(footer.column(at).clone()))
            .collect();
        Group {
            encoded,
            footer,
            metas,
        }
    };
    (0..GROUPS as u64).map(build).collect()
}

fn morsel(group: &Group, compiled: &Compiled, ordinal: usize) -> Option<Morsel> {
    let statistics: Vec<_> = (0..TYPES.len())
        .map(|at| {
            group
                .footer
                .layout()
                .statistics(at, group.encoded.footer.as_slice())
        })
        .collect::<Result<_, _>>()
        .expect("statistics");
    let statistics: Vec<_> = statistics.iter().map(Some).collect();
    let Look::Read {
        rows,
        filter_decided,
    } = compiled.ask(&statistics, MAX_ROWS, false)
    else {
        return None;
    };
    let needed = compiled.needed_for(&statistics, filter_decided);
    let columns = (0..TYPES.len()).map(|at| {
        if !needed.contains(&at) {
            return MorselColumn::Unread;
        }
        let start = group.footer.layout().footer_len();
        let range = &group.metas[at].byte_range;
        let range = range.start as usize - start..range.end as usize - start;
        MorselColumn::Encoded {
            meta: Arc::clone(&group.metas[at]),
            bytes: ChunkBuffer::from(&group.encoded.body[range]),
        }
    });
    Some(Morsel {
        row_count: MAX_ROWS,
        columns: columns.collect(),
        hidden: None,
        rows,
        filter_decided,
        ordinal: ordinal as u64,
    })
}

fn run_all(compiled: &Compiled, groups: &[Group]) -> ResultSet {
    let options = Options {
        threads: 2,
        window: 6,
        memory_limit_bytes: 1 << 30,
        around_spawn: |start| start(),
        on_thread_start: || {},
        is_stopped: || false,
    };
    let result = run::<()>(
        compiled,
        &options,
        |feeder| {
            for ordinal in 0..MORSELS {
                let Some(mut morsel) = morsel(&groups[ordinal % GROUPS], compiled, ordinal) else {
                    continue;
                };
                while let Err(back) = feeder.try_push(morsel) {
                    morsel = back;
                    feeder.wait(Duration::from_millis(10));
                }
            }
            Ok(())
        },
        &mut || {},
    );
    result.expect("runs")
}

fn call(name: &str, argument: Option<usize>) -> AggregateCall {
    AggregateCall {
        name: name.to_owned(),
        argument: argument.map(Expr::Column),
        filter: None,
    }
}

fn aggregate(keys: &[usize], aggregates: Vec<AggregateCall>) -> Output {
    Output::Aggregate {
        keys: keys.iter().copied().map(Expr::Column).collect(),
        aggregates,
    }
}

fn cases() -> Vec<(&'static str, Vec<Expr>, Output, usize)> {
    let less = |column: usize, value: i32| Expr::Call {
        function: "int4lt".to_owned(),
        arguments: vec![
            Expr::Column(column),
            Expr::Constant(ColumnType::Int32, Some(OwnedValue::Int32(value))),
        ],
    };
    vec![
        (
            "10 groups, count(float4)",
            vec![],
            aggregate(&[SMALL], vec![call("count(any)", Some(FLOAT))]),
            10,
        ),
        (
            "10 groups, count and sum(float4)",
            vec![],
            aggregate(
                &[SMALL],
                vec![
                    call("count(any)", Some(FLOAT)),
                    call("sum(float4)", Some(FLOAT)),
                ],
            ),
            10,
        ),
        (
            "10 groups, sum(int4), avg(numeric)",
            vec![],
            aggregate(
                &[SMALL],
                vec![
                    call("sum(int4)", Some(BITS20)),
                    call("avg(numeric)", Some(AMOUNT)),
                ],
            ),
            10,
        ),
        (
            "5 words, count",
            vec![],
            aggregate(&[WORD], vec![call("count()", None)]),
            5,
        ),
        (
            "5 words and 10 groups, sum(int4)",
            vec![],
            aggregate(&[WORD, SMALL], vec![call("sum(int4)", Some(BITS20))]),
            50,
        ),
        (
            "days in order, count and sum(int4)",
            vec![],
            aggregate(
                &[DAY],
                vec![call("count()", None), call("sum(int4)", Some(BITS20))],
            ),
            128,
        ),
        (
            "sum(int4) of a third",
            vec![less(BITS20, 350_000)],
            aggregate(&[], vec![call("sum(int4)", Some(BITS20))]),
            1,
        ),
        (
            "sum(int4) where small < 1",
            vec![less(SMALL, 1)],
            aggregate(&[], vec![call("sum(int4)", Some(BITS20))]),
            1,
        ),
        (
            "sum(int4)",
            vec![
                Expr::IsNotNull(Box::new(Expr::Column(FLOAT))),
                less(SMALL, 100),
            ],
            aggregate(
                &[],
                vec![
                    call("sum(int4)", Some(BITS20)),
                    call("avg(float4)", Some(FLOAT)),
                ],
            ),
            1,
        ),
        (
            "500,000 groups, count and sum(int4)",
            vec![],
            aggregate(
                &[KEY],
                vec![call("count()", None), call("sum(int4)", Some(BITS20))],
            ),
            430_000,
        ),
        (
            "first 100 by int4",
            vec![],
            Output::First {
                columns: vec![Expr::Column(BITS20), Expr::Column(WORD)],
                order: vec![OrderBy {
                    expr: Expr::Column(BITS20),
                    descending: true,
                    nulls_first: true,
                }],
                limit: 100,
            },
            100,
        ),
    ]
}

/// The time that all threads have used so far: what others do on the machine is not in it.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace();
    let ticks: Vec<f64> = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse().ok())
        .collect();
    ticks.iter().sum::<f64>() / 100.0
}

fn aggregates(criterion: &mut Criterion) {
    let groups = groups();
    for at in 0..TYPES.len() {
        println!("column {at}: {}", groups[0].metas[at].encoding);
    }
    let mut bench = criterion.benchmark_group("two threads");
    bench
        .sample_size(10)
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(2));
    bench.throughput(Throughput::Elements((MORSELS * MAX_ROWS) as u64));
    for (name, filter, output, rows) in cases() {
        let query = Query {
            columns: TYPES.to_vec(),
            filter,
            output,
        };
        let mut compiled = Compiled::compile(&query).expect("compiles");
        compiled.set_bounds(SMALL, 0, 9);
        compiled.set_bounds(DAY, 8_000, 8_127);
        let result = run_all(&compiled, &groups);
        assert!(
            result.row_count >= rows && result.row_count <= rows * 5 / 4,
            "{name}: {}",
            result.row_count
        );
        let start = cpu_seconds();
        for _ in 0..5 {
            black_box(run_all(&compiled, &groups));
        }
        let rate = (5 * MORSELS * MAX_ROWS) as f64 / (cpu_seconds() - start) / 1e6;
        println!("{name}: {rate:.0} M rows a second of one core");
        bench.bench_function(name, |bencher| {
            bencher.iter(|| black_box(run_all(&compiled, &groups)));
        });
    }
    bench.finish();
}

criterion_group!(benches, aggregates);
criterion_main!(benches);
