//! `apr profile`: where the time of a prompt and of each further token goes.

use super::engine::{self, Engine, ThreadArgs};
use crate::model::{Generator, Session};
use crate::model_file::ModelArg;
use crate::progress::Progress;
use crate::terminal::one_line;
use anyhow::bail;
use brick_kernels::sampling::{Sampler, SamplerConfig};
use brick_runtime::{BrickProfiler, Figure, Snapshot};
use serde::{Serialize, Serializer};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// Version of the JSON that `--format json` prints.
const SCHEMA: &str = "apr.profile/1";

const AFTER_HELP: &str = "\
Prefill (reading the prompt, all tokens at once) and decode (one token after the other) are
reported apart. Shares are of wall-clock time; what no brick covers is left over and shown.
Sampling is greedy, and goes on where the model would end the text.

Examples:
  apr profile
  apr profile --model gemma-3-270m-q4_k_m.gguf --tokens 64
  apr profile --model m.gguf --format json > profile.json";

/// Show where the time goes, brick by brick.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    model: ModelArg,

    /// Text to read
    #[arg(
        short,
        long,
        value_name = "S",
        allow_hyphen_values = true,
        default_value = "The quick brown fox jumps over the lazy dog."
    )]
    prompt: String,

    /// Tokens to generate, and to average over
    #[arg(short = 'n', long, value_name = "N", default_value = "32")]
    tokens: NonZeroUsize,

    /// Tokens to generate before, unmeasured, after an unmeasured prompt
    #[arg(long, value_name = "N", default_value_t = 4)]
    warmup: usize,

    #[command(flatten)]
    threads: ThreadArgs,

    /// What to print: a table for people, or one JSON object (schema "apr.profile/1")
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
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
    prefill: Phase,
    decode: Phase,
}

/// One part of a run. The profiler was reset before and read after it.
#[derive(Debug, Serialize)]
struct Phase {
    tokens: usize,
    /// Wall clock.
    #[serde(serialize_with = "measured")]
    wall_ns: f64,
    tokens_per_s: Figure,
    /// Share of the wall time that bricks explain.
    coverage: Figure,
    bricks: Snapshot,
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
    engine::with(&args.model, &args.threads, |engine| {
        let report = measure(args, engine, profiler)?;
        let mut out = io::stdout().lock();
        match args.format {
            Format::Human => print(&report, &mut out)?,
            Format::Json => {
                serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
                writeln!(out)?;
            }
        }
        Ok(())
    })
}

fn measure<'a>(
    args: &Args,
    engine: &Engine<'a>,
    profiler: &BrickProfiler,
) -> anyhow::Result<Report<'a>> {
    let ids = engine.encode(&args.prompt)?;
    let tokens = args.tokens.get();
    // The first token follows from the prompt alone; each measured one takes a forward pass.
    let longest = tokens.max(args.warmup).saturating_add(1);
    let mut session = Session::new(&engine.model, ids.len().saturating_add(longest))?;

    let progress = Progress::new("warming up", 0);
    session.feed(&ids)?;
    decode(engine, &mut session, &ids, args.warmup, || {})?;
    session.clear();
    drop(progress);

    let progress = Progress::new("reading the prompt", ids.len());
    profiler.reset();
    let clock = Instant::now();
    session.feed_with(&ids, |done| progress.set(done))?;
    let prefill = Phase::new(profiler, ids.len(), clock.elapsed());
    drop(progress);

    let progress = Progress::new("generating", tokens);
    let mut clock = Instant::now();
    decode(engine, &mut session, &ids, tokens, || {
        profiler.reset();
        clock = Instant::now();
    })?;
    let decode = Phase::new(profiler, tokens, clock.elapsed());
    drop(progress);

    Ok(Report {
        schema: SCHEMA,
        model: engine.name,
        architecture: engine.architecture(),
        threads: rayon::current_num_threads(),
        warmup_tokens: args.warmup,
        prefill,
        decode,
    })
}

/// Generates one token, calls `started`, and generates `n` more.
fn decode(
    engine: &Engine<'_>,
    session: &mut Session<'_>,
    prompt: &[u32],
    n: usize,
    started: impl FnOnce(),
) -> anyhow::Result<()> {
    let sampler = Sampler::new(SamplerConfig::GREEDY)?;
    let generator = Generator::new(session, &engine.tokenizer, sampler, prompt, n + 1);
    let mut generator = generator.ignore_end();
    generator.step()?;
    started();
    while generator.step()?.is_some() {}
    Ok(())
}

impl Phase {
    fn new(profiler: &BrickProfiler, tokens: usize, wall: Duration) -> Self {
        profiler.add_tokens(tokens as u64);
        let bricks = profiler.snapshot();
        let wall_ns = wall.as_secs_f64() * 1e9;
        Self {
            tokens,
            wall_ns,
            tokens_per_s: Figure::Derived {
                value: tokens as f64 / wall.as_secs_f64(),
                from: "tokens / measured wall time",
            },
            coverage: bricks.coverage(wall_ns),
            bricks,
        }
    }

    fn print(&self, name: &'static str, out: &mut impl Write) -> io::Result<()> {
        let (tokens, ms) = (self.tokens, self.wall_ns / 1e6);
        writeln!(
            out,
            "\n{name}: {tokens} tokens in {ms:.2} ms (measured); {:.1} tokens/s, {:.1} µs/token (derived)",
            self.tokens_per_s,
            1e3 * ms / tokens as f64,
        )?;
        let table = self.bricks.table().share_of(name, self.wall_ns);
        writeln!(out, "{}", table.per_token(tokens as u64))
    }
}

fn measured<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    Figure::Measured(*value).serialize(serializer)
}

fn print(report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "model    {}, architecture {}",
        one_line(report.model),
        report.architecture
    )?;
    writeln!(out, "threads  {}", report.threads)?;
    report.prefill.print("prefill", out)?;
    report.decode.print("decode", out)
}
