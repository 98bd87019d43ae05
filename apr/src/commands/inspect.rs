//! `apr inspect`: what is in a GGUF file, and what it lacks.

use crate::inspect::{Problem, Report};
use crate::model_file::ModelFile;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Exits with 1 when the file cannot be read, when something is missing that its architecture
needs, or when --check finds a fault. Without --check no tensor data is read.

Examples:
  apr inspect model.gguf
  apr inspect --check model.gguf
  apr inspect --json model.gguf | jq '.totals'";

/// Show metadata, tensors, sizes, and what a model lacks to be run.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// GGUF file [default: a built-in tiny llama with random weights]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,

    /// Read all tensors and look for scales (in F32, F16 and BF16: values) that are NaN or infinite
    #[arg(long)]
    check: bool,

    /// Print JSON (schema "apr.inspect/1") instead of text
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// An unreadable file; a file with problems, after the report has been printed.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let file = ModelFile::open(args.file.as_deref())?;
    let gguf = file.parse()?;
    let mut report = Report::new(file.name(), &gguf);
    if args.check {
        report.check(&gguf);
    }
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        write!(out, "{report}")?;
    }
    out.flush()?;
    match report.problems() {
        [] => Ok(()),
        [Problem { message, .. }] => anyhow::bail!("{}: {message}", file.name()),
        [Problem { message, .. }, rest @ ..] => {
            anyhow::bail!("{}: {message} (and {} more)", file.name(), rest.len())
        }
    }
}
