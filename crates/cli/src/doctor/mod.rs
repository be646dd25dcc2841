//! `./howdah doctor`: every prerequisite, one line each, with a cure for what is missing.
//!
//! ```text
//!   machine    disk, memory, rights, the account that runs servers
//!   tools      Rust, C compiler, libclang, Python with pip
//!   postgres   the programs, the headers, the sources of the test suites
//!   server     the port; its roles; the extension loads; a round trip through a howdah table
//! ```
//!
//! It changes nothing: its server is a scratch one, and whatever it writes is deleted again.

mod checks;
mod round_trip;

use std::fmt;
use std::process::ExitCode;

use crate::paths::Paths;
use crate::scratch;

/// The state of one prerequisite.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Ok,
    /// Something works less well, or a part does not work that is not always needed.
    Warn {
        cure: String,
    },
    Fail {
        cure: String,
    },
}

/// One line of the doctor's report.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    subject: &'static str,
    state: State,
    detail: String,
}

impl Finding {
    fn ok(subject: &'static str, detail: impl Into<String>) -> Self {
        Self {
            subject,
            state: State::Ok,
            detail: detail.into(),
        }
    }

    fn warn(subject: &'static str, detail: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            subject,
            state: State::Warn { cure: cure.into() },
            detail: detail.into(),
        }
    }

    fn fail(subject: &'static str, detail: impl Into<String>, cure: impl Into<String>) -> Self {
        Self {
            subject,
            state: State::Fail { cure: cure.into() },
            detail: detail.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, cure) = match &self.state {
            State::Ok => ("ok  ", None),
            State::Warn { cure } => ("warn", Some(cure)),
            State::Fail { cure } => ("FAIL", Some(cure)),
        };
        write!(f, "{word}  {:<16} {}", self.subject, self.detail)?;
        if let Some(cure) = cure {
            write!(f, "\n      {:<16} cure: {cure}", "")?;
        }
        Ok(())
    }
}

/// Exit code 1 when a check failed; a warning is not a failure.
///
/// # Errors
/// None: whatever is wrong is a finding.
pub fn run(paths: &Paths) -> anyhow::Result<ExitCode> {
    scratch::sweep(paths);
    let mut fail_count = 0;
    let mut warn_count = 0;
    for check in checks::ALL
        .into_iter()
        .chain([round_trip::check as checks::Check])
    {
        for finding in check(paths) {
            match finding.state {
                State::Ok => {}
                State::Warn { .. } => warn_count += 1,
                State::Fail { .. } => fail_count += 1,
            }
            println!("{finding}");
        }
    }
    println!("{}", verdict(fail_count, warn_count));
    Ok(if fail_count == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn verdict(fail_count: usize, warn_count: usize) -> String {
    match (fail_count, warn_count) {
        (0, 0) => "everything is in order".to_owned(),
        (0, warnings) => format!("it will work; warnings: {warnings}"),
        (failures, _) => format!("failed checks: {failures}; the first cure may mend others too"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_amiss_comes_with_its_cure() {
        let text = Finding::fail("disk", "1 MB free", "free some space").to_string();
        assert!(text.starts_with("FAIL  disk") && text.ends_with("cure: free some space"));
        assert!(!Finding::ok("disk", "plenty").to_string().contains("cure"));
    }

    #[test]
    fn warnings_alone_do_not_fail() {
        assert_eq!(verdict(0, 2), "it will work; warnings: 2");
        assert!(verdict(1, 0).starts_with("failed"));
    }
}
