//! The forward pass: which kernel follows which, who is told of it, and nothing else.

use super::observe::{At, Node, Outcome};
use super::weights::Layer;
use super::{ModelError, Session};
use brick_kernels::attention::{AttentionConfig, attention};
use brick_kernels::embedding::embedding;
use brick_kernels::kv_cache::kv_cache_write;
use brick_kernels::projection::{
    down_projection, gate_up_projection, output_projection, qkv_projection,
};
use brick_kernels::residual::residual_add;
use brick_kernels::residual_norm::{post_norm_residual, residual_norm};
use brick_kernels::rms_norm::{head_norm, rms_norm};
use brick_kernels::rope::{RopeAngles, rope_angles, rope_embedding};
use brick_runtime::timeline::span_scope;
use brick_runtime::trace::TraceStep;
use brick_runtime::{layer_scope, position_scope};

impl Session<'_> {
    /// Takes `tokens` through all layers; the residual stream stays in the scratch.
    pub(super) fn forward(&mut self, tokens: &[u32]) -> Result<(), ModelError> {
        let model = self.model;
        self.scratch.fit(model, tokens.len())?;
        let _position = position_scope(self.n_past as u64);
        let mut at = At {
            layer: None,
            first_pos: self.n_past,
            n_tokens: tokens.len(),
        };
        self.embed(tokens, at)?;
        self.turn(at)?;
        for (index, layer) in model.layers().iter().enumerate() {
            let _layer = layer_scope(index as u64);
            at.layer = Some(index);
            self.tap.begin(TraceStep::TransformerBlock, at);
            self.attend(index, layer, at)?;
            self.feed_forward(layer, at)?;
            let step = TraceStep::TransformerBlock;
            self.tap.end(step, at, Outcome::Tensors);
        }
        Ok(())
    }

    fn embed(&mut self, tokens: &[u32], at: At) -> Result<(), ModelError> {
        let scale = self.model.config().embedding_scale;
        self.tap.begin(TraceStep::Embed, at);
        embedding(self.model.embedding(), tokens, scale, &mut self.scratch.x)?;
        self.tap.end(TraceStep::Embed, at, Outcome::Tensors);
        self.offer(Node::Embedding, at)
    }

    /// The angles of the batch's positions, for all layers.
    fn turn(&mut self, at: At) -> Result<(), ModelError> {
        let ropes = self.model.ropes();
        let angles = &mut self.scratch.angles;
        angles.resize_with(ropes.len(), RopeAngles::default);
        for (rope, angles) in ropes.iter().zip(angles) {
            rope_angles(rope, at.first_pos, at.n_tokens, angles)?;
        }
        Ok(())
    }

    /// `x += post_norm(W_o attention(norm(x)))`, and the norm of that, which the feed-forward network
    /// reads: one kernel makes both.
    fn attend(&mut self, index: usize, layer: &Layer<'_>, at: At) -> Result<(), ModelError> {
        let (config, rope) = (self.model.config(), self.model.rope_of(index));
        let (eps, pos, n) = (config.rms_eps, at.first_pos, at.n_tokens);
        let _span = span_scope("attention");
        self.tap.begin(TraceStep::Attention, at);

        let s = &mut self.scratch;
        rms_norm(&s.x, &layer.attn_norm, eps, &mut s.h)?;
        self.offer(Node::AttnNorm, at)?;

        let s = &mut self.scratch;
        qkv_projection(&layer.qkv(), &s.h, n, &mut s.q, &mut s.k, &mut s.v)?;
        if let Some(norm) = &layer.q_norm {
            head_norm(&mut s.q, norm, eps)?;
        }
        if let Some(norm) = &layer.k_norm {
            head_norm(&mut s.k, norm, eps)?;
        }
        let (rope, angles) = (&self.model.ropes()[rope], &s.angles[rope]);
        rope_embedding(rope, angles, config.n_heads, &mut s.q)?;
        rope_embedding(rope, angles, config.n_kv_heads, &mut s.k)?;
        for node in [Node::Query, Node::Key, Node::Value] {
            self.offer(node, at)?;
        }

        let s = &mut self.scratch;
        kv_cache_write(&mut self.cache, index, pos, &s.k, &s.v)?;
        let attends = AttentionConfig {
            n_heads: config.n_heads,
            scale: config.attention_scale,
            window: config.window(index),
        };
        attention(&attends, &self.cache, index, pos, n, &s.q, &mut s.heads)?;
        self.offer(Node::AttnHeads, at)?;

        let s = &mut self.scratch;
        output_projection(&layer.output, &s.heads, n, &mut s.back)?;
        self.offer(Node::AttnOut, at)?;

        let s = &mut self.scratch;
        let post = layer.post_attention_norm.as_deref();
        residual_norm(&mut s.x, &mut s.back, post, &layer.ffn_norm, eps, &mut s.h)?;
        if post.is_some() {
            self.offer(Node::AttnPostNorm, at)?;
        }
        self.offer(Node::AttnResidual, at)?;
        self.tap.end(TraceStep::Attention, at, Outcome::Tensors);
        Ok(())
    }

    /// `x += post_norm(W_down (activation(W_gate h) * W_up h))`, with `h = norm(x)`
    fn feed_forward(&mut self, layer: &Layer<'_>, at: At) -> Result<(), ModelError> {
        let (config, n) = (self.model.config(), at.n_tokens);
        let _span = span_scope("feed forward");
        self.tap.begin(TraceStep::FeedForward, at);

        self.offer(Node::FfnNorm, at)?;

        let s = &mut self.scratch;
        gate_up_projection(&layer.gate_up, config.activation, &s.h, n, &mut s.ff)?;
        self.offer(Node::FfnInner, at)?;

        let s = &mut self.scratch;
        down_projection(&layer.down, &s.ff, n, &mut s.back)?;
        self.offer(Node::FfnOut, at)?;

        let s = &mut self.scratch;
        if let Some(norm) = &layer.post_ffw_norm {
            post_norm_residual(&mut s.x, &mut s.back, norm, config.rms_eps)?;
            self.offer(Node::FfnPostNorm, at)?;
        } else {
            residual_add(&mut s.x, &s.back)?;
        }
        self.offer(Node::LayerOutput, at)?;
        self.tap.end(TraceStep::FeedForward, at, Outcome::Tensors);
        Ok(())
    }

    /// The logits after the last token of the last batch.
    pub(super) fn head(&mut self) -> Result<(), ModelError> {
        let _span = span_scope("head");
        let model = self.model;
        let at = At {
            layer: None,
            first_pos: self.n_past - 1,
            n_tokens: 1,
        };
        let (s, n_embd) = (&mut self.scratch, model.config().n_embd);
        let last = &s.x[s.x.len() - n_embd..];
        self.tap.begin(TraceStep::LmHead, at);
        model.read_out(last, &mut s.h[..n_embd], &mut self.logits)?;
        self.tap.end(TraceStep::LmHead, at, Outcome::Tensors);
        self.offer(Node::FinalNorm, at)?;
        self.offer(Node::Logits, at)
    }

    /// Shows the observer the buffer that a node was just written to.
    #[inline]
    fn offer(&mut self, node: Node, at: At) -> Result<(), ModelError> {
        let s = &self.scratch;
        let data: &[f32] = match node {
            Node::Embedding | Node::AttnResidual | Node::LayerOutput => &s.x,
            Node::AttnNorm | Node::FfnNorm => &s.h,
            Node::AttnOut | Node::AttnPostNorm | Node::FfnOut | Node::FfnPostNorm => &s.back,
            Node::Query => &s.q,
            Node::Key => &s.k,
            Node::Value => &s.v,
            Node::AttnHeads => &s.heads,
            Node::FfnInner => &s.ff,
            Node::FinalNorm => &s.h[..self.model.config().n_embd],
            Node::Logits => &self.logits,
        };
        self.tap.offer(node, at, data, self.model, &self.cache)
    }
}
