//! x86-64: the loops over 256-bit and over 512-bit vectors, with and without instructions for
//! integer dot products.

use std::arch::x86_64::{
    __m256, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehdup_ps, _mm_movehl_ps,
    _mm256_castps256_ps128, _mm256_extractf128_ps,
};

mod avx2;
mod avx512;
mod avx512_vnni;
mod avx_vnni;
mod ymm;

pub(crate) use self::avx_vnni::AvxVnni;
pub(crate) use self::avx2::Avx2;
pub(crate) use self::avx512::Avx512;
pub(crate) use self::avx512_vnni::Avx512Vnni;

/// The methods of a token: the loops, compiled with `$features`, in the register tiles of `$unroll`.
/// The token's constructor must have found every one of the features.
macro_rules! compile_loops {
    ($token:ident, $features:literal, $unroll:expr) => {
        impl $token {
            pub(in crate::arch) fn gemv(
                self,
                w: &Matrix<'_>,
                first_row: usize,
                x: &[f32],
                y: &mut [f32],
            ) {
                #[target_feature(enable = $features)]
                fn compiled(
                    simd: $token,
                    w: &Matrix<'_>,
                    first_row: usize,
                    x: &[f32],
                    y: &mut [f32],
                ) {
                    all::gemv(simd, w, first_row, x, y);
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(self, w, first_row, x, y) }
            }

            pub(in crate::arch) fn dequantise_rows(
                self,
                w: &Matrix<'_>,
                first_row: usize,
                out: &mut [f32],
            ) {
                #[target_feature(enable = $features)]
                fn compiled(w: &Matrix<'_>, first_row: usize, out: &mut [f32]) {
                    all::dequantise_rows(w, first_row, out);
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(w, first_row, out) }
            }

            pub(in crate::arch) fn gemm_tile(
                self,
                k: usize,
                panel: &[f32],
                x: &[f32],
                out: &mut [f32],
            ) {
                #[target_feature(enable = $features)]
                fn compiled(simd: $token, k: usize, panel: &[f32], x: &[f32], out: &mut [f32]) {
                    all::gemm_tile::<_, { $unroll.rows }, { $unroll.tokens }>(
                        simd, k, panel, x, out,
                    );
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(self, k, panel, x, out) }
            }

            pub(in crate::arch) fn weighted_sums(
                self,
                weights: &[f32],
                stride: usize,
                rows: &[f32],
                cols: usize,
                out: &mut [f32],
            ) {
                #[target_feature(enable = $features)]
                fn compiled(
                    simd: $token,
                    weights: &[f32],
                    stride: usize,
                    rows: &[f32],
                    cols: usize,
                    out: &mut [f32],
                ) {
                    all::weighted_sums::<_, { $unroll.rows }, { $unroll.tokens }>(
                        simd, weights, stride, rows, cols, out,
                    );
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(self, weights, stride, rows, cols, out) }
            }

            pub(in crate::arch) fn exponentials(
                self,
                scores: &mut [f32],
                scale: f32,
                max: f32,
            ) -> (f32, f32) {
                #[target_feature(enable = $features)]
                fn compiled(scores: &mut [f32], scale: f32, max: f32) -> (f32, f32) {
                    all::exponentials(scores, scale, max)
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(scores, scale, max) }
            }

            pub(in crate::arch) fn widen(self, halves: &[u16], out: &mut [f32]) {
                #[target_feature(enable = $features)]
                fn compiled(simd: $token, halves: &[u16], out: &mut [f32]) {
                    all::widen(simd, halves, out);
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(self, halves, out) }
            }

            pub(in crate::arch) fn gate(
                self,
                kind: Activation,
                gate: &[f32],
                up: &[f32],
                out: &mut [f32],
            ) {
                #[target_feature(enable = $features)]
                fn compiled(kind: Activation, gate: &[f32], up: &[f32], out: &mut [f32]) {
                    all::gate(kind, gate, up, out);
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(kind, gate, up, out) }
            }
        }
    };
}
use compile_loops;

/// The methods of a token for integer dot products, compiled with `$features`, which the token's
/// constructor must have found: `$one` makes the operations for one token of text from it, `$many`
/// those for many, in the register tiles of `$unroll`.
macro_rules! compile_integers {
    (
        $token:ident, $features:literal, $one:expr, $many:expr, $unroll:expr
    ) => {
        impl $token {
            pub(in crate::arch) fn gemv_rounded(
                self,
                w: &Matrix<'_>,
                first_row: usize,
                x: &Rounded,
                token: usize,
                y: &mut [f32],
            ) {
                #[target_feature(enable = $features)]
                fn compiled(
                    simd: $token,
                    w: &Matrix<'_>,
                    first_row: usize,
                    x: &Rounded,
                    token: usize,
                    y: &mut [f32],
                ) {
                    integer::gemv($one(simd), w, first_row, x, token, y);
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(self, w, first_row, x, token, y) }
            }

            pub(in crate::arch) fn pack(
                self,
                w: &Matrix<'_>,
                first_row: usize,
                n_rows: usize,
                panel: &mut Panel,
            ) {
                #[target_feature(enable = $features)]
                fn compiled(
                    simd: $token,
                    w: &Matrix<'_>,
                    first_row: usize,
                    n_rows: usize,
                    panel: &mut Panel,
                ) {
                    panel::pack($one(simd), w, first_row, n_rows, panel);
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(self, w, first_row, n_rows, panel) }
            }

            pub(in crate::arch) fn gemm_panel(
                self,
                panel: &Panel,
                x: &Rounded,
                first_token: usize,
                out: &mut [[f32; PANEL_ROWS]],
            ) {
                #[target_feature(enable = $features)]
                fn compiled(
                    simd: $token,
                    panel: &Panel,
                    x: &Rounded,
                    first_token: usize,
                    out: &mut [[f32; PANEL_ROWS]],
                ) {
                    panel::gemm::<_, { $unroll.int8_tokens }, { $unroll.int8_tokens_sub_blocks }>(
                        $many(simd),
                        panel,
                        x,
                        first_token,
                        out,
                    );
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(self, panel, x, first_token, out) }
            }

            pub(in crate::arch) fn round_32(self, x: &[[f32; 32]], out: &mut [Rounded32]) {
                #[target_feature(enable = $features)]
                fn compiled(x: &[[f32; 32]], out: &mut [Rounded32]) {
                    integer::round_32(x, out);
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(x, out) }
            }

            pub(in crate::arch) fn round_256(self, x: &[[f32; 256]], out: &mut [BlockQ8K]) {
                #[target_feature(enable = $features)]
                fn compiled(x: &[[f32; 256]], out: &mut [BlockQ8K]) {
                    integer::round_256(x, out);
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(x, out) }
            }
        }
    };
}
use compile_integers;

/// The sum of eight lanes, by halving.
///
/// # Safety
/// The CPU has AVX.
#[inline(always)]
unsafe fn total_of_eight(eight: __m256) -> f32 {
    // SAFETY: AVX, and the SSE that it includes, by this function's own condition.
    unsafe {
        let four = _mm_add_ps(
            _mm256_castps256_ps128(eight),
            _mm256_extractf128_ps::<1>(eight),
        );
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}
