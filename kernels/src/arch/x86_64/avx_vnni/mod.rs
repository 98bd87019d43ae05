//! 256-bit vectors with instructions for integer dot products, of CPUs without AVX-512.

use std::arch::x86_64::*;

use super::ymm::{Multiply, Ymm};
use super::{Avx2, compile_integers};
use crate::arch::panel::{PANEL_ROWS, Panel};
use crate::arch::{integer, panel};
use crate::quant::{BlockQ8K, Matrix, Rounded, Rounded32};
use crate::simd_config::Unroll;

/// Proof that this CPU has AVX-VNNI, and all that [`Avx2`] is proof of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AvxVnni(Avx2);

impl AvxVnni {
    /// The token, if the CPU has the instructions.
    pub(in crate::arch) fn new() -> Option<Self> {
        let avx2 = Avx2::new()?;
        is_x86_feature_detected!("avxvnni").then_some(Self(avx2))
    }

    /// The set that this one extends.
    pub(in crate::arch) fn avx2(self) -> Avx2 {
        self.0
    }
}

impl Multiply for AvxVnni {
    const SIGNED_OFFSET: i32 = 128;

    #[inline(always)]
    fn dot(self, sums: __m256i, w: __m256i, a: __m256i) -> __m256i {
        // SAFETY: `self` exists only where `new` found AVX-VNNI.
        unsafe { _mm256_dpbusd_avx_epi32(sums, w, a) }
    }

    #[inline(always)]
    fn dot_signed(self, sums: __m256i, w: __m256i, a: __m256i) -> __m256i {
        // SAFETY: `self` exists only where `new` found AVX2. Flipping the top bit adds 128.
        unsafe { self.dot(sums, _mm256_xor_si256(w, _mm256_set1_epi8(i8::MIN)), a) }
    }

    #[inline(always)]
    fn dot_pairs(self, sums: __m256i, x: __m256i, y: __m256i) -> __m256i {
        // SAFETY: `self` exists only where `new` found AVX-VNNI.
        unsafe { _mm256_dpwssd_avx_epi32(sums, x, y) }
    }
}

compile_integers!(AvxVnni, "avx2,fma,f16c,avxvnni", Ymm, Ymm, Unroll::AVX2);
