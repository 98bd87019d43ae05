//! `apr bench`: how fast a model reads and writes here, and how well it foretells a text.

mod perplexity;
mod report;
mod running;
mod speed;
mod spread;

use super::engine::{Engine, MAX_THREADS, PrecisionArg};
use super::record::RecordArgs;
use crate::model_file::ModelArg;
use crate::trace::Identity;
use serde::Serialize;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;

const AFTER_HELP: &str = "\
Prompt processing (all tokens at once) and decoding (one token after the other, from an empty context)
are measured apart, on tokens drawn at random with a fixed seed, as llama.cpp's llama-bench does;
choosing a token and turning it into text is not in it. For each number of threads one prompt and one
token warm up, and are not counted. Loading is measured last, with the file in the page cache.

The perplexity is computed as llama.cpp's llama-perplexity does: BOS replaces the first token of every
chunk where the vocabulary asks for it, and the second half of a chunk is scored.

Examples:
  apr bench
  apr bench --model gemma-3-270m-q4_k_m.gguf -t 1,2 -r 7
  apr bench --model m.gguf -p 0 -n 128 --json > bench.json
  apr bench --model m.gguf --perplexity wiki.test.raw --ctx 512";

/// Measure the speed of a model, or its perplexity over a text.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct Args {
    #[command(flatten)]
    model: ModelArg,

    /// Tokens of the prompt; 0 leaves it out [default: 512, or what the context allows]
    #[arg(short, long, value_name = "N")]
    prompt_tokens: Option<usize>,

    /// Tokens to decode; 0 leaves it out
    #[arg(short = 'n', long, value_name = "N", default_value_t = 64)]
    tokens: usize,

    /// Threads to compute with, 1 to 1024; with commas between, one after the other [default: as many
    /// as the machine has cores]
    #[arg(
        short,
        long,
        value_name = "N,N",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=MAX_THREADS)
    )]
    threads: Vec<u16>,

    #[command(flatten)]
    precision: PrecisionArg,

    /// How often to measure each
    #[arg(short, long, value_name = "N", default_value = "5")]
    repetitions: NonZeroUsize,

    /// Positions of the context: what the key-value cache has room for, or a chunk of --perplexity
    /// [default: as many as needed; 512]
    #[arg(long, value_name = "N")]
    ctx: Option<NonZeroUsize>,

    /// Compute the perplexity over this text instead
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["prompt_tokens", "tokens", "repetitions"]
    )]
    perplexity: Option<PathBuf>,

    /// With --perplexity: only the first N chunks
    #[arg(long, value_name = "N", requires = "perplexity")]
    chunks: Option<NonZeroUsize>,

    /// Print one JSON object (schema apr.bench/1, or apr.perplexity/1) instead of a table
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    record: RecordArgs,
}

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with the arguments, the file, the text or the model.
pub fn run(args: &Args) -> anyhow::Result<()> {
    match &args.perplexity {
        Some(text) => perplexity::run(args, text),
        None => speed::run(args),
    }
}

/// A report as JSON.
#[derive(Serialize)]
struct Document<'a, R> {
    schema: &'static str,
    identity: Identity,
    #[serde(flatten)]
    report: &'a R,
}

/// Prints `report` as one JSON object of `schema` to standard output.
fn print_json(
    schema: &'static str,
    engine: &Engine<'_>,
    report: &impl Serialize,
) -> io::Result<()> {
    let document = Document {
        schema,
        // Reads all of the file: after the memory was looked at, which a report has done.
        identity: engine.identity(),
        report,
    };
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &document)?;
    writeln!(out)
}
