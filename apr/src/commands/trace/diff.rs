//! `apr trace diff`: where two traces part.

use crate::trace::{Comparison, Recorded, Tolerance};
use anyhow::{Result, bail};
use std::io::{self, Write};
use std::path::PathBuf;

/// Find the first step and layer where two traces part; the exit code is 1 where they do.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Record each with `apr run --trace-level layer --trace-output FILE`: of two models, builds, numbers
of threads or sampling settings. Tensors are compared by position, layer and name: their shapes,
counts of NaN and infinite values, min, max, mean, std and first four values.

Examples:
  apr trace diff before.json after.json
  apr trace diff q4.json q8.json --tolerance 0.05")]
pub(super) struct Args {
    /// A trace (schema apr.trace/1)
    a: PathBuf,
    /// The trace to compare with it
    b: PathBuf,
    /// How far numbers may be apart, relative to the tensor's largest magnitude
    #[arg(long, value_name = "T", default_value_t = 1e-4)]
    tolerance: f64,
}

/// Runs the command.
///
/// # Errors
/// If a file is no trace, or the traces part.
pub(super) fn run(args: &Args) -> Result<()> {
    if !(args.tolerance >= 0.0 && args.tolerance.is_finite()) {
        bail!("--tolerance is {}, expected 0 or more", args.tolerance);
    }
    let (a, b) = (Recorded::read(&args.a)?, Recorded::read(&args.b)?);
    let comparison = Comparison::new(&a, &b, Tolerance(args.tolerance));
    writeln!(io::stdout().lock(), "{comparison}")?;
    if !comparison.same() {
        bail!("{}", comparison.headline());
    }
    Ok(())
}
