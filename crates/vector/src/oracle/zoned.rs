//! Functions that depend on a time zone, of values that are not NULL.

use howdah_columnar::OwnedValue;

use super::functions::{begin_of, date_of, truncated};
use super::unsupported;
use crate::error::VectorError;
use crate::zone::Zone;

const VALID: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;
const DAY: i64 = 86_400_000_000;

/// The value of PostgreSQL's function of this `prosrc` in a zone.
pub(super) fn call(
    prosrc: &str,
    zone: &Zone,
    arguments: &[OwnedValue],
) -> Result<OwnedValue, VectorError> {
    use OwnedValue::{Int32, Int64, Text};
    match (prosrc, arguments) {
        ("timestamptz_timestamp", [Int64(moment)]) => local(zone, *moment).map(Int64),
        ("timestamp_timestamptz", [Int64(time)]) => moment(zone, *time).map(Int64),
        ("timestamptz_date", [Int64(moment)]) => local(zone, *moment).map(date_of).map(Int32),
        ("date_timestamptz", [Int32(date)]) => {
            let begin = begin_of(*date).map_err(|_| unknown())?;
            moment(zone, begin).map(Int64)
        }
        ("timestamptz_trunc", [Text(unit), Int64(at)]) => {
            let unit = unit.to_ascii_lowercase();
            let shown = local(zone, *at)?;
            let begin = truncated(&unit, shown)?;
            if [i64::MIN, i64::MAX].contains(at) {
                return Ok(Int64(begin));
            }
            // Units less than a day change nothing of the date's begin.
            let midnight = begin.div_euclid(DAY) * DAY;
            let is_day_or_more = truncated(&unit, midnight + DAY - 1)? <= midnight;
            match is_day_or_more {
                true => moment(zone, begin).map(Int64),
                false => known(zone, begin - (shown - at)).map(Int64),
            }
        }
        _ => Err(unsupported("a function of a time zone")),
    }
}

fn unknown() -> VectorError {
    unsupported("a timestamp of which the time zone is not known")
}

fn known(zone: &Zone, at: i64) -> Result<i64, VectorError> {
    let is_before_end = at < zone.end().saturating_sub(2 * DAY);
    match VALID.contains(&at) && is_before_end {
        true => Ok(at),
        false => Err(unknown()),
    }
}

/// The offset at a moment.
fn offset(zone: &Zone, moment: i64) -> i64 {
    let past = zone.changes().take_while(|&(at, _)| at <= moment);
    past.last()
        .map_or(zone.first_offset(), |(_, offset)| offset)
}

/// What clocks show at a moment.
fn local(zone: &Zone, moment: i64) -> Result<i64, VectorError> {
    if [i64::MIN, i64::MAX].contains(&moment) {
        return Ok(moment);
    }
    let moment = known(zone, moment)?;
    known(zone, moment + offset(zone, moment))
}

/// When clocks show a time: the last of the moments when they do; where they never do, as if the
/// clocks had not yet been put forward. Changes are more than two days apart.
fn moment(zone: &Zone, time: i64) -> Result<i64, VectorError> {
    if [i64::MIN, i64::MAX].contains(&time) {
        return Ok(time);
    }
    let time = known(zone, time)?;
    let offsets = std::iter::once(zone.first_offset()).chain(zone.changes().map(|(_, to)| to));
    let shown = offsets
        .map(|offset| time - offset)
        .filter(|&moment| moment + offset(zone, moment) == time);
    let moment = shown.max().unwrap_or_else(|| {
        let before = zone.changes().take_while(|&(at, _)| at <= time - DAY);
        time - before
            .last()
            .map_or(zone.first_offset(), |(_, offset)| offset)
    });
    known(zone, moment)
}
