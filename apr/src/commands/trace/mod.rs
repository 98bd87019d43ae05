//! `apr trace`: what goes on inside a model while it reads a prompt and continues it.

mod checksum;
mod collect;
mod diff;
mod drift;
mod human;
mod human_quant;
mod kv;
mod lens;
mod report;
mod rounding;
mod weights;

use super::engine::{self, ComputeArgs, Engine, PromptArg};
use super::token::Token;
use crate::jidoka;
use crate::model::{Generator, Session};
use crate::model_file::{ModelArg, ModelFile};
use crate::progress::Progress;
use crate::tokenizer::EncodeOptions;
use crate::whole_file::{probe, write_whole};
use anyhow::{Context, Result, bail};
use brick_kernels::sampling::{Sampler, SamplerConfig};
use brick_runtime::trace::MemoryCap;
use collect::{Collector, Wanted};
use kv::KvState;
use report::Report;
use std::io::{self, BufWriter, Write};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

const AFTER_HELP: &str = "\
Sampling is greedy, and goes on where the model would end the text. The prompt is one pass and each
further token another; what is shown of a pass is what its last position sees, which decides the next
token. Weights, and the activations they lead to, are compared with a file of the same model in F32,
F16 or BF16; without one their error is not known, and shown as such.

Examples:
  apr trace --attention --prompt 'Once upon a time'
  apr trace --model m.gguf --prompt '2 + 2 =' --logits --tokens ' 4, 5'
  apr trace --model m-q4_k_m.gguf --quant-error --reference m-f16.gguf
  apr trace --model m.gguf --attention --logits --kv --activations --format json --output trace.json";

/// Look inside: attention, logits by layer, quantisation error, KV cache, activations.
#[derive(Debug, clap::Args)]
#[command(
    after_help = AFTER_HELP,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    model: ModelArg,

    #[command(flatten)]
    sections: Sections,

    #[command(flatten)]
    prompt: PromptArg,

    /// Tokens to generate: as many passes are traced
    #[arg(short = 'n', long, value_name = "N", default_value = "4")]
    max_tokens: NonZeroUsize,

    /// With --attention: the largest weights to show of each head
    #[arg(long, value_name = "K", default_value_t = 5, requires = "attention")]
    top_k: usize,

    /// With --attention: the last positions, whose weights are added up
    #[arg(long, value_name = "N", default_value = "8", requires = "attention")]
    recent: NonZeroUsize,

    /// With --logits: follow these texts too, separated by commas, each of one token
    #[arg(
        long,
        value_name = "A,B",
        value_delimiter = ',',
        requires = "logits",
        allow_hyphen_values = true
    )]
    tokens: Vec<String>,

    /// With --quant-error: the same model in F32, F16 or BF16
    #[arg(long, value_name = "FILE", requires = "quant_error")]
    reference: Option<PathBuf>,

    /// Memory for what is recorded, in MiB; what comes later is dropped and counted
    #[arg(long, value_name = "MIB", default_value_t = 64)]
    cap_mib: u32,

    #[command(flatten)]
    compute: ComputeArgs,

    /// What to print: tables for people, or one JSON object (schema "apr.model-trace/1")
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,

    /// Write to this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What else there is.
#[derive(Debug, clap::Subcommand)]
enum Command {
    Diff(diff::Args),
    Checksum(checksum::Args),
}

/// What to look at.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct Sections {
    /// What each head attends to: top positions, entropy, tail, sink, recency
    #[arg(long)]
    attention: bool,

    /// Logit and rank of tokens after each layer, and the layer that decides
    #[arg(long)]
    logits: bool,

    /// What quantisation costs weights and activations (with --reference), and what rounding to 8 bits would
    #[arg(long)]
    quant_error: bool,

    /// The KV cache at the end: size, windows, norms
    #[arg(long)]
    kv: bool,

    /// Statistics of every tensor between the kernels
    #[arg(long)]
    activations: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Format {
    Human,
    Json,
}

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with the arguments, a file or the model.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Some(Command::Diff(args)) => return diff::run(args),
        Some(Command::Checksum(args)) => return checksum::run(args),
        None => {}
    }
    // Before anything takes time: a path that can't be read or written is a slip of the finger.
    let reference = args.reference.as_deref();
    let reference = reference.map(|path| ModelFile::open(Some(path)));
    let reference = reference.transpose()?;
    if let Some(path) = &args.output {
        probe(path).with_context(|| path.display().to_string())?;
    }
    engine::with(&args.model, &args.compute, |engine| {
        let report = trace(args, engine, reference.as_ref())?;
        match &args.output {
            Some(path) => write_whole(path, |out| write(args.format, &report, out))
                .with_context(|| path.display().to_string()),
            None => {
                let mut out = BufWriter::new(io::stdout().lock());
                Ok(write(args.format, &report, &mut out)?)
            }
        }
    })
}

/// Straight to where it goes: as text, a report is several times its size in memory.
fn write(format: Format, report: &Report<'_>, out: &mut impl Write) -> io::Result<()> {
    match format {
        Format::Human => human::print(report, out)?,
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, report)?;
            writeln!(out)?;
        }
    }
    out.flush()
}

fn trace<'a>(
    args: &'a Args,
    engine: &'a Engine<'a>,
    reference: Option<&'a ModelFile>,
) -> Result<Report<'a>> {
    let ids = engine.encode(&args.prompt.text)?;
    let n = engine.max_tokens(ids.len(), Some(args.max_tokens.get()), 0)?;
    let wanted = Wanted {
        attention: args
            .sections
            .attention
            .then_some((args.top_k, args.recent.get())),
        logits: match args.sections.logits {
            true => Some(one_token_each(engine, &args.tokens)?),
            false => None,
        },
        rounding: args.sections.quant_error,
        activations: args.sections.activations,
    };
    let cap = MemoryCap::new(u64::from(args.cap_mib) << 20);
    let mut collector = Collector::new(&engine.model, wanted, cap);
    let mut session = Session::new(&engine.model, ids.len() + n)?;
    session.observe(&mut collector);

    let clock = Instant::now();
    let generated = engine::caught(|| generate(engine, &mut session, &ids, n));
    let wall = clock.elapsed();
    let fed = session.fed().to_vec();
    let (cache, config) = (session.cache(), engine.model.config());
    let kv = args.sections.kv.then(|| KvState::of(cache, config));
    let kv = kv.transpose()?;
    drop(session);
    let generated = generated.map_err(|error| match collector.is_looking() {
        true => jidoka::of_observer(error),
        false => engine.diagnose(error, &fed),
    })?;
    collector.check()?;
    let errors = args.sections.quant_error.then(|| -> Result<_> {
        let weights = weights::errors(engine.gguf, reference)?;
        Ok((
            weights,
            drift::errors((&engine.model, engine.gguf), reference, &ids)?,
        ))
    });
    let errors = errors.transpose()?;
    Report::new(args, engine, (ids, generated), collector, kv, errors, wall)
}

/// Feeds the prompt and chooses `n` tokens; all passes are observed.
fn generate(
    engine: &Engine<'_>,
    session: &mut Session<'_>,
    ids: &[u32],
    n: usize,
) -> Result<Vec<u32>> {
    let progress = Progress::new("reading the prompt", ids.len());
    session.feed_with(ids, |done| progress.set(done))?;
    drop(progress);
    let progress = Progress::new("generating", n);
    let sampler = Sampler::new(SamplerConfig::GREEDY)?;
    let generator = Generator::new(session, &engine.tokenizer, sampler, ids, n);
    let mut generator = generator.ignore_end();
    let mut generated = Vec::new();
    while let Some(token) = generator.step()? {
        generated.push(token.id);
        progress.set(generated.len());
    }
    Ok(generated)
}

/// The tokens that stand for exactly these texts; of several the first.
fn one_token_each(engine: &Engine<'_>, texts: &[String]) -> Result<Vec<u32>> {
    if texts.is_empty() {
        return Ok(Vec::new());
    }
    let tokenizer = &engine.tokenizer;
    let mut found: Vec<Option<u32>> = vec![None; texts.len()];
    let mut bytes = Vec::new();
    // Looked up, not tokenised: a tokenizer may put a space before the first word.
    for id in 0..engine.model.config().n_vocab as u32 {
        bytes.clear();
        tokenizer.decode_into(id, &mut bytes)?;
        for (text, found) in texts.iter().zip(&mut found) {
            if found.is_none() && text.as_bytes() == bytes {
                *found = Some(id);
            }
        }
    }
    let missing = |text: &String| -> Result<u32> {
        let options = EncodeOptions {
            add_special: false,
            ..EncodeOptions::default()
        };
        let ids = tokenizer.encode(text, options)?;
        let tokens = ids.iter().map(|&id| Token::new(tokenizer, id));
        let tokens: Vec<Token> = tokens.collect::<Result<_, _>>()?;
        let shown: Vec<String> = tokens.iter().map(Token::shown).collect();
        let (n, shown) = (ids.len(), shown.join(" "));
        bail!("--tokens: no token is {text:?}, which the tokenizer makes {n} tokens of: {shown}")
    };
    let known = texts.iter().zip(found);
    known
        .map(|(text, found)| found.map_or_else(|| missing(text), Ok))
        .collect()
}
