//! A run for other programs: `--export KIND=FILE`.
//!
//! A file is complete or absent, and one that can't be written is told before anybody waited.

use crate::terminal::one_line;
use crate::whole_file::{probe, write_whole};
use anyhow::{Context, Result, bail};
use brick_runtime::graph::{Ceilings, ExecutionGraph};
use brick_runtime::sink::parquet;
use brick_runtime::span::RecordedSpans;
use brick_runtime::timeline::{Event, EventKind, Timeline};
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::str::FromStr;

/// A form that a run can be written down in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// JSON for Perfetto and chrome://tracing.
    Chrome,
    /// Folded stacks: paths and the nanoseconds spent there.
    Folded,
    /// An SVG of the paths.
    Flamegraph,
    /// The execution graph of one step, for Graphviz.
    Dot,
    /// The same as text: critical path, slack, gaps.
    Graph,
    /// A table with a row per span.
    Parquet,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] = [
        Kind::Chrome,
        Kind::Folded,
        Kind::Flamegraph,
        Kind::Dot,
        Kind::Graph,
        Kind::Parquet,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Chrome => "chrome",
            Kind::Folded => "folded",
            Kind::Flamegraph => "flamegraph",
            Kind::Dot => "dot",
            Kind::Graph => "graph",
            Kind::Parquet => "parquet",
        }
    }

    /// Writes what was recorded of the run called `title`, on a machine that can do so much, if that is
    /// known.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(
        self,
        spans: &RecordedSpans,
        title: &str,
        ceilings: Option<Ceilings>,
        out: &mut (impl Write + Send),
    ) -> io::Result<()> {
        let timeline = spans.timeline();
        match self {
            Kind::Chrome => timeline.write_chrome(title, out)?,
            Kind::Folded => timeline.paths().write_folded(out)?,
            Kind::Flamegraph => timeline.paths().write_flamegraph(title, out)?,
            Kind::Dot => {
                let (graph, what) = one_step(timeline, ceilings);
                writeln!(out, "// {}: {what}", one_line(title))?;
                graph.write_dot(out)?;
            }
            Kind::Graph => {
                let (graph, what) = one_step(timeline, ceilings);
                writeln!(out, "{}: {what}", one_line(title))?;
                graph.write_text(out)?;
            }
            Kind::Parquet => {
                parquet::write_spans(out, spans.iter()).map_err(io::Error::other)?;
            }
        }
        Ok(())
    }
}

/// The last step of the generation, and that it is that: a whole run makes a graph that nobody can
/// look at. All of a run that has none.
fn one_step(timeline: &Timeline, ceilings: Option<Ceilings>) -> (ExecutionGraph, &'static str) {
    let step = |event: &Event| event.kind == EventKind::Span("step");
    let (graph, what) = match timeline.events.iter().rposition(step) {
        Some(step) => (ExecutionGraph::inside(timeline, step), "its last step"),
        None => (ExecutionGraph::of(timeline), "all of it"),
    };
    match ceilings {
        Some(ceilings) => (graph.under(ceilings), what),
        None => (graph, what),
    }
}

/// `KIND=FILE`: what to write, and where to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    kind: Kind,
    path: PathBuf,
}

impl FromStr for Export {
    type Err = String;

    fn from_str(text: &str) -> Result<Export, String> {
        let kinds = || Kind::ALL.map(Kind::name).join(", ");
        let Some((name, path)) = text.split_once('=') else {
            return Err(format!("not KIND=FILE, KIND being one of {}", kinds()));
        };
        let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.name() == name) else {
            return Err(format!("no kind {name:?}; there are {}", kinds()));
        };
        if path.is_empty() {
            return Err(format!("no file after {name}="));
        }
        let path = path.into();
        Ok(Export { kind, path })
    }
}

impl fmt::Display for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.kind.name(), self.path.display())
    }
}

/// Checks that each file can be written, once.
///
/// # Errors
/// If one can't, or is named twice.
pub fn check(exports: &[Export]) -> Result<()> {
    for (index, export) in exports.iter().enumerate() {
        let path = &export.path;
        if exports[..index].iter().any(|other| other.path == *path) {
            bail!("--export writes {} twice", path.display());
        }
        probe(path).with_context(|| cannot_write(export))?;
    }
    Ok(())
}

/// Writes the run called `title` to each file; graphs also say how far kernels are from `ceilings`.
///
/// # Errors
/// If a file can't be written; those before it are complete.
pub fn write(
    exports: &[Export],
    spans: &RecordedSpans,
    title: &str,
    ceilings: Option<Ceilings>,
) -> Result<()> {
    for export in exports {
        write_whole(&export.path, |out| {
            export.kind.write(spans, title, ceilings, out)
        })
        .with_context(|| cannot_write(export))?;
    }
    Ok(())
}

fn cannot_write(export: &Export) -> String {
    format!("cannot write {export}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_and_a_file() {
        let export: Export = "chrome=a=b.json".parse().unwrap();
        assert_eq!(
            (export.kind, export.path.as_path()),
            (Kind::Chrome, "a=b.json".as_ref())
        );
        assert_eq!(export.to_string(), "chrome=a=b.json");
        for (wrong, told) in [
            ("chrome", "not KIND=FILE, KIND being one of chrome, folded"),
            ("svg=a", "no kind \"svg\"; there are chrome, folded"),
            ("folded=", "no file after folded="),
        ] {
            let error = wrong.parse::<Export>().unwrap_err();
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn one_file_is_not_written_twice() {
        let exports = ["chrome=same", "folded=same"].map(|e| e.parse().unwrap());
        let error = check(&exports).unwrap_err().to_string();
        assert_eq!(error, "--export writes same twice");
    }
}
