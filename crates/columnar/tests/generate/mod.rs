//! Seeded columns of every type and many shapes, for tests.

// Every test binary uses a part of this.
#![allow(dead_code)]

pub mod agreement;
pub mod predicates;
pub mod recorder;
pub mod zones;

use howdah_columnar::{
    Chunk, ChunkBuffer, ColumnType, Expected, Footer, Numeric, OwnedNumeric, OwnedValue,
    RowGroupBuilder, Value,
};

/// One column of each type.
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

/// How the values of a column hang together.
#[derive(Clone, Copy, Debug)]
pub enum Shape {
    Constant,
    Runs,
    SmallDomain,
    Rising,
    Narrow,
    Anything,
    Extremes,
    /// Strings of one length made of few characters, from 2 to all of ASCII; else as `Anything`.
    Letters,
}

pub const SHAPES: [Shape; 7] = [
    Shape::Constant,
    Shape::Runs,
    Shape::SmallDomain,
    Shape::Rising,
    Shape::Narrow,
    Shape::Anything,
    Shape::Extremes,
];

/// Those of the first golden files, and what came after them.
pub const ALL_SHAPES: [Shape; 8] = {
    let [a, b, c, d, e, f, g] = SHAPES;
    [a, b, c, d, e, f, g, Shape::Letters]
};

/// How many rows are null.
#[derive(Clone, Copy, Debug)]
pub enum Nulls {
    Never,
    Rarely,
    Often,
    Mostly,
    Always,
}

impl Nulls {
    /// Whether the next row is null.
    fn next(self, random: &mut Random) -> bool {
        match self {
            Nulls::Never => false,
            Nulls::Rarely => random.below(200) == 0,
            Nulls::Often => random.below(3) == 0,
            Nulls::Mostly => random.below(50) != 0,
            Nulls::Always => true,
        }
    }
}

pub const NULLS: [Nulls; 5] = [
    Nulls::Never,
    Nulls::Rarely,
    Nulls::Often,
    Nulls::Mostly,
    Nulls::Always,
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

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What a reader may know of the rows around one, right or wrong.
pub fn expected_around(row: u32, random: &mut Random) -> Expected {
    let mut few = || random.below(80) as u32;
    let rows = match few() % 3 {
        0 => row..row.saturating_add(few()),
        1 => row.saturating_sub(few())..row + 1,
        _ => row.saturating_sub(few())..row.saturating_add(few()),
    };
    Expected {
        rows,
        wanted: few(),
    }
}

/// Rows of one column.
pub fn column(
    ty: ColumnType,
    shape: Shape,
    nulls: Nulls,
    row_count: usize,
    random: &mut Random,
) -> Vec<Option<OwnedValue>> {
    let domain: Vec<OwnedValue> = (0..1 + random.below(40))
        .map(|at| value(ty, Shape::Anything, at, random))
        .collect();
    let mut last = domain[0].clone();
    // Seeds of other shapes give what they always gave.
    let (alphabet, len) = match shape {
        Shape::Letters => (2 + random.below(127), 1 + random.below(60)),
        _ => (0, 0),
    };
    (0..row_count as u64)
        .map(|row| {
            let null = nulls.next(random);
            let value = match shape {
                Shape::Constant => domain[0].clone(),
                Shape::SmallDomain => domain[random.below(domain.len() as u64) as usize].clone(),
                Shape::Runs => {
                    if random.below(30) == 0 {
                        last = value(ty, Shape::Anything, row, random);
                    }
                    last.clone()
                }
                Shape::Letters
                    if matches!(
                        ty,
                        ColumnType::Text | ColumnType::Bytes | ColumnType::Fixed { .. }
                    ) =>
                {
                    letters(ty, alphabet, len, random)
                }
                other => value(ty, other, row, random),
            };
            (!null).then_some(value)
        })
        .collect()
}

/// A string of one length, or of that of the type.
fn letters(ty: ColumnType, alphabet: u64, len: u64, random: &mut Random) -> OwnedValue {
    let mut string = |len: u64| -> Vec<u8> {
        // Not the first ones of ASCII, but all around.
        let mut character = || (random.below(alphabet) * 37 % 128) as u8;
        (0..len).map(|_| character()).collect()
    };
    match ty {
        ColumnType::Text => {
            OwnedValue::Text(string(len).into_iter().map(char::from).collect::<String>())
        }
        ColumnType::Fixed { len } => OwnedValue::Bytes(string(len.into())),
        _ => OwnedValue::Bytes(string(len)),
    }
}

fn value(ty: ColumnType, shape: Shape, row: u64, random: &mut Random) -> OwnedValue {
    let bits = match shape {
        Shape::Rising => row * 3 + random.below(3),
        Shape::Narrow => 1_000 + random.below(500),
        _ => random.next(),
    };
    let extreme = matches!(shape, Shape::Extremes);
    let pick = random.below(12);
    match ty {
        ColumnType::Bool => OwnedValue::Bool(bits & 1 == 1),
        ColumnType::Int16 if extreme => {
            OwnedValue::Int16([i16::MIN, i16::MAX, 0, -1][pick as usize % 4])
        }
        ColumnType::Int32 if extreme => {
            OwnedValue::Int32([i32::MIN, i32::MAX, 0, -1][pick as usize % 4])
        }
        ColumnType::Int64 if extreme => {
            OwnedValue::Int64([i64::MIN, i64::MAX, 0, -1][pick as usize % 4])
        }
        ColumnType::Int16 => OwnedValue::Int16(bits as i16),
        ColumnType::Int32 => OwnedValue::Int32(bits as i32),
        ColumnType::Int64 => OwnedValue::Int64(bits as i64),
        ColumnType::Float32 => OwnedValue::Float32(float(shape, bits, pick) as f32),
        ColumnType::Float64 => OwnedValue::Float64(float(shape, bits, pick)),
        ColumnType::Numeric => OwnedValue::Numeric(numeric(shape, bits, pick, random)),
        ColumnType::Text => OwnedValue::Text(text(shape, bits, pick)),
        ColumnType::Bytes => OwnedValue::Bytes(bytes(shape, bits, pick, random)),
        ColumnType::Fixed { len } => {
            let mut fixed = bits.to_be_bytes().repeat(1 + usize::from(len) / 8);
            fixed.truncate(len.into());
            if extreme {
                fixed.fill(if pick.is_multiple_of(2) { 0 } else { 255 });
            }
            OwnedValue::Bytes(fixed)
        }
    }
}

fn float(shape: Shape, bits: u64, pick: u64) -> f64 {
    const SPECIAL: [f64; 8] = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        f64::MAX,
        f64::MIN_POSITIVE,
        -1.5,
    ];
    match shape {
        Shape::Rising => bits as f64 / 100.0,
        Shape::Narrow => (bits as f64 - 1_200.0) * 0.25,
        Shape::Extremes => match pick {
            8 => f64::from_bits(0xfff8_0000_0000_1234),
            9 => f64::from_bits(0x7ff0_0000_0000_0001),
            10 => 1e-310,
            at => SPECIAL[at as usize % 8],
        },
        _ => match pick {
            0..=5 => (bits as i32) as f64 / 1_000.0,
            _ => f64::from_bits(bits),
        },
    }
}

fn numeric(shape: Shape, bits: u64, pick: u64, random: &mut Random) -> OwnedNumeric {
    let small = |unscaled, scale| OwnedNumeric::Small { unscaled, scale };
    match shape {
        Shape::Rising => small(bits.into(), 2),
        Shape::Narrow => small(i128::from(bits) - 1_200, 1),
        Shape::Extremes => match pick {
            0 => small(i128::MAX, 0),
            1 => small(i128::MIN, 38),
            2 => small(0, u16::MAX),
            3 => OwnedNumeric::Image(b"NaN".to_vec()),
            4 => OwnedNumeric::Image(Vec::new()),
            5 => small(1 << 64, 3),
            6 => small(-1, 0),
            at => small(i128::from(bits as i64), at as u16),
        },
        _ => match pick {
            0..=8 => small((bits as i64 >> random.below(40)).into(), 2),
            9 => small(i128::from(bits as i64) << 40, 2),
            at => small(bits.into(), (at % 6) as u16),
        },
    }
}

fn text(shape: Shape, bits: u64, pick: u64) -> String {
    match shape {
        Shape::Rising => format!("key-{bits:09}"),
        Shape::Narrow => format!("{}", bits % 500),
        Shape::Extremes => match pick {
            0 => String::new(),
            1 => "\u{10ffff}".repeat(20),
            2 => "\0".to_owned(),
            3 => "é".repeat(100),
            4 => "a".repeat(500),
            5 => "a".repeat(31) + "\u{d7ff}\u{10ffff}b",
            6 => "a".repeat(12),
            7 => "a".repeat(13),
            _ => format!("{}ß", "a".repeat(31)),
        },
        _ => match pick {
            0 => String::new(),
            1..=4 => format!("https://example.org/{}/page?id={bits}", bits % 7),
            5..=8 => format!("Mötley Crüe № {}", bits % 1_000),
            _ => format!("{bits:x}").repeat((bits % 5) as usize),
        },
    }
}

fn bytes(shape: Shape, bits: u64, pick: u64, random: &mut Random) -> Vec<u8> {
    match shape {
        Shape::Rising => bits.to_be_bytes().to_vec(),
        Shape::Narrow => (bits as u16).to_le_bytes().to_vec(),
        Shape::Extremes => match pick {
            0 => Vec::new(),
            1 => vec![255; 50],
            2 => vec![0; 50],
            3 => [vec![255; 31], vec![7, 9]].concat(),
            _ => vec![pick as u8; bits as usize % 300],
        },
        _ => (0..random.below(40)).map(|_| random.next() as u8).collect(),
    }
}

/// A row group of these columns.
pub fn row_group(columns: &[(ColumnType, Vec<Option<OwnedValue>>)]) -> RowGroupBuilder {
    let types: Vec<ColumnType> = columns.iter().map(|(ty, _)| *ty).collect();
    let mut builder = RowGroupBuilder::new(&types);
    let row_count = columns.first().map_or(0, |(_, rows)| rows.len());
    for row in 0..row_count {
        for (at, (_, rows)) in columns.iter().enumerate() {
            builder
                .column_mut(at)
                .push(rows[row].as_ref().map(OwnedValue::as_value));
        }
        builder.finish_row();
    }
    builder
}

/// Opens a chunk of an encoded row group.
pub fn open(footer: &Footer, body: &[u8], column: usize) -> Chunk {
    let meta = footer.column(column);
    let range = chunk_range(footer, column);
    Chunk::open(meta, footer.row_count(), ChunkBuffer::from(&body[range])).expect("chunk opens")
}

/// Where a chunk lies in the body of its row group.
pub fn chunk_range(footer: &Footer, column: usize) -> std::ops::Range<usize> {
    let body_start = footer.layout().footer_len();
    let range = &footer.column(column).byte_range;
    range.start as usize - body_start..range.end as usize - body_start
}

/// Whether two values are the same to the last bit.
pub fn same(a: Option<Value<'_>>, b: Option<Value<'_>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(Value::Float32(a)), Some(Value::Float32(b))) => a.to_bits() == b.to_bits(),
        (Some(Value::Float64(a)), Some(Value::Float64(b))) => a.to_bits() == b.to_bits(),
        (Some(Value::Bool(a)), Some(Value::Bool(b))) => a == b,
        (Some(Value::Int16(a)), Some(Value::Int16(b))) => a == b,
        (Some(Value::Int32(a)), Some(Value::Int32(b))) => a == b,
        (Some(Value::Int64(a)), Some(Value::Int64(b))) => a == b,
        (Some(Value::Text(a)), Some(Value::Text(b))) => a == b,
        (Some(Value::Bytes(a)), Some(Value::Bytes(b))) => a == b,
        (Some(Value::Numeric(a)), Some(Value::Numeric(b))) => a == b,
        _ => false,
    }
}

/// Whether a value is a numeric image.
pub fn is_image(value: &OwnedValue) -> bool {
    matches!(value.as_value(), Value::Numeric(Numeric::Image(_)))
}
