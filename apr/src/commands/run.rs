//! `apr run`: continues a prompt.

use super::engine::{self, Engine, ThreadArgs};
use super::sampling::SamplingArgs;
use crate::model::{Generator, Session, Stop};
use crate::model_file::ModelArg;
use crate::progress::Progress;
use anyhow::Result;
use brick_kernels::sampling::Sampler;
use serde::Serialize;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Version of the JSON that `--json` prints.
const SCHEMA: &str = "apr.run/1";
/// Tokens to generate where the command line doesn't say.
const DEFAULT_MAX_TOKENS: usize = 64;

/// Continue a prompt.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apr run --prompt 'Once upon a time'
  apr run --model gemma-3-270m-q4_k_m.gguf --prompt '2 + 2 =' --max-tokens 16
  apr run --model m.gguf --prompt hello --temperature 0.8 --top-p 0.9 --seed 7
  apr run --model m.gguf --prompt hello --top-logits 10 --json")]
pub struct Args {
    #[command(flatten)]
    model: ModelArg,
    /// Text to continue
    #[arg(short, long, value_name = "S", allow_hyphen_values = true)]
    prompt: String,
    /// Tokens to generate at most; 0 only reads the prompt [default: 64, or what the context allows]
    #[arg(short = 'n', long, value_name = "N")]
    max_tokens: Option<usize>,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Also print the K largest logits after the prompt
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_logits: usize,
    /// Print one JSON object (schema apr.run/1) instead of the text
    #[arg(long)]
    json: bool,
    // Last: its heading would go on over what follows.
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report<'a> {
    schema: &'static str,
    model: &'a str,
    architecture: &'a str,
    threads: usize,
    prompt: &'a str,
    prompt_ids: &'a [u32],
    generated_ids: Vec<u32>,
    text: String,
    /// `"length"` or `"end"`; null where nothing was asked for.
    stop: Option<&'static str>,
    top_logits: Vec<TopLogit>,
    timings: Timings,
}

#[derive(Debug, Serialize)]
struct TopLogit {
    id: u32,
    piece: String,
    logit: f32,
}

/// All measured, wall clock. A rate is null where there is nothing to divide.
#[derive(Debug, Default, Serialize)]
struct Timings {
    load_ms: f64,
    tokenize_ms: f64,
    prefill_ms: f64,
    prefill_tokens: usize,
    prefill_tokens_per_s: Option<f64>,
    decode_ms: f64,
    decode_tokens: usize,
    decode_tokens_per_s: Option<f64>,
}

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with the arguments, the file or the model.
pub fn run(args: &Args) -> Result<()> {
    let sampler = args.sampling.sampler()?;
    engine::with(&args.model, &args.threads, |engine| {
        generate(args, engine, sampler)
    })
}

fn generate(args: &Args, engine: &Engine<'_>, sampler: Sampler) -> Result<()> {
    let clock = Instant::now();
    let ids = engine.encode(&args.prompt)?;
    let mut timings = Timings {
        load_ms: ms(engine.load_time),
        tokenize_ms: ms(clock.elapsed()),
        prefill_tokens: ids.len(),
        ..Timings::default()
    };
    let max_tokens = engine.max_tokens(ids.len(), args.max_tokens, DEFAULT_MAX_TOKENS)?;
    let mut session = Session::new(&engine.model, ids.len() + max_tokens)?;

    let clock = Instant::now();
    let progress = Progress::new("reading the prompt", ids.len());
    session.feed_with(&ids, |done| progress.set(done))?;
    drop(progress);
    timings.prefill_ms = ms(clock.elapsed());
    let top_logits = top(engine, session.logits(), args.top_logits)?;

    let mut out = Output::new(args.json);
    out.text(&args.prompt)?;
    let clock = Instant::now();
    let mut generated_ids = Vec::new();
    let mut generator = Generator::new(&mut session, &engine.tokenizer, sampler, &ids, max_tokens);
    while let Some(token) = generator.step()? {
        generated_ids.push(token.id);
        out.text(&token.text)?;
    }
    let (rest, stop) = generator.finish();
    out.text(&rest)?;
    timings.decode_ms = ms(clock.elapsed());
    timings.decode_tokens = generated_ids.len();
    timings.rates();

    let stop = (max_tokens > 0 || stop == Stop::End).then_some(stop.name());
    let report = Report {
        schema: SCHEMA,
        model: engine.name,
        architecture: engine.architecture(),
        threads: rayon::current_num_threads(),
        prompt: &args.prompt,
        prompt_ids: &ids,
        generated_ids,
        text: out.generated(args.prompt.len()),
        stop,
        top_logits,
        timings,
    };
    out.finish(&report)
}

impl Timings {
    fn rates(&mut self) {
        let rate =
            |tokens: usize, ms: f64| (tokens > 0 && ms > 0.0).then(|| tokens as f64 / ms * 1e3);
        self.prefill_tokens_per_s = rate(self.prefill_tokens, self.prefill_ms);
        self.decode_tokens_per_s = rate(self.decode_tokens, self.decode_ms);
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The `k` largest logits, the largest first, the lowest id first among equals.
fn top(engine: &Engine<'_>, logits: &[f32], k: usize) -> Result<Vec<TopLogit>> {
    let mut order: Vec<u32> = (0..logits.len() as u32).collect();
    order.sort_by(|&a, &b| {
        logits[b as usize]
            .total_cmp(&logits[a as usize])
            .then(a.cmp(&b))
    });
    order.truncate(k);
    let mut found = Vec::new();
    for id in order {
        let bytes = engine.tokenizer.decode(&[id])?;
        let piece = String::from_utf8_lossy(&bytes).into_owned();
        found.push(TopLogit {
            id,
            piece,
            logit: logits[id as usize],
        });
    }
    Ok(found)
}

/// Standard output: the text as it comes, or one JSON object at the end.
struct Output {
    json: bool,
    all: String,
}

impl Output {
    fn new(json: bool) -> Self {
        Self {
            json,
            all: String::new(),
        }
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        self.all.push_str(text);
        if self.json || text.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }

    /// All text after the first `prompt` bytes.
    fn generated(&self, prompt: usize) -> String {
        self.all[prompt..].to_owned()
    }

    fn finish(self, report: &Report<'_>) -> Result<()> {
        let mut out = io::stdout().lock();
        if self.json {
            serde_json::to_writer_pretty(&mut out, report).map_err(io::Error::from)?;
            writeln!(out)?;
            return Ok(());
        }
        writeln!(out)?;
        if !report.top_logits.is_empty() {
            writeln!(out, "\n     logit      id  token")?;
            for t in &report.top_logits {
                writeln!(out, "{:>10.4}  {:>6}  {:?}", t.logit, t.id, t.piece)?;
            }
        }
        drop(out);
        report.timings.print(report.threads)
    }
}

impl Timings {
    /// A line for people, on standard error, so that standard output is the text alone.
    fn print(&self, threads: usize) -> Result<()> {
        let rate = |r: Option<f64>| r.map_or("n/a".into(), |r| format!("{r:.1} tokens/s"));
        let mut err = io::stderr().lock();
        writeln!(
            err,
            "\nload {:.0} ms; prompt {} tokens in {:.0} ms ({}); generated {} in {:.0} ms ({}); {threads} threads",
            self.load_ms,
            self.prefill_tokens,
            self.prefill_ms,
            rate(self.prefill_tokens_per_s),
            self.decode_tokens,
            self.decode_ms,
            rate(self.decode_tokens_per_s),
        )?;
        Ok(())
    }
}
