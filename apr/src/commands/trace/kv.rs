//! The state of a KV cache.

use crate::arch::Config;
use anyhow::Result;
use brick_kernels::kv_cache::KvCache;
use brick_runtime::trace::RowNorms;
use serde::Serialize;

/// What a cache holds.
#[derive(Debug, Serialize)]
pub(super) struct KvState {
    /// Positions written.
    pub(super) positions: usize,
    /// Positions there is room for.
    pub(super) capacity: usize,
    /// Bytes of one element.
    pub(super) element_bytes: usize,
    /// Of what is kept: 2 × layers × heads × positions × elements × bytes of each.
    pub(super) used_bytes: usize,
    /// Of what there is room for.
    pub(super) reserved_bytes: usize,
    pub(super) layers: Vec<KvLayer>,
}

/// What it holds of one layer.
#[derive(Debug, Serialize)]
pub(super) struct KvLayer {
    pub(super) layer: usize,
    /// Positions that a query of this layer sees; null where it sees all.
    pub(super) window: Option<usize>,
    /// Positions that the next token will see, without itself.
    pub(super) visible: usize,
    /// Norms of the keys of each head and position, rotated as they are kept.
    pub(super) k_norm: RowNorms,
    /// Norms of the values.
    pub(super) v_norm: RowNorms,
}

impl KvState {
    /// Reads all that is written.
    pub(super) fn of(cache: &KvCache, config: &Config) -> Result<Self> {
        let layers = (0..cache.n_layers()).map(|layer| KvLayer::of(cache, config, layer));
        let layers: Vec<KvLayer> = layers.collect::<Result<_>>()?;
        let kept = (0..cache.n_layers()).map(|layer| cache.kept(layer).len());
        Ok(Self {
            positions: cache.len(0),
            capacity: cache.capacity(),
            element_bytes: cache.format().element_bytes(),
            used_bytes: kept.sum::<usize>() * cache.position_bytes(),
            reserved_bytes: cache.reserved_bytes(),
            layers,
        })
    }
}

impl KvLayer {
    fn of(cache: &KvCache, config: &Config, layer: usize) -> Result<Self> {
        let (mut k_norm, mut v_norm) = (RowNorms::default(), RowNorms::default());
        for head in 0..cache.n_kv_heads() {
            k_norm.add(&cache.keys(layer, head)?.to_f32(), cache.head_dim())?;
            v_norm.add(&cache.values(layer, head)?.to_f32(), cache.head_dim())?;
        }
        let window = config.window(layer).map(usize::from);
        let positions = cache.len(layer);
        Ok(Self {
            layer,
            window,
            // Of the window's positions one is the token's own.
            visible: window.map_or(positions, |window| positions.min(window - 1)),
            k_norm,
            v_norm,
        })
    }
}
