//! How many tests passed, failed and were skipped, and the names of the failed ones.

use std::fmt;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
    /// One line for each failure, for the list at the end.
    pub failures: Vec<String>,
}

impl Tally {
    pub fn one_pass() -> Self {
        Self {
            passed: 1,
            ..Self::default()
        }
    }

    pub fn one_failure(what: String) -> Self {
        Self {
            failed: 1,
            failures: vec![what],
            ..Self::default()
        }
    }

    pub fn skip(count: u64) -> Self {
        Self {
            skipped: count,
            ..Self::default()
        }
    }

    pub fn fail(&mut self, what: String) {
        self.failed += 1;
        self.failures.push(what);
    }

    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.failures.extend(other.failures);
    }

    /// Whether the run succeeded: something ran, and nothing failed.
    pub fn is_success(&self) -> bool {
        self.failed == 0 && self.passed > 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(f, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_named_only_when_there_are_any() {
        let mut tally = Tally::one_pass();
        assert_eq!(tally.to_string(), "1 passed, 0 failed");
        tally.add(Tally::skip(2));
        assert_eq!(tally.to_string(), "1 passed, 0 failed, 2 skipped");
    }

    #[test]
    fn a_run_without_a_single_pass_is_no_success() {
        assert!(!Tally::default().is_success());
        assert!(!Tally::skip(3).is_success());
    }
}
