//! Crashes that a server's log reports. A backend that crashes ends the suite's other sessions too,
//! so the failed tests are rarely the cause: the statement in the log is.

use std::fs;
use std::path::Path;

use super::tally::Tally;
use crate::progress::Progress;

/// Counts every crash as a failure of the step, and shows what was running.
pub(super) fn count_crashes(title: &str, log: &Path, progress: &Progress, tally: &mut Tally) {
    let text = fs::read(log).unwrap_or_default();
    for crash in crashes(&String::from_utf8_lossy(&text)) {
        progress.line(&format!("  {title}: the server crashed: {crash}"));
        tally.fail(format!("{title}: server crash: {crash}"));
    }
}

/// One line for each crash: how the process died and, if the log has it, what it was doing.
fn crashes(log: &str) -> Vec<String> {
    let mut found = Vec::<String>::new();
    for line in log.lines() {
        if let Some(at) = line.find("was terminated by signal ") {
            found.push(line[at + "was terminated by ".len()..].to_owned());
        } else if let Some(at) = line.find("PANIC:  ") {
            found.push(line[at..].to_owned());
        } else if let (Some((_, statement)), Some(last)) = (
            line.split_once("Failed process was running: "),
            found.last_mut(),
        ) {
            last.push_str(", running: ");
            last.push_str(statement);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crash_is_named_with_its_statement() {
        let log = "LOG:  ready\n\
            LOG:  client backend (PID 1) was terminated by signal 11: Segmentation fault\n\
            DETAIL:  Failed process was running: ANALYZE t;\n\
            LOG:  terminating any other active server processes\n";
        assert_eq!(
            crashes(log),
            ["signal 11: Segmentation fault, running: ANALYZE t;"]
        );
        assert!(crashes("LOG:  ready\nERROR:  no such table\n").is_empty());
    }
}
