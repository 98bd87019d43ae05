//! Activations rounded to 8 bits for integer dot products: the arithmetic, and the blocks that
//! the inner loops read.
//!
//! The rounding is ggml's, bit for bit. What ggml leaves open is settled so that no bad number is
//! ever lost: a NaN or an infinity anywhere in a block makes the block's scale NaN, and with it
//! everything that is computed from the block. Where a half has no full precision for a scale (a
//! block whose largest element is below 0.0078 or above 8 million) the scale stays an `f32`: ggml
//! would have a few bits of it, or none.

use bytemuck::Zeroable;

use super::{BlockQ8K, F16};

/// 32 activations as the inner loops take them: ggml's Q8_0, unpacked.
#[derive(Debug, Clone, Copy, Zeroable)]
#[repr(C)]
pub(crate) struct Rounded32 {
    /// Scale; NaN if an element is not finite.
    pub(crate) d: f32,
    /// `d` times the sum of `qs`, for weights with a minimum.
    pub(crate) s: f32,
    /// The sum of `qs`, for weights that are stored with an offset.
    pub(crate) sum: i32,
    /// The elements, in order: -127..=127.
    pub(crate) qs: [i8; 32],
}

/// Rounded activations of several tokens, in one of the formats or both.
#[derive(Debug, Default)]
pub(crate) struct Rounded {
    blocks_32: Vec<Rounded32>,
    per_token_32: usize,
    blocks_256: Vec<BlockQ8K>,
    per_token_256: usize,
}

impl Rounded {
    /// `blocks` of `n_tokens`, token by token.
    pub(crate) fn set_blocks_32(&mut self, blocks: Vec<Rounded32>, n_tokens: usize) {
        self.per_token_32 = blocks.len() / n_tokens.max(1);
        self.blocks_32 = blocks;
    }

    /// `blocks` of `n_tokens`, token by token.
    pub(crate) fn set_blocks_256(&mut self, blocks: Vec<BlockQ8K>, n_tokens: usize) {
        self.per_token_256 = blocks.len() / n_tokens.max(1);
        self.blocks_256 = blocks;
    }

    /// The blocks of one token; none if it was not rounded so.
    #[inline(always)]
    pub(crate) fn blocks_32(&self, token: usize) -> &[Rounded32] {
        &self.blocks_32[token * self.per_token_32..][..self.per_token_32]
    }

    /// The blocks of one token; none if it was not rounded so.
    #[inline(always)]
    pub(crate) fn blocks_256(&self, token: usize) -> &[BlockQ8K] {
        &self.blocks_256[token * self.per_token_256..][..self.per_token_256]
    }
}

/// A magnitude below which 127 over it overflows; products of such numbers are zeros.
const TINY: f32 = 127.0 / f32::MAX;

impl Rounded32 {
    #[inline(always)]
    pub(crate) fn new(x: &[f32; 32]) -> Self {
        let (d, qs) = round_32(x);
        // A half with all its bits: what ggml keeps.
        let half = F16::from_f32(d).to_f32();
        let keeps = half.is_normal() && half >= F16::MIN_POSITIVE;
        let d = if keeps { half } else { d };
        let mut sum = 0;
        for q in qs {
            sum += q;
        }
        Self {
            d,
            s: d * sum as f32,
            sum,
            qs: narrow(&qs),
        }
    }
}

/// Rounded elements, which fit a byte.
#[inline(always)]
pub(super) fn narrow<const N: usize>(qs: &[i32; N]) -> [i8; N] {
    let mut out = [0; N];
    for i in 0..N {
        out[i] = qs[i] as i8;
    }
    out
}

/// `d = max|x| / 127`, `q = round(x * 127 / max|x|)`, ties to even; `d` not yet a half.
#[inline(always)]
pub(super) fn round_32(x: &[f32; 32]) -> (f32, [i32; 32]) {
    let mut qs = [0; 32];
    let max = magnitude(x);
    if max.is_nan() {
        return (max, qs);
    }
    let inverse = if max > TINY { 127.0 / max } else { 0.0 };
    for i in 0..32 {
        qs[i] = nearest(x[i] * inverse);
    }
    (max / 127.0, qs)
}

/// The first element of largest magnitude becomes -127, `q = round(x * -127 / max)`, ties to even,
/// at most 127, `d = 1 / (-127 / max)`.
#[inline(always)]
pub(crate) fn round_256(x: &[f32; 256], block: &mut BlockQ8K) {
    let max = magnitude(x);
    if max.is_nan() || max <= TINY {
        *block = Zeroable::zeroed();
        block.d = if max.is_nan() { max } else { 0.0 };
        return;
    }
    let (mut plus, mut minus) = (false, false);
    for &v in x {
        plus |= v == max;
        minus |= v == -max;
    }
    let largest = if plus && minus {
        x.iter().copied().find(|v| v.abs() == max).unwrap_or(max)
    } else if minus {
        -max
    } else {
        max
    };
    let inverse = -127.0 / largest;
    let sums = block.bsums.iter_mut().zip(block.qs.as_chunks_mut::<16>().0);
    for (x, (to_sum, to)) in x.as_chunks::<16>().0.iter().zip(sums) {
        let (mut qs, mut sum) = ([0; 16], 0);
        for i in 0..16 {
            qs[i] = nearest(inverse * x[i]).min(127);
            sum += qs[i];
        }
        *to = narrow(&qs);
        *to_sum = sum as i16;
    }
    block.d = 1.0 / inverse;
}

/// The largest magnitude; NaN if an element is not finite. As integers, magnitudes are in the same
/// order, and above infinity are the NaNs; in any order of comparing, which leaves the compiler a
/// vector.
#[inline(always)]
fn magnitude<const N: usize>(x: &[f32; N]) -> f32 {
    let mut max = 0;
    for v in x {
        max = max.max(v.to_bits() & (u32::MAX >> 1));
    }
    let max = f32::from_bits(max);
    if max.is_finite() { max } else { f32::NAN }
}

/// The nearest integer, ties to even, of a number below 2^22 (ggml's `nearest_int`): added to
/// 1.5 * 2^23 the number loses its fraction.
#[inline(always)]
fn nearest(x: f32) -> i32 {
    const SHIFT: f32 = 12_582_912.0;
    ((x + SHIFT).to_bits() as i32).wrapping_sub(SHIFT.to_bits() as i32)
}
