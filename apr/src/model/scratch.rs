//! The activations of one batch of tokens, kept from call to call.

use super::Model;

/// Buffers for `n` tokens, each row-major `[n, …]`; grown on demand, so that decoding, one token
/// after the other, allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    /// The residual stream, `[n, n_embd]`.
    pub(super) x: Vec<f32>,
    /// Its norm, and each block's contribution before it is added, `[n, n_embd]`.
    pub(super) h: Vec<f32>,
    /// `[n, n_embd]`: what a projection back to the stream wrote, before a norm of its own.
    pub(super) back: Vec<f32>,
    /// `[n, n_heads, head_dim]`.
    pub(super) q: Vec<f32>,
    /// `[n, n_kv_heads, head_dim]`.
    pub(super) k: Vec<f32>,
    /// `[n, n_kv_heads, head_dim]`.
    pub(super) v: Vec<f32>,
    /// The heads' outputs, `[n, n_heads, head_dim]`.
    pub(super) heads: Vec<f32>,
    /// The feed-forward network's inner layer, `[n, n_ff]`.
    pub(super) ff: Vec<f32>,
}

impl Scratch {
    /// Makes every buffer exactly as long as `n` tokens need.
    pub(super) fn fit(&mut self, model: &Model<'_>, n: usize) {
        let c = model.config();
        for (buffer, width) in [
            (&mut self.x, c.n_embd),
            (&mut self.h, c.n_embd),
            (&mut self.back, c.n_embd),
            (&mut self.q, c.n_heads * c.head_dim),
            (&mut self.k, c.n_kv_heads * c.head_dim),
            (&mut self.v, c.n_kv_heads * c.head_dim),
            (&mut self.heads, c.n_heads * c.head_dim),
            (&mut self.ff, c.n_ff),
        ] {
            buffer.resize(n * width, 0.0);
        }
    }
}
