//! Looking on while a session works: which step runs, and the tensors between the kernels.
//!
//! A session without an observer pays one branch where there would be something to tell.

use super::{Model, ModelError};
use brick_kernels::kv_cache::KvCache;
use brick_runtime::timeline::fail;
use brick_runtime::trace::TraceStep;
use std::error::Error;
use std::fmt;

/// A tensor between two kernels of the forward pass, by its place in the architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Node {
    /// The residual stream before the first layer, scaled where the model does, `[n, n_embd]`.
    Embedding,
    /// What attention reads: the norm of the residual stream, `[n, n_embd]`.
    AttnNorm,
    /// Queries as attention takes them, normed and rotated, `[n, n_heads, head_dim]`.
    Query,
    /// Keys as the cache takes them, normed and rotated, `[n, n_kv_heads, head_dim]`.
    Key,
    /// Values, `[n, n_kv_heads, head_dim]`.
    Value,
    /// The weighted values of each head, `[n, n_heads, head_dim]`.
    AttnHeads,
    /// The heads projected back, `[n, n_embd]`.
    AttnOut,
    /// Its norm, in models that have one there, `[n, n_embd]`.
    AttnPostNorm,
    /// The residual stream with attention added, `[n, n_embd]`.
    AttnResidual,
    /// What the feed-forward network reads, `[n, n_embd]`.
    FfnNorm,
    /// Its inner layer, `activation(gate) * up`, `[n, n_ff]`.
    FfnInner,
    /// The inner layer projected back, `[n, n_embd]`.
    FfnOut,
    /// Its norm, in models that have one there, `[n, n_embd]`.
    FfnPostNorm,
    /// The residual stream after the layer, `[n, n_embd]`.
    LayerOutput,
    /// The last token's residual stream, normed for the head, `[1, n_embd]`.
    FinalNorm,
    /// The logits after the last token, softcap included, `[1, n_vocab]`.
    Logits,
}

impl Node {
    /// All nodes in the order of the forward pass.
    pub const ALL: [Node; 16] = [
        Self::Embedding,
        Self::AttnNorm,
        Self::Query,
        Self::Key,
        Self::Value,
        Self::AttnHeads,
        Self::AttnOut,
        Self::AttnPostNorm,
        Self::AttnResidual,
        Self::FfnNorm,
        Self::FfnInner,
        Self::FfnOut,
        Self::FfnPostNorm,
        Self::LayerOutput,
        Self::FinalNorm,
        Self::Logits,
    ];

    /// The name in tables and files: `"attn_norm"`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::AttnNorm => "attn_norm",
            Self::Query => "q",
            Self::Key => "k",
            Self::Value => "v",
            Self::AttnHeads => "attn_heads",
            Self::AttnOut => "attn_out",
            Self::AttnPostNorm => "attn_post_norm",
            Self::AttnResidual => "attn_residual",
            Self::FfnNorm => "ffn_norm",
            Self::FfnInner => "ffn_inner",
            Self::FfnOut => "ffn_out",
            Self::FfnPostNorm => "ffn_post_norm",
            Self::LayerOutput => "layer_output",
            Self::FinalNorm => "final_norm",
            Self::Logits => "logits",
        }
    }

    /// The step that makes the tensor; of a transformer block, its part.
    pub fn step(self) -> TraceStep {
        match self {
            Self::Embedding => TraceStep::Embed,
            Self::AttnNorm
            | Self::Query
            | Self::Key
            | Self::Value
            | Self::AttnHeads
            | Self::AttnOut
            | Self::AttnPostNorm
            | Self::AttnResidual => TraceStep::Attention,
            Self::FfnNorm
            | Self::FfnInner
            | Self::FfnOut
            | Self::FfnPostNorm
            | Self::LayerOutput => TraceStep::FeedForward,
            Self::FinalNorm | Self::Logits => TraceStep::LmHead,
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where in the text and in the model something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The layer, inside of one.
    pub layer: Option<usize>,
    /// Position of the first of the tokens that are worked on together.
    pub first_pos: usize,
    /// How many tokens these are.
    pub n_tokens: usize,
}

/// A tensor that was just computed.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Which one.
    pub node: Node,
    /// Where. The head works on the last token alone.
    pub at: At,
    /// Its values, row-major `[at.n_tokens, width]`.
    pub data: &'a [f32],
}

impl Tensor<'_> {
    /// Elements of one token.
    pub fn width(&self) -> usize {
        self.data.len() / self.at.n_tokens
    }
}

/// What else can be looked at when a tensor is offered.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The model that runs.
    pub model: &'a Model<'a>,
    /// The keys and values so far: of this layer with the present tokens from [`Node::AttnHeads`] on.
    pub cache: &'a KvCache,
}

/// What a step made, where that is no tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// Tensors, which are offered one by one.
    Tensors,
    /// `TOKENIZE`: the prompt.
    Tokens(&'a [u32]),
    /// `SAMPLE`: the token chosen.
    Token(u32),
    /// `DECODE`: the text that became certain; it can be empty.
    Text(&'a str),
}

/// Why an observer stopped the session.
pub type Halt = Box<dyn Error + Send + Sync>;

/// Somebody who looks on. Everything is called on the session's thread, in the order of the
/// computation; a step that fails is begun and not ended. What an observer takes is part of the time
/// between begin and end of a step in which tensors are offered.
pub trait Observer {
    /// A step begins.
    fn begin(&mut self, step: TraceStep, at: At) {
        let _ = (step, at);
    }

    /// The step that was begun last and not yet ended has ended.
    fn end(&mut self, step: TraceStep, at: At, outcome: Outcome<'_>) {
        let _ = (step, at, outcome);
    }

    /// A tensor was computed, inside of the step that made it or right after.
    ///
    /// # Errors
    /// Whatever shall stop the session: it comes back as [`ModelError::Halted`].
    fn tensor(&mut self, tensor: &Tensor<'_>, view: &View<'_>) -> Result<(), Halt> {
        let _ = (tensor, view);
        Ok(())
    }
}

/// A session's observer, if it has one.
#[derive(Default)]
pub(super) struct Tap<'o>(pub(super) Option<&'o mut (dyn Observer + 'o)>);

impl Tap<'_> {
    #[inline]
    pub(super) fn begin(&mut self, step: TraceStep, at: At) {
        if let Some(observer) = &mut self.0 {
            observer.begin(step, at);
        }
    }

    #[inline]
    pub(super) fn end(&mut self, step: TraceStep, at: At, outcome: Outcome<'_>) {
        if let Some(observer) = &mut self.0 {
            observer.end(step, at, outcome);
        }
    }

    #[inline]
    pub(super) fn offer(
        &mut self,
        node: Node,
        at: At,
        data: &[f32],
        model: &Model<'_>,
        cache: &KvCache,
    ) -> Result<(), ModelError> {
        match &mut self.0 {
            None => Ok(()),
            Some(observer) => observer
                .tensor(&Tensor { node, at, data }, &View { model, cache })
                .inspect_err(|halt| fail(halt, None))
                .map_err(ModelError::Halted),
        }
    }
}

impl fmt::Debug for Tap<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = if self.0.is_some() {
            "an observer"
        } else {
            "nobody"
        };
        write!(f, "Tap({there})")
    }
}
