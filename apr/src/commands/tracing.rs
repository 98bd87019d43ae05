//! The options of `apr run` that are about its trace, and what becomes of them.

use super::engine::Engine;
use super::sampling::SamplingArgs;
use crate::model::{At, Observer, Outcome, Session};
use crate::progress::Progress;
use crate::trace::{Collector, Document, Level, Settings, Table};
use anyhow::{Context, Result, bail};
use brick_runtime::BrickProfiler;
use brick_runtime::trace::{StepFilter, TraceLevel, TraceStep};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// What to trace, and where to.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Trace")]
pub(super) struct TraceArgs {
    /// Show what each step took, after the text, on standard error (the level "basic")
    #[arg(long)]
    trace: bool,
    /// How much to trace: none, basic (steps and times), layer (statistics of every tensor),
    /// payload (their values too)
    #[arg(long, value_name = "LEVEL")]
    trace_level: Option<TraceLevel>,
    /// Trace these steps only, with commas between: "attention,sample" [default: all]
    #[arg(long, value_name = "STEPS")]
    trace_steps: Option<StepFilter>,
    /// Write the trace to a JSON file (schema apr.trace/1) instead. Values are in it up to 64 KiB, and
    /// beyond that in a .safetensors file beside it
    #[arg(long, value_name = "FILE")]
    trace_output: Option<PathBuf>,
}

impl TraceArgs {
    /// Starts the trace that was asked for, if one was.
    ///
    /// # Errors
    /// If options contradict each other, or the values' file can't be created.
    pub(super) fn start(&self) -> Result<Option<Tracer<'_>>> {
        let given = self.trace || self.trace_steps.is_some() || self.trace_output.is_some();
        let level = match self.trace_level {
            Some(TraceLevel::None) if given => {
                bail!("--trace-level none traces nothing: leave out the other --trace options")
            }
            Some(TraceLevel::None) => return Ok(None),
            Some(level) => level,
            None if given => TraceLevel::Basic,
            None => return Ok(None),
        };
        let asked = Level {
            level,
            steps: self.trace_steps.unwrap_or_default(),
        };
        let output = self.trace_output.as_deref();
        let shown = || output.map_or(String::new(), |path| path.display().to_string());
        if output.is_some_and(|path| path.extension().is_some_and(|e| e == "safetensors")) {
            bail!("--trace-output {}: that name is for the values", shown());
        }
        // The bricks' times shall be of what is traced.
        BrickProfiler::global().reset();
        Ok(Some(Tracer {
            collector: Collector::new(asked, output).with_context(shown)?,
            output,
        }))
    }
}

/// A trace in progress.
pub(super) struct Tracer<'p> {
    collector: Collector,
    output: Option<&'p Path>,
}

/// What the trace tells of the run it is of.
pub(super) struct Traced<'a> {
    pub(super) engine: &'a Engine<'a>,
    pub(super) prompt: &'a str,
    pub(super) prompt_ids: &'a [u32],
    pub(super) max_tokens: usize,
    pub(super) sampling: &'a SamplingArgs,
}

impl Tracer<'_> {
    /// Runs the tokenizer as the step that it is.
    pub(super) fn tokenize(
        &mut self,
        encode: impl FnOnce() -> Result<Vec<u32>>,
    ) -> Result<Vec<u32>> {
        let at = At {
            layer: None,
            first_pos: 0,
            n_tokens: 0,
        };
        self.collector.begin(TraceStep::Tokenize, at);
        let ids = encode()?;
        let outcome = Outcome::Tokens(&ids);
        self.collector.end(TraceStep::Tokenize, at, outcome);
        Ok(ids)
    }

    /// Looks on at what the session does from now on.
    pub(super) fn observe<'m>(&'m mut self, session: &mut Session<'m>) {
        session.observe(&mut self.collector);
    }

    /// Writes the file, or shows the table on standard error; `stopped` says why the run did not
    /// end by itself.
    ///
    /// # Errors
    /// If a file can't be written.
    pub(super) fn finish(mut self, run: &Traced<'_>, stopped: Option<String>) -> Result<()> {
        let Some(path) = self.output else {
            let mut err = io::stderr().lock();
            writeln!(err, "\n{}", Table(&self.collector))?;
            return Ok(());
        };
        let progress = Progress::new("writing the trace", 0);
        let asked = self.collector.asked();
        let identity = run.engine.identity();
        let settings = Settings {
            level: asked.level,
            steps: asked.steps,
            prompt: run.prompt,
            prompt_ids: run.prompt_ids,
            max_tokens: run.max_tokens,
            threads: rayon::current_num_threads(),
            sampling: run.sampling.described()?,
        };
        let shown = || path.display().to_string();
        let cost = self.collector.cost();
        let document =
            Document::new(&mut self.collector, identity, settings, stopped).with_context(shown)?;
        document.write(path).with_context(shown)?;
        drop(progress);
        let mut err = io::stderr().lock();
        let values = match document.payload() {
            Some(payload) => format!(
                ", values of {} tensors ({} bytes) in {}",
                payload.tensors,
                payload.bytes,
                match &payload.file {
                    Some(file) => format!("{file} beside it"),
                    None => "it".to_owned(),
                }
            ),
            None => String::new(),
        };
        writeln!(err, "\ntrace: {}, level {}{values}", shown(), asked.level)?;
        if let dropped @ 1.. = document.values_dropped() {
            writeln!(
                err,
                "dropped: values of {dropped} tensors, for which there was no room"
            )?;
        }
        for warning in document.warnings() {
            writeln!(err, "warning: {warning}")?;
        }
        writeln!(err, "trace: {cost}")?;
        Ok(())
    }
}
