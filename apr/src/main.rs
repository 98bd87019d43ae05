//! The `apr` command: parse, run, and one line for what went wrong.

use apr::cli::Cli;
use apr::jidoka::Diagnosis;
use apr::terminal::one_line;
use brick_runtime::contract::Violation;
use clap::Parser;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let told = if error.is::<Diagnosis>() || error.is::<Violation>() {
                // Several lines, whose texts are from the source code or printable.
                format!("stopped: {error:#}")
            } else {
                one_line(&format!("{error:#}"))
            };
            // `eprintln!` would panic where nobody reads: the exit code tells it all the same.
            let _ = writeln!(io::stderr(), "apr: {told}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<io::Error>();
    io.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
