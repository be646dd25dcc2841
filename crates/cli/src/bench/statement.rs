//! Runs and times one statement, and compares the answers of two engines.

use std::time::Instant;

use anyhow::Context as _;
use postgres::error::SqlState;
use postgres::{Client, SimpleQueryMessage};

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

/// The first difference between two answers, whose order does not count.
pub(super) fn first_difference(
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
    let pair = one
        .iter()
        .zip(&other)
        .find(|(left, right)| !same_row(left, right))?;
    Some(format!(
        "{one_name} says ({}), {other_name} says ({})",
        pair.0.join(", "),
        pair.1.join(", ")
    ))
}

fn same_row(left: &[String], right: &[String]) -> bool {
    left.len() == right.len() && left.iter().zip(right).all(|(a, b)| same_field(a, b))
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
    fn a_missing_row_is_a_difference() {
        assert!(first_difference(("a", &rows(&[&["1"]])), ("b", &rows(&[]))).is_some());
    }
}
