//! `apr run`: continues a prompt.

use super::collector::{Failed, Generated, Subject};
use super::engine::{self, ComputeArgs, Engine};
use super::record::{RecordArgs, Recorded, all_told};
use super::sampling::SamplingArgs;
use super::token::Token;
use super::tracing::{TraceArgs, Traced};
use crate::model::{Generator, Session, Stop};
use crate::model_file::ModelArg;
use crate::progress::Progress;
use anyhow::{Result, bail};
use brick_kernels::sampling::Sampler;
use brick_runtime::Figure;
use brick_runtime::timeline::span_scope;
use serde::Serialize;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Version of the JSON that `--json` prints.
const SCHEMA: &str = "apr.run/1";
/// Why decoding has no time and no rate.
const NO_PASS: &str = "no pass after the prompt's";
/// Tokens to generate where the command line doesn't say.
const DEFAULT_MAX_TOKENS: usize = 64;

/// Continue a prompt.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  apr run --prompt 'Once upon a time'
  apr run --model gemma-3-270m-q4_k_m.gguf --prompt '2 + 2 =' --max-tokens 16
  apr run --model m.gguf --prompt hello --temperature 0.8 --top-p 0.9 --seed 7
  apr run --model m.gguf --prompt hello --top-logits 10 --json
  apr run --prompt hello --export chrome=run.json --export flamegraph=run.svg")]
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
    compute: ComputeArgs,
    /// Also print the K largest logits after the prompt, up to as many as there are tokens
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_logits: usize,
    /// Print one JSON object (schema apr.run/1) instead of the text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    record: RecordArgs,
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
    #[serde(flatten)]
    token: Token,
    logit: f32,
}

/// Wall-clock times, and what follows from them.
#[derive(Debug, Serialize)]
struct Timings {
    load_ms: Figure,
    tokenize_ms: Figure,
    prefill_tokens: usize,
    prefill_ms: Figure,
    prefill_tokens_per_s: Figure,
    /// Forward passes of one token each. The first token follows from the prompt and takes none.
    decode_passes: usize,
    /// Of these passes, with choosing, detokenising and printing.
    decode_ms: Figure,
    decode_tokens_per_s: Figure,
}

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with the arguments, the file or the model.
pub fn run(args: &Args) -> Result<()> {
    let sampler = args.sampling.sampler()?;
    engine::with(&args.model, &args.compute, |engine| {
        generate(args, engine, sampler)
    })
}

/// Generates, prints, and hands out what was traced and recorded, also of a run that fails.
fn generate(args: &Args, engine: &Engine<'_>, sampler: Sampler) -> Result<()> {
    let (k, n_vocab) = (args.top_logits, engine.model.n_vocab());
    if k > n_vocab {
        bail!("--top-logits is {k}, the vocabulary has {n_vocab} tokens");
    }
    let subject = Subject {
        command: "apr run",
        model: engine.name,
    };
    let recorder = args.record.start(&subject, false)?;
    let mut tracer = args.trace.start()?;
    let request = span_scope("request");
    let clock = Instant::now();
    let encode = || engine.encode(&args.prompt);
    let ids = match &mut tracer {
        Some(tracer) => tracer.tokenize(encode)?,
        None => encode()?,
    };
    let tokenize = clock.elapsed();
    let max_tokens = engine.max_tokens(ids.len(), args.max_tokens, DEFAULT_MAX_TOKENS)?;
    let mut session = Session::new(&engine.model, ids.len() + max_tokens)?;
    if let Some(tracer) = &mut tracer {
        tracer.observe(&mut session);
    }
    let mut generated_ids = Vec::new();
    let continued = engine::caught(|| {
        let tokens = (&ids[..], max_tokens, &mut generated_ids);
        continue_prompt(args, engine, sampler, &mut session, tokens)
    });
    drop(request);
    let stopped = recorder.stop();
    let continued = continued.map_err(|error| engine.diagnose(error, session.fed()));
    drop(session);

    // What was seen of a run that failed is worth as much as the diagnosis.
    let failed = continued.as_ref().err().map(Failed::of);
    let recorded = stopped.spans(&Generated {
        subject,
        input_tokens: ids.len(),
        output_tokens: generated_ids.len(),
        failed: failed.as_ref(),
    });
    let printed = continued.and_then(|c| {
        let report = Report {
            schema: SCHEMA,
            model: engine.name,
            architecture: engine.architecture(),
            threads: rayon::current_num_threads(),
            prompt: &args.prompt,
            prompt_ids: &ids,
            generated_ids,
            text: c.out.generated(args.prompt.len()),
            stop: (max_tokens > 0).then_some(c.stop.name()),
            top_logits: c.top_logits,
            timings: Timings::new(engine, tokenize, (ids.len(), c.prefill), c.decode),
        };
        c.out.finish(&report)
    });
    let traced = tracer.map_or(Ok(()), |tracer| {
        let traced = Traced {
            engine,
            prompt: &args.prompt,
            prompt_ids: &ids,
            max_tokens,
            sampling: &args.sampling,
        };
        tracer.finish(
            &traced,
            failed.as_ref().map(|failed| failed.message.clone()),
        )
    });
    let delivered = recorded.map_or(Ok(()), Recorded::deliver);
    all_told([printed, traced, delivered])
}

/// What came of a prompt.
struct Continued {
    stop: Stop,
    top_logits: Vec<TopLogit>,
    prefill: Duration,
    /// Passes of one token, and the time they took.
    decode: (usize, Duration),
    out: Output,
}

/// Reads the prompt and goes on; `tokens` are the prompt's, how many may follow, and those that do.
fn continue_prompt(
    args: &Args,
    engine: &Engine<'_>,
    sampler: Sampler,
    session: &mut Session<'_>,
    tokens: (&[u32], usize, &mut Vec<u32>),
) -> Result<Continued> {
    let (ids, max_tokens, generated_ids) = tokens;
    let progress = Progress::new("reading the prompt", ids.len());
    let span = span_scope("prefill");
    let clock = Instant::now();
    session.feed_with(ids, |done| progress.set(done))?;
    let prefill = clock.elapsed();
    drop((span, progress));
    let top_logits = top(engine, session.logits(), args.top_logits)?;

    let mut out = Output::new(args.json);
    out.text(&args.prompt)?;
    let generator = Generator::new(session, &engine.tokenizer, sampler, ids, max_tokens);
    // Text that comes shows how far it is; JSON comes at the end.
    let progress = (args.json && max_tokens > 0).then(|| Progress::new("generating", max_tokens));
    let span = span_scope("decode");
    let clock = Instant::now();
    let stop = decode(generator, progress.as_ref(), &mut out, generated_ids)?;
    let time = clock.elapsed();
    drop((span, progress));
    Ok(Continued {
        stop,
        top_logits,
        prefill,
        decode: (session.n_past() - ids.len(), time),
        out,
    })
}

/// Generates to the end, adding to the tokens: why it ended.
fn decode(
    mut generator: Generator<'_, '_>,
    progress: Option<&Progress>,
    out: &mut Output,
    ids: &mut Vec<u32>,
) -> Result<Stop> {
    while let Some(token) = generator.step()? {
        ids.push(token.id);
        out.text(&token.text)?;
        if let Some(progress) = progress {
            progress.set(ids.len());
        }
    }
    let (rest, stop) = generator.finish();
    out.text(&rest)?;
    Ok(stop)
}

impl Timings {
    /// `prefill` and `decode` are tokens or passes, and the time they took.
    fn new(
        engine: &Engine<'_>,
        tokenize: Duration,
        prefill: (usize, Duration),
        decode: (usize, Duration),
    ) -> Self {
        Self {
            load_ms: ms(engine.load_time),
            tokenize_ms: ms(tokenize),
            prefill_tokens: prefill.0,
            prefill_ms: ms(prefill.1),
            prefill_tokens_per_s: per_s(prefill, "prefill_tokens / prefill_ms"),
            decode_passes: decode.0,
            decode_ms: match decode {
                (0, _) => Figure::unavailable(NO_PASS),
                (_, time) => ms(time),
            },
            decode_tokens_per_s: per_s(decode, "decode_passes / decode_ms"),
        }
    }
}

fn ms(time: Duration) -> Figure {
    Figure::Measured(time.as_secs_f64() * 1e3)
}

fn per_s((tokens, time): (usize, Duration), from: &'static str) -> Figure {
    match tokens {
        0 => Figure::unavailable(NO_PASS),
        _ => Figure::Derived {
            value: tokens as f64 / time.as_secs_f64(),
            from,
        },
    }
}

/// The `k` largest logits, the largest first, the lowest id first among equals.
fn top(engine: &Engine<'_>, logits: &[f32], k: usize) -> Result<Vec<TopLogit>> {
    let mut order: Vec<(u32, f32)> = (0..).zip(logits.iter().copied()).collect();
    let largest_first = |a: &(u32, f32), b: &(u32, f32)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if k < order.len() {
        order.select_nth_unstable_by(k, largest_first);
        order.truncate(k);
    }
    order.sort_unstable_by(largest_first);
    let described = order.into_iter().map(|(id, logit)| {
        let token = Token::new(&engine.tokenizer, id)?;
        Ok(TopLogit { token, logit })
    });
    described.collect()
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
                let (id, shown) = (t.token.id, t.token.shown());
                writeln!(out, "{:>10.4}  {id:>6}  {shown}", t.logit)?;
            }
        }
        drop(out);
        report.print_timings()
    }
}

impl Report<'_> {
    /// For people, on standard error, so that standard output is the text alone.
    fn print_timings(&self) -> Result<()> {
        let t = &self.timings;
        let shown = |figure: &Figure| figure.value().map_or("n/a".into(), |v| format!("{v:.1}"));
        let mut err = io::stderr().lock();
        writeln!(
            err,
            "\nmeasured: load {} ms, prompt of {} tokens {} ms, {} further passes {} ms",
            shown(&t.load_ms),
            t.prefill_tokens,
            shown(&t.prefill_ms),
            t.decode_passes,
            shown(&t.decode_ms),
        )?;
        writeln!(
            err,
            "derived: prompt {} tokens/s, then {} tokens/s; threads: {}",
            shown(&t.prefill_tokens_per_s),
            shown(&t.decode_tokens_per_s),
            self.threads,
        )?;
        Ok(())
    }
}
