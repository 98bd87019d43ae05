//! 256-bit vectors with fused multiply-add.

use std::arch::x86_64::{
    __m256, _mm_loadu_si128, _mm256_add_ps, _mm256_cvtph_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_set1_ps, _mm256_storeu_ps,
};

use super::ymm::Ymm;
use super::{compile_integers, compile_loops, total_of_eight};
use crate::activation::Activation;
use crate::arch::all::{self, LANES, Simd};
use crate::arch::panel::{PANEL_ROWS, Panel};
use crate::arch::{integer, panel};
use crate::quant::{BlockQ8K, Matrix, Rounded, Rounded32};
use crate::simd_config::Unroll;

mod integers;

/// Proof that this CPU has AVX2, FMA and F16C.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The token, if the CPU has the instructions.
    pub(in crate::arch) fn new() -> Option<Self> {
        let has = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c");
        has.then_some(Self(()))
    }
}

impl Simd for Avx2 {
    type Vector = [__m256; 2];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::Vector {
        // SAFETY: `self` exists only where `new` found AVX2.
        unsafe { [_mm256_set1_ps(x); 2] }
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::Vector {
        let (low, high) = x.split_at(LANES / 2);
        // SAFETY: `self` exists only where `new` found AVX2; each half holds the 8 numbers read.
        unsafe {
            [
                _mm256_loadu_ps(low.as_ptr()),
                _mm256_loadu_ps(high.as_ptr()),
            ]
        }
    }

    #[inline(always)]
    fn store(self, x: Self::Vector, to: &mut [f32; LANES]) {
        let (low, high) = to.split_at_mut(LANES / 2);
        // SAFETY: `self` exists only where `new` found AVX2; each half has room for the 8 numbers.
        unsafe {
            _mm256_storeu_ps(low.as_mut_ptr(), x[0]);
            _mm256_storeu_ps(high.as_mut_ptr(), x[1]);
        }
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        // SAFETY: `self` exists only where `new` found FMA.
        unsafe {
            [
                _mm256_fmadd_ps(a[0], b[0], c[0]),
                _mm256_fmadd_ps(a[1], b[1], c[1]),
            ]
        }
    }

    #[inline(always)]
    fn widen(self, x: &[u16; LANES]) -> Self::Vector {
        let (low, high) = x.split_at(LANES / 2);
        // SAFETY: `self` exists only where `new` found F16C; each half holds the 8 numbers read.
        unsafe {
            [
                _mm256_cvtph_ps(_mm_loadu_si128(low.as_ptr().cast())),
                _mm256_cvtph_ps(_mm_loadu_si128(high.as_ptr().cast())),
            ]
        }
    }

    #[inline(always)]
    fn total(self, x: Self::Vector) -> f32 {
        // SAFETY: `self` exists only where `new` found AVX2, which includes AVX.
        unsafe { total_of_eight(_mm256_add_ps(x[0], x[1])) }
    }
}

compile_loops!(Avx2, "avx2,fma,f16c", Unroll::AVX2);
compile_integers!(Avx2, "avx2,fma,f16c", Ymm, Ymm, Unroll::AVX2);
