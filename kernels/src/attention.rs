//! Masked attention over a KV cache.
//!
//! Scores are never stored as a whole: keys are taken a tile at a time, and a running maximum
//! and sum correct what has been added so far (the online softmax of Milakov & Gimelshein, 2018,
//! as in FlashAttention). So the kernel needs no scratch that grows with the context, and
//! allocates nothing.

use std::num::NonZeroUsize;
use std::ops::Range;

use rayon::prelude::*;

use brick_runtime::brick;

use crate::KernelError;
use crate::arch::Isa;
use crate::check::Check;
use crate::kv_cache::KvCache;
use crate::parallel::outputs_per_task;
use crate::softmax::{exponentials, maximum};

/// Keys taken at a time: a tile of them and of their values stays in the second-level cache.
const TILE: usize = 64;

/// Query heads that read one tile of keys together.
const HEADS: usize = 8;

/// How one layer attends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttentionConfig {
    /// Query heads: a multiple of the cache's key-value heads. Head `h` reads key-value head
    /// `h / (n_heads / n_kv_heads)`.
    pub n_heads: usize,
    /// Factor on the scores, usually `1 / √head_dim`.
    pub scale: f32,
    /// Sliding window: a query sees this many positions, its own included (a key is masked if
    /// `pos_q - pos_k >= window`). `None`: every earlier position.
    pub window: Option<NonZeroUsize>,
}

impl AttentionConfig {
    /// Positions that the token at `pos` attends to.
    pub fn visible(&self, pos: usize) -> Range<usize> {
        let start = self
            .window
            .map_or(0, |window| (pos + 1).saturating_sub(window.get()));
        start..pos + 1
    }

    /// Floating-point operations of [`attention`] over `n_tokens` tokens from `first_pos` on: two
    /// multiply-adds for each query head, each position it sees and each of `head_dim` elements.
    pub fn flops(&self, head_dim: usize, first_pos: usize, n_tokens: usize) -> usize {
        // Position p sees min(p + 1, window): a triangle up to the window, then a rectangle.
        let window = self.window.map_or(usize::MAX, NonZeroUsize::get) as u128;
        let seen_before = |pos: usize| {
            let pos = pos as u128;
            let rising = pos.min(window);
            rising * (rising + 1) / 2 + (pos - rising) * window
        };
        let pairs = seen_before(first_pos.saturating_add(n_tokens)) - seen_before(first_pos);
        let pairs = usize::try_from(pairs).unwrap_or(usize::MAX);
        pairs
            .saturating_mul(4)
            .saturating_mul(self.n_heads)
            .saturating_mul(head_dim)
    }
}

/// `out[t, h] = softmax(scale * q[t, h] · Kᵀ) V` over the positions that token `t` sees, for
/// `n_tokens` tokens at positions from `first_pos` on; `q` and `out` are `[n_tokens, n_heads,
/// head_dim]`. The keys and values of the tokens themselves are in the cache already.
///
/// A token's result does not depend, to the last bit, on the tokens beside it or on the number of
/// threads.
///
/// # Errors
/// If a length does not match, the heads don't divide, there is no such layer, or the cache ends
/// before the last token.
#[brick(
    id = AttentionScore,
    budget_us = 20 + config.flops(cache.head_dim(), first_pos, n_tokens) / 10000,
    assert(out = "finite"),
    flops = config.flops(cache.head_dim(), first_pos, n_tokens),
    bytes = 8 * cache.len(layer) * cache.n_kv_heads() * cache.head_dim() + 4 * (q.len() + out.len()),
    category = Attention
)]
pub fn attention(
    config: &AttentionConfig,
    cache: &KvCache,
    layer: usize,
    first_pos: usize,
    n_tokens: usize,
    q: &[f32],
    out: &mut [f32],
) -> Result<(), KernelError> {
    let check = Check("attention");
    check.non_zero("config.n_heads", config.n_heads)?;
    let (n_kv_heads, dim) = (cache.n_kv_heads(), cache.head_dim());
    let group = check.quotient("config.n_heads", config.n_heads, n_kv_heads)?;
    let expected = check.product("q", [n_tokens, config.n_heads, dim])?;
    check.equal("q.len()", q.len(), expected)?;
    check.equal("out.len()", out.len(), expected)?;
    check.index("layer", layer, cache.n_layers())?;
    let end = check.sum("first_pos + n_tokens", first_pos, n_tokens)?;
    check.at_most("first_pos + n_tokens", end, cache.len(layer))?;
    if n_tokens == 0 {
        return Ok(());
    }

    // One unit is the query heads of one token that share a key-value head: consecutive in `q`.
    let unit = group * dim;
    let isa = Isa::detect();
    let run = |(i, (q, out)): (usize, (&[f32], &mut [f32]))| {
        let (token, kv_head) = (i / n_kv_heads, i % n_kv_heads);
        let visible = config.visible(first_pos + token);
        let elems = visible.start * dim..visible.end * dim;
        let keys = &cache.keys(layer, kv_head)?[elems.clone()];
        let values = &cache.values(layer, kv_head)?[elems];
        for (q, out) in q.chunks(HEADS * dim).zip(out.chunks_mut(HEADS * dim)) {
            attend(isa, dim, config.scale, q, keys, values, out);
        }
        Ok(())
    };
    let n_units = n_tokens * n_kv_heads;
    let flops = config.flops(dim, first_pos, n_tokens) / n_units;
    let per_task = outputs_per_task(n_units, flops);
    if per_task >= n_units {
        let mut units = q
            .chunks_exact(unit)
            .zip(out.chunks_exact_mut(unit))
            .enumerate();
        return units.try_for_each(run);
    }
    q.par_chunks_exact(unit)
        .zip(out.par_chunks_exact_mut(unit))
        .enumerate()
        .with_min_len(per_task)
        .try_for_each(run)
}

/// At most [`HEADS`] query heads of one token over the keys and values that it sees.
fn attend(
    isa: Isa,
    dim: usize,
    scale: f32,
    q: &[f32],
    keys: &[f32],
    values: &[f32],
    out: &mut [f32],
) {
    let mut maxima = [f32::NEG_INFINITY; HEADS];
    let mut sums = [0.0f32; HEADS];
    let mut scores = [0.0f32; HEADS * TILE];
    let n_heads = q.len() / dim;
    out.fill(0.0);
    for (keys, values) in keys.chunks(TILE * dim).zip(values.chunks(TILE * dim)) {
        let n_keys = keys.len() / dim;
        let scores = &mut scores[..n_heads * n_keys];
        isa.gemm_tile(dim, keys, q, scores);
        let heads = scores
            .chunks_exact_mut(n_keys)
            .zip(out.chunks_exact_mut(dim));
        for (h, (scores, out)) in heads.enumerate() {
            scores.iter_mut().for_each(|score| *score *= scale);
            let max = maxima[h].max(maximum(scores));
            if max > maxima[h] {
                let correction = (maxima[h] - max).exp();
                sums[h] *= correction;
                out.iter_mut().for_each(|out| *out *= correction);
                maxima[h] = max;
            }
            sums[h] += exponentials(scores, max);
            isa.weighted_sum(scores, values, out);
        }
    }
    for (out, sum) in out.chunks_exact_mut(dim).zip(sums) {
        let scale = 1.0 / sum;
        out.iter_mut().for_each(|out| *out *= scale);
    }
}
