//! Functions of jsonb values, and casts of texts, agree with the oracle.

use howdah_columnar::{ColumnType, OwnedValue};
use howdah_vector::functions;
use howdah_vector::oracle::json::{Json, text_array};
use howdah_vector::plan::Expr;
use proptest::prelude::*;

use crate::generate::{self, Random};
use crate::{check_function, check_values, evaluated};

/// Whether a function takes values that are generated here.
pub fn takes(prosrc: &str) -> bool {
    let is_input = prosrc.ends_with("in") && !prosrc.starts_with("jsonb");
    prosrc.starts_with("jsonb_") || is_input
}

const KEYS: [&str; 9] = [
    "",
    "a",
    "b",
    "ab",
    "ä",
    "key",
    "0",
    "-1",
    "a longer key than others",
];

fn key(random: &mut Random) -> String {
    match random.below(8) {
        0 => format!("k{}", random.below(80)),
        _ => random.pick(&KEYS).to_owned(),
    }
}

fn json(depth: usize, random: &mut Random) -> Json {
    match random.below(if depth == 0 { 6 } else { 10 }) {
        0 => Json::Null,
        1 => Json::Bool(random.below(2) == 0),
        2 | 3 => number(random),
        4 | 5 => Json::String(match random.below(4) {
            0 => random
                .pick(&[
                    "\"\\\n\t\u{1}\u{1f}\r\u{8}\u{c}/\u{7f}",
                    "🦀 and more of it",
                ])
                .to_owned(),
            1 => generate::text(random),
            _ => key(random),
        }),
        6 | 7 => {
            let count = random.pick(&[0, 1, 2, 3, 40, 70]);
            let depth = if count > 9 { 0 } else { depth - 1 };
            Json::Array((0..count).map(|_| json(depth, random)).collect())
        }
        _ => {
            let count = random.pick(&[0, 1, 3, 5, 40]);
            let depth = if count > 9 { 0 } else { depth - 1 };
            let mut pairs: Vec<(String, Json)> = Vec::new();
            for _ in 0..count {
                let (key, value) = (key(random), json(depth, random));
                if pairs.iter().all(|(known, _)| *known != key) {
                    pairs.push((key, value));
                }
            }
            Json::Object(pairs)
        }
    }
}

fn number(random: &mut Random) -> Json {
    let bits = random.next() >> random.below(64);
    let value = match random.below(6) {
        0 => i128::from(bits) * i128::from(random.next() >> 3),
        1 => i128::from(bits) * 10_000,
        _ => i128::from(bits % 100_000),
    };
    let signed = if random.below(3) == 0 { -value } else { value };
    Json::Number(signed, random.pick(&[0, 0, 0, 1, 2, 4, 5, 9, 20]))
}

/// A text that is mostly a number.
fn numeral(random: &mut Random) -> String {
    let texts = [
        "0",
        "-0",
        "+7",
        " 12 ",
        "007",
        "1.5",
        "-.5",
        "5.",
        ".",
        "",
        "-",
        "1e5",
        "1E-3",
        "1e400",
        "1e-400",
        "32768",
        "-32768",
        "2147483648",
        "-2147483648",
        "9223372036854775807",
        "-9223372036854775808",
        "9223372036854775808",
        "0x1F",
        "1_000",
        "NaN",
        "inf",
        "t",
        "true",
        "f",
        "false",
        " true\n",
        "yes",
        "on",
        "1e-46",
        "3.4028236e38",
        "0.1",
        "123456789.125",
        "99999999999999999999999999999999999999",
        "999999999999999999999999999999999999999",
    ];
    match random.below(3) {
        0 => random.pick(&texts).to_owned(),
        _ => ((random.next() >> random.below(64)) as i64 / 2).to_string(),
    }
}

fn value(prosrc: &str, argument: usize, ty: ColumnType, random: &mut Random) -> OwnedValue {
    let list = |random: &mut Random| -> Vec<Option<String>> {
        let one_null_in = random.pick(&[4, 40, 40]);
        (0..random.below(4))
            .map(|_| (random.below(one_null_in) != 0).then(|| key(random)))
            .collect()
    };
    match (argument, ty) {
        (0, ColumnType::Bytes) => OwnedValue::Bytes(json(3, random).image()),
        (_, ColumnType::Bytes) if prosrc.starts_with("jsonb_contain") => {
            OwnedValue::Bytes(json(2, random).image())
        }
        (_, ColumnType::Bytes) => OwnedValue::Bytes(text_array(&list(random))),
        (0, ColumnType::Text) => OwnedValue::Text(numeral(random)),
        (_, ColumnType::Text) => OwnedValue::Text(key(random)),
        _ => OwnedValue::Int32(random.pick(&[0, 1, -1, 2, -3, 39, -40, i32::MIN, i32::MAX])),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_function_of_jsonb_agrees_with_the_oracle(seed in any::<u64>()) {
        let mut random = Random(seed);
        for function in functions::all().filter(|function| takes(function.prosrc)) {
            let types = function.arguments;
            let row_count = random.pick(&[0, 1, 5, 90]);
            let mut row = || -> Vec<Option<OwnedValue>> {
                let value = |(at, &ty): (usize, &ColumnType)| {
                    (random.below(12) != 0).then(|| value(function.prosrc, at, ty, &mut random))
                };
                types.iter().enumerate().map(value).collect()
            };
            let rows: Vec<_> = (0..row_count).map(|_| row()).collect();
            let call = |arguments: Vec<Expr>| Expr::Call {
                function: function.prosrc.to_owned(),
                arguments,
            };
            let columns: Vec<Expr> = (0..types.len()).map(Expr::Column).collect();
            check_function(&call(columns.clone()), types, &rows);
            for at in 0..types.len() {
                let mut arguments = columns.clone();
                let constant = value(function.prosrc, at, types[at], &mut random);
                arguments[at] = Expr::Constant(types[at], Some(constant));
                check_function(&call(arguments), types, &rows);
            }
        }
    }

    #[test]
    fn damaged_images_are_left_to_postgresql(seed in any::<u64>()) {
        let mut random = Random(seed);
        for function in functions::all().filter(|function| function.prosrc.starts_with("jsonb_")) {
            for _ in 0..20 {
                let mut row: Vec<Option<OwnedValue>> = (function.arguments.iter().enumerate())
                    .map(|(at, &ty)| Some(value(function.prosrc, at, ty, &mut random)))
                    .collect();
                let damaged = random.below(row.len());
                if let Some(OwnedValue::Bytes(image)) = &mut row[damaged] {
                    for _ in 0..1 + random.below(3) {
                        let at = random.below(image.len());
                        image[at] = random.next() as u8;
                    }
                    image.truncate(image.len() - random.below(2) * random.below(image.len()));
                }
                // No panic, and no error but this one: the value may still be one, or be no number.
                let call = Expr::Call {
                    function: function.prosrc.to_owned(),
                    arguments: (0..row.len()).map(Expr::Column).collect(),
                };
                if let Err(error) = evaluated(&call, function.arguments, &[row]) {
                    let is_expected = crate::is_unsupported(&error)
                        || matches!(error, howdah_vector::VectorError::OutOfRange { .. });
                    prop_assert!(is_expected, "{error}");
                }
            }
        }
    }
}

#[test]
fn parts_of_parts_are_found() {
    let pair = |key: &str, value: Json| (key.to_owned(), value);
    let document = Json::Object(vec![
        pair(
            "status",
            Json::String("paid, and more than twelve bytes".to_owned()),
        ),
        pair(
            "lines",
            Json::Array(vec![Json::Object(vec![pair(
                "price",
                Json::Number(1250, 2),
            )])]),
        ),
    ]);
    let rows = vec![vec![Some(OwnedValue::Bytes(document.image()))]; 3];
    let call = |function: &str, argument: Expr, constant: OwnedValue, ty: ColumnType| Expr::Call {
        function: function.to_owned(),
        arguments: vec![argument, Expr::Constant(ty, Some(constant))],
    };
    let key = |key: &str| OwnedValue::Text(key.to_owned());
    let lines = call(
        "jsonb_object_field",
        Expr::Column(0),
        key("lines"),
        ColumnType::Text,
    );
    let line = call(
        "jsonb_array_element",
        lines.clone(),
        OwnedValue::Int32(-1),
        ColumnType::Int32,
    );
    let price = call(
        "jsonb_object_field_text",
        line,
        key("price"),
        ColumnType::Text,
    );
    let status = call(
        "jsonb_object_field_text",
        Expr::Column(0),
        key("status"),
        ColumnType::Text,
    );
    let shown = call(
        "jsonb_array_element_text",
        lines,
        OwnedValue::Int32(0),
        ColumnType::Int32,
    );
    for (expr, expected) in [
        (price, "12.50"),
        (status, "paid, and more than twelve bytes"),
        (shown, "{\"price\": 12.50}"),
    ] {
        let found = evaluated(&expr, &[ColumnType::Bytes], &rows).expect("is found");
        check_values(
            &expr,
            &vec![Some(OwnedValue::Text(expected.to_owned())); 3],
            &found,
        );
    }
}
