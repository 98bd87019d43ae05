//! Masked attention over a KV cache.
//!
//! Scores are never stored as a whole: keys are taken a tile at a time, and a running maximum
//! and sum correct what has been added so far (the online softmax of Milakov & Gimelshein, 2018,
//! as in FlashAttention). So the kernel needs no scratch that grows with the context.
//!
//! Several tokens take a tile together, so that it is read (and widened, if it is kept as halves)
//! once for all of them. Tiles make up spans, whose sums are gathered apart and then merged in order:
//! so threads can share one token's positions. Tiles and spans start at multiples of their length whoever
//! asks, which is why a token's result depends neither on its company nor on the number of threads.

mod group;

use std::num::NonZeroUsize;
use std::ops::Range;

use brick_runtime::brick;

use crate::KernelError;
use crate::arch::Isa;
use crate::check::Check;
use crate::kv_cache::KvCache;
use crate::parallel::{Plan, cut, ranges};

use self::group::{Group, Sums, spans};

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

    let groups = Groups {
        isa: Isa::choose()?,
        config,
        cache,
        layer,
        first_pos,
        unit: group * dim,
    };
    match n_tokens {
        1 => groups.one_token(q, out),
        _ => groups.many_tokens(n_tokens, q, out),
    }
}

/// All groups of query heads of one call.
struct Groups<'a> {
    isa: Isa,
    config: &'a AttentionConfig,
    cache: &'a KvCache,
    layer: usize,
    first_pos: usize,
    /// Elements of a token's heads that share a key-value head; they are consecutive.
    unit: usize,
}

impl Groups<'_> {
    /// Key-value head `head`, for tokens from the `token`th on whose rows have `row` elements.
    fn group(&self, head: usize, token: usize, row: usize) -> Result<Group<'_>, KernelError> {
        Ok(Group {
            isa: self.isa,
            config: self.config,
            first_pos: self.first_pos + token,
            keys: self.cache.keys(self.layer, head)?,
            values: self.cache.values(self.layer, head)?,
            dim: self.cache.head_dim(),
            unit: self.unit,
            row,
            column: head % (row / self.unit) * self.unit,
        })
    }

    fn flops(&self, n_tokens: usize) -> usize {
        let dim = self.cache.head_dim();
        self.config.flops(dim, self.first_pos, n_tokens)
    }

    /// Threads share key-value heads, and of each head its spans of positions.
    fn one_token(&self, q: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
        let n_heads = self.cache.n_kv_heads();
        let groups: Vec<_> = (0..n_heads)
            .map(|head| self.group(head, 0, self.unit))
            .collect::<Result<_, _>>()?;
        let spans: Vec<_> = spans(self.config.visible(self.first_pos)).collect();
        let n_parts = n_heads * spans.len();
        let plan = Plan::new(n_parts, self.flops(1) / n_parts);
        let heads = q.chunks(self.unit).zip(out.chunks_mut(self.unit));
        if plan.n_parts() == 1 {
            heads
                .zip(&groups)
                .for_each(|((q, out), group)| group.attend(q, out));
            return Ok(());
        }
        let new = |_| Sums::new(self.unit, self.cache.head_dim());
        let mut sums: Vec<Sums> = (0..n_parts).map(new).collect();
        plan.run(
            "positions",
            sums.iter_mut().enumerate(),
            || (),
            |(), (part, sums)| {
                let (head, span) = (part / spans.len(), &spans[part % spans.len()]);
                groups[head].gather(&q[head * self.unit..][..self.unit], span.clone(), sums);
            },
        );
        for ((_, out), sums) in heads.zip(sums.chunks_mut(spans.len())) {
            if let [first, others @ ..] = sums {
                others.iter().for_each(|other| first.merge(other));
                first.finish();
                out.copy_from_slice(first.out());
            }
        }
        Ok(())
    }

    /// Threads share the tokens.
    fn many_tokens(&self, n_tokens: usize, q: &[f32], out: &mut [f32]) -> Result<(), KernelError> {
        let n_heads = self.cache.n_kv_heads();
        // Before threads start, because a bad head would be bad for all.
        let heads: Vec<_> = (0..n_heads)
            .map(|head| self.group(head, 0, n_heads * self.unit))
            .collect::<Result<_, _>>()?;
        let row = n_heads * self.unit;
        let plan = Plan::new(n_tokens, self.flops(n_tokens) / n_tokens);
        let parts = ranges(n_tokens, TOKENS, plan.n_parts());
        let outs = cut(out, parts.clone().map(|tokens| tokens.len() * row));
        plan.run(
            "tokens",
            parts.zip(outs),
            || (),
            |(), (tokens, out)| {
                let q = &q[tokens.start * row..tokens.end * row];
                let tiles = q.chunks(TOKENS * row).zip(out.chunks_mut(TOKENS * row));
                for (first_token, (q, out)) in tokens.step_by(TOKENS).zip(tiles) {
                    for head in &heads {
                        head.later(first_token).attend(q, out);
                    }
                }
            },
        );
        Ok(())
    }
}
