//! Attention as numpy computed it (`golden/attention_rope.py`): 90 tokens at the end of 150 positions.

use std::num::NonZeroUsize;

use brick_kernels::attention::AttentionConfig;
use brick_kernels::kv_cache::{KvCache, kv_cache_write};

use crate::common::golden_f32;

/// Tokens that attend.
pub(crate) const TOKENS: usize = 90;
/// Positions that are in the cache.
pub(crate) const POSITIONS: usize = 150;
/// Heads of the queries.
pub(crate) const HEADS: usize = 6;
/// Elements of a head.
pub(crate) const DIM: usize = 20;
const KV_HEADS: usize = 2;

/// What went in, and what came out.
pub(crate) struct Golden {
    /// `[TOKENS, HEADS, DIM]`.
    pub(crate) q: Vec<f32>,
    /// Keys and values, in layer 1.
    pub(crate) cache: KvCache,
    /// Settings, without a window and with one of 37, and their outputs, `[TOKENS, HEADS, DIM]`.
    pub(crate) outputs: [(AttentionConfig, Vec<f32>); 2],
}

/// A cache whose layer 1 of 2 holds `k` and `v`.
pub(crate) fn filled(n_kv_heads: usize, dim: usize, k: &[f32], v: &[f32]) -> KvCache {
    let n = k.len() / (n_kv_heads * dim);
    let mut cache = KvCache::new(2, n_kv_heads, dim, n + 3).unwrap();
    kv_cache_write(&mut cache, 1, 0, k, v).unwrap();
    cache
}

/// Reads the file.
pub(crate) fn golden() -> Golden {
    let file = golden_f32("attention.f32");
    let mut rest = &file[..];
    let mut take = |n| rest.split_off(..n).unwrap();
    let q = take(TOKENS * HEADS * DIM).to_vec();
    let keys_and_values = [(); 2].map(|()| take(POSITIONS * KV_HEADS * DIM));
    let [k, v] = keys_and_values;
    let outputs = [None, NonZeroUsize::new(37)].map(|window| {
        let config = AttentionConfig {
            n_heads: HEADS,
            scale: 0.8,
            window,
        };
        (config, take(TOKENS * HEADS * DIM).to_vec())
    });
    Golden {
        q,
        cache: filled(KV_HEADS, DIM, k, v),
        outputs,
    }
}
