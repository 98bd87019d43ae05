//! A trace for people.

use super::collect::{Collector, FIRST, Measured};
use super::document::{TotalLine, kernel_launch, totals};
use crate::model::Node;
use crate::terminal::number;
use brick_runtime::BrickProfiler;
use brick_runtime::trace::{StepFilter, TraceLevel, TraceStep};
use std::fmt;

/// A trace for people: what each step took, the statistics of the last pass's tensors, warnings,
/// and what the trace itself cost. Plain text, aligned for a fixed-width font.
#[derive(Debug)]
pub struct Table<'a>(pub &'a Collector);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let collector = self.0;
        let asked = collector.asked;
        writeln!(
            f,
            "trace: level {}, {} passes",
            asked.level,
            collector.passes()
        )?;
        self.steps(f)?;
        if asked.steps.has(TraceStep::KernelLaunch) {
            let why = kernel_launch().provenance();
            writeln!(f, "{}: {why}", TraceStep::KernelLaunch)?;
        }
        if asked.level >= TraceLevel::Layer {
            self.tensors(f)?;
        }
        if asked.steps.has(TraceStep::BrickProfile) {
            writeln!(f, "\n{}:", TraceStep::BrickProfile)?;
            let bricks = BrickProfiler::global().snapshot();
            let run = collector.wall_ns().unwrap_or(0) as f64;
            writeln!(f, "{}", bricks.table().share_of("run", run))?;
        }
        for warning in collector.warnings() {
            writeln!(f, "warning: {warning}")?;
        }
        self.footer(f)
    }
}

impl Table<'_> {
    fn steps(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = totals(self.0);
        let mut rows = vec![
            [
                "step", "layer", "count", "total ms", "mean µs", "min µs", "max µs", "% of run",
            ]
            .map(String::from)
            .to_vec(),
        ];
        rows.extend(lines.iter().map(|line| step_row(line, self.0.wall_ns())));
        aligned(f, &rows, 1)
    }

    /// Those of the last pass; of each layer what it put out, unless its parts were asked for.
    fn tensors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(last), asked) = (self.0.tensors.last(), self.0.asked) else {
            return writeln!(f, "\nno tensor belongs to the steps asked for");
        };
        let every = asked.steps != StepFilter::ALL || asked.level == TraceLevel::Payload;
        let shown = |t: &&Measured| {
            let kind = matches!(
                t.node,
                Node::Embedding | Node::LayerOutput | Node::FinalNorm | Node::Logits
            );
            t.pass == last.pass && (every || kind)
        };
        let mut header: Vec<String> = [
            "tensor", "layer", "shape", "min", "max", "mean", "std", "NaN", "inf",
        ]
        .map(String::from)
        .to_vec();
        let values = asked.level == TraceLevel::Payload;
        if values {
            header.push(format!("first {FIRST} values"));
        }
        let mut rows = vec![header];
        rows.extend(
            self.0
                .tensors
                .iter()
                .filter(shown)
                .map(|t| tensor_row(t, values)),
        );
        writeln!(f, "\ntensors of pass {}:", last.pass)?;
        aligned(f, &rows, 1)
    }

    fn footer(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "trace: {}", self.0.cost())?;
        let dropped = self.0.dropped;
        for (what, n) in [
            ("steps are only in the totals", dropped.steps),
            ("tensors were not kept", dropped.tensors),
            ("tensors' values were not written", dropped.payload_tensors),
        ] {
            if n > 0 {
                writeln!(f, "dropped: {n} {what}")?;
            }
        }
        write!(
            f,
            "measured: count, total, min, max, tensors; derived: mean, %; a block's parts are in it"
        )
    }
}

fn step_row(line: &TotalLine, run: Option<u64>) -> Vec<String> {
    let indent = if line.step.part_of().is_some() {
        "  "
    } else {
        ""
    };
    let us = |ns: f64| format!("{:.1}", ns / 1e3);
    vec![
        format!("{indent}{}", line.step),
        layer(line.layer),
        line.count.to_string(),
        format!("{:.2}", line.total_ns as f64 / 1e6),
        us(line.mean_ns),
        us(line.min_ns as f64),
        us(line.max_ns as f64),
        match run {
            None => "–".to_owned(),
            Some(run) => format!("{:.1}", 100.0 * line.total_ns as f64 / run as f64),
        },
    ]
}

fn tensor_row(t: &Measured, values: bool) -> Vec<String> {
    let [tokens, width] = t.shape;
    let s = &t.stats;
    let mut row = vec![
        t.node.to_string(),
        layer(t.layer),
        format!("{tokens}×{width}"),
    ];
    row.extend([s.min, s.max, s.mean, s.std].map(number));
    row.extend([s.nan_count, s.inf_count].map(|n| n.to_string()));
    if values {
        row.push(t.first_values.map(number).join(" "));
    }
    row
}

fn layer(layer: Option<usize>) -> String {
    layer.map_or("–".to_owned(), |layer| layer.to_string())
}

/// Columns of one width; the first `left` to the left, numbers to the right.
fn aligned(f: &mut fmt::Formatter<'_>, rows: &[Vec<String>], left: usize) -> fmt::Result {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            match column < left {
                true => write!(f, "{gap}{cell:<width$}")?,
                false => write!(f, "{gap}{cell:>width$}")?,
            }
        }
        writeln!(f)?;
    }
    Ok(())
}
