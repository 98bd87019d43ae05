//! A timeline of what a command does, the files it is written to and the collector it is sent to.

use super::collector::{self, Collector, CollectorArgs, Generated};
use crate::export::{self, Export};
use anyhow::{Context, Result};
use brick_runtime::span::{RecordedSpans, TraceContext};
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

/// What was recorded, and who is to have it yet.
#[derive(Debug)]
pub(super) struct Recorded {
    spans: RecordedSpans,
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

impl Recorder<'_> {
    /// Stops, writes the files, and says on standard error what the recording cost and lacks. What
    /// was recorded, if anything was.
    ///
    /// # Errors
    /// If a file can't be written.
    pub(super) fn finish(self, generated: &Generated<'_>) -> Result<Option<Recorded>> {
        let Some(timeline) = self.recording.map(Recording::stop) else {
            return Ok(None);
        };
        let spans = generated.spans(timeline, self.caller.as_ref());
        let title = format!("{} {}", generated.command, generated.model);
        export::write(self.exports, &spans, &title)?;
        let timeline = spans.timeline();
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
        let collector = self.collector;
        Ok(Some(Recorded { spans, collector }))
    }
}

impl Recorded {
    /// The timeline.
    pub(super) fn timeline(&self) -> &Timeline {
        self.spans.timeline()
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
}
