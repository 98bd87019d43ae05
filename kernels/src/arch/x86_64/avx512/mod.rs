//! 512-bit vectors with fused multiply-add.

use std::arch::x86_64::{
    __m512, _mm256_add_ps, _mm256_loadu_si256, _mm512_castps512_ps256, _mm512_cvtph_ps,
    _mm512_extractf32x8_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_set1_ps, _mm512_storeu_ps,
};

use super::{Avx2, compile_loops, total_of_eight};
use crate::activation::Activation;
use crate::arch::all::{self, LANES, Simd};
use crate::quant::Matrix;
use crate::simd_config::Unroll;

/// Proof that this CPU has AVX-512 (F, BW, DQ, VL), and all that [`Avx2`] is proof of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512(Avx2);

impl Avx512 {
    /// The token, if the CPU has the instructions.
    pub(in crate::arch) fn new() -> Option<Self> {
        let avx2 = Avx2::new()?;
        let has = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        has.then_some(Self(avx2))
    }

    /// The set that this one extends.
    pub(in crate::arch) fn avx2(self) -> Avx2 {
        self.0
    }
}

impl Simd for Avx512 {
    type Vector = __m512;

    #[inline(always)]
    fn splat(self, x: f32) -> Self::Vector {
        // SAFETY: `self` exists only where `new` found AVX-512F.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::Vector {
        // SAFETY: `self` exists only where `new` found AVX-512F; `x` holds the 16 numbers read.
        unsafe { _mm512_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, x: Self::Vector, to: &mut [f32; LANES]) {
        // SAFETY: `self` exists only where `new` found AVX-512F; `to` has room for 16 numbers.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn mul_add(self, a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        // SAFETY: `self` exists only where `new` found AVX-512F.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn widen(self, x: &[u16; LANES]) -> Self::Vector {
        // SAFETY: `self` exists only where `new` found AVX-512F; `x` holds the 16 halves read.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast())) }
    }

    #[inline(always)]
    fn total(self, x: Self::Vector) -> f32 {
        // SAFETY: `self` exists only where `new` found AVX-512F and DQ, which include AVX.
        unsafe {
            let (low, high) = (_mm512_castps512_ps256(x), _mm512_extractf32x8_ps::<1>(x));
            total_of_eight(_mm256_add_ps(low, high))
        }
    }
}

compile_loops!(
    Avx512,
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c",
    Unroll::AVX_512
);
