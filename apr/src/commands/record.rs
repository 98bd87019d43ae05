//! A timeline of what a command does, the files it is written to and the collector it is sent to.

use super::collector::{self, Collector, CollectorArgs, Generated};
use crate::export::{self, Export};
use crate::terminal::one_line;
use anyhow::{Context, Result};
use brick_runtime::graph::Ceilings;
use brick_runtime::span::{RecordedSpans, SpanRecord, TraceContext};
use brick_runtime::timeline::{Limits, Recording, Timeline};
use std::io::{self, Write};

/// `--export` and `--otlp-endpoint`.
#[derive(Debug, clap::Args)]
pub(super) struct RecordArgs {
    /// Write every call, with its start and end, to FILE; may be given several times. Kinds: chrome
    /// (JSON for Perfetto), folded (stacks and nanoseconds), flamegraph (SVG), dot (the last step's graph
    /// for Graphviz), graph (the same as text: critical path, slack, gaps), parquet (a row per span)
    #[arg(long = "export", value_name = "KIND=FILE")]
    exports: Vec<Export>,

    #[command(flatten)]
    collector: CollectorArgs,
}

/// A recording in progress, if somebody wants one.
#[derive(Debug)]
pub(super) struct Recorder<'a> {
    exports: &'a [Export],
    recording: Option<Recording>,
    collector: Option<Collector>,
    caller: Option<TraceContext>,
}

/// A recording that has stopped.
#[derive(Debug)]
pub(super) struct Stopped<'a> {
    exports: &'a [Export],
    timeline: Option<Timeline>,
    collector: Option<Collector>,
    caller: Option<TraceContext>,
}

/// What was recorded, and who is to have it.
#[derive(Debug)]
pub(super) struct Recorded<'a> {
    exports: &'a [Export],
    title: String,
    spans: RecordedSpans,
    ceilings: Option<Ceilings>,
    collector: Option<Collector>,
}

impl RecordArgs {
    /// Checks the files and starts recording; also where nobody else wants it, if it is `needed`.
    ///
    /// # Errors
    /// If a file can't be written, or nothing can be recorded.
    pub(super) fn start(&self, needed: bool) -> Result<Recorder<'_>> {
        export::check(&self.exports)?;
        let caller = collector::caller()?;
        let collector = self.collector.start(caller.as_ref())?;
        let wanted = needed || !self.exports.is_empty() || collector.is_some();
        let recording = wanted.then(|| Recording::start(Limits::default()));
        Ok(Recorder {
            exports: &self.exports,
            recording: recording.transpose().context("cannot record the run")?,
            collector,
            caller,
        })
    }
}

impl RecordArgs {
    /// Whether what is recorded is wanted as spans.
    pub(super) fn wants_spans(&self) -> bool {
        self.collector.is_wanted() || !self.exports.is_empty()
    }
}

impl<'a> Recorder<'a> {
    /// Stops: what comes now is not part of the run.
    pub(super) fn stop(self) -> Stopped<'a> {
        Stopped {
            exports: self.exports,
            timeline: self.recording.map(Recording::stop),
            collector: self.collector,
            caller: self.caller,
        }
    }
}

impl<'a> Stopped<'a> {
    /// The spans of what was recorded, if anything was.
    pub(super) fn spans(self, generated: &Generated<'_>) -> Option<Recorded<'a>> {
        let spans = generated.spans(self.timeline?, self.caller.as_ref());
        Some(Recorded {
            exports: self.exports,
            title: generated.title(),
            spans,
            ceilings: None,
            collector: self.collector,
        })
    }
}

impl Recorded<'_> {
    /// Exported graphs say how far kernels are from what the machine can do, if that is known.
    pub(super) fn under(self, ceilings: Option<Ceilings>) -> Self {
        Self { ceilings, ..self }
    }

    /// Adds spans of what the recording left out.
    pub(super) fn add(&mut self, spans: impl IntoIterator<Item = SpanRecord>) {
        self.spans.add(spans);
    }

    /// The timeline.
    pub(super) fn timeline(&self) -> &Timeline {
        self.spans.timeline()
    }

    /// Writes the files, and says on standard error what the recording cost and lacks.
    ///
    /// # Errors
    /// If a file can't be written.
    pub(super) fn write(&self) -> Result<()> {
        export::write(self.exports, &self.spans, &self.title, self.ceilings)?;
        let timeline = self.spans.timeline();
        let mut err = io::stderr().lock();
        writeln!(
            err,
            "recorded {} events on {} threads, {} dropped (measured); {:.0} ns a recorded call (measured), {:.1} ms in all (derived)",
            timeline.events.len(),
            timeline.threads.len(),
            timeline.dropped,
            timeline.ns_per_event,
            timeline.ns_per_event.value().unwrap_or(f64::NAN) * timeline.events.len() as f64 / 1e6,
        )?;
        Ok(())
    }

    /// Sends it to the collector, if there is one: the last thing that a command does.
    ///
    /// # Errors
    /// If nobody can be told what became of it.
    pub(super) fn send(self) -> Result<()> {
        match self.collector {
            Some(collector) => Ok(collector.send(&self.spans)?),
            None => Ok(()),
        }
    }

    /// Writes the files and sends the rest, whether or not the files could be written.
    ///
    /// # Errors
    /// Those of both, of which the first is returned and the other told.
    pub(super) fn deliver(self) -> Result<()> {
        let written = self.write();
        all_told([written, self.send()])
    }
}

/// The first error; others are told on standard error here: each is of a thing that somebody waits for.
pub(super) fn all_told(results: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let mut errors = results.into_iter().filter_map(Result::err);
    let first = errors.next();
    for error in errors {
        let told = one_line(&format!("{error:#}"));
        // Who does not read this has the exit code.
        let _ = writeln!(io::stderr(), "apr: {told}");
    }
    first.map_or(Ok(()), Err)
}
