//! The inner loops, once per instruction set.
//!
//! The loops are plain Rust in [`all`], over the few vector operations of a [`all::Simd`]; the
//! modules beside it supply those operations and compile the loops with an instruction set
//! switched on. A set is used through a token ([`Portable`], `Avx2`, `Avx512`) whose constructor
//! answers `None` where the CPU lacks it, so holding the token is the proof that its functions may
//! be called. [`Isa::detect`] picks the best once per process.
//!
//! Every set adds in the same order: a dot product is [`all::LANES`] partial sums, whatever the
//! register width. So the sets with fused multiply-add agree bit for bit with each other, a GEMM
//! agrees with the GEMVs of its tokens, and no result depends on how rows or tokens were tiled
//! or spread over threads. A faster kernel that adds otherwise slots in as a method here.

mod all;
pub(crate) mod peak;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::sync::OnceLock;

use self::portable::Portable;
#[cfg(target_arch = "x86_64")]
use self::x86_64::{Avx2, Avx512};
use crate::activation::Activation;
use crate::quant::Matrix;

/// An instruction set that this CPU has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Isa {
    /// What every CPU of the target has; multiply and add, each rounded.
    Portable(Portable),
    /// 256-bit vectors, fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// 512-bit vectors, fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

/// Calls one function of whichever instruction set `$isa` is.
macro_rules! dispatch {
    ($isa:expr, $function:ident($($argument:expr),*)) => {
        match $isa {
            Isa::Portable(portable) => portable.$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(avx2) => avx2.$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(avx512) => avx512.$function($($argument),*),
        }
    };
}

impl Isa {
    /// The best set of this CPU.
    pub(crate) fn detect() -> Self {
        static BEST: OnceLock<Isa> = OnceLock::new();
        *BEST.get_or_init(|| Self::available().pop().unwrap_or(Self::Portable(Portable)))
    }

    /// Every set that this CPU has, the best last.
    fn available() -> Vec<Self> {
        let mut sets = vec![Self::Portable(Portable)];
        #[cfg(target_arch = "x86_64")]
        {
            sets.extend(Avx2::new().map(Self::Avx2));
            sets.extend(Avx512::new().map(Self::Avx512));
        }
        sets
    }

    /// `a · b`. Both have the same length.
    #[inline]
    pub(crate) fn dot(self, a: &[f32], b: &[f32]) -> f32 {
        let mut out = [0.0];
        self.gemm_tile(a.len(), a, b, &mut out);
        out[0]
    }

    /// `y[i] = w[first_row + i, :] · x`, the rows dequantised piece by piece into the cache.
    ///
    /// `x` holds `w.cols()` elements and the rows exist.
    #[inline]
    pub(crate) fn gemv(self, w: &Matrix<'_>, first_row: usize, x: &[f32], y: &mut [f32]) {
        debug_assert!(x.len() == w.cols() && first_row + y.len() <= w.rows());
        dispatch!(self, gemv(w, first_row, x, y));
    }

    /// Dequantises `out.len() / w.cols()` rows, which exist.
    #[inline]
    pub(crate) fn dequantise_rows(self, w: &Matrix<'_>, first_row: usize, out: &mut [f32]) {
        debug_assert!(first_row + out.len() / w.cols() <= w.rows());
        dispatch!(self, dequantise_rows(w, first_row, out));
    }

    /// `out[t, r] = panel[r, :] · x[t, :]`: `panel` is `[n_rows, k]`, `x` is `[n_tokens, k]`, `out`
    /// is `[n_tokens, n_rows]`.
    #[inline]
    pub(crate) fn gemm_tile(self, k: usize, panel: &[f32], x: &[f32], out: &mut [f32]) {
        debug_assert_eq!((panel.len() / k.max(1)) * (x.len() / k.max(1)), out.len());
        dispatch!(self, gemm_tile(k, panel, x, out));
    }

    /// `out[i, c] += Σ weights[i, r] * rows[r, c]`: `rows` is `[n, cols]`, `out` `[n_out, cols]`, and
    /// the weights of output `i` are the `n` from `i * stride` on.
    #[inline]
    pub(crate) fn weighted_sums(
        self,
        weights: &[f32],
        stride: usize,
        rows: &[f32],
        cols: usize,
        out: &mut [f32],
    ) {
        debug_assert!(rows.len().is_multiple_of(cols) && out.len().is_multiple_of(cols));
        dispatch!(self, weighted_sums(weights, stride, rows, cols, out));
    }

    /// A step of an online softmax: each `x` of `scores` becomes `exp(scale * x - m)`, with `m` the
    /// largest of `max` and all of `scale * x`, NaN passed over. Returns `m` and the sum of the
    /// exponentials.
    #[inline]
    pub(crate) fn exponentials(self, scores: &mut [f32], scale: f32, max: f32) -> (f32, f32) {
        dispatch!(self, exponentials(scores, scale, max))
    }

    /// `out = activation(gate) * up`, slices of one length.
    #[inline]
    pub(crate) fn gate(self, activation: Activation, gate: &[f32], up: &[f32], out: &mut [f32]) {
        dispatch!(self, gate(activation, gate, up, out));
    }
}

#[cfg(test)]
mod tests;
