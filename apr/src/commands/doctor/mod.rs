//! `apr doctor`: what of this machine the measurements depend on, and what to do about it.

mod simd;

use self::simd::{AmxReport, Kernels};
use crate::terminal::one_line;
use brick_runtime::tracer::{BackendStatus, backends};
use brick_runtime::{BUILT_WITHOUT, BrickProfiler, Figure};
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::thread;

/// Version of the JSON that `--format json` prints.
const SCHEMA: &str = "apr.doctor/1";

const AFTER_HELP: &str = "\
Each way to see system calls is tried on this process, here and now; one that fails is shown with
the system's error number and what helps. What it costs is measured.
What the kernels use of the CPU is shown, and what keeps them from AMX.

Examples:
  apr doctor
  apr doctor --format json | jq '.backends[] | select(.problem)'";

/// Show what this machine can measure, and what keeps it from measuring more.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    /// What to print: text for people, or one JSON object (schema "apr.doctor/1")
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Human,
    Json,
}

/// What was found, and what `--format json` prints; null where it is not known.
#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    kernel: Option<String>,
    cpu: Option<String>,
    /// Cores that this process may use.
    cores: Option<usize>,
    kernels: Kernels,
    amx: AmxReport,
    clock: Clock,
    /// Nanoseconds that one call of an annotated function costs.
    ns_per_hook: Figure,
    backends: Vec<BackendStatus>,
}

#[derive(Debug, Serialize)]
struct Clock {
    /// What bricks are timed with; null in a build without `visualization`.
    bricks: Option<&'static str>,
    /// What the kernel keeps time with.
    kernel: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// Output that cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let report = examine();
    let mut out = io::stdout().lock();
    match args.format {
        Format::Human => print(&report, &mut out)?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    Ok(())
}

fn examine() -> Report {
    let profiler = BrickProfiler::global();
    Report {
        schema: SCHEMA,
        kernel: first_line("/proc/sys/kernel/osrelease"),
        cpu: cpu(),
        cores: thread::available_parallelism().ok().map(Into::into),
        kernels: Kernels::examine(),
        amx: AmxReport::examine(),
        clock: Clock {
            bricks: profiler.clock(),
            kernel: first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        },
        ns_per_hook: profiler.snapshot().cost().ns_per_hook,
        backends: backends(),
    }
}

fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.lines().next().map(|line| one_line(line.trim()))
}

/// The processor's name, where the kernel tells one.
fn cpu() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let name = text.lines().find(|line| line.starts_with("model name"))?;
    Some(one_line(name.split_once(':')?.1.trim()))
}

fn print(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let or_not = |text: &Option<String>| text.clone().unwrap_or_else(|| "n/a".into());
    writeln!(out, "kernel    {}", or_not(&report.kernel))?;
    let cores = report.cores.map_or("n/a".into(), |n| n.to_string());
    writeln!(
        out,
        "cpu       {}, {cores} cores usable",
        or_not(&report.cpu)
    )?;
    report.kernels.print(out)?;
    report.amx.print(out)?;
    let clock = report
        .clock
        .bricks
        .map_or_else(|| format!("n/a ({BUILT_WITHOUT})"), String::from);
    writeln!(
        out,
        "clock     {clock} for bricks, {} in the kernel",
        or_not(&report.clock.kernel)
    )?;
    let hook = &report.ns_per_hook;
    match hook.value() {
        Some(ns) => writeln!(out, "profiler  {ns:.1} ns a call ({})", hook.provenance())?,
        None => writeln!(out, "profiler  n/a ({})", hook.provenance())?,
    }
    writeln!(out, "\nsystem calls, best first")?;
    writeln!(out, "backend  state        µs/system call  ms/traced call")?;
    for status in &report.backends {
        backend(status, out)?;
    }
    match report
        .backends
        .iter()
        .find(|status| status.problem.is_none())
    {
        Some(best) => writeln!(out, "traced calls are observed with {}", best.backend)?,
        None => writeln!(out, "no call can be traced")?,
    }
    write!(
        out,
        "derived: µs/system call (a cheap one, observed − not observed); measured: ms/traced call \
         (to start and stop observing, outside the call's time)"
    )?;
    writeln!(out)
}

/// One row, and below it what is wrong.
fn backend(status: &BackendStatus, out: &mut impl Write) -> io::Result<()> {
    let cell = |figure: &Figure, unit: f64, decimals: usize| match figure.value() {
        Some(ns) => format!("{:.decimals$}", ns / unit),
        None => "–".into(),
    };
    writeln!(
        out,
        "{:<7}  {:<11}  {:>14}  {:>14}",
        status.backend,
        if status.problem.is_none() {
            "available"
        } else {
            "unavailable"
        },
        cell(&status.added_ns, 1e3, 2),
        cell(&status.session_ns, 1e6, 3),
    )?;
    let Some(problem) = &status.problem else {
        return Ok(());
    };
    let errno = problem
        .errno
        .map_or(String::new(), |errno| format!(" (errno {errno})"));
    writeln!(out, "         why: {}{errno}", one_line(&problem.why))?;
    match &problem.fix {
        Some(fix) => writeln!(out, "         fix: {fix}"),
        None => Ok(()),
    }
}
