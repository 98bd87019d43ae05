//! x86-64: the plain loops, compiled again for wider vectors.

mod avx2;
mod avx512;

pub(crate) use self::avx2::Avx2;
pub(crate) use self::avx512::Avx512;

/// The methods of a token: the plain loops, compiled with `$features`, in register tiles of
/// `$rows` by `$tokens`. The token's constructor must have found every one of the features.
macro_rules! compile_loops {
    ($token:ident, $features:literal, $rows:literal x $tokens:literal) => {
        impl $token {
            pub(in crate::arch) fn gemv(
                self,
                w: &Matrix<'_>,
                first_row: usize,
                x: &[f32],
                y: &mut [f32],
            ) {
                #[target_feature(enable = $features)]
                fn compiled(w: &Matrix<'_>, first_row: usize, x: &[f32], y: &mut [f32]) {
                    all::gemv::<Fused>(w, first_row, x, y);
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(w, first_row, x, y) }
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
                fn compiled(k: usize, panel: &[f32], x: &[f32], out: &mut [f32]) {
                    all::gemm_tile::<Fused, $rows, $tokens>(k, panel, x, out);
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(k, panel, x, out) }
            }

            pub(in crate::arch) fn weighted_sum(
                self,
                weights: &[f32],
                rows: &[f32],
                out: &mut [f32],
            ) {
                #[target_feature(enable = $features)]
                fn compiled(weights: &[f32], rows: &[f32], out: &mut [f32]) {
                    all::weighted_sum::<Fused>(weights, rows, out);
                }
                // SAFETY: `self` exists only where `new` found the features.
                unsafe { compiled(weights, rows, out) }
            }
        }
    };
}
use compile_loops;
