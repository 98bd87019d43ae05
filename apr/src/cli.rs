//! The command line: one enum of commands, each with its own arguments.

use crate::commands::{bench, doctor, inspect, profile, run, tokenize, trace};
use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  apr run --prompt 'Once upon a time'      continue a text with the built-in model
  apr profile --model model.gguf           where the time goes, brick by brick
  apr bench --model model.gguf -t 1,2      how fast it reads and writes
  apr trace --attention --logits           what each head looks at, which layer decides
  apr inspect model.gguf                   what is in the file, and whether it can be run
  apr inspect --check model.gguf           also look for NaN and infinite scales
  apr tokenize --model model.gguf --text 'Hello, world!'
  apr doctor                               what this machine can measure

`apr COMMAND --help` explains a command. Errors are one line on stderr, with exit code 1;
mistakes on the command line have exit code 2.";

/// Runs GGUF language models and shows where the time goes.
#[derive(Debug, Parser)]
#[command(name = "apr", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Profile(profile::Args),
    Bench(bench::Args),
    Trace(trace::Args),
    Inspect(inspect::Args),
    Tokenize(tokenize::Args),
    Doctor(doctor::Args),
}

impl Cli {
    /// Runs the command that was asked for.
    ///
    /// # Errors
    /// What stopped it; with `{:#}` one line.
    pub fn run(self) -> anyhow::Result<()> {
        match self.command {
            Command::Run(args) => run::run(&args),
            Command::Bench(args) => bench::run(&args),
            Command::Profile(args) => profile::run(&args),
            Command::Trace(args) => trace::run(&args),
            Command::Inspect(args) => inspect::run(&args),
            Command::Tokenize(args) => tokenize::run(&args),
            Command::Doctor(args) => doctor::run(&args),
        }
    }
}
