//! `apr trace checksum`: the first kernel, layer and position where two runs part.

use crate::commands::engine::{self, ComputeArgs, Engine, PromptArg};
use crate::model::{Halt, Observer, Session, Tensor, View};
use crate::model_file::ModelArg;
use crate::trace::Identity;
use crate::whole_file::{probe, write_whole};
use anyhow::{Context, Result, bail};
use brick_runtime::checksum::{KernelChecksum, find_divergence};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufReader, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

/// Version of the JSON that `--output` writes and `--against` reads.
const SCHEMA: &str = "apr.checksum/1";

/// Find the first kernel, layer and position where two runs part; the exit code is 1 where they do.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every tensor between the kernels gets a checksum over all its bits, and a sketch from which the
distance between two runs is estimated. What only one of the runs has is a difference too. Sampling is
greedy, and goes on where the model would end the text; runs of other tokens are not compared.

Examples:
  apr trace checksum --output before.json
  apr trace checksum --against before.json
  apr trace checksum --model m.gguf --threads 1 --against other-machine.json --tolerance 1e-3")]
pub(super) struct Args {
    #[command(flatten)]
    model: ModelArg,
    #[command(flatten)]
    prompt: PromptArg,
    /// Tokens to generate: as many passes are compared
    #[arg(short = 'n', long, value_name = "N", default_value = "4")]
    max_tokens: NonZeroUsize,
    /// Write the checksums (schema apr.checksum/1) to this file
    #[arg(short, long, value_name = "FILE", required_unless_present = "against")]
    output: Option<PathBuf>,
    /// Compare with the checksums in this file
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// How far a tensor may be apart, as a share of its norm, instead of not one bit
    #[arg(long, value_name = "R", requires = "against")]
    tolerance: Option<f64>,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// What `--output` writes.
#[derive(Debug, Serialize)]
struct Written<'a> {
    schema: &'static str,
    identity: Identity,
    threads: usize,
    /// How many of the tokens are the prompt's, which is one pass.
    prompt_tokens: usize,
    /// All that were fed.
    tokens: &'a [u32],
    checksums: &'a [KernelChecksum],
}

/// What `--against` reads of that.
#[derive(Debug, Deserialize)]
struct Read {
    schema: String,
    prompt_tokens: usize,
    tokens: Vec<u32>,
    checksums: Vec<KernelChecksum>,
}

/// Takes the checksum of each tensor.
#[derive(Debug, Default)]
struct Collector(Vec<KernelChecksum>);

impl Observer for Collector {
    fn tensor(&mut self, tensor: &Tensor<'_>, _: &View<'_>) -> Result<(), Halt> {
        let (name, at) = (tensor.node.name(), tensor.at);
        let layer = at.layer.map(|layer| layer as u64);
        let position = at.first_pos as u64;
        self.0
            .push(KernelChecksum::of(name, layer, position, tensor.data));
        Ok(())
    }
}

/// Runs the command.
///
/// # Errors
/// If the runs part; whatever is wrong with the arguments, a file or the model.
pub(super) fn run(args: &Args) -> Result<()> {
    if let Some(tolerance) = args.tolerance.filter(|t| !(t.is_finite() && *t >= 0.0)) {
        bail!("--tolerance is {tolerance}, expected 0 or more");
    }
    let reference = args
        .against
        .as_deref()
        .map(|path| Ok::<_, anyhow::Error>((path, read(path)?)));
    let reference = reference.transpose()?;
    if let Some(path) = &args.output {
        probe(path).with_context(|| path.display().to_string())?;
    }
    engine::with(&args.model, &args.compute, |engine| {
        let prompt = engine.encode(&args.prompt.text)?;
        if let Some((path, reference)) = &reference {
            let theirs = reference.tokens.get(..reference.prompt_tokens);
            if theirs != Some(&prompt) {
                bail!("{} is of another prompt", path.display());
            }
        }
        let (tokens, checksums) = collect(args, engine, &prompt)?;
        if let Some(path) = &args.output {
            let written = Written {
                schema: SCHEMA,
                identity: engine.identity(),
                threads: rayon::current_num_threads(),
                prompt_tokens: prompt.len(),
                tokens: &tokens,
                checksums: &checksums,
            };
            write_whole(path, |out| {
                serde_json::to_writer(&mut *out, &written)?;
                writeln!(out)
            })
            .with_context(|| path.display().to_string())?;
        }
        if let Some((path, reference)) = &reference {
            compare((&tokens, &checksums), reference, path, args.tolerance)?;
        }
        let count = checksums.len();
        let how = match (&reference, args.tolerance) {
            (None, _) => "written".into(),
            (_, None) => "the same to the bit".into(),
            (_, Some(tolerance)) => format!("within {tolerance} of the norm (estimated)"),
        };
        Ok(writeln!(io::stdout().lock(), "{count} tensors, {how}")?)
    })
}

fn read(path: &Path) -> Result<Read> {
    let told = || path.display().to_string();
    let file = BufReader::new(File::open(path).with_context(told)?);
    let read: Read = serde_json::from_reader(file)
        .with_context(|| format!("{} holds no checksums ({SCHEMA})", told()))?;
    if read.schema != SCHEMA {
        bail!(
            "{} has the schema {:?}, expected {SCHEMA}",
            told(),
            read.schema
        );
    }
    Ok(read)
}

/// The tokens that were fed, and the checksums of all that was computed.
fn collect(
    args: &Args,
    engine: &Engine<'_>,
    prompt: &[u32],
) -> Result<(Vec<u32>, Vec<KernelChecksum>)> {
    let n = engine.max_tokens(prompt.len(), Some(args.max_tokens.get()), 0)?;
    let mut collector = Collector::default();
    let mut session = Session::new(&engine.model, prompt.len() + n)?;
    session.observe(&mut collector);
    let generated = engine::diagnosed(&mut session, engine.gguf, |session| {
        super::generate(engine, session, prompt, n)
    })?;
    drop(session);
    // The last one is chosen and not fed.
    let fed = &generated[..generated.len().saturating_sub(1)];
    Ok(([prompt, fed].concat(), collector.0))
}

/// The first difference, as an error.
fn compare(
    (tokens, checksums): (&[u32], &[KernelChecksum]),
    reference: &Read,
    path: &Path,
    tolerance: Option<f64>,
) -> Result<()> {
    let Some(found) = find_divergence(checksums, &reference.checksums, tolerance) else {
        return Ok(());
    };
    let path = path.display();
    let same = tokens
        .iter()
        .zip(&reference.tokens)
        .take_while(|(a, b)| a == b);
    let same = same.count();
    // A pass of another token is another computation: nothing is wrong with its kernels.
    if found.position >= same as u64 && same < tokens.len().min(reference.tokens.len()) {
        bail!(
            "the run parts from {path} at position {same}: it feeds token {}, not {}",
            tokens[same],
            reference.tokens[same]
        );
    }
    bail!("the run parts from {path} at {found}")
}
