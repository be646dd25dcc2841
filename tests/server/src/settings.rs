//! Numbers that a run takes from the environment: seeds, seconds, counts.

/// The number in an environment variable, or the default if it is not set or no number.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}
