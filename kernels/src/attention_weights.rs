//! The weights that attention multiplies the values by, for those who want to look at them.

use brick_runtime::brick;

use crate::KernelError;
use crate::arch::Isa;
use crate::attention::AttentionConfig;
use crate::check::Check;
use crate::kv_cache::KvCache;

/// `weights[h] = softmax(scale * q[h] · Kᵀ)` over the positions that the token at `pos` sees.
///
/// [`attention`](crate::attention::attention) never holds a row of weights as a whole; this does,
/// for one token: `q` is `[n_heads, head_dim]`, `weights` `[n_heads, n]` with `n` the length of
/// [`config.visible(pos)`](AttentionConfig::visible), the first of them for its start. Plain loops
/// on the calling thread: it is for diagnosis.
///
/// # Errors
/// If a length does not match, the heads don't divide, there is no such layer, nothing is
/// written at `pos`, or a window has left behind what it sees.
#[brick(
    id = AttentionWeights,
    budget_us = 20 + q.len() * (pos.min(cache.len(layer)) + 1) / 500,
    assert(weights = "finite"),
    flops = 2 * q.len() * config.visible(pos.min(cache.len(layer))).len(),
    bytes = 4 * (q.len() + weights.len())
        + cache.position_bytes() / 2 * config.visible(pos.min(cache.len(layer))).len(),
    category = Attention
)]
pub fn attention_weights(
    config: &AttentionConfig,
    cache: &KvCache,
    layer: usize,
    pos: usize,
    q: &[f32],
    weights: &mut [f32],
) -> Result<(), KernelError> {
    let check = Check("attention_weights");
    check.non_zero("config.n_heads", config.n_heads)?;
    let (n_kv_heads, dim) = (cache.n_kv_heads(), cache.head_dim());
    let group = check.quotient("config.n_heads", config.n_heads, n_kv_heads)?;
    check.equal(
        "q.len()",
        q.len(),
        check.product("q", [config.n_heads, dim])?,
    )?;
    check.index("layer", layer, cache.n_layers())?;
    check.index("pos", pos, cache.len(layer))?;
    let visible = config.visible(pos);
    check.kept("pos", visible.start, cache.kept(layer).start)?;
    let n = visible.len();
    let expected = check.product("weights", [config.n_heads, n])?;
    check.equal("weights.len()", weights.len(), expected)?;

    let (isa, mut buffer) = (Isa::choose()?, Vec::new());
    let heads = q.chunks_exact(dim).zip(weights.chunks_exact_mut(n));
    for (head, (q, weights)) in heads.enumerate() {
        let keys = cache.keys(layer, head / group)?;
        let keys = keys.tile(isa, visible.clone(), &mut buffer);
        for (weight, key) in weights.iter_mut().zip(keys.chunks_exact(dim)) {
            *weight = q.iter().zip(key).map(|(q, k)| q * k).sum::<f32>();
        }
        let (_, sum) = isa.exponentials(weights, config.scale, f32::NEG_INFINITY);
        let scale = 1.0 / sum;
        weights.iter_mut().for_each(|weight| *weight *= scale);
    }
    Ok(())
}
