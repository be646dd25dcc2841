//! The lines by which test programs report their results: TAP from pg_regress and from Perl
//! programs, libtest's own from cargo test.

use super::tally::Tally;

/// One test's result, as a line reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed,
    Skipped,
}

/// `ok 3     + boolean      42 ms` or `not ok 4 - int2   17 ms`, as PostgreSQL 16 and later
/// print them; anything else is no result.
pub fn pg_regress_line(line: &str) -> Option<(&str, Verdict)> {
    let (verdict, rest) = if let Some(rest) = line.strip_prefix("not ok ") {
        (Verdict::Failed, rest)
    } else {
        (Verdict::Passed, line.strip_prefix("ok ")?)
    };
    let mut fields = rest.split_whitespace();
    fields.next()?.parse::<u32>().ok()?;
    let mark = fields.next()?;
    if mark != "-" && mark != "+" {
        return None;
    }
    let name = fields.next()?;
    let verdict = if rest.contains("# SKIP") {
        Verdict::Skipped
    } else {
        verdict
    };
    Some((name, verdict))
}

/// `not ok 12 - rows were copied`, as a Perl program reports a check that failed; checks within a
/// subtest are indented, and make the subtest fail.
pub fn failed_check(line: &str) -> Option<&str> {
    let check = line.strip_prefix("not ok ")?;
    (!check.contains("# TODO")).then_some(check)
}

/// `1..0 # SKIP reason`: the whole program is skipped.
pub fn skips_all(line: &str) -> bool {
    line.starts_with("1..0")
}

/// `test row_group::keeps_order ... ok`.
pub fn cargo_test_line(line: &str) -> Option<(&str, Verdict)> {
    let (name, outcome) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let verdict = match outcome.split_whitespace().next()?.trim_end_matches(',') {
        "ok" => Verdict::Passed,
        "FAILED" => Verdict::Failed,
        "ignored" => Verdict::Skipped,
        _ => return None,
    };
    Some((name, verdict))
}

/// `---- row_group::keeps_order stdout ----`: what a failed test printed follows.
pub fn is_report_of_failure(line: &str) -> bool {
    line.starts_with("---- ") && line.ends_with(" ----")
}

/// `test result: ok. 12 passed; 0 failed; 1 ignored; …`: the counts of one test program. The lines
/// of single tests may be interrupted by the tests' output; this one is not.
pub fn cargo_summary_line(line: &str) -> Option<Tally> {
    let rest = line.strip_prefix("test result: ")?;
    let (_, counts) = rest.split_once(". ")?;
    let mut tally = Tally::default();
    for part in counts.split(';') {
        let mut words = part.split_whitespace();
        let (Some(number), Some(what)) = (words.next(), words.next()) else {
            continue;
        };
        let Ok(number) = number.parse::<u64>() else {
            continue;
        };
        match what {
            "passed" => tally.passed = number,
            "failed" => tally.failed = number,
            "ignored" => tally.skipped = number,
            _ => {}
        }
    }
    Some(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pg_regress_results_are_read_from_sequential_and_parallel_lines() {
        let ok = "ok 1         - test_setup                                 310 ms";
        assert_eq!(pg_regress_line(ok), Some(("test_setup", Verdict::Passed)));
        let bad = "not ok 7     + float4                                      45 ms";
        assert_eq!(pg_regress_line(bad), Some(("float4", Verdict::Failed)));
        assert_eq!(
            pg_regress_line("# parallel group (20 tests):  txid text"),
            None
        );
        assert_eq!(pg_regress_line("1..231"), None);
    }

    #[test]
    fn a_perl_program_tells_its_failed_checks_and_whether_it_ran() {
        assert_eq!(failed_check("not ok 2 - rows"), Some("2 - rows"));
        assert_eq!(failed_check("ok 2 - rows"), None);
        assert_eq!(failed_check("not ok 3 - later # TODO"), None);
        assert!(skips_all("1..0 # SKIP no ICU") && !skips_all("1..5"));
    }

    #[test]
    fn cargo_results_are_read_with_their_counts() {
        assert_eq!(
            cargo_test_line("test a::b ... ok"),
            Some(("a::b", Verdict::Passed))
        );
        assert_eq!(
            cargo_test_line("test a::b ... ignored, slow"),
            Some(("a::b", Verdict::Skipped))
        );
        assert_eq!(cargo_test_line("test result: ok. 1 passed"), None);
        assert!(is_report_of_failure("---- a::b stdout ----"));
        assert!(!is_report_of_failure("failures:"));
        let line =
            "test result: FAILED. 12 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out";
        let tally = cargo_summary_line(line).expect("a summary");
        assert_eq!((tally.passed, tally.failed, tally.skipped), (12, 2, 1));
    }
}
