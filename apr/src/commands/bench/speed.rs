//! How fast: prompts, single tokens, loading.

use super::Args;
use super::report::{Kind, Report, Test};
use super::running::{Fed, Running};
use super::spread::Spread;
use crate::commands::collector::Subject;
use crate::commands::engine::{self, Engine, Threads};
use crate::model::{ModelError, Session};
use crate::progress::Progress;
use anyhow::{Result, bail};
use brick_runtime::timeline::span_scope;
use brick_runtime::{BrickProfiler, Figure};
use std::fs;
use std::time::{Duration, Instant};

/// Tokens of the prompt where the command line doesn't say.
const DEFAULT_PROMPT: usize = 512;

/// Runs the command.
///
/// # Errors
/// Whatever is wrong with the arguments, the file or the model.
pub(super) fn run(args: &Args) -> Result<()> {
    if args.prompt_tokens == Some(0) && args.tokens == 0 {
        bail!("nothing to measure: -p and -n are 0");
    }
    engine::open(&args.model, args.precision, |engine| {
        let sizes = Sizes::new(args, engine)?;
        let subject = Subject {
            command: "apr bench",
            model: engine.name,
        };
        let recorder = args.record.start(&subject, false)?;
        let mut running = Running::new(engine);
        let ran = measure(args, &mut running, &sizes);
        running.end(subject, recorder, ran, |report| {
            report.print(args.json, engine)
        })
    })
}

/// Tokens to measure with.
struct Sizes {
    prompt: usize,
    decode: usize,
    /// Positions that a session has room for.
    context: usize,
}

impl Sizes {
    fn new(args: &Args, engine: &Engine<'_>) -> Result<Self> {
        let limit = engine.model.config().context_length;
        let context = args.ctx.map(usize::from);
        let room = context.unwrap_or(limit);
        let prompt = args.prompt_tokens.unwrap_or(DEFAULT_PROMPT.min(room));
        let decode = args.tokens;
        for (flag, n) in [("-p", prompt), ("-n", decode)] {
            match context {
                Some(context) if n > context => {
                    bail!("--ctx {context} has no room for the {n} tokens of {flag}")
                }
                _ => {}
            }
        }
        let context = context.unwrap_or(prompt.max(decode));
        // Before tokens are drawn, of which there may be more than memory has room for.
        if context > limit {
            let (asked, context) = (context, limit);
            return Err(ModelError::Context { asked, context }.into());
        }
        Ok(Self {
            prompt,
            decode,
            context,
        })
    }
}

fn measure<'a>(args: &Args, running: &mut Running<'_, 'a>, sizes: &Sizes) -> Result<Report<'a>> {
    let threads = match &args.threads[..] {
        [] => vec![0],
        asked => asked.iter().map(|&n| n.into()).collect(),
    };
    let mut tests = Vec::new();
    for &threads in &threads {
        let on_these = Threads::start(threads)?.install(|| on_pool(args, running, sizes))?;
        tests.extend(on_these);
    }
    // Before there is a second copy of the vocabulary.
    let peak_rss_bytes = peak_rss_bytes();
    let loads = (0..args.repetitions.get()).map(|_| load(args, threads[0], sizes));
    let loads = loads.collect::<Result<Vec<_>>>()?;
    let ms = |which: usize| {
        let each = loads.iter().map(|load| load[which].as_secs_f64() * 1e3);
        Spread::measured(each.collect())
    };
    let engine = running.engine;
    Ok(Report {
        model: engine.name,
        architecture: engine.architecture(),
        context: sizes.context,
        warm_up: [sizes.prompt, sizes.decode.min(1)],
        weight_bytes_per_token: Figure::Derived {
            value: engine.model.bytes_per_token() as f64,
            from: "sizes of the tensors that a pass reads",
        },
        load_ms: ms(0),
        first_token_ms: ms(1),
        tests,
        peak_rss_bytes,
    })
}

/// Loads the model once more: what it took until it was there, and until a first token's logits were,
/// from opening the file.
fn load(args: &Args, threads: usize, sizes: &Sizes) -> Result<[Duration; 2]> {
    let _span = span_scope("load");
    engine::open(&args.model, args.precision, |engine| {
        Threads::start(threads)?.install(|| {
            let mut session = Session::new(&engine.model, sizes.context)?;
            session.feed(&tokens(engine, 1))?;
            Ok([engine.load_time, engine.opened.elapsed()])
        })
    })
}

/// All tests, on the threads of the current pool.
fn on_pool(args: &Args, running: &mut Running<'_, '_>, sizes: &Sizes) -> Result<Vec<Test>> {
    let engine = running.engine;
    let kinds = [(Kind::Prompt, sizes.prompt), (Kind::Decode, sizes.decode)];
    let kinds = kinds.map(|(kind, n)| (kind, tokens(engine, n)));
    let wanted = || kinds.iter().filter(|(_, tokens)| !tokens.is_empty());
    running.session(sizes.context, |session, fed| {
        let (progress, span) = (Progress::new("warming up", 0), span_scope("warm-up"));
        for (kind, tokens) in wanted() {
            session.clear();
            match kind {
                Kind::Prompt => read(session, fed, tokens)?,
                Kind::Decode => decode(session, fed, &tokens[..1])?,
            }
        }
        drop((span, progress));
        let tests = wanted().map(|(kind, tokens)| test(args, session, fed, *kind, tokens));
        tests.collect()
    })
}

/// One test, as often as asked for.
fn test(
    args: &Args,
    session: &mut Session<'_>,
    fed: &mut Fed,
    kind: Kind,
    tokens: &[u32],
) -> Result<Test> {
    let repetitions = args.repetitions.get();
    let profiler = BrickProfiler::global();
    let progress = Progress::new(kind.doing(), tokens.len().saturating_mul(repetitions));
    let mut ms = Vec::new();
    profiler.reset();
    for repetition in 1..=repetitions {
        session.clear();
        let span = span_scope(kind.name());
        let clock = Instant::now();
        match kind {
            Kind::Prompt => read(session, fed, tokens)?,
            Kind::Decode => decode(session, fed, tokens)?,
        }
        ms.push(clock.elapsed().as_secs_f64() * 1e3);
        drop(span);
        progress.set(repetition * tokens.len());
    }
    let cost = profiler.snapshot().cost();
    let weights = session.model().bytes_per_token();
    Ok(Test::new(kind, tokens.len(), ms, weights, cost))
}

/// All at once.
fn read(session: &mut Session<'_>, fed: &mut Fed, tokens: &[u32]) -> Result<()> {
    session.feed(tokens)?;
    fed.input += tokens.len();
    Ok(())
}

/// One after the other.
fn decode(session: &mut Session<'_>, fed: &mut Fed, tokens: &[u32]) -> Result<()> {
    for token in tokens.chunks(1) {
        let _step = span_scope("step");
        session.feed(token)?;
        fed.output += 1;
    }
    Ok(())
}

/// `n` tokens: BOS where the vocabulary begins texts with it, then any of the vocabulary, the same
/// ones in every run.
fn tokens(engine: &Engine<'_>, n: usize) -> Vec<u32> {
    let bos = engine.tokenizer.bos();
    let bos = bos.filter(|_| engine.tokenizer.adds_bos());
    let mut state = 0_u64;
    let drawn = std::iter::repeat_with(|| below(&mut state, engine.model.n_vocab()));
    bos.into_iter().chain(drawn).take(n).collect()
}

/// SplitMix64 (Steele, Lea & Flood, 2014), scaled to below `n`.
fn below(state: &mut u64, n: usize) -> u32 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    ((u128::from(z) * n as u128) >> 64) as u32
}

/// The most memory that the process ever had resident, mapped files included, as Linux counts it.
fn peak_rss_bytes() -> Figure {
    let status = match fs::read_to_string("/proc/self/status") {
        Ok(status) => status,
        Err(error) => return Figure::unavailable(format!("/proc/self/status: {error}")),
    };
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u32>().ok());
    match kib {
        Some(kib) => Figure::Measured(f64::from(kib) * 1024.0),
        None => Figure::unavailable("/proc/self/status has no VmHWM"),
    }
}
