//! What one call of an annotated, nearly empty function costs.
//!
//! ```text
//! export RUSTFLAGS="-C llvm-args=-align-all-functions=6"
//! cargo run --release                  # the table, then one line for machines
//! cargo run --release -- --check       # exit code 1 if the bar is missed
//! cargo run --release -- --only brick  # contenders by substring
//! cargo run --release -- --contender full --calls 100000000   # a plain loop: ns a call, memory
//! ```
//!
//! Contenders are interleaved (A B C … A B C …), and each sample is paired with one of its
//! floor taken just before: two reads of the cycle counter around the same body. The ratio is
//! the median over the pairs; it survives a noisy, shared machine. Time is the
//! calling thread's CPU time, which leaves out preemption. The first round is a discarded
//! warm-up that also sizes each contender's loop.
//!
//! Where the linker puts a function, and where the stack ends, decides over 3 % and more of
//! such short calls, the floor's included. So all functions start at a multiple of 64 bytes (the
//! flag above; without it a line says so), and each round has another depth of stack.

brick_runtime::bricks!();

mod bricks;
mod floor;
mod harness;
mod peers;

use std::process::ExitCode;

use harness::{Contender, Row, measure};

/// The most that may be paid over the paired floor.
const BAR_FULL: f64 = 1.15;
const BAR_SELF_TIME: f64 = 1.30;

const CONTENDERS: &[Contender] = &[
    Contender {
        name: "bare function",
        run: plain!(floor::bare),
        floor: plain!(floor::two_reads),
    },
    Contender {
        name: "2 x rdtsc (floor)",
        run: plain!(floor::two_reads),
        floor: plain!(floor::two_reads),
    },
    Contender {
        name: "2 x std Instant",
        run: plain!(floor::two_instants),
        floor: plain!(floor::two_reads),
    },
    Contender {
        name: "brick: full",
        run: plain!(bricks::full),
        floor: plain!(floor::two_reads),
    },
    Contender {
        name: "brick: budget",
        run: plain!(bricks::budget),
        floor: plain!(floor::two_reads),
    },
    Contender {
        name: "brick: self time, parent + child",
        run: plain!(bricks::parent),
        floor: plain!(floor::nested),
    },
    Contender {
        name: "brick: flops and bytes",
        run: plain!(bricks::declared),
        floor: plain!(floor::two_reads),
    },
    Contender {
        name: "brick: layer",
        run: plain!(bricks::layered),
        floor: plain!(floor::two_reads),
    },
    Contender {
        name: "brick: finite over 256 f32",
        run: bricks::finite,
        floor: plain!(floor::two_reads),
    },
    Contender {
        name: "brick: disabled at run time",
        run: bricks::disabled,
        floor: plain!(floor::two_reads),
    },
    Contender {
        name: "hotpath",
        run: plain!(peers::with_hotpath),
        floor: plain!(floor::two_reads),
    },
    Contender {
        name: "tracing, registry + timing layer",
        run: peers::tracing_layer,
        floor: plain!(floor::two_reads),
    },
    Contender {
        name: "fastrace, local root per 1000",
        run: peers::fastrace,
        floor: plain!(floor::two_reads),
    },
    Contender {
        name: "puffin, frame per 1000",
        run: peers::puffin,
        floor: plain!(floor::two_reads),
    },
];

/// Measured before any subscriber exists: once one has, tracing's fast path never comes back.
const PRISTINE: &[Contender] = &[Contender {
    name: "tracing, never a subscriber",
    run: plain!(peers::with_tracing),
    floor: plain!(floor::two_reads),
}];

struct Options {
    check: bool,
    only: String,
    rounds: usize,
    ms: f64,
    loop_of: Option<(String, u64)>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        check: false,
        only: String::new(),
        rounds: 51,
        ms: 2.0,
        loop_of: None,
    };
    let (mut contender, mut calls) = (None, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        let number = |text: String| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
        match arg.as_str() {
            "--check" => options.check = true,
            "--bench" => {}
            "--only" => options.only = value()?,
            "--rounds" => options.rounds = number(value()?)?.max(1) as usize,
            "--ms" => options.ms = number(value()?)?.max(1) as f64,
            "--contender" => contender = Some(value()?),
            "--calls" => calls = Some(number(value()?)?),
            other => {
                return Err(format!(
                    "unknown argument {other}; there are --check, --only NAME, --rounds N, --ms N, \
                     --contender NAME with --calls N"
                ));
            }
        }
    }
    options.loop_of = match (contender, calls) {
        (None, None) => None,
        (Some(name), Some(calls)) => Some((name, calls)),
        _ => return Err("--contender and --calls go together".into()),
    };
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("overhead: {message}");
            return ExitCode::from(2);
        }
    };
    if let Some((name, calls)) = &options.loop_of {
        let Some(contender) = CONTENDERS.iter().find(|c| c.name.contains(name.as_str())) else {
            eprintln!("overhead: no contender is called {name}");
            return ExitCode::from(2);
        };
        (contender.run)(10_000);
        let before = harness::resident_kib();
        let ns = (contender.run)(*calls).as_nanos() as f64 / *calls as f64;
        let after = harness::resident_kib();
        println!(
            "{}: {calls} calls, {ns:.2} ns each, {before} -> {after} KiB resident",
            contender.name
        );
        return ExitCode::SUCCESS;
    }
    let _peers = peers::start();
    table(&options)
}

fn table(options: &Options) -> ExitCode {
    let pick = |list: &'static [Contender]| {
        list.iter()
            .filter(|c| c.name.contains(&options.only))
            .collect::<Vec<_>>()
    };
    println!(
        "{} rounds of ~{} ms, interleaved and paired; thread CPU time",
        options.rounds, options.ms
    );
    let functions = [
        floor::two_reads,
        bricks::full,
        bricks::budget,
        bricks::parent,
    ];
    if functions.iter().any(|&f| !(f as usize).is_multiple_of(64)) {
        println!(
            "functions are not aligned to 64 bytes: ratios may be off by 0.03; see this program's \
             documentation for the flag"
        );
    }
    let pristine =
        [1, 2].map(|threads| measure(&pick(PRISTINE), threads, options.rounds, options.ms));
    let mut ratios = Vec::new();
    for (threads, mut rows) in [1, 2].into_iter().zip(pristine) {
        rows.extend(measure(
            &pick(CONTENDERS),
            threads,
            options.rounds,
            options.ms,
        ));
        println!("\n{threads} thread(s)\n");
        println!("| contender | ns per call: median | p10 | min..max | x paired floor |");
        println!("|---|---:|---:|---:|---:|");
        for row in &rows {
            println!(
                "| {} | {:.2} | {:.2} | {:.2}..{:.2} | {:.2} |",
                row.name, row.median, row.p10, row.min, row.max, row.ratio
            );
        }
        ratios.push(rows);
    }
    peers::finish();
    let ratio = |threads: usize, name: &str| find(&ratios[threads - 1], name);
    let (full, self_time, threads2) = (
        ratio(1, "brick: full"),
        ratio(1, "brick: self time"),
        ratio(2, "brick: full"),
    );
    println!(
        "\noverhead: full={full:.2} self_time={self_time:.2} threads2={threads2:.2} (x paired floor)"
    );
    let missed = full > BAR_FULL || self_time > BAR_SELF_TIME || threads2 > BAR_FULL;
    if options.check && missed {
        eprintln!(
            "overhead: the bar is {BAR_FULL} for full and threads2, {BAR_SELF_TIME} for self_time"
        );
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// The ratio of the contender whose name starts with `name`; NaN if it was not picked.
fn find(rows: &[Row], name: &str) -> f64 {
    rows.iter()
        .find(|r| r.name.starts_with(name))
        .map_or(f64::NAN, |r| r.ratio)
}
