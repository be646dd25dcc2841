//! The columns of the tables that generated queries read, and constants of their types.

use crate::differential::Dice;

/// A column: its name, its type, expressions for a value by `g`, the row's number, and rare values.
/// One without expressions is added later, with the first rare value as its default.
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) ty: &'static str,
    pub(super) values: &'static [&'static str],
    pub(super) rare: &'static [&'static str],
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Integer,
    Float,
    Numeric,
    Time,
    Bool,
    Text,
    /// A type that is only compared for equality.
    Other,
}

const INTEGERS: &[&str] = &[
    "g % 7",
    "7",
    "g / 50",
    "(random() * 200)::int - 100",
    "g",
    "(random() * 30000)::int",
];

const SPECIAL_FLOATS: &str = "(ARRAY['NaN', '-0', '0', '-Infinity', '1.5']::float8[])[1 + g % 5]";

pub(super) const COLUMNS: &[Column] = &[
    Column {
        name: "i2",
        ty: "int2",
        values: INTEGERS,
        rare: &["32767", "-32768"],
        kind: Kind::Integer,
    },
    Column {
        name: "i4",
        ty: "int4",
        values: INTEGERS,
        rare: &["2147483647", "-2147483648"],
        kind: Kind::Integer,
    },
    Column {
        name: "i8",
        ty: "int8",
        values: &[
            "g % 7",
            "g * 10000000000",
            "(random() * 100)::int8",
            "-5",
            "9223372036854775807 - g % 5",
        ],
        rare: &["9223372036854775807", "-9223372036854775808"],
        kind: Kind::Integer,
    },
    Column {
        name: "f4",
        ty: "float4",
        values: &[
            "(g % 9) * 0.25",
            "0.5",
            "(random() * 400)::int * 0.25 - 50",
            SPECIAL_FLOATS,
        ],
        rare: &["'NaN'", "'Infinity'", "'-Infinity'", "'-0'"],
        kind: Kind::Float,
    },
    Column {
        name: "f8",
        ty: "float8",
        values: &[
            "(g % 9) * 0.25",
            "g * 0.5",
            "(random() * 4000)::int * 0.25 - 500",
            SPECIAL_FLOATS,
        ],
        rare: &["'NaN'", "'Infinity'", "'-Infinity'", "'-0'"],
        kind: Kind::Float,
    },
    Column {
        name: "n",
        ty: "numeric(10,2)",
        values: &[
            "(g % 99) * 0.01",
            "(random() * 100000)::int * 0.01 - 300",
            "1.50",
        ],
        rare: &["99999999.99", "-99999999.99", "'NaN'"],
        kind: Kind::Numeric,
    },
    Column {
        name: "m",
        ty: "numeric",
        values: &["(g % 99) * 0.001", "g::numeric / 7", "1.50"],
        rare: &["1e30", "'NaN'", "'Infinity'", "1.500"],
        kind: Kind::Numeric,
    },
    Column {
        name: "big",
        ty: "numeric",
        values: &[
            "(g % 50) * 1000000000000000000000000000000.5",
            "10::numeric ^ 37 + g % 9",
            "(g % 7) * -0.00000000000000000000000000001",
        ],
        rare: &[
            "1e38",
            "-1e40",
            "0.1e-40",
            "99999999999999999999999999999999999999",
        ],
        kind: Kind::Numeric,
    },
    Column {
        name: "d",
        ty: "date",
        values: &["date '2000-01-01' + g % 500", "date '2024-02-29'"],
        rare: &["'infinity'", "'-infinity'", "'4713-01-01 BC'"],
        kind: Kind::Time,
    },
    Column {
        name: "ts",
        ty: "timestamp",
        values: &[
            "timestamp '2000-01-01' + g * interval '1 minute'",
            "timestamp '2000-01-01' + g % 5 * interval '1 day'",
        ],
        rare: &[
            "'infinity'",
            "'-infinity'",
            "'4713-01-01 BC'",
            "'294276-12-31 23:59:59.999999'",
        ],
        kind: Kind::Time,
    },
    Column {
        name: "tz",
        ty: "timestamptz",
        values: &["timestamptz '2000-01-01' + g / 10 * interval '1 hour'"],
        rare: &["'infinity'", "'-infinity'"],
        kind: Kind::Time,
    },
    Column {
        name: "b",
        ty: "bool",
        values: &["g % 3 = 0", "random() < 0.5", "true"],
        rare: &[],
        kind: Kind::Bool,
    },
    Column {
        name: "w",
        ty: "text COLLATE \"C\"",
        values: &[
            "'w' || g % 20",
            "'same'",
            "md5(g::text)",
            "repeat('x', g % 30)",
        ],
        rare: &["''", "'ä%_'"],
        kind: Kind::Text,
    },
    // Values whose common beginnings are longer than what bounds of zones keep.
    Column {
        name: "long",
        ty: "text COLLATE \"C\"",
        values: &[
            "repeat('ä', 16) || g % 40",
            "'x' || repeat('€', g % 15) || chr(8000 + g % 300)",
            "repeat('the same in all rows ', 3) || g / 100",
            "repeat('z', 40)",
        ],
        rare: &[
            "''",
            "'äääääääääääääääää'",
            "'\u{10ffff}\u{10ffff}\u{10ffff}\u{10ffff}\u{10ffff}\u{10ffff}\u{10ffff}\u{10ffff}\u{10ffff}'",
        ],
        kind: Kind::Text,
    },
    Column {
        name: "j",
        ty: "jsonb",
        values: &[
            "jsonb_build_object('a', g % 7, 'b', 'w' || g % 20, 'c', jsonb_build_array(g % 3, NULL))",
            "jsonb_build_object('b', md5(g::text), 'a', g * 0.50, 'z' || g % 90, g)",
            "to_jsonb(g % 9)",
            "jsonb_build_object('c', jsonb_build_array(), 'a', (g % 5)::text, 'b', NULL)",
        ],
        rare: &[
            "'null'",
            r#"'{"a": 1e40, "b": "\ud83d\ude00 \t"}'"#,
            r#"'{"a": null, "b": {"c": [1, "x"]}}'"#,
            r#"'[{"a": 1}, "b"]'"#,
            r#"'{"": "", "a": -0.000}'"#,
        ],
        kind: Kind::Other,
    },
    Column {
        name: "u",
        ty: "uuid",
        values: &["md5((g % 12)::text)::uuid", "md5(g::text)::uuid"],
        rare: &[],
        kind: Kind::Other,
    },
    Column {
        name: "tm",
        ty: "time",
        values: &["time '00:00' + g % 100 * interval '7 minutes'"],
        rare: &["'24:00'"],
        kind: Kind::Other,
    },
    Column {
        name: "c",
        ty: "char(4)",
        values: &["'c' || g % 12", "''"],
        rare: &["'c  '"],
        kind: Kind::Other,
    },
    Column {
        name: "v",
        ty: "varchar(6)",
        values: &["'v' || g % 12", "left(md5(g::text), 6)"],
        rare: &["''"],
        kind: Kind::Other,
    },
    Column {
        name: "x",
        ty: "text COLLATE \"en-x-icu\"",
        values: &["(ARRAY['a', 'B', 'A', 'b', 'ä'])[1 + g % 5]"],
        rare: &["''"],
        kind: Kind::Other,
    },
    Column {
        name: "y",
        ty: "text COLLATE loose",
        values: &["(ARRAY['a', 'b', 'c'])[1 + g % 3]"],
        rare: &["'z'"],
        kind: Kind::Other,
    },
    Column {
        name: "e",
        ty: "bytea",
        values: &["decode(md5((g % 9)::text), 'hex')", "'\\x00'"],
        rare: &["''"],
        kind: Kind::Other,
    },
    Column {
        name: "o",
        ty: "oid",
        values: &["g % 9"],
        rare: &["4294967295"],
        kind: Kind::Other,
    },
    Column {
        name: "q",
        ty: "\"char\"",
        values: &["chr(65 + g % 5)"],
        rare: &["''"],
        kind: Kind::Other,
    },
    Column {
        name: "iv",
        ty: "interval",
        values: &["g % 9 * interval '1 hour'"],
        rare: &["'-1 month'"],
        kind: Kind::Other,
    },
    Column {
        name: "en",
        ty: "mood",
        values: &["(ARRAY['sad', 'ok', 'happy'])[1 + g % 3]"],
        rare: &[],
        kind: Kind::Other,
    },
    Column {
        name: "dm",
        ty: "small",
        values: &["g % 9"],
        rare: &["999"],
        kind: Kind::Integer,
    },
    Column {
        name: "li",
        ty: "int4",
        values: &[],
        rare: &["11", "3"],
        kind: Kind::Integer,
    },
    Column {
        name: "lw",
        ty: "text COLLATE \"C\"",
        values: &[],
        rare: &["'late'", "'w'"],
        kind: Kind::Text,
    },
];

/// The columns that tables have from the beginning.
pub(super) fn first_columns() -> impl Iterator<Item = &'static Column> {
    COLUMNS.iter().filter(|column| !column.values.is_empty())
}

/// The type of a column without its collation.
pub(super) fn base_type(column: &Column) -> &'static str {
    column.ty.split(' ').next().unwrap_or_default()
}

pub(super) fn of_kind<'a>(dice: &mut Dice, kind: Kind) -> &'a Column {
    let all: Vec<&Column> = COLUMNS
        .iter()
        .filter(|column| column.kind == kind)
        .collect();
    dice.pick::<&Column>(&all)
}

pub(super) fn constant(dice: &mut Dice, column: &Column) -> String {
    let ty = column.ty.split([' ', '(']).next().unwrap_or_default();
    if !column.rare.is_empty() && dice.below(8) == 0 {
        let rare = dice.pick(column.rare).trim_matches('\'').to_owned();
        return format!("'{rare}'::{ty}");
    }
    match column.kind {
        Kind::Integer => format!("{}", dice.below(120) as i64 - 20),
        Kind::Float => format!("{}", (dice.below(100) as f64 - 20.0) * 0.25),
        Kind::Numeric => format!("{:.2}", dice.below(10_000) as f64 / 100.0 - 10.0),
        Kind::Time => format!("'2000-{:02}-15'::{ty}", dice.below(12) + 1),
        Kind::Bool => dice.pick(&["true", "false"]).to_string(),
        Kind::Text if column.name == "long" => dice
            .pick(&[
                "repeat('ä', 16) || 7",
                "repeat('ä', 15) || 'z'",
                "'x' || repeat('€', 10)",
                "'x' || repeat('€', 10) || chr(8100)",
                "repeat('the same in all rows ', 3)",
                "repeat('the same in all rows ', 3) || 100",
                "repeat('z', 40)",
                "repeat('z', 41)",
            ])
            .to_string(),
        Kind::Text => format!("'{}'", dice.pick(&["w3", "w11", "same", "x", "", "a"])),
        Kind::Other => {
            let number = dice.below(14);
            match column.name {
                "u" => format!("md5('{number}')::uuid"),
                "tm" => format!("'{number:02}:03'::time"),
                "iv" => format!("interval '{number} hours'"),
                "e" => format!("decode(md5('{number}'), 'hex')"),
                "en" => format!("'{}'::mood", dice.pick(&["sad", "ok", "happy"])),
                "o" => format!("{number}::oid"),
                "j" => format!("'{number}'::jsonb"),
                "c" => format!("'c{number}{}'", dice.pick(&["", " "])),
                "v" => format!("'v{number}'::varchar"),
                _ => format!("'{}'", dice.pick(&["a", "b", "A", "B", "z"])),
            }
        }
    }
}
