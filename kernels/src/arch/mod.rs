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
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use std::sync::OnceLock;

use self::portable::Portable;
#[cfg(target_arch = "x86_64")]
use self::x86_64::{Avx2, Avx512};
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

    /// `out[c] += Σ weights[r] * rows[r, c]`, rows of `out.len()`.
    #[inline]
    pub(crate) fn weighted_sum(self, weights: &[f32], rows: &[f32], out: &mut [f32]) {
        debug_assert_eq!(weights.len() * out.len(), rows.len());
        dispatch!(self, weighted_sum(weights, rows, out));
    }
}

#[cfg(test)]
mod tests;
