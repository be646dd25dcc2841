//! Sizes and times as people read them.

use std::time::Duration;

/// `1536` becomes `1.5 kB`; the steps are PostgreSQL's, of 1024.
pub fn bytes(count: u64) -> String {
    const STEPS: [&str; 5] = ["bytes", "kB", "MB", "GB", "TB"];
    let mut value = count as f64;
    let mut step = 0;
    while value >= 1024.0 && step + 1 < STEPS.len() {
        value /= 1024.0;
        step += 1;
    }
    if step == 0 || value >= 100.0 {
        format!("{value:.0} {}", STEPS[step])
    } else {
        format!("{value:.1} {}", STEPS[step])
    }
}

/// `1234567` becomes `1,234,567`.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Milliseconds with three significant digits.
pub fn milliseconds(time: Duration) -> String {
    let value = time.as_secs_f64() * 1e3;
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 10.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

/// `95 s` becomes `1 min 35 s`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..10 => format!("{:.1} s", time.as_secs_f64()),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_keep_two_or_three_significant_digits() {
        assert_eq!(bytes(512), "512 bytes");
        assert_eq!(bytes(1536), "1.5 kB");
        assert_eq!(bytes(400 * 1024 * 1024), "400 MB");
    }

    #[test]
    fn counts_are_grouped_by_thousands() {
        assert_eq!(count(7), "7");
        assert_eq!(count(336_776), "336,776");
        assert_eq!(count(1_000_000), "1,000,000");
    }

    #[test]
    fn times_name_their_two_largest_units() {
        assert_eq!(duration(Duration::from_millis(1500)), "1.5 s");
        assert_eq!(duration(Duration::from_secs(95)), "1 min 35 s");
        assert_eq!(duration(Duration::from_secs(90_000)), "1 d 1 h");
    }
}
