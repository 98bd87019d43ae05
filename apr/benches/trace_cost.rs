//! What a layer trace costs a decoding model, as multiples of the same pass untraced.
//!
//! `cargo bench -p apr --bench trace_cost [-- [--check] MODEL.gguf…]`: the built-in model and those
//! named. Each token goes through four sessions one after the other, in an order that rotates: two
//! without a trace (what they differ by is noise), one traced with level basic, one with layer.
//! `--check` fails where the median ratio is over the bar.
#![allow(missing_docs)]

use apr::model::{Model, Session};
use apr::model_file::ModelFile;
use apr::trace::{Collector, Level};
use brick_runtime::trace::{StepFilter, TraceLevel};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

const PASSES: usize = 192;
const WARMUP: usize = 8;
/// The level, or none; and the most that it may cost.
const SESSIONS: [(&str, Option<TraceLevel>, Option<f64>); 4] = [
    ("no trace", None, None),
    ("no trace, again", None, None),
    ("basic", Some(TraceLevel::Basic), Some(1.01)),
    ("layer", Some(TraceLevel::Layer), Some(1.10)),
];

fn main() -> ExitCode {
    // Cargo adds `--bench`.
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| a != "--bench")
        .collect();
    let check = args.iter().any(|arg| arg == "--check");
    let files = args.iter().filter(|arg| *arg != "--check");
    let models = [None]
        .into_iter()
        .chain(files.map(|file| Some(Path::new(file))));
    let mut within = true;
    for model in models {
        within &= measure(model);
    }
    match check && !within {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

fn measure(path: Option<&Path>) -> bool {
    let file = ModelFile::open(path).expect("the model opens");
    let gguf = file.parse().expect("the model is a GGUF file");
    let model = Model::load(&gguf).expect("the model loads");
    println!("{}: {PASSES} passes, one thread", file.name());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let times = pool.expect("a thread").install(|| times(&model));
    let mut within = true;
    for (session, (name, _, bar)) in SESSIONS.iter().enumerate() {
        let mut ratios: Vec<f64> = times.iter().map(|pass| pass[session] / pass[0]).collect();
        let mut us: Vec<f64> = times.iter().map(|pass| pass[session] * 1e6).collect();
        ratios.sort_by(f64::total_cmp);
        us.sort_by(f64::total_cmp);
        let at = |sorted: &[f64], share: f64| sorted[(share * (sorted.len() - 1) as f64) as usize];
        let ratio = at(&ratios, 0.5);
        let bar_shown = bar.map_or(String::new(), |bar| format!(", bar {bar}"));
        println!(
            "  {name:<16} {:>9.1} µs/pass, ratio {ratio:.4} (quartiles {:.4}–{:.4}{bar_shown})",
            at(&us, 0.5),
            at(&ratios, 0.25),
            at(&ratios, 0.75),
        );
        within &= bar.is_none_or(|bar| ratio <= bar);
    }
    within
}

/// Seconds of each pass, by session.
fn times(model: &Model<'_>) -> Vec<[f64; 4]> {
    let mut collectors = SESSIONS.map(|(_, level, _)| {
        level.map(|level| {
            let steps = StepFilter::ALL;
            Collector::new(Level { level, steps }, None).expect("no file")
        })
    });
    let mut sessions: Vec<Session<'_>> = Vec::new();
    for collector in &mut collectors {
        let mut session = Session::new(model, PASSES + WARMUP).expect("a session");
        if let Some(collector) = collector {
            session.observe(collector);
        }
        sessions.push(session);
    }
    let mut times = Vec::new();
    for pass in 0..PASSES + WARMUP {
        let token = [(pass * 31 % 256) as u32];
        let mut taken = [0.0; 4];
        for turn in 0..4 {
            let which = (pass + turn) % 4;
            let clock = Instant::now();
            sessions[which].feed(&token).expect("a pass");
            taken[which] = clock.elapsed().as_secs_f64();
        }
        if pass >= WARMUP {
            times.push(taken);
        }
    }
    times
}
