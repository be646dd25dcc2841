//! Smoke.
use howdah_columnar::*;
use howdah_vector::operators::*;
use howdah_vector::plan::*;
use howdah_vector::runtime::*;
use howdah_vector::source::*;
use std::sync::Arc;

#[test]
fn smoke() {
    let types = vec![ColumnType::Int32, ColumnType::Int64, ColumnType::Float64];
    let mut b = RowGroupBuilder::new(&types);
    for row in 0..100_000i64 {
        b.column_mut(0).push_i32((row * 7919 % 10) as i32);
        if row % 3 == 0 {
            b.column_mut(1).push_null()
        } else {
            b.column_mut(1).push_i64(row * 31 % 1000)
        };
        b.column_mut(2).push_f64(row as f64 * 0.5);
        b.finish_row();
    }
    let e = b.encode(Effort::Default).unwrap();
    let f = Footer::parse(&e.footer).unwrap();
    let call = |name: &str, arg: Option<usize>| AggregateCall {
        name: name.into(),
        argument: arg.map(Expr::Column),
        filter: None,
    };
    let query = Query {
        columns: types.clone(),
        filter: vec![Expr::IsNotNull(Box::new(Expr::Column(0)))],
        output: Output::Aggregate {
            keys: vec![Expr::Column(0)],
            aggregates: vec![
                call("count()", None),
                call("count(any)", Some(1)),
                call("sum(int8)", Some(1)),
                call("avg(float8)", Some(2)),
                call("max(int8)", Some(1)),
            ],
        },
    };
    let compiled = Compiled::compile(&query).unwrap();
    for threads in [0, 1, 2] {
        let options = Options {
            threads,
            window: 2,
            memory_limit_bytes: 1 << 30,
            on_thread_start: || {},
        };
        let r = run::<()>(
            &compiled,
            &options,
            |feeder| {
                for ordinal in 0..5 {
                    let columns = (0..3)
                        .map(|c| {
                            let m = f.column(c);
                            let s = f.layout().footer_len();
                            let range =
                                m.byte_range.start as usize - s..m.byte_range.end as usize - s;
                            MorselColumn::Encoded {
                                meta: Arc::new(m.clone()),
                                bytes: ChunkBuffer::from(&e.body[range]),
                            }
                        })
                        .collect();
                    let mut morsel = Morsel {
                        row_count: 100_000,
                        columns,
                        hidden: None,
                        rows: vec![0..100_000],
                        filter_decided: false,
                        ordinal,
                    };
                    while let Err(m) = feeder.try_push(morsel) {
                        morsel = m;
                        feeder.wait(std::time::Duration::from_millis(10));
                    }
                }
                Ok(())
            },
            &mut || {},
        )
        .unwrap();
        println!("{r:?}");
        assert_eq!(r.row_count, 10);
    }
}
