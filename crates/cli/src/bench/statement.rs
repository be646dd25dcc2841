//! Runs and times one statement, and compares the answers of two engines.

use std::time::Instant;

use anyhow::Context as _;
use postgres::error::SqlState;
use postgres::{Client, SimpleQueryMessage};

use super::figure::Outcome;

/// Float sums differ in the last digits with the order in which they are added.
const FLOAT_TOLERANCE: f64 = 1e-9;

/// Rows as fields of text.
pub(super) type Rows = Vec<Vec<String>>;

pub(super) struct Answer {
    pub milliseconds: f64,
    pub rows: Rows,
}

/// Runs a statement; `None` when the server refuses it with 0A000.
///
/// # Errors
/// Every other error of the server.
pub(super) fn ask(client: &mut Client, sql: &str) -> anyhow::Result<Option<Answer>> {
    let started = Instant::now();
    let result = client.simple_query(sql);
    let milliseconds = started.elapsed().as_secs_f64() * 1e3;
    match result {
        Ok(messages) => Ok(Some(Answer {
            milliseconds,
            rows: rows(&messages),
        })),
        Err(error) if is_refusal(&error) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("in: {sql}")),
    }
}

pub(super) fn is_refusal(error: &postgres::Error) -> bool {
    error.code() == Some(&SqlState::FEATURE_NOT_SUPPORTED)
}

fn rows(messages: &[SimpleQueryMessage]) -> Rows {
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| {
        (0..row.len())
            .map(|at| row.get(at).unwrap_or("NULL").to_owned())
            .collect()
    })
    .collect()
}

/// The statement where `{table}` stands for each of these tables.
pub(super) fn on_tables(sql: &str, tables: &[&str], name: impl Fn(&str) -> String) -> String {
    tables.iter().fold(sql.to_owned(), |sql, table| {
        sql.replace(&format!("{{{table}}}"), &name(table))
    })
}

/// What one run of a statement took in milliseconds, and its rows; `None` where it was refused, or
/// where the rows are not of interest.
pub(super) type Run = (Option<f64>, Option<Rows>);

/// Runs a statement on `N` sides by turns, which `once` is told by their number: once to warm up,
/// and `runs` times that count. The times and the last rows of each side.
///
/// # Errors
/// Those of `once`.
pub(super) fn by_turns<const N: usize>(
    runs: u32,
    mut once: impl FnMut(usize) -> anyhow::Result<Run>,
) -> anyhow::Result<[(Outcome, Option<Rows>); N]> {
    let mut all = [(); N].map(|()| (Outcome::nothing_yet(), None));
    for run in 0..=runs {
        for (at, (outcome, last)) in all.iter_mut().enumerate() {
            if *outcome == Outcome::Refused {
                continue;
            }
            let (milliseconds, rows) = once(at)?;
            // The first run warms up.
            if run > 0 || milliseconds.is_none() {
                outcome.add(milliseconds);
            }
            *last = rows;
        }
    }
    Ok(all)
}

/// The first difference between two answers, whose order does not count; floats may differ in
/// their last digits.
pub(super) fn first_difference(one: (&str, &Rows), other: (&str, &Rows)) -> Option<String> {
    first_difference_by(same_field, one, other)
}

/// The first difference between two answers, whose order does not count, but every digit does.
pub(super) fn first_exact_difference(one: (&str, &Rows), other: (&str, &Rows)) -> Option<String> {
    first_difference_by(|left, right| left == right, one, other)
}

fn first_difference_by(
    same_field: impl Fn(&str, &str) -> bool,
    (one_name, one): (&str, &Rows),
    (other_name, other): (&str, &Rows),
) -> Option<String> {
    if one.len() != other.len() {
        return Some(format!(
            "{one_name} gives {} rows, {other_name} {}",
            one.len(),
            other.len()
        ));
    }
    let (mut one, mut other) = (one.clone(), other.clone());
    one.sort_unstable();
    other.sort_unstable();
    let is_same = |left: &[String], right: &[String]| {
        left.len() == right.len() && left.iter().zip(right).all(|(a, b)| same_field(a, b))
    };
    let mut pairs = one.iter().zip(&other);
    let pair = pairs.find(|(left, right)| !is_same(left, right))?;
    Some(format!(
        "{one_name} says ({}), {other_name} says ({})",
        pair.0.join(", "),
        pair.1.join(", ")
    ))
}

fn same_field(left: &str, right: &str) -> bool {
    if left == right {
        return true;
    }
    // Whole numbers are exact; only numbers with a decimal point may differ in their last digits.
    let is_float = |text: &str| text.contains(['.', 'e']);
    match (left.parse::<f64>(), right.parse::<f64>()) {
        (Ok(a), Ok(b)) if is_float(left) || is_float(right) => {
            (a - b).abs() <= FLOAT_TOLERANCE * a.abs().max(b.abs())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &[&[&str]]) -> Rows {
        text.iter()
            .map(|row| row.iter().map(|field| (*field).to_owned()).collect())
            .collect()
    }

    #[test]
    fn answers_are_equal_in_any_order_and_up_to_the_last_digits_of_floats() {
        let one = rows(&[&["1", "0.30000000000000004"], &["2", "5"]]);
        let other = rows(&[&["2", "5"], &["1", "0.3"]]);
        assert_eq!(first_difference(("a", &one), ("b", &other)), None);
    }

    #[test]
    fn whole_numbers_must_be_equal_to_the_last_digit() {
        let one = rows(&[&["12500002500000"]]);
        let other = rows(&[&["12500002500001"]]);
        let text = first_difference(("heap", &one), ("howdah", &other)).expect("a difference");
        assert_eq!(
            text,
            "heap says (12500002500000), howdah says (12500002500001)"
        );
    }

    #[test]
    fn an_exact_difference_is_one_of_the_last_digit_of_a_float() {
        let one = rows(&[&["1", "0.30000000000000004"], &["2", "5"]]);
        let other = rows(&[&["2", "5"], &["1", "0.3"]]);
        let difference = first_exact_difference(("a", &one), ("b", &other));
        assert_eq!(
            difference.as_deref(),
            Some("a says (1, 0.30000000000000004), b says (1, 0.3)")
        );
        let turned = rows(&[&["2", "5"], &["1", "0.30000000000000004"]]);
        assert_eq!(first_exact_difference(("a", &one), ("b", &turned)), None);
    }

    #[test]
    fn sides_run_by_turns_and_the_first_run_and_refused_sides_do_not_count() {
        let mut order = Vec::new();
        let sides = by_turns::<2>(2, |at| {
            order.push(at);
            let serial = order.len();
            let rows = (at == 0).then(|| rows(&[&[&serial.to_string()]]));
            Ok(((at == 0).then_some(serial as f64), rows))
        });
        let [(heap, last), (refused, none)] = sides.expect("no error");
        assert_eq!(order, [0, 1, 0, 0]);
        assert_eq!(heap, Outcome::Measured(vec![3.0, 4.0]));
        assert_eq!(last, Some(rows(&[&["4"]])));
        assert_eq!((refused, none), (Outcome::Refused, None));
    }

    #[test]
    fn each_name_in_braces_becomes_its_table() {
        let sql = on_tables(
            "SELECT FROM {a} JOIN {ab} USING (x)",
            &["a", "ab"],
            |table| format!("s.{table}_heap"),
        );
        assert_eq!(sql, "SELECT FROM s.a_heap JOIN s.ab_heap USING (x)");
    }

    #[test]
    fn a_missing_row_is_a_difference() {
        assert!(first_difference(("a", &rows(&[&["1"]])), ("b", &rows(&[]))).is_some());
    }
}
