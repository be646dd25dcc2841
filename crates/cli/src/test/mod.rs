//! `./howdah test`: every suite, each with a bar, and one plain line at the end.
//!
//! ```text
//!   format, lint      rustfmt and clippy over the workspace
//!   crates            cargo test of every crate that needs no server
//!   sql               tests/sql/*.sql against tests/sql/expected, by pg_regress
//!   regress           PostgreSQL's own suite with howdah as the default access method
//!   isolation         tests/isolation/specs, then PostgreSQL's own concurrency suite, likewise
//!   regress-cold      PostgreSQL's two suites again, with every inserted row cold at once
//!   isolation-cold
//!   regress-parallel  the first of these with queries in parallel workers: a sample, or all of it
//!                     with --only
//!   regress-vectorized  likewise, with every query by the vectorized engine that may be
//!   isolation-vectorized  the same with PostgreSQL's isolation suite
//!   contrib-cold      the suites of PostgreSQL's contrib modules and of PL/pgSQL, likewise
//!   contrib-vectorized  likewise, by the vectorized engine; only with --only
//!   tap               a sample of PostgreSQL's subscription and recovery tests, rows hot and cold
//!   server            tests/server: crash, standby, dump and restore, differential
//! ```
//!
//! Every server started here is a [`crate::scratch`] one. A step that cannot run because something
//! is not installed counts as skipped and reports why; it never counts as passed. In PostgreSQL's
//! own suites a test may differ only as a reviewed file describes ([`reviewed`]); with cold rows it
//! may also differ in its plans and in the order of rows without ORDER BY ([`canonical`]).

mod canonical;
mod cargo;
mod contrib;
mod crash_log;
mod judge;
mod perl;
mod pg_regress;
mod plan;
mod reviewed;
mod sql;
mod suite;
mod tally;
mod tap;

use std::process::ExitCode;
use std::time::Instant;

use self::contrib::Queries;
use self::suite::{Rows, Suite};
use crate::paths::Paths;
use crate::{install, scratch, units};

pub use cargo::SoakPrograms;
pub use plan::{Options, Step};
pub use tally::Tally;

/// Runs the chosen steps; exit code 0 only when nothing failed.
///
/// # Errors
/// When a release is asked for and cannot be built; an error within a step counts as a failure of
/// that step.
pub fn run(paths: &Paths, options: &Options) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    scratch::sweep(paths);
    if options.release {
        install::lend_release(paths)?;
    }
    let mut total = Tally::default();
    for step in options.steps() {
        let tally = run_step(paths, options, step).unwrap_or_else(|error| {
            eprintln!("  {}: {error:#}", step.title());
            Tally::one_failure(format!("{}: the step itself", step.title()))
        });
        total.add(tally);
    }
    if !total.failures.is_empty() {
        eprintln!("\nfailed:");
        for failure in &total.failures {
            eprintln!("  {failure}");
        }
    }
    eprintln!("all steps took {}", units::duration(started.elapsed()));
    println!("{total}");
    Ok(if total.is_success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Runs PostgreSQL's suites with cold rows, all of them: queries in parallel workers, and by the
/// vectorized engine.
///
/// # Errors
/// When a server cannot be prepared.
pub fn forced_suites(paths: &Paths) -> anyhow::Result<Tally> {
    let mut total = Tally::default();
    for step in [
        Step::RegressParallel,
        Step::RegressVectorized,
        Step::IsolationVectorized,
        Step::ContribVectorized,
    ] {
        let options = Options {
            only: vec![step],
            ..Options::default()
        };
        total.add(run_step(paths, &options, step)?);
    }
    Ok(total)
}

/// Runs PostgreSQL's subscription and recovery tests, all of them.
///
/// # Errors
/// When their servers cannot be prepared.
pub fn perl_tests(paths: &Paths, with_cold_rows: bool) -> anyhow::Result<Tally> {
    perl::run_all(
        paths,
        if with_cold_rows {
            Rows::Cold
        } else {
            Rows::Hot
        },
    )
}

fn run_step(paths: &Paths, options: &Options, step: Step) -> anyhow::Result<Tally> {
    match step {
        Step::Format => cargo::format(paths),
        Step::Lint => cargo::lint(paths),
        Step::Crates => cargo::crates(paths, &options.filters),
        Step::Sql => sql::run(paths, options, sql::Kind::Sql),
        Step::Regress => suite::run(paths, options, Suite::Regress, Rows::Hot),
        Step::Isolation => {
            let mut tally = sql::run(paths, options, sql::Kind::Specs)?;
            tally.add(suite::run(paths, options, Suite::Isolation, Rows::Hot)?);
            Ok(tally)
        }
        Step::RegressCold => suite::run(paths, options, Suite::Regress, Rows::Cold),
        Step::IsolationCold => suite::run(paths, options, Suite::Isolation, Rows::Cold),
        Step::RegressParallel => suite::run(paths, options, Suite::RegressParallel, Rows::Cold),
        Step::RegressVectorized => suite::run(paths, options, Suite::RegressVectorized, Rows::Cold),
        Step::IsolationVectorized => {
            suite::run(paths, options, Suite::IsolationVectorized, Rows::Cold)
        }
        Step::ContribCold => contrib::run(paths, options, Queries::Planned),
        Step::ContribVectorized => contrib::run(paths, options, Queries::Vectorized),
        Step::Tap => perl::run(paths, options),
        Step::Server => cargo::server(paths, &options.filters),
    }
}
