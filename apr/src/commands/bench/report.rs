//! What was measured, for people and for programs.

use super::spread::Spread;
use crate::commands::engine::Engine;
use crate::terminal::{one_line, table};
use brick_runtime::{BUILT_WITHOUT, Figure, ProfilerCost};
use serde::Serialize;
use std::io::{self, Write};

/// Version of the JSON that `--json` prints.
const SCHEMA: &str = "apr.bench/1";

/// What a test does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    /// Reads all tokens at once.
    Prompt,
    /// Reads one after the other.
    Decode,
}

impl Kind {
    /// As a span and in JSON.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Decode => "decode",
        }
    }

    /// For a progress line.
    pub(super) fn doing(self) -> &'static str {
        match self {
            Self::Prompt => "reading prompts",
            Self::Decode => "decoding",
        }
    }
}

/// One test on some threads.
#[derive(Debug, Serialize)]
pub(super) struct Test {
    /// As llama-bench names it: `pp512`, `tg64`.
    name: String,
    pub(super) kind: Kind,
    threads: usize,
    pub(super) tokens: usize,
    /// Of all tokens.
    pub(super) ms: Spread,
    tokens_per_s: Spread,
    /// What reading the weights once for each token comes to.
    read_gb_per_s: Figure,
    /// Of all repetitions.
    profiler: ProfilerCost,
}

impl Test {
    /// Of `tokens`, once for each of `ms`, on the threads of the current pool; `weights` are the bytes
    /// that a pass of one token reads.
    pub(super) fn new(
        kind: Kind,
        tokens: usize,
        ms: Vec<f64>,
        weights: usize,
        profiler: ProfilerCost,
    ) -> Self {
        let ms = Spread::measured(ms);
        let tokens_per_s = ms.derive("tokens / ms", |ms| tokens as f64 / (ms / 1e3));
        let short = match kind {
            Kind::Prompt => "pp",
            Kind::Decode => "tg",
        };
        Self {
            name: format!("{short}{tokens}"),
            kind,
            threads: rayon::current_num_threads(),
            tokens,
            read_gb_per_s: match kind {
                Kind::Prompt => Figure::unavailable("tokens of a prompt share what is read"),
                Kind::Decode => Figure::Derived {
                    value: weights as f64 * tokens_per_s.median() / 1e9,
                    from: "weight_bytes_per_token * tokens_per_s",
                },
            },
            ms,
            tokens_per_s,
            profiler,
        }
    }
}

/// All that was measured.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    pub(super) model: &'a str,
    pub(super) architecture: &'static str,
    /// Positions that the sessions had room for.
    pub(super) context: usize,
    /// Tokens of the prompt, and further ones, that were read before each number of threads' tests.
    pub(super) warm_up: [usize; 2],
    pub(super) weight_bytes_per_token: Figure,
    /// From opening the file to weights and vocabulary being ready.
    pub(super) load_ms: Spread,
    /// From opening the file to the logits after a first token.
    pub(super) first_token_ms: Spread,
    pub(super) tests: Vec<Test>,
    pub(super) peak_rss_bytes: Figure,
}

impl Report<'_> {
    /// To standard output.
    pub(super) fn print(&self, json: bool, engine: &Engine<'_>) -> io::Result<()> {
        if json {
            return super::print_json(SCHEMA, engine, self);
        }
        self.print_human(&mut io::stdout().lock())
    }

    fn print_human(&self, out: &mut impl Write) -> io::Result<()> {
        let mb = |figure: &Figure| match figure.value() {
            Some(bytes) => format!("{:.1} MB", bytes / 1e6),
            None => "n/a".to_owned(),
        };
        writeln!(
            out,
            "model    {}, architecture {}",
            one_line(self.model),
            self.architecture
        )?;
        writeln!(
            out,
            "weights  {} read for each token (derived)",
            mb(&self.weight_bytes_per_token)
        )?;
        writeln!(
            out,
            "load     {}, first token after {} (measured, page cache warm)",
            ms(&self.load_ms),
            ms(&self.first_token_ms),
        )?;
        writeln!(
            out,
            "memory   {} resident at most (VmHWM, measured), context of {} positions\n",
            mb(&self.peak_rss_bytes),
            self.context
        )?;
        writeln!(out, "{}", self.table())?;
        writeln!(
            out,
            "\nmedians and quartiles of {} runs each, after a warm-up of {} + {} tokens that is not counted",
            self.load_ms.len(),
            self.warm_up[0],
            self.warm_up[1],
        )?;
        self.print_cost(out)?;
        writeln!(
            out,
            "measured: ms; derived: tokens/s, * from bytes of weights and tokens/s"
        )
    }

    fn table(&self) -> String {
        let header = [
            "test",
            "threads",
            "tokens/s",
            "quartiles",
            "ms",
            "quartiles",
            "GB/s*",
        ];
        let mut table = table(header, &[1, 2, 3, 4, 5, 6]);
        for test in &self.tests {
            let quartiles = |spread: &Spread| {
                let [q1, q3] = spread.quartiles();
                format!("{q1:.1}–{q3:.1}")
            };
            let read = test.read_gb_per_s.value();
            table.add_row([
                test.name.clone(),
                test.threads.to_string(),
                format!("{:.1}", test.tokens_per_s.median()),
                quartiles(&test.tokens_per_s),
                format!("{:.1}", test.ms.median()),
                quartiles(&test.ms),
                read.map_or("–".to_owned(), |read| format!("{read:.2}")),
            ]);
        }
        table.trim_fmt()
    }

    /// What looking at the kernels cost: it is in the times.
    fn print_cost(&self, out: &mut impl Write) -> io::Result<()> {
        let ns: f64 = self.tests.iter().map(|test| test.ms.sum() * 1e6).sum();
        let costs = || self.tests.iter().map(|test| &test.profiler);
        let hooks: u64 = costs().map(|cost| cost.hooks).sum();
        let spent: Option<f64> = costs().map(|cost| cost.hooks_ns.value()).sum();
        let Some(spent) = spent else {
            return writeln!(out, "profiler: none, apr was {BUILT_WITHOUT}");
        };
        let (checks, checking) = costs().fold((0, 0.0), |(n, ns), cost| {
            (n + cost.checks.count, ns + cost.checks.total_ns)
        });
        writeln!(
            out,
            "in these times: profiler {:.2} % ({hooks} hooks, derived), contracts {:.2} % ({checks} results checked, measured)",
            100.0 * spent / ns,
            100.0 * checking / ns,
        )
    }
}

/// `12.3 ms (11.9–12.8)`
fn ms(spread: &Spread) -> String {
    let [q1, q3] = spread.quartiles();
    format!("{:.1} ms ({q1:.1}–{q3:.1})", spread.median())
}
