//! Keys and values of the tokens seen so far.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::Range;

use brick_runtime::brick;
use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};

use crate::KernelError;
use crate::arch::Isa;
use crate::check::Check;
use crate::zeroed::Zeroed;

/// How keys and values are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum KvFormat {
    /// As they were computed.
    #[default]
    F32,
    /// Rounded to IEEE halves, ties to even: half the memory, and half of it to read for each
    /// token. What is too large for a half (over 65504) becomes an infinity, which attention's
    /// contract stops at.
    F16,
}

impl KvFormat {
    /// Bytes of one element.
    pub const fn element_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 => 2,
        }
    }
}

/// What a [`KvCache`] has to hold.
#[derive(Debug, Clone, Copy)]
pub struct KvLayout<'a> {
    /// One for each layer: how many positions its queries see, their own included; `None` for
    /// all. Of a layer with a window no more is kept than its queries can still see.
    pub windows: &'a [Option<NonZeroUsize>],
    /// Key-value heads of a layer.
    pub n_kv_heads: usize,
    /// Elements of one head's key or value.
    pub head_dim: usize,
    /// Positions that a text may have.
    pub capacity: usize,
    /// Tokens that are written, and then attended with, at once; only windows need to know.
    pub max_batch: usize,
    /// How the elements are kept.
    pub format: KvFormat,
}

/// Keys and values of every layer.
///
/// Layout: `[layer][kv_head][position][head_dim]`, so that one head's keys (or values) of
/// consecutive positions are one slice, which is what attention reads. A layer with a window has
/// room for some positions more than it must keep; once they are full, those that are still seen
/// move to the front, which costs less than one copied row for each token.
///
/// Memory is zero pages until written, so a long context that is never filled costs nothing.
#[derive(Debug)]
pub struct KvCache {
    n_kv_heads: usize,
    head_dim: usize,
    capacity: usize,
    layers: Vec<Layer>,
    keys: Store,
    values: Store,
}

/// Where one layer's rows lie, and which positions they are.
#[derive(Debug, Clone)]
struct Layer {
    /// The element at which its first head starts, in either store.
    start: usize,
    /// Positions that each head has room for.
    room: usize,
    /// Positions before its own that a query sees.
    seen_before: usize,
    /// Positions kept.
    kept: Range<usize>,
}

/// Elements in one of the formats; halves as their bits, which zero pages can be made of.
#[derive(Debug)]
enum Store {
    F32(Zeroed<f32>),
    F16(Zeroed<u16>),
}

impl KvCache {
    /// Room for `capacity` positions in each of `n_layers` layers, in `f32`.
    ///
    /// # Errors
    /// If a dimension is zero, the size overflows or there is no memory for it.
    pub fn new(
        n_layers: usize,
        n_kv_heads: usize,
        head_dim: usize,
        capacity: usize,
    ) -> Result<Self, KernelError> {
        let layout = KvLayout {
            windows: &[],
            n_kv_heads,
            head_dim,
            capacity,
            max_batch: capacity,
            format: KvFormat::F32,
        };
        Self::build(n_layers, |_| None, &layout)
    }

    /// Room for what `layout` says.
    ///
    /// # Errors
    /// If a dimension is zero, the size overflows or there is no memory for it.
    pub fn with_layout(layout: &KvLayout<'_>) -> Result<Self, KernelError> {
        let window = |layer: usize| layout.windows[layer];
        Self::build(layout.windows.len(), window, layout)
    }

    fn build(
        n_layers: usize,
        window: impl Fn(usize) -> Option<NonZeroUsize>,
        layout: &KvLayout<'_>,
    ) -> Result<Self, KernelError> {
        let (heads, dim) = (layout.n_kv_heads, layout.head_dim);
        let check = Check("KvCache::new");
        check.non_zero("n_layers", n_layers)?;
        check.non_zero("n_kv_heads", heads)?;
        check.non_zero("head_dim", dim)?;
        check.non_zero("capacity", layout.capacity)?;
        check.non_zero("max_batch", layout.max_batch)?;
        // No layer has more room than this, so that no sum below overflows.
        let most = check.product("cache", [n_layers, heads, dim, layout.capacity])?;
        check.product("cache", [most, layout.format.element_bytes()])?;
        let mut layers = Vec::new();
        if layers.try_reserve_exact(n_layers).is_err() {
            let bytes = n_layers.saturating_mul(size_of::<Layer>());
            return Err(out_of_memory(bytes));
        }
        let mut elems = 0;
        for layer in 0..n_layers {
            let (mut room, mut seen_before) = (layout.capacity, usize::MAX);
            if let Some(window) = window(layer) {
                seen_before = window.get() - 1;
                let more = layout.max_batch.max(window.get());
                room = room.min(seen_before.saturating_add(more));
            }
            layers.push(Layer {
                start: elems,
                room,
                seen_before,
                kept: 0..0,
            });
            elems += heads * room * dim;
        }
        Ok(Self {
            n_kv_heads: heads,
            head_dim: dim,
            capacity: layout.capacity,
            layers,
            keys: Store::zeroed(layout.format, elems)?,
            values: Store::zeroed(layout.format, elems)?,
        })
    }

    /// Layers.
    pub fn n_layers(&self) -> usize {
        self.layers.len()
    }

    /// Key-value heads of a layer.
    pub fn n_kv_heads(&self) -> usize {
        self.n_kv_heads
    }

    /// Elements of one head's key or value.
    pub fn head_dim(&self) -> usize {
        self.head_dim
    }

    /// Positions that a text may have.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// How the elements are kept.
    pub fn format(&self) -> KvFormat {
        match self.keys {
            Store::F32(_) => KvFormat::F32,
            Store::F16(_) => KvFormat::F16,
        }
    }

    /// Bytes of one position in one layer: the keys and values of all heads.
    pub fn position_bytes(&self) -> usize {
        // `build` has checked a product that contains this.
        2 * self.format().element_bytes() * self.n_kv_heads * self.head_dim
    }

    /// Bytes that are set aside, most of them zero pages until they are written.
    pub fn reserved_bytes(&self) -> usize {
        let rows: usize = self.layers.iter().map(|layer| layer.room).sum();
        rows * self.position_bytes()
    }

    /// Positions written in `layer`, those included that its window has left behind; 0 for a
    /// layer that does not exist.
    pub fn len(&self, layer: usize) -> usize {
        self.kept(layer).end
    }

    /// Positions of `layer` whose keys and values are there to be read; none for a layer that
    /// does not exist.
    pub fn kept(&self, layer: usize) -> Range<usize> {
        self.layers
            .get(layer)
            .map_or(0..0, |layer| layer.kept.clone())
    }

    /// Whether nothing is written in any layer.
    pub fn is_empty(&self) -> bool {
        self.layers.iter().all(|layer| layer.kept.end == 0)
    }

    /// Forgets positions from `len` on, in every layer. What a window has left behind does not
    /// come back: a text can go on from `len` only if what is seen from there is still kept.
    pub fn truncate(&mut self, len: usize) {
        for Layer { kept, .. } in &mut self.layers {
            *kept = kept.start.min(len)..kept.end.min(len);
        }
    }

    /// One head's keys of the positions [`kept`](Self::kept).
    ///
    /// # Errors
    /// If there is no such layer or head.
    pub fn keys(&self, layer: usize, kv_head: usize) -> Result<Rows<'_>, KernelError> {
        self.rows(&self.keys, "KvCache::keys", layer, kv_head)
    }

    /// One head's values of the positions [`kept`](Self::kept).
    ///
    /// # Errors
    /// If there is no such layer or head.
    pub fn values(&self, layer: usize, kv_head: usize) -> Result<Rows<'_>, KernelError> {
        self.rows(&self.values, "KvCache::values", layer, kv_head)
    }

    fn rows<'a>(
        &'a self,
        store: &'a Store,
        kernel: &'static str,
        layer: usize,
        kv_head: usize,
    ) -> Result<Rows<'a>, KernelError> {
        let check = Check(kernel);
        check.index("layer", layer, self.n_layers())?;
        check.index("kv_head", kv_head, self.n_kv_heads)?;
        let (start, kept) = (self.head_start(layer, kv_head), self.kept(layer));
        let elems = start..start + kept.len() * self.head_dim;
        Ok(Rows {
            first: kept.start,
            dim: self.head_dim,
            elems: match store {
                Store::F32(elems_of) => Elems::F32(&elems_of[elems]),
                Store::F16(elems_of) => Elems::F16(&elems_of[elems]),
            },
        })
    }

    /// Where the first row of a head lies; both exist.
    fn head_start(&self, layer: usize, kv_head: usize) -> usize {
        let layer = &self.layers[layer];
        layer.start + kv_head * layer.room * self.head_dim
    }

    /// Makes the positions from `first_pos` on the next ones to be written, with room for
    /// `n_tokens`: later ones are forgotten, and what no query will see any more gives way.
    fn make_room(
        &mut self,
        check: Check,
        layer: usize,
        first_pos: usize,
        n_tokens: usize,
    ) -> Result<(), KernelError> {
        let Layer {
            room,
            seen_before,
            kept,
            ..
        } = self.layers[layer].clone();
        let seen_from = first_pos.saturating_sub(seen_before);
        check.kept("first_pos", seen_from, kept.start)?;
        let mut first = kept.start;
        if first_pos + n_tokens - first > room {
            check.at_most("n_tokens", n_tokens, room - (first_pos - seen_from))?;
            for head in 0..self.n_kv_heads {
                let start = self.head_start(layer, head);
                let row = |pos: usize| start + (pos - first) * self.head_dim;
                let seen = row(seen_from)..row(first_pos);
                self.keys.move_to(start, seen.clone());
                self.values.move_to(start, seen);
            }
            first = seen_from;
        }
        self.layers[layer].kept = first..first_pos;
        Ok(())
    }
}

impl Store {
    fn zeroed(format: KvFormat, elems: usize) -> Result<Self, KernelError> {
        let stored = match format {
            KvFormat::F32 => Zeroed::new(elems).map(Self::F32),
            KvFormat::F16 => Zeroed::new(elems).map(Self::F16),
        };
        stored.ok_or_else(|| out_of_memory(elems.saturating_mul(format.element_bytes())))
    }

    fn move_to(&mut self, to: usize, from: Range<usize>) {
        match self {
            Self::F32(elems) => elems.copy_within(from, to),
            Self::F16(elems) => elems.copy_within(from, to),
        }
    }

    fn write(&mut self, start: usize, row: &[f32]) {
        match self {
            Self::F32(elems) => elems[start..][..row.len()].copy_from_slice(row),
            Self::F16(elems) => elems[start..][..row.len()]
                .reinterpret_cast_mut::<half::f16>()
                .convert_from_f32_slice(row),
        }
    }
}

fn out_of_memory(bytes: usize) -> KernelError {
    KernelError::OutOfMemory {
        kernel: "KvCache::new",
        bytes,
    }
}

/// One head's keys or values at consecutive positions.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    first: usize,
    dim: usize,
    elems: Elems<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Elems<'a> {
    F32(&'a [f32]),
    F16(&'a [u16]),
}

impl<'a> Rows<'a> {
    /// The positions, one for each row.
    pub fn positions(&self) -> Range<usize> {
        let elems = match self.elems {
            Elems::F32(elems) => elems.len(),
            Elems::F16(elems) => elems.len(),
        };
        self.first..self.first + elems / self.dim
    }

    /// All rows, `[positions, head_dim]`; copied only where they are not kept as `f32`.
    pub fn to_f32(&self) -> Cow<'a, [f32]> {
        match self.elems {
            Elems::F32(elems) => Cow::Borrowed(elems),
            Elems::F16(elems) => Cow::Owned(elems.reinterpret_cast::<half::f16>().to_f32_vec()),
        }
    }

    /// The rows of `positions`, which are among [`positions`](Self::positions): where they lie,
    /// or in `buffer`.
    pub(crate) fn tile<'b>(
        &self,
        isa: Isa,
        positions: Range<usize>,
        buffer: &'b mut Vec<f32>,
    ) -> &'b [f32]
    where
        'a: 'b,
    {
        let row = |pos: usize| (pos - self.first) * self.dim;
        let range = row(positions.start)..row(positions.end);
        match self.elems {
            Elems::F32(elems) => &elems[range],
            Elems::F16(elems) => {
                buffer.resize(range.len(), 0.0);
                isa.widen(&elems[range], buffer);
                buffer
            }
        }
    }
}

/// Writes the keys and values of consecutive positions from `first_pos` on; `k` and `v` are
/// `[n_tokens, n_kv_heads, head_dim]`. Positions after them, from an earlier and longer text, are
/// forgotten.
///
/// # Errors
/// If there is no such layer, a length does not match, `first_pos` would leave a gap after what is
/// written or sees what a window has left behind, or the positions exceed the capacity or, in a
/// layer with a window, [`KvLayout::max_batch`]. The cache is then as it was.
#[brick(
    id = KvCacheWrite,
    budget_us = 5 + k.len() / 200,
    flops = 0,
    bytes = (4 + cache.format().element_bytes()) * (k.len() + v.len()),
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
    check.at_most("first_pos", first_pos, cache.len(layer))?;
    let end = check.sum("first_pos + n_tokens", first_pos, n_tokens)?;
    check.at_most("first_pos + n_tokens", end, cache.capacity)?;
    cache.make_room(check, layer, first_pos, n_tokens)?;
    let first_row = first_pos - cache.layers[layer].kept.start;
    for head in 0..heads {
        let start = cache.head_start(layer, head) + first_row * dim;
        let tokens = k.chunks_exact(heads * dim).zip(v.chunks_exact(heads * dim));
        for (token, (k, v)) in tokens.enumerate() {
            let elems = head * dim..(head + 1) * dim;
            cache.keys.write(start + token * dim, &k[elems.clone()]);
            cache.values.write(start + token * dim, &v[elems]);
        }
    }
    cache.layers[layer].kept.end = end;
    Ok(())
}
