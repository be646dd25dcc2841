//! The command line: its commands, and the modules that run them.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::paths::Paths;
use crate::{bench, demo, doctor, install, instance, package, soak, test};

/// PostgreSQL tables with a heap hot side and a columnar cold side.
#[derive(Debug, Parser)]
#[command(
    name = "howdah",
    bin_name = "./howdah",
    version,
    arg_required_else_help = true
)]
#[command(after_help = "Environment:
  HOWDAH_HOME       where the server's data, socket, logs and extension files live
  HOWDAH_PORT       the server's port (default 54418; the next free one if it is taken)
  HOWDAH_PG_CONFIG  the pg_config of a PostgreSQL 18 to use instead of finding one")]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start the private server, and create the database and extension if they are new
    Up,
    /// Stop the private server; its data stay
    Down,
    /// Show whether the server runs, where, and how large its databases are
    Status,
    /// Open psql on the private server; all arguments go to psql
    Psql {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Check what this machine lacks, from disk space to a round trip through a howdah table
    Doctor,
    /// Load a year of real flights as heap and as howdah, query both, and compare
    Demo(demo::Options),
    /// Measure howdah against heap, and DuckDB if it can be had, on five million rows
    Bench(bench::Options),
    /// Run every test; the last line is "N passed, N failed"
    Test(test::Options),
    /// Run the differential, bank and crash tests with new seeds, and PostgreSQL's subscription and
    /// recovery tests, until the time is up
    Soak(soak::Options),
    /// Build a release and copy it into a PostgreSQL 18 of your own
    Install(install::Options),
    /// Remove Howdah's files from a PostgreSQL 18 of your own
    Uninstall(install::UninstallOptions),
    /// Build a release and pack it as a .deb for Debian's or Ubuntu's postgresql-18
    Package(package::Options),
}

/// Runs one command; the exit code tells whether it succeeded, or found what it checks.
///
/// # Errors
/// The error that stopped the command before it had a result.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    let paths = Paths::from_environment()?;
    match arguments.command {
        Command::Up => instance::up(&paths).map(|()| ExitCode::SUCCESS),
        Command::Down => instance::down(&paths).map(|()| ExitCode::SUCCESS),
        Command::Status => instance::status(&paths),
        Command::Psql { arguments } => {
            instance::psql(&paths, &arguments).map(|never| match never {})
        }
        Command::Doctor => doctor::run(&paths),
        Command::Demo(options) => demo::run(&paths, &options),
        Command::Bench(options) => bench::run(&paths, &options),
        Command::Test(options) => test::run(&paths, &options),
        Command::Soak(options) => soak::run(&paths, &options),
        Command::Install(options) => install::run(&paths, &options),
        Command::Uninstall(options) => install::uninstall(&options),
        Command::Package(options) => package::run(&paths, &options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn psql_receives_its_own_options_untouched() {
        let arguments = Arguments::parse_from(["howdah", "psql", "-c", "select 1", "--csv"]);
        let Command::Psql { arguments } = arguments.command else {
            panic!("psql parsed as something else");
        };
        assert_eq!(arguments, ["-c", "select 1", "--csv"]);
    }
}
