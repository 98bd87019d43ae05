//! The inner loops, once per instruction set.
//!
//! The loops are plain Rust in [`all`], over the few vector operations of a [`all::Simd`]; the
//! modules beside it supply those operations and compile the loops with an instruction set
//! switched on. A set is used through a token ([`Portable`], `Avx2`, …) whose constructor
//! answers `None` where the CPU lacks it, so holding the token is the proof that its functions may
//! be called. [`Isa::choose`] picks the best once per process, or the one that the environment asks
//! for.
//!
//! Integer dot products are in [`integer`] (one token) and [`panel`] (many), over the operations of
//! an [`integer::Int8`] and a [`panel::Rows16`]; all sets give the same bits, the portable one
//! too.
//!
//! Every set adds floating-point products in the same order: a dot product is [`all::LANES`] partial sums, whatever the
//! register width. So the sets with fused multiply-add agree bit for bit with each other, a GEMM
//! agrees with the GEMVs of its tokens, and no result depends on how rows or tokens were tiled
//! or spread over threads. A faster kernel that adds otherwise slots in as a method here.

mod all;
mod choice;
mod integer;
mod panel;
pub(crate) mod peak;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86_64;

pub(crate) use self::choice::Choice;
pub use self::choice::{Selection, selection};
pub(crate) use self::panel::{PANEL_ROWS, Panel};

use self::portable::Portable;
#[cfg(target_arch = "x86_64")]
use self::x86_64::{Avx2, Avx512, Avx512Vnni, AvxVnni};
use crate::activation::Activation;
use crate::quant::{BlockQ8K, Matrix, Rounded, Rounded32};

/// An instruction set that this CPU has.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Isa {
    /// What every CPU of the target has; multiply and add, each rounded.
    Portable(Portable),
    /// 256-bit vectors, fused multiply-add.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// The same with integer dot products.
    #[cfg(target_arch = "x86_64")]
    AvxVnni(AvxVnni),
    /// 512-bit vectors, fused multiply-add; integer dot products are AVX2's.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// The same with integer dot products.
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni(Avx512Vnni),
}

/// Calls one function of floating-point arithmetic, of whichever instruction set `$isa` is.
macro_rules! dispatch {
    ($isa:expr, $function:ident($($argument:expr),*)) => {
        match $isa {
            Isa::Portable(portable) => portable.$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(avx2) => avx2.$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni(vnni) => vnni.avx2().$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(avx512) => avx512.$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(vnni) => vnni.avx512().$function($($argument),*),
        }
    };
}

/// Calls one function of integer dot products, of whichever instruction set `$isa` is.
macro_rules! dispatch_integers {
    ($isa:expr, $function:ident($($argument:expr),*)) => {
        match $isa {
            Isa::Portable(portable) => portable.$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2(avx2) => avx2.$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Isa::AvxVnni(vnni) => vnni.$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512(avx512) => avx512.avx2().$function($($argument),*),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Vnni(vnni) => vnni.$function($($argument),*),
        }
    };
}

impl Isa {
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

    /// IEEE halves, given by their bits, as numbers; slices of one length.
    #[inline]
    pub(crate) fn widen(self, halves: &[u16], out: &mut [f32]) {
        debug_assert_eq!(halves.len(), out.len());
        dispatch!(self, widen(halves, out));
    }

    /// `out = activation(gate) * up`, slices of one length.
    #[inline]
    pub(crate) fn gate(self, activation: Activation, gate: &[f32], up: &[f32], out: &mut [f32]) {
        dispatch!(self, gate(activation, gate, up, out));
    }

    /// Rounds activations to blocks of 32. There are as many blocks as `out` has.
    #[inline]
    pub(crate) fn round_32(self, x: &[[f32; 32]], out: &mut [Rounded32]) {
        debug_assert_eq!(x.len(), out.len());
        dispatch_integers!(self, round_32(x, out));
    }

    /// Rounds activations to blocks of 256. There are as many blocks as `out` has.
    #[inline]
    pub(crate) fn round_256(self, x: &[[f32; 256]], out: &mut [BlockQ8K]) {
        debug_assert_eq!(x.len(), out.len());
        dispatch_integers!(self, round_256(x, out));
    }

    /// `y[i] = w[first_row + i, :] · x[token, :]`. The rows exist, the format is one with blocks, and
    /// `x` is what it takes.
    #[inline]
    pub(crate) fn gemv_rounded(
        self,
        w: &Matrix<'_>,
        first_row: usize,
        x: &Rounded,
        token: usize,
        y: &mut [f32],
    ) {
        debug_assert!(first_row + y.len() <= w.rows());
        if !y.is_empty() {
            dispatch_integers!(self, gemv_rounded(w, first_row, x, token, y));
        }
    }

    /// Unpacks `n_rows` rows, which exist and are 1 to [`PANEL_ROWS`], for [`Isa::gemm_panel`].
    #[inline]
    pub(crate) fn pack(self, w: &Matrix<'_>, first_row: usize, n_rows: usize, panel: &mut Panel) {
        debug_assert!(first_row + n_rows <= w.rows());
        dispatch_integers!(self, pack(w, first_row, n_rows, panel));
    }

    /// `out[t][r] = panel[r, :] · x[first_token + t, :]`, bit-equal to [`Isa::gemv_rounded`].
    #[inline]
    pub(crate) fn gemm_panel(
        self,
        panel: &Panel,
        x: &Rounded,
        first_token: usize,
        out: &mut [[f32; PANEL_ROWS]],
    ) {
        dispatch_integers!(self, gemm_panel(panel, x, first_token, out));
    }
}

#[cfg(test)]
mod integer_tests;
#[cfg(test)]
mod tests;
