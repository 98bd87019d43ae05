//! A timeline of what a command does, the files it is written to and the collector it is sent to.

use super::collector::{self, CollectorArgs, Generated, Live, Rest, Subject};
use crate::export::{self, Export};
use crate::terminal::one_line;
use anyhow::{Context, Result};
use brick_runtime::graph::Ceilings;
use brick_runtime::span::{RecordedSpans, SpanRecord, StreamCounts, TraceContext};
use brick_runtime::timeline::{Limits, Recording, Timeline};
use std::io::{self, Write};

/// Events that wait for a collector, at most: 55 MB. Those of a recording that is kept are all there.
const WAITING: Limits = Limits { events: 250_000 };

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
    source: Option<Source>,
    caller: Option<TraceContext>,
}

/// Where what is recorded goes.
#[derive(Debug)]
enum Source {
    /// It stays where it is until the end.
    Kept(Recording),
    /// To a collector.
    Live(Live),
}

/// A recording that has stopped.
#[derive(Debug)]
pub(super) struct Stopped<'a> {
    exports: &'a [Export],
    source: Option<Ended>,
    caller: Option<TraceContext>,
}

/// What is left of a [`Source`].
#[derive(Debug)]
enum Ended {
    Kept(Timeline),
    Live(Box<Rest>),
}

/// What was recorded, and who is to have it.
#[derive(Debug)]
pub(super) struct Recorded<'a> {
    exports: &'a [Export],
    title: String,
    /// All of it, if anybody here needed it.
    spans: Option<RecordedSpans>,
    ceilings: Option<Ceilings>,
    /// What a collector is to have yet.
    rest: Option<Box<Rest>>,
}

impl RecordArgs {
    /// Checks the files and starts recording what `subject` does; also where nobody else wants it, if
    /// it is `needed`.
    ///
    /// # Errors
    /// If a file can't be written, or nothing can be recorded.
    pub(super) fn start(&self, subject: &Subject<'_>, needed: bool) -> Result<Recorder<'_>> {
        export::check(&self.exports)?;
        let caller = collector::caller()?;
        let collector = self.collector.start(caller.as_ref())?;
        let keep = needed || !self.exports.is_empty();
        let start = |limits| Recording::start(limits).context("cannot record the run");
        let source = match (collector, keep) {
            (None, false) => None,
            (None, true) => Some(Source::Kept(start(Limits::default())?)),
            (Some(collector), keep) => {
                let recording = start(if keep { Limits::default() } else { WAITING })?;
                let live = collector.follow(recording, subject, caller.as_ref(), keep)?;
                Some(Source::Live(live))
            }
        };
        Ok(Recorder {
            exports: &self.exports,
            source,
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
            source: self.source.map(|source| match source {
                Source::Kept(recording) => Ended::Kept(recording.stop()),
                Source::Live(live) => Ended::Live(Box::new(live.stop())),
            }),
            caller: self.caller,
        }
    }
}

impl<'a> Stopped<'a> {
    /// The spans of what was recorded, if anything was.
    pub(super) fn spans(self, generated: &Generated<'_>) -> Option<Recorded<'a>> {
        let (spans, rest) = match self.source? {
            Ended::Kept(timeline) => {
                let spans = generated.spans(timeline, self.caller.as_ref());
                (Some(spans), None)
            }
            Ended::Live(mut rest) => (rest.complete(generated), Some(rest)),
        };
        Some(Recorded {
            exports: self.exports,
            title: generated.title(),
            spans,
            ceilings: None,
            rest,
        })
    }
}

impl Recorded<'_> {
    /// Exported graphs say how far kernels are from what the machine can do, if that is known.
    pub(super) fn under(self, ceilings: Option<Ceilings>) -> Self {
        Self { ceilings, ..self }
    }

    /// Adds spans of what the recording left out.
    pub(super) fn add(&mut self, more: Vec<SpanRecord>) {
        if let Some(rest) = &mut self.rest {
            rest.add(more.clone());
        }
        if let Some(spans) = &mut self.spans {
            spans.add(more);
        }
    }

    /// The timeline, if it was needed here or goes to files.
    pub(super) fn timeline(&self) -> Option<&Timeline> {
        self.spans.as_ref().map(RecordedSpans::timeline)
    }

    fn counts(&self) -> Option<StreamCounts> {
        let timeline = self.timeline().map(|timeline| StreamCounts {
            events: timeline.events.len(),
            threads: timeline.threads.len(),
            dropped: timeline.dropped,
            ns_per_event: timeline.ns_per_event.clone(),
        });
        timeline.or_else(|| self.rest.as_ref().map(|rest| rest.counts()))
    }

    /// Writes the files, and says on standard error what the recording cost and lacks.
    ///
    /// # Errors
    /// If a file can't be written.
    pub(super) fn write(&self) -> Result<()> {
        if let Some(spans) = &self.spans {
            export::write(self.exports, spans, &self.title, self.ceilings)?;
        }
        let Some(counts) = self.counts() else {
            return Ok(());
        };
        writeln!(
            io::stderr(),
            "recorded {} events on {} threads, {} dropped (measured); {:.0} ns a recorded call (measured), {:.1} ms in all (derived)",
            counts.events,
            counts.threads,
            counts.dropped,
            counts.ns_per_event,
            counts.ns_per_event.value().unwrap_or(f64::NAN) * counts.events as f64 / 1e6,
        )?;
        Ok(())
    }

    /// Sends what a collector has not got yet, if there is one: the last thing that a command does.
    ///
    /// # Errors
    /// If nobody can be told what became of it.
    pub(super) fn send(self) -> Result<()> {
        self.rest.map_or(Ok(()), |rest| Ok(rest.send()?))
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
