//! Generated expressions and conditions on the columns of the tables.

use super::columns::{COLUMNS, Kind, constant, of_kind};
use crate::differential::Dice;

/// A numeric expression.
pub(super) fn arithmetic(dice: &mut Dice) -> String {
    let kind = *dice.pick(&[Kind::Integer, Kind::Integer, Kind::Float, Kind::Numeric]);
    let (a, b) = (of_kind(dice, kind).name, of_kind(dice, kind).name);
    match (dice.below(7), kind) {
        (0, _) => format!("{a} + {b}"),
        (1, _) => format!("{a} - {}", dice.below(50)),
        (2, Kind::Integer) => format!("{a} * {b}"),
        (3, Kind::Integer) => format!("{a} / {}", dice.below(4)),
        (4, Kind::Integer) => format!("{a} % {}", dice.below(4) + 1),
        (5, _) => format!("-{a}"),
        _ => a.to_owned(),
    }
}

/// Expressions that the engine does not know and that raise no error, of a kind.
pub(super) fn unknown(dice: &mut Dice, kind: Kind) -> String {
    let expressions: &[&str] = match kind {
        Kind::Text => &[
            "upper(w)",
            "md5(w)",
            "substr(w, 2, 3)",
            "never_null(w)",
            "coalesce(w, u::text, 'none')",
            "CASE WHEN b THEN w WHEN i4 > 3 THEN 'b' END",
            "jsonb_build_object('a', i2, 'b', w)->>'b'",
            "to_char(d, 'YYYY-Day')",
            "(string_to_array(w, ' '))[1]",
        ],
        Kind::Bool => &[
            "w ~ '[1-3]$'",
            "w COLLATE \"en-x-icu\" < 'W5'",
            "b IS DISTINCT FROM (i2 > 3)",
            "jsonb_build_object('a', i2) @> '{\"a\": 3}'",
            "(i2, i4) < (3, 3)",
            "CASE WHEN i2 <> 0 THEN i4::int8 / i2 > 3 END",
        ],
        _ => &[
            "doubled(i8)",
            "doubled(i4)",
            "abs(i8 / 2)",
            "greatest(i2, i4, 3)",
            "coalesce(i4, 0)",
            "length(w || 'x')",
            "CASE WHEN i2 <> 0 THEN i4::int8 / i2 END",
            "ascii(w)",
            "extract(year FROM d)",
            "nullif(i2, 3)",
            "round(m, 1)",
        ],
    };
    dice.pick(expressions).to_string()
}

/// Dates and timestamps, and what clocks of the session's time zone show.
pub(super) fn time(dice: &mut Dice) -> String {
    let unit = dice.pick(&[
        "day", "hour", "month", "week", "qtr", "year", "secs", "Decade",
    ]);
    match dice.below(9) {
        0 | 1 => format!("date_trunc('{unit}', ts)"),
        2 | 3 => format!("date_trunc('{unit}', tz)"),
        4 => "ts::date".to_owned(),
        5 => "tz::date".to_owned(),
        6 => "tz::timestamp".to_owned(),
        7 => "ts::timestamptz".to_owned(),
        _ => format!("d::{}", dice.pick(&["timestamp", "timestamptz"])),
    }
}

/// A condition on what time returns.
fn time_condition(dice: &mut Dice) -> String {
    let constant = dice.pick(&[
        "2000-01-01",
        "2000-03-26",
        "2000-10-29 01:30",
        "infinity",
        "1999-12-31 23:00",
    ]);
    let operator = dice.pick(&["=", "<>", "<", "<=", ">", ">="]);
    format!("{} {operator} '{constant}'", time(dice))
}

/// Parts of documents, of a kind.
pub(super) fn part(dice: &mut Dice, kind: Kind) -> String {
    let expressions: &[&str] = match kind {
        Kind::Text => &[
            "j->>'b'",
            "j->>'a'",
            "j#>>'{c,0}'",
            "j->>0",
            "j->'b'->>'c'",
            "j->>''",
        ],
        Kind::Bool => &[
            "j @> '{\"a\": 3}'",
            "j ? 'b'",
            "'{\"c\": []}' <@ j",
            "j ?| '{a,z7}'",
        ],
        _ => &[
            "(j->>'a')::numeric",
            "jsonb_array_length(j->'c')",
            "(j#>>'{c,0}')::int",
        ],
    };
    format!("({})", dice.pick(expressions))
}

/// An expression that the engine does not know, or a part of a document, as a condition.
fn unknown_condition(dice: &mut Dice) -> String {
    let kind = *dice.pick(&[Kind::Text, Kind::Bool, Kind::Integer]);
    let expression = match dice.below(3) {
        0 => part(dice, kind),
        _ => unknown(dice, kind),
    };
    match kind {
        Kind::Bool => expression,
        Kind::Text => format!(
            "{expression} {} '{}'",
            dice.pick(&["=", "<>", "<", ">"]),
            dice.pick(&["W3", "none", "x", "b", "w3", "0"])
        ),
        _ => format!(
            "{expression} {} {}",
            dice.pick(&["=", "<>", "<", ">"]),
            dice.below(60)
        ),
    }
}

pub(super) fn condition(dice: &mut Dice, depth: usize) -> String {
    match dice.below(18) {
        0 | 1 => return unknown_condition(dice),
        2 => return time_condition(dice),
        3 => return with_stable_value(dice),
        _ => {}
    }
    let column = dice.pick(COLUMNS);
    let name = column.name;
    match dice.below(if depth == 0 { 8 } else { 11 }) {
        0 => format!("{name} IS {}NULL", dice.pick(&["", "NOT "])),
        1 if column.kind == Kind::Bool => {
            format!(
                "{name} IS {}",
                dice.pick(&[
                    "TRUE",
                    "NOT TRUE",
                    "FALSE",
                    "NOT FALSE",
                    "UNKNOWN",
                    "NOT UNKNOWN"
                ])
            )
        }
        1 => {
            let list: Vec<String> = (0..=dice.below(4))
                .map(|_| constant(dice, column))
                .collect();
            let null = dice.pick(&["", "", "", ", NULL"]);
            format!(
                "{name} {}IN ({}{null})",
                dice.pick(&["", "NOT "]),
                list.join(", ")
            )
        }
        2 if column.kind == Kind::Text => {
            let pattern = dice.pick(&["w1%", "%x", "%a%b%", "_", "same", "%"]);
            format!("{name} {}LIKE '{pattern}'", dice.pick(&["", "NOT "]))
        }
        3 => {
            let kind = *dice.pick(&[Kind::Integer, Kind::Float, Kind::Text]);
            let (a, b) = (of_kind(dice, kind).name, of_kind(dice, kind).name);
            format!("{a} {} {b}", dice.pick(&["=", "<>", "<", "<=", ">", ">="]))
        }
        4 => format!(
            "{} {} {}",
            arithmetic(dice),
            dice.pick(&["<", ">", "="]),
            dice.below(90)
        ),
        5 if column.kind != Kind::Bool && column.kind != Kind::Other => {
            format!(
                "{name} BETWEEN {} AND {}",
                constant(dice, column),
                constant(dice, column)
            )
        }
        8 => format!(
            "({} OR {})",
            condition(dice, depth - 1),
            condition(dice, depth - 1)
        ),
        9 => format!(
            "NOT ({} AND {})",
            condition(dice, depth - 1),
            condition(dice, depth - 1)
        ),
        10 => format!(
            "({} AND {})",
            condition(dice, depth - 1),
            condition(dice, depth - 1)
        ),
        _ if column.kind == Kind::Other => format!("{name} = {}", constant(dice, column)),
        _ => format!(
            "{name} {} {}",
            dice.pick(&["=", "<>", "<", "<=", ">", ">="]),
            constant(dice, column)
        ),
    }
}

pub(super) fn filter(dice: &mut Dice) -> Vec<String> {
    let mut all: Vec<String> = (0..dice.below(4)).map(|_| condition(dice, 2)).collect();
    match dice.below(12) {
        0 => all.push(format!("id < {}", dice.below(16_000))),
        1 => all.push(format!("id % 4 = {}", dice.below(5))),
        2 => all.push(format!("id = {}", dice.below(300))),
        3 => {
            // Evaluated for all rows, and again where it may not be evaluated.
            let test = with_stable_value(dice);
            all.push(format!("({} OR {test})", condition(dice, 1)));
            all.push(test);
        }
        _ => {}
    }
    all
}

/// A condition on a value that has no columns, and is not known before the query runs: as it may
/// fail, it is evaluated before any row is read only where it always is. They are few, so that
/// some are met twice.
fn with_stable_value(dice: &mut Dice) -> String {
    let conditions = [
        "d > to_date('2000-06-01', 'YYYY-MM-DD')",
        "i4 > length(to_char(5, '99'))",
        "w < to_char(3, '9')",
    ];
    (*dice.pick(&conditions)).to_owned()
}

/// A condition on an integer value. A part that the value makes fail is not evaluated for it.
pub(super) fn with_value(dice: &mut Dice, value: &str) -> String {
    let column = of_kind(dice, Kind::Integer).name;
    match dice.below(5) {
        0 => format!("{column} = {value}"),
        1 => format!("({value} = 0 OR {column} > 100 / {value})"),
        2 => format!("({value} IS NULL OR {column} <= {value})"),
        3 => format!("({value} <> 0 AND {column} < 500 / {value}) IS NOT TRUE"),
        _ => format!("{column} <> {value}"),
    }
}

/// A condition on the parameters.
pub(super) fn with_parameters(dice: &mut Dice) -> String {
    match dice.below(6) {
        0 => "(w < $2 OR m > $3)".to_owned(),
        1 => "($2 IS NULL OR $2 = '' OR i4 = ascii($2)::int)".to_owned(),
        2 => "(n = $3 OR $2 = '' OR i2 > length($2))".to_owned(),
        3 => "($2 !~ '^[0-9]+$' OR i8 > $2::int8)".to_owned(),
        _ => with_value(dice, "$1"),
    }
}
