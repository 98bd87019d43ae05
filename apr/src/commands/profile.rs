//! `apr profile`: where the time of a prompt and of each further token goes.

use super::collector::{Failed, Generated, Subject};
use super::engine::{self, ComputeArgs, Engine, PromptArg};
use super::escalate::{Escalated, Escalation};
use super::escalate_human;
use super::record::{RecordArgs, Recorded, all_told};
use super::roofline::{self, Machine};
use crate::model::{Generator, Session};
use crate::model_file::ModelArg;
use crate::progress::Progress;
use crate::terminal::one_line;
use anyhow::bail;
use brick_kernels::ceilings::MachineCeilings;
use brick_kernels::sampling::{Sampler, SamplerConfig};
use brick_runtime::timeline::{PathNode, Paths, Timeline, span_scope};
use brick_runtime::{BrickProfiler, Figure, Snapshot};
use serde::Serialize;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Version of the JSON that `--format json` prints.
const SCHEMA: &str = "apr.profile/1";

/// The phases, also as spans of the timeline.
const PREFILL: &str = "prefill";
const DECODE: &str = "decode";

const AFTER_HELP: &str = "\
Prefill (reading the prompt, all tokens at once) and decode (one token after the other) are
reported apart. Shares are of wall-clock time; what no brick covers is left over and shown.
Sampling is greedy, and goes on where the model would end the text.

Examples:
  apr profile
  apr profile --model gemma-3-270m-q4_k_m.gguf --tokens 64
  apr profile --model m.gguf --format json > profile.json
  apr profile --by path                    the same kernel, told apart by what called it
  apr profile --escalate                   what slow and unsteady bricks wait for
  apr profile --export flamegraph=profile.svg
  apr profile --roofline --export graph=step.txt    how far each kernel is from what is possible";

/// Show where the time goes, brick by brick.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    model: ModelArg,

    #[command(flatten)]
    prompt: PromptArg,

    /// Tokens to generate, and to average over
    #[arg(short = 'n', long, value_name = "N", default_value = "32")]
    tokens: NonZeroUsize,

    /// Tokens to generate before, unmeasured, after an unmeasured prompt
    #[arg(long, value_name = "N", default_value_t = 4)]
    warmup: usize,

    #[command(flatten)]
    compute: ComputeArgs,

    /// What to print: a table for people, or one JSON object (schema "apr.profile/1")
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,

    /// What a row is: a brick, or also a path to it. Paths and exports record every call, which costs
    /// more than counting: the times say so
    #[arg(long, value_enum, default_value_t = By::Brick)]
    by: By,

    /// Measure what this machine can do, for a second or two before the run, and show how far each brick
    /// is from it; exported graphs say so too
    #[arg(long)]
    roofline: bool,

    /// While decoding, look at calls of bricks whose times vary or that miss their budget by far, system
    /// call by system call on every thread. They are left out of the figures and shown below them
    #[arg(long)]
    escalate: bool,

    #[command(flatten)]
    record: RecordArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
enum By {
    Brick,
    Path,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Human,
    Json,
}

/// What was measured, and what `--format json` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: &'static str,
    model: &'a str,
    architecture: &'static str,
    threads: usize,
    warmup_tokens: usize,
    /// With `--roofline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<Machine>,
    prefill: Phase,
    decode: Phase,
}

/// One part of a run. The profiler was reset before and read after it.
#[derive(Debug, Serialize)]
struct Phase {
    tokens: usize,
    /// Wall clock.
    wall_ns: Figure,
    tokens_per_s: Figure,
    /// Share of the wall time that bricks explain.
    coverage: Figure,
    bricks: Snapshot,
    /// With `--roofline`.
    #[serde(skip_serializing_if = "Option::is_none")]
    roofline: Option<Vec<roofline::Row>>,
    /// With `--by path`.
    #[serde(skip_serializing_if = "Option::is_none")]
    paths: Option<Vec<PathRow>>,
    #[serde(skip)]
    table: Option<Paths>,
    /// With `--escalate`.
    #[serde(skip_serializing_if = "Option::is_none")]
    escalated: Option<Escalated>,
}

/// All calls at one path.
#[derive(Debug, Serialize)]
struct PathRow {
    path: String,
    count: u64,
    total_ns: Figure,
    self_ns: Figure,
}

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with the arguments, the file or the model; a build without `visualization`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let profiler = BrickProfiler::global();
    if let Some(why) = profiler.snapshot().unavailable() {
        bail!("nothing to profile with: apr was {why}; build it with default features");
    }
    engine::with(&args.model, &args.compute, |engine| {
        let machine = args.roofline.then(roofline::measure).transpose()?;
        let subject = Subject {
            command: "apr profile",
            model: engine.name,
        };
        let recorder = args.record.start(&subject, args.by == By::Path)?;
        let ids = engine.encode(&args.prompt.text)?;
        // The first token follows from the prompt alone; each measured one takes a forward pass.
        let longest = args.tokens.get().max(args.warmup).saturating_add(1);
        let mut session = Session::new(&engine.model, ids.len().saturating_add(longest))?;
        let mut run = Run {
            engine,
            ids: &ids,
            input_tokens: 0,
            output_tokens: 0,
        };
        let phases = engine::caught(|| run.measure(args, profiler, &mut session));
        let stopped = recorder.stop();
        let mut phases = phases.map_err(|error| engine.diagnose(error, session.fed()));
        let failed = phases.as_ref().err().map(Failed::of);
        let recorded = stopped.spans(&Generated {
            subject,
            input_tokens: run.input_tokens,
            output_tokens: run.output_tokens,
            failed: failed.as_ref(),
        });
        let ceilings = machine.as_ref().map(|machine| machine.all.ceilings());
        let recorded = recorded.map(|recorded| recorded.under(ceilings));
        let mut recorded = recorded;
        if let (Some(recorded), Ok([_, decode])) = (&mut recorded, &mut phases) {
            let escalated = decode.escalated.as_mut();
            recorded.add(escalated.map(Escalated::take_spans).unwrap_or_default());
        }
        match phases {
            Ok(phases) => report(args, engine, machine.as_ref(), phases, recorded),
            Err(error) => {
                let delivered = recorded.map_or(Ok(()), Recorded::deliver);
                all_told([Err(error), delivered])
            }
        }
    })
}

/// Prints the phases, and hands out what was recorded.
fn report(
    args: &Args,
    engine: &Engine<'_>,
    machine: Option<&MachineCeilings>,
    [mut prefill, mut decode]: [Phase; 2],
    recorded: Option<Recorded<'_>>,
) -> anyhow::Result<()> {
    if let Some(recorded) = &recorded {
        recorded.write()?;
        if let Some(timeline) = recorded.timeline().filter(|_| args.by == By::Path) {
            prefill.add_paths(timeline, PREFILL);
            decode.add_paths(timeline, DECODE);
        }
    }
    if let Some(ceilings) = machine.map(|machine| machine.all.ceilings()) {
        for phase in [&mut prefill, &mut decode] {
            phase.roofline = Some(roofline::rows(&phase.bricks, ceilings));
        }
    }
    let report = Report {
        schema: SCHEMA,
        model: engine.name,
        architecture: engine.architecture(),
        threads: rayon::current_num_threads(),
        warmup_tokens: args.warmup,
        machine: machine.map(Into::into),
        prefill,
        decode,
    };
    let mut out = io::stdout().lock();
    match args.format {
        Format::Human => print(&report, &mut out)?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
            writeln!(out)?;
        }
    }
    drop(out);
    recorded.map_or(Ok(()), Recorded::send)
}

/// A run to be measured, and the tokens so far: of the warm-up too.
struct Run<'a> {
    engine: &'a Engine<'a>,
    ids: &'a [u32],
    input_tokens: usize,
    output_tokens: usize,
}

impl Run<'_> {
    fn measure(
        &mut self,
        args: &Args,
        profiler: &BrickProfiler,
        session: &mut Session<'_>,
    ) -> anyhow::Result<[Phase; 2]> {
        let tokens = args.tokens.get();
        let progress = Progress::new("warming up", 0);
        let span = span_scope("warm-up");
        self.prefill(session, |_| {})?;
        self.decode(session, args.warmup, || {}, || {})?;
        session.clear();
        drop((span, progress));

        let progress = Progress::new("reading the prompt", self.ids.len());
        let span = span_scope(PREFILL);
        profiler.reset();
        let clock = Instant::now();
        self.prefill(session, |done| progress.set(done))?;
        let wall = clock.elapsed();
        drop(span);
        let prefill = Phase::new(profiler, self.ids.len(), measured(wall));
        drop(progress);

        let progress = Progress::new("generating", tokens);
        let (mut clock, mut span) = (Instant::now(), None);
        let escalation = args
            .escalate
            .then(|| Escalation::start(args.record.wants_spans()));
        let mut escalation = escalation.transpose()?;
        let started = || {
            span = Some(span_scope(DECODE));
            profiler.reset();
            clock = Instant::now();
        };
        self.decode(session, tokens, started, || {
            if let Some(escalation) = &mut escalation {
                escalation.look();
            }
        })?;
        let wall = clock.elapsed();
        drop(span);
        let escalated = escalation.map(Escalation::finish);
        let wall = without(measured(wall), escalated.as_ref());
        let decode = Phase {
            escalated,
            ..Phase::new(profiler, tokens, wall)
        };
        drop(progress);
        Ok([prefill, decode])
    }

    /// Reads the prompt.
    fn prefill(
        &mut self,
        session: &mut Session<'_>,
        progress: impl FnMut(usize),
    ) -> anyhow::Result<()> {
        self.input_tokens += self.ids.len();
        session.feed_with(self.ids, progress)?;
        Ok(())
    }

    /// Generates one token, calls `started`, and generates `n` more, with a call of `stepped` after each.
    fn decode(
        &mut self,
        session: &mut Session<'_>,
        n: usize,
        started: impl FnOnce(),
        mut stepped: impl FnMut(),
    ) -> anyhow::Result<()> {
        let sampler = Sampler::new(SamplerConfig::GREEDY)?;
        let tokenizer = &self.engine.tokenizer;
        let generator = Generator::new(session, tokenizer, sampler, self.ids, n + 1);
        let mut generator = generator.ignore_end();
        if generator.step()?.is_some() {
            self.output_tokens += 1;
        }
        started();
        while generator.step()?.is_some() {
            self.output_tokens += 1;
            stepped();
        }
        Ok(())
    }
}

impl Phase {
    fn new(profiler: &BrickProfiler, tokens: usize, wall_ns: Figure) -> Self {
        profiler.add_tokens(tokens as u64);
        let bricks = profiler.snapshot();
        let ns = wall_ns.value().unwrap_or(f64::NAN);
        Self {
            tokens,
            wall_ns,
            tokens_per_s: Figure::Derived {
                value: tokens as f64 / (ns / 1e9),
                from: "tokens / measured wall time",
            },
            coverage: bricks.coverage(ns),
            bricks,
            roofline: None,
            paths: None,
            table: None,
            escalated: None,
        }
    }

    /// Of what was in the span `name`.
    fn add_paths(&mut self, timeline: &Timeline, name: &str) {
        let paths = timeline.paths().inside(name);
        let ns = |ns: u64| Figure::Measured(ns as f64);
        let row = |(index, node): (usize, &PathNode)| PathRow {
            path: paths.names(index).join(";"),
            count: node.count,
            total_ns: ns(node.total_ns),
            self_ns: ns(node.self_ns),
        };
        self.paths = Some(paths.nodes.iter().enumerate().map(row).collect());
        self.table = Some(paths);
    }

    fn print(&self, name: &'static str, threads: usize, out: &mut impl Write) -> io::Result<()> {
        let wall_ns = self.wall_ns.value().unwrap_or(f64::NAN);
        let (tokens, ms) = (self.tokens, wall_ns / 1e6);
        writeln!(
            out,
            "\n{name}: {tokens} tokens in {ms:.2} ms ({}); {:.1} tokens/s, {:.1} µs/token (derived)",
            self.wall_ns.provenance(),
            self.tokens_per_s,
            1e3 * ms / tokens as f64,
        )?;
        let table = self.bricks.table().share_of(name, wall_ns);
        writeln!(out, "{}", table.per_token(tokens as u64))?;
        if let Some(rows) = &self.roofline {
            roofline::print(rows, name, threads, out)?;
        }
        if let Some(paths) = &self.table {
            writeln!(
                out,
                "\n{name} by path (times measured, on the thread that runs the model; shares derived)\n{paths}"
            )?;
        }
        match &self.escalated {
            Some(escalated) => escalate_human::print(escalated, name, out),
            None => Ok(()),
        }
    }
}

/// In nanoseconds.
fn measured(wall: Duration) -> Figure {
    Figure::Measured(wall.as_secs_f64() * 1e9)
}

/// What is left of the wall time when nobody looked at any call.
fn without(wall_ns: Figure, escalated: Option<&Escalated>) -> Figure {
    match escalated.and_then(|escalated| escalated.left_out_ns.value()) {
        Some(left_out) => Figure::Derived {
            value: wall_ns.value().unwrap_or(f64::NAN) - left_out,
            from: "wall time − escalated calls and looking for them",
        },
        None => wall_ns,
    }
}

fn print(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "model    {}, architecture {}",
        one_line(report.model),
        report.architecture
    )?;
    writeln!(out, "threads  {}", report.threads)?;
    if let Some(machine) = &report.machine {
        machine.print(out)?;
    }
    report.prefill.print(PREFILL, report.threads, out)?;
    report.decode.print(DECODE, report.threads, out)
}
