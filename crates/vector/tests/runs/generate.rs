//! Random tables, queries and ways to deliver them, from a seed.

use std::ops::Range;
use std::sync::Arc;

use arrow_buffer::BooleanBuffer;
use howdah_columnar::{
    ChunkBuffer, Column, ColumnType, Effort, EncodeOptions, EncodedRowGroup, Footer, OwnedNumeric,
    OwnedValue, RowGroupBuilder,
};
use howdah_vector::oracle::Datum;
use howdah_vector::plan::{AggregateCall, Expr, GroupOrder, OrderBy, Output, Query, Truth};
use howdah_vector::source::{Morsel, MorselColumn};

/// A small random generator: SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    pub fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize].clone()
    }
}

pub const TYPES: [ColumnType; 11] = [
    ColumnType::Bool,
    ColumnType::Int16,
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::Float32,
    ColumnType::Float64,
    ColumnType::Numeric,
    ColumnType::Text,
    ColumnType::Bytes,
    ColumnType::Fixed { len: 16 },
    ColumnType::Fixed { len: 3 },
];

/// How a column's values hang together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    Constant,
    Few,
    Runs,
    Rising,
    Many,
    /// Of few bits, with a few exceptions.
    Packed,
    Extremes,
}

const SHAPES: [Shape; 9] = [
    Shape::Constant,
    Shape::Few,
    Shape::Few,
    Shape::Runs,
    Shape::Rising,
    Shape::Many,
    Shape::Packed,
    Shape::Packed,
    Shape::Extremes,
];

pub struct Table {
    pub types: Vec<ColumnType>,
    pub rows: Vec<Vec<Datum>>,
}

pub fn table(random: &mut Random, row_count: usize) -> Table {
    let mut types: Vec<ColumnType> = (0..2 + random.below(4))
        .map(|_| random.pick(&TYPES))
        .collect();
    types.extend([ColumnType::Int32, ColumnType::Int64]);
    let mut columns = Vec::new();
    for &ty in &types {
        let shape = random.pick(&SHAPES);
        let nulls = random.pick(&[0, 0, 100, 5, 2, 1]);
        let mut last = value(random, ty, Shape::Few, 0);
        let column: Vec<Datum> = (0..row_count as u64)
            .map(|row| {
                let new = match shape {
                    Shape::Constant => last.clone(),
                    Shape::Runs if !random.one_in(500) => last.clone(),
                    Shape::Runs => value(random, ty, Shape::Few, row),
                    shape => value(random, ty, shape, row),
                };
                last = new.clone();
                (nulls == 0 || !random.one_in(nulls)).then_some(new)
            })
            .collect();
        columns.push(column);
    }
    let rows = (0..row_count)
        .map(|row| columns.iter().map(|column| column[row].clone()).collect())
        .collect();
    Table { types, rows }
}

fn value(random: &mut Random, ty: ColumnType, shape: Shape, row: u64) -> OwnedValue {
    let extreme = match shape {
        Shape::Extremes => random.one_in(3),
        Shape::Packed => random.one_in(400),
        _ => false,
    };
    let number = match shape {
        Shape::Rising => row as i64 / 7,
        Shape::Many => random.below(1_500) as i64 - 700,
        Shape::Packed => random.below(900) as i64,
        _ => random.below(9) as i64 - 4,
    };
    match ty {
        ColumnType::Bool => OwnedValue::Bool(number & 1 == 1),
        ColumnType::Int16 if extreme => OwnedValue::Int16(random.pick(&[i16::MIN, i16::MAX])),
        ColumnType::Int32 if extreme => OwnedValue::Int32(random.pick(&[i32::MIN, i32::MAX])),
        ColumnType::Int64 if extreme => OwnedValue::Int64(random.pick(&[i64::MIN, i64::MAX])),
        ColumnType::Int16 => OwnedValue::Int16(number as i16),
        ColumnType::Int32 => OwnedValue::Int32(number as i32),
        ColumnType::Int64 => OwnedValue::Int64(number),
        // Sums of quarters are exact, in whatever order.
        ColumnType::Float32 if extreme => OwnedValue::Float32(random.pick(&SPECIAL) as f32),
        ColumnType::Float64 if extreme => OwnedValue::Float64(random.pick(&SPECIAL)),
        ColumnType::Float32 => OwnedValue::Float32((number % 500) as f32 * 0.25),
        ColumnType::Float64 => OwnedValue::Float64(number as f64 * 0.25),
        ColumnType::Numeric => OwnedValue::Numeric(match random.below(12) {
            0 if extreme => OwnedNumeric::Image(b"NaN".to_vec()),
            1 if extreme => small(i128::MAX / 1_000, 0),
            2..=6 if extreme => small(i128::from(number) << 66, 3),
            7..=9 if extreme => small(i128::from(number) * 10, 3),
            _ => small(number.into(), 2),
        }),
        ColumnType::Text => OwnedValue::Text(match number {
            _ if extreme => random
                .pick(&["", "\0", "é", "a very long text that is not inlined"])
                .to_owned(),
            number => format!("key {number}"),
        }),
        ColumnType::Bytes => OwnedValue::Bytes(match number {
            _ if extreme => random
                .pick(&[&b""[..], b"\0", b"\0\0", &[255; 40]])
                .to_vec(),
            number => number.to_le_bytes().to_vec(),
        }),
        ColumnType::Fixed { len } => {
            let mut bytes = number.to_be_bytes().repeat(3);
            bytes.rotate_right(2);
            bytes.truncate(len.into());
            OwnedValue::Bytes(bytes)
        }
    }
}

fn small(unscaled: i128, scale: u16) -> OwnedNumeric {
    OwnedNumeric::Small { unscaled, scale }
}

const SPECIAL: [f64; 8] = [
    f64::NAN,
    -f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    0.0,
    -0.0,
    1.25,
    -2.5,
];

fn call(function: &str, arguments: Vec<Expr>) -> Expr {
    Expr::Call {
        function: function.to_owned(),
        arguments,
    }
}

fn int4(value: i32) -> Expr {
    Expr::Constant(ColumnType::Int32, Some(OwnedValue::Int32(value)))
}

/// A boolean expression; some may raise errors.
fn condition(random: &mut Random, types: &[ColumnType]) -> Expr {
    let at = random.below(types.len() as u64) as usize;
    let column = Expr::Column(at);
    let number = random.below(9) as i32 - 4;
    match (types[at], random.below(8)) {
        (_, 0) => Expr::IsNull(Box::new(column)),
        (_, 1) => Expr::IsNotNull(Box::new(column)),
        (_, 2) => Expr::Or(vec![condition(random, types), condition(random, types)]),
        (_, 3) => Expr::Not(Box::new(condition(random, types))),
        (ColumnType::Bool, 4) => column,
        (ColumnType::Bool, _) => Expr::Is(Box::new(column), Truth::NotFalse),
        (ColumnType::Int32, 4) => call(
            "int4gt",
            vec![call("int4div", vec![int4(100), column]), int4(number)],
        ),
        (ColumnType::Int32, 5) => Expr::AnyAll {
            function: "int4eq".to_owned(),
            left: Box::new(column),
            element: ColumnType::Int32,
            values: vec![
                Some(OwnedValue::Int32(number)),
                None,
                Some(OwnedValue::Int32(2)),
            ],
            all: false,
        },
        (ColumnType::Int32, _) => {
            let function = random.pick(&["int4lt", "int4ge", "int4eq", "int4ne"]);
            call(function, vec![column, int4(number)])
        }
        (ColumnType::Int64, _) => {
            let limit = Expr::Constant(
                ColumnType::Int64,
                Some(OwnedValue::Int64(random.below(600) as i64)),
            );
            call(random.pick(&["int8lt", "int8ge"]), vec![column, limit])
        }
        (ColumnType::Int16, _) => {
            let limit = OwnedValue::Int16(random.below(900) as i16);
            let limit = Expr::Constant(ColumnType::Int16, Some(limit));
            call(
                random.pick(&["int2lt", "int2ge", "int2ne"]),
                vec![column, limit],
            )
        }
        (ColumnType::Float32, _) => {
            let limit = OwnedValue::Float32(random.pick(&[0.0, -0.5, 100.0, f32::NAN]));
            let limit = Expr::Constant(ColumnType::Float32, Some(limit));
            call(random.pick(&["float4le", "float4gt"]), vec![column, limit])
        }
        (ColumnType::Float64, _) => {
            let limit = OwnedValue::Float64(random.pick(&[0.0, -0.5, 100.0, f64::NAN]));
            let limit = Expr::Constant(ColumnType::Float64, Some(limit));
            call(random.pick(&["float8le", "float8gt"]), vec![column, limit])
        }
        (ColumnType::Text, 4) => {
            let pattern = random.pick(&["key %", "%3", "%y -%", "key _", "%é%", "%", "key 1"]);
            let pattern = OwnedValue::Text(pattern.to_owned());
            let pattern = Expr::Constant(ColumnType::Text, Some(pattern));
            call(
                random.pick(&["textlike", "textnlike"]),
                vec![column, pattern],
            )
        }
        (ColumnType::Text, 5) => {
            let function = random.pick(&["int4lt", "int4ge", "int4eq"]);
            call(
                function,
                vec![call("textlen", vec![column]), int4(number + 4)],
            )
        }
        (ColumnType::Text, _) => {
            let text = OwnedValue::Text(format!("key {number}"));
            let text = Expr::Constant(ColumnType::Text, Some(text));
            call(random.pick(&["texteq", "textne"]), vec![column, text])
        }
        _ => Expr::IsNotNull(Box::new(column)),
    }
}

/// Two conjuncts on the same column.
fn between(random: &mut Random, types: &[ColumnType]) -> Option<[Expr; 2]> {
    let at = random.below(types.len() as u64) as usize;
    let (least, greatest) = (random.below(500) as i32 - 100, random.below(900) as i32);
    let value = |number: i32| match types[at] {
        ColumnType::Int16 => Some(OwnedValue::Int16(number as i16)),
        ColumnType::Int32 => Some(OwnedValue::Int32(number)),
        ColumnType::Int64 => Some(OwnedValue::Int64(number.into())),
        ColumnType::Float32 => Some(OwnedValue::Float32(number as f32 * 0.25)),
        ColumnType::Float64 => Some(OwnedValue::Float64(f64::from(number) * 0.25)),
        _ => None,
    };
    let name = match types[at] {
        ColumnType::Int16 => "int2",
        ColumnType::Int32 => "int4",
        ColumnType::Int64 => "int8",
        ColumnType::Float32 => "float4",
        _ => "float8",
    };
    let compared = |operator: &str, number: i32| {
        let constant = Expr::Constant(types[at], Some(value(number)?));
        Some(call(
            &format!("{name}{operator}"),
            vec![Expr::Column(at), constant],
        ))
    };
    let upper = if random.one_in(4) { "ne" } else { "le" };
    Some([compared("ge", least)?, compared(upper, greatest)?])
}

fn aggregate(random: &mut Random, types: &[ColumnType]) -> AggregateCall {
    let at = random.below(types.len() as u64) as usize;
    let mut argument = Expr::Column(at);
    let names: &[&str] = match types[at] {
        ColumnType::Bool => &["bool_and(bool)", "bool_or(bool)", "every(bool)"],
        ColumnType::Int16 => &["sum(int2)", "avg(int2)", "min(int2)", "max(int2)"],
        ColumnType::Int32 => &["sum(int4)", "avg(int4)", "min(int4)", "max(date)"],
        ColumnType::Int64 => &["sum(int8)", "avg(int8)", "min(int8)", "max(timestamptz)"],
        ColumnType::Float32 => &["sum(float4)", "avg(float4)", "min(float4)", "max(float4)"],
        ColumnType::Float64 => &["sum(float8)", "avg(float8)", "min(float8)", "max(float8)"],
        ColumnType::Numeric => &[
            "sum(numeric)",
            "avg(numeric)",
            "min(numeric)",
            "max(numeric)",
        ],
        ColumnType::Text => &["min(text)", "max(text)"],
        ColumnType::Bytes => &["min(bytea)", "max(bytea)"],
        _ => &["count(any)"],
    };
    let filter = random.one_in(4).then(|| condition(random, types));
    let name = match random.below(6) {
        0 => {
            return AggregateCall {
                name: "count()".to_owned(),
                argument: None,
                filter,
            };
        }
        1 => "count(any)",
        _ => random.pick(names),
    };
    if types[at] == ColumnType::Int32 && random.one_in(4) {
        argument = call("int4pl", vec![argument, int4(3)]);
    }
    if types[at] == ColumnType::Text && random.one_in(4) {
        return AggregateCall {
            name: "sum(int4)".to_owned(),
            argument: Some(call("textlen", vec![argument])),
            filter,
        };
    }
    AggregateCall {
        name: name.to_owned(),
        argument: Some(argument),
        filter,
    }
}

pub fn query(random: &mut Random, table: &Table) -> Query {
    let types = &table.types;
    let mut filter: Vec<Expr> = (0..random.below(3))
        .map(|_| condition(random, types))
        .collect();
    if random.one_in(3) {
        filter.extend(between(random, types).into_iter().flatten());
    }
    let column = |random: &mut Random| Expr::Column(random.below(types.len() as u64) as usize);
    // What is grouped by: a column, or something computed of one.
    let key = |random: &mut Random| match (random.below(3), random.below(types.len() as u64)) {
        (0, at) => {
            let column = Expr::Column(at as usize);
            match types[at as usize] {
                ColumnType::Text => call("textlen", vec![column]),
                ColumnType::Int32 => call("int4div", vec![column, int4(random.pick(&[2, -1]))]),
                ColumnType::Int64 => call("int84div", vec![column, int4(3)]),
                _ => column,
            }
        }
        (_, at) => Expr::Column(at as usize),
    };
    let output = match random.below(4) {
        0 => {
            let order: Vec<OrderBy> = (0..random.below(4))
                .map(|_| OrderBy {
                    expr: column(random),
                    descending: random.one_in(2),
                    nulls_first: random.one_in(2),
                })
                .collect();
            let mut columns: Vec<Expr> = order.iter().map(|part| part.expr.clone()).collect();
            columns.extend((0..types.len()).map(Expr::Column));
            Output::First {
                columns,
                order,
                limit: random.pick(&[0, 1, 3, 20, 500]),
            }
        }
        which => {
            let keys: Vec<Expr> = (0..random.pick(&[0, 1, 1, 2, 3]))
                .map(|_| key(random))
                .collect();
            let aggregates: Vec<AggregateCall> = (0..random.below(5))
                .map(|_| aggregate(random, types))
                .collect();
            // Averages have no order, except those of floats.
            let has_order = |place: usize| match place.checked_sub(keys.len()) {
                None => true,
                Some(at) => {
                    let name = aggregates[at].name.as_str();
                    !name.starts_with("avg") || name.contains("float")
                }
            };
            let places: Vec<usize> = (0..keys.len() + aggregates.len())
                .filter(|&place| has_order(place))
                .collect();
            match which == 1 && !places.is_empty() {
                true => Output::FirstGroups {
                    order: (0..1 + random.below(3))
                        .map(|_| GroupOrder {
                            column: random.pick(&places),
                            descending: random.one_in(2),
                            nulls_first: random.one_in(2),
                        })
                        .collect(),
                    keys,
                    aggregates,
                    limit: random.pick(&[0, 1, 3, 20, 500]),
                },
                false => Output::Aggregate { keys, aggregates },
            }
        }
    };
    Query {
        columns: types.clone(),
        filter,
        output,
    }
}

/// Rows of the table, in one form or another.
pub struct Piece {
    pub rows: Range<usize>,
    pub encoded: Option<(EncodedRowGroup, Footer)>,
    pub hidden: Option<BooleanBuffer>,
    /// The rows to look at; all if the run asks for itself.
    pub zones: Vec<Range<usize>>,
}

/// Cuts a table into pieces.
pub fn pieces(random: &mut Random, table: &Table) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut start = 0;
    while start < table.rows.len() {
        let len =
            (1 + random.below(table.rows.len() as u64) as usize).min(table.rows.len() - start);
        let rows = start..start + len;
        start += len;
        let encoded = random.below(3) > 0;
        let encoded = encoded.then(|| {
            let mut builder = RowGroupBuilder::new(&table.types);
            for row in &table.rows[rows.clone()] {
                for (at, value) in row.iter().enumerate() {
                    let value = value.as_ref().map(OwnedValue::as_value);
                    builder.column_mut(at).push(value);
                }
                builder.finish_row();
            }
            let effort = random.pick(&[Effort::Fast, Effort::Default, Effort::Best]);
            // Strings of several columns side by side, where there are any.
            let grouped = match random.one_in(2) {
                true => (0..table.types.len()).collect(),
                false => Vec::new(),
            };
            let options = EncodeOptions { effort, grouped };
            let encoded = builder.encode(options).expect("encodes");
            let footer = Footer::parse(&encoded.footer).expect("parses");
            (encoded, footer)
        });
        let hidden = random.one_in(3).then(|| {
            let rare = random.pick(&[2, 50, 1_000]);
            BooleanBuffer::collect_bool(len, |_| random.one_in(rare))
        });
        let mut zones = std::iter::once(0..len).collect::<Vec<_>>();
        if random.one_in(3) {
            let (a, b) = (
                random.below(len as u64 + 1) as usize,
                random.below(len as u64 + 1) as usize,
            );
            let (a, b) = (a.min(b), a.max(b));
            zones = vec![0..a, b..len];
        }
        pieces.push(Piece {
            rows,
            encoded,
            hidden,
            zones,
        });
    }
    pieces
}

impl Piece {
    /// The rows that the query is to see.
    pub fn visible<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = &'a Vec<Datum>> {
        let rows = self.zones.iter().flat_map(Clone::clone);
        rows.filter(|&row| self.hidden.as_ref().is_none_or(|hidden| !hidden.value(row)))
            .map(|row| &table.rows[self.rows.start + row])
    }

    pub fn morsel(&self, table: &Table, needed: &[usize], ordinal: u64) -> Morsel {
        let columns = (0..table.types.len()).map(|at| {
            if !needed.contains(&at) {
                return MorselColumn::Unread;
            }
            let values = self.rows.clone().map(|row| &table.rows[row][at]);
            if let Some((encoded, footer)) = &self.encoded {
                let meta = footer.column(at);
                if let Some(first) = footer.layout().first_of_group(at) {
                    let is_first =
                        |other: &usize| footer.layout().first_of_group(*other) == Some(first);
                    let delivered = needed.iter().copied().filter(is_first).min();
                    if let Some(first) = delivered.filter(|&first| first < at) {
                        let meta = Arc::new(meta.clone());
                        return MorselColumn::Grouped { meta, first };
                    }
                }
                let body_start = footer.layout().footer_len();
                let range = meta.byte_range.start as usize - body_start
                    ..meta.byte_range.end as usize - body_start;
                return MorselColumn::Encoded {
                    meta: Arc::new(meta.clone()),
                    bytes: ChunkBuffer::from(&encoded.body[range]),
                };
            }
            let first = &table.rows[self.rows.start][at];
            if values.clone().all(|value| value == first) {
                return MorselColumn::Constant(table.types[at], first.clone());
            }
            let values = values.map(|value| value.as_ref().map(OwnedValue::as_value));
            let column = Column::from_values(table.types[at], values).expect("values of the type");
            MorselColumn::Decoded(column)
        });
        Morsel {
            row_count: self.rows.len(),
            columns: columns.collect(),
            hidden: self.hidden.clone(),
            rows: self.zones.clone(),
            filter_decided: false,
            ordinal,
        }
    }
}
