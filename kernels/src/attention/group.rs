//! One key-value head with the query heads that share it.

use std::cell::RefCell;
use std::ops::Range;

use super::AttentionConfig;
use crate::arch::Isa;
use crate::exp::exp;
use crate::kv_cache::Rows;

/// Keys taken at a time: a tile of them and of their values stays in the second-level cache.
const TILE: usize = 64;

/// Positions whose sums are gathered together: few enough that threads can share the positions of one
/// token, so many that merging costs little. Whole tiles.
const SPAN: usize = 4 * TILE;

/// `positions`, cut at every multiple of `length`.
fn cut_at_multiples(positions: Range<usize>, length: usize) -> impl Iterator<Item = Range<usize>> {
    let mut start = positions.start;
    std::iter::from_fn(move || {
        let end = (start / length + 1)
            .saturating_mul(length)
            .min(positions.end);
        let piece = start..end;
        start = end;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The spans that `positions` are in, as far as they are.
pub(super) fn spans(positions: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    cut_at_multiples(positions, SPAN)
}

/// The query heads of consecutive tokens that share a key-value head.
#[derive(Debug, Clone, Copy)]
pub(super) struct Group<'a> {
    pub(super) isa: Isa,
    pub(super) config: &'a AttentionConfig,
    /// The position of the first token.
    pub(super) first_pos: usize,
    pub(super) keys: Rows<'a>,
    pub(super) values: Rows<'a>,
    /// Elements of a head.
    pub(super) dim: usize,
    /// Elements of a token's heads of this group, which are consecutive.
    pub(super) unit: usize,
    /// Elements from one token to the next, in queries and outputs.
    pub(super) row: usize,
    /// Where the group's elements start in each of those rows.
    pub(super) column: usize,
}

/// What some query heads, one after the other, have gathered of the positions that they see.
#[derive(Debug, Default)]
pub(super) struct Sums {
    /// Elements of a head.
    dim: usize,
    /// Values times exponentials, `[heads, dim]`.
    out: Vec<f32>,
    /// For each head, the largest score so far and the sum of the exponentials.
    heads: Vec<(f32, f32)>,
}

impl Sums {
    /// Of `elems / dim` heads.
    pub(super) fn new(elems: usize, dim: usize) -> Self {
        let mut sums = Self::default();
        sums.clear(elems, dim);
        sums
    }

    /// Nothing yet.
    fn clear(&mut self, elems: usize, dim: usize) {
        self.dim = dim;
        self.out.clear();
        self.out.resize(elems, 0.0);
        self.heads.clear();
        self.heads.resize(elems / dim, (f32::NEG_INFINITY, 0.0));
    }

    /// Adds what was gathered of later positions.
    pub(super) fn merge(&mut self, later: &Self) {
        let heads = self.heads.iter_mut().zip(&later.heads);
        let outs = self
            .out
            .chunks_exact_mut(self.dim)
            .zip(later.out.chunks_exact(self.dim));
        for (((max, sum), &(later_max, later_sum)), (out, later_out)) in heads.zip(outs) {
            if later_sum == 0.0 {
                // Saw none of them.
            } else if *sum == 0.0 {
                (*max, *sum) = (later_max, later_sum);
                out.copy_from_slice(later_out);
            } else {
                let both = max.max(later_max);
                let (here, there) = (exp(*max - both), exp(later_max - both));
                *sum = *sum * here + later_sum * there;
                for (out, later) in out.iter_mut().zip(later_out) {
                    *out = *out * here + later * there;
                }
                *max = both;
            }
        }
    }

    /// Divides by the sums of the exponentials: what is gathered is the result.
    pub(super) fn finish(&mut self) {
        for (out, (_, sum)) in self.out.chunks_exact_mut(self.dim).zip(&self.heads) {
            let scale = 1.0 / sum;
            out.iter_mut().for_each(|out| *out *= scale);
        }
    }

    /// The result, `[heads, dim]`.
    pub(super) fn out(&self) -> &[f32] {
        &self.out
    }
}

/// What a thread needs for a group, kept from call to call.
#[derive(Default)]
struct Scratch {
    /// The group's queries, `[tokens, unit]`.
    q: Vec<f32>,
    tile: Tile,
    sums: Sums,
    of_span: Sums,
}

/// What it needs for a tile.
#[derive(Default)]
struct Tile {
    /// The tile's keys and values, where they are not kept as `f32`.
    keys: Vec<f32>,
    values: Vec<f32>,
    /// `[query heads, keys of the tile]`.
    scores: Vec<f32>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

impl Group<'_> {
    /// The same for tokens `n` later.
    pub(super) fn later(&self, n: usize) -> Self {
        Self {
            first_pos: self.first_pos + n,
            ..*self
        }
    }

    /// `q` and `out` are the tokens' rows, of which this group has a column.
    pub(super) fn attend(&self, q: &[f32], out: &mut [f32]) {
        SCRATCH.with_borrow_mut(|scratch| {
            let columns = self.column..self.column + self.unit;
            let Scratch {
                q: own,
                tile,
                sums,
                of_span,
            } = scratch;
            own.clear();
            for row in q.chunks_exact(self.row) {
                own.extend_from_slice(&row[columns.clone()]);
            }
            sums.clear(own.len(), self.dim);
            let mut spans = spans(self.config.seen(self.first_pos, q.len() / self.row));
            // The first needs no merging.
            if let Some(first) = spans.next() {
                self.gather_with(own, first, tile, sums);
            }
            for span in spans {
                of_span.clear(own.len(), self.dim);
                self.gather_with(own, span, tile, of_span);
                sums.merge(of_span);
            }
            sums.finish();
            let rows = out.chunks_exact_mut(self.row);
            for (row, out) in rows.zip(sums.out().chunks_exact(self.unit)) {
                row[columns.clone()].copy_from_slice(out);
            }
        });
    }

    /// Adds to `sums` what the heads `q`, `[tokens, unit]`, see of the positions of one span.
    pub(super) fn gather(&self, q: &[f32], span: Range<usize>, sums: &mut Sums) {
        SCRATCH.with_borrow_mut(|scratch| self.gather_with(q, span, &mut scratch.tile, sums));
    }

    fn gather_with(&self, q: &[f32], span: Range<usize>, tile: &mut Tile, sums: &mut Sums) {
        for positions in cut_at_multiples(span, TILE) {
            self.add_tile(q, positions, tile, sums);
        }
    }

    /// Adds what the heads see of the keys at `positions`.
    fn add_tile(&self, q: &[f32], positions: Range<usize>, tile: &mut Tile, sums: &mut Sums) {
        let (isa, dim, n_keys) = (self.isa, self.dim, positions.len());
        let Sums { out, heads, .. } = sums;
        let keys = self.keys.tile(isa, positions.clone(), &mut tile.keys);
        let values = self.values.tile(isa, positions.clone(), &mut tile.values);
        let scores = &mut tile.scores;
        scores.resize(heads.len() * n_keys, 0.0);
        isa.gemm_tile(dim, keys, q, scores);
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
