//! Options as the text of security labels.
//!
//! ```text
//!   on a table    compression_effort=best, compact_after=P1DT7200S,
//!                 compact_min_rows=5, compaction=off
//!   on a column   sort_key=2, grouped=on         the second column of the sort key, and one of
//!                                                those whose values lie side by side
//! ```
//!
//! The text depends on no setting of the session that writes or reads it: periods are ISO 8601
//! durations, because the text of an interval depends on `IntervalStyle`. An option that is not set
//! appears in no label.

use howdah_columnar::Effort;

use super::{Period, TableOptions};

/// The options of a table, by their names in SQL.
pub const NAMES: [&str; 6] = [
    "sort_key",
    "compression_effort",
    "compact_after",
    "compact_min_rows",
    "compaction",
    "grouped_columns",
];

/// What is kept in the label of a column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnOptions {
    /// The position in the sort key, counted from 1.
    pub sort_key: Option<u16>,
    pub grouped: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    #[error("\"{0}\" is not of the form option=value")]
    NoValue(String),
    #[error("unrecognized option \"{0}\"")]
    UnknownOption(String),
    #[error("option \"{0}\" appears twice")]
    Twice(String),
    #[error("invalid value for option \"{option}\": \"{value}\"")]
    InvalidValue { option: String, value: String },
}

/// The label of a table; `None` if no option is set that belongs to it.
pub fn of_table(options: &TableOptions) -> Option<String> {
    let settings = [
        options
            .effort
            .map(|effort| format!("compression_effort={}", effort_name(effort))),
        options
            .compact_after
            .map(|period| format!("compact_after={}", duration(period))),
        options
            .compact_min_rows
            .map(|rows| format!("compact_min_rows={rows}")),
        options
            .compaction
            .map(|on| format!("compaction={}", if on { "on" } else { "off" })),
    ];
    let settings: Vec<String> = settings.into_iter().flatten().collect();
    (!settings.is_empty()).then(|| settings.join(", "))
}

/// Reads the label of a table. The result has no sort key and no grouped columns, which are kept in
/// the labels of columns.
///
/// # Errors
/// What keeps the text from being a label.
pub fn parse_of_table(text: &str) -> Result<TableOptions, LabelError> {
    let mut options = TableOptions::default();
    let mut seen: Vec<&str> = Vec::new();
    for (option, value) in settings(text) {
        let (option, value) = (option, value?);
        if seen.contains(&option) {
            return Err(LabelError::Twice(option.to_owned()));
        }
        seen.push(option);
        let invalid = || LabelError::InvalidValue {
            option: option.to_owned(),
            value: value.to_owned(),
        };
        match option {
            "compression_effort" => options.effort = Some(effort(value).ok_or_else(invalid)?),
            "compact_after" => {
                options.compact_after = Some(parse_duration(value).ok_or_else(invalid)?);
            }
            "compact_min_rows" => {
                let rows = value.parse().ok().filter(|rows: &i64| *rows >= 0);
                options.compact_min_rows = Some(rows.ok_or_else(invalid)?);
            }
            "compaction" => {
                options.compaction = Some(on_or_off(value).ok_or_else(invalid)?);
            }
            _ => return Err(LabelError::UnknownOption(option.to_owned())),
        }
    }
    Ok(options)
}

/// The label of a column; `None` if no option names it.
pub fn of_column(options: ColumnOptions) -> Option<String> {
    let settings = [
        options
            .sort_key
            .map(|position| format!("sort_key={position}")),
        options.grouped.then(|| "grouped=on".to_owned()),
    ];
    let settings: Vec<String> = settings.into_iter().flatten().collect();
    (!settings.is_empty()).then(|| settings.join(", "))
}

/// Reads the label of a column.
///
/// # Errors
/// What keeps the text from being a label.
pub fn parse_of_column(text: &str) -> Result<ColumnOptions, LabelError> {
    let mut options = ColumnOptions::default();
    let mut seen: Vec<&str> = Vec::new();
    for (option, value) in settings(text) {
        let value = value?;
        if seen.contains(&option) {
            return Err(LabelError::Twice(option.to_owned()));
        }
        seen.push(option);
        let invalid = || LabelError::InvalidValue {
            option: option.to_owned(),
            value: value.to_owned(),
        };
        match option {
            "sort_key" => {
                let position = value.parse().ok().filter(|number: &u16| *number > 0);
                options.sort_key = Some(position.ok_or_else(invalid)?);
            }
            "grouped" => options.grouped = on_or_off(value).ok_or_else(invalid)?,
            _ => return Err(LabelError::UnknownOption(option.to_owned())),
        }
    }
    Ok(options)
}

fn on_or_off(value: &str) -> Option<bool> {
    match value {
        "on" | "true" => Some(true),
        "off" | "false" => Some(false),
        _ => None,
    }
}

/// The settings of a label: name, and value unless there is none.
fn settings(text: &str) -> impl Iterator<Item = (&str, Result<&str, LabelError>)> {
    text.split(',')
        .map(|setting| match setting.split_once('=') {
            Some((option, value)) => (option.trim(), Ok(value.trim())),
            None => ("", Err(LabelError::NoValue(setting.trim().to_owned()))),
        })
}

/// An effort by its name in SQL.
pub fn effort(name: &str) -> Option<Effort> {
    match name {
        "fast" => Some(Effort::Fast),
        "default" => Some(Effort::Default),
        "best" => Some(Effort::Best),
        _ => None,
    }
}

/// An effort's name in SQL.
pub fn effort_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Fast => "fast",
        Effort::Default => "default",
        Effort::Best => "best",
    }
}

/// A period as an ISO 8601 duration.
fn duration(period: Period) -> String {
    const SECOND: i64 = 1_000_000;
    let mut text = String::from("P");
    for (number, unit) in [(period.months, 'M'), (period.days, 'D')] {
        if number != 0 {
            text.push_str(&format!("{number}{unit}"));
        }
    }
    let (seconds, fraction) = (period.microseconds / SECOND, period.microseconds % SECOND);
    if fraction != 0 {
        text.push_str(&format!("T{seconds}.{fraction:06}S"));
    } else if seconds != 0 || text == "P" {
        text.push_str(&format!("T{seconds}S"));
    }
    text
}

/// Reads an ISO 8601 duration without signs, with a fraction in its seconds at most.
fn parse_duration(text: &str) -> Option<Period> {
    let mut period = Period::default();
    let mut rest = text.strip_prefix('P')?;
    let mut in_time = false;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if !in_time && let Some(time) = rest.strip_prefix('T') {
            in_time = true;
            rest = time;
        }
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = (&rest[..end], rest[end..].chars().next()?);
        rest = &rest[end + unit.len_utf8()..];
        let (whole, microseconds) = parse_decimal(number)?;
        if microseconds != 0 && unit != 'S' {
            return None;
        }
        let months = |factor| i32::try_from(whole).ok()?.checked_mul(factor);
        let time = |seconds: i64| {
            let time = whole.checked_mul(seconds)?.checked_mul(1_000_000)?;
            time.checked_add(microseconds)
        };
        match (in_time, unit) {
            (false, 'Y') => period.months = period.months.checked_add(months(12)?)?,
            (false, 'M') => period.months = period.months.checked_add(months(1)?)?,
            (false, 'W') => period.days = period.days.checked_add(months(7)?)?,
            (false, 'D') => period.days = period.days.checked_add(months(1)?)?,
            (true, 'H') => period.microseconds = period.microseconds.checked_add(time(3600)?)?,
            (true, 'M') => period.microseconds = period.microseconds.checked_add(time(60)?)?,
            (true, 'S') => period.microseconds = period.microseconds.checked_add(time(1)?)?,
            _ => return None,
        }
    }
    Some(period)
}

/// Whole units, and millionths of one.
fn parse_decimal(number: &str) -> Option<(i64, i64)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if fraction.is_empty() || fraction.len() > 6 {
        return None;
    }
    let millionths = format!("{fraction:0<6}").parse().ok()?;
    Some((whole.parse().ok()?, millionths))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(months: i32, days: i32, microseconds: i64) -> Period {
        Period {
            months,
            days,
            microseconds,
        }
    }

    #[test]
    fn what_was_written_is_read_again() {
        let all = TableOptions {
            effort: Some(Effort::Best),
            compact_after: Some(period(14, 2, 7_200_500_000)),
            compact_min_rows: Some(i64::MAX),
            compaction: Some(false),
            sort_key: Vec::new(),
            grouped_columns: Vec::new(),
        };
        let text = of_table(&all).expect("something is set");
        assert_eq!(
            text,
            "compression_effort=best, compact_after=P14M2DT7200.500000S, \
             compact_min_rows=9223372036854775807, compaction=off"
        );
        assert_eq!(parse_of_table(&text), Ok(all));
        assert_eq!(of_table(&TableOptions::default()), None);
        for (sort_key, grouped, text) in [
            (Some(3), false, "sort_key=3"),
            (None, true, "grouped=on"),
            (Some(1), true, "sort_key=1, grouped=on"),
        ] {
            let options = ColumnOptions { sort_key, grouped };
            assert_eq!(of_column(options).as_deref(), Some(text));
            assert_eq!(parse_of_column(text), Ok(options));
        }
        assert_eq!(of_column(ColumnOptions::default()), None);
    }

    #[test]
    fn periods_have_one_spelling_and_are_read_in_many() {
        for (months, days, microseconds, text) in [
            (0, 0, 0, "PT0S"),
            (1, 0, 0, "P1M"),
            (0, 3, 0, "P3D"),
            (0, 0, 1, "PT0.000001S"),
            (0, 0, i64::MAX, "PT9223372036854.775807S"),
            (i32::MAX, i32::MAX, 0, "P2147483647M2147483647D"),
        ] {
            let value = period(months, days, microseconds);
            assert_eq!(duration(value), text);
            assert_eq!(parse_duration(text), Some(value));
        }
        let value = period(12, 14, 5_400_000_000);
        assert_eq!(parse_duration("P1Y2WT1H30M"), Some(value));
        for text in [
            "",
            "P",
            "1D",
            "PT",
            "P1",
            "P1S",
            "PT1D",
            "P-1D",
            "P1.5D",
            "PT1.S",
            "PT1.1234567S",
            "P99999999999D",
            "PT99999999999999999999S",
            "P1DTT1S",
            "PT1S ",
            "P1Dé",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_label_says_what_is_wrong_with_it() {
        let invalid = |option: &str, value: &str| LabelError::InvalidValue {
            option: option.into(),
            value: value.into(),
        };
        for (text, error) in [
            ("", LabelError::NoValue(String::new())),
            ("classified", LabelError::NoValue("classified".into())),
            ("sort_key=1", LabelError::UnknownOption("sort_key".into())),
            ("compaction=off,", LabelError::NoValue(String::new())),
            ("compaction=maybe", invalid("compaction", "maybe")),
            ("compact_min_rows=-1", invalid("compact_min_rows", "-1")),
            ("compact_after=1 day", invalid("compact_after", "1 day")),
            (
                "compaction=on, compaction=off",
                LabelError::Twice("compaction".into()),
            ),
        ] {
            assert_eq!(parse_of_table(text), Err(error), "{text}");
        }
        for text in [
            "",
            "sort_key",
            "sort_key=0",
            "sort_key=1,sort_key=2",
            "x=1",
            "sort_key=-1",
            "grouped=2",
            "grouped=on, grouped=on",
        ] {
            assert!(parse_of_column(text).is_err(), "{text}");
        }
    }
}
