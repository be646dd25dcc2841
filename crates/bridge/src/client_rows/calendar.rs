//! Dates and times in ISO style, of the years 1 to 9999 (`EncodeDateOnly` and `EncodeDateTime` of
//! `utils/adt/datetime.c`). All others are left to PostgreSQL.

/// The longest text that is written here.
pub(super) const LONGEST_BYTES: usize = 26;

/// Days from 2000-01-01 to 0001-01-01, and to 9999-12-31.
const FIRST_DAY: i32 = -730_119;
const LAST_DAY: i32 = 2_921_939;
/// `POSTGRES_EPOCH_JDATE`
const EPOCH: i32 = 2_451_545;

const DAY_MICROSECONDS: i64 = 86_400_000_000;

/// Two digits, with a zero before a single one.
fn two(out: &mut [u8], value: u32) {
    out[0] = b'0' + (value / 10) as u8;
    out[1] = b'0' + (value % 10) as u8;
}

/// Year, month and day of a day; mirrors `j2date`.
fn year_month_day(day: i32) -> (u32, u32, u32) {
    let mut julian = (day + EPOCH) as u32 + 32_044;
    let mut quad = julian / 146_097;
    let extra = (julian - quad * 146_097) * 4 + 3;
    julian += 60 + quad * 3 + extra / 146_097;
    quad = julian / 1_461;
    julian -= quad * 1_461;
    let mut year = julian * 4 / 1_461;
    julian = match year {
        0 => (julian + 306) % 366,
        _ => (julian + 305) % 365,
    } + 123;
    year += quad * 4;
    quad = julian * 2_141 / 65_536;
    let day = julian - 7_834 * quad / 256;
    (year - 4_800, (quad + 10) % 12 + 1, day)
}

/// Writes a date, by its days since 2000-01-01; its length, or `None` if that is left to
/// PostgreSQL.
pub(super) fn write_date(out: &mut [u8; LONGEST_BYTES], day: i32) -> Option<usize> {
    if !(FIRST_DAY..=LAST_DAY).contains(&day) {
        return None;
    }
    let (year, month, day) = year_month_day(day);
    two(&mut out[0..2], year / 100);
    two(&mut out[2..4], year % 100);
    out[4] = b'-';
    two(&mut out[5..7], month);
    out[7] = b'-';
    two(&mut out[8..10], day);
    Some(10)
}

/// Writes a timestamp without time zone, by its microseconds since 2000-01-01; as [`write_date`].
pub(super) fn write_timestamp(out: &mut [u8; LONGEST_BYTES], time: i64) -> Option<usize> {
    let day = i32::try_from(time.div_euclid(DAY_MICROSECONDS)).ok()?;
    write_date(out, day)?;
    let time = time.rem_euclid(DAY_MICROSECONDS);
    let (seconds, mut fraction) = ((time / 1_000_000) as u32, (time % 1_000_000) as u32);
    out[10] = b' ';
    two(&mut out[11..13], seconds / 3_600);
    out[13] = b':';
    two(&mut out[14..16], seconds / 60 % 60);
    out[16] = b':';
    two(&mut out[17..19], seconds % 60);
    if fraction == 0 {
        return Some(19);
    }
    out[19] = b'.';
    let mut end = LONGEST_BYTES;
    for digit in out[20..].iter_mut().rev() {
        *digit = b'0' + (fraction % 10) as u8;
        fraction /= 10;
    }
    while out[end - 1] == b'0' {
        end -= 1;
    }
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(day: i32) -> String {
        let mut out = [0; LONGEST_BYTES];
        let len = write_date(&mut out, day);
        len.map_or_else(String::new, |len| {
            String::from_utf8_lossy(&out[..len]).into_owned()
        })
    }

    fn timestamp(time: i64) -> String {
        let mut out = [0; LONGEST_BYTES];
        let len = write_timestamp(&mut out, time);
        len.map_or_else(String::new, |len| {
            String::from_utf8_lossy(&out[..len]).into_owned()
        })
    }

    #[test]
    fn dates_of_four_digit_years_are_written() {
        let ends = [
            FIRST_DAY - 1,
            FIRST_DAY,
            0,
            59,
            60,
            -1,
            LAST_DAY,
            LAST_DAY + 1,
        ];
        let dates = ends.map(date);
        let expected = [
            "",
            "0001-01-01",
            "2000-01-01",
            "2000-02-29",
            "2000-03-01",
            "1999-12-31",
            "9999-12-31",
            "",
        ];
        assert_eq!(dates, expected);
    }

    #[test]
    fn days_follow_one_another() {
        let length = |year: u32, month: u32| match month {
            2 if year.is_multiple_of(4)
                && (!year.is_multiple_of(100) || year.is_multiple_of(400)) =>
            {
                29
            }
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        let mut next = (1, 1, 1);
        for day in FIRST_DAY..=LAST_DAY {
            assert_eq!(year_month_day(day), next);
            let (year, month, day) = next;
            next = match (month, day == length(year, month)) {
                (12, true) => (year + 1, 1, 1),
                (_, true) => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn fractions_of_seconds_lose_their_zeros() {
        assert_eq!(timestamp(0), "2000-01-01 00:00:00");
        assert_eq!(timestamp(-1), "1999-12-31 23:59:59.999999");
        assert_eq!(timestamp(100_000), "2000-01-01 00:00:00.1");
        assert_eq!(timestamp(3_723_000_120), "2000-01-01 01:02:03.00012");
        assert_eq!(timestamp(i64::MAX), "");
        assert_eq!(timestamp(i64::MIN), "");
    }
}
