//! Collecting a trace while a session works.

use super::payload::{self, Payload};
use super::warnings::{Warning, Warnings};
use crate::model::{At, Halt, Node, Observer, Outcome, Tensor, View};
use crate::whole_file::probe;
use brick_runtime::trace::{StepFilter, TraceLevel, TraceStep};
use brick_runtime::{Figure, TensorStats};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Steps that are kept one by one, some 20 MB; later ones are only summed.
pub(super) const MAX_STEPS: usize = 1 << 18;
/// Tensors whose statistics are kept, some 30 MB.
pub(super) const MAX_TENSORS: usize = 1 << 18;
/// Values of each tensor that are kept beside its statistics.
pub(super) const FIRST: usize = 4;

/// What a trace is to hold.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// How much.
    pub level: TraceLevel,
    /// Of which steps.
    pub steps: StepFilter,
}

/// One step of a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Step {
    pub(super) step: TraceStep,
    pub(super) layer: Option<usize>,
    /// The forward pass, counted from 0; null before the first.
    pub(super) pass: Option<usize>,
    /// Position of the first token worked on.
    pub(super) position: usize,
    pub(super) n_tokens: usize,
    /// Since the trace began.
    pub(super) start_ns: u64,
    /// Without what the trace itself took meanwhile.
    pub(super) duration_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) text: Option<String>,
}

/// The statistics of one tensor.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Measured {
    #[serde(rename = "tensor", serialize_with = "name")]
    pub(super) node: Node,
    pub(super) layer: Option<usize>,
    pub(super) pass: usize,
    pub(super) position: usize,
    /// `[tokens, width]`.
    pub(super) shape: [usize; 2],
    pub(super) stats: TensorStats,
    /// The first values of the first token; numbers that are none are null.
    pub(super) first_values: [f32; FIRST],
}

impl Measured {
    /// What its values are called in a file.
    pub(super) fn value_name(&self) -> String {
        payload::name(self.pass, self.layer, self.node.name())
    }
}

fn name<S: serde::Serializer>(node: &Node, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(node.name())
}

/// All steps of one kind in one layer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) count: u64,
    pub(super) total_ns: u64,
    pub(super) min_ns: u64,
    pub(super) max_ns: u64,
}

impl Total {
    fn add(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 {
            ns
        } else {
            self.min_ns.min(ns)
        };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        self.total_ns += ns;
    }
}

/// What was not kept.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Dropped {
    pub(super) steps: u64,
    pub(super) tensors: u64,
    pub(super) payload_tensors: u64,
}

/// What the trace itself took.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Calls from the session.
    pub hooks: u64,
    /// Nanoseconds inside of them.
    pub self_ns: Figure,
    /// With the clock reads that lie outside of what they measure.
    pub total_ns: Figure,
    /// Of the time from the beginning of the first step to the end of the last.
    pub share: Figure,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.total_ns.value().unwrap_or(f64::NAN) / 1e3;
        let hooks = self.hooks;
        write!(f, "{hooks} hooks took {us:.0} µs themselves (derived), ")?;
        match self.share.value() {
            Some(share) => write!(f, "{:.2} % of the traced time", 100.0 * share),
            None => f.write_str(&self.share.provenance()),
        }
    }
}

/// Collects a trace: an observer of one session.
#[derive(Debug)]
pub struct Collector {
    pub(super) asked: Level,
    origin: Instant,
    /// Begun and not ended: when, and what the trace itself had taken by then.
    open: Vec<(u64, u64)>,
    pub(super) passes: usize,
    pub(super) steps: Vec<Step>,
    pub(super) tensors: Vec<Measured>,
    /// Of the steps that were not kept one by one.
    unkept: BTreeMap<(TraceStep, Option<usize>), Total>,
    pub(super) dropped: Dropped,
    pub(super) payload: Option<Payload>,
    warnings: Warnings,
    hooks: u64,
    own_ns: u64,
    /// When the first hook began and the last one ended.
    first_ns: Option<u64>,
    last_ns: u64,
}

impl Collector {
    /// Collects what was asked for, to be written to `output` if that is given, with the values or with a
    /// file beside it that has them, if the level does.
    ///
    /// # Errors
    /// If no file can be made there.
    pub fn new(asked: Level, output: Option<&Path>) -> std::io::Result<Self> {
        output.map_or(Ok(()), probe)?;
        let payload = match output {
            Some(path) if asked.level >= TraceLevel::Payload => Some(Payload::beside(path)?),
            _ => None,
        };
        Ok(Self {
            asked,
            origin: Instant::now(),
            open: Vec::new(),
            passes: 0,
            steps: Vec::new(),
            tensors: Vec::new(),
            unkept: BTreeMap::new(),
            dropped: Dropped::default(),
            payload,
            warnings: Warnings::default(),
            hooks: 0,
            own_ns: 0,
            first_ns: None,
            last_ns: 0,
        })
    }

    /// What the trace is to hold.
    pub fn asked(&self) -> Level {
        self.asked
    }

    /// Forward passes so far.
    pub fn passes(&self) -> usize {
        self.passes
    }

    /// What looks wrong in the tensors seen, each kind once for each layer.
    pub fn warnings(&self) -> &[Warning] {
        self.warnings.all()
    }

    /// All steps of one kind in one layer together, also those that were not kept.
    pub(super) fn totals(&self) -> BTreeMap<(TraceStep, Option<usize>), Total> {
        let mut totals = self.unkept.clone();
        for step in &self.steps {
            let total = totals.entry((step.step, step.layer)).or_default();
            total.add(step.duration_ns);
        }
        totals
    }

    /// What the trace took so far.
    pub fn cost(&self) -> Cost {
        let read_ns = clock_read_ns();
        let total = self.own_ns as f64 + self.hooks as f64 * read_ns;
        Cost {
            hooks: self.hooks,
            self_ns: Figure::Measured(self.own_ns as f64),
            total_ns: Figure::Derived {
                value: total,
                from: "self_ns + hooks × measured clock read",
            },
            share: match self.wall_ns() {
                None => Figure::unavailable("nothing happened"),
                Some(wall) => Figure::Derived {
                    value: total / wall as f64,
                    from: "total_ns / measured time from the first step to the last",
                },
            },
        }
    }

    /// From the beginning of the first step of the run to the end of the last.
    pub(super) fn wall_ns(&self) -> Option<u64> {
        let wall = self.last_ns.checked_sub(self.first_ns?)?;
        (wall > 0).then_some(wall)
    }

    fn now(&self) -> u64 {
        // 584 years of nanoseconds fit.
        self.origin.elapsed().as_nanos() as u64
    }

    /// Runs a hook and counts what it takes.
    fn timed<R>(&mut self, since: u64, hook: impl FnOnce(&mut Self) -> R) -> R {
        self.first_ns.get_or_insert(since);
        let result = hook(self);
        self.last_ns = self.now();
        self.hooks += 1;
        self.own_ns += self.last_ns - since;
        result
    }

    fn keep(&mut self, step: Step) {
        if self.steps.len() < MAX_STEPS {
            self.steps.push(step);
        } else {
            self.dropped.steps += 1;
            let total = self.unkept.entry((step.step, step.layer)).or_default();
            total.add(step.duration_ns);
        }
    }

    fn measure(&mut self, tensor: &Tensor<'_>, view: &View<'_>) -> Result<(), Halt> {
        let Tensor { node, at, data } = *tensor;
        let stats = TensorStats::of(data);
        let mut first_values = [f32::NAN; FIRST];
        for (first, &value) in first_values.iter_mut().zip(data) {
            *first = value;
        }
        let measured = Measured {
            node,
            layer: at.layer,
            pass: self.pass(),
            position: at.first_pos,
            shape: [at.n_tokens, tensor.width()],
            stats,
            first_values,
        };
        self.warnings.look(tensor, &stats, view.model.config());
        self.warnings.attention(tensor, view, self.pass())?;
        if let Some(payload) = &mut self.payload
            && !payload.write(&measured, data)?
        {
            self.dropped.payload_tensors += 1;
        }
        if self.tensors.len() < MAX_TENSORS {
            self.tensors.push(measured);
        } else {
            self.dropped.tensors += 1;
        }
        match stats.nan_count + stats.inf_count {
            0 => Ok(()),
            _ => Err(Box::new(NotFinite { node, at })),
        }
    }

    fn pass(&self) -> usize {
        self.passes.saturating_sub(1)
    }
}

/// A tensor with NaN or infinite values, found by its statistics: what stops a traced run where
/// kernels check nothing.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the tensor {node} holds NaN or infinite values")]
pub struct NotFinite {
    /// The tensor.
    pub node: Node,
    /// Where.
    pub at: At,
}

impl Observer for Collector {
    fn begin(&mut self, step: TraceStep, _: At) {
        if step == TraceStep::Embed {
            self.passes += 1;
        }
        self.hooks += 1;
        // One clock read, the last thing done: what is before it is not the step's time, and is
        // counted among the clock reads of the hooks.
        let own = self.own_ns;
        let now = self.now();
        self.first_ns.get_or_insert(now);
        self.open.push((now, own));
    }

    fn end(&mut self, step: TraceStep, at: At, outcome: Outcome<'_>) {
        let now = self.now();
        let Some((start, own_before)) = self.open.pop() else {
            return;
        };
        if !self.asked.steps.has(step) {
            return self.timed(now, |_| ());
        }
        let meanwhile = self.own_ns - own_before;
        self.timed(now, |this| {
            this.keep(Step {
                step,
                layer: at.layer,
                pass: this.passes.checked_sub(1),
                position: at.first_pos,
                n_tokens: match outcome {
                    Outcome::Tokens(ids) => ids.len(),
                    _ => at.n_tokens,
                },
                start_ns: start,
                duration_ns: (now - start).saturating_sub(meanwhile),
                token: match outcome {
                    Outcome::Token(id) => Some(id),
                    _ => None,
                },
                text: match outcome {
                    Outcome::Text(text) => Some(text.to_owned()),
                    _ => None,
                },
            });
        });
    }

    fn tensor(&mut self, tensor: &Tensor<'_>, view: &View<'_>) -> Result<(), Halt> {
        if self.asked.level < TraceLevel::Layer || !self.asked.steps.has(tensor.node.step()) {
            return Ok(());
        }
        let now = self.now();
        self.timed(now, |this| this.measure(tensor, view))
    }
}

/// Nanoseconds of one clock read, measured now: the least of some rounds.
fn clock_read_ns() -> f64 {
    const READS: u32 = 256;
    let round = || {
        let clock = Instant::now();
        for _ in 0..READS {
            std::hint::black_box(Instant::now());
        }
        clock.elapsed()
    };
    let least = (0..8).map(|_| round()).min().unwrap_or(Duration::ZERO);
    least.as_nanos() as f64 / f64::from(READS)
}
