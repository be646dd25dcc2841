//! Random tables and expressions.

use crate::{json, zones};
use howdah_columnar::{ColumnType, OwnedNumeric, OwnedValue};
use howdah_vector::functions::{self, Function};
use howdah_vector::oracle::Datum;
use howdah_vector::plan::{Expr, Truth};

/// One column of each type, and a second one of those that arithmetic is done with.
pub const TYPES: [ColumnType; 14] = [
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
    ColumnType::Int32,
    ColumnType::Int64,
    ColumnType::Numeric,
    ColumnType::Bool,
];

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

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

/// Rows, and the types of their columns.
pub struct Table {
    pub types: Vec<ColumnType>,
    pub rows: Vec<Vec<Datum>>,
}

impl Table {
    pub fn new(types: &[ColumnType], random: &mut Random) -> Self {
        let row_count = random.pick(&[0, 1, 5, 64, 65, 200]);
        let columns: Vec<Vec<Datum>> = types
            .iter()
            .map(|&ty| {
                let shape = Shape::any(random);
                let one_null_in = random.pick(&[1, 2, 5, 1_000_000, 1_000_000]);
                (0..row_count)
                    .map(|_| {
                        let value = value(ty, shape, random);
                        (random.below(one_null_in) != 0 || one_null_in == 1_000_000)
                            .then_some(value)
                    })
                    .collect()
            })
            .collect();
        let row = |at: usize| columns.iter().map(|column| column[at].clone()).collect();
        Self {
            types: types.to_vec(),
            rows: (0..row_count).map(row).collect(),
        }
    }
}

/// How far values reach.
#[derive(Clone, Copy, Debug)]
enum Shape {
    /// Small values, of which many are equal.
    Small,
    Wide,
    Extreme,
}

impl Shape {
    fn any(random: &mut Random) -> Self {
        random.pick(&[Self::Small, Self::Small, Self::Wide, Self::Extreme])
    }
}

fn value(ty: ColumnType, shape: Shape, random: &mut Random) -> OwnedValue {
    let bits = match shape {
        Shape::Small => random.next() % 7,
        _ => random.next() >> random.below(64),
    };
    let signed = match random.below(2) {
        0 => bits as i64,
        _ => (bits as i64).wrapping_neg(),
    };
    let is_extreme = matches!(shape, Shape::Extreme) && random.below(2) == 0;
    match ty {
        ColumnType::Bool => OwnedValue::Bool(bits % 2 == 0),
        ColumnType::Int16 if is_extreme => {
            OwnedValue::Int16(random.pick(&[i16::MIN, i16::MAX, 0, -1, 1]))
        }
        ColumnType::Int32 if is_extreme => OwnedValue::Int32(random.pick(&[
            i32::MIN,
            i32::MIN + 1,
            i32::MAX,
            i32::MAX - 1,
            0,
            -1,
            1,
            i16::MAX.into(),
            // The first and the last date, and the first that is no timestamp.
            -2_451_545,
            2_145_031_948,
            109_203_528 - 2_451_545,
        ])),
        ColumnType::Int64 if is_extreme => OwnedValue::Int64(random.pick(&[
            i64::MIN,
            i64::MAX,
            // The last timestamp.
            9_223_371_331_199_999_999,
            0,
            -1,
            1,
            i32::MAX.into(),
            i64::from(i32::MAX) + 1,
            86_400_000_000 * 3,
            -86_400_000_000,
            -86_399_999_999,
        ])),
        ColumnType::Int16 => OwnedValue::Int16(signed as i16),
        ColumnType::Int32 => OwnedValue::Int32(signed as i32),
        ColumnType::Int64 => OwnedValue::Int64(signed),
        ColumnType::Float32 => OwnedValue::Float32(float(shape, is_extreme, signed, random) as f32),
        ColumnType::Float64 => OwnedValue::Float64(float(shape, is_extreme, signed, random)),
        ColumnType::Numeric => OwnedValue::Numeric(numeric(shape, is_extreme, signed, random)),
        ColumnType::Text => OwnedValue::Text(text(random)),
        ColumnType::Bytes => OwnedValue::Bytes(text(random).into_bytes()),
        ColumnType::Fixed { len } => {
            let mut bytes = vec![0; len.into()];
            let at = random.below(bytes.len());
            bytes[at] = bits as u8;
            OwnedValue::Bytes(bytes)
        }
    }
}

fn float(shape: Shape, is_extreme: bool, signed: i64, random: &mut Random) -> f64 {
    const EXTREMES: [f64; 16] = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        1e-45,
        3.4e38,
        1e-30,
        0.5,
        2.5,
        -2_147_483_648.5,
        32_767.5,
        9_223_372_036_854_775_808.0,
    ];
    match shape {
        _ if is_extreme => random.pick(&EXTREMES),
        Shape::Small => signed as f64 / 2.0,
        _ => match random.below(3) {
            0 => f64::from_bits(signed as u64),
            1 => f64::from(f32::from_bits(signed as u32)),
            _ => signed as f64 / 256.0,
        },
    }
}

fn numeric(shape: Shape, is_extreme: bool, signed: i64, random: &mut Random) -> OwnedNumeric {
    let small = |unscaled, scale| OwnedNumeric::Small { unscaled, scale };
    match shape {
        _ if is_extreme => match random.below(10) {
            0 => small(10_i128.pow(38) - 1, 0),
            1 => small(1 - 10_i128.pow(38), 38),
            2 => small(0, 60),
            3 => OwnedNumeric::Image(b"NaN".to_vec()),
            4 => small(1 << 64, 3),
            5 => small(i64::MAX.into(), 2),
            6 => small(i64::MIN.into(), 2),
            7 => small(1, 16_000),
            _ => small(signed.into(), 2),
        },
        // A column of one scale, as numeric(p, s) makes it.
        Shape::Small => small(signed.into(), 2),
        _ => small(signed.into(), random.below(5) as u16),
    }
}

pub fn text(random: &mut Random) -> String {
    let letters = ["a", "b", "ä", "a%", "_", "\\", "abcdefghijkl", "\0", "€"];
    (0..random.below(4))
        .map(|_| random.pick(&letters))
        .collect()
}

/// A constant, sometimes NULL.
pub fn constant(ty: ColumnType, random: &mut Random) -> Expr {
    let value = (random.below(20) != 0).then(|| value(ty, Shape::any(random), random));
    Expr::Constant(ty, value)
}

/// A pattern of LIKE that does not end with an escape.
pub fn pattern(random: &mut Random) -> Expr {
    let parts = ["a", "b", "ä", "%", "%", "_", "\\%", "\\\\", "abcdefghijkl"];
    let pattern = (0..random.below(5))
        .map(|_| random.pick(&parts))
        .collect::<String>();
    Expr::Constant(ColumnType::Text, Some(OwnedValue::Text(pattern)))
}

/// A unit of `date_trunc`, or what is none.
pub fn unit(random: &mut Random) -> Expr {
    let units = "us usec usecs usecond useconds Microseconds microsecondly ms msec msecs msecond \
                 mseconds milliseconds s sec secs second seconds m min mins minute minutes h hr \
                 hrs hour hours d day days w week weeks mon mons MONTH months qtr quarter \
                 quarters y Yr yrs year years dec decs decade decades c cent century centuries \
                 mil mils millennia millennium millenniums millenniu timezone";
    let units: Vec<&str> = units.split(' ').collect();
    let unit = random.pick(&units).to_owned();
    Expr::Constant(ColumnType::Text, Some(OwnedValue::Text(unit)))
}

/// An expression of a type over columns of these types.
pub fn tree(ty: ColumnType, types: &[ColumnType], depth: usize, random: &mut Random) -> Expr {
    let choice = random.below(10);
    if depth == 0 || choice == 0 {
        return leaf(ty, types, random);
    }
    if ty != ColumnType::Bool || choice < 5 {
        return call(ty, types, depth, random);
    }
    let part = |random: &mut Random| tree(ColumnType::Bool, types, depth - 1, random);
    let any = |random: &mut Random| {
        let ty = random.pick(types);
        tree(ty, types, depth - 1, random)
    };
    match random.below(8) {
        0 | 1 => Expr::And((0..1 + random.below(3)).map(|_| part(random)).collect()),
        2 | 3 => Expr::Or((0..1 + random.below(3)).map(|_| part(random)).collect()),
        4 => Expr::Not(Box::new(part(random))),
        5 if random.below(2) == 0 => Expr::IsNull(Box::new(any(random))),
        5 => Expr::IsNotNull(Box::new(any(random))),
        6 => {
            let truths = [
                Truth::True,
                Truth::NotTrue,
                Truth::False,
                Truth::NotFalse,
                Truth::Unknown,
                Truth::NotUnknown,
            ];
            Expr::Is(Box::new(part(random)), random.pick(&truths))
        }
        _ => any_all(types, depth, random),
    }
}

fn leaf(ty: ColumnType, types: &[ColumnType], random: &mut Random) -> Expr {
    let columns: Vec<usize> = (0..types.len()).filter(|&at| types[at] == ty).collect();
    match random.below(4) {
        0 => constant(ty, random),
        _ if columns.is_empty() => constant(ty, random),
        _ => Expr::Column(random.pick(&columns)),
    }
}

fn call(ty: ColumnType, types: &[ColumnType], depth: usize, random: &mut Random) -> Expr {
    // Images of jsonb values, and texts that are numbers, have tests of their own.
    let is_any = |f: &&Function| !json::takes(f.prosrc);
    let candidates: Vec<_> = functions::all()
        .filter(is_any)
        .filter(|f| f.result == ty)
        .collect();
    if candidates.is_empty() {
        return leaf(ty, types, random);
    }
    let function = random.pick(&candidates);
    let mut arguments: Vec<Expr> = function
        .arguments
        .iter()
        .map(|&ty| tree(ty, types, depth - 1, random))
        .collect();
    if function.prosrc.ends_with("like") {
        arguments[1] = pattern(random);
    }
    if function.prosrc.ends_with("_trunc") {
        arguments[0] = unit(random);
    }
    call_of(function, arguments, random)
}

/// A call of a function, in any zone if it needs one.
pub fn call_of(function: &Function, arguments: Vec<Expr>, random: &mut Random) -> Expr {
    let prosrc = function.prosrc.to_owned();
    match function.needs_zone() {
        true => Expr::Zoned {
            function: prosrc,
            zone: zones::zone(random),
            arguments,
        },
        false => Expr::Call {
            function: prosrc,
            arguments,
        },
    }
}

fn any_all(types: &[ColumnType], depth: usize, random: &mut Random) -> Expr {
    let candidates: Vec<_> = functions::all()
        .filter(|f| f.comparison().is_some() || f.prosrc.ends_with("like"))
        .collect();
    let function = random.pick(&candidates);
    let [left, element] = function.arguments else {
        return leaf(ColumnType::Bool, types, random);
    };
    let shape = Shape::any(random);
    let most = random.pick(&[12, 12, 60]);
    let values = (0..random.below(most))
        .map(|_| match function.prosrc.ends_with("like") {
            true => match pattern(random) {
                Expr::Constant(_, value) => value,
                _ => None,
            },
            false => (random.below(15) != 0).then(|| value(*element, shape, random)),
        })
        .collect();
    Expr::AnyAll {
        function: function.prosrc.to_owned(),
        left: Box::new(tree(*left, types, depth - 1, random)),
        element: *element,
        values,
        all: random.below(2) == 0,
    }
}
