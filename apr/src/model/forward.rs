//! The forward pass: which kernel follows which, and nothing else.

use super::weights::Layer;
use super::{ModelError, Session};
use brick_kernels::attention::{AttentionConfig, attention};
use brick_kernels::embedding::embedding;
use brick_kernels::kv_cache::kv_cache_write;
use brick_kernels::lm_head::{lm_head, logit_softcap};
use brick_kernels::projection::{
    down_projection, gate_up_projection, output_projection, qkv_projection,
};
use brick_kernels::residual::residual_add;
use brick_kernels::rms_norm::{head_norm, rms_norm};
use brick_kernels::rope::rope_embedding;
use brick_runtime::{layer_scope, position_scope};

impl Session<'_> {
    /// Takes `tokens` through all layers; the residual stream stays in the scratch.
    pub(super) fn forward(&mut self, tokens: &[u32]) -> Result<(), ModelError> {
        let model = self.model;
        self.scratch.fit(model, tokens.len())?;
        let _position = position_scope(self.n_past as u64);
        let scale = model.config().embedding_scale;
        embedding(model.embedding(), tokens, scale, &mut self.scratch.x)?;
        for (index, layer) in model.layers().iter().enumerate() {
            let _layer = layer_scope(index as u64);
            self.attend(index, layer, tokens.len())?;
            self.feed_forward(layer, tokens.len())?;
        }
        Ok(())
    }

    /// `x += post_norm(W_o attention(norm(x)))`
    fn attend(&mut self, index: usize, layer: &Layer<'_>, n: usize) -> Result<(), ModelError> {
        let config = self.model.config();
        let (eps, pos, s) = (config.rms_eps, self.n_past, &mut self.scratch);
        rms_norm(&s.x, &layer.attn_norm, eps, &mut s.h)?;
        qkv_projection(&layer.qkv(), &s.h, n, &mut s.q, &mut s.k, &mut s.v)?;
        if let Some(norm) = &layer.q_norm {
            head_norm(&mut s.q, norm, eps)?;
        }
        if let Some(norm) = &layer.k_norm {
            head_norm(&mut s.k, norm, eps)?;
        }
        let rope = self.model.rope(index);
        rope_embedding(rope, pos, config.n_heads, &mut s.q)?;
        rope_embedding(rope, pos, config.n_kv_heads, &mut s.k)?;
        kv_cache_write(&mut self.cache, index, pos, &s.k, &s.v)?;
        let attends = AttentionConfig {
            n_heads: config.n_heads,
            scale: config.attention_scale,
            window: config.window(index),
        };
        attention(&attends, &self.cache, index, pos, n, &s.q, &mut s.heads)?;
        output_projection(&layer.output, &s.heads, n, &mut s.back)?;
        self.add_back(layer.post_attention_norm.as_deref())
    }

    /// `x += post_norm(W_down (activation(W_gate norm(x)) * W_up norm(x)))`
    fn feed_forward(&mut self, layer: &Layer<'_>, n: usize) -> Result<(), ModelError> {
        let config = self.model.config();
        let s = &mut self.scratch;
        rms_norm(&s.x, &layer.ffn_norm, config.rms_eps, &mut s.h)?;
        gate_up_projection(&layer.gate_up, config.activation, &s.h, n, &mut s.ff)?;
        down_projection(&layer.down, &s.ff, n, &mut s.back)?;
        self.add_back(layer.post_ffw_norm.as_deref())
    }

    /// Adds what a block wrote to the residual stream, through the norm that some models have there.
    fn add_back(&mut self, norm: Option<&[f32]>) -> Result<(), ModelError> {
        let s = &mut self.scratch;
        match norm {
            Some(norm) => {
                rms_norm(&s.back, norm, self.model.config().rms_eps, &mut s.h)?;
                residual_add(&mut s.x, &s.h)?;
            }
            None => residual_add(&mut s.x, &s.back)?,
        }
        Ok(())
    }

    /// The logits after the last token of the last batch.
    pub(super) fn head(&mut self) -> Result<(), ModelError> {
        let model = self.model;
        let (s, n_embd) = (&mut self.scratch, model.config().n_embd);
        let last = &s.x[s.x.len() - n_embd..];
        let h = &mut s.h[..n_embd];
        rms_norm(last, model.output_norm(), model.config().rms_eps, h)?;
        lm_head(model.head(), h, 1, &mut self.logits)?;
        if let Some(cap) = model.config().logit_softcap {
            logit_softcap(cap, &mut self.logits)?;
        }
        Ok(())
    }
}
