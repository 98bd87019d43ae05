//! How well a model foretells a text, as llama.cpp's `llama-perplexity` computes it.

use super::Args;
use super::running::Running;
use crate::commands::collector::Subject;
use crate::commands::engine::{self, Engine, Threads};
use crate::progress::Progress;
use crate::terminal::one_line;
use crate::tokenizer::EncodeOptions;
use crate::trace::sha256;
use anyhow::{Context, Result, bail};
use brick_runtime::Figure;
use brick_runtime::timeline::span_scope;
use serde::Serialize;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

/// Version of the JSON that `--json` prints.
const SCHEMA: &str = "apr.perplexity/1";
/// Tokens of a chunk where the command line doesn't say.
const DEFAULT_CTX: usize = 512;

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with the arguments, the text, the file or the model.
pub(super) fn run(args: &Args, path: &Path) -> Result<()> {
    let threads = match args.threads[..] {
        [] => 0,
        [threads] => threads.into(),
        _ => bail!("--perplexity computes on one number of threads, not on one after the other"),
    };
    let name = path.display().to_string();
    let bytes = fs::read(path).with_context(|| name.clone())?;
    engine::open(&args.model, args.precision, |engine| {
        let ctx = args.ctx.map_or(DEFAULT_CTX, usize::from);
        let chunks = args.chunks.map_or(usize::MAX, usize::from);
        let text = Text::new(engine, &name, &bytes, ctx)?;
        let subject = Subject {
            command: "apr bench --perplexity",
            model: engine.name,
        };
        let recorder = args.record.start(&subject, false)?;
        let mut running = Running::new(engine);
        let ran = Threads::start(threads)?.install(|| text.score(&mut running, chunks));
        running.end(subject, recorder, ran, |report| {
            report.print(args.json, engine)
        })
    })
}

/// A text, as tokens.
struct Text<'a> {
    name: &'a str,
    bytes: &'a [u8],
    tokens: Vec<u32>,
    ctx: usize,
    /// What the first token of a chunk is replaced by.
    bos: Option<u32>,
}

impl<'a> Text<'a> {
    fn new(engine: &Engine<'_>, name: &'a str, bytes: &'a [u8], ctx: usize) -> Result<Self> {
        if ctx < 4 {
            bail!("--ctx {ctx} is too short to score anything: 4 at least");
        }
        let tokenizer = &engine.tokenizer;
        if tokenizer.adds_eos() {
            bail!("the vocabulary ends texts with a token of its own: perplexity is not defined");
        }
        // As llama-perplexity reads files.
        let text = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let options = EncodeOptions {
            add_special: true,
            parse_special: false,
        };
        let tokens = tokenizer.encode(text, options)?;
        if tokens.len() < 2 * ctx {
            bail!(
                "{name} has {} tokens, at least {} (two chunks) are needed",
                tokens.len(),
                2 * ctx
            );
        }
        Ok(Self {
            name,
            bytes,
            tokens,
            ctx,
            bos: tokenizer.bos().filter(|_| tokenizer.adds_bos()),
        })
    }

    /// Scores the second half of each of the first `chunks` chunks.
    fn score(&self, running: &mut Running<'_, 'a>, chunks: usize) -> Result<Report<'a>> {
        let engine = running.engine;
        let chunks = chunks.min(self.tokens.len() / self.ctx);
        let progress = Progress::new("reading the text", chunks * self.ctx);
        let (mut sum, mut squares, mut scored) = (0.0, 0.0, 0_usize);
        let mut perplexities = Vec::new();
        let clock = Instant::now();
        running.session(self.ctx, |session, fed| {
            for chunk in self.tokens.chunks_exact(self.ctx).take(chunks) {
                let _span = span_scope("chunk");
                let mut chunk = chunk.to_vec();
                chunk[0] = self.bos.unwrap_or(chunk[0]);
                session.clear();
                let nll = session.feed_scored(&chunk, self.ctx / 2)?;
                sum += nll.iter().sum::<f64>();
                squares += nll.iter().map(|v| v * v).sum::<f64>();
                scored += nll.len();
                perplexities.push((sum / scored as f64).exp());
                fed.input += chunk.len();
                progress.set(fed.input);
            }
            Ok(())
        })?;
        let wall = clock.elapsed();
        drop(progress);
        let mean = sum / scored as f64;
        // Of the mean, by its sample's spread; by the exponential's slope that of the perplexity.
        let variance = (squares / scored as f64 - mean * mean) / (scored as f64 - 1.0);
        Ok(Report {
            model: engine.name,
            architecture: engine.architecture(),
            threads: rayon::current_num_threads(),
            text: TextIdentity {
                name: self.name.to_owned(),
                bytes: self.bytes.len(),
                sha256: sha256(self.bytes),
                tokens: self.tokens.len(),
            },
            ctx: self.ctx,
            scored_tokens: scored,
            perplexity: Figure::Derived {
                value: mean.exp(),
                from: "exp of the mean negative log-likelihood",
            },
            standard_error: match variance > 0.0 {
                true => Figure::Derived {
                    value: variance.sqrt() * mean.exp(),
                    from: "spread of the log-likelihoods",
                },
                false => Figure::unavailable("the log-likelihoods do not differ"),
            },
            chunks: perplexities,
            wall_ms: Figure::Measured(wall.as_secs_f64() * 1e3),
            tokens_per_s: Figure::Derived {
                value: (chunks * self.ctx) as f64 / wall.as_secs_f64(),
                from: "tokens of the chunks / wall_ms",
            },
        })
    }
}

#[derive(Debug, Serialize)]
struct TextIdentity {
    name: String,
    bytes: usize,
    sha256: String,
    tokens: usize,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    model: &'a str,
    architecture: &'static str,
    threads: usize,
    text: TextIdentity,
    /// Tokens of a chunk.
    ctx: usize,
    scored_tokens: usize,
    perplexity: Figure,
    standard_error: Figure,
    /// The perplexity of all chunks so far, after each.
    chunks: Vec<f64>,
    wall_ms: Figure,
    tokens_per_s: Figure,
}

impl Report<'_> {
    /// To standard output.
    fn print(&self, json: bool, engine: &Engine<'_>) -> io::Result<()> {
        if json {
            return super::print_json(SCHEMA, engine, self);
        }
        let mut out = io::stdout().lock();
        writeln!(
            out,
            "model       {}, architecture {}",
            one_line(self.model),
            self.architecture
        )?;
        writeln!(
            out,
            "text        {}: {} tokens, {} chunks of {} read",
            one_line(&self.text.name),
            self.text.tokens,
            self.chunks.len(),
            self.ctx
        )?;
        for (index, perplexity) in self.chunks.iter().enumerate() {
            writeln!(out, "after {:<5} {perplexity:.4}", index + 1)?;
        }
        writeln!(
            out,
            "perplexity  {:.4} ± {:.4} (derived from {} scored tokens)",
            self.perplexity, self.standard_error, self.scored_tokens
        )?;
        writeln!(
            out,
            "time        {:.0} ms (measured), {:.1} tokens/s (derived), threads: {}",
            self.wall_ms, self.tokens_per_s, self.threads
        )
    }
}
