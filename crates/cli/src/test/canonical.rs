//! The canonical form of a suite's output: without plans, and without the order of rows where there
//! is no ORDER BY.
//!
//! ```text
//!   NAME.out, NAME_1.out … ─┐
//!                           ├─► canonical form ─► diff -U3 ─► nothing, or a real difference
//!   results/NAME.out ───────┘
//! ```
//!
//! Only the steps with cold rows compare canonical forms: plans over cold rows differ by design.
//! Values, errors, notices and the order of statements stay as they are.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

/// The text that replaces a plan.
const PLAN: &str = "(a plan)";

/// The smallest difference between a result and any of the outputs that PostgreSQL expects, in
/// canonical form; empty when one of them is equal.
pub(super) fn difference(expected: &Path, results: &Path, name: &str) -> anyhow::Result<String> {
    let result = results.join(format!("{name}.out"));
    let ours = place(&result, results, &format!("{name}.canonical"))?;
    let mut smallest = None::<String>;
    for file in alternatives(expected, name) {
        let theirs = place(&file, results, &format!("{name}.expected"))?;
        let output = Command::new("diff")
            .args(["-U3".as_ref(), theirs.as_os_str(), ours.as_os_str()])
            .output()
            .context("cannot run diff")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if smallest.as_ref().is_none_or(|one| text.len() < one.len()) {
            smallest = Some(text);
        }
    }
    smallest.with_context(|| format!("{name} has no expected output"))
}

fn alternatives(expected: &Path, name: &str) -> Vec<PathBuf> {
    let numbered = (0..10).map(|number| expected.join(format!("{name}_{number}.out")));
    std::iter::once(expected.join(format!("{name}.out")))
        .chain(numbered)
        .filter(|file| file.exists())
        .collect()
}

fn place(file: &Path, directory: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let target = directory.join(name);
    fs::write(&target, canonical(&String::from_utf8_lossy(&bytes)))
        .with_context(|| format!("cannot write {}", target.display()))?;
    Ok(target)
}

/// The canonical form of what psql or the isolation tester printed.
fn canonical(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut out = Vec::<String>::new();
    let mut is_ordered = false;
    let mut at = 0;
    while at < lines.len() {
        if let Some(end) = table_end(&lines, at) {
            out.extend(table(&lines[at..=end], is_ordered));
            is_ordered = false;
            at = end + 1;
        } else if let Some(end) = bare_plan_end(&lines, at) {
            out.extend([lines[at].to_owned(), PLAN.to_owned()]);
            at = end;
        } else if is_remark_on_plan(lines[at]) {
            at += 1;
        } else {
            // An isolation spec names its steps without their text where they are short.
            is_ordered |= lines[at].to_ascii_lowercase().contains("order by");
            out.push(lines[at].to_owned());
            at += 1;
        }
    }
    out.join("\n") + "\n"
}

/// The end of the table whose heading is line `at`, if there is one: heading, rule, rows, count.
fn table_end(lines: &[&str], at: usize) -> Option<usize> {
    let rule = lines.get(at + 1)?;
    if !is_heading(lines[at], rule) {
        return None;
    }
    // The output of psql's \d has no count; it ends at an empty line.
    let rows = &lines[at + 2..];
    let end = rows
        .iter()
        .position(|line| line.is_empty() || is_count(line))?;
    is_count(rows[end]).then_some(at + 2 + end)
}

/// psql's headings begin with a space, the isolation tester's are as long as the rule; a rule of
/// dashes below anything else is a comment.
fn is_heading(line: &str, rule: &str) -> bool {
    let is_rule = rule.contains('-') && rule.chars().all(|c| c == '-' || c == '+');
    let is_psql = line.starts_with(' ') && rule.len() > 2;
    let is_tester = line.chars().count() == rule.len() && !line.ends_with(';');
    is_rule && !line.starts_with("--") && (is_psql || is_tester)
}

/// The end of a plan that psql prints without a heading (`\t`), below a statement that `\gexec`
/// made and echoes without a semicolon: at an empty line.
fn bare_plan_end(lines: &[&str], at: usize) -> Option<usize> {
    let is_statement = lines[at].starts_with("explain (") && !lines[at].ends_with(';');
    let first = lines.get(at + 1)?;
    if !is_statement || !first.starts_with(' ') {
        return None;
    }
    let length = lines[at + 1..].iter().position(|line| line.is_empty())?;
    Some(at + 1 + length)
}

/// The BRIN tests inspect their own plans, and report plans that they did not get. Their reports on
/// results begin with other words.
fn is_remark_on_plan(line: &str) -> bool {
    let rest = line.strip_prefix("WARNING:  did not get ");
    rest.is_some_and(|rest| {
        ["bitmap indexscan plan for ", "seqscan plan for "]
            .iter()
            .any(|plan| rest.starts_with(plan))
    })
}

fn is_count(line: &str) -> bool {
    let number = line
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(" rows)").or(rest.strip_suffix(" row)")));
    number.is_some_and(|digits| digits.parse::<u64>().is_ok())
}

fn table(lines: &[&str], is_ordered: bool) -> Vec<String> {
    let heading = lines[0].trim();
    if heading == "QUERY PLAN" || heading.starts_with("explain") {
        return vec![PLAN.to_owned()];
    }
    let last = lines.len() - 1;
    let mut rows = lines[2..last].to_vec();
    if !is_ordered {
        rows.sort_unstable();
    }
    let framed = lines[..2].iter().chain(&rows).chain(&lines[last..]);
    framed.map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_an_order_only_where_the_query_asks_for_one() {
        let free = "SELECT * FROM t;\n a \n---\n 2\n 1\n(2 rows)\n\n";
        let asked = free.replace("t;", "t ORDER BY a DESC;");
        assert_eq!(canonical(free), canonical(&free.replace("2\n 1", "1\n 2")));
        assert_eq!(canonical(&asked), asked);
        let both = asked + free;
        assert!(canonical(&both).ends_with(" 1\n 2\n(2 rows)\n\n"));
    }

    #[test]
    fn plans_do_not_count_and_values_and_errors_do() {
        let plan = "EXPLAIN SELECT 1;\n QUERY PLAN \n-----\n Seq Scan\n(1 row)\n";
        assert_eq!(canonical(plan), "EXPLAIN SELECT 1;\n(a plan)\n");
        let bare = "explain (costs off) select 1\n Seq Scan\n   Filter: x\n\n";
        let other = bare.replace("   Filter: x\n", "");
        assert_eq!(canonical(bare), canonical(&other));
        let remark = "WARNING:  did not get seqscan plan for (a,=,b)\n";
        assert_eq!(canonical(&format!("x\n{remark}y\n")), "x\ny\n");
        let result = "WARNING:  something not right in a: count 1\n";
        assert_eq!(canonical(result), result);
        let error = "SELECT 1/0;\nERROR:  division by zero\n";
        assert_eq!(canonical(error), error);
        let value = " a \n---\n 2\n(1 row)\n";
        assert_ne!(canonical(value), canonical(&value.replace('2', "3")));
    }

    #[test]
    fn only_a_heading_over_counted_rows_is_a_table() {
        for text in [
            "-- heading\n-----------\n b\n a\n(1 row)\n",
            "SELECT 1;\n--\n b\n a\n(1 row)\n",
            " Column \n--------\n b\n a\n\nSELECT 1;\n(1 row)\n",
        ] {
            assert_eq!(canonical(text), text);
        }
    }
}
