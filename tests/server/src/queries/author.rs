//! The author of queries: groups, aggregates, distinct rows, first rows and first groups.

use super::changes::changes;
use super::columns::{COLUMNS, Kind, of_kind};
use super::expressions::{
    arithmetic, condition, filter, part, time, unknown, with_parameters, with_value,
};
use super::query::{Query, Way};
use crate::differential::Dice;

/// A query of the tables that [`super::tables`] makes.
#[must_use]
pub fn author(dice: &mut Dice) -> Query {
    let aggregates: Vec<String> = (0..=dice.below(3)).map(|_| aggregate(dice)).collect();
    let keys: Vec<String> = (0..=dice.below(3)).map(|_| key(dice)).collect();
    let key_count = keys.len();
    let (aggregates, keys) = (aggregates.join(", "), keys.join(", "));
    let (returned, rest) = match dice.below(12) {
        0..=2 => (aggregates, String::new()),
        3..=6 => {
            let having = *dice.pick(&["", "", "", " HAVING count(*) > 1"]);
            (
                format!("{keys}, {aggregates}"),
                format!(" GROUP BY {keys}{having}"),
            )
        }
        7 => (format!("DISTINCT {keys}"), String::new()),
        8 => (
            // The first groups: all keys are in the order, so that no two groups tie.
            format!("{keys}, {aggregates}"),
            first_groups(dice, &keys, key_count),
        ),
        _ => {
            let order: Vec<String> = (0..=dice.below(2))
                .map(|_| {
                    let by = match dice.below(6) {
                        0 => unknown(dice, Kind::Integer),
                        1 => format!("({}) COLLATE \"C\"", unknown(dice, Kind::Text)),
                        _ => dice.pick(COLUMNS).name.to_owned(),
                    };
                    format!("{by}{}", direction(dice))
                })
                .collect();
            let limit = dice.pick(&[0, 1, 5, 50, 3000]);
            (
                format!("id, {}", dice.pick(COLUMNS).name),
                format!(" ORDER BY {}, id LIMIT {limit}", order.join(", ")),
            )
        }
    };
    let way = match dice.below(16) {
        0 | 1 => Way::Prepared,
        2 => Way::Rescanned,
        3 => Way::Twice,
        4 => Way::Materialized,
        5 => Way::Counted,
        6 => Way::Exists,
        7 => Way::Fetched,
        8 => Way::Changed,
        9 => Way::Looped,
        _ => Way::Plain,
    };
    let changes = match way {
        Way::Changed => changes(dice),
        _ => String::new(),
    };
    let mut conjuncts = filter(dice);
    match way {
        Way::Prepared => conjuncts.push(with_parameters(dice)),
        Way::Rescanned => conjuncts.push(with_value(dice, "g.p")),
        _ => {}
    }
    Query {
        returned,
        conjuncts,
        rest,
        way,
        changes,
    }
}

fn aggregate(dice: &mut Dice) -> String {
    let kind = *dice.pick(&[Kind::Integer, Kind::Integer, Kind::Float, Kind::Numeric]);
    let call = match dice.below(13) {
        12 => format!("{}({})", dice.pick(&["min", "max", "count"]), time(dice)),
        11 => match dice.below(3) {
            0 => format!("count({})", part(dice, Kind::Bool)),
            1 => format!("max({} COLLATE \"C\")", part(dice, Kind::Text)),
            _ => format!("sum({})", part(dice, Kind::Integer)),
        },
        9 => format!("sum({})", unknown(dice, Kind::Integer)),
        10 => match dice.below(4) {
            0 => "sum(picky(i8 % 100))".to_owned(),
            1 => format!("count({})", unknown(dice, Kind::Bool)),
            _ => format!("max({})", unknown(dice, Kind::Text)),
        },
        0 => "count(*)".to_owned(),
        1 => format!("count({})", dice.pick(COLUMNS).name),
        2 => format!("sum({})", of_kind(dice, kind).name),
        3 => format!("avg({})", of_kind(dice, kind).name),
        4 | 5 => {
            let kind = *dice.pick(&[
                Kind::Integer,
                Kind::Float,
                Kind::Numeric,
                Kind::Time,
                Kind::Text,
            ]);
            format!(
                "{}({})",
                dice.pick(&["min", "max"]),
                of_kind(dice, kind).name
            )
        }
        6 => format!("{}(b)", dice.pick(&["bool_and", "bool_or", "every"])),
        7 => format!("sum({})", arithmetic(dice)),
        _ => format!("max({})", arithmetic(dice)),
    };
    match dice.below(6) {
        0 => format!("{call} FILTER (WHERE {})", condition(dice, 1)),
        _ => call,
    }
}

fn key(dice: &mut Dice) -> String {
    match dice.below(10) {
        9 => format!("({})", time(dice)),
        8 => {
            let kind = *dice.pick(&[Kind::Text, Kind::Bool, Kind::Integer]);
            part(dice, kind)
        }
        0 => format!("({})", arithmetic(dice)),
        1 => {
            let kind = *dice.pick(&[Kind::Text, Kind::Bool, Kind::Integer]);
            format!("({})", unknown(dice, kind))
        }
        _ => dice.pick(COLUMNS).name.to_owned(),
    }
}

/// The keys are the first columns that are returned.
fn first_groups(dice: &mut Dice, keys: &str, key_count: usize) -> String {
    let by = *dice.pick(&["", "count(*) DESC, ", "count(*), "]);
    let order: Vec<String> = (1..=key_count)
        .map(|column| format!("{column}{}", direction(dice)))
        .collect();
    let limit = dice.pick(&[0, 1, 5, 50, 3000]);
    format!(
        " GROUP BY {keys} ORDER BY {by}{} LIMIT {limit}",
        order.join(", ")
    )
}

fn direction(dice: &mut Dice) -> String {
    let nulls = dice.pick(&["", " NULLS FIRST", " NULLS LAST"]);
    format!("{}{nulls}", dice.pick(&["", " DESC"]))
}

/// Values of the parameters of a prepared query.
#[must_use]
pub fn values(dice: &mut Dice) -> String {
    format!(
        "{}, {}, {}",
        dice.pick(&["3", "0", "NULL", "-7", "60"]),
        dice.pick(&["''", "'w3'", "NULL", "'17'"]),
        dice.pick(&["1.50", "0", "NULL", "'NaN'", "1e30"])
    )
}
