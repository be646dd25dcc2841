//! Reviewed differences: where the output of PostgreSQL's own suites may differ with howdah as the
//! default access method, and why.
//!
//! `tests/postgres/SUITE/NAME.diff` begins with comment lines, one of which is `# reason: …`, and
//! goes on with the hunks of `diff -U3`. A test may differ exactly so: hunks are compared without
//! their line numbers, which move with every minor release. A file without a reason explains
//! nothing. `NAME_1.diff` is another way in which it may differ, as with PostgreSQL's expected
//! files.

use std::collections::BTreeMap;

const REASON: &str = "# reason:";

/// What `--accept` writes; a person replaces it.
const NO_REASON_YET: &str = "# reason: TO BE REVIEWED";

/// One reviewed difference.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reviewed {
    hunks: Vec<String>,
    has_reason: bool,
}

impl Reviewed {
    pub fn parse(text: &str) -> Self {
        let reason = text
            .lines()
            .find_map(|line| line.strip_prefix(REASON))
            .map(str::trim);
        let has_reason = reason
            .is_some_and(|reason| !reason.is_empty() && !reason.starts_with("TO BE REVIEWED"));
        let body: String = text
            .lines()
            .skip_while(|line| line.starts_with('#') || line.is_empty())
            .map(|line| format!("{line}\n"))
            .collect();
        Self {
            hunks: normalized(&body),
            has_reason,
        }
    }

    /// Whether a difference is this one, for a reason.
    pub fn explains(&self, difference: &str) -> bool {
        self.has_reason && self.hunks == normalized(difference)
    }
}

/// The text of a new file for `--accept`.
pub(super) fn unreviewed_file(difference: &str) -> String {
    format!("{NO_REASON_YET}\n{}", normalized(difference).join("\n")) + "\n"
}

/// A difference without the parts that do not matter: file names, times and line numbers.
fn normalized(difference: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for line in difference.lines() {
        let is_heading =
            line.starts_with("diff ") || line.starts_with("--- ") || line.starts_with("+++ ");
        if is_heading && !in_hunk(&lines) {
            continue;
        }
        lines.push(if line.starts_with("@@ ") || line == "@@" {
            "@@".to_owned()
        } else {
            without_oids(line)
        });
    }
    lines
}

/// TOAST relations are named after OIDs, which differ from run to run; the padding of a column
/// that holds such a name moves with it.
fn without_oids(line: &str) -> String {
    const PREFIX: &str = "pg_toast_";
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(PREFIX) {
        let (before, after) = rest.split_at(at + PREFIX.len());
        out.push_str(before);
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits > 0 {
            out.push('N');
        }
        rest = &after[digits..];
    }
    out.push_str(rest);
    out
}

/// Headings come before the first hunk; within one, `--- x` is a removed line `-- x`.
fn in_hunk(lines: &[String]) -> bool {
    !lines.is_empty()
}

/// Splits `regression.diffs` by test. A section begins with the command line of diff, whose last
/// word is `…/results/NAME.out`.
pub(super) fn by_test(diffs: &str) -> BTreeMap<String, String> {
    let mut sections = BTreeMap::<String, String>::new();
    let mut current = None;
    for line in diffs.lines() {
        if let Some(name) = section_name(line) {
            current = Some(name);
        }
        if let Some(name) = &current {
            let section = sections.entry(name.clone()).or_default();
            section.push_str(line);
            section.push('\n');
        }
    }
    sections
}

fn section_name(line: &str) -> Option<String> {
    let last = line.strip_prefix("diff ")?.split_whitespace().last()?;
    let (_, file) = last.rsplit_once("/results/")?;
    Some(file.strip_suffix(".out")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFFS: &str = "diff -U3 /pg/expected/psql.out /tmp/results/psql.out\n--- /pg/expected/psql.out\t2026\n+++ /tmp/results/psql.out\t2026\n@@ -10,3 +10,4 @@\n a\n+howdah\n b\ndiff -U3 /pg/expected/cluster.out /tmp/results/cluster.out\n--- x\n+++ y\n@@ -1 +1 @@\n--- removed comment\n+c\n";

    #[test]
    fn names_after_oids_do_not_count() {
        assert_eq!(
            without_oids("+ pg_toast_20807_index x pg_toast_1 pg_toast_TABLE"),
            "+ pg_toast_N_index x pg_toast_N pg_toast_TABLE"
        );
    }

    #[test]
    fn differences_are_told_apart_by_test() {
        let sections = by_test(DIFFS);
        assert_eq!(sections.keys().collect::<Vec<_>>(), ["cluster", "psql"]);
        assert_eq!(
            normalized(&sections["cluster"]),
            ["@@", "--- removed comment", "+c"]
        );
    }

    #[test]
    fn a_reviewed_difference_may_move_but_not_change() {
        let reviewed =
            Reviewed::parse("# reason: one more access method\n@@ -1 +1 @@\n a\n+howdah\n b\n");
        let sections = by_test(DIFFS);
        assert!(reviewed.explains(&sections["psql"]));
        assert!(!reviewed.explains(&sections["psql"].replace("howdah", "other")));
        assert!(!reviewed.explains(&sections["cluster"]));
    }

    #[test]
    fn a_difference_without_a_reason_is_not_explained() {
        let sections = by_test(DIFFS);
        let accepted = Reviewed::parse(&unreviewed_file(&sections["psql"]));
        assert!(!accepted.explains(&sections["psql"]));
        let signed = unreviewed_file(&sections["psql"]).replace("TO BE REVIEWED", "harmless");
        assert!(Reviewed::parse(&signed).explains(&sections["psql"]));
    }
}
