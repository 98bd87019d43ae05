//! Runs tokens again until a tensor is not finite.

use super::Found;
use super::culprit::{Culprit, Said, is_last_of_its_step};
use crate::model::{At, Halt, Model, ModelError, Node, Observer, Session, Tensor, View};
use brick_runtime::contract::{self, Policy, Violation};
use brick_runtime::{BrickProfiler, TensorStats};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What was seen while tokens were run again.
#[derive(Debug)]
pub(super) struct Seen {
    /// The first bad tensor, if there is one.
    pub(super) found: Option<Found>,
    /// The first contract that a kernel broke, if one did.
    pub(super) broken: Option<Violation>,
}

/// Runs the tokens until a tensor is bad.
pub(super) fn replay(model: &Model<'_>, tokens: &[u32]) -> Result<Seen, ModelError> {
    let aside = Aside::begin();
    let mut watch = Watch {
        spoken: Arc::clone(&aside.spoken),
        ..Watch::default()
    };
    let mut session = Session::new(model, tokens.len())?;
    session.observe(&mut watch);
    let fed = session.feed(tokens).map(|_| ());
    drop(session);
    let Watch { found, broken, .. } = watch;
    if found.is_none() {
        fed?;
    }
    Ok(Seen { found, broken })
}

/// The contracts that kernels broke, in order.
type Spoken = Arc<Mutex<Vec<Violation>>>;

fn lock(spoken: &Spoken) -> MutexGuard<'_, Vec<Violation>> {
    spoken.lock().unwrap_or_else(PoisonError::into_inner)
}

/// While it lives, kernels' own checks do not stop them before the tensor is seen, and their calls are
/// not among those of the run that is looked into.
struct Aside {
    spoken: Spoken,
    policy: Policy,
    profiled: bool,
}

impl Aside {
    fn begin() -> Self {
        let profiler = BrickProfiler::global();
        let spoken = Spoken::default();
        let aside = Self {
            spoken: Arc::clone(&spoken),
            policy: contract::policy(),
            profiled: profiler.is_enabled(),
        };
        contract::set_policy(Policy::Handler(Arc::new(move |violation| {
            lock(&spoken).push(violation.clone());
        })));
        profiler.disable();
        aside
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        contract::set_policy(self.policy.clone());
        if self.profiled {
            BrickProfiler::global().enable();
        }
    }
}

/// Remembers what led to the first tensor that is not finite.
#[derive(Debug, Default)]
struct Watch {
    /// The latest of each node.
    seen: Vec<(Node, Option<usize>, TensorStats)>,
    stream: Vec<f32>,
    found: Option<Found>,
    /// Since the inputs of the next tensor were good.
    spoken: Spoken,
    broken: Option<Violation>,
}

impl Observer for Watch {
    fn tensor(&mut self, tensor: &Tensor<'_>, _: &View<'_>) -> Result<(), Halt> {
        let Tensor { node, at, data } = *tensor;
        let stats = TensorStats::of(data);
        if self.broken.is_none() {
            self.broken = lock(&self.spoken).first().cloned();
        }
        if let Some(index) = data.iter().position(|value| !value.is_finite()) {
            self.found = Some(self.found(tensor, index, stats));
            return Err("found".into());
        }
        if is_last_of_its_step(node) {
            lock(&self.spoken).clear();
        }
        if node == Node::Embedding {
            self.stream.clear();
        }
        if matches!(node, Node::Embedding | Node::LayerOutput) {
            self.stream.push(stats.max.max(-stats.min));
        }
        self.seen.retain(|(seen, ..)| *seen != node);
        self.seen.push((node, at.layer, stats));
        Ok(())
    }
}

impl Watch {
    fn found(&self, tensor: &Tensor<'_>, index: usize, stats: TensorStats) -> Found {
        let At {
            layer, first_pos, ..
        } = tensor.at;
        let inputs = inputs(tensor.node);
        let input = |(node, of, _): &&(Node, Option<usize>, TensorStats)| {
            inputs.contains(node) && (*of == layer || is_stream(*node))
        };
        let mut inputs: Vec<_> = self.seen.iter().filter(input).copied().collect();
        // Of the stream, what was seen last: the embedding or the layer before.
        let streams = inputs.iter().filter(|(node, ..)| is_stream(*node)).count();
        if streams > 1 {
            inputs.retain(|(node, ..)| *node != Node::Embedding);
        }
        let said: Vec<Said> = lock(&self.spoken).iter().map(Said::from).collect();
        let post_norm = inputs.iter().any(|(node, ..)| *node == Node::FfnPostNorm);
        Found {
            node: tensor.node,
            brick: Culprit::of(tensor.node, post_norm, &said),
            layer,
            position: first_pos + index / tensor.width(),
            index: index % tensor.width(),
            value: tensor.data[index],
            stats,
            inputs,
            last_good: self.stream.len().checked_sub(2),
            stream: self.stream.clone(),
        }
    }
}

fn is_stream(node: Node) -> bool {
    matches!(node, Node::Embedding | Node::LayerOutput)
}

/// What a tensor is computed from. The stream before a layer is the embedding or the output of the
/// layer before; the contribution that is added to it goes through a norm in some models.
fn inputs(node: Node) -> &'static [Node] {
    match node {
        Node::AttnNorm => &[Node::Embedding, Node::LayerOutput],
        Node::Query | Node::Key | Node::Value => &[Node::AttnNorm],
        Node::AttnHeads => &[Node::Query, Node::Key, Node::Value],
        Node::AttnOut => &[Node::AttnHeads],
        Node::AttnPostNorm => &[Node::AttnOut],
        Node::AttnResidual => &[
            Node::Embedding,
            Node::LayerOutput,
            Node::AttnOut,
            Node::AttnPostNorm,
        ],
        Node::FfnNorm => &[Node::AttnResidual],
        Node::FfnInner => &[Node::FfnNorm],
        Node::FfnOut => &[Node::FfnInner],
        Node::FfnPostNorm => &[Node::FfnOut],
        Node::LayerOutput => &[Node::AttnResidual, Node::FfnOut, Node::FfnPostNorm],
        Node::FinalNorm => &[Node::LayerOutput],
        Node::Logits => &[Node::FinalNorm],
        _ => &[],
    }
}
