//! A model that is loaded and the threads to run it on: what the commands that run one share.

use crate::gguf::Gguf;
use crate::jidoka;
use crate::model::{Model, ModelError, Session};
use crate::model_file::{ModelArg, ModelFile};
use crate::progress::Progress;
use crate::tokenizer::{EncodeOptions, Tokenizer};
use crate::trace::{Identity, Kernels};
use anyhow::{Context, Error, Result};
use brick_kernels::quant::Activations;
use brick_kernels::{Selection, Team};
use brick_runtime::brick;
use brick_runtime::contract::{self, Policy, Violation};
use brick_runtime::timeline::fail;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// More threads than any machine at hand has cores. Tens of thousands, a slip of the finger, would
/// take minutes to start.
pub(super) const MAX_THREADS: i64 = 1024;

/// `--prompt`, with a text of its own where there is none.
#[derive(Debug, clap::Args)]
pub(super) struct PromptArg {
    /// Text to read
    #[arg(
        short = 'p',
        long = "prompt",
        value_name = "S",
        allow_hyphen_values = true,
        default_value = "The quick brown fox jumps over the lazy dog."
    )]
    pub(super) text: String,
}

/// In what numbers a model is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Precision {
    /// Round them to 8 bits and multiply integers, and keep keys and values as halves, as llama.cpp does
    Int8,
    /// Take and keep all as it is: slower, and the reference
    F32,
}

impl From<Precision> for Activations {
    fn from(precision: Precision) -> Self {
        match precision {
            Precision::Int8 => Self::Rounded,
            Precision::F32 => Self::F32,
        }
    }
}

/// `--precision`.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(super) struct PrecisionArg {
    /// How matrix products with quantised weights take their activations
    #[arg(long, value_name = "P", default_value = "int8")]
    precision: Precision,
}

/// `--threads` and `--precision`.
#[derive(Debug, clap::Args)]
pub(super) struct ComputeArgs {
    /// Threads to compute with, 1 to 1024 [default: as many as the machine has cores]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=MAX_THREADS))]
    threads: Option<u16>,
    #[command(flatten)]
    precision: PrecisionArg,
}

/// A loaded model with its vocabulary.
pub(super) struct Engine<'a> {
    /// The file's path, or what is said of the embedded model.
    pub(super) name: &'a str,
    /// Where everything is from.
    pub(super) file: &'a ModelFile,
    /// What the file says.
    pub(super) gguf: &'a Gguf<'a>,
    /// Weights and settings.
    pub(super) model: Model<'a>,
    /// The vocabulary.
    pub(super) tokenizer: Tokenizer,
    /// The loops that compute.
    kernels: Selection,
    /// Whether products with quantised weights round their activations.
    pub(super) rounds: bool,
    /// When the file was about to be opened.
    pub(super) opened: Instant,
    /// From opening the file to both being ready.
    pub(super) load_time: Duration,
}

/// Loads the model and runs `body` with it on a pool of `threads`.
///
/// `body` runs on a thread of the pool: from outside it, each kernel would have to wake one and
/// wait for it, which takes longer than a small kernel.
///
/// # Errors
/// Whatever is wrong with the file, or what `body` returns.
pub(super) fn with<R: Send>(
    model: &ModelArg,
    compute: &ComputeArgs,
    body: impl FnOnce(&Engine<'_>) -> Result<R> + Send,
) -> Result<R> {
    let threads = compute.threads.map_or(0, usize::from);
    open(model, compute.precision, |engine| {
        Threads::start(threads)?.install(|| body(engine))
    })
}

/// Loads the model and runs `body` with it, on the calling thread.
///
/// # Errors
/// Whatever is wrong with the file, or what `body` returns.
pub(super) fn open<R>(
    model: &ModelArg,
    precision: PrecisionArg,
    body: impl FnOnce(&Engine<'_>) -> Result<R>,
) -> Result<R> {
    let kernels = brick_kernels::selection()?;
    let activations = Activations::from(precision.precision);
    let opened = Instant::now();
    let progress = Progress::new("loading the model", 0);
    let file = model.open()?;
    let in_file = || file.name().to_owned();
    let (gguf, model, tokenizer) = file.reading_ahead(|| {
        let gguf = file.parse()?;
        let model = Model::load(&gguf).with_context(in_file)?;
        let tokenizer = Tokenizer::from_gguf(&gguf).with_context(in_file)?;
        Ok::<_, Error>((gguf, model, tokenizer))
    })?;
    let engine = Engine {
        name: file.name(),
        file: &file,
        gguf: &gguf,
        model: model.with_activations(activations),
        tokenizer,
        kernels,
        rounds: kernels.rounds_activations && activations == Activations::Rounded,
        opened,
        load_time: opened.elapsed(),
    };
    drop(progress);
    stop_on_violation(|| body(&engine))
}

/// Threads to compute with: a team for the kernels, and a pool for what else goes parallel, one of whose
/// threads leads the team. While the one works the other sleeps.
pub(super) struct Threads {
    pool: ThreadPool,
    team: Team,
}

impl Threads {
    /// So many threads; as many as the machine has cores for 0.
    ///
    /// # Errors
    /// If the system gives none.
    pub(super) fn start(threads: usize) -> Result<Threads> {
        const WHY: &str = "cannot start the threads";
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|n| format!("worker {n}"))
            .build()
            .context(WHY)?;
        let team = Team::new(pool.current_num_threads()).context(WHY)?;
        Ok(Threads { pool, team })
    }

    /// Runs `body` on a thread of the pool, which has the team for what it calls.
    pub(super) fn install<R: Send>(&self, body: impl FnOnce() -> R + Send) -> R {
        self.pool.install(|| self.team.install(body))
    }
}

/// Runs `body`; a contract that a kernel breaks stops it and becomes the error.
fn stop_on_violation<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    // Unwinding without the panic hook: main prints the diagnosis, once.
    contract::set_policy(Policy::Handler(Arc::new(|violation| {
        if !std::thread::panicking() {
            panic::resume_unwind(Box::new(violation.clone()));
        }
    })));
    caught(body)
}

/// Runs `body`; a violation that unwinds out of it becomes the error. A timeline has it that what is
/// open on this thread failed.
pub(super) fn caught<R>(body: impl FnOnce() -> Result<R>) -> Result<R> {
    let ran = panic::catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        match payload.downcast::<Violation>() {
            Ok(violation) => Err(Error::new(*violation)),
            Err(payload) => panic::resume_unwind(payload),
        }
    });
    ran.inspect_err(|error| match error.downcast_ref::<Violation>() {
        Some(violation) => fail(violation, Some(violation.brick)),
        None => fail(&format_args!("{error:#}"), None),
    })
}

/// Runs `body` with a session of the model in `gguf`; NaN or infinite numbers that stop it are told
/// with their [diagnosis](jidoka::diagnose).
pub(super) fn diagnosed<'m, R>(
    session: &mut Session<'m>,
    gguf: &Gguf<'_>,
    body: impl FnOnce(&mut Session<'m>) -> Result<R>,
) -> Result<R> {
    let ran = caught(|| body(session));
    ran.map_err(|error| jidoka::diagnose(error, session.model(), gguf, session.fed()))
}

impl Engine<'_> {
    /// Which program runs which model on which machine. Reads the whole file.
    pub(super) fn identity(&self) -> Identity {
        let kernels = Kernels {
            instruction_set: self.kernels.instruction_set,
            activations: if self.rounds { "int8" } else { "f32" },
        };
        Identity::new(self.file, self.architecture(), kernels)
    }

    /// `general.architecture` of the model.
    pub(super) fn architecture(&self) -> &'static str {
        self.model.config().architecture.name()
    }

    /// The tokens of a prompt, special ones included.
    ///
    /// # Errors
    /// If the text is empty or can't be tokenised.
    #[brick(id = Tokenize, budget_us = 200 + prompt.len(), bytes = prompt.len(), category = Text)]
    pub(super) fn encode(&self, prompt: &str) -> Result<Vec<u32>> {
        // BOS alone would be something to continue from, but nobody who wrote "" meant that.
        if prompt.is_empty() {
            return Err(ModelError::EmptyPrompt.into());
        }
        Ok(self.tokenizer.encode(prompt, EncodeOptions::default())?)
    }

    /// What stopped a session of this model after `fed`, with all that can be found out about it.
    pub(super) fn diagnose(&self, error: Error, fed: &[u32]) -> Error {
        jidoka::diagnose(error, &self.model, self.gguf, fed)
    }

    /// How many tokens may follow a prompt of `n_prompt`: what was asked for, or `default` as far
    /// as the context allows.
    ///
    /// # Errors
    /// If prompt and generation do not fit the model's context.
    pub(super) fn max_tokens(
        &self,
        n_prompt: usize,
        asked: Option<usize>,
        default: usize,
    ) -> Result<usize, ModelError> {
        let context = self.model.config().context_length;
        let too_long = |asked| ModelError::Context { asked, context };
        let room = context.checked_sub(n_prompt).ok_or(too_long(n_prompt))?;
        match asked {
            Some(asked) if asked > room => Err(too_long(n_prompt.saturating_add(asked))),
            Some(asked) => Ok(asked),
            None => Ok(default.min(room)),
        }
    }
}
