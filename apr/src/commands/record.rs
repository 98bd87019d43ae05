//! A timeline of what a command does, and the files it is written to.

use crate::export::{Export, Exports};
use anyhow::{Context, Result};
use brick_runtime::timeline::{Limits, Recording, Timeline};
use std::io::{self, Write};

/// `--export`.
#[derive(Debug, clap::Args)]
pub(super) struct RecordArgs {
    /// Write every call, with its start and end, to FILE; may be given several times. Kinds: chrome
    /// (JSON for Perfetto), folded (stacks and nanoseconds), flamegraph (SVG), dot (the last step's graph
    /// for Graphviz), graph (the same as text: critical path, slack, gaps)
    #[arg(long = "export", value_name = "KIND=FILE")]
    exports: Vec<Export>,
}

/// A recording in progress, if somebody wants one.
#[derive(Debug)]
pub(super) struct Recorder {
    exports: Exports,
    recording: Option<Recording>,
}

impl RecordArgs {
    /// Opens the files and starts recording; also without a file where it is `needed` otherwise.
    ///
    /// # Errors
    /// If a file can't be written, or nothing can be recorded.
    pub(super) fn start(&self, needed: bool) -> Result<Recorder> {
        let exports = Exports::open(&self.exports)?;
        let wanted = needed || !self.exports.is_empty();
        let recording = wanted.then(|| Recording::start(Limits::default()));
        Ok(Recorder {
            exports,
            recording: recording.transpose().context("cannot record the run")?,
        })
    }
}

impl Recorder {
    /// Stops, writes the files, and says on standard error what the recording cost and lacks. The
    /// timeline, where one was recorded.
    ///
    /// # Errors
    /// If a file can't be written.
    pub(super) fn finish(self, title: &str) -> Result<Option<Timeline>> {
        let Some(timeline) = self.recording.map(Recording::stop) else {
            return Ok(None);
        };
        self.exports.write(&timeline, title)?;
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
        Ok(Some(timeline))
    }
}
