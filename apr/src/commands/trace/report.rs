//! What was recorded, as it is exported.

use super::collect::{Activation, Collector, Pass};
use super::drift::Drift;
use super::kv::KvState;
use super::rounding::RoundingErrors;
use super::weights::Weights;
use super::{Args, Engine, Token};
use crate::trace::Identity;
use anyhow::Result;
use brick_runtime::Figure;
use brick_runtime::trace::MemoryCap;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Version of the JSON that `--format json` prints.
const SCHEMA: &str = "apr.model-trace/1";

/// Where the figures of each part come from; those that differ from one to the next say it themselves.
const PROVENANCE: [(&str, &str); 8] = [
    (
        "passes.attention",
        "derived: softmax of the run's own queries and the keys in its cache, recomputed per head; \
         sink_share is null where a window does not reach position 0",
    ),
    (
        "passes.logits",
        "derived: final norm and head applied to the residual stream after each layer; after the last \
         layer they are the model's own logits",
    ),
    (
        "quant_error.weights",
        "derived: both files' tensors, dequantised, element by element",
    ),
    (
        "quant_error.drift",
        "derived: the prompt read again by both models, every tensor of its last position element by \
         element",
    ),
    (
        "quant_error.activations",
        "derived: the run's activations against what rounding them leaves; `applied` says whether the \
         run itself rounds them",
    ),
    ("kv", "measured: read from the cache after the last pass"),
    (
        "activations",
        "measured: every element of every tensor between the kernels, finite ones in min, max, mean, std",
    ),
    (
        "memory.used_bytes",
        "derived: sizes of the records held, without the allocator's overhead",
    ),
];

/// All of it.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    schema: &'static str,
    /// Which program ran which model on which machine.
    identity: Identity,
    #[serde(skip)]
    pub(super) model: &'a str,
    #[serde(skip)]
    pub(super) architecture: &'static str,
    pub(super) threads: usize,
    pub(super) prompt: &'a str,
    pub(super) prompt_ids: Vec<u32>,
    pub(super) generated_ids: Vec<u32>,
    /// Every token that is named by its id.
    #[serde(serialize_with = "values")]
    pub(super) tokens: BTreeMap<u32, Token>,
    provenance: BTreeMap<&'static str, &'static str>,
    /// Of `passes.attention`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attention: Option<AttentionSettings>,
    pub(super) passes: Vec<Pass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) quant_error: Option<QuantErrors<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kv: Option<KvState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) activations: Option<Vec<Activation>>,
    pub(super) memory: Memory,
    pub(super) cost: Cost,
}

/// What `top` and `recent_share` are of.
#[derive(Debug, Serialize)]
pub(super) struct AttentionSettings {
    pub(super) top_k: usize,
    pub(super) recent: usize,
}

/// What quantisation costs.
#[derive(Debug, Serialize)]
pub(super) struct QuantErrors<'a> {
    pub(super) weights: Weights<'a>,
    pub(super) drift: Drift,
    /// Null where there was no memory for it.
    pub(super) activations: Option<RoundingErrors>,
}

/// What the records take.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    #[serde(flatten)]
    pub(super) records: MemoryCap,
    /// Of one pass, on top of the records.
    pub(super) buffer_bytes: usize,
}

/// What looking on took.
#[derive(Debug, Serialize)]
pub(super) struct Cost {
    /// From the first token fed to the last chosen.
    pub(super) run_ms: Figure,
    /// Of that, in the observer.
    pub(super) trace_ms: Figure,
    pub(super) trace_share: Figure,
}

impl<'a> Report<'a> {
    /// Puts together what the parts recorded.
    pub(super) fn new(
        args: &'a Args,
        engine: &Engine<'a>,
        (prompt_ids, generated_ids): (Vec<u32>, Vec<u32>),
        collector: Collector<'_>,
        kv: Option<KvState>,
        errors: Option<(Weights<'a>, Drift)>,
        wall: Duration,
    ) -> Result<Self> {
        let (memory, cost) = (Memory::of(&collector), Cost::of(&collector, wall));
        let mut ids: BTreeSet<u32> = prompt_ids.iter().chain(&generated_ids).copied().collect();
        let evolutions = collector.passes.iter().flat_map(|pass| &pass.logits);
        ids.extend(evolutions.flatten().map(|evolution| evolution.token));
        let token = |id| Ok((id, Token::new(&engine.tokenizer, id)?));
        let roundings = collector.roundings;
        let rounds = engine.rounds;
        Ok(Self {
            schema: SCHEMA,
            identity: engine.identity(),
            model: engine.name,
            architecture: engine.architecture(),
            threads: rayon::current_num_threads(),
            prompt: &args.prompt.text,
            prompt_ids,
            generated_ids,
            tokens: ids.into_iter().map(token).collect::<Result<_>>()?,
            provenance: PROVENANCE.into(),
            attention: args.sections.attention.then_some(AttentionSettings {
                top_k: args.top_k,
                recent: args.recent.get(),
            }),
            passes: collector.passes,
            quant_error: errors.map(|(weights, drift)| QuantErrors {
                weights,
                drift,
                activations: roundings.map(|roundings| roundings.into_errors(engine.gguf, rounds)),
            }),
            kv,
            activations: args.sections.activations.then_some(collector.activations),
            memory,
            cost,
        })
    }

    /// The token at a position of the text.
    pub(super) fn token_at(&self, position: usize) -> Option<&Token> {
        let mut ids = self.prompt_ids.iter().chain(&self.generated_ids);
        self.tokens.get(ids.nth(position)?)
    }
}

impl Memory {
    fn of(collector: &Collector<'_>) -> Self {
        Self {
            records: collector.cap,
            buffer_bytes: collector.buffer_bytes(),
        }
    }
}

impl Cost {
    fn of(collector: &Collector<'_>, wall: Duration) -> Self {
        Self {
            run_ms: Figure::Measured(wall.as_secs_f64() * 1e3),
            trace_ms: Figure::Measured(collector.spent.as_secs_f64() * 1e3),
            trace_share: Figure::Derived {
                value: collector.spent.as_secs_f64() / wall.as_secs_f64(),
                from: "trace_ms / run_ms",
            },
        }
    }
}

fn values<S: serde::Serializer>(
    tokens: &BTreeMap<u32, Token>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(tokens.values())
}
