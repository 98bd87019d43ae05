//! The file that a trace is written to: JSON of schema `apr.trace/1`, see `docs/trace.md`.

use super::collect::{Collector, Cost, Dropped, MAX_STEPS, MAX_TENSORS, Measured, Step};
use super::identity::Identity;
use super::payload::{self, Finished, Inline, Numbers, Payload, PayloadPlace};
use super::warnings::Warning;
use crate::whole_file::write_whole;
use brick_runtime::trace::{StepFilter, TraceLevel, TraceStep};
use brick_runtime::{BrickProfiler, Figure, Snapshot};
use serde::Serialize;
use std::io;
use std::path::Path;

/// Version of the file's format.
pub const SCHEMA: &str = "apr.trace/1";

/// What the run was asked to do.
#[derive(Clone, Debug, Serialize)]
pub struct Settings<'a> {
    /// What is kept.
    pub level: TraceLevel,
    /// The steps that are kept.
    #[serde(serialize_with = "names")]
    pub steps: StepFilter,
    /// The text that was continued.
    pub prompt: &'a str,
    /// Its tokens.
    pub prompt_ids: &'a [u32],
    /// Tokens to generate at most.
    pub max_tokens: usize,
    /// Threads that compute.
    pub threads: usize,
    /// How tokens are chosen.
    pub sampling: serde_json::Value,
}

/// Each tensor, with its values where they are in here.
fn with_values<S: serde::Serializer>(
    (tensors, inline): &(&[Measured], Option<Inline>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Line<'a> {
        #[serde(flatten)]
        measured: &'a Measured,
        #[serde(skip_serializing_if = "Option::is_none")]
        values: Option<Numbers<'a>>,
    }
    serializer.collect_seq(tensors.iter().map(|measured| {
        Line {
            measured,
            values: inline
                .as_ref()
                .and_then(|inline| inline.get(&measured.value_name())),
        }
    }))
}

fn names<S: serde::Serializer>(steps: &StepFilter, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(steps.steps())
}

/// A trace as it is written.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    identity: Identity,
    settings: Settings<'a>,
    provenance: Provenance,
    passes: usize,
    totals: Vec<TotalLine>,
    steps: &'a [Step],
    #[serde(serialize_with = "with_values")]
    tensors: (&'a [Measured], Option<Inline>),
    /// Null below the level `payload`.
    payload: Option<PayloadPlace>,
    /// Where the filter has the step: how long kernels took to start on a device.
    kernel_launch: Option<Figure>,
    /// Where the filter has the step: what the profiler measured from the prompt on.
    brick_profile: Option<Snapshot>,
    warnings: &'a [Warning],
    /// Why the run did not end by itself; null if it did.
    stopped: Option<String>,
    limits: Limits,
    dropped: Dropped,
    cost: Cost,
}

/// Where the figures come from that don't say so themselves, by their names.
#[derive(Clone, Copy, Debug, Serialize)]
struct Provenance {
    measured: &'static [&'static str],
    derived: &'static [&'static str],
}

const PROVENANCE: Provenance = Provenance {
    measured: &[
        "steps.start_ns",
        "steps.duration_ns",
        "totals",
        "tensors.stats",
        "tensors.first_values",
        "warnings.value",
        "dropped",
        "cost.hooks",
    ],
    derived: &["totals.mean_ns"],
};

/// What is kept at most.
#[derive(Clone, Copy, Debug, Serialize)]
struct Limits {
    steps: usize,
    tensors: usize,
    payload_bytes: u64,
    /// Values are in here up to so many bytes.
    inline_bytes: u64,
}

/// All steps of one kind in one layer.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct TotalLine {
    pub(super) step: TraceStep,
    pub(super) layer: Option<usize>,
    pub(super) count: u64,
    pub(super) total_ns: u64,
    pub(super) mean_ns: f64,
    pub(super) min_ns: u64,
    pub(super) max_ns: u64,
}

/// The totals in the order of a run: all layers of a block before the next step.
pub(super) fn totals(collector: &Collector) -> Vec<TotalLine> {
    let line =
        |((step, layer), t): ((TraceStep, Option<usize>), super::collect::Total)| TotalLine {
            step,
            layer,
            count: t.count,
            total_ns: t.total_ns,
            mean_ns: t.total_ns as f64 / t.count as f64,
            min_ns: t.min_ns,
            max_ns: t.max_ns,
        };
    collector.totals().into_iter().map(line).collect()
}

/// Why there is no launch to time.
pub(super) fn kernel_launch() -> Figure {
    Figure::unavailable("kernels ran on the CPU: nothing was launched on a device")
}

impl<'a> Document<'a> {
    /// The trace of a run; `stopped` says why, if it did not end by itself. Values, unless they are few,
    /// go to their own file here.
    ///
    /// # Errors
    /// If that file can't be written.
    pub fn new(
        collector: &'a mut Collector,
        identity: Identity,
        settings: Settings<'a>,
        stopped: Option<String>,
    ) -> io::Result<Self> {
        let payload = collector.payload.take();
        let payload = payload.map(Payload::finish).transpose()?;
        let (payload, inline) = match payload {
            Some(Finished { place, inline }) => (Some(place), inline),
            None => (None, None),
        };
        let collector = &*collector;
        let has = |step| collector.asked.steps.has(step);
        Ok(Self {
            schema: SCHEMA,
            identity,
            settings,
            provenance: PROVENANCE,
            passes: collector.passes(),
            totals: totals(collector),
            steps: &collector.steps,
            tensors: (&collector.tensors, inline),
            payload,
            kernel_launch: has(TraceStep::KernelLaunch).then(kernel_launch),
            brick_profile: has(TraceStep::BrickProfile).then(|| BrickProfiler::global().snapshot()),
            warnings: collector.warnings(),
            stopped,
            limits: Limits {
                steps: MAX_STEPS,
                tensors: MAX_TENSORS,
                payload_bytes: payload::MAX_BYTES,
                inline_bytes: payload::INLINE_BYTES,
            },
            dropped: collector.dropped,
            cost: collector.cost(),
        })
    }

    /// Writes the file, as a whole or not at all.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        write_whole(path, |out| {
            serde_json::to_writer(&mut *out, self)?;
            io::Write::write_all(out, b"\n")
        })
    }

    /// What looks wrong.
    pub fn warnings(&self) -> &[Warning] {
        self.warnings
    }

    /// Where the values are, if the level has them.
    pub fn payload(&self) -> Option<&PayloadPlace> {
        self.payload.as_ref()
    }

    /// Tensors for whose values there was no room.
    pub fn values_dropped(&self) -> u64 {
        self.dropped.payload_tensors
    }
}
