//! Keys and values of the tokens seen so far.

use brick_runtime::brick;

use crate::KernelError;
use crate::check::Check;

/// Keys and values of every layer, `f32`.
///
/// Layout: `[layer][kv_head][position][head_dim]`, so that one head's keys (or values) of
/// consecutive positions are one slice, which is what attention reads. Everything reads through
/// [`KvCache::keys`] and [`KvCache::values`], and one function writes: another storage format
/// changes only these.
///
/// Memory is zero pages until written, so a long context that is never filled costs nothing.
#[derive(Debug)]
pub struct KvCache {
    n_kv_heads: usize,
    head_dim: usize,
    capacity: usize,
    /// Positions written, for each layer.
    lens: Vec<usize>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl KvCache {
    /// Room for `capacity` positions in each of `n_layers` layers.
    ///
    /// # Errors
    /// If a dimension is zero, the size overflows or there is no memory for it.
    pub fn new(
        n_layers: usize,
        n_kv_heads: usize,
        head_dim: usize,
        capacity: usize,
    ) -> Result<Self, KernelError> {
        let check = Check("KvCache::new");
        check.non_zero("n_layers", n_layers)?;
        check.non_zero("n_kv_heads", n_kv_heads)?;
        check.non_zero("head_dim", head_dim)?;
        check.non_zero("capacity", capacity)?;
        let elems = check.product("cache", [n_layers, n_kv_heads, head_dim, capacity])?;
        let bytes = check.product("cache", [elems, size_of::<f32>()])?;
        let zeroed = || {
            bytemuck::allocation::try_zeroed_vec(elems).map_err(|()| KernelError::OutOfMemory {
                kernel: "KvCache::new",
                bytes,
            })
        };
        Ok(Self {
            n_kv_heads,
            head_dim,
            capacity,
            lens: vec![0; n_layers],
            keys: zeroed()?,
            values: zeroed()?,
        })
    }

    /// Layers.
    pub fn n_layers(&self) -> usize {
        self.lens.len()
    }

    /// Key-value heads of a layer.
    pub fn n_kv_heads(&self) -> usize {
        self.n_kv_heads
    }

    /// Elements of one head's key or value.
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Positions there is room for.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Positions written in `layer`; 0 for a layer that does not exist.
    pub fn len(&self, layer: usize) -> usize {
        self.lens.get(layer).copied().unwrap_or(0)
    }

    /// Whether nothing is written in any layer.
    pub fn is_empty(&self) -> bool {
        self.lens.iter().all(|&len| len == 0)
    }

    /// Forgets positions from `len` on, in every layer.
    pub fn truncate(&mut self, len: usize) {
        for filled in &mut self.lens {
            *filled = len.min(*filled);
        }
    }

    /// One head's keys of the written positions, `[len(layer), head_dim]`.
    ///
    /// # Errors
    /// If there is no such layer or head.
    pub fn keys(&self, layer: usize, kv_head: usize) -> Result<&[f32], KernelError> {
        let start = self.head_start("KvCache::keys", layer, kv_head)?;
        Ok(&self.keys[start..start + self.lens[layer] * self.head_dim])
    }

    /// One head's values of the written positions, `[len(layer), head_dim]`.
    ///
    /// # Errors
    /// If there is no such layer or head.
    pub fn values(&self, layer: usize, kv_head: usize) -> Result<&[f32], KernelError> {
        let start = self.head_start("KvCache::values", layer, kv_head)?;
        Ok(&self.values[start..start + self.lens[layer] * self.head_dim])
    }

    /// Where a head's position 0 lies.
    fn head_start(
        &self,
        kernel: &'static str,
        layer: usize,
        kv_head: usize,
    ) -> Result<usize, KernelError> {
        let check = Check(kernel);
        check.index("layer", layer, self.n_layers())?;
        check.index("kv_head", kv_head, self.n_kv_heads)?;
        Ok((layer * self.n_kv_heads + kv_head) * self.capacity * self.head_dim)
    }
}

/// Writes the keys and values of consecutive positions from `first_pos` on; `k` and `v` are
/// `[n_tokens, n_kv_heads, head_dim]`. Positions after them, from an earlier and longer text, are
/// forgotten.
///
/// # Errors
/// If there is no such layer, a length does not match, `first_pos` would leave a gap after what is
/// written, or the positions exceed the capacity. The cache is then as it was.
#[brick(
    id = KvCacheWrite,
    budget_us = 5 + k.len() / 200,
    flops = 0,
    bytes = 8 * (k.len() + v.len()),
    category = Attention
)]
pub fn kv_cache_write(
    cache: &mut KvCache,
    layer: usize,
    first_pos: usize,
    k: &[f32],
    v: &[f32],
) -> Result<(), KernelError> {
    let check = Check("kv_cache_write");
    let (heads, dim) = (cache.n_kv_heads, cache.head_dim);
    check.index("layer", layer, cache.n_layers())?;
    let n_tokens = check.quotient("k.len()", k.len(), heads * dim)?;
    check.equal("v.len()", v.len(), k.len())?;
    check.at_most("first_pos", first_pos, cache.lens[layer])?;
    let end = check.sum("first_pos + n_tokens", first_pos, n_tokens)?;
    check.at_most("first_pos + n_tokens", end, cache.capacity)?;
    for head in 0..heads {
        let start = cache.head_start("kv_cache_write", layer, head)? + first_pos * dim;
        let range = start..start + n_tokens * dim;
        copy_head(k, head, heads, dim, &mut cache.keys[range.clone()]);
        copy_head(v, head, heads, dim, &mut cache.values[range]);
    }
    cache.lens[layer] = end;
    Ok(())
}

/// Gathers one head of `[n_tokens, heads, dim]`.
fn copy_head(from: &[f32], head: usize, heads: usize, dim: usize, to: &mut [f32]) {
    let tokens = from.chunks_exact(heads * dim);
    for (to, token) in to.chunks_exact_mut(dim).zip(tokens) {
        to.copy_from_slice(&token[head * dim..][..dim]);
    }
}
