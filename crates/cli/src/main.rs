//! The entry point: arguments in, exit code out. Errors become one message on stderr.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    exit_when_stdout_is_closed();
    let arguments = howdah_cli::command::Arguments::parse();
    match howdah_cli::command::run(arguments) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("howdah: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// `./howdah status | head -1`: the reader of the output has exited, and there is no error to
/// report.
fn exit_when_stdout_is_closed() {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let is_closed_pipe =
            |text: &str| text.starts_with("failed printing to std") && text.contains("Broken pipe");
        if panic.payload_as_str().is_some_and(is_closed_pipe) {
            // As if by SIGPIPE.
            std::process::exit(128 + 13);
        }
        usual(panic);
    }));
}
