//! The observer that records what was asked for, within a memory cap.

use super::lens::Lens;
use super::rounding::Roundings;
use crate::model::{At, Halt, Model, Node, Observer, Outcome, Tensor, View};
use anyhow::Result;
use brick_kernels::attention::AttentionConfig;
use brick_kernels::attention_weights::attention_weights;
use brick_runtime::TensorStats;
use brick_runtime::trace::{AttentionStats, LogitEvolution, MemoryCap, PositionWeight, TraceStep};
use serde::Serialize;
use std::time::{Duration, Instant};

/// What to record.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Of each head: how many of the largest weights, how many of the last positions.
    pub(super) attention: Option<(usize, usize)>,
    /// The logit lens, on the token that each pass chooses and on these.
    pub(super) logits: Option<Vec<u32>>,
    /// What rounding activations would cost.
    pub(super) rounding: bool,
    /// Statistics of each tensor.
    pub(super) activations: bool,
}

/// What was recorded of a pass: of its last position, which decides the next token.
#[derive(Debug, Serialize)]
pub(super) struct Pass {
    /// The last position that was fed.
    pub(super) position: usize,
    /// The token chosen for the next.
    pub(super) chosen: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) attention: Option<Vec<LayerAttention>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) logits: Option<Vec<LogitEvolution>>,
}

/// What each head of a layer attends to.
#[derive(Debug, Serialize)]
pub(super) struct LayerAttention {
    pub(super) layer: usize,
    /// The sliding window in positions; null where all are seen.
    pub(super) window: Option<usize>,
    pub(super) heads: Vec<AttentionStats>,
}

/// Statistics of one tensor of a batch of tokens.
#[derive(Debug, Serialize)]
pub(super) struct Activation {
    pub(super) first_position: usize,
    pub(super) positions: usize,
    pub(super) layer: Option<usize>,
    pub(super) tensor: &'static str,
    #[serde(flatten)]
    pub(super) stats: TensorStats,
}

/// Records a session.
#[derive(Debug)]
pub(super) struct Collector<'m> {
    model: &'m Model<'m>,
    wanted: Wanted,
    lens: Option<Lens>,
    /// Of the pass under way: a later batch of the same prompt replaces what an earlier one left.
    attention: Vec<LayerAttention>,
    position: usize,
    /// The last token's queries, until the keys are in the cache; then weights.
    query: Vec<f32>,
    weights: Vec<f32>,
    pub(super) cap: MemoryCap,
    pub(super) passes: Vec<Pass>,
    pub(super) activations: Vec<Activation>,
    pub(super) roundings: Option<Roundings>,
    /// Time spent here.
    pub(super) spent: Duration,
    /// What runs are kernels of the trace's own.
    looking: bool,
    failure: Option<anyhow::Error>,
}

impl<'m> Collector<'m> {
    /// Records what is `wanted` of a session of `model`.
    pub(super) fn new(model: &'m Model<'m>, wanted: Wanted, mut cap: MemoryCap) -> Self {
        // Its size is known, and it is not dropped half-way.
        let fits = wanted.rounding && cap.admit(Roundings::bytes(model.config().n_layers));
        Self {
            model,
            lens: wanted.logits.is_some().then(|| Lens::new(model)),
            wanted,
            attention: Vec::new(),
            position: 0,
            query: Vec::new(),
            weights: Vec::new(),
            cap,
            passes: Vec::new(),
            activations: Vec::new(),
            roundings: fits.then(Roundings::default),
            spent: Duration::ZERO,
            looking: false,
            failure: None,
        }
    }

    /// What went wrong where the session could not be told.
    ///
    /// # Errors
    /// That.
    pub(super) fn check(&mut self) -> Result<()> {
        self.failure.take().map_or(Ok(()), Err)
    }

    /// Whether the session was stopped in the middle of what is done here: by no fault of its own.
    pub(super) fn is_looking(&self) -> bool {
        self.looking
    }

    /// Runs `look` on the trace's own account.
    fn account<R>(&mut self, look: impl FnOnce(&mut Self) -> R) -> R {
        let clock = Instant::now();
        self.looking = true;
        let result = look(self);
        self.looking = false;
        self.spent += clock.elapsed();
        result
    }

    /// Bytes of the buffers, which are not records and come on top of them.
    pub(super) fn buffer_bytes(&self) -> usize {
        let floats = self.query.capacity() + self.weights.capacity();
        size_of::<f32>() * floats + self.lens.as_ref().map_or(0, Lens::bytes)
    }

    fn look(&mut self, tensor: &Tensor<'_>, view: &View<'_>) -> Result<()> {
        if let Some(roundings) = &mut self.roundings {
            roundings.add(tensor)?;
        }
        if self.wanted.activations {
            self.measure(tensor);
        }
        let last = &tensor.data[tensor.data.len() - tensor.width()..];
        match (tensor.node, tensor.at.layer) {
            (Node::Query, Some(_)) => {
                self.query.clear();
                self.query.extend_from_slice(last);
            }
            (Node::AttnHeads, Some(layer)) => {
                self.position = tensor.at.first_pos + tensor.at.n_tokens - 1;
                self.attend(layer, view)?;
            }
            (Node::LayerOutput, Some(layer)) => {
                if let Some(lens) = &mut self.lens {
                    lens.keep(layer, last);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn measure(&mut self, tensor: &Tensor<'_>) {
        if self.cap.admit(size_of::<Activation>()) {
            self.activations.push(Activation {
                first_position: tensor.at.first_pos,
                positions: tensor.at.n_tokens,
                layer: tensor.at.layer,
                tensor: tensor.node.name(),
                stats: TensorStats::of(tensor.data),
            });
        }
    }

    /// What the last position attends to in `layer`, whose keys are in the cache by now.
    fn attend(&mut self, layer: usize, view: &View<'_>) -> Result<()> {
        let Some((top_k, recent)) = self.wanted.attention else {
            return Ok(());
        };
        let config = self.model.config();
        let attends = AttentionConfig {
            n_heads: config.n_heads,
            scale: config.attention_scale,
            window: config.window(layer),
        };
        let visible = attends.visible(self.position);
        self.weights.resize(config.n_heads * visible.len(), 0.0);
        let (position, query) = (self.position, &self.query);
        attention_weights(
            &attends,
            view.cache,
            layer,
            position,
            query,
            &mut self.weights,
        )?;
        let rows = self.weights.chunks_exact(visible.len());
        let heads = rows.map(|row| AttentionStats::of(row, visible.start, top_k, recent));
        let of_layer = LayerAttention {
            layer,
            window: attends.window.map(usize::from),
            heads: heads.collect::<Result<_, _>>()?,
        };
        match self.attention.get_mut(layer) {
            Some(held) => *held = of_layer,
            None => self.attention.push(of_layer),
        }
        Ok(())
    }

    /// The pass chose a token: what was kept of it becomes a record, if there is room.
    fn conclude(&mut self, chosen: u32) -> Result<()> {
        let logits = match (&mut self.lens, &self.wanted.logits) {
            (Some(lens), Some(followed)) => {
                let mut tokens = vec![chosen];
                tokens.extend(followed.iter().copied().filter(|&token| token != chosen));
                Some(lens.evolutions(self.model, &tokens)?)
            }
            _ => None,
        };
        let attention = std::mem::take(&mut self.attention);
        let pass = Pass {
            position: self.position,
            chosen,
            attention: self.wanted.attention.map(|_| attention),
            logits,
        };
        if self.cap.admit(pass.bytes()) {
            self.passes.push(pass);
        }
        Ok(())
    }
}

impl Observer for Collector<'_> {
    fn end(&mut self, step: TraceStep, _at: At, outcome: Outcome<'_>) {
        let (TraceStep::Sample, Outcome::Token(token)) = (step, outcome) else {
            return;
        };
        if let Err(error) = self.account(|this| this.conclude(token)) {
            self.failure.get_or_insert(error);
        }
    }

    fn tensor(&mut self, tensor: &Tensor<'_>, view: &View<'_>) -> Result<(), Halt> {
        Ok(self.account(|this| this.look(tensor, view))?)
    }
}

impl Pass {
    /// What it takes of memory.
    fn bytes(&self) -> usize {
        let attention = self.attention.iter().flatten().map(LayerAttention::bytes);
        let logits = self.logits.iter().flatten().map(|token| {
            size_of::<LogitEvolution>() + std::mem::size_of_val(token.layers.as_slice())
        });
        size_of::<Self>() + attention.sum::<usize>() + logits.sum::<usize>()
    }
}

impl LayerAttention {
    fn bytes(&self) -> usize {
        let heads = self
            .heads
            .iter()
            .map(|head| size_of::<AttentionStats>() + head.top.len() * size_of::<PositionWeight>());
        size_of::<Self>() + heads.sum::<usize>()
    }
}
