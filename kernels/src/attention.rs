//! Masked attention over a KV cache.
//!
//! Scores are never stored as a whole: keys are taken a tile at a time, and a running maximum
//! and sum correct what has been added so far (the online softmax of Milakov & Gimelshein, 2018,
//! as in FlashAttention). So the kernel needs no scratch that grows with the context.
//!
//! Several tokens take a tile together, so that it is read (and widened, if it is kept as halves)
//! once for all of them. Tiles start at multiples of their length whoever asks, which is why a
//! token's result does not depend on its company.

use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::ops::Range;

use rayon::prelude::*;

use brick_runtime::brick;
use brick_runtime::timeline::handover;

use crate::KernelError;
use crate::arch::Isa;
use crate::check::Check;
use crate::exp::exp;
use crate::kv_cache::{KvCache, Rows};
use crate::parallel::outputs_per_task;

/// Keys taken at a time: a tile of them and of their values stays in the second-level cache.
const TILE: usize = 64;

/// Tokens that read one tile together.
const TOKENS: usize = 16;

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
        let end = pos.saturating_add(1);
        let start = self
            .window
            .map_or(0, |window| end.saturating_sub(window.get()));
        start..end
    }

    /// Positions that one or more of `n_tokens` tokens from `first_pos` on attend to.
    pub fn seen(&self, first_pos: usize, n_tokens: usize) -> Range<usize> {
        self.visible(first_pos).start..first_pos.saturating_add(n_tokens)
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
/// If a length does not match, the heads don't divide, there is no such layer, the cache ends
/// before the last token, or a window has left behind what the first one sees.
#[brick(
    id = AttentionScore,
    budget_us = 20 + config.flops(cache.head_dim(), first_pos, n_tokens) / 10000,
    assert(out = "finite"),
    flops = config.flops(cache.head_dim(), first_pos, n_tokens),
    bytes = cache.position_bytes() * config.seen(first_pos, n_tokens).len().min(cache.len(layer))
        + 4 * (q.len() + out.len()),
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
    let seen = config.seen(first_pos, n_tokens);
    check.kept("first_pos", seen.start, cache.kept(layer).start)?;
    if n_tokens == 0 {
        return Ok(());
    }

    // One token is split by key-value heads, several by tokens.
    let unit = group * dim;
    let (tokens, heads, chunk) = match n_tokens {
        1 => (1, 1, unit),
        _ => (TOKENS, n_kv_heads, TOKENS * n_kv_heads * unit),
    };
    let isa = Isa::choose()?;
    let run = |(i, (q, out)): (usize, (&[f32], &mut [f32]))| {
        let (first_token, first_head) = match n_tokens {
            1 => (0, i),
            _ => (i * tokens, 0),
        };
        for head in 0..heads {
            let group = Group {
                config,
                first_pos: first_pos + first_token,
                keys: cache.keys(layer, first_head + head)?,
                values: cache.values(layer, first_head + head)?,
                dim,
                unit,
                row: heads * unit,
                column: head * unit,
            };
            SCRATCH.with_borrow_mut(|scratch| group.attend(isa, q, out, scratch));
        }
        Ok(())
    };
    let n_chunks = q.len().div_ceil(chunk);
    let per_task = outputs_per_task(n_chunks, config.flops(dim, first_pos, n_tokens) / n_chunks);
    if per_task >= n_chunks {
        let mut chunks = q.chunks(chunk).zip(out.chunks_mut(chunk)).enumerate();
        return chunks.try_for_each(run);
    }
    let work = handover();
    q.par_chunks(chunk)
        .zip(out.par_chunks_mut(chunk))
        .enumerate()
        .with_min_len(per_task)
        .try_for_each_init(|| work.task("tokens"), |_task, chunk| run(chunk))
}

/// The query heads of consecutive tokens that share a key-value head.
struct Group<'a> {
    config: &'a AttentionConfig,
    /// The position of the first token.
    first_pos: usize,
    keys: Rows<'a>,
    values: Rows<'a>,
    /// Elements of a head.
    dim: usize,
    /// Elements of a token's heads of this group, which are consecutive.
    unit: usize,
    /// Elements from one token to the next, in queries and outputs.
    row: usize,
    /// Where the group's elements start in each of those rows.
    column: usize,
}

/// What a thread needs for a group, kept from call to call.
#[derive(Default)]
struct Scratch {
    /// A tile of keys and one of values, where they are not kept as `f32`.
    keys: Vec<f32>,
    values: Vec<f32>,
    /// `[query heads, keys of a tile]`.
    scores: Vec<f32>,
    /// The group's queries and unscaled outputs, `[tokens, unit]`.
    q: Vec<f32>,
    out: Vec<f32>,
    /// For each query head, the largest score so far and the sum of the exponentials.
    heads: Vec<(f32, f32)>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Group<'_> {
    /// `q` and `out` are the tokens' rows, of which this group has a column.
    fn attend(&self, isa: Isa, q: &[f32], out: &mut [f32], scratch: &mut Scratch) {
        let (dim, columns) = (self.dim, self.column..self.column + self.unit);
        scratch.q.clear();
        for row in q.chunks_exact(self.row) {
            scratch.q.extend_from_slice(&row[columns.clone()]);
        }
        scratch.out.clear();
        scratch.out.resize(scratch.q.len(), 0.0);
        scratch.heads.clear();
        let n_heads = scratch.q.len() / dim;
        scratch.heads.resize(n_heads, (f32::NEG_INFINITY, 0.0));

        let seen = self.config.seen(self.first_pos, q.len() / self.row);
        let mut start = seen.start;
        while start < seen.end {
            let end = (start / TILE + 1).saturating_mul(TILE).min(seen.end);
            self.tile(isa, start..end, scratch);
            start = end;
        }

        let heads = scratch.out.chunks_exact_mut(dim).zip(&scratch.heads);
        for (out, (_, sum)) in heads {
            let scale = 1.0 / sum;
            out.iter_mut().for_each(|out| *out *= scale);
        }
        let rows = out.chunks_exact_mut(self.row);
        for (row, out) in rows.zip(scratch.out.chunks_exact(self.unit)) {
            row[columns.clone()].copy_from_slice(out);
        }
    }

    /// Adds what the heads see of the keys at `positions`.
    fn tile(&self, isa: Isa, positions: Range<usize>, scratch: &mut Scratch) {
        let (dim, n_keys) = (self.dim, positions.len());
        let Scratch {
            scores, out, heads, ..
        } = scratch;
        let keys = self.keys.tile(positions.clone(), &mut scratch.keys);
        let values = self.values.tile(positions.clone(), &mut scratch.values);
        scores.resize(heads.len() * n_keys, 0.0);
        isa.gemm_tile(dim, keys, &scratch.q, scores);
        // Heads that see the same keys, those of one token at least, add their values together.
        let mut head = 0;
        while head < heads.len() {
            let seen = self.seen_of(head, &positions);
            let alike = |&h: &usize| self.seen_of(h, &positions) == seen;
            let end = (head..heads.len()).take_while(alike).count() + head;
            for h in head..end {
                let scores = &mut scores[h * n_keys..][seen.clone()];
                let (max_so_far, sum) = &mut heads[h];
                let (max, more) = isa.exponentials(scores, self.config.scale, *max_so_far);
                if max > *max_so_far {
                    let correction = exp(*max_so_far - max);
                    *sum *= correction;
                    let out = &mut out[h * dim..(h + 1) * dim];
                    out.iter_mut().for_each(|out| *out *= correction);
                    *max_so_far = max;
                }
                *sum += more;
            }
            isa.weighted_sums(
                &scores[head * n_keys + seen.start..],
                n_keys,
                &values[seen.start * dim..seen.end * dim],
                dim,
                &mut out[head * dim..end * dim],
            );
            head = end;
        }
    }

    /// Which of the keys at `positions` a head sees, counted from the first; they may be none.
    fn seen_of(&self, head: usize, positions: &Range<usize>) -> Range<usize> {
        let visible = self
            .config
            .visible(self.first_pos + head * self.dim / self.unit);
        let within = |pos: usize| pos.clamp(positions.start, positions.end) - positions.start;
        within(visible.start)..within(visible.end)
    }
}
