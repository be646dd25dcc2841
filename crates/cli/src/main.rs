//! The edge: arguments in, exit code out. Errors become one message on stderr.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let arguments = howdah_cli::command::Arguments::parse();
    match howdah_cli::command::run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("howdah: {error:#}");
            ExitCode::FAILURE
        }
    }
}
