//! What every CPU has: arrays, left to the compiler's vectoriser.

use super::all::{self, LANES, Simd};
use super::integer;
use super::panel::{self, PANEL_ROWS, Panel};
use crate::activation::Activation;
use crate::quant::{BlockQ8K, F16, Matrix, Rounded, Rounded32};
use crate::simd_config::Unroll;

mod integers;

/// The token of the set that is always there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Portable;

impl Simd for Portable {
    type Vector = [f32; LANES];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::Vector {
        [x; LANES]
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::Vector {
        *x
    }

    #[inline(always)]
    fn store(self, x: Self::Vector, to: &mut [f32; LANES]) {
        *to = x;
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Vector, b: Self::Vector, mut c: Self::Vector) -> Self::Vector {
        for i in 0..LANES {
            c[i] += a[i] * b[i];
        }
        c
    }

    #[inline(always)]
    fn widen(self, x: &[u16; LANES]) -> Self::Vector {
        x.map(|half| F16::from_le_bytes(half.to_le_bytes()).to_f32())
    }

    #[inline(always)]
    fn total(self, x: Self::Vector) -> f32 {
        let mut eight = [0.0; 8];
        for i in 0..8 {
            eight[i] = x[i] + x[i + 8];
        }
        let mut four = [0.0; 4];
        for i in 0..4 {
            four[i] = eight[i] + eight[i + 4];
        }
        (four[0] + four[2]) + (four[1] + four[3])
    }
}

impl Portable {
    pub(super) fn gemv(self, w: &Matrix<'_>, first_row: usize, x: &[f32], y: &mut [f32]) {
        all::gemv(self, w, first_row, x, y);
    }

    pub(super) fn dequantise_rows(self, w: &Matrix<'_>, first_row: usize, out: &mut [f32]) {
        all::dequantise_rows(w, first_row, out);
    }

    pub(super) fn gemm_tile(self, k: usize, panel: &[f32], x: &[f32], out: &mut [f32]) {
        const UNROLL: Unroll = Unroll::PORTABLE;
        all::gemm_tile::<_, { UNROLL.rows }, { UNROLL.tokens }>(self, k, panel, x, out);
    }

    pub(super) fn weighted_sums(
        self,
        weights: &[f32],
        stride: usize,
        rows: &[f32],
        cols: usize,
        out: &mut [f32],
    ) {
        all::weighted_sums::<_, 1, 2>(self, weights, stride, rows, cols, out);
    }

    pub(super) fn exponentials(self, scores: &mut [f32], scale: f32, max: f32) -> (f32, f32) {
        all::exponentials(scores, scale, max)
    }

    pub(super) fn widen(self, halves: &[u16], out: &mut [f32]) {
        all::widen(self, halves, out);
    }

    pub(super) fn gate(self, kind: Activation, gate: &[f32], up: &[f32], out: &mut [f32]) {
        all::gate(kind, gate, up, out);
    }

    pub(super) fn gemv_rounded(
        self,
        w: &Matrix<'_>,
        first_row: usize,
        x: &Rounded,
        token: usize,
        y: &mut [f32],
    ) {
        integer::gemv(self, w, first_row, x, token, y);
    }

    pub(super) fn pack(self, w: &Matrix<'_>, first_row: usize, n_rows: usize, panel: &mut Panel) {
        panel::pack(self, w, first_row, n_rows, panel);
    }

    pub(super) fn gemm_panel(
        self,
        panel: &Panel,
        x: &Rounded,
        first_token: usize,
        out: &mut [[f32; PANEL_ROWS]],
    ) {
        const UNROLL: Unroll = Unroll::PORTABLE;
        panel::gemm::<_, { UNROLL.int8_tokens }, { UNROLL.int8_tokens_sub_blocks }>(
            self,
            panel,
            x,
            first_token,
            out,
        );
    }

    pub(super) fn round_32(self, x: &[[f32; 32]], out: &mut [Rounded32]) {
        integer::round_32(x, out);
    }

    pub(super) fn round_256(self, x: &[[f32; 256]], out: &mut [BlockQ8K]) {
        integer::round_256(x, out);
    }
}
